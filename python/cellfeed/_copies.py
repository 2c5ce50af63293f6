"""How far the copies are that opening makes of objects, on a terminal."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator

from . import _core
from ._arguments import is_url
from ._progress import ProgressLine

_SECONDS = 0.2


class _Line(ProgressLine):
    def _text(self, phase: str, done: int, total: int, rate: float) -> str:
        left = self._left(done, total, rate)
        return f"{phase}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB, {rate / 1e6:,.0f} MB/s{left}"


def _show(line: ProgressLine) -> bool:
    copies = _core.copies_under_way()
    if copies:
        _, done, total, rate = zip(*copies, strict=True)
        line("copying", min(sum(done), sum(total) - 1), sum(total), sum(rate))
    return bool(copies)


def _watch(line: ProgressLine, is_over: threading.Event) -> None:
    was_shown = False
    while not is_over.wait(_SECONDS):
        was_shown = _show(line) or was_shown
    if was_shown:
        line("copied", 1, 1, 0.0)


@contextlib.contextmanager
def shown_copies(paths: Iterable[str]) -> Iterator[None]:
    """Draw a line while paths of buckets and servers are opened, where stderr is a terminal.

    Parameters
    ----------
    paths
        What is opened.
    """
    if sys.stderr is None or not sys.stderr.isatty() or not any(map(is_url, paths)):
        yield
        return
    is_over = threading.Event()
    line = _Line("bytes")
    watcher = threading.Thread(target=_watch, args=(line, is_over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
