"""Samples of any collection: how many, some of them, and what is no collection."""

from __future__ import annotations

import os
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
    return type(data).__module__.startswith("torch.utils.data.") or getattr(
        own, "__module__", ""
    ).startswith("cellfeed.")


def in_memory(data: Any) -> Any:
    """Read, where it is a view of a file."""
    # Batches are cut out of the group: a view of a file would read again for each, or not be cut at
    # all.
    if hasattr(data, "to_adata"):
        return data.to_adata()
    if getattr(data, "isbacked", False):
        return data.to_memory()
    return data


# So many arrays side by side are samples.
_MANY = 100


def require_samples(collection: object) -> None:
    """Refuse what has a length and is no collection: names of files, and arrays side by side."""
    if isinstance(collection, (str, os.PathLike)):
        _refuse_names(collection)
    if not isinstance(collection, (list, tuple)) or not collection:
        return
    if all(isinstance(part, (str, os.PathLike)) and os.path.exists(part) for part in collection):
        _refuse_names(collection)
    shapes: list[Any] = [getattr(part, "shape", None) for part in collection[:_MANY]]
    if not 2 <= len(shapes) < _MANY or not all(
        isinstance(shape, tuple) and shape for shape in shapes
    ):
        return
    lengths = {int(shape[0]) for shape in shapes}
    is_side_by_side = isinstance(collection, tuple) or len({len(shape) for shape in shapes}) > 1
    if len(lengths) == 1 and min(lengths) > len(shapes) and is_side_by_side:
        raise InvalidTypeError(
            f"a {type(collection).__name__} of {len(shapes)} arrays is taken for {len(shapes)} "
            f"samples, and these have {min(lengths)} rows each: cellfeed.MultiIndexable(X, y) "
            "subsets arrays together"
        )


def _refuse_names(names: object) -> NoReturn:
    raise InvalidTypeError(
        f"{shown(names)} is a name, not a collection: open files with cellfeed.open(...)"
    )
