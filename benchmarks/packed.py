"""The packed cache of a gzip .h5ad: what keeping rows costs, and what it gives.

python benchmarks/packed.py [--cells N] [--genes N] [--nonzeros N] [--rounds N] [--block-size N]

Each round reads an epoch of the file without the cache, one that fills an empty cache, one in
another run over the full cache, and one of shards of the same cells; the order of cells is the
same, by its seed. A round also times the second epoch of the run that filled the cache. Rounds
alternate; a ratio is that of one round, and the median of the rounds is printed.
"""

import argparse
import pathlib
import shutil
import statistics
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


def seconds(cells: cf.CellCollection, block_size: int, seed: int) -> float:
    """What an epoch takes."""
    loader = cf.Loader(cells, cf.BlockShuffling(block_size), 1024, seed=seed)
    start = time.perf_counter()
    n = sum(len(batch.index) for batch in loader)
    took = time.perf_counter() - start
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
        first, same_run, next_run, plain = [], [], [], []
        for seed in range(arguments.rounds):

            def epoch(cells: cf.CellCollection, seed: int = seed) -> float:
                return seconds(cells, arguments.block_size, seed)

            without = epoch(cf.open(path))
            with cf.open(path, cache_mode="packed", cache_dir=cache) as filling:
                with_cache, second = epoch(filling), epoch(filling)
            kept = epoch(cf.open(path, cache_mode="packed", cache_dir=cache))
            of_shards = epoch(cf.open(shards))
            shutil.rmtree(cache)
            first.append(with_cache / without)
            same_run.append(of_shards / second)
            next_run.append(of_shards / kept)
            plain.append(of_shards / without)
        print(f"first epoch over one without the cache, in time: {statistics.median(first):.2f}")
        print(f"second epoch over shards, in rate: {statistics.median(same_run):.2f}")
        print(f"epoch of the next run over shards: {statistics.median(next_run):.2f}")
        print(f"epoch without the cache over shards: {statistics.median(plain):.2f}")


if __name__ == "__main__":
    main()
