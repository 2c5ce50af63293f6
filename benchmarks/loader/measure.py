"""Measures one task in this process and prints a line of JSON. Started by run.py; needs numpy.

usage: measure.py TASK_JSON ATLAS_DIR SECONDS WINDOWS [TARGET]
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

import numpy as np
from rivals import Atlas
from task import Task

BATCHES_FOR_DIVERSITY = 32
# One value in each 4 KiB page is enough to have all of a lazy array read, and costs an eager one
# nothing.
TOUCH_STRIDE = 1024


def is_torch_csr(x: Any) -> bool:
    return str(getattr(x, "layout", "")) == "torch.sparse_csr"


def touch(x: Any) -> float:
    """Reads every page of a batch, whatever library holds it."""
    if is_torch_csr(x):
        arrays = [x.values().numpy(), x.col_indices().numpy()]
    elif hasattr(x, "indptr"):
        arrays = [x.data, x.indices]
    else:
        arrays = [np.asarray(x)]
    return float(sum(array.reshape(-1)[::TOUCH_STRIDE].sum() for array in arrays))


def count_values(x: Any) -> int:
    """Values that the batch hands over: non-zeros of a sparse one, all of a dense one."""
    if is_torch_csr(x):
        return int(x.values().shape[0])
    return int(x.nnz) if hasattr(x, "indptr") else int(np.prod(x.shape))


def entropy_bits(codes: np.ndarray) -> float:
    counts = np.bincount(codes)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


class Trainer:
    """A small classifier's forward and backward pass on each batch, to see how long it waits for
    data.
    """

    def __init__(self, n_genes: int, labels: np.ndarray) -> None:
        import torch

        torch.manual_seed(0)
        self.torch, self.labels = torch, np.array(labels)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(n_genes, 128),
            torch.nn.ReLU(),
            torch.nn.Linear(128, int(labels.max()) + 1),
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def step(self, x: Any, rows: np.ndarray) -> None:
        torch = self.torch
        x = x if isinstance(x, torch.Tensor) else torch.from_numpy(np.asarray(x))
        loss = torch.nn.functional.cross_entropy(
            self.model(x), torch.from_numpy(self.labels[rows].astype(np.int64))
        )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def measure_load(
    task: Task, atlas: Atlas, module: Any, seconds: float, windows: int
) -> dict[str, Any]:
    """Rates over back-to-back windows, the first batch not counted; cold: one epoch in all, and it
    is.
    """
    began = time.perf_counter()
    batches = module.open_batches(task, atlas)
    opened = time.perf_counter()
    labels = atlas.labels()
    trainer: Trainer | None = None
    seen: list[np.ndarray] = []
    n_values = n_counted = 0

    def take() -> tuple[int, float]:
        nonlocal n_values, n_counted, trainer
        asked = time.perf_counter()
        batch = next(batches)
        waited = time.perf_counter() - asked
        touch(batch.x)
        n_cells = int(batch.x.shape[0])
        if batch.rows is not None and len(seen) < BATCHES_FOR_DIVERSITY and n_cells > 1:
            seen.append(np.array(batch.rows))
        n_values += count_values(batch.x)
        n_counted += n_cells
        if task.is_training:
            trainer = trainer or Trainer(batch.x.shape[1], labels)
            trainer.step(batch.x, batch.rows)
        return n_cells, waited

    cells_a_read = getattr(module, "cells_a_read", lambda task: task.batch_size)(task)
    rates, stalls = [], []
    first, first_wait = 0, 0.0
    if not task.is_cold:
        take()
    else:
        first, first_wait = take()
    first_batch_s = time.perf_counter() - began
    for _ in range(1 if task.is_cold else windows):
        begin = opened if task.is_cold else time.perf_counter()
        done, waiting = first, first_wait
        while True:
            n, waited = take()
            done, waiting = done + n, waiting + waited
            elapsed = time.perf_counter() - begin
            if task.is_cold:
                is_over = done >= atlas.n_cells or elapsed >= 10 * seconds
            else:
                # A window holds whole reads: it ends where a read's cells end.
                is_over = elapsed >= seconds and done % cells_a_read < n
            if is_over:
                break
        rates.append(done / elapsed)
        stalls.append(waiting / elapsed)
    entropies = [entropy_bits(labels[rows]) for rows in seen] if labels is not None else []
    return {
        "rates": rates,
        "first_batch_s": first_batch_s,
        "open_s": opened - began,
        "values_per_cell": n_values / n_counted,
        "entropy_bits": float(np.mean(entropies)) if entropies else None,
        "stall_share": float(np.median(stalls)),
    }


def measure_first_batch(task: Task, atlas: Atlas, module: Any) -> dict[str, Any]:
    """Seconds from opening to the first batch."""
    began = time.perf_counter()
    touch(next(module.open_batches(task, atlas)).x)
    return {"first_batch_s": time.perf_counter() - began}


def measure_whole(task: Task, atlas: Atlas, module: Any, target: str | None) -> dict[str, Any]:
    """A conversion or a check, as cells a second of everything it does."""
    began = time.perf_counter()
    if task.kind == "convert":
        module.convert(task, atlas, target)
    else:
        module.verify(task, atlas)
    seconds = time.perf_counter() - began
    return {"rates": [atlas.n_cells / seconds], "seconds": seconds}


def main(argv: list[str]) -> dict[str, Any]:
    task, atlas = Task.from_json(argv[0]), Atlas(argv[1])
    try:
        module = importlib.import_module(f"rivals.{task.rival}")
    except ImportError as error:
        return {"skipped": f"{task.rival}: {error}"}
    if task.kind == "load":
        return measure_load(task, atlas, module, float(argv[2]), int(argv[3]))
    if task.kind == "first_batch":
        return measure_first_batch(task, atlas, module)
    return measure_whole(task, atlas, module, argv[4] if len(argv) > 4 else None)


if __name__ == "__main__":
    print("\n" + json.dumps(main(sys.argv[1:])), flush=True)
    # Rivals' threads and workers may hang an orderly exit; the measurement is over.
    import os

    os._exit(0)
