"""Training with Lightning; importing it imports ``lightning`` (or ``pytorch_lightning``)."""

from __future__ import annotations

from ._data_module import CellDataModule
from ._resume import ResumeLoader

__all__ = ["CellDataModule", "ResumeLoader"]
