"""One module a program.

``open_batches(task, atlas)`` opens the data and returns an endless iterator of :class:`Delivered`;
some also have ``convert(task, atlas, target)``, and ``cells_a_read(task)`` where batches are cut
out of larger reads. A program that is not installed raises ImportError,
and is then skipped with that message.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

SELECTED_GENES = 2048
TARGET_SUM = 1e4


@dataclass
class Delivered:
    """One batch as the program hands it over.

    ``x`` is a scipy CSR matrix, a dense numpy array or a torch tensor; ``rows`` are global row
    numbers where the
    program tells them.
    """

    x: Any
    rows: np.ndarray | None = None


class Atlas:
    """A directory that make_data.py made: the same cells in several formats."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        with open(os.path.join(directory, "atlas.json")) as file:
            self.facts = json.load(file)
        self.n_cells: int = self.facts["n_cells"]
        self.n_genes: int = self.facts["n_genes"]

    def files(self, data: str) -> list[str]:
        """The .h5ad files "plain" or "gzip", in the order of their cells."""
        names = [f"{data}_{i}.h5ad" for i in range(self.facts["n_files"])]
        return [os.path.join(self.directory, name) for name in names]

    def path(self, data: str) -> str:
        return os.path.join(self.directory, data)

    def paths(self, data: str) -> list[str]:
        """Every file of one format."""
        if data in ("plain", "gzip"):
            return self.files(data)
        root = self.path(data)
        return [os.path.join(at, name) for at, _, names in os.walk(root) for name in sorted(names)]

    def labels(self) -> np.ndarray | None:
        """Label code of each cell."""
        path = self.path("labels.npy")
        return np.load(path, mmap_mode="r") if os.path.exists(path) else None


def selected_columns(n_genes: int) -> np.ndarray:
    """The genes of output "selected": evenly spaced over the gene axis."""
    return np.unique(np.linspace(0, n_genes - 1, min(SELECTED_GENES, n_genes)).astype(np.int64))


def orders(task: Any, n_cells: int) -> Iterator[np.ndarray]:
    """Row numbers epoch after epoch, for programs that leave the order to their caller."""
    rng = np.random.default_rng(0)
    while True:
        if task.access == "random":
            yield rng.permutation(n_cells)
        elif task.access == "stream":
            yield np.arange(n_cells)
        else:
            raise ValueError(f"{task.rival} leaves blocks to its caller: not measured")


def batches_of(order: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    for begin in range(0, len(order), batch_size):
        yield order[begin : begin + batch_size]


def shape_output(task: Any, x: Any, columns: np.ndarray) -> Any:
    """What a user of a program without transforms does to reach ``task.output`` from a CSR matrix
    or dense array.
    """
    if task.output == "csr":
        return x
    dense = x.toarray() if hasattr(x, "toarray") else np.asarray(x)
    if task.output == "dense":
        return dense
    totals = dense.sum(axis=1, keepdims=True)
    totals[totals == 0] = 1
    return np.log1p(dense[:, columns] * (TARGET_SUM / totals)).astype(np.float32)
