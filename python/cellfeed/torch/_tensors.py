"""Batches as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
