"""Batches of windows by the plans, ranks and states that cells have."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import Any, Self, Unpack, overload

import numpy as np

from .. import _core
from .._arguments import (
    as_function,
    parse_memory_budget,
    parse_threads,
    shown,
)
from .._cache_warnings import publish_blocks
from .._iteration.dataset import BatchDataset
from .._iteration.iterable import Yielded, refuse_batching_again
from .._iteration.options import FETCH_FACTOR, IterationOptions
from .._iteration.run import Run
from .._iteration.schedule import Schedule
from .._iteration.shared_iterator import SharedIterator
from .._iteration.stats import SeriesStats
from .._keywords import WindowKeywords
from .._options import Partition, Remainder
from ..errors import CellfeedError, InvalidArgumentError, InvalidTypeError
from ..strategies import SamplingStrategy, as_strategy
from ._batch import SeriesBatch
from ._dataset import SeriesDataset
from ._one_thread import OneThread

# Groups of batches that are copied while the consumer has another.
_AHEAD = 1
# Batches that one task copies: handing over each by itself would take a third of the copy's time.
_TOGETHER, _TOGETHER_BYTES = 8, 16 << 20


class SeriesLoader(BatchDataset[Yielded]):
    """Shuffled batches of windows of a :class:`SeriesDataset`.

    Strategies, ranks, epochs, workers and states are those of :class:`cellfeed.Loader`; a sample is
    a window. Windows are copied by threads of the core, some batches ahead.

    Parameters
    ----------
    ds
        The windows. Its ``transform`` is not applied; ``collate_fn`` sees whole batches.
    strategy
        The order of an epoch; ``cf.BlockShuffling(1)`` is true random.
    batch_size
        Windows of a batch on one rank.
    seed, epoch, rank, world_size, partition, remainder, fetch_factor, drop_last, collate_fn
        As for :class:`cellfeed.Loader`.
    memory_budget
        Bytes of batches that are copied ahead, at least 32 MB. A batch larger than that is still
        loaded, alone.
    threads
        Threads that copy; one a processor by default.
    """

    @overload
    def __init__(
        self: SeriesLoader[SeriesBatch],
        ds: SeriesDataset[Any],
        strategy: SamplingStrategy,
        batch_size: int = ...,
        *,
        collate_fn: None = ...,
        **options: Unpack[WindowKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: SeriesLoader[Yielded],
        ds: SeriesDataset[Any],
        strategy: SamplingStrategy,
        batch_size: int = ...,
        *,
        collate_fn: Callable[[SeriesBatch], Yielded],
        **options: Unpack[WindowKeywords],
    ) -> None: ...

    def __init__(
        self,
        ds: SeriesDataset[Any],
        strategy: SamplingStrategy,
        batch_size: int = 1024,
        *,
        seed: int | None = 0,
        epoch: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        partition: Partition = "auto",
        remainder: Remainder = "pad",
        fetch_factor: int | None = None,
        memory_budget: int | str = "2GB",
        threads: int | None = None,
        drop_last: bool = False,
        collate_fn: Callable[[SeriesBatch], Any] | None = None,
    ) -> None:
        if not isinstance(ds, SeriesDataset):
            raise InvalidTypeError(f"ds must be a SeriesDataset, not {shown(ds)}")
        if ds.transform is not None:
            raise InvalidArgumentError(
                "a Loader makes whole batches and calls no transform of single windows: make the "
                "data set without transform, and pass collate_fn, which gets each batch"
            )
        self.ds = ds
        self.strategy = as_strategy(strategy)
        self.collate_fn = as_function("collate_fn", collate_fn)
        self._threads = parse_threads(threads) or _core.default_threads()
        self._budget = parse_memory_budget(memory_budget)
        self._stats: SeriesStats = {
            "windows": 0, "batches": 0, "bytes": 0,
            "copy_seconds": 0.0, "wait_seconds": 0.0, "collate_seconds": 0.0,
        }  # fmt: skip
        self._is_closed = False
        options = IterationOptions(
            batch_size=batch_size, partition=partition, remainder=remainder, drop_last=drop_last,
            fetch_factor=FETCH_FACTOR if fetch_factor is None else fetch_factor, seed=seed,
            epoch=0 if epoch is None else epoch, rank=rank, world_size=world_size,
        )  # fmt: skip
        self._schedule = Schedule(self.strategy.bind(ds), _fingerprint(ds), options)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._schedule.bind(self.strategy.bind(self.ds))

    def __repr__(self) -> str:
        rank = f", rank {self.rank} of {self.world_size}" if self.world_size > 1 else ""
        return (
            f"Loader({self.strategy!r}, batch_size={self.batch_size}{rank}) over {len(self.ds)} "
            "windows"
        )

    def __iter__(self) -> SharedIterator[Yielded]:
        """An iteration; threads may share it, and each batch goes to one of them."""
        refuse_batching_again()
        batches: Any = self._collated(self._batches(self._schedule.begin()))
        return SharedIterator(batches)

    def _copy(self, planned: _Planned) -> Iterator[SeriesBatch]:
        """Batches that lie one after another in one piece of memory, which threads fill at once."""
        rows = np.concatenate([np.asarray(rows) for rows, _ in planned])
        inputs, y = self.ds.arrays(rows, threads=self._threads)
        begin = 0
        for index, padding in planned:
            part = slice(begin, begin + len(index))
            own = (
                {name: each[part] for name, each in inputs.items()}
                if isinstance(inputs, dict)
                else inputs[part]
            )
            yield SeriesBatch(self.ds, own, y[part], index, padding)
            begin = part.stop

    def _ask(self, plan: _core.Plan, numbers: list[int]) -> _Planned:
        """What batches hold; a disk is asked for the rows of all of them at once."""
        planned = [plan.batch(number) for number in numbers]
        self.ds.will_read(np.concatenate([np.asarray(rows) for rows, _ in planned]))
        return planned

    def _copy_group(self, asked: Future[_Planned]) -> _Group:
        """Batches up to the first that fails, and its error."""
        begin = time.perf_counter()
        batches: deque[SeriesBatch] = deque()
        try:
            planned = asked.result()
            try:
                batches.extend(self._copy(planned))
            except CellfeedError:
                # Which of them fails, and what comes before it.
                for each in planned:
                    batches.extend(self._copy([each]))
        except BaseException as error:
            return batches, error
        finally:
            self._stats["copy_seconds"] += time.perf_counter() - begin
        return batches, None

    def _groups(self, numbers: Iterator[int]) -> Iterator[list[int]]:
        """Numbers of batches to copy together: one at first, so that it is there soon."""
        a_batch = max(1, self.batch_size * self.ds.window_bytes)
        most = min(_TOGETHER, _TOGETHER_BYTES // a_batch, self._budget // (2 + _AHEAD) // a_batch)
        n = 1
        while group := list(islice(numbers, n)):
            yield group
            n = max(1, min(2 * n, most))

    def _batches(self, run: Run) -> Generator[SeriesBatch, None, None]:
        plan = run.start()
        under_way: deque[Future[_Group]] = deque()
        # One thread, which has those of the core copy; a worker process makes its own. Another asks
        # for the rows of the next group meanwhile, so that a disk is never without work.
        copying, asking = OneThread("cellfeed-windows"), OneThread("cellfeed-asks")
        try:
            groups = self._groups(iter(run.numbers()))
            ahead = 0 if 2 * self.batch_size * self.ds.window_bytes > self._budget else _AHEAD
            while True:
                for numbers in groups:
                    asked = asking.submit(self._ask, plan, numbers)
                    under_way.append(copying.submit(self._copy_group, asked))
                    if len(under_way) > ahead:
                        break
                if not under_way:
                    break
                if not copying.is_here:
                    raise InvalidArgumentError(
                        "this iterator was made before the process forked; make a new one with "
                        "iter(loader)"
                    )
                begin = time.perf_counter()
                batches, error = under_way.popleft().result()
                self._stats["wait_seconds"] += time.perf_counter() - begin
                while batches:
                    self._require_open()
                    batch = batches.popleft()
                    self._stats["windows"] += len(batch)
                    self._stats["batches"] += 1
                    self._stats["bytes"] += batch.nbytes
                    run.advance()
                    yield batch
                    del batch
                if error is not None:
                    raise error
            self._require_open()
            run.finish()
        finally:
            copying.end()
            asking.end()
            if publish_blocks is not None:  # as at the end of the program
                publish_blocks()

    def _require_open(self) -> None:
        if self._is_closed:
            raise InvalidArgumentError("this loader is closed: make another one")

    def _collated(self, batches: Generator[SeriesBatch, None, None]) -> Generator[Any, None, None]:
        try:
            for batch in batches:
                if self.collate_fn is None:
                    yield batch
                    continue
                begin = time.perf_counter()
                made = self.collate_fn(batch)
                self._stats["collate_seconds"] += time.perf_counter() - begin
                yield made
        finally:
            batches.close()

    def close(self) -> None:
        """Iterations that run end in an error at their next batch."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def stats(self) -> SeriesStats:
        """Counters since the loader was made: windows, batches, bytes, seconds.

        ``wait_seconds`` is what the consumer waited for batches, ``copy_seconds`` what copying
        took, ``collate_seconds`` what ``collate_fn`` did.
        """
        return self._stats.copy()


# Of each batch: numbers of windows, and which of them only fill it up.
_Planned = list[tuple[np.ndarray, np.ndarray | None]]
_Group = tuple[deque[SeriesBatch], BaseException | None]


def _fingerprint(ds: SeriesDataset[Any]) -> str:
    """What the numbers of windows depend on."""
    return "series " + hashlib.sha256(repr(ds.identity()).encode()).hexdigest()[:16]
