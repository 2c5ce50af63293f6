"""scDataset: batches of any collection, ours or Python's, in the order of a strategy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ._collection import CellCollection
from ._loader import Loader
from ._multi_indexable import length_of, take
from ._rank import resolve_rank, resolve_seed
from ._schedule import Run, Schedule, Settings, as_int
from ._strategies import SamplingStrategy
from .errors import CellfeedError, CollectionError, InvalidArgumentError, InvalidTypeError

Hook = Callable[..., Any]
_HOOKS = ("fetch_callback", "fetch_transform", "batch_callback", "batch_transform")


class Batches:
    """Batches of any collection in the order of a strategy.

    A torch ``IterableDataset`` where torch is installed.
    Iterate it, or hand it to ``DataLoader(dataset, batch_size=None)``. Each iteration is the next
    epoch, also in worker processes, and workers do not change the batches. On several ranks each
    gets batches of its own, equally many of the same sizes, without a ``DistributedSampler``.

    A collection of :func:`cellfeed.open` is read by a :class:`~cellfeed.Loader` and yields
    :class:`~cellfeed.Batch`. Of any other collection the samples of a fetch group (``fetch_factor``
    batches) are read together, sorted and each once, by ``collection[indices]``, put in order and
    cut into batches.

    Parameters
    ----------
    data_collection
        What :func:`cellfeed.open` returned, or anything with ``len`` and ``[]``: numpy, scipy CSR,
        AnnData (also backed), AnnCollection, pandas, Hugging Face data sets,
        :class:`~cellfeed.MultiIndexable`.
    strategy
        The order of an epoch.
    batch_size
        Samples of a batch on one rank.
    fetch_factor
        Batches that are read together.
    drop_last
        Drop a last batch shorter than ``batch_size``, on every rank alike.
    fetch_callback
        ``f(collection, indices)`` reads the samples of a fetch group instead of
        ``collection[indices]``. ``indices`` are sorted, each once, unless ``sort_before_fetch`` is
        set to False.
    fetch_transform
        ``f(group)`` changes what was read; one sample must stay one sample. In a worker process the
        group is the part that this worker yields.
    batch_callback
        ``f(group, positions)`` cuts a batch out of a group instead of ``group[positions]``.
    batch_transform
        ``f(batch)`` changes a batch.
    rank, world_size
        This process among those that share each epoch: by default of the initialised
        ``torch.distributed`` group, else of ``RANK`` and ``WORLD_SIZE`` in the environment.
    seed
        Seed of every order. Drawn at random by default, the same on all ranks of an initialised
        group; 0 on several ranks without a group.
    partition, remainder
        As in :class:`~cellfeed.Loader`.
    epoch
        Of the first iteration.
    **options
        More of :class:`~cellfeed.Loader` for a collection of :func:`cellfeed.open`: ``output``,
        ``dtype``, ``obs``, ``transforms``, ``memory_budget``, ``threads``, ``casting``.

    Attributes
    ----------
    sort_before_fetch
        False hands indices to ``fetch_callback`` in the order of the batches, with repeats.
    """

    def __init__(
        self,
        data_collection: Any,
        strategy: SamplingStrategy,
        batch_size: int,
        fetch_factor: int = 16,
        drop_last: bool = False,
        fetch_callback: Hook | None = None,
        fetch_transform: Hook | None = None,
        batch_callback: Hook | None = None,
        batch_transform: Hook | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        seed: int | None = None,
        *,
        partition: str = "auto",
        remainder: str = "pad",
        epoch: int = 0,
        **options: Any,
    ) -> None:
        if not isinstance(strategy, SamplingStrategy):
            raise InvalidTypeError(f"not a sampling strategy: {strategy!r}")
        self.collection = data_collection
        self.strategy = strategy
        self.batch_size = as_int("batch_size", batch_size, 1)
        self.fetch_factor = as_int("fetch_factor", fetch_factor, 1)
        self.drop_last = bool(drop_last)
        self.fetch_callback = fetch_callback
        self.fetch_transform = fetch_transform
        self.batch_callback = batch_callback
        self.batch_transform = batch_transform
        self.sort_before_fetch = True
        for name in _HOOKS:
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise InvalidTypeError(f"{name} must be callable: {getattr(self, name)!r}")
        self.rank, self.world_size = resolve_rank(rank, world_size)
        self._loader = self._make_loader(options, seed, partition, remainder, epoch)
        if self._loader is not None:
            self._schedule = self._loader._schedule
            return
        settings = Settings(
            self.batch_size, self.fetch_factor, self.rank, self.world_size,
            "interleave" if partition == "auto" else partition, remainder, self.drop_last,
            partition == "auto",
        )  # fmt: skip
        self._schedule = Schedule(
            strategy.bind(_checked(data_collection)), _fingerprint(data_collection), settings,
            resolve_seed(seed, self.world_size), as_int("epoch", epoch, 0, 2**63 - 1),
            is_seed_free=seed is None,
        )  # fmt: skip

    def _make_loader(
        self, options: dict[str, Any], seed: int | None, partition: str, remainder: str, epoch: int
    ) -> Loader | None:
        if not isinstance(self.collection, CellCollection):
            if options:
                raise InvalidArgumentError(
                    f"{', '.join(options)}: only for a collection of cellfeed.open(...), not for "
                    f"{type(self.collection).__name__}"
                )
            return None
        return Loader(
            self.collection, self.strategy, self.batch_size, seed=seed, epoch=epoch, rank=self.rank,
            world_size=self.world_size, partition=partition, remainder=remainder,
            fetch_factor=self.fetch_factor, drop_last=self.drop_last, **options,
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._loader is None:
            self._schedule.order = self.strategy.bind(self.collection)

    def __repr__(self) -> str:
        rank = f", rank {self.rank} of {self.world_size}" if self.world_size > 1 else ""
        name = type(self.collection).__name__
        return f"scDataset({name}, {self.strategy!r}, batch_size={self.batch_size}{rank})"

    @property
    def fetch_size(self) -> int:
        """Samples of a fetch group on one rank."""
        return self.batch_size * self.fetch_factor

    @property
    def seed(self) -> int:
        """Seed of every order, the one drawn where none was given."""
        return self._schedule.seed

    @property
    def epoch(self) -> int:
        """Epoch of the next iteration."""
        return self._schedule.epochs.next_epoch()

    @property
    def _base_seed(self) -> int:
        return self.seed

    @property
    def _epoch(self) -> int:
        return self.epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; otherwise each iteration advances by one."""
        self._schedule.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the current iteration stands, as small JSON-able data.

        Where worker processes iterate, only torchdata's ``StatefulDataLoader`` knows what was used:
        use its own.
        """
        return self._schedule.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` stood; the next iteration yields what remains.

        Raises
        ------
        InvalidArgumentError
            The state belongs to another collection, strategy, seed or version.
        """
        self._schedule.load_state_dict(state_dict)

    def __len__(self) -> int:
        """Batches of this rank in the next iteration: the same on every rank."""
        plan, first = self._schedule.next_plan()
        return plan.n_batches - first

    def plan(self, epoch: int | None = None) -> Iterator[np.ndarray]:
        """Row numbers of this rank's batches, without reading any data."""
        if epoch is None:
            plan, first = self._schedule.next_plan()
        else:
            plan, first = self._schedule.make_plan(as_int("epoch", epoch, 0, 2**63 - 1)), 0
        for k in range(first, plan.n_batches):
            yield plan.batch(k)[0]

    def __iter__(self) -> Iterator[Any]:
        if (
            self._loader is None
            or self.fetch_callback
            or self.fetch_transform
            or self.batch_callback
        ):
            return self._grouped(self._schedule.begin())
        if self.batch_transform is None:
            return iter(self._loader)
        return map(self.batch_transform, self._loader)

    def _grouped(self, run: Run) -> Iterator[Any]:
        plan = run.start()

        def group_of(k: int) -> int:
            # A worker reads its share of as many groups as there are workers, so its reads stay as
            # large.
            return plan.fetch_group(k) // run.step

        for _, numbers in itertools.groupby(run.numbers(), group_of):
            for batch in self._read_group([plan.batch(k)[0] for k in numbers]):
                run.advance()
                yield batch
        run.finish()

    def _read_group(self, batches: list[np.ndarray]) -> Iterator[Any]:
        wanted = np.concatenate(batches)
        if self.sort_before_fetch:
            wanted, places = np.unique(wanted, return_inverse=True)
        else:
            places = np.arange(len(wanted))
        data = self._fetch(wanted)
        if self.fetch_transform is not None:
            data = self.fetch_transform(data)
            if self.batch_callback is None:
                self._check_length(data, wanted, "fetch_transform")
        for positions in np.split(places, np.cumsum([len(batch) for batch in batches])[:-1]):
            cut = take if self.batch_callback is None else self.batch_callback
            batch = cut(data, positions)
            yield batch if self.batch_transform is None else self.batch_transform(batch)

    def _fetch(self, rows: np.ndarray) -> Any:
        name = type(self.collection).__name__
        try:
            if self.fetch_callback is not None:
                data = self.fetch_callback(self.collection, rows)
            elif self._loader is not None:
                data = self._loader.read_rows(rows)
            else:
                data = take(self.collection, rows)
                if self.fetch_transform is None:
                    data = _in_memory(data)
        except CellfeedError:
            raise
        except Exception as error:
            raise CollectionError(
                f"reading {len(rows)} samples of {name} (rows {rows.min()} to {rows.max()}) "
                f"failed: "
                f"{type(error).__name__}: {error}"
            ) from error
        # What a callback returns need not be rows: only a hook of the user's knows how to cut it.
        if self.fetch_callback is None or (
            self.fetch_transform is None and self.batch_callback is None
        ):
            self._check_length(
                data, rows, f"{name}[indices]" if self.fetch_callback is None else "fetch_callback"
            )
        return data

    @staticmethod
    def _check_length(data: Any, rows: np.ndarray, what: str) -> None:
        try:
            n = length_of(data)
        except TypeError:
            return
        if n != len(rows):
            raise CollectionError(
                f"{what} returned {n} samples for {len(rows)} indices (rows {rows.min()} to "
                f"{rows.max()})"
            )


def _checked(collection: Any) -> Any:
    try:
        n = length_of(collection)
    except TypeError as error:
        raise InvalidTypeError(
            f"a collection needs len and []: {type(collection).__name__} has no length"
        ) from error
    if n == 0:
        raise InvalidArgumentError(f"the collection ({type(collection).__name__}) has no samples")
    return collection


def _in_memory(data: Any) -> Any:
    # Batches are cut out of the group: a view of a file would read again for each, or not be cut at
    # all.
    if hasattr(data, "to_adata"):
        return data.to_adata()
    if getattr(data, "isbacked", False):
        return data.to_memory()
    return data


def _fingerprint(collection: Any) -> str:
    kind = type(collection)
    shape = getattr(collection, "shape", None)
    if not isinstance(shape, tuple):
        shape = (length_of(collection),)
    return f"{kind.__module__}.{kind.__qualname__}{[int(n) for n in shape]}"


def __getattr__(name: str) -> Any:
    if name != "scDataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from .torch import scDataset
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "torch":
            raise
        scDataset = type("scDataset", (Batches,), {"__module__": __name__})  # noqa: N806
    globals()[name] = scDataset
    return scDataset
