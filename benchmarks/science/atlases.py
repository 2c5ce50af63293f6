"""Cells with real labels, split by chance: the part to test on, and atlases of the rest on disk.

The cells to train on are kept twice: as they are, and simulated from these alone, so that no test
cell has a twin there. Both lie in the order of their labels, as atlases that are put together of
sorted or annotated parts do. One class is made rare: most of its cells are left out of training.
"""

from __future__ import annotations

import dataclasses
import pathlib
import warnings

import anndata
import numpy as np
import pandas as pd
import scipy.sparse

import cellfeed as cf

LABEL = "label"
# File and column of labels.
REAL = {
    "kang": ("kang_ifnb_valid_anndata06.h5ad", "cell_type"),
    "scp1884": ("scp1884.h5ad", "Celltype"),
    "sciplex3": ("sciplex3.h5ad", "cell_type"),
}
TEST_SHARE = 0.4
RARE_SHARE = 0.01  # of the cells to train on
TARGET_SUM = 1e4


@dataclasses.dataclass
class Atlas:
    """Paths to train on, and cells to test on."""

    real: pathlib.Path
    simulated: pathlib.Path
    x: np.ndarray  # test cells x genes, as the transforms of a loader leave them
    y: np.ndarray  # codes of `classes`
    classes: list[str]
    rare: int  # the code of the class that is rare


def read_counts(path: pathlib.Path, column: str) -> anndata.AnnData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata = anndata.read_h5ad(path)
    adata.obs[LABEL] = pd.Categorical(adata.obs[column].astype(str))
    x = scipy.sparse.csr_matrix(adata.X).astype(np.float32)
    if (x.data != np.round(x.data)).any():  # logarithms of counts in proportion: taken back
        x.data = np.round(np.expm1(x.data))
        x.eliminate_zeros()
    return anndata.AnnData(x, obs=adata.obs[[LABEL]].copy(), var=adata.var[[]].copy())


def stand_in(n_cells: int) -> anndata.AnnData:
    """Where there is no real data: six kinds of cells, each with some genes of its own."""
    random = np.random.default_rng(0)
    kinds = random.integers(0, 6, n_cells)
    rates = np.tile(random.lognormal(-1.5, 1, 400), (n_cells, 1))
    for kind in range(6):
        rates[kinds == kind, 20 * kind : 20 * kind + 20] *= 3
    x = scipy.sparse.csr_matrix(random.poisson(rates).astype(np.float32))
    obs = pd.DataFrame(
        {LABEL: pd.Categorical([f"kind {k}" for k in kinds])}, [f"c{i}" for i in range(n_cells)]
    )
    return anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=[f"g{i}" for i in range(400)]))


def most_variable(x: scipy.sparse.csr_matrix, n_genes: int) -> np.ndarray:
    means = np.asarray(x.mean(axis=0)).ravel()
    squares = np.asarray(x.multiply(x).mean(axis=0)).ravel()
    return np.sort(np.argsort((squares - means**2) / np.maximum(means, 1e-9))[-n_genes:])


def make(
    adata: anndata.AnnData, folder: pathlib.Path, seed: int, n_cells: int, n_genes: int
) -> Atlas:
    random = np.random.default_rng(seed)
    classes = list(adata.obs[LABEL].cat.categories)
    codes = adata.obs[LABEL].cat.codes.to_numpy()
    is_test = np.zeros(adata.n_obs, dtype=bool)
    for code in range(len(classes)):
        rows = random.permutation(np.flatnonzero(codes == code))
        is_test[rows[: round(TEST_SHARE * len(rows))]] = True
    rare = int(np.bincount(codes).argmin())
    rows = np.flatnonzero(~is_test & (codes == rare))
    n_rare = max(4, round(RARE_SHARE * np.count_nonzero(~is_test)))
    left_out = random.permutation(rows)[n_rare:]
    train = np.setdiff1d(np.flatnonzero(~is_test), left_out)
    genes = most_variable(scipy.sparse.csr_matrix(adata.X[train]), min(n_genes, adata.n_vars))
    adata = adata[:, genes].copy()

    folder.mkdir()
    of_train = adata[train[np.argsort(codes[train], kind="stable")]].copy()
    of_train.write_h5ad(folder / "train.h5ad")
    cf.simulate(
        folder / "train.h5ad", n_cells, folder / "simulated.h5ad", seed=seed, order=LABEL,
        progress=False,
    )  # fmt: skip
    for name in ("train", "simulated"):
        cf.convert_to_shards(folder / f"{name}.h5ad", folder / name, progress=False)
    x = np.asarray(adata.X[is_test].todense(), dtype=np.float64)
    x *= TARGET_SUM / np.maximum(x.sum(axis=1, keepdims=True), 1)
    return Atlas(
        folder / "train", folder / "simulated", np.log1p(x).astype(np.float32), codes[is_test],
        classes, rare,
    )  # fmt: skip
