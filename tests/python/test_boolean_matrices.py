"""Matrices of booleans: read, kept in shards and written again as they were."""

import anndata
import numpy as np
import pytest
import scipy.sparse

import cellfeed as cf
from cellfeed import errors


@pytest.fixture
def cells(tmp_path):
    random = np.random.default_rng(0)
    matrix = scipy.sparse.csr_matrix(random.random((60, 20)) < 0.3)
    adata = anndata.AnnData(matrix, layers={"m": matrix[::-1].copy()})
    adata.write_h5ad(tmp_path / "in.h5ad")
    return adata


@pytest.mark.parametrize("compression", [None, "none", "gzip"])
@pytest.mark.parametrize("source", ["file", "shards", "view"])
def test_they_come_back(tmp_path, cells, source, compression):
    rows = np.arange(59, -1, -7) if source == "view" else np.arange(60)
    data = tmp_path / "in.h5ad"
    if source == "shards":
        cf.convert_to_shards(cf.open(data, layers=["m"]), tmp_path / "shards", shard_size=25)
        data = tmp_path / "shards"
    else:
        data = cf.open(data, layers=["m"])[rows]
    cf.export_h5ad(data, tmp_path / "out.h5ad", compression=compression)
    read = anndata.read_h5ad(tmp_path / "out.h5ad")
    for matrix, wanted in ((read.X, cells.X), (read.layers["m"], cells.layers["m"])):
        assert matrix.dtype == bool
        np.testing.assert_array_equal(matrix.toarray(), wanted[rows].toarray())


def test_numbers_beside_them_are_numbers(tmp_path, cells):
    counts = cells.copy()
    counts.X = counts.X.astype(np.int8) * 3
    counts.obs_names = [f"other{n}" for n in range(60)]
    counts.write_h5ad(tmp_path / "counts.h5ad")
    cf.export_h5ad([tmp_path / "in.h5ad", tmp_path / "counts.h5ad"], tmp_path / "out.h5ad")
    read = anndata.read_h5ad(tmp_path / "out.h5ad").X.toarray()
    np.testing.assert_array_equal(read, np.r_[cells.X.toarray(), counts.X.toarray()])


def test_what_does_not_fit_names_the_type(tmp_path):
    twice = scipy.sparse.csr_matrix(
        (np.array([200, 200, 7], np.uint8), np.array([1, 1, 0], np.int32), np.array([0, 2, 3])),
        shape=(2, 3),
    )
    anndata.AnnData(twice).write_h5ad(tmp_path / "in.h5ad")
    with pytest.raises(errors.PrecisionError, match=r"does not fit uint8 exactly.*400.*wider type"):
        cf.export_h5ad(tmp_path / "in.h5ad", tmp_path / "out.h5ad")
