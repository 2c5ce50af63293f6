"""annbatch on its own pre-shuffled zarr store, read through zarrs; needs Python 3.12 or newer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import zarr
import zarrs  # noqa: F401
from annbatch import DatasetCollection, Loader

from . import Atlas, Delivered, selected_columns, shape_output

# What a chunk size is read with, so that each read holds 16,384 cells as in its documentation.
CELLS_A_READ = 16384


def cells_a_read(task: Any) -> int:
    return CELLS_A_READ


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    chunk = task.block_size
    loader = Loader(
        chunk_size=chunk,
        preload_nchunks=CELLS_A_READ // chunk,
        batch_size=task.batch_size,
        shuffle=task.access != "stream",
        rng=np.random.default_rng(0),
    )
    loader.use_collection(DatasetCollection(atlas.path("annbatch"), mode="r"))
    return _read(task, atlas, loader)


def _read(task: Any, atlas: Atlas, loader: Loader) -> Iterator[Delivered]:
    genes = selected_columns(atlas.n_genes)
    while True:
        for batch in loader:
            yield Delivered(shape_output(task, batch["X"], genes))


def convert(task: Any, atlas: Atlas, target: str) -> None:
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    DatasetCollection(target, mode="a").add_adatas(
        atlas.files(task.data), shuffle=True, rng=np.random.default_rng(0)
    )
