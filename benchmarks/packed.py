"""The packed cache of a gzip .h5ad: what keeping rows costs, and what it gives.

python benchmarks/packed.py [--cells N] [--genes N] [--nonzeros N] [--rounds N] [--block-size N]
    [--form dense] [--output dense]

A round has a process of its own for each of: three epochs that begin with an empty cache, one of
the file without the cache, three over the full cache, and three of shards of the same cells, all in
the same order of cells. Epochs are compared with those that come as late in their process. Which
comes first changes from round to round; a ratio is that of one round, and the median of the rounds
is printed. Processor time counts all threads, those that write the cache among them.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

import anndata
import numpy as np
from random_counts import random_counts

import cellfeed as cf


def write_file(path: pathlib.Path, n_cells: int, n_genes: int, per_cell: int, form: str) -> None:
    """Counts at random genes, gzip."""
    x = random_counts(0, n_cells, n_genes, per_cell)
    anndata.AnnData(x.toarray() if form == "dense" else x).write_h5ad(path, compression="gzip")


EPOCHS = """
import sys, time, cellfeed as cf
path, cache, output, n_epochs, block_size, seed = *sys.argv[1:4], *map(int, sys.argv[4:])
options = {"cache": "rows", "cache_dir": cache} if cache else {}
cells = cf.open(path, **options)
for epoch in range(n_epochs):
    loader = cf.Loader(cells, cf.BlockShuffling(block_size), 1024, seed=seed + epoch, output=output)
    start = time.perf_counter(), time.process_time()
    n = sum(len(batch.index) for batch in loader)
    print(time.perf_counter() - start[0], time.process_time() - start[1])
    assert n == len(cells)
if cache:
    cells.packed_shards()
"""


def seconds(
    path: pathlib.Path, cache: pathlib.Path | str, output: str, n_epochs: int, *more: int
) -> np.ndarray:
    """Of each epoch of a new process: seconds of wall and of processor time."""
    command = [sys.executable, "-c", EPOCHS, path, cache, output, n_epochs, *more]
    done = subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, text=True)
    return np.array(
        [[float(number) for number in line.split()] for line in done.stdout.split("\n") if line]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--nonzeros", type=int, default=1000, help="of a cell")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--block-size", type=int, default=64)
    parser.add_argument("--form", choices=["sparse", "dense"], default="sparse", help="of the file")
    parser.add_argument("--output", choices=["csr", "dense"], default="csr", help="of batches")
    arguments = parser.parse_args()
    output = arguments.output
    ratios: dict[str, list[np.ndarray]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "cells.h5ad"
        write_file(path, arguments.cells, arguments.genes, arguments.nonzeros, arguments.form)
        shards, cache = pathlib.Path(folder) / "shards", pathlib.Path(folder) / "cache"
        cf.convert_to_shards(path, shards)
        for seed in range(arguments.rounds):
            order = (arguments.block_size, seed)
            runs = {
                "filling": lambda order=order: seconds(path, cache, output, 3, *order),
                "plain": lambda order=order: seconds(path, "", output, 1, *order),
                "shards": lambda order=order: seconds(shards, "", output, 3, *order),
            }
            names = [*runs][seed % 3 :] + [*runs][: seed % 3]
            found = {name: runs[name]() for name in names}
            full = seconds(path, cache, output, 3, *order)
            shutil.rmtree(cache)
            figures = {
                "first epoch over one without the cache, in time": found["filling"][0]
                / found["plain"][0],
                "its second epoch over shards, in rate": found["shards"][1] / found["filling"][1],
                "its third": found["shards"][2] / found["filling"][2],
                "full cache over shards, in rate": found["shards"][2] / full[2],
                "without the cache over shards, in rate": found["shards"][0] / found["plain"][0],
            }
            for text, figure in figures.items():
                ratios.setdefault(text, []).append(figure)
    for text, of_rounds in ratios.items():
        wall, processor = np.median(of_rounds, axis=0)
        print(f"{text}: {wall:.2f} wall, {processor:.2f} of processors")


if __name__ == "__main__":
    main()
