"""lamindb's MappedCollection in a torch DataLoader: single rows, dense, collated by torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from lamindb.core import MappedCollection
from torch.utils.data import DataLoader

from . import TARGET_SUM, Atlas, Delivered, orders, selected_columns


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    dataset = MappedCollection(atlas.files(task.data), join="inner", parallel=task.workers > 0)
    return _read(task, atlas, dataset)


def _read(task: Any, atlas: Atlas, dataset: MappedCollection) -> Iterator[Delivered]:
    genes = torch.from_numpy(selected_columns(atlas.n_genes))
    for order in orders(task, atlas.n_cells):
        loader = DataLoader(
            dataset, batch_size=task.batch_size, sampler=order, num_workers=task.workers
        )
        at = 0
        for batch in loader:
            x = batch["X"]
            if task.output == "selected":
                totals = x.sum(dim=1, keepdim=True).clamp_min(1e-12)
                x = torch.log1p(x[:, genes] * (TARGET_SUM / totals))
            elif task.output == "csr":
                pass  # it has dense rows only
            yield Delivered(x, np.asarray(order[at : at + len(x)]))
            at += len(x)
