"""Samples as torch's default collation expects them, and the batch that they are parts of."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from operator import is_
from typing import Any

import numpy as np


class Row(dict[str, Any]):
    """One sample, a dict; it knows the batch that it was read with."""

    __slots__ = ("_given", "batch", "place")

    def __init__(self, batch: RowBatch, place: int, values: tuple[Any, ...]) -> None:
        super().__init__(zip(batch.columns, values, strict=True))
        self.batch = batch
        self.place = place
        self._given = values

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def is_as_read(self) -> bool:
        """False once a value was replaced, added or taken away."""
        return len(self) == len(self._given) and all(map(is_, self.values(), self._given))


class RowBatch:
    """Columns of some rows: arrays of one entry a row, or lists."""

    def __init__(self, n_rows: int, columns: Mapping[str, np.ndarray | list[Any]]) -> None:
        self.n_rows = n_rows
        self.columns = columns

    def is_whole(self, rows: list[Any]) -> bool:
        """True if these are the rows of this batch as they were read, in order."""
        return len(rows) == self.n_rows and all(
            row.batch is self and row.place == i and row.is_as_read() for i, row in enumerate(rows)
        )

    def rows(self) -> list[Row]:
        """The rows; arrays in them are views of the columns."""
        if "torch" in sys.modules:
            # A DataLoader that collates by default then takes the columns as they are.
            from ..torch import register_rows

            register_rows(Row)
        values = [list(column) for column in self.columns.values()]
        return [Row(self, i, row) for i, row in enumerate(zip(*values, strict=True))]
