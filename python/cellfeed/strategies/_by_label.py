"""Strategies by the label of each sample."""

from __future__ import annotations

import weakref
from collections.abc import Sized

import numpy as np
import numpy.typing as npt

from .. import _core
from .._arguments import as_bool, as_float, as_int, shown
from .._cells.labels import encode_labels, look_up_runs
from .._options import CellLabels, Indices
from .._row_order import index_of, require_row_order
from .._samples import length_of
from ..collection import CellCollection
from ..errors import InvalidArgumentError, InvalidTypeError
from ._strategy import SamplingStrategy, as_indices, as_size, check_mask


class LabelStrategy(SamplingStrategy):
    """A strategy that knows the label of each sample, given or looked up by key."""

    _shuffle_before_yield = True

    def __init__(
        self,
        labels: CellLabels | str | None,
        label_key: CellLabels | str | None,
        indices: Indices | None,
    ) -> None:
        if isinstance(labels, str) or (labels is None and not isinstance(label_key, str)):
            labels, label_key = label_key, labels  # either may come first
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
        self._index = index_of(labels)
        self._found: tuple[weakref.ref[CellCollection], _core.LabelIndex] | None = None
        if self._encoded is not None and len(self._encoded[0]) == 0:
            raise InvalidArgumentError(f"{name}: labels must be non-empty")
        if self._encoded is not None and -1 in self._encoded[1]:
            raise InvalidArgumentError(
                f"{name}: labels has -1, which in codes stands for samples without a label: give "
                "None or NaN for these, or the names of labels where -1 is a class"
            )

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_found": None}

    def _labels(self, cells: Sized) -> _core.LabelIndex:
        check_mask(self.indices, cells)
        require_row_order("labels", self._index, cells)
        if self._encoded is not None:
            return _core.make_labels(length_of(cells), self._encoded[0], as_indices(self.indices))
        # A collection of cellfeed.open does not change; obs of others may.
        if self._found is not None and self._found[0]() is cells:
            return self._found[1]
        codes, _, counts = look_up_runs(cells, str(self.label_key))
        index = _index_of(length_of(cells), codes, counts, as_indices(self.indices))
        if isinstance(cells, CellCollection):
            self._found = weakref.ref(cells), index
        return index


def _index_of(
    n: int,
    codes: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int64] | None,
    indices: npt.NDArray[np.int64] | None,
) -> _core.LabelIndex:
    if counts is None:
        return _core.make_labels(n, codes, indices)
    if indices is None:
        return _core.make_label_runs(n, codes, counts)
    runs = np.searchsorted(np.cumsum(counts), indices, side="right")
    # Whoever is outside is named by the core.
    return _core.make_labels(n, codes.take(runs, mode="clip"), indices)


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
        labels: CellLabels | str | None = None,
        block_size: int = 8,
        indices: Indices | None = None,
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

    def bind(self, cells: Sized) -> _core.Strategy:
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
        label_key: CellLabels | str | None = None,
        labels: CellLabels | str | None = None,
        indices: Indices | None = None,
        drop_last: bool = False,
    ) -> None:
        super().__init__(labels, label_key, indices)
        self.drop_last = as_bool("drop_last", drop_last)

    def __repr__(self) -> str:
        return f"GroupSampling({self.label_key!r})" if self.label_key else "GroupSampling(labels)"

    def bind(self, cells: Sized) -> _core.Strategy:
        """The order over ``len(cells)`` samples; a key is looked up in ``cells``."""
        return _core.make_groups(self._labels(cells), self.drop_last)
