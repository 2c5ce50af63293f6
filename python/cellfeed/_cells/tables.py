"""Tables of cells and genes between pandas and the core."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from .. import _core
from .._extras import pd
from ..errors import UnsupportedError

# What pandas calls objects that are numbers, and what holds them.
_NUMBERS: dict[str, type[np.generic]] = {
    "integer": np.int64, "floating": np.float64, "mixed-integer-float": np.float64,
    "boolean": np.bool_,
}  # fmt: skip


def table_of(frame: pd.DataFrame, index: str | None = "_index") -> _core.Table:
    """A copy of a data frame as a table.

    Parameters
    ----------
    frame
        Numbers, booleans, text, times or categories of these in each column.
    index
        The first column, of the names in the index as text. None leaves them out.

    Raises
    ------
    UnsupportedError
        A column holds something else; it is named.
    """
    columns = {} if index is None else {index: _texts(index, map(str, frame.index))}
    for name, column in frame.items():
        columns[str(name)] = _column_of(str(name), column)
    return _core.Table.of(list(columns.values()), len(frame))


def frame_of(table: _core.Table) -> pd.DataFrame:
    """All columns of a table."""
    columns = {column.name: pandas_of(column) for column in table.columns}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(table)))


def pandas_of(column: _core.TableColumn) -> Any:
    """What pandas makes a Series of.

    Where values are missing, whole numbers become float64, booleans and dates objects.
    """
    if column.is_categorical:
        categories = pandas_of(column.categories)
        return pd.Categorical.from_codes(column.codes, categories, ordered=column.ordered)
    values, is_missing = column.values, column.is_missing
    if (values.dtype.kind == "b" and is_missing is not None) or column.type.startswith("date"):
        return objects_of(column)
    if "string" in column.type:
        return pd.array(values, dtype=pd.Series([""]).dtype)  # str since pandas 3
    if is_missing is not None and values.dtype.kind != "O":
        values = values.astype(np.float64) if values.dtype.kind in "iu" else values.copy()
        values[is_missing] = np.nan if values.dtype.kind == "f" else np.array("NaT", values.dtype)
    zone = column.type.partition("tz=")[2].removesuffix("]")
    return pd.DatetimeIndex(values).tz_localize("UTC").tz_convert(zone) if zone else values


def objects_of(column: _core.TableColumn) -> np.ndarray:
    """Values as objects, the labels of a categorical column; None where missing."""
    if column.is_categorical:
        labels: np.ndarray = np.array([*objects_of(column.categories), None], dtype=object)
        found: np.ndarray = labels[column.codes]
        return found
    found = column.values.astype(object)
    if column.is_missing is not None:
        found[column.is_missing] = None
    return found


def _column_of(name: str, column: pd.Series) -> _core.TableColumn:
    dtype: Any = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        labels = dtype.categories
        # Without labels their type is unknown; labels are usually text.
        categories = _column_of(name, labels.to_series()) if len(labels) else _texts(name, [])
        codes = column.cat.codes.to_numpy()
        return _core.TableColumn.of_codes(
            name, np.maximum(codes, 0), codes < 0, categories, bool(dtype.ordered)
        )
    if isinstance(dtype, pd.ArrowDtype) or getattr(dtype, "storage", "") == "pyarrow":
        return _of_arrow(name, column)
    if isinstance(dtype, pd.StringDtype):
        return _texts(name, column.astype(object), column.isna())
    if isinstance(dtype, pd.DatetimeTZDtype):
        zone = str(dtype.tz).removeprefix("UTC") or "UTC"
        counts = column.dt.tz_convert(None).to_numpy().view(np.int64)
        is_missing = column.isna().to_numpy()
        return _core.TableColumn.of_times(name, counts, is_missing, dtype.unit, False, zone)
    if hasattr(dtype, "numpy_dtype"):  # pandas' numbers and booleans beside a mask
        values = column.array.to_numpy(dtype.numpy_dtype, na_value=dtype.type(0))
        is_missing = column.isna().to_numpy() | np.isnan(values)
        return _core.TableColumn.of_numbers(name, values, is_missing)
    return _of_numpy(name, column.to_numpy())


def _of_numpy(name: str, values: np.ndarray) -> _core.TableColumn:
    dtype = values.dtype.newbyteorder("=")
    values = np.ascontiguousarray(values, dtype=dtype)
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return _core.TableColumn.of_numbers(name, values, np.isnan(values))
    if dtype.kind in "mM":
        return _of_times(name, values)
    if dtype.kind != "O":
        raise UnsupportedError(f"column {name!r} holds {dtype}: make it text or numbers")
    return _of_objects(name, values)


def _of_times(name: str, values: np.ndarray) -> _core.TableColumn:
    unit, is_duration = np.datetime_data(values.dtype)[0], values.dtype.kind == "m"
    counts, is_missing = values.view(np.int64), np.isnat(values)
    if unit != "D" or is_duration:
        return _core.TableColumn.of_times(name, counts, is_missing, unit, is_duration, "")
    days = np.where(is_missing, 0, counts)
    if (days != days.astype(np.int32)).any():
        raise UnsupportedError(f"column {name!r} holds a day too far away for Arrow")
    return _core.TableColumn.of_days(name, days.astype(np.int32), is_missing)


def _of_objects(name: str, values: np.ndarray) -> _core.TableColumn:
    is_missing: np.ndarray = np.asarray(pd.isna(values), dtype=bool)
    known = values[~is_missing]
    if not known.size:
        return _core.TableColumn.of_nulls(name, len(values))
    kind = pd.api.types.infer_dtype(known, skipna=False)
    if kind == "string":
        return _texts(name, values, is_missing)
    with contextlib.suppress(OverflowError, TypeError, ValueError):
        if kind in _NUMBERS:
            numbers = np.zeros(len(values), dtype=_NUMBERS[kind])
            numbers[~is_missing] = known
            if (numbers[~is_missing] == known).all():
                return _core.TableColumn.of_numbers(name, numbers, is_missing | np.isnan(numbers))
        if kind in ("datetime", "datetime64"):
            return _column_of(name, pd.Series(pd.to_datetime(values)))
        if kind in ("timedelta", "timedelta64"):
            return _column_of(name, pd.Series(pd.to_timedelta(values)))
        if kind == "date":
            days = np.full(len(values), "NaT", dtype="datetime64[D]")
            days[~is_missing] = known
            return _of_numpy(name, days)
    kinds = ", ".join(sorted({type(value).__name__ for value in known}))
    raise UnsupportedError(
        f"column {name!r} holds values of mixed types: {kinds}; make it text or numbers, or drop it"
    )


def _texts(name: str, texts: Any, is_missing: Any = None) -> _core.TableColumn:
    marks = None if is_missing is None else np.asarray(is_missing, dtype=bool)
    return _core.TableColumn.of_texts(name, list(texts), marks)


def _of_arrow(name: str, column: pd.Series) -> _core.TableColumn:
    import pyarrow as pa  # it is there, as pandas has made the column with it

    return _core.Table(pa.table({name: pa.array(column)}))[name]
