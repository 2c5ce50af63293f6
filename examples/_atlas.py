"""A small made-up atlas for the examples: two files with somewhat different genes."""

from __future__ import annotations

import argparse
import pathlib

import anndata
import numpy as np
import pandas as pd
import scipy.sparse


def parse_output_dir(description: str | None) -> pathlib.Path:
    """Parse `--output-dir`, the folder an example writes to, and make it."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--output-dir", type=pathlib.Path, default="build/examples")
    parser.add_argument("--short", action="store_true", help="for tests; these examples are short")
    folder = parser.parse_args().output_dir
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_pbmc_counts(folder: pathlib.Path) -> pathlib.Path:
    """Write `counts.h5ad`: counts of the 700 PBMC of scanpy's wheel, ``bulk_labels`` and ``cell``.

    The wheel has logarithms of counts that were scaled cell by cell, the smallest of which is 1.
    """
    import scanpy

    pbmc = scanpy.datasets.pbmc68k_reduced()
    scaled = scipy.sparse.csr_matrix(np.expm1(pbmc.raw.X.astype(np.float64)))
    for row in range(scaled.shape[0]):
        values = scaled.data[scaled.indptr[row] : scaled.indptr[row + 1]]
        values[:] = np.round(values / values.min())
    var = pd.DataFrame(index=pbmc.raw.var_names)
    path = folder / "counts.h5ad"
    obs = pbmc.obs[["bulk_labels"]].assign(cell=pbmc.obs_names.astype("category"))
    adata = anndata.AnnData(scaled.astype(np.float32), obs=obs, var=var)
    adata.write_h5ad(path)
    return path


def write_atlas(folder: pathlib.Path) -> list[pathlib.Path]:
    """Write `one.h5ad` and `two.h5ad` with counts, cell types and donors."""
    random = np.random.default_rng(0)
    paths = []
    for name, n_cells, genes in (("one", 900, range(200)), ("two", 600, range(50, 250))):
        counts = random.poisson(0.4, size=(n_cells, len(genes))).astype(np.float32)
        obs = pd.DataFrame(
            {
                "cell_type": pd.Categorical(
                    random.choice(["B cell", "NK cell", "T cell"], n_cells)
                ),
                "donor": pd.Categorical([f"{name}{i % 3}" for i in range(n_cells)]),
            },
            index=[f"{name}-{i}" for i in range(n_cells)],
        )
        var = pd.DataFrame(index=[f"gene{i}" for i in genes])
        path = folder / f"{name}.h5ad"
        anndata.AnnData(scipy.sparse.csr_matrix(counts), obs=obs, var=var).write_h5ad(path)
        paths.append(path)
    return paths
