"""What cloud_rivals.py times: a program that reads cells of a bucket, in an environment of its own.

python benchmarks/cloud_readers.py make PROGRAM FOLDER    # from FOLDER/cells, to FOLDER/bucket
python benchmarks/cloud_readers.py read PROGRAM URL BLOCK SECONDS

Every program hands over CSR batches of 512, epoch after epoch, in an order that it shuffles. Cells
are counted from the first batch of a read to the first batch of a later one, once so many seconds
have passed: a program that reads much at a time has neither a read for nothing nor one too many.
Mosaic, which copies whole shards and has them by its second epoch, is timed over all of the first.
What is imported and opened does not count. The last line that is written is JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

BATCH = 512
# Of each batch its cells and their entries.
Batches = Iterator[tuple[int, int]]


class Program:
    @staticmethod
    def cells_a_read(_block: int) -> int:
        """0: the first epoch is timed."""
        return BATCH


class Cellfeed(Program):
    """Packed shards."""

    @staticmethod
    def open(_url: str, block: int) -> Callable[[], Batches]:
        import cellfeed as cf

        loader = cf.Loader(cf.open("s3://bucket/shards"), cf.BlockShuffling(block), BATCH, seed=0)
        return lambda: ((len(batch.index), len(batch.x.indices)) for batch in loader)


class Annbatch(Program):
    """annbatch's pre-shuffled collection, with zarr's own pipeline, as it says for stores that are
    not local, over obstore. As many chunks of zarr are under way as cellfeed has requests."""

    under_way = 64

    @staticmethod
    def cells_a_read(block: int) -> int:
        """The default is 32 slices of 512; of single cells fewer, still 4,096 chunks at once."""
        return 16384 if block > 1 else 2048

    @staticmethod
    def make(folder: pathlib.Path) -> None:
        import numpy as np
        from annbatch import DatasetCollection

        collection = DatasetCollection(folder / "bucket" / "cells.zarr", mode="a")
        collection.add_adatas([folder / "cells.h5ad"], rng=np.random.default_rng(0))

    @classmethod
    def open(cls, url: str, block: int) -> Callable[[], Batches]:
        import annbatch
        import numpy as np
        import obstore.store
        import zarr

        zarr.config.set({"async.concurrency": cls.under_way})
        bucket = obstore.store.S3Store(
            "bucket",
            prefix="cells.zarr",
            endpoint=url,
            region="us-east-1",
            skip_signature=True,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )
        group = zarr.open_group(zarr.storage.ObjectStore(bucket, read_only=True), mode="r")
        loader = annbatch.Loader(
            chunk_size=block,
            preload_nchunks=cls.cells_a_read(block) // block,
            batch_size=BATCH,
            shuffle=True,
            rng=np.random.default_rng(0),
        )
        loader.use_collection(annbatch.DatasetCollection(group))
        return lambda: ((batch["X"].shape[0], batch["X"].nnz) for batch in loader)


class Mosaic(Program):
    """Mosaic StreamingDataset: shards of 64 MB, zstd, copied whole to a local folder by the worker
    that wants one first. Its shuffle (py1e) spreads samples over shards; it has no blocks."""

    workers = 2

    @staticmethod
    def cells_a_read(_block: int) -> int:
        return 0

    @staticmethod
    def make(folder: pathlib.Path) -> None:
        import numpy as np
        from streaming import MDSWriter

        starts, genes, values = (
            np.load(folder / "cells" / f"{name}.npy", mmap_mode="r")
            for name in ("indptr", "indices", "data")
        )
        columns = {"genes": "ndarray:int32", "values": "ndarray:float32"}
        out = str(folder / "bucket" / "mds")
        with MDSWriter(out=out, columns=columns, compression="zstd") as writer:
            for begin, end in itertools.pairwise(starts):
                writer.write({"genes": genes[begin:end], "values": values[begin:end]})

    @classmethod
    def open(cls, url: str, block: int) -> Callable[[], Batches]:
        import torch
        from streaming import StreamingDataset

        os.environ["S3_ENDPOINT_URL"] = url
        local = tempfile.TemporaryDirectory()

        def batches() -> Batches:
            dataset = StreamingDataset(
                remote="s3://bucket/mds", local=local.name, shuffle=True, batch_size=BATCH
            )
            for stream in dataset.streams:  # else workers share its connection, and take parts of
                stream._downloader.clean_up()  # each other's answers
            loader = torch.utils.data.DataLoader(
                dataset, BATCH, num_workers=cls.workers, collate_fn=to_csr
            )
            for starts, genes, _ in loader:
                yield len(starts) - 1, len(genes)

        return batches


def to_csr(cells: list[dict[str, Any]]) -> tuple[Any, Any, Any]:
    """Tensors, which workers hand over in shared memory."""
    import numpy as np
    import torch

    starts = np.cumsum([0, *(len(cell["genes"]) for cell in cells)])
    arrays = (np.concatenate([cell[name] for cell in cells]) for name in ("genes", "values"))
    return torch.from_numpy(starts), *map(torch.from_numpy, arrays)


PROGRAMS = {"cellfeed": Cellfeed, "annbatch": Annbatch, "mosaic": Mosaic}


def read(program: type[Program], url: str, block: int, seconds: float) -> dict[str, float]:
    batches = program.open(url, block)
    a_read = program.cells_a_read(block)
    timed = time_epoch(batches) if a_read == 0 else time_reads(batches, a_read, seconds)
    return dict(zip(("cells", "entries", "seconds"), timed, strict=True))


def time_epoch(batches: Callable[[], Batches]) -> tuple[int, int, float]:
    start = time.perf_counter()
    cells, entries = map(sum, zip(*batches(), strict=True))
    return cells, entries, time.perf_counter() - start


def time_reads(
    batches: Callable[[], Batches], a_read: int, seconds: float
) -> tuple[int, int, float]:
    start = None
    cells = entries = 0
    while True:
        in_epoch = 0
        for n_cells, n_entries in batches():
            if in_epoch % a_read == 0:  # the first batch of a read
                now = time.perf_counter()
                start = now if start is None else start
                if now - start > seconds:
                    return cells, entries, now - start
            in_epoch += n_cells
            cells += n_cells
            entries += n_entries


def main() -> None:
    what, name, where = sys.argv[1:4]
    program = PROGRAMS[name]
    if what == "make":
        program.make(pathlib.Path(where))
        print(json.dumps({}))
    else:
        print(json.dumps(read(program, where, int(sys.argv[4]), float(sys.argv[5]))))


if __name__ == "__main__":
    main()
