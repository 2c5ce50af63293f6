"""cellfeed: feeds neural networks from single-cell atlases that do not fit in memory.

>>> import cellfeed as cf
>>> cells = cf.open("atlas/*.h5ad", obs=["cell_type"])                  # doctest: +SKIP
>>> loader = cf.Loader(cells, cf.BlockShuffling(64), batch_size=1024)   # doctest: +SKIP
>>> for batch in loader:                                                # doctest: +SKIP
...     batch.x, batch.obs["cell_type"]
"""

from __future__ import annotations

# pyarrow's libarrow exports an OpenSSL of its own. Where it is loaded before the system's libcrypto
# (which HDF5 brings along), that one binds to it, and a later import of hashlib crashes; in this
# order each has its own.
import hashlib  # noqa: F401
import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Name -> module that holds it: importing cellfeed loads none of them.
_LAZY = {
    "Batch": "_batch",
    "BlockShuffling": "_strategies",
    "BlockWeightedSampling": "_strategies",
    "CellCollection": "_collection",
    "CellfeedError": "errors",
    "ClassBalancedSampling": "_strategies",
    "Encoders": "_encoders",
    "GroupSampling": "_strategies",
    "Loader": "_loader",
    "Log1p": "_transforms",
    "MultiIndexable": "_multi_indexable",
    "NormalizeTotal": "_transforms",
    "SamplingStrategy": "_strategies",
    "SelectGenes": "_transforms",
    "Streaming": "_strategies",
    "WeightedCellSampler": "_strategies",
    "convert_to_shards": "data.sharding",
    "export_h5ad": "_files",
    "info": "_files",
    "load_encoders": "_encoders",
    "open": "_collection",
    "scDataset": "_scdataset",
    "simulate": "_files",
}

_SUBMODULES = ("data", "errors", "torch", "training", "transforms")

# Not open: `from cellfeed import *` leaves Python's own alone.
__all__ = sorted({*_LAZY, *_SUBMODULES, "__version__"} - {"open"})

if TYPE_CHECKING:
    from . import errors as errors
    from ._batch import Batch as Batch
    from ._collection import CellCollection as CellCollection
    from ._collection import open as open
    from ._encoders import Encoders as Encoders
    from ._encoders import load_encoders as load_encoders
    from ._files import export_h5ad as export_h5ad
    from ._files import info as info
    from ._files import simulate as simulate
    from ._loader import Loader as Loader
    from ._multi_indexable import MultiIndexable as MultiIndexable
    from ._strategies import BlockShuffling as BlockShuffling
    from ._strategies import BlockWeightedSampling as BlockWeightedSampling
    from ._strategies import ClassBalancedSampling as ClassBalancedSampling
    from ._strategies import GroupSampling as GroupSampling
    from ._strategies import SamplingStrategy as SamplingStrategy
    from ._strategies import Streaming as Streaming
    from ._transforms import Log1p as Log1p
    from ._transforms import NormalizeTotal as NormalizeTotal
    from ._transforms import SelectGenes as SelectGenes
    from .data.sharding import convert_to_shards as convert_to_shards
    from .torch import WeightedCellSampler as WeightedCellSampler
    from .torch import scDataset as scDataset


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    near = ""
    if not name.startswith("_"):
        from ._checks import did_you_mean

        near = did_you_mean(name, __dir__())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{near}")


def __dir__() -> list[str]:
    return sorted({*__all__, "open"})
