"""One iteration: the batches of a plan that this process yields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from .. import _core
from .rank import Ranks
from .worker import this_worker


class Epochs(Protocol):
    """What gives a run its epoch: a schedule."""

    @property
    def ranks(self) -> Ranks:
        """Those that share each epoch."""

    def start(self, run: Run, ordinal: int) -> _core.Plan:
        """Take an epoch for the run, and make its plan."""


class Run:
    """One iteration of this process: batches ``first``, ``first + step``, ... of ``plan``.

    Its epoch is taken by :meth:`start`, so an iterator that is never advanced takes none. In a
    worker process it is taken at once: there the iterator is of the DataLoader, which reads ahead.
    """

    seed: int
    epoch: int
    first: int
    is_first_resumed: bool  # ``first`` is the batch at which the loaded state stood

    def __init__(self, schedule: Epochs, ordinal: int) -> None:
        self._schedule = schedule
        self._plan: _core.Plan | None = None
        self._ordinal = ordinal
        self.worker = this_worker()
        self.step = self.worker.count
        self.n_yielded = 0
        self.is_exhausted = False
        if self.worker.is_process:
            from .._torch import hand_over_in_shared_memory

            hand_over_in_shared_memory()
            self.start()

    def start(self) -> _core.Plan:
        """Take the epoch and make its plan, for the rank of now."""
        if self._plan is None:
            self.ranks = self._schedule.ranks.now()
            self._plan = self._schedule.start(self, self._ordinal)
        return self._plan

    @property
    def plan(self) -> _core.Plan:
        """The batches of all."""
        return self.start()

    @property
    def n_batches_left(self) -> int:
        """Batches that this process has not handed out."""
        return len(range(self.first + self.n_yielded * self.step, self.plan.n_batches, self.step))

    def numbers(self) -> Iterator[int]:
        """Batches of the plan that this process yields."""
        return iter(range(self.first, self.plan.n_batches, self.step))

    def advance(self) -> None:
        """Another batch is about to be handed out."""
        self._schedule.ranks.require_same(self.ranks)
        self.n_yielded += 1

    def finish(self) -> None:
        """All batches were handed out, and the consumer asked for one more."""
        self._schedule.ranks.require_same(self.ranks)
        self.is_exhausted = True

    @property
    def is_all_read(self) -> bool:
        """Whether all batches of this process were handed out."""
        return self.is_exhausted or self.n_batches_left == 0

    def read(self) -> str:
        """What was handed out, in words."""
        if self.is_all_read:
            return "all batches"
        return "1 batch" if self.n_yielded == 1 else f"{self.n_yielded} batches"
