"""anndata's AnnCollection over backed files; each batch's rows sorted first, which is its fast
way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anndata
import numpy as np
from anndata.experimental import AnnCollection

from . import Atlas, Delivered, batches_of, orders, selected_columns, shape_output


def open_collection(task: Any, atlas: Atlas) -> AnnCollection:
    adatas = [anndata.read_h5ad(path, backed="r") for path in atlas.files(task.data)]
    return AnnCollection(adatas, join_vars="inner")


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    return _read(task, atlas, open_collection(task, atlas))


def _read(task: Any, atlas: Atlas, collection: AnnCollection) -> Iterator[Delivered]:
    genes = selected_columns(atlas.n_genes)
    for order in orders(task, atlas.n_cells):
        for rows in batches_of(order, task.batch_size):
            rows = np.sort(rows)
            yield Delivered(shape_output(task, collection[rows].X, genes), rows)
