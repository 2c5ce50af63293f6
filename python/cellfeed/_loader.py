"""The loader: shuffled batches of a collection, resumable, on one rank or many."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

import numpy as np

from . import _core
from ._batch import Batch, BatchSource
from ._checks import as_bool, as_choice, as_dtype, as_int, as_names, as_row_numbers, shown
from ._closed import Closed
from ._collection import CellCollection
from ._epochs import this_worker
from ._iterable import TorchIterable, Yielded, refuse_batching_again
from ._options import Casting, DType, LoaderOptions, Output, Partition, Remainder
from ._rank import Ranks
from ._schedule import EpochSetter, Run, Schedule, Settings, as_epoch
from ._shared_iterator import SharedIterator
from ._sizes import parse_memory_budget, parse_threads
from ._strategies import SamplingStrategy, as_strategy
from ._transforms import Transform
from .errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

OUTPUTS = ("csr", "dense")
PARTITIONS = ("auto", "interleave", "group")
REMAINDERS = ("pad", "drop", "error")
CASTINGS = ("round", "exact", "same_kind")

atexit.register(_core.stop_all_iterators)


class Loader(TorchIterable[Yielded]):
    """Shuffled batches, read and decoded by C++ threads.

    Parameters
    ----------
    cells
        What :func:`cellfeed.open` returned.
    strategy
        The order of an epoch: ``BlockShuffling(block_size=...)``, ``Streaming()``, ...
    batch_size
        Cells of a batch on one rank.
    output
        ``"csr"`` or ``"dense"``.
    dtype
        ``"float32"``, ``"float64"``, ``"int32"`` or ``"int64"``.
    obs
        obs columns that come with each batch; those of :func:`cellfeed.open` by default.
    transforms
        ``NormalizeTotal``, ``Log1p``, ``SelectGenes``; applied in this order.
    seed
        Seed of every order, in [0, 2**63); ``None`` draws one, the same on every rank.
    epoch
        Epoch of the first iteration; each further one advances by one.
    rank, world_size
        This process among those that share each epoch. By default that of the initialised
        ``torch.distributed`` group, else of ``RANK`` and ``WORLD_SIZE`` in the environment, else
        0 of 1, found out when an iteration begins or a length or plan is asked for. A group that
        begins, ends or changes during an epoch is an error.
    partition
        ``"interleave"``: rank r takes positions r, r+W, ... of the order. ``"group"``: whole fetch
        groups are dealt to ranks, so that no two ranks inflate one chunk. ``"auto"`` picks by what
        the files say of themselves.
    remainder
        What happens to samples that do not divide by the world size: ``"pad"``
        (``batch.is_padding`` marks repeats), ``"drop"`` or ``"error"``. Every rank gets the same
        number of batches of the same sizes, always.
    fetch_factor
        Batches of a fetch group: read together, and shuffled together when blocks are.
    memory_budget
        Bytes of read-ahead, caches, what is being inflated and finished batches together, such as
        ``"2GB"``; at least 32 MB. A batch larger than that is still loaded, alone. Loaders over one
        collection each have their own.
    threads
        Threads that read and decode, 1 to 1024; one a processor by default.
    drop_last
        Drop a last batch shorter than ``batch_size``, on every rank alike.
    casting
        What may be rounded to the nearest value of ``dtype``. ``"round"``: floats, so float64 to
        float32; integers are exact. ``"exact"``: nothing. ``"same_kind"``: also integers that a
        float dtype cannot hold. Always refused: values beyond the range of ``dtype``, and fractions
        as integers; where a few cells of the files tell, when the loader is made.
    pin_memory
        Page-lock the batches, so that ``tensor.to(device, non_blocking=True)`` does not wait. The
        memory is torch's, which must see a GPU; set the process's device first, as with
        ``torch.empty(..., pin_memory=True)``. Not in worker processes, whose batches are copied on
        their way.
    tune
        Measure for a few seconds and use the block size, fetch factor, threads and memory that load
        fastest here while batches keep 98 % of true random's label entropy. The name of a label
        column, or ``True`` for the first one in ``obs``. Needs ``BlockShuffling`` and one rank;
        ``loader.tuning`` then holds what was measured.
    collate_fn
        ``f(batch)`` makes what the loader yields of each :class:`~cellfeed.Batch`, such as a tuple
        of tensors. It runs in the thread that iterates; ``stats()["collate_seconds"]`` says how
        long.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError, NoSuchKeyError
        Before anything is read.
    """

    @overload
    def __init__(
        self: Loader[Batch[csr_matrix]],
        cells: CellCollection,
        strategy: SamplingStrategy,
        batch_size: int = ...,
        *,
        output: Literal["csr"] = ...,
        collate_fn: None = ...,
        **options: Unpack[LoaderOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Loader[Batch[np.ndarray]],
        cells: CellCollection,
        strategy: SamplingStrategy,
        batch_size: int = ...,
        *,
        output: Literal["dense"],
        collate_fn: None = ...,
        **options: Unpack[LoaderOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Loader[Yielded],
        cells: CellCollection,
        strategy: SamplingStrategy,
        batch_size: int = ...,
        *,
        output: Output = ...,
        collate_fn: Callable[[Batch[Any]], Yielded],
        **options: Unpack[LoaderOptions],
    ) -> None: ...

    def __init__(
        self,
        cells: CellCollection,
        strategy: SamplingStrategy,
        batch_size: int = 1024,
        *,
        output: Output = "csr",
        dtype: DType = "float32",
        obs: Sequence[str] | str | None = None,
        transforms: Sequence[Any] = (),
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
        casting: Casting = "round",
        pin_memory: bool = False,
        tune: bool | str = False,
        collate_fn: Callable[[Batch[Any]], Any] | None = None,
    ) -> None:
        if not isinstance(cells, CellCollection):
            raise InvalidTypeError(
                f"cells must come from cellfeed.open(...), not {shown(cells)}; "
                "for other collections use cellfeed.scDataset"
            )
        strategy = as_strategy(strategy)
        if collate_fn is not None and not callable(collate_fn):
            raise InvalidTypeError(f"collate_fn must be a function, not {shown(collate_fn)}")
        self.collate_fn = collate_fn
        self._collate_seconds = 0.0
        self._running: list[_core.BatchIterator] = []
        if len(cells) == 0:
            raise InvalidArgumentError("the collection has no cells to load")
        self.cells = cells
        self.batch_size = as_int("batch_size", batch_size, 1)
        self.fetch_factor = 16 if fetch_factor is None else as_int("fetch_factor", fetch_factor, 1)
        ranks = Ranks(rank, world_size)
        obs = cells.default_obs if obs is None else as_names("obs", obs)
        budget = parse_memory_budget(memory_budget)
        n_threads = parse_threads(threads)
        self.tuning: dict[str, Any] | None = None
        if not isinstance(tune, (bool, str)):
            raise InvalidTypeError(
                f"tune must be True, False or the name of a label column, not {shown(tune)}"
            )
        if tune:
            from ._tuning import tuned, with_block_size

            best = tuned(cells, strategy, self.batch_size, tune, obs, ranks.now()[1], budget)
            strategy = with_block_size(strategy, best["block_size"])
            self.fetch_factor, n_threads = best["fetch_factor"], best["threads"]
            budget, self.tuning = best["memory_budget"], best
        self.strategy = strategy
        as_choice("partition", partition, PARTITIONS)
        self.remainder = as_choice("remainder", remainder, REMAINDERS)
        self.drop_last = as_bool("drop_last", drop_last)
        self._settings: dict[str, Any] = {
            "output": as_choice("output", output, OUTPUTS),
            "dtype": as_dtype("dtype", dtype),
            "casting": as_choice("casting", casting, CASTINGS),
            "obs": obs,
            "transforms": _core_transforms(transforms),
            "memory_budget": budget,
            "threads": n_threads,
            "prefetch": 0,
            "torch_library": _find_torch_library() if as_bool("pin_memory", pin_memory) else None,
        }
        self._transforms = list(transforms)
        self._n_cells = len(cells)
        self._core = _core.LoaderCore.make(cells._core, **self._settings)
        self._columns = {name: cells.obs_column(name) for name in obs}
        self._source = BatchSource(self._columns, self._core, names=cells._names)
        settings = Settings(
            self.batch_size, self.fetch_factor, partition, remainder, self.drop_last,
            _choose_shared_partition(cells), bool(tune),
        )  # fmt: skip
        epoch = 0 if epoch is None else as_epoch(epoch)
        order = strategy.bind(cells)
        fingerprint = f"{cells.fingerprint:016x}"
        self._schedule = Schedule(order, fingerprint, settings, ranks, seed, epoch)
        if self._core.values_are_in_question:
            self._core.check_values(_some_rows(order, 0 if seed is None else seed, epoch))

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for derived in ("_core", "_columns", "_source", "_running"):
            state.pop(derived)
        state["_key"] = self._source.key
        state["_settings"] = {k: v for k, v in self._settings.items() if k != "transforms"}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        key = state.pop("_key")
        self.__dict__.update(state)
        self._settings["transforms"] = _core_transforms(self._transforms)
        self._core = _core.LoaderCore.make(self.cells._core, **self._settings)
        self._columns = {name: self.cells.obs_column(name) for name in self._settings["obs"]}
        self._source = BatchSource(self._columns, self._core, key, self.cells._names)
        self._running = []
        self._schedule.bind(self.strategy.bind(self.cells))

    def __repr__(self) -> str:
        rank = f", rank {self.rank} of {self.world_size}" if self.world_size > 1 else ""
        return f"Loader({self.strategy!r}, batch_size={self.batch_size}{rank}) over {self.cells!r}"

    @property
    def var_names(self) -> np.ndarray:
        """Names of the columns of each batch, after the gene join and the transforms."""
        return self._source.var_names

    @property
    def rank(self) -> int:
        """Number of this process among those that share each epoch, as of now."""
        return self._schedule.ranks.now()[0]

    @property
    def world_size(self) -> int:
        """Processes that share each epoch, as of now."""
        return self._schedule.ranks.now()[1]

    @property
    def partition(self) -> str:
        """How samples are dealt to the ranks of now: ``"interleave"`` or ``"group"``."""
        return self._schedule.partition

    @property
    def seed(self) -> int:
        """Seed of every order.

        Where none was given and the process group came after the loader, all ranks must ask for
        it, or iterate: they agree on one then.
        """
        return self._schedule.seed

    @property
    def epoch(self) -> int:
        """Epoch of the next iteration."""
        return self._schedule.epochs.next_epoch()

    @property
    def sampler(self) -> EpochSetter:
        """What sets the epoch, where Lightning's ``Trainer`` looks for it."""
        return EpochSetter(self._schedule)

    @property
    def batch_sampler(self) -> None:
        """None, as batches come whole: Lightning asks for it beside ``sampler`` in validation."""
        return None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; otherwise each iteration advances by one.

        A state of that epoch that was loaded and not begun yet stays; of another, it is dropped.

        Parameters
        ----------
        epoch
            0 or more.
        """
        self._schedule.set_epoch(epoch)

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch, also after resuming: the same on every rank."""
        return self._schedule.n_batches

    @property
    def n_batches_left(self) -> int:
        """Batches of this rank that are left of the epoch that :meth:`state_dict` tells of.

        After :meth:`load_state_dict` what the next iteration yields; during an iteration what it
        has not handed out; after it the whole next epoch.
        """
        return self._schedule.n_batches_left

    def plan(self, epoch: int | None = None) -> Iterator[np.ndarray]:
        """Row numbers of this rank's batches, without reading any data.

        Parameters
        ----------
        epoch
            0 or more; by default the next iteration's, or what a loaded state leaves of it.

        Yields
        ------
        numpy.ndarray
            int64, one per cell of the batch: what ``batch.index`` will be.
        """
        return self._schedule.next_rows(epoch)

    def __iter__(self) -> SharedIterator[Yielded]:
        """An iteration; threads may share it, and each batch goes to one of them."""
        refuse_batching_again()
        batches: Any = self._batches(self._schedule.begin())
        if self.collate_fn is not None:
            batches = self._collated(batches, self.collate_fn)
        return SharedIterator(batches)

    def _collated(
        self, batches: Iterator[Batch[Any]], collate_fn: Callable[[Batch[Any]], Any]
    ) -> Iterator[Any]:
        for batch in batches:
            begin = time.perf_counter()
            made = collate_fn(batch)
            self._collate_seconds += time.perf_counter() - begin
            yield made

    def close(self) -> None:
        """Stop reading ahead, let go of memory and files; iterations that run end in an error.

        ``with cf.Loader(...) as loader:`` closes it.
        """
        for iterator in list(self._running):
            iterator.stop()
        self._core = self._source = Closed("this loader is closed: make another one")
        self._columns = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _batches(self, run: Run) -> Iterator[Batch]:
        self._require_no_worker_pins()
        # A DataLoader takes batches from its workers in turn, so each yields every n-th.
        plan = run.start()
        if run.first >= plan.n_batches:
            run.finish()
            return
        iterator = self._core.iterate(plan, run.first, run.step)
        self._running.append(iterator)
        try:
            for batch in iterator:
                run.advance()
                yield Batch(batch, self._source)
                del batch
                self._core.threads  # noqa: B018  # an error where the loader was closed
            self._core.threads  # noqa: B018  # closing also ends the iterator, as if all were read
            run.finish()
        finally:
            self._running.remove(iterator)
            iterator.stop()

    def _read_rows(self, rows: Any) -> Batch:
        """One batch of the rows asked for, in that order, outside of any epoch."""
        self._require_no_worker_pins()
        wanted = as_row_numbers(rows, self._n_cells)
        return Batch(self._core.read_rows(wanted), self._source)

    def _require_no_worker_pins(self) -> None:
        if self._settings["torch_library"] is not None and this_worker().is_process:
            raise InvalidArgumentError(
                "pin_memory=True is of no use in a worker process of a DataLoader, whose batches "
                "are copied on their way: iterate over the Loader itself (it reads and decodes on "
                "threads of its own), or leave pin_memory out"
            )

    def stats(self) -> dict[str, Any]:
        """Counters since the loader was made: cells, bytes, seconds, queue depth.

        ``decode_seconds`` and ``transform_seconds`` are summed over threads; ``wait_seconds`` is
        what the consumer waited for batches, ``collate_seconds`` what ``collate_fn`` took.
        """
        return {**self._core.stats(), "collate_seconds": self._collate_seconds}

    def state_dict(self) -> dict[str, Any]:
        """Where the current iteration stands, as small JSON-able data."""
        return self._schedule.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` stood.

        The next iteration yields exactly the remaining batches. The world size may differ: what
        remains is then dealt to the ranks of now.

        Parameters
        ----------
        state
            What ``state_dict`` returned, in this or another process.

        Raises
        ------
        InvalidArgumentError
            The state belongs to another collection, strategy, seed or version.
        """
        self._schedule.load_state_dict(state)


def _some_rows(order: _core.Strategy, seed: int, epoch: int) -> np.ndarray:
    # Spread over the order: every file has its share.
    length = order.length(epoch)
    return order.order(seed, epoch, 0, length, stride=max(1, length // 16))


def _find_torch_library() -> str:
    try:
        from .torch import find_torch_library
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(
            "pin_memory=True takes page-locked memory from PyTorch, which is not installed: "
            "pip install torch"
        ) from error
    return find_torch_library()


def _core_transforms(transforms: Any) -> list[_core.Transform]:
    if isinstance(transforms, Transform):
        raise InvalidTypeError(
            f"transforms must be a list, not {shown(transforms)}: write transforms=[{transforms}]"
        )
    if not isinstance(transforms, (list, tuple)):
        raise InvalidTypeError(f"transforms must be a list of transforms, not {shown(transforms)}")
    return [_core_transform(transform) for transform in transforms]


def _core_transform(transform: Any) -> _core.Transform:
    if isinstance(transform, Transform):
        return transform._core
    name = transform.__name__ if isinstance(transform, type) else ""
    remedy = f": write {name}(...)" if name and issubclass(transform, Transform) else ""
    raise InvalidTypeError(
        f"each of transforms must be NormalizeTotal(...), Log1p(...) or SelectGenes(...), not "
        f"{f'the class {name}' if name else shown(transform)}{remedy}; functions of Python go to "
        f"collate_fn"
    )


def _choose_shared_partition(cells: CellCollection) -> str:
    # Splitting a fetch group between ranks would inflate its chunks once per rank.
    is_chunked = any(
        cells._core.store_info(s)["rows_per_chunk"] > 1 for s in range(cells._core.n_stores)
    )
    return "group" if is_chunked else "interleave"
