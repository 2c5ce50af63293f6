"""Rows of a collection chosen by their obs values; the core evaluates it, in parallel."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .. import _core
from .._arguments import as_row_numbers, as_text, shown
from .._options import Label, Where
from .._row_order import mask_index_of, require_row_order
from ..errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    import pandas as pd

    from .protocols import Cells

_WHOLE = range(-(2**63), 2**64)  # int64 and uint64
_MOST = 2**1023  # as a float
_BEYOND_INT64 = math.nextafter(-(2.0**63), -math.inf)


def rows_where(cells: Cells, where: Where) -> npt.NDArray[np.int64]:
    """Row numbers, int64; of an expression or a dict in ascending order, else as asked for.

    Parameters
    ----------
    cells
        A collection of :func:`cellfeed.open`.
    where
        As for its method ``filter``.

    Raises
    ------
    InvalidArgumentError
        Also where no row is left.
    """
    n = len(cells)  # says so of closed ones, which the core does not know
    if isinstance(where, str):
        rows = _said(_core.rows_where(cells._core, where, "obs"))
    elif isinstance(where, Mapping):
        wanted = [
            (as_text("each key of the filter", name), [_label(value) for value in as_list(values)])
            for name, values in where.items()
        ]
        rows = _said(_core.rows_with(cells._core, wanted))
    else:
        require_row_order("the mask", mask_index_of(where), cells)
        rows = as_row_numbers(where, n)
    if rows.size == 0:
        raise InvalidArgumentError(f"the filter leaves none of the {n:,} cells")
    return rows


def genes_where(var: pd.DataFrame, where: str) -> npt.NDArray[np.int64]:
    """Rows of a table of genes that an expression is true of, int64, ascending."""
    from .anndata_arrays import rows_table

    return _said(_core.rows_where(rows_table(var), where, "var"))


def step_of(where: Where, n_chosen: int, n_cells: int) -> str:
    """A filter in words, for the record of what was made of the cells."""
    if isinstance(where, str):
        return f"filter: {where}"
    if isinstance(where, Mapping):
        return f"filter: {shown({name: as_list(values) for name, values in where.items()})}"
    return f"{n_chosen:,} of {n_cells:,} cells by number"


def _said(found: tuple[np.ndarray, list[str]]) -> np.ndarray:
    """The rows that the core found; its warnings are given."""
    rows, texts = found
    for text in texts:
        warnings.warn(text, stacklevel=2)
    return rows


def as_list(values: object) -> list[object]:
    """A value, or the values of a list of them."""
    if isinstance(values, Iterable) and not isinstance(values, (str, bytes)):
        return list(values)
    return [values]


def _label(value: object) -> Label | None:
    """As the core takes it; None for what is missing."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value not in _WHOLE:
        # Below every int64, and above every uint64, however it is rounded.
        return (
            min(float(max(value, -_MOST)), _BEYOND_INT64) if value < 0 else float(min(value, _MOST))
        )
    if not isinstance(value, (str, bool, int, float)):
        raise InvalidTypeError(f"labels are texts, numbers or booleans, not {shown(value)}")
    return value
