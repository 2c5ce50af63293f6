"""Batches of one matrix beside batches of two: epochs with ``layers=["spliced"]`` and without.

python benchmarks/layers.py [--cells N] [--genes N] [--nonzeros N] [--rounds N] [--compression NAME]
    [--shards]

Rounds alternate, an epoch of each case after the other; a ratio is that of one round, and the
median is printed with the smallest and largest: of the clock, and of the processor time of all
threads, which other programs on the machine change less; then the ratio of the least processor
times of all rounds, which they change least. The first epoch of each is not counted.
The layer has as many non-zeros as X, in other genes. Beside it the same with ``obsm=["X_pca"]`` of
50 columns, and the layer alone. At the end the same of ``DataLoader(MappedCollection)`` with
``layers_keys=["X", "spliced"]`` and ``["X"]``, in random order, of dense rows and of sparse ones.
"""

import argparse
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import anndata
import numpy as np
from random_counts import random_counts
from torch.utils.data import DataLoader

import cellfeed as cf

BATCH = 1024


def write_files(folder: pathlib.Path, options: argparse.Namespace) -> list[pathlib.Path]:
    """Four files of a quarter of the cells each."""
    paths = [folder / f"{number}.h5ad" for number in range(4)]
    for number, path in enumerate(paths):
        shape = (options.cells // 4, options.genes, options.nonzeros)
        adata = anndata.AnnData(random_counts(2 * number, *shape))
        adata.layers["spliced"] = random_counts(2 * number + 1, *shape)
        random = np.random.default_rng(number)
        adata.obsm["X_pca"] = random.normal(size=(shape[0], 50)).astype(np.float32)
        adata.write_h5ad(path, compression=options.compression)
    return paths


def look_at(matrix) -> None:
    """One value of each page, so that nothing lazy stays unread."""
    values = matrix.values() if getattr(matrix, "is_sparse_csr", False) else matrix
    np.asarray(getattr(values, "data", values)).ravel()[::1024].sum()


def seconds_of_epoch(loader: cf.Loader) -> tuple[float, float]:
    """By the clock and the processor; each matrix of each batch is looked at."""
    start, work = time.perf_counter(), time.process_time()
    for batch in loader:
        for matrix in (batch.x, *batch.layers.values(), *batch.obsm.values()):
            look_at(matrix)
    return time.perf_counter() - start, time.process_time() - work


def seconds_of_mapped_epoch(loader: DataLoader) -> tuple[float, float]:
    """The same of a MappedCollection's batches, which are dicts."""
    start, work = time.perf_counter(), time.process_time()
    for batch in loader:
        for name in batch.keys() & {"X", "spliced"}:
            look_at(batch[name])
    return time.perf_counter() - start, time.process_time() - work


def shown(ratios: list[float]) -> str:
    """The median, the smallest and the largest."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def report(what: str, seconds: Callable, loaders: dict, options: argparse.Namespace) -> None:
    """Epochs of all in turn, and a line of each."""
    rounds = []
    for _ in range(1 + options.rounds):
        rounds.append({name: seconds(own) for name, own in loaders.items()})
    del rounds[0]
    for name in loaders:
        clock = [found[name][0] / found["X alone"][0] for found in rounds]
        processor = [found[name][1] / found["X alone"][1] for found in rounds]
        least = [min(found[case][1] for found in rounds) for case in (name, "X alone")]
        rate = options.cells / statistics.median(found[name][0] for found in rounds)
        print(
            f"{what}, {name}: {rate:,.0f} cells/s; "
            f"time {shown(clock)}, processor {shown(processor)}, "
            f"least {least[0] / least[1]:.2f}",
            flush=True,
        )


def main() -> None:
    """Measure, and print a line a case."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--genes", type=int, default=18_000)
    parser.add_argument("--nonzeros", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compression", choices=["gzip", "lzf"])
    parser.add_argument("--shards", action="store_true", help="of all files, with both matrices")
    options = parser.parse_args()
    cases = {
        "X alone": {},
        "X and a layer": {"layers": ["spliced"]},
        "X and obsm of 50 columns": {"obsm": ["X_pca"]},
        "the layer alone": {"layer": "spliced"},
    }
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(pathlib.Path(folder), options)
        if options.shards:
            out = pathlib.Path(folder) / "shards"
            paths = cf.convert_to_shards(cf.open(paths, layers=["spliced"], obsm=["X_pca"]), out)
        print(f"{options.cells} cells, {options.nonzeros} non-zeros a matrix, batch {BATCH}")
        for output, block in (("csr", 1), ("csr", 64), ("dense", 64)):
            loaders = {
                name: cf.Loader(
                    cf.open(paths, **matrices),
                    cf.BlockShuffling(block),
                    BATCH,
                    output=output,
                    memory_budget="512MB",
                )
                for name, matrices in cases.items()
            }
            report(f"{output}, blocks of {block}", seconds_of_epoch, loaders, options)
        for output in ("dense", "csr"):
            loaders = {
                name: DataLoader(
                    cf.MappedCollection(paths, layers_keys=keys, output=output), BATCH, shuffle=True
                )
                for name, keys in (("X alone", ["X"]), ("X and a layer", ["X", "spliced"]))
            }
            report(f"MappedCollection, {output}", seconds_of_mapped_epoch, loaders, options)


if __name__ == "__main__":
    main()
