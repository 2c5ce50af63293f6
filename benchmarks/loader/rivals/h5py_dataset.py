"""h5py as a first torch Dataset has it: arrays looked up by name for each row, rows stacked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
import scipy.sparse

from . import Atlas, Delivered, batches_of, orders, selected_columns, shape_output


class Rows:
    """``rows[i]`` is one cell as a CSR matrix."""

    def __init__(self, paths: list[str], n_genes: int) -> None:
        self.files = [h5py.File(path, "r") for path in paths]
        lengths = [file["X/indptr"].shape[0] - 1 for file in self.files]
        self.starts = np.cumsum([0, *lengths])
        self.n_genes = n_genes

    def __getitem__(self, row: int) -> scipy.sparse.csr_matrix:
        place = int(np.searchsorted(self.starts, row, side="right")) - 1
        file, row = self.files[place], row - self.starts[place]
        begin, end = file["X/indptr"][row : row + 2]
        return scipy.sparse.csr_matrix(
            (file["X/data"][begin:end], file["X/indices"][begin:end], [0, end - begin]),
            shape=(1, self.n_genes),
        )


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    return _read(task, atlas, Rows(atlas.files(task.data), atlas.n_genes))


def _read(task: Any, atlas: Atlas, dataset: Rows) -> Iterator[Delivered]:
    genes = selected_columns(atlas.n_genes)
    for order in orders(task, atlas.n_cells):
        for rows in batches_of(order, task.batch_size):
            x = scipy.sparse.vstack([dataset[row] for row in rows], format="csr")
            yield Delivered(shape_output(task, x, genes), rows)
