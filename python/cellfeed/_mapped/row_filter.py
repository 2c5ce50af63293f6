"""Cells chosen by values of their obs columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .._arguments import as_text, shown, suggestion
from ..collection import CellCollection
from ..errors import InvalidArgumentError, InvalidTypeError


def rows_of(cells: CellCollection, obs_filter: Mapping[str, Any]) -> np.ndarray:
    """Row numbers, ascending, of the cells whose columns all have one of the values asked for.

    Parameters
    ----------
    cells
        The collection.
    obs_filter
        Column -> a value, or a list of values. NaN and None are missing values; those of a file
        without the column are missing too.
    """
    if not isinstance(obs_filter, Mapping):
        raise InvalidTypeError(
            "obs_filter must be a dict of column -> value or list of values, not "
            f"{shown(obs_filter)}"
        )
    chosen = np.ones(len(cells), dtype=bool)
    for name, wanted in obs_filter.items():
        chosen &= _has_one_of(cells, as_text("each key of obs_filter", name), _as_list(wanted))
    if not chosen.any():
        raise InvalidArgumentError(f"obs_filter selects none of the {len(cells):,} cells")
    return np.flatnonzero(chosen)


def _as_list(wanted: Any) -> list[Any]:
    if isinstance(wanted, (str, bytes)) or not isinstance(wanted, Iterable):
        return [wanted]
    return list(wanted)


def _is_missing(value: Any) -> bool:
    return value is None or bool(value != value)


def _has_one_of(cells: CellCollection, name: str, wanted: list[Any]) -> np.ndarray:
    column = cells.obs_column(name)
    values = cells.obs_values(name)
    known = [value for value in wanted if not _is_missing(value)]
    wants_missing = len(known) < len(wanted)
    if column.is_categorical:
        codes = [i for i, label in enumerate(column.categories) if label in known]
        _report_unknown(name, known, list(column.categories))
        found = np.isin(values, codes)
        return found | (values < 0) if wants_missing else found
    for value in known:
        if not isinstance(value, (int, float, bool, np.number, np.bool_)):
            raise InvalidTypeError(
                f"obs column {name!r} holds {column.dtype}: obs_filter cannot compare it with "
                f"{shown(value)}"
            )
    chosen = np.array(values != values) if wants_missing else np.zeros(len(values), dtype=bool)
    for value in known:
        chosen |= values == value
    return chosen


def _report_unknown(name: str, wanted: list[Any], labels: list[Any]) -> None:
    unknown = [value for value in wanted if value not in labels]
    if not unknown:
        return
    text = f"obs column {name!r} has no label {shown(unknown[0])}{suggestion(unknown[0], labels)}"
    if len(unknown) == len(wanted):
        raise InvalidArgumentError(text)
    warnings.warn(f"obs_filter: {text}", stacklevel=5)
