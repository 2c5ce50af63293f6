"""Rows of a collection chosen by their obs values, piece by piece."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from .._arguments import as_row_numbers, as_text
from ..errors import InvalidArgumentError
from .conditions import Condition
from .filter_expression import Test, all_of, parse, test_of

_ROWS_AT_ONCE = 1 << 18


def rows_where(cells: Any, where: Any) -> np.ndarray:
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
    if isinstance(where, str):
        rows = _rows_of(cells, parse(where, cells.obs_column))
    elif isinstance(where, Mapping):
        rows = _rows_of(cells, _one_of_each(cells, where))
    else:
        rows = as_row_numbers(where, len(cells))
    if rows.size == 0:
        raise InvalidArgumentError(f"the filter leaves none of the {len(cells):,} cells")
    return rows


def _one_of_each(cells: Any, where: Mapping[str, Any]) -> Test:
    tests = []
    for name, wanted in where.items():
        is_list = isinstance(wanted, Iterable) and not isinstance(wanted, (str, bytes))
        column = cells.obs_column(as_text("each key of the filter", name))
        tests.append(test_of(Condition(column, "in", list(wanted) if is_list else [wanted])))
    if not tests:
        raise InvalidArgumentError("the filter names no obs column")
    return all_of(tests)


def _rows_of(cells: Any, test: Test) -> np.ndarray:
    def rows_from(begin: int) -> np.ndarray:
        rows = np.arange(begin, min(begin + _ROWS_AT_ONCE, len(cells)))
        # A column that is named twice is read once.
        values = cache(lambda name: cells.obs_values(name, rows))
        return np.asarray(begin + np.flatnonzero(test(values)))

    pieces = range(0, len(cells), _ROWS_AT_ONCE)
    if len(pieces) <= 1:
        return rows_from(0)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        return np.concatenate(list(threads.map(rows_from, pieces)))
