"""Samples as torch's default collation expects them, and the batch that they are parts of."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Any, TypeAlias, overload

import numpy as np

from .._batch_source import AnyBlock, column_numbers, row_starts
from .._extras import scipy


class SparseRows:
    """Rows of a sparse block, each a ``scipy.sparse.csr_matrix`` that shares its memory."""

    def __init__(self, block: AnyBlock) -> None:
        self.block = block

    def some(self, begin: int, end: int) -> list[scipy.sparse.csr_matrix]:
        """Some of the rows."""
        columns, values = column_numbers(self.block), self.block.values
        ends = row_starts(self.block)[begin : end + 1]
        starts = np.zeros((end - begin, 2), dtype=ends.dtype)
        starts[:, 1] = np.diff(ends)
        same = _fields_of_row(self.block.n_cols, values.dtype)
        rows = []
        for indptr, first in zip(starts, ends.tolist(), strict=False):
            mine = slice(first, first + int(indptr[1]))
            # The constructor takes longer than reading the row.
            row = scipy.sparse.csr_matrix.__new__(scipy.sparse.csr_matrix)
            row.__dict__.update(same, indptr=indptr, indices=columns[mine], data=values[mine])
            rows.append(row)
        return rows


@lru_cache(maxsize=16)
def _fields_of_row(n_columns: int, dtype: np.dtype[Any]) -> dict[str, Any]:
    row = scipy.sparse.csr_matrix((1, n_columns), dtype=dtype)
    row.has_canonical_format = True
    fields: dict[str, Any] = vars(row)
    return fields


# One entry a row.
Column: TypeAlias = np.ndarray | SparseRows | list[Any]


def column_of(block: AnyBlock) -> Column:
    """A matrix of a batch, row by row."""
    return SparseRows(block) if block.is_sparse else block.values


def entries_of(column: Column, begin: int, end: int) -> list[Any]:
    """The entries of some rows; those of matrices are views of them."""
    if isinstance(column, SparseRows):
        return column.some(begin, end)
    return list(column[begin:end])


class Row(dict[str, Any]):
    """One sample, a dict; it knows the batch that it was read with."""

    __slots__ = ("_given", "batch", "place")

    def __init__(self, batch: RowBatch, place: int, values: tuple[object, ...]) -> None:
        super().__init__(zip(batch.columns, values, strict=True))
        self.batch = batch
        self.place = place
        self._given = values

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self),)

    def is_as_read(self) -> bool:
        """False once a value was replaced, added or taken away."""
        return len(self) == len(self._given) and all(map(is_, self.values(), self._given))


class RowBatch:
    """Columns of some rows."""

    def __init__(self, n_rows: int, columns: Mapping[str, Column]) -> None:
        self.n_rows = n_rows
        self.columns = columns
        if "torch.utils.data" in sys.modules:
            # A DataLoader that collates by default then takes the columns as they are.
            from .._torch import hand_over_in_shared_memory, register_rows

            register_rows(Row)
            hand_over_in_shared_memory()

    def rows(self, begin: int, end: int) -> list[Row]:
        """Some of the rows; arrays in them are views of the columns."""
        values = [entries_of(column, begin, end) for column in self.columns.values()]
        return [Row(self, begin + i, row) for i, row in enumerate(zip(*values, strict=True))]

    def is_whole(self, rows: Sequence[Any]) -> bool:
        """True if these are the rows of this batch as they were read, in order."""
        if isinstance(rows, Rows):
            return rows.are_as_read()
        return len(rows) == self.n_rows and all(
            row.batch is self and row.place == i and row.is_as_read() for i, row in enumerate(rows)
        )


class Rows(Sequence[dict[str, Any]]):
    """The rows of a batch, each a dict that is made when it is asked for.

    Whoever collates them by columns, as torch's default collation does, pays for none.
    """

    def __init__(self, batch: RowBatch) -> None:
        self.batch = batch
        self._made: dict[int, Row] = {}

    def __len__(self) -> int:
        return self.batch.n_rows

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, slice):
            return self._all()[place]
        at = range(len(self))[place]
        if at not in self._made:
            self._made[at] = self.batch.rows(at, at + 1)[0]
        return self._made[at]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._all())

    def __reduce__(self) -> tuple[object, ...]:
        return list, ([dict(row) for row in self],)

    def _all(self) -> list[Row]:
        if len(self._made) < len(self):
            rows = self.batch.rows(0, len(self))
            self._made = {i: self._made.get(i, row) for i, row in enumerate(rows)}
        return [*self._made.values()]

    def are_as_read(self) -> bool:
        """False once a row was changed."""
        return all(row.is_as_read() for row in self._made.values())
