"""Which samples only fill up a batch, marked in what hooks made of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .adapters import MultiIndexable
from .batch import Batch
from .collection import CellCollection, CellView


def marked(batch: Any, rows: np.ndarray, is_padding: np.ndarray) -> Any:
    """The batch with its marks, where it is of a kind that has them.

    Parameters
    ----------
    batch
        What hooks made of samples.
    rows, is_padding
        Of the plan.
    """
    if isinstance(batch, Batch):
        return batch.with_padding(_marks_of(batch.index, rows, is_padding))
    if isinstance(batch, MultiIndexable) and len(batch) == len(rows):
        return batch.with_padding(is_padding)
    return batch


def given_to_hooks(collection: Any) -> Any:
    """The collection; of a view the same cells in one whose own views have row numbers of it.

    So that what hooks make of these can be marked.

    Parameters
    ----------
    collection
        What a data set reads.
    """
    if not isinstance(collection, CellView):
        return collection
    cells = CellCollection(
        collection._core, collection._origin, collection.default_obs, collection._names
    )
    return CellView(cells, None)


def _marks_of(index: np.ndarray, rows: np.ndarray, is_padding: np.ndarray) -> np.ndarray:
    """Marks of the samples that a hook made a batch of: some of ``rows``, in any order."""
    if np.array_equal(index, rows):
        return is_padding
    marks: dict[int, list[bool]] = {}
    for row, mark in sorted(zip(rows.tolist(), is_padding.tolist(), strict=True), reverse=True):
        marks.setdefault(row, []).append(mark)
    # A row may be there for itself and as padding: then it is itself that comes first.
    return np.array([marks[row].pop() if marks.get(row) else False for row in index.tolist()], bool)
