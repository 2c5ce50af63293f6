"""cellfeed: .h5ad files as they are, or its packed shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scipy.sparse  # noqa: F401

import cellfeed as cf

from . import TARGET_SUM, Atlas, Delivered, selected_columns

# Both are imported late, and imports do not count: the names here, scipy by the first batch.
_IMPORTED = (cf.open, cf.Loader)


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    return _read(task, atlas, open_loader(task, atlas))


def open_loader(task: Any, atlas: Atlas) -> cf.Loader:
    is_h5ad = task.data in ("plain", "gzip")
    paths = atlas.files(task.data) if is_h5ad else atlas.path(task.data)
    cells = cf.open(paths, access=task.option("opened_for", "auto"))
    return make_loader(task, cells)


def make_loader(task: Any, cells: cf.CellCollection) -> cf.Loader:
    is_stream = task.access == "stream"
    strategy = cf.Streaming() if is_stream else cf.BlockShuffling(block_size=task.block_size)
    transforms: list[Any] = []
    if task.output == "selected":
        genes = cells.var_names[selected_columns(cells.n_vars)]
        transforms = [cf.NormalizeTotal(TARGET_SUM), cf.Log1p(), cf.SelectGenes(genes)]
    return cf.Loader(
        cells,
        strategy,
        task.batch_size,
        output="csr" if task.output == "csr" else "dense",
        transforms=transforms,
        fetch_factor=task.fetch_factor,
        memory_budget=task.memory_budget,
        threads=task.threads or None,
    )


def _read(task: Any, atlas: Atlas, loader: cf.Loader) -> Iterator[Delivered]:
    while True:
        for batch in loader:
            yield Delivered(batch.x, batch.index)
        if task.option("is_opened_each_epoch"):
            loader = open_loader(task, atlas)


def convert(task: Any, atlas: Atlas, target: str) -> None:
    cf.convert_to_shards(
        atlas.files(task.data),
        output_dir=target,
        gene_order=task.option("gene_order", "source"),
        shuffle=task.option("is_shuffled", False),
    )


def verify(task: Any, atlas: Atlas) -> None:
    from cellfeed.data.sharding import validate_shard_dir

    if not validate_shard_dir(atlas.path(task.data)):
        raise RuntimeError(f"{atlas.path(task.data)} is damaged")
