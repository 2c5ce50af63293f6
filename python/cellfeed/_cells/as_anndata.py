"""A view of cells as anndata's classes have it: X as stored, AnnData, pieces along an axis."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._arguments import as_bool, as_int
from .._extras import anndata
from .._options import DTypeName
from ..errors import PrecisionError
from .stored_dtypes import common_dtype

if TYPE_CHECKING:
    from .protocols import AnyCells, Cells


Read = TypeVar("Read")


def stored_dtypes(cells: Cells) -> list[tuple[str, DTypeName]]:
    """Of each matrix of a collection, x first: the dtype of its files, and the one to read it as.

    Parameters
    ----------
    cells
        A collection.
    """
    matrices = [cells._core.matrix(m) for m in range(len(cells._matrices.paths) + 1)]
    return [
        common_dtype(matrix.store_info(store)["dtype"] for store in range(matrix.n_stores))
        for matrix in matrices
    ]


def as_stored(cells: Cells, read: Callable[..., Read]) -> Read:
    """What is read in dtypes that hold what the files have; dense where all files store it so.

    Parameters
    ----------
    cells
        A collection.
    read
        Takes ``output``, ``dtype`` and ``matrix_dtypes``. Sums of entries that occur more than once
        may exceed int32: then it is called for int64.
    """
    output = "dense" if all(file["is_dense"] for file in cells.files) else "csr"
    dtypes = [read_as for _, read_as in stored_dtypes(cells)]
    try:
        return read(output=output, dtype=dtypes[0], matrix_dtypes=dtypes[1:])
    except PrecisionError:
        if "int32" not in dtypes:
            raise
    wider = ["int64" if dtype == "int32" else dtype for dtype in dtypes]
    return read(output=output, dtype=wider[0], matrix_dtypes=wider[1:])


def of_dtype(matrix: Any, dtype: str) -> Any:
    """A matrix in the dtype that files have; as it was read, where sums of duplicates exceed that.

    Parameters
    ----------
    matrix
        As it was read: a numpy array or a scipy sparse matrix.
    dtype
        That of the files.
    """
    made = matrix.astype(dtype, copy=False)
    read, stored = (m if isinstance(m, np.ndarray) else m.data for m in (matrix, made))
    is_same = np.array_equal(read, stored.astype(read.dtype, copy=False), equal_nan=True)
    return made if is_same else matrix


def make_anndata(view: AnyCells, ignore_x: bool, ignore_layers: bool) -> anndata.AnnData:
    """An AnnData of a view, with every obs and var column, and matrices as stored."""
    x = None if ignore_x else view.X
    shape = view.shape if ignore_x else None
    adata = anndata.AnnData(X=x, obs=view.obs.df, var=view.var, shape=shape)
    if not ignore_x:
        _record_processing(adata, view)
    matrices = view._matrices
    if not matrices.obsm and (ignore_layers or not matrices.layers):
        return adata
    dtypes = stored_dtypes(view)
    read = view._as_stored.to_anndata()
    for name, matrix in read.obsm.items():
        adata.obsm[name] = of_dtype(matrix, dtypes[matrices.obsm[name]][0])
    if not ignore_layers:
        for key, name in matrices.layer_names.items():
            if name in read.layers:
                adata.layers[name] = of_dtype(read.layers[name], dtypes[matrices.layers[key]][0])
        adata.raw = None if read.raw is None else read.raw.to_adata()
    return adata


def _record_processing(adata: anndata.AnnData, cells: Cells) -> None:
    """Note what was done to X where its files do, and scanpy's mark: nothing is done twice."""
    from .anndata_arrays import PROCESSING

    record = cells._core.processing
    if record == "{}":
        return
    adata.uns[PROCESSING] = np.array([record], dtype=object)
    if json.loads(record).get("log1p") is True:  # no other base, which scanpy would take for e
        adata.uns["log1p"] = {}


def pieces(
    cells: AnyCells, batch_size: int, axis: int, shuffle: bool, drop_last: bool
) -> Iterator[tuple[AnyCells, list[int]]]:
    """Views of some cells or genes one after another, and their numbers."""
    size = as_int("batch_size", batch_size, 1)
    along = as_int("axis", axis, 0, 1)
    n = cells.shape[along]
    order = np.random.permutation(n) if as_bool("shuffle", shuffle) else np.arange(n)
    last = n - n % size if as_bool("drop_last", drop_last) else n

    def cut() -> Iterator[tuple[AnyCells, list[int]]]:
        for begin in range(0, last, size):
            numbers = order[begin : begin + size]
            yield cells[:, numbers] if along else cells[numbers], numbers.tolist()

    return cut()
