"""Data sets and samplers by the names that other projects know; loaded when used."""

from __future__ import annotations

import importlib
from typing import Any

_LAZY = {
    "CellDataset": ".dataset",
    "DistributedShardSampler": ".distributed",
    "GeneSelectionCollator": ".gene_selection",
    "GeneVocab": ".vocab",
    "MemoryMappedStore": ".memmap_store",
    "ShardedCellDataset": ".dataset",
    "WeightedCellSampler": ".sampling",
    "collate_cells": ".gene_selection",
    "convert_to_shards": ".sharding",
    "validate_shard_dir": ".sharding",
}

__all__ = list(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
