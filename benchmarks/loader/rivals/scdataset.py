"""scDataset over AnnCollection; fetches stay CSR (its own converter densifies 64 batches at
once).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from scdataset import BlockShuffling, Streaming, scDataset

from . import Atlas, Delivered, selected_columns, shape_output
from .ann_collection import open_collection


class Fetched:
    """Cells of one fetch, CSR, with their row numbers; scDataset cuts batches out by position."""

    def __init__(self, x: scipy.sparse.csr_matrix, rows: np.ndarray) -> None:
        self.x, self.rows = x, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: np.ndarray) -> Fetched:
        return Fetched(self.x[places], self.rows[places])


def _fetch(collection: Any, rows: np.ndarray) -> Fetched:
    return Fetched(collection[rows].X, np.asarray(rows))


def cells_a_read(task: Any) -> int:
    return task.batch_size * task.fetch_factor


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    is_stream = task.access == "stream"
    dataset = scDataset(
        open_collection(task, atlas),
        Streaming() if is_stream else BlockShuffling(block_size=task.block_size),
        batch_size=task.batch_size,
        fetch_factor=task.fetch_factor,
        fetch_callback=_fetch,
    )
    return _read(task, atlas, dataset)


def _read(task: Any, atlas: Atlas, dataset: scDataset) -> Iterator[Delivered]:
    genes = selected_columns(atlas.n_genes)
    while True:
        for batch in dataset:
            yield Delivered(shape_output(task, batch.x, genes), batch.rows)
