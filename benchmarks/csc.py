"""A CSC .h5ad made into rows, beside scipy's tocsr in memory; then its rows beside those of shards.

python benchmarks/csc.py [--cells N] [--genes N] [--nonzeros N] [--rounds N] [--compression NAME]

Rounds alternate; a ratio is that of one round, and the median of the rounds is printed. The rival
reads the file with anndata, calls tocsr() and writes it again: it holds the matrix twice, and we
1 GB at most. Processor time counts all threads of either.
"""

import argparse
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import anndata
from random_counts import random_counts

import cellfeed as cf

OURS = """
import sys, cellfeed as cf
cf.convert_to_shards(sys.argv[1], sys.argv[2], shard_size=10**9, memory_budget="1GB")
"""
SCIPY = """
import sys, anndata
adata = anndata.read_h5ad(sys.argv[1])
adata.X = adata.X.tocsr()
adata.write_h5ad(sys.argv[2])
"""
IMPORTS = {OURS: "import cellfeed", SCIPY: "import anndata"}


def write_file(path: pathlib.Path, n_cells: int, n_genes: int, per_cell: int, compression) -> int:
    """Counts at random genes; returns the non-zeros."""
    x = random_counts(0, n_cells, n_genes, per_cell)
    anndata.AnnData(x.tocsc()).write_h5ad(path, compression=compression)
    return x.nnz


def run(code: str, *arguments) -> tuple[float, float]:
    """Seconds of wall and processor time of a Python of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def work_seconds(code: str, *arguments) -> tuple[float, float]:
    """Without what starting Python and its imports take."""
    start, whole = run(IMPORTS[code]), run(code, *arguments)
    return max(1e-6, whole[0] - start[0]), max(1e-6, whole[1] - start[1])


def row_rate(cells: cf.CellCollection, seed: int) -> float:
    """Cells a second of processor time, true random."""
    loader = cf.Loader(cells, cf.BlockShuffling(block_size=1), 1024, seed=seed)
    start = time.process_time()
    n = sum(len(batch.index) for batch in loader)
    return n / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=60_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--nonzeros", type=int, default=1000, help="of a cell")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compression", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "columns.h5ad"
        nnz = write_file(
            path, arguments.cells, arguments.genes, arguments.nonzeros, arguments.compression
        )
        rates, ratios, row_ratios = [], [], []
        for round_ in range(arguments.rounds):
            shards = pathlib.Path(folder) / f"shards{round_}"
            ours = work_seconds(OURS, path, shards)
            rival = work_seconds(SCIPY, path, pathlib.Path(folder) / "rows.h5ad")
            rates.append([nnz / seconds / 1e6 for seconds in ours])
            ratios.append([theirs / mine for mine, theirs in zip(ours, rival, strict=True)])
            cached = row_rate(cf.open(path), round_)
            row_ratios.append(cached / row_rate(cf.open(shards), round_))
        wall, processor = map(statistics.median, zip(*rates, strict=True))
        times = list(map(statistics.median, zip(*ratios, strict=True)))
        print(f"{nnz:,} non-zeros, 1 GB: {wall:.1f} M/s, {processor:.1f} M/s of processor time")
        print(f"scipy's time over ours: {times[0]:.2f} wall, {times[1]:.2f} of processors")
        print(f"rows of the CSC file over rows of shards: {statistics.median(row_ratios):.2f}")


if __name__ == "__main__":
    main()
