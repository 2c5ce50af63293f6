"""Which samples only fill up a batch, marked in what hooks made of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .adapters import MultiIndexable
from .batch import Batch
from .collection import CellView


def marked(batch: Any, rows: np.ndarray, is_padding: np.ndarray, collection: Any) -> Any:
    """The batch with its marks, where it is of a kind that has them.

    Parameters
    ----------
    batch
        What hooks made of samples.
    rows, is_padding
        Of the plan.
    collection
        Which the rows are of.
    """
    if isinstance(batch, Batch):
        numbered = _numbered_as(batch, rows, collection)
        return batch.with_padding(_marks_of(batch.index, numbered, is_padding))
    if isinstance(batch, MultiIndexable) and len(batch) == len(rows):
        return batch.with_padding(is_padding)
    return batch


def _numbered_as(batch: Batch[Any], rows: np.ndarray, collection: Any) -> np.ndarray:
    """Rows of a collection as the batch numbers them: what is cut out of a view has other numbers.

    Those of the collection that the first view was made of, unless it was read from this one.
    """
    if not isinstance(collection, CellView) or batch._source.files is collection._core:
        return rows
    numbers: np.ndarray = collection.index[rows]
    return numbers


def _marks_of(index: np.ndarray, rows: np.ndarray, is_padding: np.ndarray) -> np.ndarray:
    """Marks of the samples that a hook made a batch of: some of ``rows``, in any order."""
    if np.array_equal(index, rows):
        return is_padding
    marks: dict[int, list[bool]] = {}
    for row, mark in sorted(zip(rows.tolist(), is_padding.tolist(), strict=True), reverse=True):
        marks.setdefault(row, []).append(mark)
    # A row may be there for itself and as padding: then it is itself that comes first.
    return np.array([marks[row].pop() if marks.get(row) else False for row in index.tolist()], bool)
