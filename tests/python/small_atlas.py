"""Small files of every kind that the tests of arguments and batches need."""

import pathlib

import anndata
import numpy as np
import pandas as pd
import scipy.sparse


def make_anndata(n_cells: int = 60, n_genes: int = 12, seed: int = 0) -> anndata.AnnData:
    """Counts with labels, numbers, names, var columns and a layer."""
    random = np.random.default_rng(seed)
    counts = scipy.sparse.csr_matrix(random.poisson(0.7, (n_cells, n_genes)).astype(np.float32))
    types = random.choice(["B cell", "NK cell", "T cell"], n_cells).tolist()
    types[3] = None
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical(types),
            "donor": pd.Categorical(random.choice(["d1", "d2"], n_cells)),
            "depth": random.normal(size=n_cells),
        },
        index=[f"cell-{seed}-{row}" for row in range(n_cells)],
    )
    var = pd.DataFrame(
        {"symbol": [f"S{column}" for column in range(n_genes)]},
        index=[f"gene{column}" for column in range(n_genes)],
    )
    adata = anndata.AnnData(counts, obs=obs, var=var)
    adata.layers["counts"] = counts.copy()
    return adata


def write_atlas(folder: pathlib.Path, n_files: int = 1, **options) -> list[pathlib.Path]:
    """Files ``atlas_0.h5ad``, ``atlas_1.h5ad``, ... with other cells each."""
    paths = [folder / f"atlas_{number}.h5ad" for number in range(n_files)]
    for number, path in enumerate(paths):
        make_anndata(seed=number, **options).write_h5ad(path)
    return paths
