"""Every byte of a shard directory against its checksums."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypedDict

from . import _core
from ._arguments import as_path, parse_threads
from ._progress import Progress, as_progress_callback
from .errors import CorruptDataError


class Damage(TypedDict):
    """A place of a shard directory that is not as it was written; -1 where it is in no shard."""

    file: str
    shard: int
    segment: int
    begin: int
    end: int
    what: str


def validate_shard_dir(
    shard_dir: str | os.PathLike[str], *, threads: int | None = None, progress: Progress = None
) -> bool:
    """Check every byte of a shard directory against its checksums.

    Parameters
    ----------
    shard_dir
        The directory.
    threads
        Threads that read; all the machine allows by default.
    progress
        ``True``, ``False``, ``None`` (on a terminal), or a function ``f(phase, done, total,
        rate)``.

    Returns
    -------
    bool
        ``True``; anything else is an exception, so that a bare call is a check.

    Raises
    ------
    CorruptDataError
        Naming the file, shard, segment and bytes of each damaged place; ``damages`` lists them all
        as dicts.
    NotFoundError
        There is no finished shard directory.
    """
    path = as_path("shard_dir", shard_dir)
    damages = _core.verify(
        path,
        threads=parse_threads(threads),
        progress=as_progress_callback(progress, "bytes"),
    )
    if damages:
        error = CorruptDataError(_damage_text(path, damages))
        error.path = path
        error.damages = damages  # type: ignore[attr-defined]
        raise error
    return True


_DAMAGES_SHOWN = 10


def _damage_text(path: str, damages: Sequence[Damage]) -> str:
    lines = []
    for damage in damages[:_DAMAGES_SHOWN]:
        place = damage["file"]
        if damage["shard"] >= 0:
            place += f", shard {damage['shard']}"
        if damage["segment"] >= 0:
            place += f", segment {damage['segment']}"
        if damage["end"] > damage["begin"]:
            place += f", bytes {damage['begin']} to {damage['end']}"
        lines.append(f"  {place}: {damage['what']}")
    if len(damages) > _DAMAGES_SHOWN:
        lines.append(f"  ... and {len(damages) - _DAMAGES_SHOWN} more")
    return "\n".join(
        [f"{path}: damaged in {len(damages)} places; convert the sources again:", *lines]
    )
