"""The ceiling: everything in memory as torch tensors, batches gathered by torch. CSR, or
"selected" made beforehand.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from . import TARGET_SUM, Atlas, Delivered, batches_of, orders, selected_columns


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    root = atlas.path("memmap")
    values = torch.from_numpy(np.load(os.path.join(root, "values.npy")))
    columns = torch.from_numpy(np.load(os.path.join(root, "columns.npy")))
    bounds = torch.from_numpy(np.load(os.path.join(root, "bounds.npy")))
    if task.output == "csr":
        return _gather_sparse(task, atlas, values, columns, bounds)
    return _gather_dense(task, atlas, _densify(task, atlas, values, columns, bounds))


def _gather_sparse(
    task: Any, atlas: Atlas, values: torch.Tensor, columns: torch.Tensor, bounds: torch.Tensor
) -> Iterator[Delivered]:
    for order in orders(task, atlas.n_cells):
        for rows in batches_of(order, task.batch_size):
            at = torch.from_numpy(rows)
            lengths = bounds[at + 1] - bounds[at]
            ends = torch.cumsum(lengths, 0)
            places = torch.arange(int(ends[-1])) + torch.repeat_interleave(
                bounds[at] - ends + lengths, lengths
            )
            x = torch.sparse_csr_tensor(
                torch.cat([torch.zeros(1, dtype=torch.int64), ends]).to(torch.int32),
                columns[places],
                values[places],
                size=(len(rows), atlas.n_genes),
                check_invariants=False,
            )
            yield Delivered(x, rows)


def _densify(
    task: Any, atlas: Atlas, values: torch.Tensor, columns: torch.Tensor, bounds: torch.Tensor
) -> torch.Tensor:
    genes = torch.from_numpy(selected_columns(atlas.n_genes))
    if task.output == "dense":
        genes = torch.arange(atlas.n_genes)
    out = torch.empty((atlas.n_cells, len(genes)), dtype=torch.float32)
    row = torch.zeros(atlas.n_genes)
    for cell in range(atlas.n_cells):
        begin, end = int(bounds[cell]), int(bounds[cell + 1])
        row.zero_()
        row[columns[begin:end].long()] = values[begin:end].float()
        kept = row[genes]
        if task.output == "selected":
            kept = torch.log1p(kept * (TARGET_SUM / max(float(row.sum()), 1e-12)))
        out[cell] = kept
    return out


def _gather_dense(task: Any, atlas: Atlas, dense: torch.Tensor) -> Iterator[Delivered]:
    for order in orders(task, atlas.n_cells):
        for rows in batches_of(order, task.batch_size):
            yield Delivered(dense[torch.from_numpy(rows)], rows)
