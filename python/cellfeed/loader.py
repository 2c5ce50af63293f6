"""The loader: shuffled batches of a collection, resumable, on one rank or many."""

from __future__ import annotations

import atexit
import copy
import inspect
import os
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack, cast, overload

import numpy as np

from . import _core
from ._arguments import (
    as_bool,
    as_chosen_names,
    as_dtype,
    as_function,
    is_anndata,
    parse_memory_budget,
    parse_threads,
    shown,
)
from ._iteration.dataset import BatchDataset
from ._iteration.iterable import Yielded, refuse_batching_again
from ._iteration.options import FETCH_FACTOR
from ._iteration.run import Run
from ._iteration.schedule import Schedule
from ._iteration.shared_iterator import SharedIterator
from ._iteration.stats import LoaderStats
from ._keywords import LoaderKeywords
from ._loader_options import LoaderOptions, refuse_unknown
from ._options import Casting, Data, DType, LoaderOutput, Partition, Remainder
from ._reader import Reader, report_kept
from ._tuning import Tuning, tuned
from .batch import Batch
from .collection import CellCollection
from .errors import InvalidArgumentError, InvalidTypeError
from .opening import open
from .strategies import SamplingStrategy, Streaming, as_strategy, shuffled
from .token_batch import TokenBatch
from .tokens import CellTokens, Masking

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from .transforms import Transform

atexit.register(_core.stop_all_iterators)


def _opened(cells: object) -> CellCollection:
    if isinstance(cells, CellCollection):
        return cells
    if isinstance(cells, (str, os.PathLike, list, tuple)) or is_anndata(cells):
        return open(cast("Data", cells))
    raise InvalidTypeError(
        f"cells must be files, an AnnData or what cellfeed.open(...) returned, not {shown(cells)}; "
        "for other collections use cellfeed.scDataset, for windows of time series "
        "cellfeed.series.SeriesLoader"
    )


def _chosen(cells: CellCollection, strategy: object, shuffle: bool | None) -> SamplingStrategy:
    if strategy is None:
        return shuffled(cells) if shuffle and as_bool("shuffle", shuffle) else Streaming()
    if shuffle is not None:
        raise InvalidArgumentError("shuffle and strategy both say the order: give one of them")
    return as_strategy(strategy)


class Loader(BatchDataset[Yielded]):
    """Shuffled batches, read and decoded by C++ threads.

    Parameters
    ----------
    cells
        What :func:`cellfeed.open` returned, or files or an AnnData to open with its defaults.
        Windows of time series have a loader of their own, :class:`cellfeed.series.SeriesLoader`.
    strategy
        The order of an epoch: ``BlockShuffling(block_size=...)``, ``Streaming()``, ...
    batch_size
        Cells of a batch on one rank.
    shuffle
        Instead of a strategy: ``True`` for true random order, and blocks of 64 cells where files
        are compressed in chunks; ``False``, the default, for the stored order.
    output
        ``"csr"``, ``"dense"``, or ``"tokens"``: batches are :class:`~cellfeed.TokenBatch`.
    tokens
        How cells become tokens: :class:`~cellfeed.RankTokens`, :class:`~cellfeed.BinnedTokens` or
        :class:`~cellfeed.ContinuousTokens`.
    masking
        Which tokens are hidden, to be predicted: :class:`~cellfeed.Masking`; none by default.
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

    __signature__: ClassVar[inspect.Signature]

    @overload
    def __init__(
        self: Loader[Batch[csr_matrix]],
        cells: CellCollection | Data,
        strategy: SamplingStrategy | None = ...,
        batch_size: int = ...,
        *,
        shuffle: bool | None = ...,
        output: Literal["csr"] = ...,
        collate_fn: None = ...,
        **options: Unpack[LoaderKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: Loader[Batch[np.ndarray]],
        cells: CellCollection | Data,
        strategy: SamplingStrategy | None = ...,
        batch_size: int = ...,
        *,
        shuffle: bool | None = ...,
        output: Literal["dense"],
        collate_fn: None = ...,
        **options: Unpack[LoaderKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: Loader[TokenBatch],
        cells: CellCollection | Data,
        strategy: SamplingStrategy | None = ...,
        batch_size: int = ...,
        *,
        shuffle: bool | None = ...,
        output: Literal["tokens"],
        collate_fn: None = ...,
        **options: Unpack[LoaderKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: Loader[Yielded],
        cells: CellCollection | Data,
        strategy: SamplingStrategy | None = ...,
        batch_size: int = ...,
        *,
        shuffle: bool | None = ...,
        output: Literal["tokens"],
        collate_fn: Callable[[TokenBatch], Yielded],
        **options: Unpack[LoaderKeywords],
    ) -> None: ...

    @overload
    def __init__(
        self: Loader[Yielded],
        cells: CellCollection | Data,
        strategy: SamplingStrategy | None = ...,
        batch_size: int = ...,
        *,
        shuffle: bool | None = ...,
        output: Literal["csr", "dense"] = ...,
        collate_fn: Callable[[Batch[Any]], Yielded],
        **options: Unpack[LoaderKeywords],
    ) -> None: ...

    def __init__(
        self,
        cells: CellCollection | Data,
        strategy: SamplingStrategy | None = None,
        batch_size: int = 1024,
        *,
        shuffle: bool | None = None,
        output: LoaderOutput = "csr",
        tokens: CellTokens | None = None,
        masking: Masking | None = None,
        dtype: DType = "float32",
        obs: Sequence[str] | str | None = None,
        transforms: Sequence[Transform] = (),
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
        collate_fn: Callable[[Any], Any] | None = None,
        **unknown: object,
    ) -> None:
        refuse_unknown(unknown, Loader.__signature__.parameters)
        cells = _opened(cells)
        strategy = _chosen(cells, strategy, shuffle)
        self.cells = cells
        self.collate_fn = as_function("collate_fn", collate_fn)
        self._collate_seconds = 0.0
        self._running: list[_core.BatchIterator] = []
        options = LoaderOptions(
            output=output, tokens=tokens, masking=masking, dtype=as_dtype("dtype", dtype),
            obs=as_chosen_names("obs", obs), transforms=transforms, seed=seed,
            epoch=0 if epoch is None else epoch, rank=rank, world_size=world_size,
            partition=partition, remainder=remainder, batch_size=batch_size,
            fetch_factor=FETCH_FACTOR if fetch_factor is None else fetch_factor,
            memory_budget=parse_memory_budget(memory_budget), threads=parse_threads(threads),
            drop_last=drop_last, casting=casting, pin_memory=pin_memory, tune=tune,
        )  # fmt: skip
        self.tuning: Tuning | None = None
        if tune:
            self.tuning, strategy, options = tuned(cells, strategy, options)
        self.strategy = strategy
        self._options = options
        self._reader = Reader(cells, options)
        if tokens is not None:
            tokens.report_missing(self.var_names, stacklevel=2)
        order, is_chunked = strategy.bind(cells), cells._core.is_chunked
        self._schedule = Schedule(
            order, f"{cells.fingerprint:016x}", options, is_chunked=is_chunked
        )
        length = order.length(options.epoch)
        self._reader.check_values(
            lambda n: order.order(
                options.seed or 0, options.epoch, 0, length, stride=max(1, length // n)
            )
        )

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_running": []}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._schedule.bind(self.strategy.bind(self.cells))

    def __copy__(self) -> Self:
        """Another loader over the same cells, whose epochs and reading are its own."""
        other = object.__new__(type(self))
        other.__setstate__(
            {
                **self.__getstate__(),
                "_reader": copy.copy(self._reader),
                "_schedule": copy.deepcopy(self._schedule),
            }
        )
        return other

    def __repr__(self) -> str:
        rank = f", rank {self.rank} of {self.world_size}" if self.world_size > 1 else ""
        return f"Loader({self.strategy!r}, {self._options.changes()}{rank}) over {self.cells!r}"

    @property
    def var_names(self) -> np.ndarray:
        """Columns of each batch, after the gene join and the transforms: a read-only array."""
        return self._reader.source.var_names

    @property
    def genes_left_out(self) -> np.ndarray:
        """Genes of the data that are never tokens, as the vocabulary does not have them."""
        tokens = self._reader.options.tokens
        return self.var_names[:0] if tokens is None else tokens.left_out(self.var_names)

    def __iter__(self) -> SharedIterator[Yielded]:
        """An iteration; threads may share it, and each batch goes to one of them."""
        refuse_batching_again()
        batches: Any = self._batches(self._schedule.begin())
        if self.collate_fn is not None:
            batches = self._collated(batches, self.collate_fn)
        return SharedIterator(batches)

    def _batches(self, run: Run) -> Generator[Any, None, None]:
        reader = self._reader
        reader.require_no_worker_pins()
        # A DataLoader takes batches from its workers in turn, so each yields every n-th.
        plan = run.start()
        if run.first >= plan.n_batches:
            run.finish()
            return
        files = reader.files
        iterator = reader.iterate(plan, run.first, run.step)
        self._running.append(iterator)
        try:
            for batch in iterator:
                run.advance()
                yield reader.make_batch(batch)
                del batch
                reader.core.threads  # noqa: B018  # an error where the loader was closed
            reader.core.threads  # noqa: B018  # closing also ends the iterator, as if all were read
            run.finish()
        finally:
            self._running.remove(iterator)
            iterator.stop()
            # At the end of the program names of modules are gone before iterators are.
            if report_kept is not None:
                report_kept(files)

    def _collated(
        self, batches: Generator[Batch[Any], None, None], collate_fn: Callable[[Batch[Any]], Any]
    ) -> Generator[Any, None, None]:
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
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def stats(self) -> LoaderStats:
        """Counters since the loader was made: cells, bytes, seconds, queue depth.

        ``decode_seconds`` and ``transform_seconds`` are summed over threads; ``wait_seconds`` is
        what the consumer waited for batches, ``collate_seconds`` what ``collate_fn`` took.
        """
        counted = {**self._reader.core.stats(), "collate_seconds": self._collate_seconds}
        return cast(LoaderStats, counted)


# ``unknown`` exists only to refuse misspelt arguments: help() and notebooks do not show it.
Loader.__signature__ = inspect.Signature(
    [
        parameter
        for name, parameter in inspect.signature(Loader.__init__).parameters.items()
        if name not in ("self", "unknown")
    ]
)
