"""A collection compared with what anndata or scanpy reads from the same file, name by name."""

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse

import cellfeed as cf


def assert_same_column(got: pa.ChunkedArray, expected: pd.Series, name: str) -> None:
    """Type, categories, what is missing, and every value."""
    got = got.combine_chunks()
    is_missing = expected.isna().to_numpy()
    if isinstance(expected.dtype, pd.CategoricalDtype):
        assert pa.types.is_dictionary(got.type), name
        assert got.type.ordered == expected.dtype.ordered, name
        assert got.dictionary.to_pylist() == expected.cat.categories.to_list(), name
        codes = got.indices.to_numpy(zero_copy_only=False)
        codes = np.where(np.isnan(codes.astype(float)), -1, codes).astype(int)
        np.testing.assert_array_equal(codes, expected.cat.codes, name)
        return
    is_extension = isinstance(expected.dtype, pd.api.extensions.ExtensionDtype)
    values = expected.to_numpy(dtype=object if is_extension else None)
    if values.dtype.kind == "f":
        # pandas takes NaN for missing; anndata stores it as a number.
        wanted = np.float32 if values.dtype.itemsize == 2 else values.dtype.newbyteorder("=")
        assert got.null_count == 0 and got.type == pa.from_numpy_dtype(wanted), name
        np.testing.assert_array_equal(got.to_numpy(), values.astype(wanted), name)
        return
    np.testing.assert_array_equal(np.array(got.is_null()), is_missing, name)
    if values.dtype.kind in "iub":
        assert got.type == pa.from_numpy_dtype(values.dtype.newbyteorder("=")), name
    elif is_extension:
        is_text = isinstance(expected.dtype, pd.StringDtype)
        numpy_type = None if is_text else expected.dtype.numpy_dtype
        assert got.type == (pa.string() if is_text else pa.from_numpy_dtype(numpy_type)), name
    assert [x for x in got.to_pylist() if x is not None] == list(expected[~is_missing]), name


def assert_same_frame(got, expected: pd.DataFrame) -> None:
    got = pa.table(got)
    assert got.column_names == ["_index", *expected.columns]
    assert got["_index"].to_pylist() == list(expected.index)
    for name in expected.columns:
        assert_same_column(got[name], expected[name], name)


def sorted_csr(matrix) -> scipy.sparse.csr_matrix:
    """In float64 or int64, indices ascending, duplicates summed; explicit zeros stay."""
    is_float = matrix.dtype.kind == "f"
    made = scipy.sparse.csr_matrix(matrix.astype(np.float64 if is_float else np.int64))
    if matrix.dtype.kind == "b":
        made = scipy.sparse.csr_matrix(matrix)
    made.sum_duplicates()
    return made


def assert_same_matrix(cells: cf.CellCollection, expected) -> None:
    is_dense = isinstance(expected, np.ndarray)
    dtype = "float64" if expected.dtype.kind == "f" else "int64"
    assert (len(cells), len(cells.var_names)) == expected.shape
    if len(cells) == 0:
        return
    got = cells.read(slice(None), dtype=dtype).x
    assert got.shape == expected.shape
    if is_dense:
        np.testing.assert_array_equal(got.toarray(), expected)
        return
    wanted = sorted_csr(expected)
    np.testing.assert_array_equal(got.indptr, wanted.indptr)
    np.testing.assert_array_equal(got.indices, wanted.indices)
    np.testing.assert_array_equal(got.data, wanted.data)


def matrices_of(adata: anndata.AnnData) -> dict:
    """Layer name -> matrix and gene table, as `cf.open` names them."""
    found = {} if adata.X is None else {"X": (adata.X, adata.var)}
    if adata.raw is not None and adata.raw.X is not None:
        found["raw/X"] = adata.raw.X, adata.raw.var
    for name in filter(None, adata.layers):  # None is X since anndata 0.13
        matrix = adata.layers[name]
        found[f"layers/{name}"] = matrix, adata.var
    return found


def assert_same_as_anndata(path, adata: anndata.AnnData, layer: str, matrix, var) -> None:
    is_unique = var.index.is_unique
    cells = cf.open(path, layer=layer, make_unique=not is_unique)
    names = list(var.index if is_unique else anndata.utils.make_index_unique(var.index))
    assert list(cells.var_names) == names
    assert_same_matrix(cells, matrix)
    assert_same_frame(cells.obs_table(), adata.obs)
    genes = cells.var_table()
    if is_unique:
        assert_same_frame(genes, var)
    assert cells.obs_keys() == list(adata.obs.columns)
