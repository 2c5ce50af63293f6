"""One table of cells in memory: what every format of it has to give back."""

from __future__ import annotations

import functools
from typing import Any

import anndata
import numpy as np
import pandas as pd
import scipy.sparse
from stand_ins import with_order

N_CELLS, N_GENES = 211, 90
CELLS = [f"ACGT{row:04d}-1" for row in range(N_CELLS)]
GENES = [f"gene{column}" for column in range(N_GENES)]
KINDS = ["T cell", "B cell", "mast", "NK"]  # in no order of the alphabet
LABELS = ["kind", "stage", "donor"]
NUMBERS = ["depth", "n_reads", "is_doublet", "n_umis", "passed"]
OBS = [*LABELS, *NUMBERS]
# First and last row of each part of a table in several files.
PARTS = [(0, 53), (53, 120), (120, 190), (190, 211)]
PART_SIZES = [end - begin for begin, end in PARTS]
ONLY_IN_FIRST_PART = [7, 41]
EMPTY_ROWS, FULL_ROW = [0, 60, 100, 101, 102, 210], 33
VALUES = ["counts", "fractions"]


@functools.cache
def matrix(values: str) -> scipy.sparse.csr_matrix:
    """float32, sorted; rows without any gene, a row of all, numbers that need 17 bits and more."""
    random = np.random.default_rng(7)
    x = random.poisson(random.gamma(0.6, 2.5, N_GENES), (N_CELLS, N_GENES)).astype(np.float32)
    x[FULL_ROW] = random.permutation(N_GENES) + 1
    x[17, 5], x[150, 88], x[205, 0] = 70_001, 2**20 + 1, 65_536
    x[PARTS[1][0] :, ONLY_IN_FIRST_PART] = 0
    x[EMPTY_ROWS] = 0
    if values == "fractions":
        x *= random.uniform(0.01, 1, x.shape).astype(np.float32)
        x[FULL_ROW, :4] = [0.1, 1 / 3, 1e-7, 70_001.5]
    return scipy.sparse.csr_matrix(x)


def missing_in_first_part(values: np.ndarray, dtype: str) -> pd.Series:
    made = pd.array(values, dtype=dtype)
    made[5 : PARTS[0][1] : 9] = pd.NA
    return made


@functools.cache
def obs() -> pd.DataFrame:
    """Labels with some missing, ordered ones that are numbers, texts; numbers of many kinds."""
    random = np.random.default_rng(8)
    kinds = random.integers(-1, len(KINDS), N_CELLS)
    for begin, _ in PARTS:  # each part has each of them
        kinds[begin + 1 : begin + 5] = random.permutation(len(KINDS))
    return pd.DataFrame(
        {
            "kind": pd.Categorical.from_codes(kinds, KINDS),
            "stage": pd.Categorical.from_codes(
                random.integers(0, 3, N_CELLS), [30, 4, 100], ordered=True
            ),
            "donor": [f"d{(row // 29 * 7) % 10}" for row in range(N_CELLS)],
            "depth": np.where(random.random(N_CELLS) < 0.1, np.nan, random.normal(size=N_CELLS)),
            "n_reads": random.integers(-5, 2**40, N_CELLS),
            "is_doublet": random.random(N_CELLS) < 0.5,
            # Missing in the first part alone: the others' files hold whole numbers and booleans.
            "n_umis": missing_in_first_part(random.integers(0, 2**33, N_CELLS), "Int64"),
            "passed": missing_in_first_part(random.random(N_CELLS) < 0.3, "boolean"),
        },
        index=pd.Index(CELLS, dtype=object),
    )


def is_whole(x: scipy.sparse.csr_matrix) -> bool:
    """Whether all values are whole numbers that integers hold."""
    return bool((np.isfinite(x.data) & (x.data == np.round(x.data))).all())


def embedding() -> np.ndarray:
    return np.random.default_rng(9).normal(size=(N_CELLS, 3)).astype(np.float32)


def as_anndata(
    x: scipy.sparse.csr_matrix,
    rows: Any = slice(None),
    columns: Any = slice(None),
    *,
    stored: str = "csr",
    dtype: Any = np.float32,
    order: str = "ascending",
    names: list[str] | None = None,
) -> anndata.AnnData:
    """The table or a part of it, with a layer of halves and an array of ``obsm``.

    Parameters
    ----------
    x
        All rows and columns.
    rows, columns
        Those that are wanted.
    stored
        ``"csr"``, ``"csc"`` or ``"dense"``.
    dtype, order
        Of the stored values; order of the entries in a row: ``"ascending"`` or ``"shuffled"``.
    names
        Of the cells, where rows repeat.
    """
    part = scipy.sparse.csr_matrix(x[rows][:, columns])
    part.sort_indices()

    def as_stored(matrix):
        if stored == "dense":
            return matrix.toarray()
        return matrix.tocsc() if stored == "csc" else with_order(matrix, order)

    # A slice of an AnnData would lose categories that its rows do not have.
    of_rows = obs().iloc[rows].copy()
    adata = anndata.AnnData(
        as_stored(part.astype(dtype)),
        obs=of_rows if names is None else of_rows.set_axis(names),
        var=pd.DataFrame(index=pd.Index(np.array(GENES, dtype=object)[columns])),
    )
    adata.layers["half"] = as_stored((part / 2).astype(np.float32))
    adata.obsm["X_pca"] = embedding()[rows]
    return adata
