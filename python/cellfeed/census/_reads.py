"""Tables that come one after another, as reads of SOMA give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .._extras import pa


class TableReads:
    """Arrow tables, each read when it is asked for; ``concat()`` makes them one."""

    def __init__(self, read: Callable[[], Iterator[pa.Table]]) -> None:
        self._tables = read()

    def __iter__(self) -> Iterator[pa.Table]:
        return self._tables

    def __next__(self) -> pa.Table:
        return next(self._tables)

    def concat(self) -> pa.Table:
        """All that is left, as one table."""
        return pa.concat_tables(self)


class MatrixReads:
    """What ``query.X(name)`` gives: the values of a matrix that are not zero."""

    def __init__(self, read: Callable[[], Iterator[pa.Table]]) -> None:
        self._read = read

    def tables(self) -> TableReads:
        """Tables of ``soma_dim_0``, ``soma_dim_1`` (both ``soma_joinid``) and ``soma_data``."""
        return TableReads(self._read)
