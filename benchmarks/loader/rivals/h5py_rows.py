"""h5py, one row at a time, written with care: handles and row bounds kept, one concatenation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
import scipy.sparse

from . import Atlas, Delivered, batches_of, orders, selected_columns, shape_output


class CsrFile:
    """X of one file, its row bounds in memory."""

    def __init__(self, path: str) -> None:
        group = h5py.File(path, "r")["X"]
        self.values, self.columns = group["data"], group["indices"]
        self.bounds = group["indptr"][:]

    def __len__(self) -> int:
        return len(self.bounds) - 1


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    files = [CsrFile(path) for path in atlas.files(task.data)]
    starts = np.cumsum([0] + [len(file) for file in files])
    return _read(task, atlas, files, starts)


def _read(task: Any, atlas: Atlas, files: list[CsrFile], starts: np.ndarray) -> Iterator[Delivered]:
    genes = selected_columns(atlas.n_genes)
    for order in orders(task, atlas.n_cells):
        for rows in batches_of(order, task.batch_size):
            values, columns, lengths = [], [], [0]
            places = np.searchsorted(starts, rows, side="right") - 1
            for row, place in zip(rows, places, strict=True):
                file = files[place]
                begin, end = file.bounds[row - starts[place] : row - starts[place] + 2]
                values.append(file.values[begin:end])
                columns.append(file.columns[begin:end])
                lengths.append(end - begin)
            x = scipy.sparse.csr_matrix(
                (np.concatenate(values), np.concatenate(columns), np.cumsum(lengths)),
                shape=(len(rows), atlas.n_genes),
            )
            yield Delivered(shape_output(task, x, genes), rows)
