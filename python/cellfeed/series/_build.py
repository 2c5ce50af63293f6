"""Files of time series to one directory of scaled rows."""

from __future__ import annotations

import datetime
import os
import re
import warnings as _warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

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
from .._progress import Progress, as_progress_callback
from ..errors import CorruptDataError, InvalidArgumentError, InvalidTypeError

SCALERS = ("standard", "minmax", "robust")
SCALES = ("global", "entity")
MISSING = ("error", "drop", "ffill", "nan")
DUPLICATES = ("error", "first", "last", "mean")
TIME_UNITS = ("s", "ms", "us", "ns")
FLOATS = ("float32", "float64")

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
    n_rows_read, n_dropped, n_merged
        Rows of the files; those left out for a missing value, and those left out or averaged for
        a repeated time.
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
    n_parts_resumed: int
    bytes: int
    warnings: list[str]
    seconds: float
    rows_per_second: float

    def __fspath__(self) -> str:
        return self.path


def time_as_text(name: str, value: Any) -> str:
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
    if type(value).__module__ == "numpy" and type(value).__name__ == "datetime64":
        return str(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidTypeError(
            f"{name} must be a time: a str, a date, a datetime, a datetime64 or, for series whose "
            f"times are numbers, an int, not {shown(value)}"
        )
    return str(value.__index__())


def _given_scaler(scaler: Any) -> str:
    """The text of scaler.json, of what is a scaler already."""
    if hasattr(scaler, "to_json") and callable(scaler.to_json):
        return str(scaler.to_json())
    raise InvalidTypeError(
        f'scaler must be "standard", "minmax", "robust" or None, not {shown(scaler)}'
    )


def _entity(entity: Any) -> tuple[str, str]:
    """A column, and a pattern for paths; one of them is empty."""
    if entity is None:
        return "", ""
    if isinstance(entity, re.Pattern):
        if not isinstance(entity.pattern, str):
            raise InvalidTypeError("entity must be a pattern of str, not of bytes")
        return "", entity.pattern
    name = as_text("entity", entity)
    if not name:
        raise InvalidArgumentError("entity must be the name of a column, not ''")
    return name, ""


def build_series(
    paths: Any,
    out: str | os.PathLike[str],
    *,
    entity: str | re.Pattern[str] | None = None,
    time: str | list[str] | None = None,
    time_unit: Literal["s", "ms", "us", "ns"] | None = None,
    features: str | list[str] | None = None,
    target: str | list[str] | None = None,
    scaler: Any = "standard",
    scale: Literal["global", "entity"] = "global",
    fit_until: Any = None,
    missing: Missing = "error",
    duplicates: Duplicates = "error",
    sort: bool = True,
    dtype: Any = "float32",
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
        of these.
    out
        Directory to write: new or empty, unless ``resume`` says otherwise.
    entity
        What each row is of: a column, the key of ``key=value`` folders, or a compiled regular
        expression (in the grammar of ECMAScript) whose first group is looked for in paths. By
        default the name of the file, without its suffix.
    time
        A column: timestamps, dates, ISO 8601 texts with a zone or none (taken for UTC), or whole
        numbers; or the columns of year, month, day, hour, minute and second. By default rows
        are in the order of their file and have no time.
    time_unit
        What whole numbers count, since 1970. Without it they stay numbers.
    features
        Columns to store, in this order; texts must be numbers. By default all numeric ones of the
        first file, and no other file may have more. Every value becomes a float64, whatever types
        the files have.
    target
        Which features a reader predicts where it names none.
    scaler
        ``"standard"``, ``"minmax"``, ``"robust"`` (median and quartiles), ``None``, or a fitted
        scaler of another build. As scikit-learn's; a feature whose values are all the same has
        the scale 1, with a warning.
    scale
        Whether statistics are of all rows or, ``"entity"``, of each entity's own.
    fit_until
        A time: statistics are of the rows before it, so that nothing of later rows leaks into
        training.
    missing
        What becomes of rows without a value: ``"error"``; ``"drop"``; ``"ffill"``, the value
        before, of the same entity (rows before the first one are dropped); ``"nan"``, kept.
    duplicates
        What becomes of rows of one entity with the same time: ``"error"``, the ``"first"`` or
        ``"last"`` in the order of the files, or the ``"mean"`` of values that are not missing. They
        are dealt with before missing values are.
    sort
        Sort the rows of an entity by time; else a time that decreases is an error.
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
    UserWarning
        A feature's values are all the same.

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
    kind = "none" if scaler is None or is_given else as_choice("scaler", scaler, SCALERS)
    value_type = as_choice("dtype", as_dtype("dtype", dtype), FLOATS)
    path = as_path("out", out)
    result = _core.build_series(
        as_paths("paths", paths),
        path,
        entity=column,
        entity_pattern=pattern,
        time=[] if time is None else as_names("time", time),
        time_unit="" if time_unit is None else as_choice("time_unit", time_unit, TIME_UNITS),
        features=[] if features is None else as_names("features", features),
        missing=MISSING.index(as_choice("missing", missing, MISSING)),
        target=[] if target is None else as_names("target", target),
        scaler=kind,
        scale=as_choice("scale", scale, SCALES),
        given_scaler=_given_scaler(scaler) if is_given else "",
        fit_until="" if fit_until is None else time_as_text("fit_until", fit_until),
        duplicates=DUPLICATES.index(as_choice("duplicates", duplicates, DUPLICATES)),
        sort=as_bool("sort", sort),
        dtype=value_type,
        windows=windows,
        memory_budget=parse_memory_budget(memory_budget),
        threads=parse_threads(threads),
        resume=as_bool("resume", resume),
        progress=as_progress_callback(progress, "bytes"),
    )
    for text in result["warnings"]:
        _warnings.warn(text, UserWarning, stacklevel=2)
    return SeriesResult(path=path, **result)


@dataclass(frozen=True)
class AppendResult:
    """What :func:`append_series` did. Usable wherever a path is.

    Attributes
    ----------
    path
        The series directory.
    n_rows, n_entities
        Of the directory now.
    n_rows_added, n_entities_added, n_entities_extended
        Rows written; entities that are new, and those that were known and have more rows now.
    n_files, n_rows_read, n_dropped, n_merged
        As of :class:`SeriesResult`, of the files that were appended.
    bytes
        Size of the directory's files.
    drift
        For each feature how its new values differ from those that the scaler was fitted on:
        ``mean_shift`` (of the mean, in standard deviations of the old), ``spread_ratio`` (standard
        deviation of the new / of the old), ``low`` and ``high`` (smallest and largest of the new,
        where the old lie from 0 to 1). Of ``scale="entity"``, each value is seen beside those of
        its entity. NaN where the scaler came from elsewhere, or its values were all the same.
    warnings
        Features that have drifted: a mean more than half a standard deviation (and three standard
        errors) away, or a spread, of 30 values or more, that is not half to twice what it was.
    seconds, rows_per_second
        Time of this run.
    """

    path: str
    n_rows: int
    n_entities: int
    n_rows_added: int
    n_entities_added: int
    n_entities_extended: int
    n_files: int
    n_rows_read: int
    n_dropped: int
    n_merged: int
    bytes: int
    drift: dict[str, dict[str, float]]
    warnings: list[str]
    seconds: float
    rows_per_second: float

    def __fspath__(self) -> str:
        return self.path


def append_series(
    paths: Any,
    out: str | os.PathLike[str],
    *,
    memory_budget: int | str = "1GB",
    threads: int | None = None,
    progress: Progress | Callable[[str, int, int, float], None] = None,
) -> AppendResult:
    """Add the rows of more files to a series directory, scaled as those that are there.

    Rows of known entities go on where theirs end, and windows run across; entities that are new
    come after all others, scaled by the stored numbers (by those of their own rows, where each
    entity has a scale). Entity, time, features, what becomes of gaps and of repeated times, and
    their order are as the series was built. Nothing that is there is written again: data sets that
    are open go on with the rows that they know. A run that is killed leaves the series as it was.

    Parameters
    ----------
    paths
        As for :func:`build_series`.
    out
        The series directory.
    memory_budget, threads, progress
        As for :func:`build_series`.

    Returns
    -------
    AppendResult

    Warns
    -----
    UserWarning
        A feature's values have drifted from those that the scaler was fitted on.

    Raises
    ------
    InvalidArgumentError
        A row of a known entity is not later than those that are there.
    NotFoundError
        There is no finished series.
    AlreadyExistsError
        Another process writes to it.
    NoSuchKeyError, CorruptDataError, UnsupportedError, PrecisionError, NoSpaceError
        As for :func:`build_series`.
    """
    path = as_path("out", out)
    result = _core.append_series(
        as_paths("paths", paths),
        path,
        memory_budget=parse_memory_budget(memory_budget),
        threads=parse_threads(threads),
        progress=as_progress_callback(progress, "bytes"),
    )
    for text in result["warnings"]:
        _warnings.warn(text, UserWarning, stacklevel=2)
    return AppendResult(path=path, **result)


def verify_series(
    path: str | os.PathLike[str], *, threads: int | None = None, progress: Progress = None
) -> bool:
    """Check every byte of a series directory against its checksums.

    Parameters
    ----------
    path
        The directory.
    threads
        Threads that read; all the machine allows by default.
    progress
        As for :func:`build_series`.

    Returns
    -------
    bool
        ``True``; anything else is an exception, so that a bare call is a check.

    Raises
    ------
    CorruptDataError
        Naming file and bytes of each damaged place; ``damages`` lists them all as dicts.
    NotFoundError
        There is no finished series.
    """
    directory = as_path("path", path)
    damages = _core.verify_series(
        directory, threads=parse_threads(threads), progress=as_progress_callback(progress, "bytes")
    )
    if damages:
        lines = [f"  {d['file']}, bytes {d['begin']} to {d['end']}: {d['what']}" for d in damages]
        error = CorruptDataError(
            f"{directory}: damaged in {len(damages)} places; build it again:\n" + "\n".join(lines)
        )
        error.path = directory
        error.damages = damages  # type: ignore[attr-defined]
        raise error
    return True
