"""Columns of obs from a table that is not in the files, matched to the cells."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import _core
from .._arguments import as_choice, as_path, as_text, shown
from .._extras import pd
from .._options import HOW, How
from ..errors import InvalidArgumentError, InvalidTypeError, NotFoundError
from .labels import look_up_labels
from .protocols import Cells
from .tables import frame_of

# Columns of tables without an index that have the names of cells.
_NAMES = ("obs_names", "_index", "__index_level_0__", "index", "cell_id", "barcode")


def matched(cells: Cells, table: Any, on: str | None, how: How) -> pd.DataFrame:
    """The columns of the table with a row for each cell, in their order.

    Parameters
    ----------
    cells
        The cells.
    table, on, how
        As for :meth:`~cellfeed.CellCollection.with_obs`.
    """
    as_choice("how", how, HOW)
    key = None if on is None else as_text("on", on)
    rows, frame = _keyed(_frame_of(table, key), key)
    frame = frame.copy(deep=False)
    if not len(frame.columns) or not len(frame):
        raise InvalidArgumentError("the table has no columns to add, or no rows")
    frame.columns = frame.columns.astype(str)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise InvalidArgumentError(f"the table has the column {twice!r} twice")
    if isinstance(rows, pd.MultiIndex):
        raise InvalidArgumentError("the table has an index of several levels: give it one")
    places = _of_names(cells, rows) if key is None else _of_labels(cells, rows, key)
    what = "cells" if key is None else f"values of {key!r}"
    if how == "exact":
        _require_all(cells, places, rows, what)
    elif not (places >= 0).any():
        raise InvalidArgumentError(
            f"the table has a row for none of the {what}: the first of its rows is "
            f"{shown(rows[0] if len(rows) else None)}, and the first cell is "
            f"{shown(_key_of(cells, key, 0))}"
        )
    return pd.DataFrame(
        {name: _taken(column, places) for name, column in frame.items()}, copy=False
    )


def _read_csv(path: str, on: str | None) -> pd.DataFrame:
    """With the names, or the column to match by, as text: "007" is a name."""
    plain = path.removesuffix(".gz").lower()
    how: dict[str, Any] = {"sep": "\t" if plain.endswith((".tsv", ".txt")) else ","}
    try:
        known = pd.read_csv(path, nrows=0, **how).columns
        key = known[0] if on is None else on
        if key in known:
            return pd.read_csv(
                path, index_col=key, dtype={key: str}, float_precision="round_trip", **how
            )
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: there is no such file") from error
    except (OSError, ValueError, IndexError, TypeError, ImportError) as error:
        raise InvalidArgumentError(f"{path}: pandas reads no CSV from it: {error}") from error
    raise InvalidArgumentError(
        f"{path}: has no column {on!r}; it has: {', '.join(map(str, known))}"
    )


def _frame_of(table: Any, on: str | None) -> pd.DataFrame:
    if isinstance(table, (str, os.PathLike)):
        return _read_csv(as_path("table", table), on)
    if hasattr(table, "iloc"):
        return table.to_frame() if hasattr(table, "to_frame") else table
    if hasattr(table, "__arrow_c_stream__"):
        return frame_of(_core.Table(table))
    raise InvalidTypeError(
        "table must be a pandas or polars DataFrame, an Arrow table or the path of a CSV file, "
        f"not {shown(table)}"
    )


def _keyed(frame: pd.DataFrame, on: str | None) -> tuple[pd.Index, pd.DataFrame]:
    """What rows are matched by, and the other columns."""
    if on is not None and on in frame.columns:
        return pd.Index(frame[on]), frame.drop(columns=on)
    is_numbered = isinstance(frame.index, pd.RangeIndex) and frame.index.equals(
        pd.RangeIndex(len(frame))
    )
    is_plain = frame.index.name is None and frame.index.inferred_type != "integer"
    if on is not None and frame.index.name != on and not is_plain:
        raise InvalidArgumentError(
            f"the table has no column {on!r}; it has: {', '.join(map(str, frame.columns))}"
        )
    if on is None and is_numbered:
        for name in _NAMES:
            if name in frame.columns:
                return pd.Index(frame[name]), frame.drop(columns=name)
        raise InvalidArgumentError(
            "the table does not say which cells its rows are of: give it their names as its index, "
            "or as a column 'obs_names', or match by a column of obs with on="
        )
    return frame.index, frame


def _require_unique(rows: pd.Index, places: np.ndarray, what: str) -> None:
    """Refuse rows that repeat and that some cell is matched by."""
    if rows.is_unique:
        return
    repeated = rows[rows.duplicated(keep=False)]
    used = rows[np.unique(places[places >= 0])]
    wrong = used[used.isin(repeated)]
    if len(wrong):
        raise InvalidArgumentError(
            f"the table has several rows for {len(wrong):,} {what}, the first of them "
            f"{shown(wrong[0])}: keep one of each"
        )


def _places(rows: pd.Index, wanted: Any) -> np.ndarray:
    """The first row of each that is wanted, -1 where there is none."""
    firsts = np.flatnonzero(~rows.duplicated(keep="first"))
    places = rows[firsts].get_indexer(pd.Index(wanted))
    return np.where(places < 0, -1, firsts[places])


def _of_names(cells: Cells, rows: pd.Index) -> np.ndarray:
    names = pd.Index(cells._names.obs_names(cells._all_rows()))
    rows = pd.Index(rows.astype(str))
    # Most tables have the cells in their order.
    if rows.equals(names):
        return np.arange(len(names))
    places = _places(rows, names)
    _require_unique(rows, places, "cells")
    if not names.is_unique:
        _require_one_cell_a_name(cells, names, places)
    return places


def _require_one_cell_a_name(cells: Cells, names: pd.Index, places: np.ndarray) -> None:
    """Refuse rows for a name of several cells; a cell may be chosen several times."""
    repeated = np.flatnonzero(names.duplicated(keep=False) & (places >= 0))
    files, rows = cells.locate(repeated)
    where = pd.DataFrame({"name": names[repeated], "file": files, "row": rows}).drop_duplicates()
    shared = where["name"].duplicated(keep=False)
    if shared.any():
        raise InvalidArgumentError(
            f"{int(shared.sum()):,} cells that the table has a row for share their name with "
            f"another cell, the first of them {where['name'][shared].iloc[0]!r}, so that it is not "
            "known whose row it is: match by a column of obs with on=, or open the files one at a "
            "time"
        )


def _of_labels(cells: Cells, rows: pd.Index, on: str) -> np.ndarray:
    codes, labels = look_up_labels(cells, on)
    are_texts = all(isinstance(label, str) for label in labels)
    if rows.inferred_type == "string" and not are_texts:
        rows = pd.Index(pd.to_numeric(rows, errors="coerce"))
    if rows.inferred_type in ("integer", "boolean", "floating") and are_texts:
        raise InvalidTypeError(
            f"obs column {on!r} holds text, and the table's {on!r} holds {rows.dtype}: make one "
            "like the other"
        )
    of_label = _places(rows, labels)
    _require_unique(rows, of_label, f"values of {on!r}")
    places = np.append(of_label, -1)[codes]
    return np.asarray(places)


def _key_of(cells: Cells, on: str | None, row: int) -> object:
    if on is None:
        return cells._names.obs_names(np.array([row]))[0]
    codes, labels = look_up_labels(cells, on)
    return labels[codes[row]] if codes[row] >= 0 else None


def _require_all(cells: Cells, places: np.ndarray, rows: pd.Index, what: str) -> None:
    is_missing = places < 0
    if is_missing.any():
        first = int(is_missing.argmax())
        raise InvalidArgumentError(
            f"the table has no row for {int(is_missing.sum()):,} cells, the first of them cell "
            f"{first}, {cells._names.obs_names(np.array([first]))[0]!r}"
        )
    n_unused = len(rows) - len(np.unique(places))
    if n_unused:
        unused = np.setdiff1d(np.arange(len(rows)), places)[0]
        raise InvalidArgumentError(
            f"{n_unused:,} rows of the table are of none of the {what}, the first of them "
            f"{shown(rows[unused])}"
        )


def _taken(column: pd.Series, places: np.ndarray) -> Any:
    """Its values for the cells, missing where there is none; whole numbers stay whole numbers."""
    if (places < 0).any() and isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        column = column.convert_dtypes()
    return column.array.take(places, allow_fill=True)
