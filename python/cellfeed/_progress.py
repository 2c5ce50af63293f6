"""Progress of long operations: a line on a terminal, plain lines in a log, or a function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from ._arguments import shown
from .errors import InvalidTypeError

ProgressCallback = Callable[[str, int, int, float], None]
# What users pass: show it, do not, on a terminal only, or hand it to a function.
Progress = bool | ProgressCallback | None

_BAR_CELLS = 30
_LOG_SECONDS = 5.0


class ProgressLine:
    """Shows ``phase, done, total, rate`` on a stream.

    On a terminal one line is drawn again and again; elsewhere a line is written every five seconds
    and at the end of a phase.

    Parameters
    ----------
    unit
        What is counted, such as ``"cells"``.
    stream
        ``sys.stderr`` by default.
    """

    def __init__(self, unit: str, stream: TextIO | None = None) -> None:
        self._unit = unit
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._last = time.monotonic()

    def __call__(self, phase: str, done: int, total: int, rate: float) -> None:
        """Show how far a phase is."""
        if self._is_terminal:
            self._stream.write(
                f"\r{self._bar(done, total)} {self._text(phase, done, total, rate)}\x1b[K"
            )
            self._stream.write("\n" if done >= total else "")
        elif done >= total or time.monotonic() - self._last >= _LOG_SECONDS:
            self._last = time.monotonic()
            self._stream.write(self._text(phase, done, total, rate) + "\n")
        self._stream.flush()

    def _bar(self, done: int, total: int) -> str:
        filled = _BAR_CELLS if total <= 0 else min(_BAR_CELLS, done * _BAR_CELLS // total)
        return f"[{'#' * filled}{'.' * (_BAR_CELLS - filled)}]"

    def _text(self, phase: str, done: int, total: int, rate: float) -> str:
        left = self._left(done, total, rate)
        return f"{phase}: {done:,} of {total:,} {self._unit}, {rate:,.0f}/s{left}"

    @staticmethod
    def _left(done: int, total: int, rate: float) -> str:
        return f", {(total - done) / rate:.0f} s left" if rate > 0 and done < total else ""


def as_progress_callback(progress: Progress, unit: str) -> ProgressCallback | None:
    """Make a function for the core; ``None`` shows progress on a terminal only.

    Parameters
    ----------
    progress
        ``None``, a bool, or ``f(phase, done, total, rate)``.
    unit
        What is counted.
    """
    if progress is None:
        # A process without a console has no stderr.
        progress = sys.stderr is not None and sys.stderr.isatty()
    if progress is True:
        return ProgressLine(unit)
    if progress is False:
        return None
    if not callable(progress):
        raise InvalidTypeError(
            "progress must be True, False, None or a function f(phase, done, total, rate), not "
            f"{shown(progress)}"
        )
    return progress
