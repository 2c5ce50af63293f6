"""One iteration that several threads may take batches of."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

from ..errors import CancelledError, InvalidArgumentError

Yielded = TypeVar("Yielded")


class SharedIterator(Iterator[Yielded]):
    """Hands each batch to one of those who ask, in turn.

    Whoever asks first after an error gets it; all who ask later get a ``CancelledError`` that says
    what it was, and never an end that looks like that of an epoch.

    Thread-safe: yes; what makes the batches is run by one thread at a time.

    Parameters
    ----------
    batches
        Makes them.
    """

    def __init__(self, batches: Generator[Yielded, None, None]) -> None:
        self._batches = batches
        # Of one thread more than once, so that a hook that asks for itself does not wait for ever.
        self._lock = threading.RLock()
        self._is_asked = False  # guarded by _lock
        self._failure = ""  # guarded by _lock

    def __next__(self) -> Yielded:
        with self._lock:
            if self._is_asked:
                raise InvalidArgumentError(
                    "a function that is called for a batch asks for the next batch of the same "
                    "iteration: it gets one batch, and returns what is made of it"
                )
            if self._failure:
                raise CancelledError(f"this iteration ended early: {self._failure}")
            self._is_asked = True
            try:
                return next(self._batches)
            except StopIteration:
                raise
            except BaseException as error:
                self._failure = f"{type(error).__name__}: {error}"
                raise
            finally:
                self._is_asked = False

    def close(self) -> None:
        """End the iteration: stop reading ahead for it."""
        with self._lock:
            self._batches.close()
