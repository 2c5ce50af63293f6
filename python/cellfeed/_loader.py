"""The loader: shuffled batches of a collection, resumable, on one rank or many."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import _core
from ._batch import Batch, BatchSource
from ._collection import CellCollection
from ._epochs import this_worker
from ._rank import register_iterable, resolve_rank, resolve_seed
from ._schedule import Run, Schedule, Settings, as_int
from ._sizes import parse_bytes
from ._strategies import SamplingStrategy
from .errors import InvalidArgumentError, InvalidTypeError

atexit.register(_core.stop_all_iterators)


class Loader:
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
        This process among those that share each epoch; see :func:`cellfeed._rank.resolve_rank` for
        the default.
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
        Bytes of read-ahead and finished batches, such as ``"2GB"``.
    threads
        Threads that read and decode; one a processor by default.
    drop_last
        Drop a last batch shorter than ``batch_size``, on every rank alike.
    casting
        ``"exact"`` refuses values that the dtype cannot hold; ``"same_kind"`` rounds them.
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

    Raises
    ------
    InvalidArgumentError, InvalidTypeError, NoSuchKeyError
        Before anything is read.
    """

    def __init__(
        self,
        cells: CellCollection,
        strategy: SamplingStrategy,
        batch_size: int = 1024,
        *,
        output: str = "csr",
        dtype: Any = "float32",
        obs: Sequence[str] | str | None = None,
        transforms: Sequence[Any] = (),
        seed: int | None = 0,
        epoch: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        partition: str = "auto",
        remainder: str = "pad",
        fetch_factor: int | None = None,
        memory_budget: int | str = "2GB",
        threads: int | None = None,
        drop_last: bool = False,
        casting: str = "exact",
        pin_memory: bool = False,
        tune: bool | str = False,
    ) -> None:
        if not isinstance(cells, CellCollection):
            raise InvalidTypeError(
                f"cells must come from cellfeed.open(...), not {type(cells).__name__}; "
                "for other collections use cellfeed.scDataset"
            )
        if not isinstance(strategy, SamplingStrategy):
            raise InvalidTypeError(f"not a sampling strategy: {strategy!r}")
        if len(cells) == 0:
            raise InvalidArgumentError("the collection has no cells to load")
        self.cells = cells
        self.batch_size = as_int("batch_size", batch_size, 1)
        self.fetch_factor = 16 if fetch_factor is None else as_int("fetch_factor", fetch_factor, 1)
        self.rank, self.world_size = resolve_rank(rank, world_size)
        obs = cells.default_obs if obs is None else [obs] if isinstance(obs, str) else list(obs)
        budget = parse_bytes(memory_budget)
        self.tuning: dict[str, Any] | None = None
        if tune:
            from ._tuning import tuned, with_block_size

            best = tuned(cells, strategy, self.batch_size, tune, obs, self.world_size, budget)
            strategy = with_block_size(strategy, best["block_size"])
            self.fetch_factor, threads = best["fetch_factor"], best["threads"]
            budget, self.tuning = best["memory_budget"], best
        self.strategy = strategy
        is_seed_free = seed is None
        seed = resolve_seed(seed, self.world_size)
        self.partition = _choose_partition(partition, cells, self.world_size)
        self.remainder = remainder
        self.drop_last = bool(drop_last)
        self._settings: dict[str, Any] = {
            "output": output,
            "dtype": np.dtype(dtype).name,
            "casting": casting,
            "obs": obs,
            "transforms": [_core_transform(t) for t in transforms],
            "memory_budget": budget,
            "threads": 0 if threads is None else as_int("threads", threads, 1),
            "prefetch": 0,
            "torch_library": _find_torch_library() if pin_memory else None,
        }
        self._transforms = list(transforms)
        self._core = _core.LoaderCore.make(cells._core, **self._settings)
        self._columns = {name: cells.obs_column(name) for name in obs}
        self._source = BatchSource(self._columns, self._core)
        settings = Settings(
            self.batch_size, self.fetch_factor, self.rank, self.world_size, self.partition,
            remainder,
            self.drop_last, partition == "auto",
        )  # fmt: skip
        epoch = 0 if epoch is None else as_int("epoch", epoch, 0, 2**63 - 1)
        order = strategy.bind(cells)
        fingerprint = f"{cells.fingerprint:016x}"
        self._schedule = Schedule(
            order, fingerprint, settings, seed, epoch, is_seed_free=is_seed_free
        )
        register_iterable(type(self))

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for derived in ("_core", "_columns", "_source"):
            state.pop(derived)
        state["_key"] = self._source.key
        state["_settings"] = {k: v for k, v in self._settings.items() if k != "transforms"}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        key = state.pop("_key")
        self.__dict__.update(state)
        self._settings["transforms"] = [_core_transform(t) for t in self._transforms]
        self._core = _core.LoaderCore.make(self.cells._core, **self._settings)
        self._columns = {name: self.cells.obs_column(name) for name in self._settings["obs"]}
        self._source = BatchSource(self._columns, self._core, key)
        self._schedule.order = self.strategy.bind(self.cells)

    def __repr__(self) -> str:
        rank = f", rank {self.rank} of {self.world_size}" if self.world_size > 1 else ""
        return f"Loader({self.strategy!r}, batch_size={self.batch_size}{rank}) over {self.cells!r}"

    @property
    def gene_names(self) -> list[str]:
        """Names of the columns of each batch, after the gene join and the transforms."""
        return self._core.gene_names

    @property
    def seed(self) -> int:
        """Seed of every order."""
        return self._schedule.seed

    @property
    def epoch(self) -> int:
        """Epoch of the next iteration."""
        return self._schedule.epochs.next_epoch()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; otherwise each iteration advances by one.

        Parameters
        ----------
        epoch
            0 or more.
        """
        self._schedule.set_epoch(epoch)

    def __len__(self) -> int:
        """Batches of this rank in the next iteration: the same on every rank."""
        plan, first = self._schedule.next_plan()
        return plan.n_batches - first

    def plan(self, epoch: int | None = None) -> Iterator[np.ndarray]:
        """Row numbers of this rank's batches, without reading any data.

        Parameters
        ----------
        epoch
            0 or more; the next iteration's by default.

        Yields
        ------
        numpy.ndarray
            int64, one per cell of the batch: what ``batch.index`` will be.
        """
        if epoch is None:
            plan, first = self._schedule.next_plan()
        else:
            plan, first = self._schedule.make_plan(as_int("epoch", epoch, 0, 2**63 - 1)), 0
        for k in range(first, plan.n_batches):
            yield plan.batch(k)[0]

    def __iter__(self) -> Iterator[Batch]:
        return self._batches(self._schedule.begin())

    def _batches(self, run: Run) -> Iterator[Batch]:
        self._require_no_worker_pins()
        # A DataLoader takes batches from its workers in turn, so each yields every n-th.
        plan = run.start()
        if run.first >= plan.n_batches:
            run.finish()
            return
        iterator = self._core.iterate(plan, run.first, run.step)
        try:
            for batch in iterator:
                run.advance()
                yield Batch(batch, self._source)
            run.finish()
        finally:
            iterator.stop()

    def read_rows(self, rows: Any) -> Batch:
        """One batch of the rows asked for, in that order, outside of any epoch.

        Parameters
        ----------
        rows
            Global row numbers, repeats allowed.
        """
        self._require_no_worker_pins()
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        return Batch(self._core.read_rows(rows), self._source)

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
        what the consumer waited for batches.
        """
        return self._core.stats()

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


def _find_torch_library() -> str:
    try:
        from .torch import find_torch_library
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(
            "pin_memory=True takes page-locked memory from PyTorch, which is not installed: "
            "pip install torch"
        ) from error
    return find_torch_library()


def _core_transform(transform: Any) -> _core.Transform:
    core = getattr(transform, "_core", None)
    if not isinstance(core, _core.Transform):
        raise InvalidTypeError(
            f"not a transform of cellfeed (NormalizeTotal, Log1p, SelectGenes): {transform!r}"
        )
    return core


def _choose_partition(partition: str, cells: CellCollection, world_size: int) -> str:
    if partition != "auto":
        return partition
    # Splitting a fetch group between ranks would inflate its chunks once per rank.
    is_chunked = any(
        cells._core.store_info(s)["rows_per_chunk"] > 1 for s in range(cells._core.n_stores)
    )
    return "group" if is_chunked and world_size > 1 else "interleave"
