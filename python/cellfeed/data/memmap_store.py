"""Random access to the cells of a shard directory; nothing is loaded but what is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np

from .._arguments import as_int, as_names, as_path
from .._options import Label, Rows
from ..errors import InvalidArgumentError, OutOfRangeError
from ..vocab import GeneVocab
from ._cell_reader import Cell, CellReader, Preprocessing, ReadsCells, open_with_vocab

__all__ = ["MemoryMappedStore"]

# Columns that sharding added.
_SOURCE_COLUMNS = ("_source_file", "_source_row")


class MemoryMappedStore(ReadsCells):
    """The cells of a shard directory by number. Picklable, and fit for forked and spawned workers.

    ``len(store)``, ``store[i]`` (a :class:`Cell` of numpy arrays), ``for cell in store``.

    Parameters
    ----------
    shard_dir
        What :func:`~cellfeed.data.sharding.convert_to_shards` wrote.
    gene_vocab
        Numbers the genes; genes that it lacks are left out. By default the shards' genes count from
        4.
    obs_keys
        obs columns that come with each cell; all by default.
    preprocessing
        Transforms such as ``cf.NormalizeTotal()``, one or several, or a function of one cell's
        values.

    Attributes
    ----------
    collection
        The :class:`~cellfeed.CellCollection` behind it, for a :class:`~cellfeed.Loader`.
    gene_vocab
        The vocabulary that numbers the genes.
    preprocessing
        As given.
    """

    def __init__(
        self,
        shard_dir: str | os.PathLike[str],
        gene_vocab: GeneVocab | None = None,
        *,
        obs_keys: Sequence[str] | None = None,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        self.shard_dir = as_path("shard_dir", shard_dir)
        GeneVocab.check(gene_vocab)
        self._given_obs_keys = None if obs_keys is None else as_names("obs_keys", obs_keys)
        self.preprocessing = preprocessing
        cells = open_with_vocab(self.shard_dir, gene_vocab)
        if any(file["format"] != "shard" for file in cells.files):
            raise InvalidArgumentError(
                f"{self.shard_dir}: not a shard directory; make one with convert_to_shards, or use "
                "CellDataset"
            )
        keys = self._given_obs_keys
        if keys is None:
            keys = [key for key in cells.obs_keys() if key not in _SOURCE_COLUMNS]
        self._reader = CellReader(cells, gene_vocab, keys, preprocessing)

    @property
    def var_names(self) -> np.ndarray:
        """Names of the genes, in the order of their numbers."""
        return np.array(self.gene_vocab.genes, dtype=object)

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and genes."""
        return self.collection.shape

    @property
    def shard_offsets(self) -> list[int]:
        """First cell of each shard, and ``len(self)`` last."""
        return list(self.collection._core.offsets)

    @property
    def shard_sizes(self) -> list[int]:
        """Cells of each shard."""
        return np.diff(self.shard_offsets).tolist()

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return len(self.shard_offsets) - 1

    def __len__(self) -> int:
        return len(self.collection)

    def __getitem__(self, row: int) -> Cell:
        return self._reader.read_one(row)

    def __iter__(self) -> Iterator[Cell]:
        for begin in range(0, len(self), 1024):
            yield from self._reader.read(np.arange(begin, min(begin + 1024, len(self))))

    def __repr__(self) -> str:
        cells = f"{len(self):,} cells in {self.n_shards:,} shards"
        return f"MemoryMappedStore({self.shard_dir!r}: {cells})"

    def get_cell(self, row: int) -> tuple[np.ndarray, np.ndarray, dict[str, Label]]:
        """Values (float32), gene numbers (int64) and obs values of one cell.

        Parameters
        ----------
        row
            In ``[0, len(self))``.
        """
        if not 0 <= as_int("row", row, -(2**63)) < len(self):
            raise OutOfRangeError(
                f"{self.shard_dir}: no cell {row}: cells count from 0 to {len(self) - 1}"
            )
        cell = self._reader.read_one(row)
        return cell.expression, cell.gene_indices, cell.metadata

    def get_cells(self, rows: Rows) -> list[Cell]:
        """Several cells from one read: a list of numbers, a slice or a mask.

        Parameters
        ----------
        rows
            In any order, repeats allowed.
        """
        return self._reader.read(rows)

    def labels(self, label_key: str) -> np.ndarray:
        """One obs column as text, one per cell; ``"unknown"`` where missing.

        Parameters
        ----------
        label_key
            The column.
        """
        return self._reader.labels(label_key)

    def with_vocab(self, gene_vocab: GeneVocab) -> MemoryMappedStore:
        """Open the same shards with genes numbered by another vocabulary.

        Parameters
        ----------
        gene_vocab
            The vocabulary.
        """
        return MemoryMappedStore(
            self.shard_dir,
            gene_vocab,
            obs_keys=self._given_obs_keys,
            preprocessing=self.preprocessing,
        )
