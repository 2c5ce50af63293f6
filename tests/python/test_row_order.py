"""Values of pandas are taken by position: where their index says other rows, that is an error."""

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, InvalidTypeError

NAMES = list("abcdef")


@pytest.fixture
def adata():
    obs = pd.DataFrame({"n": range(6), "kind": list("xyxyxz")}, index=NAMES)
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    return anndata.AnnData(scipy.sparse.csr_matrix(x), obs, pd.DataFrame(index=["G", "H"]))


@pytest.fixture
def cells(adata, tmp_path):
    adata.write_h5ad(tmp_path / "a.h5ad")
    return cf.open(tmp_path / "a.h5ad", obs=["n"])


def drawn(data, strategy):
    return np.bincount(strategy.get_indices(data, seed=0), minlength=len(data))


USES = {
    "cells[mask]": lambda cells, n: cells[n < 2].obs["n"].tolist(),
    "view[mask]": lambda cells, n: cells[:][n < 2].obs["n"].tolist(),
    "obs[mask]": lambda cells, n: cells[:].obs[n < 2]["n"].tolist(),
    "filter": lambda cells, n: cells.filter(n < 2)[:].obs["n"].tolist(),
    "indices": lambda cells, n: np.flatnonzero(
        drawn(cells, cf.BlockShuffling(indices=n < 2))
    ).tolist(),
    "weights": lambda cells, n: np.flatnonzero(
        drawn(cells, cf.BlockWeightedSampling(1, weights=(n < 2) * 1.0, total_size=100))
    ).tolist(),
    "labels": lambda cells, n: np.flatnonzero(
        drawn(cells, cf.ClassBalancedSampling(n.where(n < 2), 1, total_size=100))
    ).tolist(),
}


@pytest.mark.parametrize("use", USES)
def test_another_order_is_refused_and_the_same_is_not(cells, adata, use):
    n = adata.obs["n"]
    assert USES[use](cells, n) == [0, 1]
    assert USES[use](cells, n.reset_index(drop=True)) == [0, 1]
    assert USES[use](cells, n.set_axis(pd.Index(NAMES, dtype="string"))) == [0, 1]
    missing = pd.Index([*NAMES[:5], pd.NA], dtype="string")
    for other in (n[::-1], n.set_axis(NAMES[1:] + NAMES[:1]), n.set_axis(range(6, 0, -1))):
        with pytest.raises(InvalidArgumentError, match=r"pandas values is not obs.*at 0 it has"):
            USES[use](cells, other)
    with pytest.raises(InvalidArgumentError, match=r"at 5 it has None, there is 'f'"):
        USES[use](cells, n.set_axis(missing))
    assert USES[use](cells, n.set_axis(range(10, 16)).reset_index(drop=True)) == [0, 1]


@pytest.mark.parametrize("data", ["cells", "adata", "frame"])
def test_of_any_collection_that_names_its_rows(cells, adata, data):
    data = {"cells": cells, "adata": adata, "frame": adata.obs}[data]
    for strategy in (
        lambda kind: cf.ClassBalancedSampling(labels=kind),
        lambda kind: cf.GroupSampling(labels=kind.astype("category")),
        lambda kind: cf.BlockWeightedSampling(weights=kind.map({"x": 1, "y": 2, "z": 3})),
        lambda kind: cf.BlockShuffling(indices=kind == "x"),
    ):
        cf.scDataset(data, strategy(adata.obs["kind"]), batch_size=2)
        with pytest.raises(InvalidArgumentError, match="taken by position"):
            cf.scDataset(data, strategy(adata.obs["kind"].sort_values()), batch_size=2)
    # Of what names no rows they are what they are.
    cf.scDataset(adata.X, cf.ClassBalancedSampling(adata.obs["kind"].sort_values()), batch_size=2)


def test_masks_of_genes(cells):
    chosen = pd.Series([True, False], index=["G", "H"])
    assert list(cells[:, chosen].var_names) == ["G"]
    with pytest.raises(InvalidArgumentError, match=r"mask of genes: .* is not var_names"):
        cells[:, chosen[::-1]]


@pytest.mark.parametrize(
    "values", [torch.zeros(6, dtype=torch.bfloat16), torch.zeros(6, requires_grad=True)]
)
def test_tensors_that_numpy_has_no_word_for(cells, values):
    for use in (
        lambda: cf.ClassBalancedSampling(labels=values),
        lambda: cf.Loader(cells, cf.BlockWeightedSampling(weights=values)),
        lambda: cells[values],
    ):
        with pytest.raises(InvalidTypeError):
            use()
