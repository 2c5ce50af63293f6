"""The loader: shuffled batches of a collection, resumable, on one rank or many."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import _core
from ._batch import Batch
from ._collection import CellCollection
from ._epochs import EpochCounter, worker_of_this_process
from ._rank import resolve_rank
from ._sizes import parse_bytes
from ._strategies import SamplingStrategy
from .errors import InvalidArgumentError, InvalidTypeError

atexit.register(_core.stop_all_iterators)

STATE_VERSION = 1


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
        Seed of every order, in [0, 2**63).
    epoch
        Epoch of the first iteration; each further one advances by one.
    rank, world_size
        This process among those that share each epoch; see :func:`cellfeed._rank.resolve_rank` for the default.
    partition
        ``"interleave"``: rank r takes positions r, r+W, ... of the order. ``"group"``: whole fetch groups are dealt to
        ranks, so that no two ranks inflate one chunk. ``"auto"`` picks by what the files say of themselves.
    remainder
        What happens to samples that do not divide by the world size: ``"pad"`` (``batch.is_padding`` marks repeats),
        ``"drop"`` or ``"error"``. Every rank gets the same number of batches of the same sizes, always.
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
        seed: int = 0,
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
        self.strategy = strategy
        self.batch_size = _as_int("batch_size", batch_size, 1)
        self.seed = _as_int("seed", seed, 0, 2**63 - 1)
        self.fetch_factor = 16 if fetch_factor is None else _as_int("fetch_factor", fetch_factor, 1)
        self.rank, self.world_size = resolve_rank(rank, world_size)
        self.partition = _choose_partition(partition, cells, self.world_size)
        self.remainder = remainder
        self.drop_last = bool(drop_last)
        obs = cells.default_obs if obs is None else [obs] if isinstance(obs, str) else list(obs)
        self._settings: dict[str, Any] = {
            "output": output,
            "dtype": np.dtype(dtype).name,
            "casting": casting,
            "obs": obs,
            "transforms": [_core_transform(t) for t in transforms],
            "memory_budget": parse_bytes(memory_budget),
            "threads": 0 if threads is None else _as_int("threads", threads, 1),
            "prefetch": 0,
        }
        self._transforms = list(transforms)
        self._core = _core.LoaderCore.make(cells._core, **self._settings)
        self._columns = {name: cells.obs_column(name) for name in obs}
        self._order = strategy.bind(cells)
        self._epochs = EpochCounter(0 if epoch is None else _as_int("epoch", epoch, 0))
        self._resume: dict[str, Any] | None = None
        self._progress: tuple[_core.Plan, int, int] | None = None  # plan, epoch, batches yielded
        self._make_plan(self._epochs.next_epoch())  # refuses bad settings before any reading

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for derived in ("_core", "_columns", "_order", "_progress"):
            state.pop(derived)
        state["_settings"] = {k: v for k, v in self._settings.items() if k != "transforms"}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._settings["transforms"] = [_core_transform(t) for t in self._transforms]
        self._core = _core.LoaderCore.make(self.cells._core, **self._settings)
        self._columns = {name: self.cells.obs_column(name) for name in self._settings["obs"]}
        self._order = self.strategy.bind(self.cells)
        self._progress = None

    def __repr__(self) -> str:
        rank = f", rank {self.rank} of {self.world_size}" if self.world_size > 1 else ""
        return f"Loader({self.strategy!r}, batch_size={self.batch_size}{rank}) over {self.cells!r}"

    @property
    def gene_names(self) -> list[str]:
        """Names of the columns of each batch, after the gene join and the transforms."""
        return self._core.gene_names

    @property
    def epoch(self) -> int:
        """Epoch of the next iteration."""
        return self._epochs.next_epoch()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; otherwise each iteration advances by one.

        Parameters
        ----------
        epoch
            0 or more.
        """
        self._epochs.set(_as_int("epoch", epoch, 0))
        self._resume = None

    def __len__(self) -> int:
        """Batches of this rank in the next iteration: the same on every rank."""
        return self._make_plan(self._epochs.next_epoch()).n_batches

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
            plan = self._make_plan(self._epochs.next_epoch())
        else:
            plan = self._make_plan(_as_int("epoch", epoch, 0), resumed=False)
        for k in range(plan.n_batches):
            yield plan.batch(k)[0]

    def __iter__(self) -> Iterator[Batch]:
        worker, n_workers = worker_of_this_process()
        epoch = self._epochs.start(worker)
        plan = self._make_plan(epoch)
        self._resume = None
        return self._batches(plan, epoch, worker, n_workers)

    def _batches(
        self, plan: _core.Plan, epoch: int, worker: int, n_workers: int
    ) -> Iterator[Batch]:
        # A DataLoader takes batches from its workers in turn, so each yields every n-th.
        self._progress = (plan, epoch, 0)
        iterator = self._core.iterate(plan, worker, n_workers)
        try:
            for k, batch in enumerate(iterator):
                self._progress = (plan, epoch, worker + k * n_workers + 1)
                yield Batch(batch, self._columns, self._core)
        finally:
            iterator.stop()

    def read_rows(self, rows: Any) -> Batch:
        """One batch of the rows asked for, in that order, outside of any epoch.

        Parameters
        ----------
        rows
            Global row numbers, repeats allowed.
        """
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        return Batch(self._core.read_rows(rows), self._columns, self._core)

    def stats(self) -> dict[str, Any]:
        """Counters since the loader was made: cells, bytes read against used, times in seconds, queue depth.

        ``decode_seconds`` and ``transform_seconds`` are summed over threads; ``wait_seconds`` is what the consumer
        waited for batches.
        """
        return self._core.stats()

    def state_dict(self) -> dict[str, Any]:
        """Where the current iteration stands, as small JSON-able data; see :meth:`load_state_dict`."""
        plan, epoch, batches = self._progress or (None, self._epochs.next_epoch(), 0)
        if plan is None:
            plan = self._make_plan(epoch)
        consumed = plan.consumed_after(batches)
        if batches >= plan.n_batches:
            epoch, consumed = epoch + 1, 0
        return {
            "version": STATE_VERSION,
            "seed": self.seed,
            "epoch": epoch,
            "consumed": consumed,
            "order_step_samples": plan.order_step_samples,
            "order_fetch_samples": plan.order_fetch_samples,
            "order_batch_size": plan.order_batch_size,
            "partition": self.partition,
            "collection": f"{self.cells.fingerprint:016x}",
            "strategy": f"{self._order.fingerprint:016x}",
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` stood: the next iteration yields exactly the remaining batches.

        The world size may differ: what remains is then dealt to the ranks of now.

        Parameters
        ----------
        state
            What ``state_dict`` returned, in this or another process.

        Raises
        ------
        InvalidArgumentError
            The state belongs to another collection, strategy, seed or version.
        """
        check_state(state, self._order, self.seed, self.cells.fingerprint)
        if state["partition"] != self.partition:
            raise InvalidArgumentError(
                f"the state was saved with partition {state['partition']!r}, not {self.partition!r}"
            )
        self._epochs.set(state["epoch"])
        self._resume = dict(state)
        self._progress = None

    def _make_plan(self, epoch: int, *, resumed: bool = True) -> _core.Plan:
        order = {}
        if resumed and self._resume is not None and self._resume["epoch"] == epoch:
            keys = ("consumed", "order_step_samples", "order_fetch_samples", "order_batch_size")
            order = {key: self._resume[key] for key in keys}
        return _core.Plan.make(
            self._order, self.seed, epoch, self.batch_size, self.fetch_factor, self.rank,
            self.world_size, self.partition, self.remainder, self.drop_last, **order,
        )  # fmt: skip


def check_state(state: dict[str, Any], order: _core.Strategy, seed: int, collection: int) -> None:
    """Raise ``InvalidArgumentError`` unless a saved state fits this run."""
    if not isinstance(state, dict) or state.get("version") != STATE_VERSION:
        raise InvalidArgumentError(f"not a state of this version of cellfeed: {state!r:.200}")
    if state["collection"] != f"{collection:016x}":
        raise InvalidArgumentError(
            "the state belongs to another collection: its files, their order, content or genes have changed"
        )
    if state["strategy"] != f"{order.fingerprint:016x}":
        raise InvalidArgumentError(
            "the state belongs to another sampling strategy, or one with other settings"
        )
    if state["seed"] != seed:
        raise InvalidArgumentError(f"the state was saved with seed {state['seed']}, not {seed}")


def _as_int(name: str, value: Any, low: int, high: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InvalidTypeError(f"{name} must be an integer: {value!r}")
    if value < low or (high is not None and value > high):
        limits = f"at least {low}" if high is None else f"in [{low}, {high}]"
        raise InvalidArgumentError(f"{name} must be {limits}: {value}")
    return int(value)


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
    is_chunked = any(cells._core.store_info(s)["rows_per_chunk"] > 1 for s in range(cells._core.n_stores))
    return "group" if is_chunked and world_size > 1 else "interleave"
