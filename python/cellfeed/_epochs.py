"""Which epoch an iteration is: one count for a data set and its copies in workers."""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import context, reduction
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Worker:
    """This process among the workers of a torch DataLoader.

    Attributes
    ----------
    index, count
        Number of this worker, and how many there are; 0 of 1 outside of a DataLoader's worker.
    token
        The same for all workers that a DataLoader started together; 0 outside of a worker.
    """

    index: int = 0
    count: int = 1
    token: int = 0

    @property
    def is_process(self) -> bool:
        """True in a worker process of a DataLoader."""
        return self.token != 0


def this_worker() -> Worker:
    # A worker process has imported torch.
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    if info is None:
        return Worker()
    # torch seeds worker w with base + w; the base is drawn anew each time workers are started.
    return Worker(info.id, info.num_workers, ((info.seed - info.id) % 2**62) | 1 << 62)


_N_ENTRIES = 16
_MASK_WORDS = 16  # workers of a DataLoader: 64 a word
_NEXT, _PENDING, _BY_WORKERS, _CURSOR = range(4)
_HEAD = 8
_TOKEN, _ORDINAL, _EPOCH, _RESUMED, _MASK = range(5)
_ENTRY = _MASK + _MASK_WORDS
_N_WORDS = _HEAD + _N_ENTRIES * _ENTRY


class EpochCounter:
    """Counts iterations: the first is epoch ``first``, each further one is the next.

    The count lies in memory that worker processes share however they are started (fork, spawn,
    forkserver), because the copy of a data set in the parent of workers never iterates itself. All
    workers of one iteration get the same epoch: the first of them that starts takes it, and the
    others find it by the number that torch gave the workers and by how many iterations this worker
    has begun. A copy by other means (``copy.deepcopy``, ``pickle``) counts on its own.

    Thread-safe: yes, between processes too.
    """

    def __init__(self, first: int = 0) -> None:
        self._attach(os.memfd_create("cellfeed-epochs", os.MFD_CLOEXEC), is_new=True)
        self._words[_NEXT] = first

    def _attach(self, fd: int, *, is_new: bool = False) -> None:
        if is_new:
            os.ftruncate(fd, _N_WORDS * 8)
        self._fd = fd
        self._thread_lock = threading.Lock()
        self._words = np.frombuffer(mmap.mmap(fd, _N_WORDS * 8), dtype=np.int64)

    def __del__(self) -> None:
        fd = getattr(self, "_fd", None)
        if fd is not None:
            os.close(fd)

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is not None:
            return _attached, (reduction.DupFd(self._fd),)
        return _copied, (self._words.tobytes(),)

    @contextmanager
    def _locked(self) -> Iterator[np.ndarray]:
        with self._thread_lock:
            # A POSIX lock belongs to a process, so that forked workers exclude one another too.
            fcntl.lockf(self._fd, fcntl.LOCK_EX)
            try:
                yield self._words
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def next_epoch(self) -> int:
        """Epoch of the next iteration."""
        return int(self._words[_NEXT])

    def is_counted_by_workers(self) -> bool:
        """True when the last iteration began in worker processes."""
        return bool(self._words[_BY_WORKERS])

    def is_pending(self, resume_id: int) -> bool:
        """True until the first iteration after ``set(epoch, resume_id)``."""
        return resume_id != 0 and int(self._words[_PENDING]) == resume_id

    def set(self, epoch: int, resume_id: int = 0) -> None:
        """Make ``epoch`` the next one; that iteration, and no other, continues ``resume_id``."""
        with self._locked() as words:
            words[_NEXT], words[_PENDING], words[_BY_WORKERS] = epoch, resume_id, 0

    def start(self, worker: Worker, ordinal: int, resume_id: int = 0) -> tuple[int, bool]:
        """Begin an iteration.

        Parameters
        ----------
        worker
            This process.
        ordinal
            Iterations that this process has begun before.
        resume_id
            Of the state that this copy of the data set holds; 0 for none.

        Returns
        -------
        epoch : int
        is_resumed : bool
            True when this iteration continues the state of ``resume_id``.
        """
        with self._locked() as words:
            if not worker.is_process:
                words[_BY_WORKERS] = 0
                return self._take(words, resume_id)
            bit = (
                np.int64(-1 << 63) if worker.index % 64 == 63 else np.int64(1 << worker.index % 64)
            )
            word = _MASK + worker.index // 64 % _MASK_WORDS
            entry = self._find(words, worker.token, ordinal)
            # An iteration that this worker has joined already is an older one: torch drew the same
            # number again.
            if entry is None or entry[word] & bit:
                entry = self._new_entry(words, worker.token, ordinal, resume_id)
            entry[word] |= bit
            return int(entry[_EPOCH]), bool(entry[_RESUMED])

    def _take(self, words: np.ndarray, resume_id: int) -> tuple[int, bool]:
        epoch = int(words[_NEXT])
        is_resumed = resume_id != 0 and int(words[_PENDING]) == resume_id
        words[_NEXT], words[_PENDING] = epoch + 1, 0
        return epoch, is_resumed

    def _find(self, words: np.ndarray, token: int, ordinal: int) -> np.ndarray | None:
        newest = int(words[_CURSOR])
        for age in range(_N_ENTRIES):
            entry = self._entry(words, newest - age)
            if entry[_TOKEN] == token and entry[_ORDINAL] == ordinal:
                return entry
        return None

    def _new_entry(self, words: np.ndarray, token: int, ordinal: int, resume_id: int) -> np.ndarray:
        words[_CURSOR] += 1
        entry = self._entry(words, int(words[_CURSOR]))
        entry[:] = 0
        entry[_TOKEN], entry[_ORDINAL] = token, ordinal
        entry[_EPOCH], entry[_RESUMED] = self._take(words, resume_id)
        words[_BY_WORKERS] = 1
        return entry

    @staticmethod
    def _entry(words: np.ndarray, number: int) -> np.ndarray:
        begin = _HEAD + number % _N_ENTRIES * _ENTRY
        return words[begin : begin + _ENTRY]


def _attached(fd: Any) -> EpochCounter:
    counter = EpochCounter.__new__(EpochCounter)
    counter._attach(os.dup(fd.detach()))
    return counter


def _copied(content: bytes) -> EpochCounter:
    counter = EpochCounter()
    counter._words[:] = np.frombuffer(content, dtype=np.int64)
    return counter
