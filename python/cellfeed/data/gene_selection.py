"""Cells of different lengths as padded batches, with all genes or some."""

from __future__ import annotations

from .._torch._cells import collate_cells
from .._torch._gene_selection import GeneSelectionCollator

__all__ = ["GeneSelectionCollator", "collate_cells"]
