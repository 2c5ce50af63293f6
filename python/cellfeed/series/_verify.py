"""Every byte of a series directory against its checksums."""

from __future__ import annotations

import os

from .. import _core
from .._arguments import as_path, parse_threads
from .._progress import Progress, as_progress_callback
from ..errors import CorruptDataError


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
