"""Training with Lightning; its first use imports ``lightning`` (or ``pytorch_lightning``)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .._extras import with_extra

# Name -> module that holds it.
_LAZY = {
    "CellDataModule": "_data_module", "CellModule": "_module", "ResumeLoader": "_resume",
    "TrainedModel": "_trained_model", "load": "_trained_model", "train": "_training",
}  # fmt: skip

__all__ = ["CellDataModule", "CellModule", "ResumeLoader", "TrainedModel", "load", "train"]

if TYPE_CHECKING:
    from ._data_module import CellDataModule as CellDataModule
    from ._module import CellModule as CellModule
    from ._resume import ResumeLoader as ResumeLoader
    from ._trained_model import TrainedModel as TrainedModel
    from ._trained_model import load as load
    from ._training import train as train


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    except ModuleNotFoundError as error:
        raise with_extra(error, "train") from error
