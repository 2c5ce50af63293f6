"""Labels of cells as the whole numbers that models of scvi-tools take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._cells.labels import ROWS_AT_ONCE, require_labels
from ..collection import CellCollection
from ..errors import InvalidArgumentError, InvalidTypeError


def _pieces(cells: CellCollection, key: str) -> Iterator[np.ndarray]:
    for begin in range(0, len(cells), ROWS_AT_ONCE):
        yield cells.obs_values(key, slice(begin, begin + ROWS_AT_ONCE))


def require_numbers(cells: CellCollection, argument: str, key: str) -> None:
    """Refuse an obs column of labels, and one that lacks the value of some cell."""
    if cells.obs_column(key).is_categorical:
        raise InvalidTypeError(f"{argument} must be a column of numbers; {key!r} holds labels")
    n_missing = sum(int(np.isnan(values).sum()) for values in _pieces(cells, key))
    if n_missing:
        raise InvalidArgumentError(
            f"{n_missing:,} cells have no value in obs column {key!r}, of {argument}; leave them "
            f"out: cells.filter({f'`{key}` is not missing'!r})"
        )


class Codes:
    """The label of each cell in one obs column as its place in ``names``.

    Parameters
    ----------
    cells
        The cells.
    argument
        The name of the argument that named the column, for errors.
    key
        The column. Without one, every cell has the code 0.
    unlabeled
        The label of cells that have none. It comes last, and is a label only if some cell has it.
        Without it, a cell without a label is an error.
    names
        All labels, in order, where a model is trained already.

    Attributes
    ----------
    names
        Labels that some cell has: sorted, or in the order of the categories.
    counts
        Cells of each label, int64.
    constant
        The code of all cells where there is no column.
    """

    def __init__(
        self,
        cells: CellCollection,
        argument: str,
        key: str | None,
        unlabeled: str | None = None,
        names: Sequence[Any] | None = None,
    ) -> None:
        self.key = key
        self.constant = 0
        if key is None:
            self.names, self.counts = np.array([0]), np.array([len(cells)])
            return
        if names is not None and unlabeled is not None and key not in cells.obs_keys():
            # Other cells of a trained model, which is to find their labels.
            self.key = None
            known = self._known([], True, unlabeled, names)
            self.names = np.array(known, dtype=object)
            self.constant = len(known) - 1
            self.counts = np.zeros(len(known), dtype=np.int64)
            self.counts[-1] = len(cells)
            return
        require_labels(cells, argument, key)
        column = cells.obs_column(key)
        self._is_categorical = column.is_categorical
        counted: Counter[Any] = Counter()
        for values in _pieces(cells, key):
            is_known = self._are_known(values)
            found, counts = np.unique(values[is_known], return_counts=True)
            counted.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        stored = sorted(counted)
        labels = [column.categories[code] for code in stored] if self._is_categorical else [
            # Whole numbers and booleans are floats where some are missing.
            bool(value) if column.stored_dtype == "bool" else int(value) for value in stored
        ]  # fmt: skip
        n_missing = len(cells) - sum(counted.values())
        if n_missing and unlabeled is None:
            raise InvalidArgumentError(
                f"{n_missing:,} cells have no label in obs column {key!r}, of {argument}; leave "
                f"them out: cells.filter({f'`{key}` is not missing'!r})"
            )
        known = self._known(labels, n_missing > 0, unlabeled, names)
        place = {name: number for number, name in enumerate(known)}
        foreign = [label for label in labels if label not in place]
        if foreign:
            raise InvalidArgumentError(
                f"obs column {key!r} has labels that the model was not trained with: "
                f"{', '.join(map(repr, foreign[:5]))}{', ...' if len(foreign) > 5 else ''}"
            )
        are_texts = any(isinstance(name, str) for name in known)
        self.names = np.array(known, dtype=object if are_texts else None)
        self._stored = np.array(stored, dtype=None if stored else np.int64)
        # Codes of categories, and last of cells without one; of numbers in their order.
        size = (len(column.categories) if self._is_categorical else len(stored)) + 1
        self._code_of = np.full(size, place.get(unlabeled, -1), dtype=np.int64)
        codes = [place[label] for label in labels]
        self._code_of[self._stored if self._is_categorical else slice(len(stored))] = codes
        self.counts = np.zeros(len(known), dtype=np.int64)
        self.counts[codes] = [counted[value] for value in stored]
        if n_missing and unlabeled is not None:
            self.counts[place[unlabeled]] += n_missing

    @staticmethod
    def _known(
        labels: list[Any], are_missing: bool, unlabeled: str | None, names: Sequence[Any] | None
    ) -> list[Any]:
        first = labels if names is None else list(names)
        known = [label for label in first if label != unlabeled]
        is_needed = are_missing or unlabeled in labels or unlabeled in first
        return [*known, unlabeled] if is_needed else known

    def __len__(self) -> int:
        return len(self.names)

    def of(self, stored: np.ndarray) -> np.ndarray:
        """Codes of stored values, int64.

        Parameters
        ----------
        stored
            Values of the obs column as batches have them.
        """
        if self._is_categorical:
            return np.asarray(self._code_of[stored])
        is_known = self._are_known(stored)
        places = np.where(is_known, np.searchsorted(self._stored, stored), -1)
        return np.asarray(self._code_of[places])

    def _are_known(self, stored: np.ndarray) -> np.ndarray:
        return stored >= 0 if self._is_categorical else stored == stored  # NaN is missing

    def labels_of(self, cells: CellCollection) -> np.ndarray:
        """The label of each cell, an object array."""
        return np.asarray(self.names.astype(object)[self.codes_of(cells)])

    def codes_of(self, cells: CellCollection) -> np.ndarray:
        """The code of each cell, int64."""
        if self.key is None:
            return np.full(len(cells), self.constant, dtype=np.int64)
        return np.concatenate([self.of(values) for values in _pieces(cells, self.key)])
