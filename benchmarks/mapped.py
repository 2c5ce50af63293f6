"""cellfeed's MappedCollection beside lamindb's and AnnCollection, over four files of cells.

python benchmarks/mapped.py [--cells N] [--genes N] [--nonzeros N] [--rounds N] [--batches N]

In one process and in turn: batches of ``DataLoader(batch_size=1024, shuffle=True)``, dense and
sparse, and rows ``collection[i]`` in random order, of plain files and of gzipped ones; also cells
of ``cf.Loader`` as CSR in the same truly random order; a ratio is that of one round, and the median
is printed with the smallest and largest. Then cellfeed alone: an outer join of files, and of
shards, whose genes differ against such that have all of the joined genes, by the clock and by the
processor time of all threads; weighted against unweighted sampling with the weights of
``get_label_weights``; and a filter over three columns of many cells. Rivals that are not installed
are named and left out.

Of the joined files a tenth of the genes is each file's own. ``sorted``: every file has its genes in
the order of their names, so that columns keep their order in the join; ``shuffled``: in another
order, which all files share, as files in the order of the genome do; ``kept``: the same files, by
``genes=`` in an order that keeps that of each (docs/guide.md).
"""

import argparse
import functools
import graphlib
import itertools
import pathlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable

import anndata
import numpy as np
import pandas as pd
import scipy.sparse
import torch
from random_counts import random_counts
from torch.utils.data import DataLoader, WeightedRandomSampler

import cellfeed as cf

BATCH = 1024


def gene_names(kind: str, file: int, n: int) -> list[str]:
    """Of one file: those of all files, or with a tenth of its own."""
    order = np.random.default_rng(1).permutation(n) if kind == "shuffled" else np.arange(n)
    if kind in ("same", "wide"):
        return [f"gene{g:06d}" for g in order]
    return [f"gene{g:06d}-{file}" if g % 10 == 0 else f"gene{g:06d}" for g in order]


def write_files(folder: pathlib.Path, options: argparse.Namespace, kind: str = "same", **how):
    """Four files of a quarter of the cells each; ``wide`` has as many genes as the joins."""
    paths = []
    for number in range(4):
        random = np.random.default_rng(number)
        n = options.cells // 4
        x = random_counts(number, n, options.genes, options.nonzeros)
        labels = random.choice([f"type {i}" for i in range(30)], n, p=skewed(30))
        if kind == "wide":
            x.resize(n, options.genes + 3 * len(range(0, options.genes, 10)))
        names = gene_names(kind, number, x.shape[1])
        obs = pd.DataFrame(
            {"cell_type": pd.Categorical(labels), "n_counts": np.asarray(x.sum(axis=1)).ravel()},
            index=[f"{number}-{i}" for i in range(n)],
        )
        paths.append(folder / f"{kind}{number}.h5ad")
        anndata.AnnData(x, obs, pd.DataFrame(index=names)).write_h5ad(paths[-1], **how)
    return paths


def skewed(n: int) -> np.ndarray:
    """Shares of labels, of which some are rare."""
    shares = 1.0 / np.arange(1, n + 1)
    return shares / shares.sum()


def cells_per_second(batches: Callable[[], object], n: int) -> float:
    """Of the first n batches; the very first is not counted."""
    taken = iter(batches())
    next(taken)
    start = time.perf_counter()
    cells = sum(batch["X"].shape[0] for _, batch in zip(range(n), taken, strict=False))
    return cells / (time.perf_counter() - start)


def rows_per_second(dataset, n: int) -> float:
    """Of ``dataset[i]`` in random order."""
    rows = np.random.default_rng(0).integers(0, len(dataset), n + 20).tolist()
    for row in rows[:20]:
        dataset[row]
    start = time.perf_counter()
    for row in rows[20:]:
        dataset[row]
    return n / (time.perf_counter() - start)


def ratio(name: str, rounds: list[tuple[float, float]]) -> None:
    """Print the median of the first of each pair over the second."""
    ratios = [ours / theirs for ours, theirs in rounds]
    ours, theirs = (statistics.median(found) for found in zip(*rounds, strict=True))
    print(
        f"{name}: {ours:,.0f} against {theirs:,.0f} a second, "
        f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})",
        flush=True,
    )


def loader_of(dataset, **how) -> Callable[[], DataLoader]:
    """A DataLoader of a map-style data set."""
    how = how or {"shuffle": True}
    return lambda: DataLoader(dataset, batch_size=BATCH, **how)


def lamindb_collection(paths):
    """lamindb's class over the files; None where it is not installed."""
    try:
        from lamindb.core import MappedCollection
    except Exception as error:  # its set-up fails in many ways
        print(f"lamindb is not installed: {error}")
        return None
    return MappedCollection([str(path) for path in paths], obs_keys=["cell_type"], join="inner")


def ann_collection_batches(paths) -> Callable[[], object]:
    """AnnCollection over backed files, whole batches of sorted random rows."""
    from anndata.experimental import AnnCollection

    backed = [anndata.read_h5ad(path, backed="r") for path in paths]
    collection = AnnCollection(backed, join_vars="inner", harmonize_dtypes=False, label="file")

    def batches():
        order = np.random.default_rng(1).permutation(len(collection))
        for begin in range(0, len(order), BATCH):
            view = collection[np.sort(order[begin : begin + BATCH])]
            yield {"X": view.X, "cell_type": view.obs["cell_type"]}

    return batches


def beside_rivals(kind: str, paths, options: argparse.Namespace) -> None:
    """Batches and rows of the same files."""
    ours = cf.MappedCollection(paths, obs_keys=["cell_type"], join="inner")
    theirs = lamindb_collection(paths)
    few = options.batches
    if theirs is not None:
        found = [
            (
                cells_per_second(loader_of(ours), 20 * few),
                cells_per_second(loader_of(theirs), few),
            )
            for _ in range(options.rounds)
        ]
        ratio(f"{kind}, DataLoader of dense rows / lamindb", found)
        sparse = cf.MappedCollection(paths, obs_keys=["cell_type"], join="inner", output="csr")
        found = [
            (
                cells_per_second(loader_of(sparse), 20 * few),
                cells_per_second(loader_of(theirs), few),
            )
            for _ in range(options.rounds)
        ]
        ratio(f"{kind}, DataLoader of sparse rows / lamindb", found)
        csr = cf.open(paths, obs=["cell_type"])

        def csr_batches():
            for batch in cf.Loader(csr, cf.BlockShuffling(1), BATCH):
                yield {"X": np.empty(batch.x.shape[0]), "x": batch.x}

        found = [
            (cells_per_second(csr_batches, 20 * few), cells_per_second(loader_of(theirs), few))
            for _ in range(options.rounds)
        ]
        ratio(f"{kind}, Loader of CSR, true random / lamindb", found)
        rows = [
            (rows_per_second(ours, 2000), rows_per_second(theirs, 300))
            for _ in range(options.rounds)
        ]
        ratio(f"{kind}, collection[i] / lamindb", rows)
        rows = [
            (rows_per_second(sparse, 2000), rows_per_second(theirs, 300))
            for _ in range(options.rounds)
        ]
        ratio(f"{kind}, collection[i] of sparse rows / lamindb", rows)
    batches = ann_collection_batches(paths)
    found = [
        (cells_per_second(loader_of(ours), 20 * few), cells_per_second(batches, few))
        for _ in range(options.rounds)
    ]
    ratio(f"{kind}, DataLoader of dense rows / AnnCollection", found)


def kept_order(paths) -> list[str]:
    """The genes of any file, none past another of its file."""
    union = graphlib.TopologicalSorter()
    for path in paths:
        for gene, next_gene in itertools.pairwise(cf.open(path).var_names):
            union.add(next_gene, gene)
    return list(union.static_order())


def epoch_rates(paths, options: argparse.Namespace, output: str, block: int, genes=None):
    """Cells a second of one epoch, by the clock and by the processor; of few, where dense."""
    cells = cf.open(paths, genes=genes) if genes else cf.open(paths, join="outer")
    loader = cf.Loader(cells, cf.BlockShuffling(block), BATCH, output=output)
    next(iter(loader))
    start, work, n = time.perf_counter(), time.process_time(), 0
    for batch in loader:
        n += len(batch)
        np.asarray(getattr(batch.x, "data", batch.x)).ravel()[::1024].sum()
        if output == "dense" and n >= options.cells // 4:
            break
    return n / (time.perf_counter() - start), n / (time.process_time() - work)


def mapped_rates(paths, options: argparse.Namespace, output: str):
    """The same of a DataLoader over a MappedCollection."""
    dataset = cf.MappedCollection(paths, join="outer", output=output)
    taken = iter(DataLoader(dataset, batch_size=BATCH, shuffle=True))
    next(taken)
    start, work = time.perf_counter(), time.process_time()
    n = sum(
        batch["X"].shape[0] for batch, _ in zip(taken, range(20 * options.batches), strict=False)
    )
    return n / (time.perf_counter() - start), n / (time.process_time() - work)


def as_shards(paths: list[pathlib.Path]) -> list[pathlib.Path]:
    """The same cells as packed shards, a directory a file."""
    made = [path.with_suffix(".shards") for path in paths]
    for path, folder in zip(paths, made, strict=True):
        cf.convert_to_shards(path, folder)
    return made


def joins(home: pathlib.Path, options: argparse.Namespace) -> None:
    """What joining costs, the epochs in turn."""
    wide = write_files(home, options, "wide")
    wide_shards = as_shards(wide)
    blocks, rows = (functools.partial(epoch_rates, block=block) for block in (64, 1))
    for kind in ("sorted", "shuffled"):
        paths = write_files(home, options, kind)
        shards = as_shards(paths)
        cases = (
            ("Loader, blocks of 64", blocks, paths, wide),
            ("Loader, true random", rows, paths, wide),
            ("Loader of shards, blocks of 64", blocks, shards, wide_shards),
            ("Loader of shards, true random", rows, shards, wide_shards),
            ("MappedCollection", mapped_rates, paths, wide),
        )
        for output, (name, rates, joined, one) in itertools.product(("csr", "dense"), cases):
            rounds = [
                (rates(joined, options, output), rates(one, options, output))
                for _ in range(options.rounds)
            ]
            for place, clock in enumerate(("clock", "processor")):
                found = [(ours[place], theirs[place]) for ours, theirs in rounds]
                ratio(f"outer join, {kind}, {output}, {name}, by the {clock}", found)
        if kind == "shuffled":
            kept_joins(paths, wide, shards, wide_shards, options)
        for path in paths:
            path.unlink()
        for folder in shards:
            shutil.rmtree(folder)


def kept_joins(paths, wide, shards, wide_shards, options: argparse.Namespace) -> None:
    """Sparse rows of the shuffled files, their genes in an order that keeps that of each."""
    genes = kept_order(paths)
    for name, joined, one in (("files", paths, wide), ("shards", shards, wide_shards)):
        for block in (64, 1):
            rounds = [
                (
                    epoch_rates(joined, options, "csr", block, genes),
                    epoch_rates(one, options, "csr", block),
                )
                for _ in range(options.rounds)
            ]
            for place, clock in enumerate(("clock", "processor")):
                found = [(ours[place], theirs[place]) for ours, theirs in rounds]
                ratio(f"outer join, kept, csr, {name}, blocks of {block}, by the {clock}", found)


def weighted(paths, options: argparse.Namespace) -> None:
    """Weighted random sampling end to end against unweighted true random."""
    dataset = cf.MappedCollection(paths, obs_keys=["cell_type"])
    weights = dataset.get_label_weights("cell_type")
    sampler = WeightedRandomSampler(torch.from_numpy(weights), len(dataset))
    n = 20 * options.batches
    found = [
        (
            cells_per_second(loader_of(dataset, sampler=sampler), n),
            cells_per_second(loader_of(dataset), n),
        )
        for _ in range(options.rounds)
    ]
    ratio("MappedCollection, weighted / unweighted", found)
    cells = cf.open(paths, obs=["cell_type"])

    def batches(strategy):
        for batch in cf.Loader(cells, strategy, BATCH):
            yield {"X": np.empty(batch.x.shape[0])}

    drawn = cf.BlockWeightedSampling(weights=weights, block_size=1)
    found = [
        (
            cells_per_second(lambda: batches(drawn), n),
            cells_per_second(lambda: batches(cf.BlockShuffling(1)), n),
        )
        for _ in range(options.rounds)
    ]
    ratio("Loader of CSR, weighted / unweighted", found)


def filters(n: int, rounds: int) -> None:
    """Three columns of many cells in memory."""
    random = np.random.default_rng(0)
    obs = pd.DataFrame(
        {
            "tissue": pd.Categorical.from_codes(
                random.integers(0, 50, n), [f"t{i}" for i in range(50)]
            ),
            "donor": pd.Categorical.from_codes(
                random.integers(0, 900, n), [f"d{i}" for i in range(900)]
            ),
            "n_counts": random.integers(0, 50_000, n),
        },
        index=pd.RangeIndex(n).astype(str),
    )
    cells = cf.open(anndata.AnnData(scipy.sparse.csr_matrix((n, 1), dtype=np.float32), obs))
    where = "tissue in ['t3', 't4', 't5'] and donor != 'd7' and n_counts > 500"
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        found = len(cells.filter(where))
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    expected = len(obs.query(where))
    pandas = time.perf_counter() - start
    assert found == expected
    print(f"filter of {n:,} cells: {statistics.median(times):.2f} s; pandas' query {pandas:.2f} s")


def main() -> None:
    """Measure, and print a line a case."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=200_000)
    parser.add_argument("--genes", type=int, default=18_000)
    parser.add_argument("--nonzeros", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--batches", type=int, default=3, help="of rivals; ours has 20 times as many"
    )
    parser.add_argument("--filtered", type=int, default=10_000_000, help="cells of the filter")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        same = write_files(home, options)
        beside_rivals("plain", same, options)
        weighted(same, options)
        joins(home, options)
        for path in home.glob("*.h5ad"):
            path.unlink()
        beside_rivals("gzip", write_files(home, options, compression="gzip"), options)
    if options.filtered:
        filters(options.filtered, options.rounds)


if __name__ == "__main__":
    main()
