"""Tests of obs values, one column at a time: equal, one of several, smaller, missing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from .._arguments import shown, suggestion
from ..errors import InvalidArgumentError, InvalidTypeError

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def mirrored(comparison: str) -> str:
    """The comparison that says the same with its sides exchanged."""
    return _MIRRORED.get(comparison, comparison)


class Column(Protocol):
    """What has labels and codes, or numbers: ``cells.obs_column(...)``."""

    @property
    def name(self) -> str: ...
    @property
    def is_categorical(self) -> bool: ...
    @property
    def ordered(self) -> bool: ...
    @property
    def dtype(self) -> str: ...
    @property
    def categories(self) -> list[Any]: ...


class Condition:
    """What one column is asked; checked when it is made, before any value is read.

    Parameters
    ----------
    column
        The obs column.
    comparison
        ``"=="``, ``"!="``, ``"<"``, ``"<="``, ``">"``, ``">="``, ``"in"``, ``"not in"``,
        ``"is missing"`` or ``"is not missing"``. As in pandas, missing values fail all of these but
        ``"!="``, ``"not in"`` and ``"is missing"``.
    value
        A value, or a list of them. NaN and None in a list mean missing values.
    """

    def __init__(self, column: Column, comparison: str, value: Any = None) -> None:
        self.name = column.name
        self._comparison = comparison
        self._column = column
        if comparison in ("in", "not in"):
            self._values = self._known([v for v in value if not is_missing(v)])
            self._wants_missing = any(is_missing(v) for v in value)
        elif comparison in _COMPARE:
            self._check(value)
            self._values = self._known([value])

    def holds(self, values: np.ndarray) -> np.ndarray:
        """For each value, as ``cells.obs_values`` gives it.

        Parameters
        ----------
        values
            Codes of labels, or numbers.
        """
        missing = np.asarray(values < 0 if self._column.is_categorical else values != values)
        if self._comparison == "is missing":
            return missing
        if self._comparison == "is not missing":
            return ~missing
        if self._comparison in ("in", "not in"):
            found = missing.copy() if self._wants_missing else np.zeros(len(values), dtype=bool)
            for value in self._values:
                found |= values == value
            return found if self._comparison == "in" else ~found
        found = np.asarray(_COMPARE[self._comparison](values, self._values[0]))
        return found if self._comparison == "!=" else found & ~missing

    def _check(self, value: Any) -> None:
        if is_missing(value):
            raise InvalidArgumentError(
                f"{shown(value)} equals nothing: write {self.name} is missing, or is not missing"
            )
        has_order = not self._column.is_categorical or self._column.ordered
        if self._comparison not in ("==", "!=") and not has_order:
            raise InvalidTypeError(
                f"the labels of obs column {self.name!r} have no order, so that "
                f"{self._comparison} means nothing; compare with ==, != or in"
            )

    def _known(self, values: list[Any]) -> list[Any]:
        """Codes, or numbers of the column's kind."""
        if self._column.is_categorical:
            return self._codes(values)
        for value in values:
            if not is_number(value):
                raise InvalidTypeError(
                    f"obs column {self.name!r} holds {self._column.dtype}, which is not compared "
                    f"with {shown(value)}"
                )
        return values

    def _codes(self, labels: list[Any]) -> list[Any]:
        categories = self._column.categories
        codes = {_typed(label): code for code, label in enumerate(categories)}
        unknown = [label for label in labels if _typed(label) not in codes]
        if unknown:
            text = f"obs column {self.name!r} has no label {shown(unknown[0])}"
            text += suggestion(unknown[0], categories)
            if len(unknown) == len(labels):
                raise InvalidArgumentError(text)
            warnings.warn(text, stacklevel=2)
        return [codes[_typed(label)] for label in labels if _typed(label) in codes]


def _typed(label: Any) -> tuple[str, Any]:
    """Texts, booleans and numbers are never equal, as 1 and True would be."""
    if isinstance(label, str):
        return "text", label
    if not is_number(label):
        raise InvalidTypeError(f"labels are texts, numbers or booleans, not {shown(label)}")
    return ("boolean" if is_boolean(label) else "number"), label


def is_boolean(value: Any) -> bool:
    """True for booleans, of numpy too."""
    return isinstance(value, (bool, np.bool_))


def is_number(value: Any) -> bool:
    """True for numbers and booleans."""
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def is_missing(value: Any) -> bool:
    """True for None and NaN."""
    return value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))
