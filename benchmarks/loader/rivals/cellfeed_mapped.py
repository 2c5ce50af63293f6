"""cellfeed's MappedCollection in a torch DataLoader: batches read together, dense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cellfeed as cf

from . import Atlas, Delivered
from .map_style import read


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    is_h5ad = task.data in ("plain", "gzip")
    paths = atlas.files(task.data) if is_h5ad else atlas.path(task.data)
    return read(task, atlas, cf.MappedCollection(paths, join="inner"))
