"""Files of time series to one directory of scaled rows."""

from __future__ import annotations

import datetime
import os
import re
import warnings as _warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from .. import _core
from .._arguments import (
    as_bool,
    as_choice,
    as_dtype,
    as_int,
    as_names,
    as_path,
    as_paths,
    as_text,
    parse_memory_budget,
    parse_threads,
    shown,
)
from .._leftovers import report_uploads
from .._options import DType, DTypeName, Path
from .._progress import Progress, as_progress_callback
from ..errors import InvalidArgumentError, InvalidTypeError, LeftOutWarning
from ._scaler import Scaler

# A point in time; a whole number where a series has those.
Time: TypeAlias = str | int | datetime.date | np.datetime64

# From one time to another.
Step: TypeAlias = str | int | datetime.timedelta | np.timedelta64

SCALERS = ("standard", "minmax", "robust")
SCALES = ("global", "entity")
MISSING = ("error", "drop", "ffill", "nan")
DUPLICATES = ("error", "first", "last", "mean")
TIME_UNITS = ("s", "ms", "us", "ns")
FLOATS: tuple[DTypeName, ...] = ("float32", "float64")

Missing = Literal["error", "drop", "ffill", "nan"]
Duplicates = Literal["error", "first", "last", "mean"]


@dataclass(frozen=True)
class SeriesResult:
    """What :func:`build_series` made. Usable wherever a path is.

    Attributes
    ----------
    path
        The series directory.
    n_rows, n_entities, n_features, n_files
        Rows written, entities, features, and files read.
    n_rows_read, n_dropped, n_merged, n_filled
        Rows of the files; those left out for a missing value, those left out or averaged for a
        repeated time, and those that were added for ``freq``.
    n_parts_resumed
        Parts that an earlier, interrupted run had read.
    bytes
        Size of the directory's files.
    warnings
        What was found and is no error, such as features whose values are all the same.
    seconds, rows_per_second
        Time of this run.
    """

    path: str
    n_rows: int
    n_entities: int
    n_features: int
    n_files: int
    n_rows_read: int
    n_dropped: int
    n_merged: int
    n_filled: int
    n_parts_resumed: int
    bytes: int
    warnings: list[str]
    seconds: float
    rows_per_second: float

    def __fspath__(self) -> str:
        return self.path


def time_as_text(name: str, value: Time) -> str:
    """A point in time, as the core parses it.

    Parameters
    ----------
    name
        The argument, for messages.
    value
        A ``str``, an ``int``, a date, a :class:`datetime.datetime`, a :class:`numpy.datetime64` or
        a :class:`pandas.Timestamp`.
    """
    if isinstance(value, str):
        return as_text(name, value)
    if isinstance(value, datetime.date):  # datetime and pandas.Timestamp are dates
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidTypeError(
            f"{name} must be a time: a str, a date, a datetime, a datetime64 or, for series whose "
            f"times are numbers, an int, not {shown(value)}"
        )
    return str(value.__index__())


def step_as_text(name: str, value: Step) -> str:
    """A length of time or, of times that are numbers, a number, as the core parses it.

    Parameters
    ----------
    name
        The argument, for messages.
    value
        What was given.
    """
    if isinstance(value, str):
        return as_text(name, value)
    if isinstance(value, (datetime.timedelta, np.timedelta64)):
        return f"{np.timedelta64(value, 'ns').astype(np.int64)}ns"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidTypeError(
            f"{name} must be a length of time (a str such as '3h', a timedelta or a timedelta64) "
            f"or, for series whose times are numbers, an int, not {shown(value)}"
        )
    return str(value.__index__())


def _given_scaler(scaler: object) -> str:
    """The text of scaler.json, of what is a scaler already."""
    if hasattr(scaler, "to_json") and callable(scaler.to_json):
        return str(scaler.to_json())
    raise InvalidTypeError(
        'scaler must be "standard", "minmax", "robust", None or a Scaler, which '
        f"Scaler.from_sklearn makes of one of scikit-learn, not {shown(scaler)}"
    )


def _entity(entity: object) -> tuple[str, str]:
    """A column, and a pattern for paths; one of them is empty."""
    if entity is None:
        return "", ""
    if isinstance(entity, re.Pattern):
        if not isinstance(entity.pattern, str):
            raise InvalidTypeError("entity must be a pattern of str, not of bytes")
        if flags := re.RegexFlag(entity.flags) & ~re.UNICODE:
            raise InvalidArgumentError(
                f"entity has {flags!r}, which patterns for paths do not know: leave it out, and "
                "write [Aa] where a letter may be either"
            )
        return "", entity.pattern
    return _column("entity", entity), ""


def _column(argument: str, value: object) -> str:
    name = as_text(argument, value)
    if not name:
        raise InvalidArgumentError(f"{argument} must be the name of a column, not ''")
    return name


def build_series(
    paths: Path | Iterable[Path],
    out: str | os.PathLike[str],
    *,
    entity: str | re.Pattern[str] | None = None,
    time: str | list[str] | None = None,
    time_unit: Literal["s", "ms", "us", "ns"] | None = None,
    features: str | list[str] | None = None,
    numeric: str | list[str] | None = None,
    target: str | list[str] | None = None,
    static: str | list[str] | None = None,
    scaler: Literal["standard", "minmax", "robust"] | Scaler | None = "standard",
    scale: Literal["global", "entity"] = "global",
    fit_until: Time | None = None,
    fit_mask: str | None = None,
    missing: Missing = "error",
    duplicates: Duplicates = "error",
    sort: bool = True,
    freq: Step | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    na_values: str | list[str] | None = None,
    dtype: DType = "float32",
    window: int | None = None,
    horizon: int = 1,
    stride: int = 1,
    memory_budget: int | str = "1GB",
    threads: int | None = None,
    resume: bool = False,
    progress: Progress | Callable[[str, int, int, float], None] = None,
) -> SeriesResult:
    """Write the rows of many files, scaled, to one directory that windows are cut from.

    Files are read once, in parallel, within a memory budget; statistics and the scaled rows are
    then made in two passes over what was read. The bytes written depend on files and arguments
    alone. A run that is killed leaves nothing half-written; ``resume=True`` goes on with what it
    had read.

    Parameters
    ----------
    paths
        Files (CSV, also gzipped; Parquet; Arrow IPC, which is Feather), globs, folders, or a list
        of these; on a local disk or in a bucket (``s3://bucket/prices/*.parquet``).
    out
        Directory to write, on a local disk or in a bucket: new or empty, unless ``resume`` says
        otherwise. What is to be sent to a bucket waits in ``TMPDIR``.
    entity
        What each row is of: a column, the key of ``key=value`` folders, or a compiled regular
        expression (in the grammar of ECMAScript) whose first group is looked for in paths. By
        default the name of the file, without its suffix. Flags of a pattern are refused.
    time
        A column: timestamps, dates, ISO 8601 texts with a zone or none (taken for UTC), or whole
        numbers; or the columns of year, month, day, hour, minute and second. By default rows
        are in the order of their file and have no time.
    time_unit
        What whole numbers count, since 1970; other times are refused then. Without it they stay
        numbers.
    features
        Columns to store, in this order; texts must be numbers. By default all numeric ones of the
        first file, and no other file may have more. Every value becomes a float64, whatever types
        the files have.
    numeric
        Columns of texts or bytes that are numbers (as exchanges write prices): features beside the
        numeric columns, where ``features`` are not named.
    target
        Which features a reader predicts where it names none.
    static
        Columns that have one value an entity (its sector, where a sensor stands): numbers or texts,
        kept beside the rows, not scaled. Two values in the rows of an entity are an error; rows
        without one are passed over.
    scaler
        ``"standard"``, ``"minmax"``, ``"robust"`` (median and quartiles), ``None``, or a fitted
        scaler of another build. As scikit-learn's; a feature whose values are all the same has
        the scale 1, with a warning.
    scale
        Whether statistics are of all rows or, ``"entity"``, of each entity's own.
    fit_until
        A time: statistics are of the rows before it, so that nothing of later rows leaks into
        training.
    fit_mask
        A column of true and false (1 and 0): statistics are of the rows that it marks, and that are
        before ``fit_until`` where both are given. It is no feature. Where rows of one time become
        their ``mean``, all of them must be marked.
    missing
        What becomes of rows without a value: ``"error"``; ``"drop"``; ``"ffill"``, the value
        before, of the same entity (rows before the first one are dropped); ``"nan"``, kept.
    duplicates
        What becomes of rows of one entity with the same time: ``"error"``, the ``"first"`` or
        ``"last"`` in the order of the files, or the ``"mean"`` of values that are not missing. They
        are dealt with before missing values are.
    sort
        Sort the rows of an entity by time; else a time that decreases is an error.
    freq
        The time from row to row: a length of time (``"15min"``, ``"3h"``, ``"7D"``, a timedelta or
        a timedelta64) or, of times that are numbers, a number. Rows of an entity that are not there
        are added, without values, for ``missing="ffill"`` or ``"nan"``; with ``"error"`` the first
        is an error. A row between two steps is an error.
    decimal, thousands, na_values
        How CSV files write numbers, as pandas has it: the decimal point, the character between
        thousands, and texts that stand for missing values beside the usual ones (``NA``, ``NaN``,
        ``null``, ...). Appended files are read likewise.
    dtype
        ``"float32"`` or ``"float64"``, of the stored values.
    window, horizon, stride
        Kept as defaults for readers: rows of a window, rows to predict, rows between windows.
    memory_budget
        Bytes held while rows are decoded, sorted and written, at least 32 MB.
    threads
        Threads; all the machine allows by default.
    resume
        Continue an interrupted build; start where there is none.
    progress
        ``True``, ``False``, ``None`` (on a terminal), or a function ``f(phase, done, total,
        rate)``, in bytes.

    Returns
    -------
    SeriesResult

    Warns
    -----
    LeftOutWarning
        Columns of texts hold numbers, and nobody named them.
    UserWarning
        A feature's values are all the same. A column of CSV is no feature because of a few texts
        among its numbers. Uploads that a killed build left in a bucket of S3
        could not be removed (docs/cloud.md).

    Raises
    ------
    InvalidArgumentError, NoSuchKeyError, NotFoundError, AlreadyExistsError, CorruptDataError,
    UnsupportedError, PrecisionError, NoSpaceError
        All derive from :class:`~cellfeed.errors.CellfeedError` and name file, line or row, and
        column.
    """
    column, pattern = _entity(entity)
    is_given = not (scaler is None or isinstance(scaler, str))
    windows = [0 if window is None else as_int("window", window, 1)]
    windows += [as_int("horizon", horizon, 1), as_int("stride", stride, 1)]
    kind = as_choice("scaler", scaler, (*SCALERS, "none")) if isinstance(scaler, str) else "none"
    value_type = as_dtype("dtype", dtype, FLOATS)
    path = as_path("out", out)
    result = _core.build_series(
        as_paths("paths", paths),
        path,
        entity=column,
        entity_pattern=pattern,
        time=[] if time is None else as_names("time", time),
        time_unit="" if time_unit is None else as_choice("time_unit", time_unit, TIME_UNITS),
        features=[] if features is None else as_names("features", features),
        numeric=[] if numeric is None else as_names("numeric", numeric),
        missing=MISSING.index(as_choice("missing", missing, MISSING)),
        target=[] if target is None else as_names("target", target),
        scaler=kind,
        scale=as_choice("scale", scale, SCALES),
        given_scaler=_given_scaler(scaler) if is_given else "",
        fit_mask="" if fit_mask is None else _column("fit_mask", fit_mask),
        statics=[] if static is None else as_names("static", static),
        fit_until="" if fit_until is None else time_as_text("fit_until", fit_until),
        duplicates=DUPLICATES.index(as_choice("duplicates", duplicates, DUPLICATES)),
        sort=as_bool("sort", sort),
        freq="" if freq is None else step_as_text("freq", freq),
        decimal=as_text("decimal", decimal),
        thousands="" if thousands is None else as_text("thousands", thousands),
        na_values=[] if na_values is None else as_names("na_values", na_values),
        dtype=value_type,
        windows=windows,
        memory_budget=parse_memory_budget(memory_budget),
        threads=parse_threads(threads),
        resume=as_bool("resume", resume),
        progress=as_progress_callback(progress, "bytes"),
    )
    report_uploads(result)
    left_out = result.pop("left_out")
    for text in result["warnings"]:
        _warnings.warn(text, LeftOutWarning if text == left_out else UserWarning, stacklevel=2)
    return SeriesResult(path=path, **result)
