"""More rows for a series directory."""

from __future__ import annotations

import os
import warnings as _warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .. import _core
from .._arguments import as_path, as_paths, parse_memory_budget, parse_threads
from .._leftovers import report_uploads
from .._options import Path
from .._progress import Progress, as_progress_callback


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
    paths: Path | Iterable[Path],
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

    In a bucket, where an object cannot be made longer, all rows are sent again, and data sets that
    read the old object have to be opened again.

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
        A feature's values have drifted from those that the scaler was fitted on. Uploads that a
        killed append left in a bucket of S3 could not be removed (docs/cloud.md).

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
    report_uploads(result)
    for text in result["warnings"]:
        _warnings.warn(text, UserWarning, stacklevel=2)
    return AppendResult(path=path, **result)
