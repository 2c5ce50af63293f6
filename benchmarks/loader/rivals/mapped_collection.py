"""lamindb's MappedCollection in a torch DataLoader: single rows, dense, collated by torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lamindb.core import MappedCollection

from . import Atlas, Delivered
from .map_style import read


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    dataset = MappedCollection(atlas.files(task.data), join="inner", parallel=task.workers > 0)
    return read(task, atlas, dataset)
