"""Sampling strategies: which cell comes at which position of an epoch (docs/sampling.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from .errors import InvalidArgumentError, InvalidTypeError

__all__ = ["BlockShuffling", "SamplingStrategy", "Streaming"]


def as_indices(indices: Any) -> np.ndarray | None:
    """int64 row numbers of a list, an array or a boolean mask; None stays None."""
    if indices is None:
        return None
    array = np.atleast_1d(np.asarray(indices))
    if array.dtype == bool:
        array = np.flatnonzero(array)
    if array.ndim != 1:
        raise InvalidArgumentError(f"indices must be one-dimensional, not of shape {array.shape}")
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise InvalidTypeError(f"indices must be integers or a boolean mask, not {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.int64)


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

    def get_indices(self, data_collection: Any, seed: int | None = None, rng: Any = None) -> np.ndarray:
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
        return order.order(seed=seed, epoch=0, begin=0, end=order.length())


def _check_mask(indices: Any, n_rows: int) -> None:
    array = None if indices is None else np.asarray(indices)
    if array is not None and array.dtype == bool and array.shape != (n_rows,):
        raise InvalidArgumentError(
            f"a boolean mask needs one value a sample: {array.shape} for {n_rows} samples"
        )


class Streaming(SamplingStrategy):
    """Storage order.

    Parameters
    ----------
    indices
        Row numbers or a boolean mask; all rows when omitted. Read in storage order whatever their order here.
    shuffle
        Permute rows inside each fetch group.
    shuffle_buffer
        Consecutive samples that are permuted together instead of a fetch group; implies ``shuffle``.
    """

    def __init__(self, indices: Any = None, shuffle: bool = False, shuffle_buffer: int = 0) -> None:
        self.indices = indices
        self.shuffle = bool(shuffle or shuffle_buffer)
        self.shuffle_buffer = int(shuffle_buffer)
        self._shuffle_before_yield = self.shuffle

    def __repr__(self) -> str:
        return f"Streaming(shuffle={self.shuffle})"

    def bind(self, cells: Any) -> _core.Strategy:
        """The order over ``len(cells)`` samples."""
        _check_mask(self.indices, len(cells))
        return _core.make_streaming(
            len(cells), as_indices(self.indices), self.shuffle, self.shuffle_buffer
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
        self.block_size = int(block_size)
        self.indices = indices
        self.drop_last = bool(drop_last)

    def __repr__(self) -> str:
        return f"BlockShuffling(block_size={self.block_size})"

    def bind(self, cells: Any) -> _core.Strategy:
        """The order over ``len(cells)`` samples."""
        _check_mask(self.indices, len(cells))
        return _core.make_block_shuffling(
            len(cells), self.block_size, as_indices(self.indices), self.drop_last
        )
