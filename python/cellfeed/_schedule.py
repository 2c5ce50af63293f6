"""Which batches of which epoch this process yields, and where it stands."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._epochs import EpochCounter, Worker, this_worker
from .errors import InvalidArgumentError, InvalidTypeError

STATE_VERSION = 1
_ORDER_KEYS = ("order_step_samples", "order_fetch_samples", "order_batch_size")


@dataclass
class Settings:
    """What a plan depends on besides seed and epoch."""

    batch_size: int
    fetch_factor: int
    rank: int
    world_size: int
    partition: str
    remainder: str
    drop_last: bool
    is_auto_partition: bool = False


class Run:
    """One iteration of this process: batches ``first``, ``first + step``, ... of ``plan``.

    Its epoch is taken by :meth:`start`, so an iterator that is never advanced takes none. In a
    worker process it is taken at once: there the iterator is of the DataLoader, which reads ahead.
    """

    plan: _core.Plan | None = None
    epoch: int
    first: int

    def __init__(self, schedule: Schedule, ordinal: int) -> None:
        self._schedule = schedule
        self._ordinal = ordinal
        self.worker = this_worker()
        self.step = self.worker.count
        self.n_yielded = 0
        self.is_exhausted = False
        if self.worker.is_process:
            self.start()

    def start(self) -> _core.Plan:
        """Take the epoch and make its plan."""
        if self.plan is None:
            self._schedule._start(self, self._ordinal)
        return self.plan

    def numbers(self) -> Iterator[int]:
        """Batches of the plan that this process yields."""
        return iter(range(self.first, self.plan.n_batches, self.step))

    def advance(self) -> None:
        """Another batch is about to be handed out."""
        self.n_yielded += 1

    def finish(self) -> None:
        """All batches were handed out, and the consumer asked for one more."""
        self.is_exhausted = True


class Schedule:
    """Turns iterations into runs: epochs, ranks, workers and resuming.

    Parameters
    ----------
    order
        The bound strategy.
    collection
        Fingerprint of the collection.
    settings
        Sizes and ranks.
    seed
        Seed of every order.
    epoch
        Of the first iteration.
    is_seed_free
        The seed was drawn at random: that of a loaded state replaces it.
    """

    def __init__(
        self,
        order: _core.Strategy,
        collection: str,
        settings: Settings,
        seed: int,
        epoch: int = 0,
        *,
        is_seed_free: bool = False,
    ) -> None:
        self.order = order
        self.collection = collection
        self.settings = settings
        self.seed = seed
        self.epochs = EpochCounter(epoch)
        self._is_seed_free = is_seed_free
        self._n_begun = 0
        self._run: Run | None = None
        self._resume: dict[str, Any] | None = None
        self._resume_id = 0
        self.make_plan(epoch)  # refuses bad settings before any reading

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "order": None, "_run": None, "_n_begun": 0}

    def make_plan(self, epoch: int, state: dict[str, Any] | None = None) -> _core.Plan:
        """Plan of an epoch, or of what a state leaves of it."""
        s = self.settings
        partition, rest = s.partition, {}
        if state is not None and 0 < state["consumed"] < self._length(state):
            partition = state["partition"]
            rest = {key: state[key] for key in ("consumed", *_ORDER_KEYS)}
        return _core.Plan.make(
            self.order, self.seed, epoch, s.batch_size, s.fetch_factor, s.rank, s.world_size,
            partition, s.remainder, s.drop_last, **rest,
        )  # fmt: skip

    def _length(self, state: dict[str, Any]) -> int:
        return self.order.length(state["epoch"], state["order_step_samples"])

    def next_plan(self) -> tuple[_core.Plan, int]:
        """Plan of the next iteration, and its first batch."""
        state = self._pending()
        if state is None:
            return self.make_plan(self.epochs.next_epoch()), 0
        plan = self.make_plan(state["epoch"], state)
        return plan, plan.n_batches if state["consumed"] >= self._length(state) else 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        self.epochs.set(as_int("epoch", epoch, 0, 2**63 - 1))
        self._resume, self._resume_id, self._run = None, 0, None

    def begin(self) -> Run:
        """An iteration of this process."""
        self._n_begun += 1
        return Run(self, self._n_begun - 1)

    def _start(self, run: Run, ordinal: int) -> None:
        state, is_local = self._resume, self._resume_id < 0
        if state is not None and is_local:  # loaded by this worker process for itself
            run.epoch, is_resumed = state["epoch"], True
        else:
            run.epoch, is_resumed = self.epochs.start(run.worker, ordinal, self._resume_id)
        state = state if is_resumed else None
        run.plan = self.make_plan(run.epoch, state)
        run.first = run.worker.index
        if state is not None:
            if "worker" in state:
                run.first = state["worker"]["next_batch"]
            elif state["consumed"] >= self._length(state):
                run.first = run.plan.n_batches
        self._resume, self._resume_id, self._run = None, 0, run

    def _pending(self) -> dict[str, Any] | None:
        is_pending = self._resume_id < 0 or self.epochs.is_pending(self._resume_id)
        return self._resume if is_pending else None

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration that began last stands, as small JSON-able data."""
        worker, run = this_worker(), self._run
        state = self._pending()
        if state is not None:
            return dict(state)
        if not worker.is_process and self.epochs.is_counted_by_workers():
            raise InvalidArgumentError(
                "the batches come from worker processes of a DataLoader, which read ahead, so "
                "this process cannot "
                "know which were used: use torchdata's StatefulDataLoader and its state_dict(), "
                "or num_workers=0 "
                "(reading is multi-threaded without workers)"
            )
        if run is None or (run.is_exhausted and not worker.is_process):
            return self._state(
                self.make_plan(self.epochs.next_epoch()), self.epochs.next_epoch(), 0
            )
        if worker.is_process:
            state = self._state(run.plan, run.epoch, run.plan.consumed_after(0))
            done = run.first + run.n_yielded * run.step
            state["worker"] = {
                "index": worker.index,
                "count": worker.count,
                "next_batch": done,
                "step_samples": self.settings.batch_size * self.settings.world_size,
            }
            return state
        done = run.first + run.n_yielded
        n = run.plan.n_batches
        is_all = done >= n
        return self._state(
            run.plan, run.epoch, run.plan.order_length if is_all else run.plan.consumed_after(done)
        )

    def _state(self, plan: _core.Plan, epoch: int, consumed: int) -> dict[str, Any]:
        return {
            "version": STATE_VERSION,
            "seed": self.seed,
            "epoch": epoch,
            "consumed": consumed,
            **{key: getattr(plan, key) for key in _ORDER_KEYS},
            "partition": plan.partition,
            "collection": self.collection,
            "strategy": f"{self.order.fingerprint:016x}",
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration continue where ``state`` stands."""
        worker = this_worker()
        self._check(state, worker)
        if self._is_seed_free:
            self.seed = state["seed"]
        self._resume = dict(state)
        self._run = None
        if worker.is_process:
            # torch's workers load their states before any of them starts, each its own.
            self._resume_id = -1
            self.epochs.set(state["epoch"] + 1)
        else:
            self._resume_id = secrets.randbelow(2**62) + 1
            self.epochs.set(state["epoch"], self._resume_id)

    def _check(self, state: Any, worker: Worker) -> None:
        if not isinstance(state, dict) or state.get("version") != STATE_VERSION:
            raise InvalidArgumentError(f"not a state of this version of cellfeed: {state!r:.200}")
        expected = (
            "seed",
            "epoch",
            "consumed",
            *_ORDER_KEYS,
            "partition",
            "collection",
            "strategy",
        )
        missing = [key for key in expected if key not in state]
        if missing:
            raise InvalidArgumentError(f"the state lacks {', '.join(missing)}: {state!r:.200}")
        if state["collection"] != self.collection:
            raise InvalidArgumentError(
                "the state belongs to another collection: its files, their order, content or "
                "genes have changed"
            )
        if state["strategy"] != f"{self.order.fingerprint:016x}":
            raise InvalidArgumentError(
                "the state belongs to another sampling strategy, or one with other settings"
            )
        if state["seed"] != self.seed and not self._is_seed_free:
            raise InvalidArgumentError(
                f"the state was saved with seed {state['seed']}, not {self.seed}"
            )
        for key in ("epoch", "consumed", *_ORDER_KEYS):
            as_int(f"{key} of the state", state[key], 0)
        s = self.settings
        if state["consumed"] and state["partition"] != s.partition and not s.is_auto_partition:
            raise InvalidArgumentError(
                f"the state was saved with partition {state['partition']!r}, not {s.partition!r}"
            )
        self._check_worker(state, worker)

    def _check_worker(self, state: dict[str, Any], worker: Worker) -> None:
        saved = state.get("worker")
        if saved is None:
            return
        if (saved["index"], saved["count"]) != (worker.index, worker.count):
            raise InvalidArgumentError(
                f"the state is that of worker {saved['index']} of {saved['count']} of a "
                f"StatefulDataLoader: load the "
                "whole state into a StatefulDataLoader with as many workers"
            )
        if saved["step_samples"] != self.settings.batch_size * self.settings.world_size:
            raise InvalidArgumentError(
                "the state of a StatefulDataLoader with workers continues with the same world "
                "size and batch size "
                f"only: {saved['step_samples']} samples a step then, "
                f"{self.settings.batch_size * self.settings.world_size} now; num_workers=0 has no "
                f"such limit"
            )


def as_int(name: str, value: Any, low: int, high: int | None = None) -> int:
    """An int in range, or an error that names the argument."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InvalidTypeError(f"{name} must be an integer: {value!r}")
    if value < low or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"in [{low}, {high}]"
        raise InvalidArgumentError(f"{name} must be {limits}: {value}")
    return int(value)
