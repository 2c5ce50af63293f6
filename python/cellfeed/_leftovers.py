"""What is said of what killed writers left in a bucket."""

from __future__ import annotations

import logging
import warnings
from typing import Any

_log = logging.getLogger(__name__)


def report_uploads(made: dict[str, Any]) -> None:
    """Log how many unfinished uploads of killed writers were removed, and take that off."""
    if n_removed := made.pop("n_uploads_removed"):
        _log.info("%d unfinished uploads of writers that were killed were removed", n_removed)


def report_leftovers(made: dict[str, Any], stacklevel: int) -> None:
    """The same, and warn of what could not be removed; both are taken off.

    Parameters
    ----------
    made
        What the core says of a conversion.
    stacklevel
        As of :func:`warnings.warn`, from the caller.
    """
    report_uploads(made)
    for text in made.pop("warnings"):
        warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)
