"""`cf.census.get_anndata` against slices that anndata makes."""

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, InvalidTypeError, NoSuchKeyError


@pytest.fixture(scope="module")
def adata() -> anndata.AnnData:
    random = np.random.default_rng(0)
    obs = pd.DataFrame(
        {
            "tissue": pd.Categorical(random.choice(["lung", "liver"], 60)),
            "n_counts": random.integers(0, 100, 60),
        },
        index=[f"cell{i}" for i in range(60)],
    )
    var = pd.DataFrame(
        {
            "biotype": pd.Categorical(random.choice(["coding", "lncRNA"], 15)),
            "length": random.integers(100, 900, 15),
            "ensembl": [f"ENSG{i}" for i in range(15)],
        },
        index=[f"gene{i}" for i in range(15)],
    )
    x = scipy.sparse.random(60, 15, 0.4, "csr", np.float32, random_state=1)
    return anndata.AnnData(x, obs=obs, var=var)


@pytest.fixture(scope="module")
def cells(adata, tmp_path_factory):
    path = tmp_path_factory.mktemp("census") / "a.h5ad"
    adata.write_h5ad(path)
    return cf.open(path)


CASES = [
    ({}, lambda a: a),
    (dict(obs_value_filter="tissue == 'lung' and n_counts > 30"),
     lambda a: a[(a.obs.tissue == "lung") & (a.obs.n_counts > 30)]),
    (dict(var_value_filter="biotype == 'coding' and length < 600"),
     lambda a: a[:, (a.var.biotype == "coding") & (a.var.length < 600)]),
    (dict(var_value_filter="feature_id in ['gene3', 'gene1']", obs_coords=[5, 2, 9]),
     lambda a: a[[5, 2, 9], ["gene1", "gene3"]]),
    (dict(var_coords=slice(3, 9), obs_value_filter="n_counts >= 50"),
     lambda a: a[a.obs.n_counts >= 50, 3:9]),
    (dict(var_value_filter="ensembl != 'ENSG4'", obs_coords=np.arange(60) % 2 == 0),
     lambda a: a[::2, a.var.ensembl != "ENSG4"]),
]  # fmt: skip


@pytest.mark.parametrize(("options", "slice_of"), CASES)
def test_slices_are_those_of_anndata(adata, cells, options, slice_of):
    got, expected = cf.census.get_anndata(cells, **options), slice_of(adata)
    np.testing.assert_array_equal(got.X.toarray(), expected.X.toarray())
    assert list(got.obs_names) == list(expected.obs_names)
    assert list(got.var_names) == list(expected.var_names)
    assert list(got.obs["tissue"]) == list(expected.obs["tissue"])
    assert got.var.astype(str).equals(expected.var.astype(str))


def test_columns_that_are_wanted(cells):
    got = cf.census.get_anndata(cells, obs_column_names=["n_counts"], var_column_names="length")
    assert list(got.obs) == ["n_counts"] and list(got.var) == ["length"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (dict(var_value_filter="biotpye == 'coding'"), NoSuchKeyError, "biotype"),
        (dict(var_value_filter="length > 10000"), InvalidArgumentError, "none of the 15 genes"),
        (dict(var_value_filter=3), InvalidTypeError, "var_value_filter"),
        (dict(obs_value_filter={"a": 1}), InvalidTypeError, "obs_value_filter"),
        (dict(obs_column_names="nothing"), NoSuchKeyError, "nothing"),
        (dict(var_column_names=["lenght"]), NoSuchKeyError, "length"),
    ],
)
def test_what_is_not_there_is_refused(cells, options, error, words):
    with pytest.raises(error, match=words):
        cf.census.get_anndata(cells, **options)


def test_it_takes_a_collection_only(adata):
    with pytest.raises(InvalidTypeError, match="what cellfeed"):
        cf.census.get_anndata(adata)
