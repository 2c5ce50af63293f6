"""Shards written by several processes: one plans them, any write them, the first finishes them."""

from __future__ import annotations

import json
import pickle
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from . import _core
from ._arguments import as_int, parse_memory_budget, parse_threads, shown
from ._conversion_arguments import Resources, input_cells
from ._progress import Progress, ProgressCallback, as_progress_callback
from .collection import CellCollection
from .errors import ClusterError, InvalidArgumentError, InvalidTypeError
from .storage import public_options, take_public_options

Result = TypeVar("Result")


@dataclass(frozen=True)
class WrittenShard:
    """A shard whose files are whole: what :func:`write_shards` gives to :func:`finish_shards`.

    Attributes
    ----------
    number
        Which of the shards.
    n_cells
        Its cells.
    entry
        What the manifest will say of it, as JSON.
    """

    number: int
    n_cells: int
    entry: str


class ShardPlan(Generic[Result]):
    """Shards to write: what :func:`plan_shards` and :func:`plan_preprocess` give.

    The process that made it holds the folder until :func:`finish_shards`, ``close()`` or the end of
    a ``with`` block; no other can write there meanwhile. A pickled copy is small, and good for
    :func:`write_shards` alone, in any process that sees the same paths.

    Attributes
    ----------
    path
        The folder of the shards.
    paths
        The inputs, one by one.
    n_cells, n_shards
        Of all shards, also those that an earlier run finished.
    """

    def __init__(
        self,
        conversion: _core.SharedConversion,
        path: str,
        source: CellCollection,
        is_shuffled: bool,
        result_of: Callable[[_core.SharedConversion], Result],
    ) -> None:
        self._conversion: _core.SharedConversion | None = conversion
        self._n_finished = 0
        self._result_of: Callable[[_core.SharedConversion], Result] | None = result_of
        self._source: CellCollection | bytes = source
        self._version = _version()
        self._is_shuffled = is_shuffled
        self._task = conversion.task
        self.path = path
        self.paths: list[str] = conversion.paths
        self.n_cells: int = conversion.n_cells
        self.n_shards: int = conversion.n_shards

    @property
    def missing(self) -> list[int]:
        """Numbers of the shards that are not finished, ascending."""
        return self._held().missing_shards()

    def cells_of(self, shard: int) -> int:
        """Cells of one shard."""
        return self._held().cells_of(as_int("shard", shard, 0, self.n_shards - 1))

    def parts(self, workers: int) -> list[list[int]]:
        """Share the missing shards out, as numbers for :func:`write_shards`.

        Parameters
        ----------
        workers
            How many will write at the same time.

        Returns
        -------
        list of list of int
            A shard each; where cells are shuffled, as many parts as there are workers, because
            writing a part reads all inputs, however many shards it has.
        """
        missing = self.missing
        n = min(as_int("workers", workers, 1), len(missing))
        if not self._is_shuffled:
            return [[shard] for shard in missing]
        return [missing[len(missing) * i // n : len(missing) * (i + 1) // n] for i in range(n)]

    @property
    def finished_text(self) -> str:
        """How much is finished, and how to go on, for messages."""
        self._count()
        return (
            f"{self._n_finished} of {self.n_shards} shards are finished and stay: continue with "
            f"{_core.argument_text('resume', 'true')}"
        )

    def close(self) -> None:
        """Give the folder back. Shards that are finished stay, and ``resume=True`` goes on."""
        self._count()
        self._conversion = None

    def __enter__(self) -> ShardPlan[Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ShardPlan({self.path!r}: {self.n_shards} shards of {self.n_cells:,} cells)"

    def __getstate__(self) -> dict[str, object]:
        storage = public_options([self.path, *self.paths])
        # What is wrong with an input is to be an error of the task that reads it.
        source = self._source if isinstance(self._source, bytes) else pickle.dumps(self._source)
        return {
            **self.__dict__, "_conversion": None, "_result_of": None, "_source": source,
            "_storage": storage,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        take_public_options(state.pop("_storage"))
        self.__dict__.update(state)

    def _count(self) -> None:
        if self._conversion is not None:
            self._n_finished = self.n_shards - len(self._conversion.missing_shards())

    def _held(self) -> _core.SharedConversion:
        if self._conversion is None:
            raise InvalidArgumentError(
                f"this plan of {self.path} is closed, or a copy in another process: it is "
                f"finished, and asked what is missing, where it was made"
            )
        return self._conversion

    def _add(self, written: WrittenShard) -> None:
        if not isinstance(written, WrittenShard):
            raise InvalidTypeError(
                f"finish_shards takes what write_shards gives, not {shown(written)}"
            )
        self._held().add(written.entry)

    def _finish(self) -> Result:
        conversion = self._held()
        if self._result_of is None:
            raise AssertionError("a plan that is held knows its result")
        result = self._result_of(conversion)
        self.close()
        return result


def begin(
    options: dict[str, Any],
    source: CellCollection,
    shared: Resources,
    result_of: Callable[[_core.SharedConversion], Result],
) -> ShardPlan[Result]:
    """Plan what the core's options say; ``shared``: as of ``resources``."""
    try:
        options["output_dir"].encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(
            f"several processes get the folder as UTF-8, which this path is not: "
            f"{options['output_dir']!r}"
        ) from None
    conversion = _core.begin_shared_conversion(json.dumps(options), input_cells(source), **shared)
    is_shuffled = bool(options["shuffle"])
    return ShardPlan(conversion, options["output_dir"], source, is_shuffled, result_of)


def write_shards(
    plan: ShardPlan[Any],
    shards: int | Sequence[int],
    *,
    threads: int = 1,
    memory_budget: int | str | None = None,
    progress: Progress = False,
) -> list[WrittenShard]:
    """Write shards of a plan, in any process that sees its folder and its inputs.

    The inputs are opened once in a process. Writing a shard again, after a failure or twice at the
    same time, gives the same bytes.

    Parameters
    ----------
    plan
        The plan, or a pickled copy.
    shards
        A number, or one of ``plan.parts(...)``.
    threads
        Threads that read, decode and encode.
    memory_budget
        As for :func:`convert_to_shards`.
    progress
        As for :func:`convert_to_shards`; of the cells of these shards.

    Returns
    -------
    list of WrittenShard
        For :func:`finish_shards`; a few hundred bytes each.

    Raises
    ------
    ClusterError
        This process has another version of cellfeed than the one that planned.
    NotFoundError
        The folder, or an input, is not there for this process.
    CorruptDataError
        An input is not what it was when the shards were planned.
    CancelledError
        The plan was given up, or the folder is another one of the same name.
    """
    return write_part(
        plan, [shards] if isinstance(shards, int) else list(shards), parse_threads(threads),
        0 if memory_budget is None else parse_memory_budget(memory_budget), 1,
        as_progress_callback(progress, "cells"),
    )  # fmt: skip


def write_part(
    plan: ShardPlan[Any],
    shards: list[int],
    threads: int,
    memory_budget: int,
    n_callers: int,
    progress: ProgressCallback | None,
) -> list[WrittenShard]:
    """Write them; ``n_callers`` of a process share its threads and its budget (0: the default)."""
    numbers = [as_int("each of shards", shard, 0, plan.n_shards - 1) for shard in shards]
    worker = _worker_of(plan, threads, memory_budget, n_callers)
    entries = worker.write(numbers, progress)
    return [_written(entry) for entry in entries]


def finish_shards(
    plan: ShardPlan[Result], written: Iterable[WrittenShard | Iterable[WrittenShard]]
) -> Result:
    """Note shards as they come, and write the manifest once all are there.

    Parameters
    ----------
    plan
        The plan, in the process that made it.
    written
        What calls of :func:`write_shards` gave, in any order, such as from a generator over results
        as they come: what was noted stays when a later one fails, and ``resume=True`` goes on from
        there.

    Returns
    -------
    ShardingResult or PreprocessResult
        As :func:`convert_to_shards` or :func:`preprocess` give it.

    Raises
    ------
    InvalidArgumentError
        A shard is missing, or of another plan.
    """
    for part in written:
        for shard in [part] if isinstance(part, WrittenShard) else part:
            plan._add(shard)
    return plan._finish()


def forget(plan: ShardPlan[Any]) -> None:
    """Close what this process opened to write shards of the plan."""
    # It may be held while inputs are opened, and workers are not to wait for that.
    if not _lock.acquire(blocking=False):
        return
    try:
        if _open is not None and _open[0][0] == plan._task:
            _set_open(None)
    finally:
        _lock.release()


def require_same_version(plan: ShardPlan[Any]) -> None:
    """Refuse a plan that another cellfeed made."""
    if plan._version != _version():
        raise ClusterError(
            f"this process has cellfeed {_version()}, and the shards were planned by "
            f"{plan._version}: install the same version everywhere"
        )


_lock = threading.Lock()
# Of the plan that was written last: who asked for it with which resources, and its inputs, open.
_open: tuple[tuple[str, int, int, int], _core.ShardWorker] | None = None


def _set_open(worker: tuple[tuple[str, int, int, int], _core.ShardWorker] | None) -> None:
    global _open
    _open = worker


def _worker_of(
    plan: ShardPlan[Any], threads: int, memory_budget: int, n_callers: int
) -> _core.ShardWorker:
    require_same_version(plan)
    key = (plan._task, threads, memory_budget, n_callers)
    with _lock:
        # The same call may have been made before, in a run that is over.
        if _open is not None and _open[0] == key and _open[1].is_under_way():
            return _open[1]
        source = plan._source
        cells = input_cells(pickle.loads(source) if isinstance(source, bytes) else source)
        worker = _core.open_shard_worker(plan._task, cells, threads, memory_budget, n_callers)
        _set_open((key, worker))
        return worker


def _written(entry: str) -> WrittenShard:
    said = json.loads(entry)
    return WrittenShard(said["shard"], said["n_cells"], entry)


def _version() -> str:
    version: str = sys.modules[__package__].__version__
    return version
