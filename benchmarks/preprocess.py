"""Preprocessing beside scanpy: normalise, log1p and 2,000 highly variable genes of a plain .h5ad.

python benchmarks/preprocess.py [--cells N] [--genes N] [--nonzeros N] [--top N] [--rounds N]

Each run is a process of its own: its wall time, the processor time of all its threads and the most
memory it ever had. scanpy reads all cells into memory; its time is given up to the finished matrix,
and with writing it to an .h5ad. cellfeed writes shards, with 2 threads. Rounds alternate; medians
are printed. The genes found and the values are compared once.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import anndata
import h5py
import numpy as np

import cellfeed as cf

CELLS_A_STEP = 10_000
SCANPY = """
import sys, time, warnings
warnings.simplefilter("ignore")
import anndata, scanpy as sc
start = time.perf_counter()
adata = anndata.read_h5ad(sys.argv[1])
top, flavor = int(sys.argv[3]), sys.argv[4]
if flavor == "seurat_v3":
    sc.pp.highly_variable_genes(adata, n_top_genes=top, flavor=flavor)
sc.pp.normalize_total(adata, target_sum=1e4)
sc.pp.log1p(adata)
if flavor == "seurat":
    sc.pp.highly_variable_genes(adata, n_top_genes=top, flavor=flavor)
adata = adata[:, adata.var["highly_variable"]].copy()
ready = time.perf_counter()
adata.write_h5ad(sys.argv[2])
print(ready - start, time.perf_counter() - start)
"""
CELLFEED = """
import sys, time
import cellfeed as cf
start = time.perf_counter()
cf.preprocess(sys.argv[1], sys.argv[2], n_top_genes=int(sys.argv[3]), hvg_flavor=sys.argv[4],
              threads=2)
print(time.perf_counter() - start)
"""


def write_atlas(path: pathlib.Path, n_cells: int, n_genes: int, n_nonzeros: int) -> None:
    """Counts of genes with very different means, cells in steps, so that memory is not needed."""
    random = np.random.default_rng(0)
    weights = random.lognormal(0, 1.5, n_genes)
    weights /= weights.sum()
    # Genes that a cell has: those drawn from the cumulative weights, each once.
    edges = np.cumsum(weights)
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        x = file.create_group("X")
        x.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0"})
        x.attrs["shape"] = np.array([n_cells, n_genes], np.int64)
        data = x.create_dataset("data", (0,), np.float32, maxshape=(None,), chunks=(1 << 20,))
        indices = x.create_dataset("indices", (0,), np.int32, maxshape=(None,), chunks=(1 << 20,))
        indptr = [0]
        for begin in range(0, n_cells, CELLS_A_STEP):
            n = min(CELLS_A_STEP, n_cells - begin)
            drawn = np.searchsorted(edges, random.random((n, n_nonzeros)) * edges[-1])
            drawn = np.minimum(drawn, n_genes - 1) + np.arange(n)[:, None] * n_genes
            places, counts = np.unique(drawn, return_counts=True)
            counts *= random.geometric(0.6, len(counts))
            ends = np.searchsorted(places, np.arange(1, n + 1) * n_genes) + indptr[-1]
            indptr.extend(ends.tolist())
            for dataset, values in ((data, counts), (indices, places % n_genes)):
                dataset.resize((indptr[-1],))
                dataset[indptr[-1] - len(values) :] = values
        x.create_dataset("indptr", data=np.array(indptr, np.int64))
        for name, prefix, size in (("obs", "cell", n_cells), ("var", "gene", n_genes)):
            group = file.create_group(name)
            group.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0"})
            group.attrs["_index"] = "_index"
            group.attrs.create("column-order", np.array([], h5py.string_dtype()))
            names = [f"{prefix}{i}" for i in range(size)]
            index = group.create_dataset("_index", data=names, dtype=h5py.string_dtype())
            index.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})


def run(program: str, *words: object) -> dict[str, float]:
    """Seconds as the program prints them, and what the process took altogether."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    printed = [float(word) for word in child.stdout.read().split()]
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = status
    if status != 0:
        raise SystemExit(f"a run failed: {words}")
    return {
        "ready": printed[0],
        "written": printed[-1],
        "processor": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1000,
    }


def require_same(shards: pathlib.Path, file: pathlib.Path) -> None:
    """The genes and, of every hundredth cell, the values of both."""
    cells, expected = cf.open(shards), anndata.read_h5ad(file)
    assert list(cells.var_names) == list(expected.var_names), "other genes than scanpy's"
    rows = np.arange(0, cells.n_obs, 100)
    np.testing.assert_allclose(
        cells[rows].x.toarray(), expected.X[rows].toarray(), rtol=1e-6, atol=0
    )


def measure(folder: pathlib.Path, flavor: str, n_top: int, n_rounds: int) -> None:
    source, shards, file = folder / "raw.h5ad", folder / "shards", folder / "scanpy.h5ad"
    ours, theirs = [], []
    for number in range(n_rounds):
        ours.append(run(CELLFEED, source, shards, n_top, flavor))
        theirs.append(run(SCANPY, source, file, n_top, flavor))
        if number == 0:
            require_same(shards, file)
        shutil.rmtree(shards)
        file.unlink()

    def ratio(key: str, of_ours: str) -> str:
        found = [b[key] / a[of_ours] for a, b in zip(ours, theirs, strict=True)]
        return f"{statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f})"

    for name, runs in (("cellfeed", ours), ("scanpy", theirs)):
        each = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        print(
            f"{flavor:10s} {name:8s} {each['ready']:6.1f} s, written {each['written']:6.1f} s, "
            f"processor {each['processor']:6.1f} s, peak {each['peak_mb']:6,.0f} MB"
        )
    print(f"{flavor:10s} scanpy, written / cellfeed: {ratio('written', 'written')}")
    print(f"{flavor:10s} scanpy, not written / cellfeed: {ratio('ready', 'written')}")
    print(f"{flavor:10s} processor time: {ratio('processor', 'processor')}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=200_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--nonzeros", type=int, default=1_000, help="draws of a cell")
    parser.add_argument("--top", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_atlas(folder / "raw.h5ad", options.cells, options.genes, options.nonzeros)
        megabytes = (folder / "raw.h5ad").stat().st_size / 1e6
        print(f"{options.cells:,} cells x {options.genes:,} genes, {megabytes:,.0f} MB", flush=True)
        for flavor in ("seurat", "seurat_v3"):
            measure(folder, flavor, options.top, options.rounds)


if __name__ == "__main__":
    main()
