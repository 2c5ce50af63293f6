"""h5py, 8,192 rows a read in storage order, cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from . import Atlas, Delivered, selected_columns, shape_output
from .h5py_rows import CsrFile

ROWS_A_READ = 8192


def cells_a_read(task: Any) -> int:
    return ROWS_A_READ


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    return _read(task, atlas, [CsrFile(path) for path in atlas.files(task.data)])


def _read(task: Any, atlas: Atlas, files: list[CsrFile]) -> Iterator[Delivered]:
    genes = selected_columns(atlas.n_genes)
    while True:
        start = 0
        for file in files:
            for begin in range(0, len(file), ROWS_A_READ):
                end = min(begin + ROWS_A_READ, len(file))
                bounds = file.bounds[begin : end + 1]
                block = scipy.sparse.csr_matrix(
                    (
                        file.values[bounds[0] : bounds[-1]],
                        file.columns[bounds[0] : bounds[-1]],
                        bounds - bounds[0],
                    ),
                    shape=(end - begin, atlas.n_genes),
                )
                for at in range(0, end - begin, task.batch_size):
                    x = block[at : at + task.batch_size]
                    rows = np.arange(start + begin + at, start + begin + at + x.shape[0])
                    yield Delivered(shape_output(task, x, genes), rows)
            start += len(file)
