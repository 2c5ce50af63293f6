"""Rows that were read as one batch, as tensors of that batch: no row is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from ._tensors import block_to_tensor, csr_to_tensor

_INT64_MAX = 2**63 - 1


def register_rows(kind: type) -> None:
    """Let torch's default collation take a list of these rows as the batch they were read as.

    Sparse rows that were read apart become one tensor too.
    """
    default_collate_fn_map.setdefault(kind, _collate_rows)
    default_collate_fn_map.setdefault(scipy.sparse.csr_matrix, _collate_sparse)


def _collate_rows(rows: list[Any], *, collate_fn_map: Any = None) -> dict[str, Any]:
    batch = rows[0].batch
    if not batch.is_whole(rows) or any(map(_holds_arrays, batch.columns.values())):
        plain: dict[str, Any] = collate([dict(row) for row in rows], collate_fn_map=collate_fn_map)
        return plain
    return {name: _collate_column(column, collate_fn_map) for name, column in batch.columns.items()}


def _collate_column(column: Any, collate_fn_map: Any) -> Any:
    if isinstance(column, np.ndarray):
        return torch.from_numpy(column)
    if not isinstance(column, list):
        return block_to_tensor(column.block)
    # Texts stay a list, also where the first one is missing, and what int64 cannot hold; other
    # labels that are numbers are a tensor.
    known = [label for label in column if label == label] or [""]
    if isinstance(known[0], str) or max(known) > _INT64_MAX:
        return column
    return collate(column, collate_fn_map=collate_fn_map)


def _collate_sparse(
    rows: list[scipy.sparse.csr_matrix], *, collate_fn_map: object = None
) -> torch.Tensor:
    return csr_to_tensor(scipy.sparse.vstack(rows, format="csr"))


def _holds_arrays(column: Any) -> bool:
    return isinstance(column, list) and hasattr(column[0], "shape")
