"""Which epoch an iteration is: one count for a data set and its copies in workers."""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from multiprocessing import context, reduction
from typing import Any, ClassVar

import numpy as np

from ..errors import InvalidArgumentError
from .worker import Worker, this_worker


@dataclass(frozen=True)
class Position:
    """Where an epoch is continued: integers below 2**63."""

    seed: int
    epoch: int
    consumed: int
    order_step_samples: int
    order_fetch_samples: int
    order_batch_size: int
    is_group: int


# Who agreed on the seed: nobody yet, the ranks of a world of that size, or whoever saved a state.
NO_ONE, OF_A_STATE = 0, -1

_N_ENTRIES = 16
_MASK_WORDS = 16  # workers of a DataLoader: 64 a word
_NEXT, _PENDING, _BY_WORKERS, _CURSOR, _SEED, _AGREED, _STATE = range(7)
_POSITION = slice(8, 15)
_HEAD = 16
_TOKEN, _ORDINAL, _EPOCH, _RESUMED, _MASK = range(5)
_ENTRY = _MASK + _MASK_WORDS
_N_WORDS = _HEAD + _N_ENTRIES * _ENTRY


class EpochCounter:
    """Counts iterations: the first is epoch ``first``, each further one is the next.

    The count, a seed that was drawn and a position to continue from lie in memory that worker
    processes share however they are started (fork, spawn, forkserver), because the copy of a data
    set in the parent of workers never iterates itself. All workers of one iteration get the same
    epoch: the first of them that starts takes it, and the others find it by the number that torch
    gave the workers and by how many iterations this worker has begun.

    Any other copy counts on its own: of ``copy.deepcopy`` and ``pickle``, and in a process that was
    started or forked without being a DataLoader's worker, such as a rank.

    Thread-safe: yes, between processes too.
    """

    _alive: ClassVar[weakref.WeakSet[EpochCounter]] = weakref.WeakSet()

    def __init__(self, first: int = 0) -> None:
        self._attach(_new_memory(), os.getpid())
        self._words[_NEXT] = first

    def _attach(self, fd: int, owner: int, snapshot: bytes = b"") -> None:
        self._fd = fd
        self._close: weakref.finalize[[int], EpochCounter] = weakref.finalize(self, os.close, fd)
        self._close.atexit = False
        self._owner = owner
        self._snapshot = snapshot
        self._thread_lock = threading.Lock()
        self._words = np.frombuffer(mmap.mmap(fd, _N_WORDS * 8), dtype=np.int64)
        self._alive.add(self)

    def __reduce__(self) -> tuple[object, ...]:
        self._part()
        if context.get_spawning_popen() is not None:
            return _attached, (reduction.DupFd(self._fd), self._owner, self._words.tobytes())
        return _copied, (self._words.tobytes(),)

    def _part(self) -> None:
        """Leave the memory of another process, unless this one is its worker."""
        if self._owner == os.getpid() or this_worker().is_process:
            return
        # Forked by other means than Python's, there is none: then as it stands now.
        snapshot = self._snapshot or self._words.tobytes()
        self._close()
        self._attach(_new_memory(), os.getpid())
        self._words[:] = np.frombuffer(snapshot, dtype=np.int64)

    @contextmanager
    def _locked(self) -> Iterator[np.ndarray]:
        self._part()
        with self._thread_lock:
            # A POSIX lock belongs to a process, so that forked workers exclude one another too.
            fcntl.lockf(self._fd, fcntl.LOCK_EX)
            try:
                yield self._words
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def next_epoch(self) -> int:
        """Epoch of the next iteration."""
        with self._locked() as words:
            return int(words[_NEXT])

    def is_counted_by_workers(self) -> bool:
        """True when the last iteration began in worker processes."""
        with self._locked() as words:
            return bool(words[_BY_WORKERS])

    def pending(self) -> Position | None:
        """The position that the next iteration continues from."""
        with self._locked() as words:
            return _position(words) if words[_PENDING] else None

    def set(
        self, epoch: int, position: Position | None = None, *, by_workers: bool = False
    ) -> None:
        """Make ``epoch`` the next one; that iteration, and no other, continues ``position``."""
        with self._locked() as words:
            words[_NEXT], words[_PENDING], words[_BY_WORKERS] = epoch, 0, by_workers
            if position is not None:
                words[_STATE] += 1
                words[_PENDING] = words[_STATE]
                words[_POSITION] = astuple(position)

    def agreed_seed(self, by: int) -> int | None:
        """The seed that ``by`` ranks agreed on, or that came with a state."""
        with self._locked() as words:
            return int(words[_SEED]) if words[_AGREED] in (by, OF_A_STATE) else None

    def drawn_seed(self) -> int | None:
        """The seed that was drawn, whoever agreed."""
        with self._locked() as words:
            return None if words[_AGREED] == NO_ONE else int(words[_SEED])

    def agree(self, seed: int, by: int) -> int:
        """Keep a seed, unless one has been agreed on; returns that."""
        with self._locked() as words:
            if by == OF_A_STATE or words[_AGREED] not in (by, OF_A_STATE):
                words[_SEED], words[_AGREED] = seed, by
            return int(words[_SEED])

    def start(self, worker: Worker, ordinal: int) -> tuple[int, Position | None]:
        """Begin an iteration.

        Parameters
        ----------
        worker
            This process.
        ordinal
            Iterations that this process has begun before.

        Returns
        -------
        epoch : int
        position : Position or None
            What this iteration continues.
        """
        with self._locked() as words:
            if not worker.is_process:
                words[_BY_WORKERS] = 0
                epoch, state = _take(words)
                return epoch, _position(words) if state else None
            bit = (
                np.int64(-1 << 63) if worker.index % 64 == 63 else np.int64(1 << worker.index % 64)
            )
            word = _MASK + worker.index // 64 % _MASK_WORDS
            entry = _find(words, worker.token, ordinal)
            # An iteration that this worker has joined already is an older one: torch drew the same
            # number again.
            if entry is None or entry[word] & bit:
                entry = _new_entry(words, worker.token, ordinal)
            entry[word] |= bit
            if entry[_RESUMED] not in (0, words[_STATE]):
                raise InvalidArgumentError(
                    "load_state_dict was called while worker processes began an iteration with the "
                    "state loaded before: load a state when no iteration is under way"
                )
            return int(entry[_EPOCH]), _position(words) if entry[_RESUMED] else None


def _new_memory() -> int:
    fd = os.memfd_create("cellfeed-epochs", os.MFD_CLOEXEC)
    os.ftruncate(fd, _N_WORDS * 8)
    return fd


def _position(words: np.ndarray) -> Position:
    return Position(*words[_POSITION].tolist())


def _take(words: np.ndarray) -> tuple[int, int]:
    epoch, state = int(words[_NEXT]), int(words[_PENDING])
    words[_NEXT], words[_PENDING] = epoch + 1, 0
    return epoch, state


def _find(words: np.ndarray, token: int, ordinal: int) -> np.ndarray | None:
    newest = int(words[_CURSOR])
    for age in range(_N_ENTRIES):
        entry = _entry(words, newest - age)
        if entry[_TOKEN] == token and entry[_ORDINAL] == ordinal:
            return entry
    return None


def _new_entry(words: np.ndarray, token: int, ordinal: int) -> np.ndarray:
    words[_CURSOR] += 1
    entry = _entry(words, int(words[_CURSOR]))
    entry[:] = 0
    entry[_TOKEN], entry[_ORDINAL] = token, ordinal
    entry[_EPOCH], entry[_RESUMED] = _take(words)
    words[_BY_WORKERS] = 1
    return entry


def _entry(words: np.ndarray, number: int) -> np.ndarray:
    begin = _HEAD + number % _N_ENTRIES * _ENTRY
    return words[begin : begin + _ENTRY]


def _attached(fd: Any, owner: int, snapshot: bytes) -> EpochCounter:
    counter = EpochCounter.__new__(EpochCounter)
    counter._attach(os.dup(fd.detach()), owner, snapshot)
    return counter


def _copied(content: bytes) -> EpochCounter:
    counter = EpochCounter()
    counter._words[:] = np.frombuffer(content, dtype=np.int64)
    return counter


def _living() -> list[EpochCounter]:
    while True:
        try:
            return list(EpochCounter._alive)
        except RuntimeError:  # another thread made one meanwhile
            continue


def _before_fork() -> None:
    for counter in _living():
        with counter._locked() as words:
            counter._snapshot = words.tobytes()


def _after_fork() -> None:
    for counter in _living():
        counter._thread_lock = threading.Lock()  # another thread of the parent may hold the old one


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
