"""A Matrix Market folder made into rows, beside readers of the same text: one run.

python benchmarks/mtx.py [--cells N] [--genes N] [--rounds N]

Non-zeros a second, by 2 threads and within 1 GB, of `cellfeed` writing its cache of rows, of
fast_matrix_market where it is installed and of scipy's `mmread`, which keep all of it in memory.
Lines by cell, as 10x writes them, are read once; those by gene twice, to be sorted. Rounds
alternate; medians are printed, by wall time and by processor time of all threads, which tells the
same on a busy machine.
"""

import argparse
import gzip
import pathlib
import shutil
import statistics
import tempfile
import time
import warnings

import numpy as np
import scipy.io

import cellfeed as cf

try:
    import fast_matrix_market
except ImportError:
    fast_matrix_market = None
PER_CELL = 1_000


def write_folder(folder: pathlib.Path, n_cells: int, n_genes: int) -> int:
    """Counts by cell, as Cell Ranger writes them, plain and gzipped; and by gene."""
    random = np.random.default_rng(0)
    step = n_genes // PER_CELL
    plain, zipped, by_gene = folder / "plain", folder / "gzip", folder / "by gene"
    for made in (plain, zipped, by_gene):
        made.mkdir()
        (made / "barcodes.tsv").write_text("".join(f"ACGT{i:012d}-1\n" for i in range(n_cells)))
        features = (f"ENSG{i}\tgene{i}\tGene Expression\n" for i in range(n_genes))
        (made / "features.tsv").write_text("".join(features))
    with open(plain / "matrix.mtx", "wb") as file:
        file.write(b"%%MatrixMarket matrix coordinate integer general\n")
        file.write(b"%d %d %d\n" % (n_genes, n_cells, n_cells * PER_CELL))
        first = np.arange(PER_CELL) * step + 1
        for cell in range(n_cells):
            genes = first + random.integers(0, step, PER_CELL)
            counts = random.geometric(0.5, PER_CELL)
            lines = zip(genes.tolist(), counts.tolist(), strict=True)
            file.write("".join(f"{g} {cell + 1} {n}\n" for g, n in lines).encode())
    with (
        open(plain / "matrix.mtx", "rb") as text,
        gzip.open(zipped / "matrix.mtx.gz", "wb", 1) as to,
    ):
        shutil.copyfileobj(text, to, 1 << 20)
    write_by_gene(plain / "matrix.mtx", by_gene / "matrix.mtx")
    return n_cells * PER_CELL


def write_by_gene(path: pathlib.Path, other: pathlib.Path) -> None:
    """The same entries in another order."""
    with open(path, "rb") as text, open(other, "wb") as to:
        to.write(text.readline() + text.readline())
        entries = np.fromfile(text, np.int32, sep=" ")
        entries = entries.reshape(-1, 3)
        for part in np.array_split(entries[np.argsort(entries[:, 0], kind="stable")], 100):
            to.write("".join(f"{g} {c} {n}\n" for g, c, n in part.tolist()).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        entries = write_folder(folder, options.cells, options.genes)

        def make_rows(kind: str) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                cf.open(folder / kind, cache_dir=folder / "cache")
            shutil.rmtree(folder / "cache")

        text = folder / "plain" / "matrix.mtx"
        readers = {
            "cellfeed, plain": lambda: make_rows("plain"),
            "cellfeed, gzip": lambda: make_rows("gzip"),
            "cellfeed, by gene": lambda: make_rows("by gene"),
            "scipy.io.mmread": lambda: scipy.io.mmread(text),
        }
        if fast_matrix_market is not None:
            readers["fast_matrix_market"] = lambda: fast_matrix_market.mmread(text, parallelism=2)
        rates: dict[str, list[tuple[float, float]]] = {reader: [] for reader in readers}
        for _ in range(options.rounds):
            for reader, read in readers.items():
                start = time.perf_counter(), time.process_time()
                read()
                ends = time.perf_counter(), time.process_time()
                rates[reader].append(
                    tuple(entries / (b - a) for a, b in zip(start, ends, strict=True))
                )
        print(f"{entries:,} non-zeros; in brackets: by processor time")
        base = rates["scipy.io.mmread"]
        for reader, found in rates.items():
            wall, processor = (statistics.median(rate) / 1e6 for rate in zip(*found, strict=True))
            ratios = [
                statistics.median(a[i] / b[i] for a, b in zip(found, base, strict=True))
                for i in (0, 1)
            ]
            print(
                f"{reader:20} {wall:6.1f} ({processor:.1f}) M/s"
                f" {ratios[0]:6.2f} ({ratios[1]:.2f}) of scipy.io.mmread"
            )


if __name__ == "__main__":
    main()
