"""A thread that calls functions one after the other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
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
        self._is_over = False
        self._pid = os.getpid()
        # Kept: at the end of the interpreter the names of modules are gone.
        self._is_finalizing = sys.is_finalizing
        self._thread = Thread(target=self._run, name=name, daemon=True)
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

    def end(self) -> None:
        """Wait for the call that runs; the others are not made."""
        # The interpreter stops daemon threads as it ends.
        if self._is_finalizing() or not self.is_here:
            return
        self._is_over = True
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            called, function, arguments = call
            if self._is_over:
                called.cancel()
            if not called.set_running_or_notify_cancel():
                continue
            try:
                called.set_result(function(*arguments))
            except BaseException as error:
                called.set_exception(error)
            del call, called, function, arguments  # what it returned is the caller's
