"""How cells are divided into those that a model is trained on and those it is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .._arguments import as_choice, as_text, one_of, shown
from .._cells.filtering import rows_where
from .._cells.labels import look_up_labels
from ..collection import CellCollection
from ..errors import InvalidArgumentError, InvalidTypeError

# Shares of the cells, expressions, or the obs column that says it.
Split: TypeAlias = Mapping[str, float] | Mapping[str, str] | str

_PARTS = ("train", "val", "test")
_OTHER_NAMES = {"valid": "val", "validation": "val"}


@dataclass(frozen=True)
class Division:
    """How cells are divided: by shares, by expressions or by a column, one of them.

    Attributes
    ----------
    shares, filters
        By the name of a part; empty where cells are divided otherwise.
    column
        An obs column.
    by, stratify, seed
        Of shares, as of :meth:`~cellfeed.CellCollection.split`.
    """

    shares: dict[str, float]
    filters: dict[str, str]
    column: str | None
    by: str | None
    stratify: str | None
    seed: int

    @staticmethod
    def of(split: Split, by: str | None, stratify: str | None, seed: int) -> Division:
        """Of the arguments of a data module, checked."""
        shares, filters = _shares_and_filters(split)
        if not shares and (by is not None or stratify is not None):
            raise InvalidArgumentError("by and stratify are for shares of the cells")
        column = split if isinstance(split, str) else None
        return Division(shares, filters, column, by, stratify, seed)

    def parts_of(self, cells: CellCollection) -> dict[str, CellCollection]:
        """Name -> cells of that part."""
        if self.shares:
            if self.by is not None:
                _require_groups(cells, as_text("by", self.by))
            return cells.split(self.shares, by=self.by, stratify=self.stratify, seed=self.seed)
        if self.filters:
            return _by_filters(cells, self.filters)
        return _by_column(cells, str(self.column))


def _shares_and_filters(split: Split) -> tuple[dict[str, float], dict[str, str]]:
    """One of them is empty; both where a column says it."""
    if isinstance(split, str):
        return {}, {}
    if not isinstance(split, Mapping) or not split:
        raise InvalidTypeError(
            'split must be shares such as {"train": 0.9, "val": 0.1}, expressions, or the name of '
            f"an obs column, not {shown(split)}"
        )
    for name in split:
        as_choice("split", name, _PARTS)
    if "train" not in split:
        raise InvalidArgumentError("split has no part 'train'")
    filters = {name: where for name, where in split.items() if isinstance(where, str)}
    shares = {name: share for name, share in split.items() if not isinstance(share, str)}
    if filters and shares:
        raise InvalidTypeError("split mixes shares and expressions: give one or the other")
    return shares, filters


def _require_groups(cells: CellCollection, by: str) -> None:
    column = cells.obs_column(by)
    if not column.is_categorical and column.stored_dtype.startswith("float"):
        return  # refused by its type
    is_missing = look_up_labels(cells, by)[0] < 0
    if is_missing.any():
        raise InvalidArgumentError(
            f"{int(is_missing.sum()):,} cells, the first of them cell {int(is_missing.argmax())}, "
            f"have no label in obs column {by!r}, of data.split.by, so that their group is not "
            "known: fill that column; or divide by one that says 'train', 'val' or 'test', and is "
            "missing where a cell is left out (data.split.column, in Python split=)"
        )


def _by_filters(cells: CellCollection, split: Mapping[str, str]) -> dict[str, CellCollection]:
    part_of = np.full(len(cells), -1, dtype=np.int8)
    for number, (name, where) in enumerate(split.items()):
        rows = rows_where(cells, as_text(f"split[{name!r}]", where))
        taken = part_of[rows]
        if (taken >= 0).any():
            row, other = rows[taken >= 0][0], [*split][int(taken[taken >= 0][0])]
            raise InvalidArgumentError(
                f"cell {row} is of {other!r} and of {name!r}, {int((taken >= 0).sum())} cells in "
                "all: a model would be judged by what it has learned"
            )
        part_of[rows] = number
    return {name: cells.filter(part_of == number) for number, name in enumerate(split)}


def _by_column(cells: CellCollection, column: str) -> dict[str, CellCollection]:
    labels = [str(label).lower() for label in cells.categories(column)]
    names = [_OTHER_NAMES.get(label, label) for label in labels]
    for name in names:
        if name not in _PARTS:
            raise InvalidArgumentError(
                f"obs column {column!r} says {name!r}: its labels must be {one_of(_PARTS)}, and "
                "missing where a cell is left out"
            )
    codes = cells.obs_values(column)
    parts = {}
    for name in dict.fromkeys(names):
        is_mine = np.isin(codes, [code for code, other in enumerate(names) if other == name])
        if is_mine.any():
            parts[name] = cells.filter(is_mine)
    if "train" not in parts:
        raise InvalidArgumentError(f"no cell has 'train' in obs column {column!r}")
    return parts
