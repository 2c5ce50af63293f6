"""Cells of different lengths as padded batches, with all genes or some."""

from __future__ import annotations

from ..torch._cells import collate_cells
from ..torch._gene_selection import GeneSelectionCollator

__all__ = ["GeneSelectionCollator", "collate_cells"]
