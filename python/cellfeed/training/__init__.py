"""Training with Lightning; importing it imports ``lightning`` (or ``pytorch_lightning``)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    from ._data_module import CellDataModule
    from ._resume import ResumeLoader
except ModuleNotFoundError as error:
    if str(error.name).partition(".")[0] not in ("torch", "lightning", "pytorch_lightning"):
        raise
    raise ModuleNotFoundError(
        f"training needs {error.name}, which is not installed: pip install 'cellfeed[train]'",
        name=error.name,
    ) from error

# Name -> module that holds it.
_LAZY = {"CellModule": "_module", "TrainedModel": "_trained_model", "load": "_trained_model",
         "train": "_training"}  # fmt: skip

__all__ = ["CellDataModule", "CellModule", "ResumeLoader", "TrainedModel", "load", "train"]

if TYPE_CHECKING:
    from ._module import CellModule as CellModule
    from ._trained_model import TrainedModel as TrainedModel
    from ._trained_model import load as load
    from ._training import train as train


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
