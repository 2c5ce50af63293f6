"""Real zarr stores, compared with what anndata and zarr read of them."""

import warnings

import anndata
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
import zarr
from anndata_oracle import (
    assert_same_as_anndata,
    assert_same_frame,
    assert_same_matrix,
    matrices_of,
)
from conftest import REAL_DATA
from real_files import read_anndata
from zarr_files import assert_same_obsm, read_store

import cellfeed as cf


@pytest.fixture(scope="module")
def real_data():
    if not REAL_DATA.is_dir():
        pytest.skip("no real data")
    return REAL_DATA


def test_pbmc3k_whose_columns_descend_in_every_row(real_data):
    path = real_data / "zarr" / "pbmc3k.zarr"
    raw = zarr.open_group(path, mode="r")["raw/X"]
    indices, indptr = raw["indices"][:], raw["indptr"][:]
    assert np.all(np.diff(indices[indptr[5] : indptr[6]]) < 0)
    adata = read_store(path)
    for layer, (matrix, var) in matrices_of(adata).items():
        assert_same_as_anndata(path, adata, layer, matrix, var)
    for name, matrix in adata.obsm.items():
        assert_same_obsm(path, name, matrix)


def read_parts(path) -> anndata.AnnData:
    """All but uns, which holds what zarr has no type for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zarr.storage.ZipStore(path, mode="r") as store:
            group = zarr.open_group(store, mode="r", use_consolidated=False)
            read = anndata.io.read_elem
            parts = {name: read(group[name]) for name in ("X", "obs", "var", "layers", "obsm")}
            return anndata.AnnData(**parts)


def test_a_zip_file_with_names_that_come_again(real_data):
    path = real_data / "zarr" / "pbmc68k_reduced_v3_first.zarr.zip"
    adata = read_parts(path)
    for layer, (matrix, var) in matrices_of(adata).items():
        assert_same_as_anndata(path, adata, layer, matrix, var)
    for name, matrix in adata.obsm.items():
        assert_same_obsm(path, name, matrix)
    same = read_anndata(real_data / "anndata" / "pbmc68k_reduced_v08.h5ad")
    ours, theirs = cf.open(path), cf.open(real_data / "anndata" / "pbmc68k_reduced_v08.h5ad")
    np.testing.assert_array_equal(ours.read(slice(None)).x.toarray(), same.X)
    assert list(ours.obs_names) == list(theirs.obs_names) == list(same.obs_names)
    assert list(ours.var_names) == list(same.var_names)
    for name in ("bulk_labels", "phase", "louvain"):
        assert pa.table(ours.obs_table())[name].to_pylist() == same.obs[name].tolist()
    counts = cf.open(path, layer="counts")
    assert_same_matrix(counts, scipy.sparse.csr_matrix(adata.layers["counts"]))


def test_a_store_of_anndata_0_7(real_data):
    path = real_data / "zarr" / "anndata_v0.7.8.zarr.zip"
    adata = read_store(path)
    for layer, (matrix, var) in matrices_of(adata).items():
        assert_same_as_anndata(path, adata, layer, matrix, var)
    assert_same_frame(cf.open(path).obs_table(), adata.obs)


@pytest.mark.parametrize("name", ["pbmc3k.zarr", "pbmc68k_reduced_v3_first.zarr.zip"])
def test_every_gene_and_cell_passes_a_loader_once(real_data, name):
    path = real_data / "zarr" / name
    cells = cf.open(path)
    seen = np.concatenate(
        [
            batch.index
            for batch in cf.Loader(cells, cf.BlockShuffling(block_size=7), 64, output="dense")
        ]
    )
    assert sorted(seen) == list(range(len(cells)))
