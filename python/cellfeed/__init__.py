"""cellfeed: feeds neural networks from single-cell atlases that do not fit in memory.

>>> import cellfeed as cf
>>> cells = cf.open("atlas/*.h5ad", obs=["cell_type"])                  # doctest: +SKIP
>>> loader = cf.Loader(cells, cf.BlockShuffling(64), batch_size=1024)   # doctest: +SKIP
>>> for batch in loader:                                                # doctest: +SKIP
...     batch.x, batch.obs["cell_type"]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Name -> module that holds it: importing cellfeed loads none of them.
_LAZY = {
    "Batch": "batch",
    "BinnedTokens": "tokens",
    "BlockShuffling": "strategies",
    "BlockWeightedSampling": "strategies",
    "CellCollection": "collection",
    "ClassBalancedSampling": "strategies",
    "Config": "config",
    "ContinuousTokens": "tokens",
    "Encoders": "encoders",
    "GroupSampling": "strategies",
    "Loader": "loader",
    "Log1p": "transforms",
    "MappedCollection": "mapped_collection",
    "Masking": "tokens",
    "MultiIndexable": "adapters",
    "NormalizeTotal": "transforms",
    "RankTokens": "tokens",
    "SamplingStrategy": "strategies",
    "SelectGenes": "transforms",
    "Streaming": "strategies",
    "WeightedCellSampler": "samplers",
    "WholeShards": "strategies",
    "append_to_shards": "appending",
    "convert_to_shards": "conversion",
    "export_h5ad": "exporting",
    "info": "conversion",
    "open": "opening",
    "preprocess": "preprocessing",
    "scDataset": "scdataset",
    "set_storage_options": "storage",
    "simulate": "simulation",
}

_SUBMODULES = ("census", "cluster", "data", "errors", "scvi", "series", "training")

# Not open: `from cellfeed import *` leaves Python's own alone.
__all__ = sorted({*_LAZY, *_SUBMODULES, "__version__"} - {"open"})

if TYPE_CHECKING:
    from . import census as census
    from . import cluster as cluster
    from . import data as data
    from . import errors as errors
    from . import scvi as scvi
    from . import series as series
    from . import training as training
    from .adapters import MultiIndexable as MultiIndexable
    from .appending import append_to_shards as append_to_shards
    from .batch import Batch as Batch
    from .collection import CellCollection as CellCollection
    from .config import Config as Config
    from .conversion import convert_to_shards as convert_to_shards
    from .conversion import info as info
    from .encoders import Encoders as Encoders
    from .exporting import export_h5ad as export_h5ad
    from .loader import Loader as Loader
    from .mapped_collection import MappedCollection as MappedCollection
    from .opening import open as open
    from .preprocessing import preprocess as preprocess
    from .samplers import WeightedCellSampler as WeightedCellSampler
    from .scdataset import scDataset as scDataset
    from .simulation import simulate as simulate
    from .storage import set_storage_options as set_storage_options
    from .strategies import BlockShuffling as BlockShuffling
    from .strategies import BlockWeightedSampling as BlockWeightedSampling
    from .strategies import ClassBalancedSampling as ClassBalancedSampling
    from .strategies import GroupSampling as GroupSampling
    from .strategies import SamplingStrategy as SamplingStrategy
    from .strategies import Streaming as Streaming
    from .strategies import WholeShards as WholeShards
    from .tokens import BinnedTokens as BinnedTokens
    from .tokens import ContinuousTokens as ContinuousTokens
    from .tokens import Masking as Masking
    from .tokens import RankTokens as RankTokens
    from .transforms import Log1p as Log1p
    from .transforms import NormalizeTotal as NormalizeTotal
    from .transforms import SelectGenes as SelectGenes


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    near = ""
    if not name.startswith("_"):
        from ._arguments import did_you_mean

        near = did_you_mean(name, __dir__())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{near}")


def __dir__() -> list[str]:
    return sorted({*__all__, "open"})
