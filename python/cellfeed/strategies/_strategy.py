"""What all strategies are, and what they check."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np
import numpy.typing as npt

from .. import _core
from .._arguments import as_int, as_rows, did_you_mean, shown
from .._options import Indices
from .._row_order import index_of, require_row_order
from .._samples import length_of
from ..errors import InvalidArgumentError, InvalidTypeError

# What a loader takes: those of this folder, and one that is a sampler too.
_NAMES = [
    "BlockShuffling",
    "BlockWeightedSampling",
    "ClassBalancedSampling",
    "GroupSampling",
    "Streaming",
    "WeightedCellSampler",
    "WholeShards",
]


def as_indices(indices: Indices | None) -> npt.NDArray[np.int64] | None:
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


def as_strategy(strategy: object) -> SamplingStrategy:
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


def as_size(name: str, size: object) -> int | None:
    return None if size is None else as_int(name, size, 1, 2**62)


class SamplingStrategy:
    """Base of the strategies: settings that become an order once the collection is known."""

    # True where rows inside a fetch group come in random order.
    _shuffle_before_yield: bool = False

    def bind(self, cells: Sized) -> _core.Strategy:
        """The order over a collection of ``len(cells)`` samples.

        Parameters
        ----------
        cells
            Anything with ``len``; label keys are looked up in it.
        """
        raise NotImplementedError

    def get_len(self, data_collection: Sized) -> int:
        """Samples of one epoch."""
        return self.bind(data_collection).length()

    def get_indices(
        self,
        data_collection: Sized,
        seed: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> npt.NDArray[np.int64]:
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


def check_mask(indices: Indices | None, cells: Sized) -> None:
    array = None if indices is None else as_rows("indices", indices)
    if array is None or array.dtype != bool:
        return
    require_row_order("the mask of indices", index_of(indices), cells)
    n_rows = length_of(cells)
    if array.shape != (n_rows,):
        raise InvalidArgumentError(
            f"a boolean mask needs one value a sample: {array.shape} for {n_rows} samples"
        )
