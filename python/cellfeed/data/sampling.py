"""Weighted sampling of cells, as a sampler of map-style data sets and as a strategy."""

from __future__ import annotations

from typing import Any

from .._cells.labels import look_up_labels
from ..errors import NoSuchKeyError
from ..samplers import WeightedCellSampler

__all__ = ["WeightedCellSampler", "extract_labels_from_dataset"]


def extract_labels_from_dataset(dataset: Any, label_key: str = "cell_type") -> list[str]:
    """One label a cell of a map-style data set, for :class:`WeightedCellSampler`.

    Parameters
    ----------
    dataset
        A data set with ``obs`` or named columns; a torch ``Subset`` of one; or one whose items hold
        their labels under ``"metadata"``, which are then read one by one.
    label_key
        The column. Missing labels read ``"unknown"``.
    """
    rows = getattr(dataset, "indices", None)
    if rows is not None and hasattr(dataset, "dataset"):
        labels = extract_labels_from_dataset(dataset.dataset, label_key)
        return [labels[int(row)] for row in rows]
    try:
        codes, names = look_up_labels(dataset, label_key)
    except NoSuchKeyError:
        if len(dataset) == 0 or "metadata" not in dataset[0]:
            raise
        return [str(dataset[i]["metadata"].get(label_key, "unknown")) for i in range(len(dataset))]
    texts = [*map(str, names), "unknown"]
    return [texts[code] for code in codes.tolist()]
