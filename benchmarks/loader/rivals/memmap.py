"""The CSR arrays as raw .npy files under numpy's memory map, rows gathered with numpy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from . import Atlas, Delivered, batches_of, orders, selected_columns, shape_output


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    root = atlas.path("memmap")
    values = np.load(os.path.join(root, "values.npy"), mmap_mode="r")
    columns = np.load(os.path.join(root, "columns.npy"), mmap_mode="r")
    bounds = np.load(os.path.join(root, "bounds.npy"))
    return _read(task, atlas, values, columns, bounds)


def _read(
    task: Any, atlas: Atlas, values: np.ndarray, columns: np.ndarray, bounds: np.ndarray
) -> Iterator[Delivered]:
    genes = selected_columns(atlas.n_genes)
    for order in orders(task, atlas.n_cells):
        for rows in batches_of(order, task.batch_size):
            begins, ends = bounds[rows], bounds[rows + 1]
            spans = [slice(b, e) for b, e in zip(begins, ends, strict=True)]
            x = scipy.sparse.csr_matrix(
                (
                    np.concatenate([values[s] for s in spans]),
                    np.concatenate([columns[s] for s in spans]),
                    np.concatenate([[0], np.cumsum(ends - begins)]),
                ),
                shape=(len(rows), atlas.n_genes),
            )
            yield Delivered(shape_output(task, x, genes), rows)
