"""scDataset: batches of any collection, ours or Python's, in the order of a strategy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sized
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

import numpy as np

from . import _core
from ._arguments import as_bool, as_function, check_options
from ._iteration.dataset import BatchDataset
from ._iteration.iterable import Yielded, refuse_batching_again
from ._iteration.options import IterationOptions
from ._iteration.run import Run
from ._iteration.schedule import Schedule
from ._iteration.shared_iterator import SharedIterator
from ._keywords import CellKeywords, SampleKeywords
from ._marks import marked
from ._options import Output, Partition, Remainder
from ._samples import in_memory, is_tensor_dataset, length_of, require_samples, take
from .adapters import MultiIndexable
from .collection import CellCollection, CellView
from .errors import CellfeedError, CollectionError, InvalidArgumentError, InvalidTypeError
from .loader import Loader
from .strategies import SamplingStrategy, as_indices, as_strategy

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from .batch import Batch

Hook = Callable[..., Any]


class scDataset(BatchDataset[Yielded]):  # noqa: N801
    """Batches of any collection in the order of a strategy.

    A torch ``IterableDataset`` wherever torch is in use. Iterate it, or hand it to
    ``DataLoader(dataset, batch_size=None)``. Each iteration is the next epoch, also in worker
    processes, and workers do not change the batches. On several ranks each gets batches of its own,
    equally many of the same sizes, without a ``DistributedSampler``.

    A collection of :func:`cellfeed.open` is read by a :class:`~cellfeed.Loader` and yields
    :class:`~cellfeed.Batch`. Of any other collection the samples of a fetch group (``fetch_factor``
    batches) are read together, sorted and each once, by ``collection[indices]``, put in order and
    cut into batches.

    Parameters
    ----------
    data_collection
        What :func:`cellfeed.open` returned, or anything with ``len`` and ``[]``: numpy, scipy CSR,
        AnnData (also backed), AnnCollection, pandas, Hugging Face data sets, map-style data sets of
        torch and of cellfeed, :class:`~cellfeed.MultiIndexable`. With ``fetch_callback`` it need
        not have ``[]``, and with ``indices`` in the strategy no ``len`` either.
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
        ``torch.distributed`` group, else of ``RANK`` and ``WORLD_SIZE`` in the environment, else
        0 of 1, found out when an iteration begins or a length or plan is asked for. A group that
        begins, ends or changes during an epoch is an error.
    seed
        Seed of every order. Drawn at random by default, and agreed on with rank 0 of the process
        group (all ranks must come there: here, or at the first iteration where the group came
        later); 0 on several ranks without a group.
    partition, remainder
        As in :class:`~cellfeed.Loader`.
    with_padding
        Yield pairs ``(batch, is_padding)``: ``is_padding``, one bool a sample of the plan, is True
        where a sample only fills up the batch. Batches that are a :class:`~cellfeed.Batch` or a
        :class:`~cellfeed.MultiIndexable` have it as ``batch.is_padding`` anyway, also where hooks
        see them; this is for batches of other kinds.
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

    @overload
    def __init__(
        self: scDataset[Batch[csr_matrix]],
        data_collection: CellCollection,
        strategy: SamplingStrategy,
        batch_size: int,
        fetch_factor: int = ...,
        drop_last: bool = ...,
        *,
        output: Literal["csr"] = ...,
        **options: Unpack[SampleKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: scDataset[Batch[np.ndarray]],
        data_collection: CellCollection,
        strategy: SamplingStrategy,
        batch_size: int,
        fetch_factor: int = ...,
        drop_last: bool = ...,
        *,
        output: Literal["dense"],
        **options: Unpack[SampleKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: scDataset[Yielded],
        data_collection: object,
        strategy: SamplingStrategy,
        batch_size: int,
        fetch_factor: int = ...,
        drop_last: bool = ...,
        fetch_callback: Hook | None = ...,
        fetch_transform: Hook | None = ...,
        batch_callback: Hook | None = ...,
        *,
        batch_transform: Callable[[Any], Yielded],
        output: Output = ...,
        **options: Unpack[SampleKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: scDataset[Any],
        data_collection: object,
        strategy: SamplingStrategy,
        batch_size: int,
        fetch_factor: int = ...,
        drop_last: bool = ...,
        fetch_callback: Hook | None = ...,
        fetch_transform: Hook | None = ...,
        batch_callback: Hook | None = ...,
        batch_transform: Hook | None = ...,
        rank: int | None = ...,
        world_size: int | None = ...,
        seed: int | None = ...,
        *,
        partition: Partition = ...,
        remainder: Remainder = ...,
        epoch: int = ...,
        with_padding: bool = ...,
        **options: Unpack[CellKeywords],
    ) -> None: ...

    def __init__(
        self,
        data_collection: object,
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
        partition: Partition = "auto",
        remainder: Remainder = "pad",
        epoch: int = 0,
        with_padding: bool = False,
        **options: Unpack[CellKeywords],
    ) -> None:
        strategy = as_strategy(strategy)
        self.collection = data_collection
        self.strategy = strategy
        self.fetch_callback = as_function("fetch_callback", fetch_callback)
        self.fetch_transform = as_function("fetch_transform", fetch_transform)
        self.batch_callback = as_function("batch_callback", batch_callback)
        self.batch_transform = as_function("batch_transform", batch_transform)
        self.with_padding = as_bool("with_padding", with_padding)
        self.sort_before_fetch = True
        self._loader: Loader[Any] | None = None
        if isinstance(data_collection, CellCollection):
            check_options("scDataset", options, list(CellKeywords.__annotations__))
            more: dict[str, Any] = {**options}  # output as one of two words
            self._loader = Loader(
                data_collection, strategy, batch_size, fetch_factor=fetch_factor,
                drop_last=drop_last, rank=rank, world_size=world_size, seed=seed,
                partition=partition, remainder=remainder, epoch=epoch, **more,
            )  # fmt: skip
            self._schedule = self._loader._schedule
            return
        hooks = (fetch_callback, fetch_transform, batch_callback, batch_transform)
        if not any(hooks):
            require_samples(data_collection)
        if options:
            raise InvalidArgumentError(
                f"{', '.join(options)}: only for a collection of cellfeed.open(...), not for "
                f"{type(data_collection).__name__}"
            )
        dealing = IterationOptions(
            batch_size=batch_size, fetch_factor=fetch_factor, drop_last=drop_last, rank=rank,
            world_size=world_size, seed=seed, partition=partition, remainder=remainder, epoch=epoch,
        )  # fmt: skip
        self._schedule = Schedule(self._bind(), self._fingerprint(), dealing)

    def _bind(self) -> _core.Strategy:
        counted = _counted(self.collection, self.strategy, self.fetch_callback is not None)
        return self.strategy.bind(counted)

    def _fingerprint(self) -> str:
        counted = _counted(self.collection, self.strategy, self.fetch_callback is not None)
        kind, shape = type(self.collection), getattr(self.collection, "shape", None)
        if not isinstance(shape, tuple):
            shape = (length_of(counted),)
        return f"{kind.__module__}.{kind.__qualname__}{[int(n) for n in shape]}"

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        if self._loader is None:
            self._schedule.bind(self._bind())

    def __repr__(self) -> str:
        rank = f", rank {self.rank} of {self.world_size}" if self.world_size > 1 else ""
        name = type(self.collection).__name__
        return f"scDataset({name}, {self.strategy!r}, batch_size={self.batch_size}{rank})"

    @property
    def fetch_size(self) -> int:
        """Samples of a fetch group on one rank."""
        return self.batch_size * self.fetch_factor

    @property
    def _base_seed(self) -> int:
        return self.seed

    @property
    def _epoch(self) -> int:
        return self.epoch

    def __iter__(self) -> SharedIterator[Yielded]:
        """An iteration; threads may share it, and each batch goes to one of them."""
        refuse_batching_again()
        loader = self._loader
        if loader is None or self.fetch_callback or self.fetch_transform or self.batch_callback:
            return SharedIterator(self._finished(self._grouped(self._schedule.begin())))
        if self.batch_transform is None and not self.with_padding:
            return cast(Loader[Yielded], loader).__iter__()
        return SharedIterator(self._finished((batch, None) for batch in loader))

    def _finished(
        self, batches: Iterator[tuple[Any, np.ndarray | None]]
    ) -> Generator[Any, None, None]:
        for batch, is_padding in batches:
            if self.with_padding and is_padding is None:
                is_padding = batch.is_padding
            if self.batch_transform is not None:
                batch = self.batch_transform(batch)
            yield (batch, is_padding) if self.with_padding else batch

    def _grouped(self, run: Run) -> Iterator[tuple[Any, np.ndarray]]:
        plan = run.start()

        def group_of(k: int) -> int:
            # A worker reads its share of as many groups as there are workers, so its reads stay as
            # large.
            return plan.fetch_group(k) // run.step

        for _, numbers in itertools.groupby(run.numbers(), group_of):
            for batch in self._read_group([plan.batch(k) for k in numbers]):
                run.advance()
                yield batch
        run.finish()

    def _read_group(
        self, plans: list[tuple[np.ndarray, np.ndarray | None]]
    ) -> Iterator[tuple[Any, np.ndarray]]:
        wanted = np.concatenate([rows for rows, _ in plans])
        if self.sort_before_fetch:
            wanted, places = np.unique(wanted, return_inverse=True)
        else:
            places = np.arange(len(wanted))
        data = self._fetch(wanted)
        if self.fetch_transform is not None:
            data = self.fetch_transform(data)
            if self.batch_callback is None:
                self._check_length(data, wanted, "fetch_transform")
        if isinstance(data, CellView):  # read once, and not for every batch
            data = data.batch
        cut = take if self.batch_callback is None else self.batch_callback
        ends = np.cumsum([len(rows) for rows, _ in plans])[:-1]
        for positions, (rows, is_padding) in zip(np.split(places, ends), plans, strict=True):
            if is_padding is None:
                is_padding = np.zeros(len(rows), dtype=bool)
            yield marked(cut(data, positions), rows, is_padding, self.collection), is_padding

    def _fetch(self, rows: np.ndarray) -> Any:
        name = type(self.collection).__name__
        try:
            if self.fetch_callback is not None:
                data = self.fetch_callback(self.collection, rows)
            elif self._loader is not None:
                data = self._loader._reader.read(rows)
            else:
                data = take(self.collection, rows)
                if self.fetch_transform is None and is_tensor_dataset(self.collection):
                    data = MultiIndexable(*data)
                elif self.fetch_transform is None and not isinstance(data, CellView):
                    data = in_memory(data)
        except CellfeedError:
            raise
        except Exception as error:
            remedy = ""
            if self.fetch_callback is None:
                remedy = (
                    ". What takes one index at a time needs fetch_callback=lambda data, rows: "
                    "[data[int(i)] for i in rows]"
                )
            raise CollectionError(
                f"reading {len(rows)} samples of {name} (rows {rows.min()} to {rows.max()}) "
                f"failed: {type(error).__name__}: {error}{remedy}"
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
    def _check_length(data: object, rows: np.ndarray, what: str) -> None:
        if data is None:
            raise CollectionError(f"{what} returned None instead of {len(rows)} samples")
        try:
            n = length_of(data)
        except TypeError:
            return
        if n != len(rows):
            raise CollectionError(
                f"{what} returned {n} samples for {len(rows)} indices (rows {rows.min()} to "
                f"{rows.max()})"
            )


class _Counted:
    """A collection without ``len``, as long as its strategy's ``indices`` say."""

    def __init__(self, collection: Any, n: int) -> None:
        self._collection = collection
        self._n = n

    def __len__(self) -> int:
        return self._n

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)

    def __getitem__(self, key: object) -> Any:
        return self._collection[key]


def _counted(collection: Any, strategy: SamplingStrategy, is_read_by_hook: bool) -> Sized:
    """What the strategy is bound to: it needs a length."""
    try:
        n = length_of(collection)
    except TypeError as error:
        listed = getattr(strategy, "indices", None)
        indices = as_indices(listed)
        if is_read_by_hook and indices is not None and len(indices):
            given = np.asarray(listed)
            n = len(given) if given.dtype == bool else int(indices.max()) + 1
            return _Counted(collection, n)
        raise InvalidTypeError(
            f"a collection needs len and []: {type(collection).__name__} has no length; or pass "
            "fetch_callback and a strategy with indices"
        ) from error
    if n == 0:
        raise InvalidArgumentError(f"the collection ({type(collection).__name__}) has no samples")
    counted: Sized = collection
    return counted
