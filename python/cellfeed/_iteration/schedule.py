"""Which batches of which epoch this process yields, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import InvalidArgumentError
from .agreement import Agreement
from .epochs import OF_A_STATE, EpochCounter, Position
from .options import IterationOptions
from .rank import agree_on_seed
from .run import Run
from .states import (
    PlanOptions,
    as_epoch,
    make_position,
    next_batch_of_worker,
    parse_state,
    partition_of,
    place_text,
    plan_options,
    to_state,
)
from .worker import this_worker


class Schedule:
    """Turns iterations into runs: epochs, ranks, workers and resuming.

    Parameters
    ----------
    order
        The bound strategy.
    collection
        Fingerprint of the collection.
    options
        Sizes, how samples are dealt and to which ranks, seed and first epoch.
    is_chunked
        The files keep rows in chunks, which partition ``"auto"`` goes by.
    """

    def __init__(
        self,
        order: _core.Strategy,
        collection: str,
        options: IterationOptions,
        *,
        is_chunked: bool = False,
    ) -> None:
        self.order = order
        self.collection = collection
        self.options = options
        self.ranks = options.make_ranks()
        self.epochs = EpochCounter(options.epoch)
        self._is_chunked = is_chunked
        self._seed = options.seed
        self._n_begun = self._n_set = 0  # iterations; times that epochs were set
        self._run: Run | None = None
        self._bound = ""  # of one that was unpickled or copied: the order it had
        # Loaded by this worker process for itself: torch's workers load their states before any of
        # them starts, each its own.
        self._of_worker: tuple[Position, int | None, dict[str, Any]] | None = None
        self._measure(options.epoch)  # refuses what does not fit the order, before any reading
        self._agreement = self._make_agreement()
        self._agreement.require()
        self._agree_early()

    def _make_agreement(self) -> Agreement:
        s = self.options
        facts = {
            "samples": self.order.length(s.epoch), "collection": self.collection,
            "order": self._strategy, "seed": s.seed, "batch_size": s.batch_size,
            "fetch_factor": s.fetch_factor, "partition": s.partition, "remainder": s.remainder,
            "drop_last": s.drop_last, "epoch": s.epoch,
        }  # fmt: skip
        return Agreement(self.ranks, self.order.name, facts)

    def __getstate__(self) -> dict[str, object]:
        # The order is bound anew; its fingerprint tells whether it is the same.
        state = {**self.__dict__, "_run": None, "_n_begun": 0, "_of_worker": None}
        state["_bound"] = self._strategy
        del state["order"]
        return state

    def bind(self, order: _core.Strategy) -> None:
        """Set the order of an unpickled schedule, or of one that a copy shares."""
        shared = getattr(self, "order", None)
        bound = self._bound if shared is None else self._strategy
        self.order = order
        if self._strategy != bound:
            self.order = order if shared is None else shared
            raise InvalidArgumentError(
                "labels, weights or indices of the sampling strategy have changed since the data "
                "set was made, so that a copy of it would have another order: make the data set "
                "anew"
            )

    # Seeds and ranks -----------------------------------------------------------------------------

    @property
    def seed(self) -> int:
        """Seed of every order; all ranks must ask for one that has to be agreed on."""
        if self._seed is not None:
            return self._seed
        world_size = self.ranks.now()[1]
        seed = self.epochs.agreed_seed(world_size)
        return self._agree(world_size) if seed is None else seed

    def _agree(self, world_size: int) -> int:
        return self.epochs.agree(agree_on_seed(self.epochs.drawn_seed(), self.ranks), world_size)

    def _agree_early(self) -> None:
        # Workers cannot, and may be forked before anybody asks for the seed. But ranks that only
        # the environment tells of may yet get a group.
        world_size = self.ranks.now()[1]
        if self._seed is None and (
            world_size == 1 or self.ranks.is_given or self.ranks.are_grouped()
        ):
            self._agree(world_size)

    @property
    def partition(self) -> str:
        """How samples are dealt to the ranks of now."""
        world_size = self.ranks.now()[1]
        return _core.partition_of(self.options.partition, self._is_chunked, world_size)

    # Plans ---------------------------------------------------------------------------------------

    def make_plan(
        self, epoch: int, position: Position | None = None, *, seed: int | None = None
    ) -> _core.Plan:
        """Plan of an epoch, or of what a position leaves of it."""
        s, (rank, world_size) = self.options, self.ranks.now()
        if s.is_tuned and world_size > 1:
            raise InvalidArgumentError(
                "tune was asked for, and ranks that measure apart would disagree on the order: run "
                "`cellfeed bench` once and pass its settings to every rank"
            )
        options: PlanOptions = {"partition": s.partition}
        if position is not None and position.consumed:
            length = self._length(position)
            if position.consumed > length:
                raise InvalidArgumentError(
                    f"the state has consumed {position.consumed} samples of an epoch of {length}"
                )
            if position.consumed < length:
                options = plan_options(position)
        return _core.Plan.make(
            self.order, self.seed if seed is None else seed, epoch, s.batch_size, s.fetch_factor,
            rank, world_size, remainder=s.remainder, drop_last=s.drop_last,
            is_chunked=self._is_chunked, **options,
        )  # fmt: skip

    def _measure(self, epoch: int, position: Position | None = None) -> _core.Plan:
        # Sizes do not depend on the seed, so that no rank waits for others here.
        return self.make_plan(epoch, position, seed=0)

    def _length(self, position: Position) -> int:
        return self.order.length(position.epoch, position.order_step_samples)

    def _is_all(self, position: Position) -> bool:
        return position.consumed >= self._length(position)

    @property
    def n_batches(self) -> int:
        """Batches of this rank in a whole epoch: the next iteration's."""
        return self._measure(self.epochs.next_epoch()).n_batches

    @property
    def n_batches_left(self) -> int:
        """Batches of this rank that :meth:`state_dict` leaves of its epoch."""
        position = self.epochs.pending()
        if position is not None:
            is_all = self._is_all(position)
            return 0 if is_all else self._measure(position.epoch, position).n_batches
        run = self._current_run()
        return self.n_batches if run is None else run.n_batches_left

    def next_rows(self, epoch: int | None = None) -> Iterator[npt.NDArray[np.int64]]:
        """Rows of the batches of an epoch; those of the next iteration by default."""
        position = self.epochs.pending() if epoch is None else None
        if position is not None:
            if self._is_all(position):
                return
            epoch = position.epoch
        elif epoch is None:
            epoch = self.epochs.next_epoch()
        plan = self.make_plan(as_epoch(epoch), position)
        for k in range(plan.n_batches):
            yield plan.batch(k)[0]

    # Iterations ----------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; a state of that epoch, just loaded, stays."""
        epoch = as_epoch(epoch)
        position = self.epochs.pending()
        if position is not None and position.epoch == epoch:
            return
        self.epochs.set(epoch)
        self._run = None
        self._n_set += 1

    def require_batches_of(self, epoch: int) -> None:
        """Refuse a state loaded within the epoch whose batches were smaller or larger ones."""
        position = self.epochs.pending()
        if position is None or position.epoch != epoch or not position.consumed:
            return
        before, now = position.order_step_samples, self._step_samples()
        if before != now and not self._is_all(position):
            raise InvalidArgumentError(
                f"the state lies within an epoch of batches of {before} samples over all ranks, "
                f"now {now}, and whoever sets the epoch of a sampler (as Lightning does) counts "
                "its batches on from there, and would leave some out: continue with as many ranks "
                "and the same batch size, or from a checkpoint at the end of an epoch"
            )

    def begin(self) -> Run:
        """An iteration of this process."""
        self.ranks.refuse_second_split()
        self._n_begun += 1
        return Run(self, self._n_begun - 1)

    def start(self, run: Run, ordinal: int) -> _core.Plan:
        """Take the epoch of a run, and fill the run in."""
        next_batch = None
        position: Position | None
        self._agreement.require()
        seed = self.seed  # may be refused, before an epoch is taken
        if self._of_worker is not None:
            position, next_batch, _ = self._of_worker
            self._of_worker = None
            run.epoch = position.epoch
        else:
            run.epoch, position = self.epochs.start(run.worker, ordinal)
            self._require_same_start(position)
        run.seed = seed
        plan = self.make_plan(run.epoch, position, seed=seed)
        run.first = run.worker.index
        run.is_first_resumed = position is not None and run.first == 0
        if next_batch is not None:
            run.first, run.is_first_resumed = next_batch, True
        elif position is not None and self._is_all(position):
            run.first = plan.n_batches
        self._run = run
        return plan

    def _require_same_start(self, position: Position | None) -> None:
        state: str | None = "none"
        if position is not None:
            state = place_text(position)
            if self._is_all(position):
                state = None
        self._agreement.begin(state)
        if self._run is not None:  # the epoch was not set since
            self._agreement.go_on(
                f"{self._n_set}/{self._run.epoch}", self._run.read(), self._run.is_all_read
            )

    # States --------------------------------------------------------------------------------------

    def _current_run(self) -> Run | None:
        """The run whose epoch is under way."""
        is_process, run = this_worker().is_process, self._run
        if not is_process and self.epochs.is_counted_by_workers():
            raise InvalidArgumentError(
                "the batches come from worker processes of a DataLoader, which read ahead, so this "
                "process cannot know which were used: use torchdata's StatefulDataLoader and its "
                "state_dict(), or num_workers=0 (reading is multi-threaded without workers)"
            )
        return None if run is None or (run.is_exhausted and not is_process) else run

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration that began last stands, as small JSON-able data."""
        if self._of_worker is not None:
            return dict(self._of_worker[2])
        position = self.epochs.pending()
        if position is not None:
            return self._state(position)
        run = self._current_run()
        if run is None:
            epoch, seed = self.epochs.next_epoch(), self.seed
            return self._state(make_position(self.make_plan(epoch, seed=seed), seed, epoch, 0))
        n_done = run.first + run.n_yielded
        position = make_position(run.plan, run.seed, run.epoch, 0)
        if run.worker.is_process:
            position = replace(position, consumed=run.plan.consumed_after(0))
            worker = run.worker
            return {
                **self._state(position),
                "worker": {
                    "index": worker.index,
                    "count": worker.count,
                    "next_batch": run.first + run.n_yielded * run.step,
                    "step_samples": self._step_samples(),
                },
            }
        is_all = n_done >= run.plan.n_batches
        consumed = run.plan.order_length if is_all else run.plan.consumed_after(n_done)
        return self._state(replace(position, consumed=consumed))

    def _state(self, position: Position) -> dict[str, Any]:
        return to_state(position, self.collection, self._strategy)

    @property
    def _strategy(self) -> str:
        return f"{self.order.fingerprint:016x}"

    def _step_samples(self) -> int:
        return self.options.batch_size * self.ranks.now()[1]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration continue where ``state`` stands."""
        worker = this_worker()
        position = parse_state(state, self.collection, self._strategy)
        next_batch = next_batch_of_worker(state, worker, self._step_samples())
        self._check(position)
        if self._seed is None:
            self.epochs.agree(position.seed, OF_A_STATE)
        self._run = None
        self._n_set += 1
        if worker.is_process:
            self._of_worker = position, next_batch, dict(state)
            self.epochs.set(position.epoch + 1, by_workers=True)
        else:
            self.epochs.set(position.epoch, position)

    def _check(self, position: Position) -> None:
        wanted = self.options.partition
        if self._seed is not None and position.seed != self._seed:
            raise InvalidArgumentError(
                f"the state was saved with seed {position.seed}, not {self._seed}"
            )
        if position.consumed and wanted not in ("auto", partition_of(position)):
            raise InvalidArgumentError(
                f"the state was saved with partition {partition_of(position)!r}, not {wanted!r}"
            )
        self._measure(position.epoch, position)
