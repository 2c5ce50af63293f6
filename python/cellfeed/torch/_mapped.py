"""Rows that were read as one batch, as tensors of that batch: no row is copied."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data._utils.collate import collate, default_collate_fn_map


def register_rows(kind: type) -> None:
    """Let torch's default collation take a list of these rows as the batch they were read as."""
    default_collate_fn_map.setdefault(kind, _collate_rows)


def _collate_rows(rows: list[Any], *, collate_fn_map: Any = None) -> dict[str, Any]:
    batch = rows[0].batch
    if not batch.is_whole(rows) or any(map(_holds_arrays, batch.columns.values())):
        plain: dict[str, Any] = collate([dict(row) for row in rows], collate_fn_map=collate_fn_map)
        return plain
    return {
        name: column if isinstance(column, list) else torch.from_numpy(column)
        for name, column in batch.columns.items()
    }


def _holds_arrays(column: Any) -> bool:
    return isinstance(column, list) and hasattr(column[0], "shape")
