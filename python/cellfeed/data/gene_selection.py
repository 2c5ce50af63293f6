"""Cells of different lengths as padded batches."""

from __future__ import annotations

from ..torch._cells import collate_cells

__all__ = ["collate_cells"]
