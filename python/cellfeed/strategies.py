"""Sampling strategies: which cell comes at which position of an epoch (docs/sampling.md)."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from . import _core
from ._arguments import as_bool, as_float, as_int, as_rows, did_you_mean, shown
from ._cells.labels import encode_labels, look_up_labels
from .adapters import length_of
from .collection import CellCollection
from .errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "BlockShuffling",
    "BlockWeightedSampling",
    "ClassBalancedSampling",
    "GroupSampling",
    "SamplingStrategy",
    "Streaming",
    "WholeShards",
]

# What a loader takes: those of this file, and one that is a sampler too.
_NAMES = [name for name in __all__ if name != "SamplingStrategy"] + ["WeightedCellSampler"]


def as_indices(indices: Any) -> np.ndarray | None:
    """int64 row numbers of a list, an array or a boolean mask; None stays None."""
    if indices is None:
        return None
    array = as_rows("indices", indices)
    if array.dtype == bool:
        array = np.flatnonzero(array)
    if array.ndim != 1:
        raise InvalidArgumentError(f"indices must be one-dimensional, not of shape {array.shape}")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InvalidTypeError(f"indices must be integers or a boolean mask, not {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.int64)


def as_strategy(strategy: Any) -> SamplingStrategy:
    """A strategy, or an error that says how to make one."""
    if isinstance(strategy, SamplingStrategy):
        return strategy
    known = ", ".join(f"{name}(...)" for name in _NAMES)
    if isinstance(strategy, type) and issubclass(strategy, SamplingStrategy):
        raise InvalidTypeError(
            f"strategy must be an object, not the class {strategy.__name__}: write "
            f"{strategy.__name__}(...)"
        )
    near = did_you_mean(strategy, _NAMES)
    raise InvalidTypeError(f"strategy must be one of {known}, not {shown(strategy)}{near}")


def as_size(name: str, size: Any) -> int | None:
    return None if size is None else as_int(name, size, 1, 2**62)


class SamplingStrategy:
    """Base of the strategies: settings that become an order once the collection is known."""

    # True where rows inside a fetch group come in random order.
    _shuffle_before_yield: bool = False

    def bind(self, cells: Any) -> _core.Strategy:
        """The order over a collection of ``len(cells)`` samples.

        Parameters
        ----------
        cells
            Anything with ``len``; label keys are looked up in it.
        """
        raise NotImplementedError

    def get_len(self, data_collection: Any) -> int:
        """Samples of one epoch."""
        return self.bind(data_collection).length()

    def get_indices(
        self, data_collection: Any, seed: int | None = None, rng: Any = None
    ) -> np.ndarray:
        """The whole order of one epoch as int64 row numbers; O(samples) memory, for inspection.

        Parameters
        ----------
        data_collection
            Anything with ``len``.
        seed
            Seed of the order; drawn from ``rng`` when omitted.
        rng
            A :class:`numpy.random.Generator`.
        """
        if seed is None:
            seed = int((rng or np.random.default_rng()).integers(2**31))
        order = self.bind(data_collection)
        rows = order.order(seed=seed, epoch=0, begin=0, end=order.length())
        return np.where(rows < 0, ~rows, rows)  # ~row stands for a repeat that fills up a batch


def _check_mask(indices: Any, n_rows: int) -> None:
    array = None if indices is None else as_rows("indices", indices)
    if array is not None and array.dtype == bool and array.shape != (n_rows,):
        raise InvalidArgumentError(
            f"a boolean mask needs one value a sample: {array.shape} for {n_rows} samples"
        )


class Streaming(SamplingStrategy):
    """Storage order.

    Parameters
    ----------
    indices
        Row numbers or a boolean mask; all rows when omitted. Read in storage order whatever their
        order here.
    shuffle
        Permute rows inside each fetch group.
    shuffle_buffer
        Consecutive samples that are permuted together instead of a fetch group; implies
        ``shuffle``.
    """

    def __init__(self, indices: Any = None, shuffle: bool = False, shuffle_buffer: int = 0) -> None:
        self.indices = indices
        self.shuffle_buffer = as_int("shuffle_buffer", shuffle_buffer, 0, 2**62)
        self.shuffle = as_bool("shuffle", shuffle) or self.shuffle_buffer > 0
        self._shuffle_before_yield = self.shuffle

    def __repr__(self) -> str:
        return f"Streaming(shuffle={self.shuffle})"

    def bind(self, cells: Any) -> _core.Strategy:
        """The order over ``len(cells)`` samples."""
        _check_mask(self.indices, length_of(cells))
        return _core.make_streaming(
            length_of(cells), as_indices(self.indices), self.shuffle, self.shuffle_buffer
        )


class BlockShuffling(SamplingStrategy):
    """Blocks of consecutive samples in random order; rows permuted inside each fetch group.

    Parameters
    ----------
    block_size
        Samples of a block; 1 is true random sampling.
    indices
        Row numbers or a boolean mask; all rows when omitted.
    drop_last
        Leave out the samples that do not fill a block, others each epoch.
    """

    _shuffle_before_yield = True

    def __init__(self, block_size: int = 8, indices: Any = None, drop_last: bool = False) -> None:
        self.block_size = as_int("block_size", block_size, 1, 2**62)
        self.indices = indices
        self.drop_last = as_bool("drop_last", drop_last)

    def __repr__(self) -> str:
        return f"BlockShuffling(block_size={self.block_size})"

    def bind(self, cells: Any) -> _core.Strategy:
        """The order over ``len(cells)`` samples."""
        _check_mask(self.indices, length_of(cells))
        return _core.make_block_shuffling(
            length_of(cells), self.block_size, as_indices(self.indices), self.drop_last
        )


class WholeShards(SamplingStrategy):
    """Each rank reads shards of its own, in true random order; all ranks equally many cells.

    Rank r gets shards r, r + R, r + 2R, ...; where that leaves ranks unequal, cells off the end of
    the longer ranks' lists go to the shorter ones. An epoch holds every cell once. A rank's page
    cache then holds its shards alone. Batches of a rank are of its shards: where shards differ,
    shuffle them (``cellfeed shard --shuffle``).

    Parameters
    ----------
    num_ranks
        Ranks that share an epoch, with ``partition="interleave"``.
    shard_offsets
        First cell of each shard, and the number of cells; those of the files by default.
    """

    def __init__(self, num_ranks: int, shard_offsets: Any = None) -> None:
        self.num_ranks = as_int("num_ranks", num_ranks, 1, 2**20)
        self.shard_offsets = as_indices(shard_offsets)

    def __repr__(self) -> str:
        return f"WholeShards(num_ranks={self.num_ranks})"

    def bind(self, cells: Any) -> _core.Strategy:
        """The order over ``len(cells)`` samples."""
        offsets = self.shard_offsets
        if offsets is None:
            offsets = _offsets_of(cells)
        if not len(offsets) or offsets[-1] != length_of(cells):
            raise InvalidArgumentError(
                f"shard_offsets must end with the number of cells, {length_of(cells):,}"
            )
        return _core.make_whole_shards(offsets, self.num_ranks)


def _offsets_of(cells: Any) -> np.ndarray:
    if not isinstance(cells, CellCollection):
        raise InvalidTypeError(
            "WholeShards knows where shards begin of a collection of cellfeed.open only: give "
            "shard_offsets"
        )
    n, at_once = len(cells), 1 << 20
    counts = np.zeros(cells._core.n_stores, dtype=np.int64)
    last = 0
    for begin in range(0, n, at_once):
        stores = cells._core.locate(np.arange(begin, min(n, begin + at_once)))[0]
        if stores[0] < last or (np.diff(stores) < 0).any():
            raise InvalidArgumentError(
                "WholeShards needs cells in the order of their shards; these were put in another"
            )
        counts += np.bincount(stores, minlength=len(counts))
        last = stores[-1]
    return np.concatenate([[0], np.cumsum(counts)])


class BlockWeightedSampling(SamplingStrategy):
    """Draws with probability proportional to weight, ``block_size`` of them from one block.

    Every draw has exactly the probability ``weight / sum of weights``, whatever the block size;
    zero weight is never drawn. A larger block reads faster and makes neighbouring draws more alike.

    Parameters
    ----------
    block_size
        Draws that come from one block; 1 draws each sample on its own.
    indices
        Row numbers or a boolean mask; all rows when omitted.
    weights
        One a row of the collection, or one an index; they stay with their samples. All alike when
        omitted.
    total_size
        Draws of an epoch; as many as there are samples when omitted.
    replace
        ``False``: rounds of ``sampling_size`` draws, no sample twice in a round; O(samples) memory.
    sampling_size
        Draws of a round without replacement.
    """

    _shuffle_before_yield = True

    def __init__(
        self,
        block_size: int = 8,
        indices: Any = None,
        weights: Any = None,
        total_size: int | None = None,
        replace: bool = True,
        sampling_size: int | None = None,
    ) -> None:
        self.block_size = as_int("block_size", block_size, 1, 2**62)
        self.indices = indices
        self.weights = weights
        self.total_size = as_size("total_size", total_size)
        self.replace = as_bool("replace", replace)
        self.sampling_size = as_size("sampling_size", sampling_size)

    def __repr__(self) -> str:
        return f"BlockWeightedSampling(block_size={self.block_size}, total_size={self.total_size})"

    def bind(self, cells: Any) -> _core.Strategy:
        """The order over ``len(cells)`` samples."""
        _check_mask(self.indices, length_of(cells))
        return _core.make_block_weighted(
            length_of(cells), _as_weights(self.weights), self.block_size, self.total_size,
            self.replace,
            self.sampling_size, as_indices(self.indices),
        )  # fmt: skip


def _as_weights(weights: Any) -> np.ndarray | None:
    if weights is None:
        return None
    if isinstance(weights, np.ma.MaskedArray):
        raise InvalidTypeError("weights is a masked array: pass .filled(0), or another number")
    try:
        array = np.asarray(weights)
        array = array.astype(np.float64, casting="unsafe" if array.dtype == object else "same_kind")
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"weights must be numbers, not {shown(weights)}") from error
    if array.ndim != 1:
        raise InvalidArgumentError(f"weights must be one-dimensional, not of shape {array.shape}")
    return np.ascontiguousarray(array)


class LabelStrategy(SamplingStrategy):
    """A strategy that knows the label of each sample, given or looked up by key."""

    _shuffle_before_yield = True

    def __init__(self, labels: Any, label_key: str | None, indices: Any) -> None:
        if isinstance(labels, str):
            labels, label_key = None, labels
        name = type(self).__name__
        if (labels is None) == (label_key is None):
            raise InvalidArgumentError(f"{name} takes either labels, one a sample, or a label_key")
        if label_key is not None and not isinstance(label_key, str):
            raise InvalidTypeError(
                f"label_key must be the name of a column, not {shown(label_key)}"
            )
        self.label_key = label_key
        self.indices = indices
        self._encoded = None if labels is None else encode_labels(labels)
        self._found: tuple[weakref.ref[Any], _core.LabelIndex] | None = None
        if self._encoded is not None and len(self._encoded[0]) == 0:
            raise InvalidArgumentError(f"{name}: labels must be non-empty")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_found": None}

    def _labels(self, cells: Any) -> _core.LabelIndex:
        _check_mask(self.indices, length_of(cells))
        if self._encoded is not None:
            return _core.make_labels(length_of(cells), self._encoded[0], as_indices(self.indices))
        # A collection of cellfeed.open does not change; obs of others may.
        is_fixed = isinstance(cells, CellCollection)
        if self._found is not None and self._found[0]() is cells:
            return self._found[1]
        codes, _ = look_up_labels(cells, str(self.label_key))
        index = _core.make_labels(length_of(cells), codes, as_indices(self.indices))
        if is_fixed:
            self._found = weakref.ref(cells), index
        return index


class ClassBalancedSampling(LabelStrategy):
    """Draws a class first, then ``block_size`` of its members that are neighbours in storage.

    The probability of a class is proportional to ``count / (count + smoothing * N / K)``, over N
    labelled samples in K classes; samples without a label are never drawn.

    Parameters
    ----------
    labels
        One label a row of the collection, or one an index. Missing (None, NaN) is allowed.
    block_size
        Draws that come from one place in storage.
    indices
        Row numbers or a boolean mask; all rows when omitted.
    total_size
        Draws of an epoch; as many as there are labelled samples when omitted.
    replace
        ``False``: rounds of ``sampling_size`` draws, no sample twice in a round; O(samples) memory.
    sampling_size
        Draws of a round without replacement.
    label_key
        Column of the collection that holds the labels, instead of ``labels``.
    smoothing
        0 gives all classes the same probability; large leaves the frequencies as they are.
    """

    def __init__(
        self,
        labels: Any = None,
        block_size: int = 8,
        indices: Any = None,
        total_size: int | None = None,
        replace: bool = True,
        sampling_size: int | None = None,
        *,
        label_key: str | None = None,
        smoothing: float = 0.0,
    ) -> None:
        super().__init__(labels, label_key, indices)
        self.block_size = as_int("block_size", block_size, 1, 2**62)
        self.total_size = as_size("total_size", total_size)
        self.replace = as_bool("replace", replace)
        self.sampling_size = as_size("sampling_size", sampling_size)
        self.smoothing = as_float("smoothing", smoothing, 0)

    def __repr__(self) -> str:
        key = f"label_key={self.label_key!r}, " if self.label_key else ""
        sizes = f"block_size={self.block_size}, smoothing={self.smoothing:g}"
        return f"ClassBalancedSampling({key}{sizes})"

    def bind(self, cells: Any) -> _core.Strategy:
        """The order over ``len(cells)`` samples; a label key is looked up in ``cells``."""
        return _core.make_class_balanced(
            self._labels(cells), self.block_size, self.total_size, self.smoothing, self.replace,
            self.sampling_size,
        )  # fmt: skip


class GroupSampling(LabelStrategy):
    """Batches that hold one group only: one donor, one perturbation, one class.

    Every member is drawn once an epoch; a group's last batch is filled up with repeats
    (``batch.is_padding``).

    Parameters
    ----------
    label_key
        Column of the collection that holds the groups.
    labels
        One group a sample instead of ``label_key``.
    indices
        Row numbers or a boolean mask; all rows when omitted.
    drop_last
        Leave out the members that fill no batch, others each epoch, instead of filling up.
    """

    def __init__(
        self,
        label_key: str | None = None,
        labels: Any = None,
        indices: Any = None,
        drop_last: bool = False,
    ) -> None:
        super().__init__(labels, label_key, indices)
        self.drop_last = as_bool("drop_last", drop_last)

    def __repr__(self) -> str:
        return f"GroupSampling({self.label_key!r})" if self.label_key else "GroupSampling(labels)"

    def bind(self, cells: Any) -> _core.Strategy:
        """The order over ``len(cells)`` samples; a key is looked up in ``cells``."""
        return _core.make_groups(self._labels(cells), self.drop_last)
