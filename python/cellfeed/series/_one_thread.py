"""A thread that calls functions one after the other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class OneThread:
    """Runs what it is given in turn, also once the main thread has ended.

    Pools of ``concurrent.futures`` refuse work from then on, though other threads may iterate.

    Parameters
    ----------
    name
        Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._pid = os.getpid()
        self._thread = Thread(target=_run, args=(self._calls,), name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., T], *arguments: object) -> Future[T]:
        """Have it called behind those that were given before."""
        called: Future[T] = Future()
        self._calls.put((called, function, arguments))
        return called

    @property
    def is_here(self) -> bool:
        """Whether this is the process that has the thread, and not a forked one."""
        return os.getpid() == self._pid

    # At the end of the interpreter the names of modules are gone, and the thread is stopped.
    def end(self, _empty: type[Exception] = Empty, _sys: Any = sys) -> None:
        """Wait for the call that runs; the others are not made."""
        if _sys.is_finalizing() or not self.is_here:
            return
        while True:
            try:
                call = self._calls.get_nowait()
            except _empty:
                break
            if call is not None:
                call[0].cancel()
        self._calls.put(None)
        self._thread.join()


def _run(calls: SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        called, function, arguments = call
        if not called.set_running_or_notify_cancel():
            continue
        try:
            called.set_result(function(*arguments))
        except BaseException as error:
            called.set_exception(error)
        del call, called, function, arguments  # what it returned is the caller's
