"""Dense float32 .h5ad, true random, beside a copy of the same rows and AnnData backed: one run.

python benchmarks/dense.py [--cells N] [--genes N] [--rounds N]

Rounds alternate; a ratio is that of one round, and the median of the rounds is printed. The copy is
numpy's `take` (memcpy row by row, no GIL) of the same rows in the same order out of a memory map of
the file's own bytes, on as many threads, into memory that is used again: no reader that fills
batches can be faster. AnnData backed reads the same rows in two ways: a batch at once, its rows
sorted, which is the fastest that h5py offers; and cell by cell, as a map-style data set of PyTorch
does.
"""

import argparse
import pathlib
import statistics
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import anndata
import h5py
import numpy as np
import pandas as pd

import cellfeed as cf

BATCH = 1024
BACKED_BATCHES = 4
BACKED_CELLS = 512
BATCHES, CELLS = "AnnData backed", "AnnData, cell by cell"


def write_file(path: pathlib.Path, n_cells: int, n_genes: int) -> None:
    """A contiguous X of counts."""
    anndata.AnnData(
        obs=pd.DataFrame(index=np.arange(n_cells).astype(str)),
        var=pd.DataFrame(index=[f"gene{i}" for i in range(n_genes)]),
    ).write_h5ad(path)
    random = np.random.default_rng(0)
    with h5py.File(path, "r+") as file:
        if "X" in file:
            del file["X"]
        x = file.create_dataset("X", (n_cells, n_genes), np.float32)
        x.attrs["encoding-type"], x.attrs["encoding-version"] = "array", "0.2.0"
        for begin in range(0, n_cells, 4096):
            end = min(n_cells, begin + 4096)
            x[begin:end] = random.poisson(0.3, (end - begin, n_genes))


def map_x(path: pathlib.Path) -> np.ndarray:
    """The matrix where it lies in the file."""
    with h5py.File(path) as file:
        x = file["X"]
        return np.memmap(path, x.dtype, "r", x.id.get_offset(), x.shape)


class Clock:
    """Cells a second, of wall time and of processor time of all threads."""

    def __init__(self) -> None:
        self.start = time.perf_counter(), time.process_time()

    def rates(self, n: int) -> tuple[float, float]:
        return n / (time.perf_counter() - self.start[0]), n / (time.process_time() - self.start[1])


def touch(x: np.ndarray) -> None:
    """One value of each memory page, as a consumer would."""
    x.reshape(-1)[::1024].sum()


def read_loader(
    cells: cf.CellCollection, threads: int, seed: int, **options
) -> tuple[float, float]:
    """Cells a second of an epoch after the first batch."""
    loader = cf.Loader(cells, cf.BlockShuffling(1), BATCH, seed=seed, threads=threads, **options)
    batches = iter(loader)
    touch(next(batches).to_numpy())
    clock, n = Clock(), 0
    for batch in batches:
        touch(batch.x if isinstance(batch.x, np.ndarray) else batch.x.data)
        n += len(batch)
    return clock.rates(n)


def copy_rows(x: np.ndarray, rows: np.ndarray, threads: int) -> tuple[float, float]:
    """Cells a second of copying alone."""
    out = [np.empty((BATCH, x.shape[1]), x.dtype) for _ in range(2 * threads)]
    for buffer in out:
        buffer[:] = 0

    def copy(number: int) -> int:
        part = rows[number * BATCH : (number + 1) * BATCH]
        np.take(x, part, axis=0, out=out[number % len(out)][: len(part)], mode="clip")
        return len(part)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(copy, range(threads)))
        clock = Clock()
        n = sum(pool.map(copy, range(len(rows) // BATCH)))
        return clock.rates(n)


def read_backed(path: pathlib.Path, rows: np.ndarray, is_by_cell: bool) -> tuple[float, float]:
    """Cells a second of AnnData backed; see above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata = anndata.read_h5ad(path, backed="r")
    clock, n = Clock(), 0
    if is_by_cell:
        for row in rows[:BACKED_CELLS]:
            touch(np.asarray(adata[row].X))
            n += 1
    else:
        for number in range(BACKED_BATCHES):
            part = np.sort(rows[number * BATCH : (number + 1) * BATCH])
            touch(np.asarray(adata.X[part]))
            n += len(part)
    rates = clock.rates(n)
    adata.file.close()
    return rates


def measure(path: pathlib.Path, rounds: int, threads: int) -> None:
    cells, x = cf.open(path), map_x(path)
    x.sum()
    genes = [f"gene{i}" for i in range(0, x.shape[1], 2)]
    kinds = {
        "dense": {"output": "dense"},
        "dense, half of the genes": {"output": "dense", "transforms": [cf.SelectGenes(genes)]},
        "dense, normalised, log1p": {
            "output": "dense",
            "transforms": [cf.NormalizeTotal(1e4), cf.Log1p()],
        },
        "csr": {"output": "csr"},
    }
    rates: dict[str, list[tuple[float, float]]] = {
        name: [] for name in [*kinds, "memcpy", BATCHES, CELLS]
    }
    for seed in range(rounds):
        rows = np.random.default_rng(seed).permutation(len(x))
        for name, options in kinds.items():
            rates[name].append(read_loader(cells, threads, seed, **options))
        rates["memcpy"].append(copy_rows(x, rows, threads))
        rates[BATCHES].append(read_backed(path, rows, is_by_cell=False))
        rates[CELLS].append(read_backed(path, rows, is_by_cell=True))

    def ratio(name: str, other: str, clock: int) -> float:
        pairs = zip(rates[name], rates[other], strict=True)
        return statistics.median(a[clock] / b[clock] for a, b in pairs)

    print(f"{len(x)} cells x {x.shape[1]} genes, float32, true random, {threads} threads")
    print("in brackets: by processor time, which tells the same on a busy machine")
    for name, found in rates.items():
        rate = statistics.median(wall for wall, _ in found)
        print(
            f"{name:26} {rate:12,.0f} cells/s {rate * x[0].nbytes / 1e9:6.2f} GB/s"
            f" {ratio(name, 'memcpy', 0):6.2f} ({ratio(name, 'memcpy', 1):.2f}) of memcpy"
            f" {ratio(name, BATCHES, 0):6.1f} ({ratio(name, BATCHES, 1):.1f}) x AnnData backed,"
            f" {ratio(name, CELLS, 0):.0f} ({ratio(name, CELLS, 1):.0f}) x cell by cell"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--genes", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "dense.h5ad"
        write_file(path, options.cells, options.genes)
        measure(path, options.rounds, options.threads)


if __name__ == "__main__":
    main()
