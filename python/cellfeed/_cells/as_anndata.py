"""A view of cells as anndata's classes have it: X as stored, AnnData, pieces along an axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import as_bool, as_int
from .stored_dtypes import common_dtype

if TYPE_CHECKING:
    import anndata


def read_x(cells: Any) -> Any:
    """The counts in the dtype of the files; dense where all of them store it dense.

    Parameters
    ----------
    cells
        A collection.
    """
    files = cells.files
    dtype, read_as = common_dtype(file["dtype"] for file in files)
    output = "dense" if all(file["is_dense"] for file in files) else "csr"
    x = cells.read(slice(None), obs=[], output=output, dtype=read_as).x
    return x if x.dtype == dtype else x.astype(dtype)


def make_anndata(view: Any, *, with_x: bool) -> anndata.AnnData:
    """An AnnData of a view, with every obs and var column."""
    import anndata

    x = view.X if with_x else None
    shape = None if with_x else view.shape
    return anndata.AnnData(X=x, obs=view.obs.df, var=view.var.copy(), shape=shape)


def pieces(
    cells: Any, batch_size: Any, axis: Any, shuffle: Any, drop_last: Any
) -> Iterator[tuple[Any, list[int]]]:
    """Views of some cells or genes one after another, and their numbers."""
    size = as_int("batch_size", batch_size, 1)
    along = as_int("axis", axis, 0, 1)
    n = cells.shape[along]
    order = np.random.permutation(n) if as_bool("shuffle", shuffle) else np.arange(n)
    last = n - n % size if as_bool("drop_last", drop_last) else n

    def cut() -> Iterator[tuple[Any, list[int]]]:
        for begin in range(0, last, size):
            numbers = order[begin : begin + size]
            yield cells[:, numbers] if along else cells[numbers], numbers.tolist()

    return cut()
