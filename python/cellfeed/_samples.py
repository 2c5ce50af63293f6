"""Samples of any collection: how many, some of them, and what is no collection."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sized
from typing import Any, NoReturn, cast

import numpy as np

from ._arguments import as_row_numbers, shown
from .errors import InvalidTypeError


def length_of(data: object) -> int:
    """Samples of a collection: rows of a matrix, of the columns of a mapping, else ``len``."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple) and shape:
        return int(shape[0])
    if isinstance(data, Mapping):
        if not data:
            return 0
        return length_of(next(iter(data.values())))
    return len(cast(Sized, data))


def take(data: Any, rows: slice | np.ndarray) -> Any:
    """Samples of arrays, matrices, data frames, lists and mappings of columns."""
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if isinstance(data, Mapping):
        return {name: take(column, rows) for name, column in data.items()}
    if isinstance(data, (list, tuple)):
        if isinstance(rows, slice):
            return data[rows]
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else rows
        return type(data)(data[int(i)] for i in rows)
    if isinstance(data, range):
        return np.asarray(data)[rows]
    if _reads_one_by_one(data):
        numbers = as_row_numbers(rows, length_of(data)).tolist()
        read = getattr(data, "__getitems__", None)
        return [data[i] for i in numbers] if read is None else list(read(numbers))
    return data[rows]


def _reads_one_by_one(data: object) -> bool:
    """Map-style data sets of torch and of ours, whose ``[]`` takes one number."""
    own = getattr(type(data), "__getitems__", None)
    if getattr(own, "__module__", "").startswith("cellfeed."):
        return True
    return _is_of_torch(data, "Subset", "ConcatDataset", "StackDataset")


def is_tensor_dataset(data: object) -> bool:
    """A ``TensorDataset``: several indices give a tuple of tensors, each of the samples."""
    return _is_of_torch(data, "TensorDataset")


def _is_of_torch(data: object, *kinds: str) -> bool:
    torch_data = sys.modules.get("torch.utils.data")
    return torch_data is not None and isinstance(
        data, tuple(getattr(torch_data, kind) for kind in kinds)
    )


def in_memory(data: Any) -> Any:
    """What was read of a view of a file, which would be read again for each batch that is cut."""
    for method in ("to_anndata", "to_adata"):  # of a view of cells, of an AnnCollection
        if hasattr(data, method):
            return getattr(data, method)()
    if getattr(data, "isbacked", False):
        return data.to_memory()
    return data


# More arrays than these are samples.
_FEW = 3


def require_samples(collection: object) -> None:
    """Refuse what has a length and is no collection: names of files, and arrays side by side."""
    if isinstance(collection, (str, os.PathLike)):
        _refuse_names(collection)
    if not isinstance(collection, (list, tuple)) or not collection:
        return
    if all(isinstance(part, (str, os.PathLike)) and os.path.exists(part) for part in collection):
        _refuse_names(collection)
    n = len(collection)
    shapes: list[Any] = [getattr(part, "shape", None) for part in collection[: _FEW + 1]]
    are_arrays = [isinstance(shape, tuple) and bool(shape) for shape in shapes]
    if not 2 <= n <= _FEW or not any(are_arrays):
        return
    try:
        lengths = {length_of(part) for part in collection}
    except TypeError:
        return
    if (
        len(lengths) == 1
        and lengths.pop() > n
        and (isinstance(collection, tuple) or not all(are_arrays) or len(set(map(len, shapes))) > 1)
    ):
        raise InvalidTypeError(
            f"a {type(collection).__name__} of {n} arrays is taken for {n} samples, and these have "
            f"{length_of(collection[0])} rows each: cellfeed.MultiIndexable(X, y) subsets arrays "
            "together; samples of such shapes need a fetch_callback"
        )


def _refuse_names(names: object) -> NoReturn:
    raise InvalidTypeError(
        f"{shown(names)} is a name, not a collection: open files with cellfeed.open(...)"
    )
