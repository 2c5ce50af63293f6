"""obs columns of a collection as labels or their codes, and weights by how frequent they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments import first_repeated
from .._cells.labels import encode_labels
from .._lazy import cached_property
from .._options import Label
from ..collection import CellCollection
from ..errors import InvalidArgumentError


@dataclass(frozen=True)
class LabelColumn:
    """One obs column.

    Attributes
    ----------
    categories
        Every label of any file, sorted: numbers too, where they are to be encoded.
    encoder
        Label -> code, or None where rows give the labels themselves.
    """

    name: str
    is_categorical: bool
    labels: list[Label]
    categories: list[Label]
    encoder: dict[Label, int] | None

    def of_rows(self, values: np.ndarray) -> list[Label] | np.ndarray:
        """Codes (int64, -1 = missing or unknown), labels (NaN = missing) or numbers of rows.

        Parameters
        ----------
        values
            As ``cells.obs_values`` gives them.
        """
        if self.encoder is None:
            labels: list[Label] = self.merged(values).tolist()
            # numpy has two names for 64 bits, and torch knows but one of the unsigned ones.
            return labels if self.is_categorical else values.view(values.dtype.str)
        if self.is_categorical:
            return _pick(self._codes, values)
        known = values == values
        codes = np.full(len(values), -1, dtype=np.int64)
        # Of a list numpy would make floats where some are beyond int64.
        categories = np.array(self.categories, dtype=values.dtype)
        codes[known] = self._codes[np.searchsorted(categories, values[known])]
        return codes

    @cached_property
    def _codes(self) -> np.ndarray:
        """Of each label, or of each number; the last one is that of missing values."""
        known = self.labels if self.is_categorical else self.categories
        encoder = self.encoder or {}
        return np.array([*(encoder[label] for label in known), -1], dtype=np.int64)

    def merged(self, values: np.ndarray) -> np.ndarray:
        """Labels as an object array, NaN where missing; numbers as they are."""
        if not self.is_categorical:
            return values
        return _pick(self._objects, values)

    @cached_property
    def _objects(self) -> np.ndarray:
        return np.array([*self.labels, np.nan], dtype=object)


def _pick(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    picked: np.ndarray = table[places]
    return picked


def make_column(
    cells: CellCollection, name: str, *, is_encoded: bool, unknown_label: Label | None
) -> LabelColumn:
    """The column ``name``; raises ``NoSuchKeyError`` where no file has it."""
    column = cells.obs_column(name)
    labels = list(column.categories) if column.is_categorical else []
    # Those of numbers take a look at every cell.
    has_categories = column.is_categorical or is_encoded
    categories = merged_categories(cells, name) if has_categories else []
    encoder = _encoder(categories, unknown_label) if is_encoded else None
    return LabelColumn(name, column.is_categorical, labels, categories, encoder)


def merged_categories(cells: CellCollection, name: str) -> list[Label]:
    """Every label or number of a column, sorted."""
    column = cells.obs_column(name)
    if column.is_categorical:
        return sorted(column.categories)
    # Of one type, which can be sorted.
    names: list[Any] = encode_labels(cells.obs_values(name))[1]
    return sorted(names)


def _encoder(categories: Sequence[Label], unknown_label: Label | None) -> dict[Label, int]:
    encoder: dict[Label, int] = {}
    if unknown_label is not None and unknown_label in categories:
        encoder[unknown_label] = -1
    known = [label for label in categories if label not in encoder]
    return {**encoder, **{label: code for code, label in enumerate(known)}}


@dataclass(frozen=True)
class LabelCounts:
    """How many cells there are of each label, or of each combination of labels."""

    texts: list[str]
    counts: np.ndarray  # of each text
    of_row: np.ndarray  # place among the texts

    @staticmethod
    def of(columns: Sequence[np.ndarray]) -> LabelCounts:
        """Of labels or numbers, one array a column; texts of a row are joined by ``"__"``."""
        codes = np.zeros(len(columns[0]), dtype=np.int64)
        names = [""]
        for labels in columns:
            found, texts = encode_labels(labels)
            # Missing is a label of its own.
            texts = [*(str(label) for label in texts), "nan"]
            found = np.where(found < 0, len(texts) - 1, found)
            used, codes = np.unique(codes * len(texts) + found, return_inverse=True)
            names = [
                f"{names[both // len(texts)]}__{texts[both % len(texts)]}" for both in used.tolist()
            ]
        names = [name.removeprefix("__") for name in names]
        return LabelCounts(names, np.bincount(codes, minlength=len(names)), codes)

    @property
    def names(self) -> list[str]:
        """The texts, where each stands for one label, or one combination of labels."""
        if (twice := first_repeated(self.texts)) is not None:
            raise InvalidArgumentError(
                f"different labels have the name {twice!r}, as a label 'nan' has it beside missing "
                "ones, and labels that are joined by '__': rename one, or take the weights without "
                "return_categories"
            )
        return self.texts

    def weights(self, scaler: float | None) -> np.ndarray:
        """``1 / count`` of each name, or ``scaler / (scaler + count)``."""
        weights: np.ndarray = (
            1.0 / self.counts if scaler is None else scaler / (self.counts + scaler)
        )
        return weights
