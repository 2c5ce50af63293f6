"""Packed records of cells, as shards hold them: for decoding elsewhere, such as on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from . import _core


class EncodedCells:
    """Consecutive cells of one shard: what ``cells.encoded(begin, end)`` returns a list of.

    ``docs/format/record.md`` says how a record is decoded, given ``nnz``, ``dtype`` and
    ``n_genes``. Checksums were compared when they were read.

    Attributes
    ----------
    begin
        Number of the first of these cells in the collection.
    data
        The stored bytes, uint8, with 64 zeros behind the last record: a copy of the caller's own.
    offsets
        Of each cell: where its record begins in ``data``, int64.
    lengths
        Of each cell: bytes of its record, int64. What lies between records is no part of any.
    nnz
        Of each cell: entries of its record, int64.
    dtype
        Of the values, as they are stored.
    n_genes
        Columns of the collection: decoded indices are below.
    """

    def __init__(self, core: _core.PackedRecords) -> None:
        self.begin = core.begin
        self.data: np.ndarray = core.data
        self.offsets: np.ndarray = core.offsets
        self.lengths: np.ndarray = core.lengths
        self.nnz: np.ndarray = core.nnz
        self.dtype = np.dtype(core.dtype)
        self.n_genes = core.n_genes

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, cell: int) -> np.ndarray:
        """The record of one cell, counted from 0: uint8, a view of ``data``."""
        begin = int(self.offsets[cell])
        return self.data[begin : begin + int(self.lengths[cell])]

    def __repr__(self) -> str:
        end = self.begin + len(self)
        return f"EncodedCells(cells {self.begin} to {end}, {self.data.nbytes} bytes)"
