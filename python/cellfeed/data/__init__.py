"""Data sets and samplers by the names that other projects know; loaded when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_LAZY = {
    "CellDataModule": "..training",
    "CellDataset": ".dataset",
    "DistributedShardSampler": ".distributed",
    "GeneSelectionCollator": ".gene_selection",
    "GeneVocab": ".vocab",
    "MemoryMappedStore": ".memmap_store",
    "ShardedCellDataset": ".dataset",
    "StreamingCellDataset": ".streaming",
    "WeightedCellSampler": ".sampling",
    "collate_cells": ".gene_selection",
    "convert_to_shards": ".sharding",
    "validate_shard_dir": ".sharding",
}

__all__ = list(_LAZY)

if TYPE_CHECKING:
    from ..training import CellDataModule as CellDataModule
    from .dataset import CellDataset as CellDataset
    from .dataset import ShardedCellDataset as ShardedCellDataset
    from .distributed import DistributedShardSampler as DistributedShardSampler
    from .gene_selection import GeneSelectionCollator as GeneSelectionCollator
    from .gene_selection import collate_cells as collate_cells
    from .memmap_store import MemoryMappedStore as MemoryMappedStore
    from .sampling import WeightedCellSampler as WeightedCellSampler
    from .sharding import convert_to_shards as convert_to_shards
    from .sharding import validate_shard_dir as validate_shard_dir
    from .streaming import StreamingCellDataset as StreamingCellDataset
    from .vocab import GeneVocab as GeneVocab


def __getattr__(name: str) -> Any:
    if f".{name}" in _LAZY.values():
        return importlib.import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
