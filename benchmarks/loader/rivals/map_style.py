"""A map-style data set of dense rows in a torch DataLoader, collated by torch's default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from . import TARGET_SUM, Atlas, Delivered, orders, selected_columns


def read(task: Any, atlas: Atlas, dataset: Any) -> Iterator[Delivered]:
    """Batches of ``dataset[i]["X"]`` in the task's orders."""
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
