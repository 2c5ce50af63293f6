"""Batches as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from .._batch import Batch


def batch_to_tensor(batch: Batch, *, dense: bool = False) -> torch.Tensor:
    """A tensor that shares the batch's memory, cells x genes.

    Parameters
    ----------
    batch
        What a loader yielded.
    dense
        Densify a sparse batch (a copy).
    """
    if not batch._core.is_sparse:
        return torch.from_numpy(batch.data)
    tensor = torch.sparse_csr_tensor(
        torch.from_numpy(batch.indptr),
        torch.from_numpy(batch.indices),
        torch.from_numpy(batch.data),
        size=batch.shape,
    )
    return tensor.to_dense() if dense else tensor


def as_tensor(values: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """A tensor of an array or a (densified) sparse matrix, moved as ``Tensor.to`` would."""
    if hasattr(values, "toarray"):
        values = values.toarray()
    if not isinstance(values, torch.Tensor):
        values = torch.as_tensor(np.ascontiguousarray(values))
    return values.to(*args, **kwargs) if args or kwargs else values
