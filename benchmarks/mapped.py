"""cellfeed's MappedCollection beside lamindb's and AnnCollection, over four files of cells.

python benchmarks/mapped.py [--cells N] [--genes N] [--nonzeros N] [--rounds N] [--batches N]

In one process and in turn: batches of ``DataLoader(batch_size=1024, shuffle=True)``, and rows
``collection[i]`` in random order, of plain files and of gzipped ones; also cells of ``cf.Loader``
as CSR in the same truly random order; a ratio is that of one round, and the median is printed with
the smallest and largest. Then cellfeed alone: an outer join of files whose genes differ against
files whose genes are the same, weighted against unweighted sampling with the weights of
``get_label_weights``, and a filter over three columns of many cells. Rivals that are not
installed are named and left out.
"""

import argparse
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import anndata
import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch.utils.data import DataLoader, WeightedRandomSampler

import cellfeed as cf

BATCH = 1024


def write_files(folder: pathlib.Path, options: argparse.Namespace, *, differ: bool, **how):
    """Four files of a quarter of the cells each; genes differ in a tenth of their names."""
    paths = []
    for number in range(4):
        random = np.random.default_rng(number)
        n = options.cells // 4
        genes = random.integers(0, options.genes, (n, options.nonzeros), dtype=np.int32)
        genes.sort(axis=1)
        values = random.geometric(0.4, genes.size).astype(np.float32)
        starts = np.arange(0, genes.size + 1, options.nonzeros)
        x = scipy.sparse.csr_matrix((values, genes.ravel(), starts), shape=(n, options.genes))
        x.sum_duplicates()
        labels = random.choice([f"type {i}" for i in range(30)], n, p=skewed(30))
        names = [f"gene{g}" for g in range(options.genes)]
        if differ:
            names = [f"{name}-{number}" if g % 10 == 0 else name for g, name in enumerate(names)]
        obs = pd.DataFrame(
            {"cell_type": pd.Categorical(labels), "n_counts": np.asarray(x.sum(axis=1)).ravel()},
            index=[f"{number}-{i}" for i in range(n)],
        )
        paths.append(folder / f"{'differ' if differ else 'same'}{number}.h5ad")
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
    batches = ann_collection_batches(paths)
    found = [
        (cells_per_second(loader_of(ours), 20 * few), cells_per_second(batches, few))
        for _ in range(options.rounds)
    ]
    ratio(f"{kind}, DataLoader of dense rows / AnnCollection", found)


def epoch_rate(cells, **how) -> float:
    """Cells a second of one epoch in blocks of 64."""
    loader = cf.Loader(cells, cf.BlockShuffling(64), BATCH, **how)
    start = time.perf_counter()
    for batch in loader:
        batch.x.data[::1024].sum()
    return len(cells) / (time.perf_counter() - start)


def joins(same, differ, options: argparse.Namespace) -> None:
    """What joining costs, the epochs in turn."""
    one, four = cf.open(same), cf.open(differ, join="outer")
    epoch_rate(one), epoch_rate(four)
    found = [(epoch_rate(four), epoch_rate(one)) for _ in range(options.rounds)]
    ratio("outer join of 4 gene sets / one gene set, CSR", found)


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
        same = write_files(home, options, differ=False)
        beside_rivals("plain", same, options)
        joins(same, write_files(home, options, differ=True), options)
        weighted(same, options)
        for path in home.glob("*.h5ad"):
            path.unlink()
        beside_rivals("gzip", write_files(home, options, differ=False, compression="gzip"), options)
    if options.filtered:
        filters(options.filtered, options.rounds)


if __name__ == "__main__":
    main()
