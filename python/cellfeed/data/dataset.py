"""Map-style datasets of single cells for a torch ``DataLoader``.

A :class:`~cellfeed.Loader` is much faster, as it makes whole batches in C++; these are for code
that wants cells.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._arguments import as_int, as_names
from .._options import Join
from ..vocab import GeneVocab
from ._cell_reader import Cell, CellReader, Preprocessing, ReadsCells, open_with_vocab
from .memmap_store import MemoryMappedStore

if TYPE_CHECKING:
    import anndata
    from torch.utils.data import Dataset

    _Dataset = Dataset[Cell]
else:
    _Dataset = object

__all__ = ["Cell", "CellDataset", "ShardedCellDataset"]


class _MapDataset(ReadsCells, _Dataset):
    """Cells as tensors by number: what torch calls a map-style dataset."""

    def __len__(self) -> int:
        return len(self._reader.cells)

    def __getitem__(self, row: int) -> Cell:
        from .._torch import cells_to_tensors, hand_over_in_shared_memory

        hand_over_in_shared_memory()
        return cells_to_tensors([self._reader.read_one(row)])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Cell]:
        """Several cells from one read; torch's ``DataLoader`` calls this.

        Parameters
        ----------
        rows
            Numbers in any order, repeats allowed.
        """
        from .._torch import cells_to_tensors, hand_over_in_shared_memory

        hand_over_in_shared_memory()
        numbers = [_as_row_number(row) for row in rows]
        return cells_to_tensors(self._reader.read(np.asarray(numbers, dtype=np.int64)))

    def labels(self, label_key: str) -> np.ndarray:
        """One obs column as text, without reading expression; ``"unknown"`` where missing.

        Parameters
        ----------
        label_key
            The column.
        """
        return self._reader.labels(label_key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} cells, {len(self.gene_vocab.genes):,} genes)"


def _as_row_number(row: object) -> int:
    """That of a cell, also of a tensor."""
    is_flag = isinstance(row, bool | np.bool_)
    if not is_flag and hasattr(row, "__index__"):
        row = operator.index(row)
    return as_int("row", row, -(2**63), 2**63 - 1)


class CellDataset(_MapDataset):
    """Cells of ``.h5ad`` files or of an AnnData, read one by one as they are asked for.

    ``dataset[i]`` is a :class:`Cell`: ``expression`` (float32 tensor), ``gene_indices`` (int64
    tensor, also ``cell.gene_ids``), ``n_genes`` and ``metadata``; the genes with a non-zero value
    only, by rising number. A ``DataLoader`` pads them to batches with
    :func:`~cellfeed.data.gene_selection.collate_cells`.

    Parameters
    ----------
    adata
        An ``.h5ad`` file, a glob, a list of files, or an :class:`anndata.AnnData`.
    gene_vocab
        Numbers the genes; genes that it lacks are left out. By default the data's genes count from
        4.
    preprocessing
        Transforms such as ``cf.NormalizeTotal()``, one or several, or a function of one cell's
        values.
    obs_keys
        obs columns that come as metadata; none by default.
    layer
        ``"X"``, ``"raw/X"``, or the name of a layer.
    join
        ``"inner"`` or ``"outer"`` for files with different genes, when there is no vocabulary.
    """

    def __init__(
        self,
        adata: anndata.AnnData | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        gene_vocab: GeneVocab | None = None,
        preprocessing: Preprocessing | None = None,
        obs_keys: Sequence[str] | None = None,
        *,
        layer: str = "X",
        join: Join | None = None,
    ) -> None:
        GeneVocab.check(gene_vocab)
        keys = [] if obs_keys is None else as_names("obs_keys", obs_keys)
        cells = open_with_vocab(
            adata, gene_vocab, layer=layer, join=join if gene_vocab is None else None
        )
        self._reader = CellReader(cells, gene_vocab, keys, preprocessing)


class ShardedCellDataset(_MapDataset):
    """Cells of a shard directory; items as those of :class:`CellDataset`.

    Parameters
    ----------
    store
        A :class:`~cellfeed.data.memmap_store.MemoryMappedStore`, or the path of a shard directory.
    gene_vocab
        Numbers the genes; the store's by default.
    preprocessing
        Transforms such as ``cf.NormalizeTotal()``, one or several, or a function of one cell's
        values; the store's by default.
    obs_keys
        obs columns that come as metadata; the store's by default, which are all.
    """

    def __init__(
        self,
        store: MemoryMappedStore | str | os.PathLike[str],
        gene_vocab: GeneVocab | None = None,
        preprocessing: Preprocessing | None = None,
        obs_keys: Sequence[str] | None = None,
    ) -> None:
        GeneVocab.check(gene_vocab)
        if not isinstance(store, MemoryMappedStore):
            store = MemoryMappedStore(store, gene_vocab)
        elif gene_vocab is not None and gene_vocab != store.gene_vocab:
            store = store.with_vocab(gene_vocab)
        self.store = store
        keys = store.obs_keys if obs_keys is None else as_names("obs_keys", obs_keys)
        if preprocessing is None:
            preprocessing = store.preprocessing
        self._reader = CellReader(store.collection, store.gene_vocab, keys, preprocessing)

    @property
    def shard_offsets(self) -> list[int]:
        """First cell of each shard, and ``len(self)`` last."""
        return self.store.shard_offsets
