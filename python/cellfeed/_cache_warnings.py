"""What went wrong with blocks of objects that are kept, while reading went on."""

from __future__ import annotations

import warnings

from . import _core
from .errors import CacheWarning


def report_blocks(stacklevel: int = 3) -> None:
    """Warn where blocks could not be kept or were damaged.

    Parameters
    ----------
    stacklevel
        As of :func:`warnings.warn`, from here.
    """
    for text in _core.take_cache_warnings():
        warnings.warn(text, CacheWarning, stacklevel=stacklevel)


def publish_blocks() -> None:
    """Have blocks that were read lately there for others, and warn where they cannot be.

    A worker process may end before they are.
    """
    if _core is None:  # at the end of the program
        return
    _core.publish_blocks()
    report_blocks(4)
