"""Strategies by a weight of each sample."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np
import numpy.typing as npt

from .. import _core
from .._arguments import as_bool, as_int, shown
from .._options import Indices
from .._row_order import index_of, require_row_order
from .._samples import length_of
from ..errors import InvalidArgumentError, InvalidTypeError
from ._strategy import SamplingStrategy, as_indices, as_size, check_mask


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
        indices: Indices | None = None,
        weights: npt.ArrayLike | None = None,
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

    def bind(self, cells: Sized) -> _core.Strategy:
        """The order over ``len(cells)`` samples."""
        check_mask(self.indices, cells)
        require_row_order("weights", index_of(self.weights), cells)
        return _core.make_block_weighted(
            length_of(cells), _as_weights(self.weights), self.block_size, self.total_size,
            self.replace,
            self.sampling_size, as_indices(self.indices),
        )  # fmt: skip


def _as_weights(weights: npt.ArrayLike | None) -> np.ndarray | None:
    if weights is None:
        return None
    if isinstance(weights, np.ma.MaskedArray):
        raise InvalidTypeError("weights is a masked array: pass .filled(0), or another number")
    try:
        array = np.asarray(weights)
        array = array.astype(np.float64, casting="unsafe" if array.dtype == object else "same_kind")
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidTypeError(f"weights must be numbers, not {shown(weights)}") from error
    if array.ndim != 1:
        raise InvalidArgumentError(f"weights must be one-dimensional, not of shape {array.shape}")
    return np.ascontiguousarray(array)
