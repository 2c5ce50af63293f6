"""anndata's AnnLoader over backed files, with its own shuffling; CSR out (its default converter
densifies).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from anndata.experimental import AnnLoader

from . import Atlas, Delivered, selected_columns, shape_output
from .ann_collection import open_collection


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    collection = open_collection(task, atlas)
    collection.obs["row"] = np.arange(atlas.n_cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated in favour of annbatch
        loader = AnnLoader(
            collection,
            batch_size=task.batch_size,
            shuffle=task.access == "random",
            use_default_converter=False,
        )
    return _read(task, atlas, loader)


def _read(task: Any, atlas: Atlas, loader: AnnLoader) -> Iterator[Delivered]:
    genes = selected_columns(atlas.n_genes)
    while True:
        for batch in loader:
            rows = np.asarray(batch.obs["row"])
            yield Delivered(shape_output(task, batch.X, genes), rows)
