"""The packed cache of a gzip .h5ad: what keeping rows costs, and what it gives.

python benchmarks/packed.py [--cells N] [--genes N] [--nonzeros N] [--rounds N] [--block-size N]

A round reads, in the same order of cells, an epoch of the file without the cache and one that fills
an empty cache (which of them first changes from round to round); then the second epoch of that run,
one of a run that finds the cache full, and one of shards of the same cells, each after an epoch
that is not timed. Rounds alternate; a ratio is that of one round, and the median of the rounds is
printed. Processor time counts all threads, those that write the cache among them.
"""

import argparse
import pathlib
import shutil
import tempfile
import time

import anndata
import numpy as np
import scipy.sparse

import cellfeed as cf


def write_file(path: pathlib.Path, n_cells: int, n_genes: int, per_cell: int) -> None:
    """Counts at random genes, gzip."""
    random = np.random.default_rng(0)
    genes = np.sort(random.integers(0, n_genes, (n_cells, per_cell), dtype=np.int32), axis=1)
    counts = random.geometric(0.4, genes.size).astype(np.float32)
    starts = np.arange(0, genes.size + 1, per_cell)
    x = scipy.sparse.csr_matrix((counts, genes.ravel(), starts), shape=(n_cells, n_genes))
    x.sum_duplicates()
    anndata.AnnData(x).write_h5ad(path, compression="gzip")


def epoch(cells: cf.CellCollection, block_size: int, seed: int) -> np.ndarray:
    """Seconds of wall and of processor time."""
    loader = cf.Loader(cells, cf.BlockShuffling(block_size), 1024, seed=seed)
    start = np.array([time.perf_counter(), time.process_time()])
    n = sum(len(batch.index) for batch in loader)
    took = np.array([time.perf_counter(), time.process_time()]) - start
    assert n == len(cells)
    return took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--nonzeros", type=int, default=1000, help="of a cell")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--block-size", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "cells.h5ad"
        write_file(path, arguments.cells, arguments.genes, arguments.nonzeros)
        shards, cache = pathlib.Path(folder) / "shards", pathlib.Path(folder) / "cache"
        cf.convert_to_shards(path, shards)
        ratios = {
            "first epoch over one without the cache, in time": [],
            "second epoch over shards, in rate": [],
            "epoch of the next run over shards, in rate": [],
            "epoch without the cache over shards, in rate": [],
        }
        for seed in range(arguments.rounds):

            def read(cells: cf.CellCollection, seed: int = seed) -> np.ndarray:
                return epoch(cells, arguments.block_size, seed)

            def second(cells: cf.CellCollection, seed: int = seed) -> np.ndarray:
                epoch(cells, arguments.block_size, seed + 1000)
                return epoch(cells, arguments.block_size, seed)

            without = read(cf.open(path)) if seed % 2 else None
            with cf.open(path, cache_mode="packed", cache_dir=cache) as filling:
                with_cache, again = read(filling), read(filling)
                filling.packed_shards()
            without = read(cf.open(path)) if without is None else without
            next_run = second(cf.open(path, cache_mode="packed", cache_dir=cache))
            of_shards = second(cf.open(shards))
            shutil.rmtree(cache)
            figures = with_cache / without, of_shards / again, of_shards / next_run
            for found, figure in zip(ratios.values(), [*figures, of_shards / without], strict=True):
                found.append(figure)
        for text, found in ratios.items():
            wall, processor = np.median(found, axis=0)
            print(f"{text}: {wall:.2f} wall, {processor:.2f} of processors")


if __name__ == "__main__":
    main()
