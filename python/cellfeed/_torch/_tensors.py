"""Batches as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .._batch_source import column_numbers, row_starts
from ._pinned import adopt_tensor, pin

if TYPE_CHECKING:
    import scipy.sparse

    from .._batch_cells import BatchOfCells
    from .._batch_source import AnyBlock


def batch_to_tensor(batch: BatchOfCells[Any], *, dense: bool = False) -> torch.Tensor:
    """A tensor that shares the batch's memory, cells x genes; page-locked where the batch is.

    Parameters
    ----------
    batch
        What a loader yielded.
    dense
        Densify a sparse batch (a copy).
    """
    x: Any = batch._core
    return block_to_tensor(x, dense=dense)


def block_to_tensor(block: AnyBlock, *, dense: bool = False) -> torch.Tensor:
    """A tensor that shares the memory of one matrix of a batch.

    Parameters
    ----------
    block
        Cells x columns.
    dense
        Densify a sparse one (a copy).
    """
    values = _share(block.values, block.pinned_values())
    if not block.is_sparse:
        return values
    indptr = torch.from_numpy(row_starts(block))
    if block.is_pinned:
        # Small, and a copy anyway; a GPU would wait for one that is not page-locked.
        indptr = pin(indptr)
    indices = _share(column_numbers(block), block.pinned_indices())
    size = (block.n_rows, block.n_cols)
    tensor = make_csr(indptr, indices, values, size)
    return spread(tensor) if dense else tensor


def make_csr(
    indptr: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, size: tuple[int, ...]
) -> torch.Tensor:
    """A ``torch.sparse_csr`` tensor of parts, which torch checks only where it was asked to.

    Parameters
    ----------
    indptr, indices, values
        As of a CSR matrix.
    size
        Rows and columns.
    """
    checks: Any = torch.sparse.check_sparse_tensor_invariants
    # To say nothing of them would be warned of.
    is_checked = checks.is_enabled()
    return torch.sparse_csr_tensor(indptr, indices, values, size, check_invariants=is_checked)


def spread(csr: torch.Tensor) -> torch.Tensor:
    """A ``torch.sparse_csr`` tensor as a dense one, on its device.

    Parameters
    ----------
    csr
        No entry twice, as in batches.
    """
    # to_dense() sorts on a GPU, and takes ten times as long there.
    return csr.to_dense() if csr.device.type == "cpu" else scattered(csr)


def scattered(csr: torch.Tensor) -> torch.Tensor:
    """The same by writing each value to its place."""
    columns = csr.col_indices()
    counts = csr.crow_indices().diff()
    rows = torch.repeat_interleave(counts, output_size=columns.numel())
    dense = torch.zeros(csr.shape, dtype=csr.dtype, device=csr.device)
    dense[rows, columns] = csr.values()
    return dense


def csr_to_tensor(matrix: scipy.sparse.csr_matrix) -> torch.Tensor:
    """A ``torch.sparse_csr`` tensor that shares the memory of a matrix."""
    indptr, indices = torch.from_numpy(matrix.indptr), torch.from_numpy(matrix.indices)
    values = torch.from_numpy(matrix.data)
    return make_csr(indptr, indices, values, matrix.shape)


def _share(array: np.ndarray, owner: Any) -> torch.Tensor:
    return torch.from_numpy(array) if owner is None else adopt_tensor(owner, array)


def as_tensor(values: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """A tensor of an array or a (densified) sparse matrix, moved as ``Tensor.to`` would."""
    if hasattr(values, "toarray"):
        values = values.toarray()
    if not isinstance(values, torch.Tensor):
        array = np.asarray(values)
        # numpy has two names for 64 bits, and torch knows but one of the unsigned ones.
        values = torch.as_tensor(np.ascontiguousarray(array, dtype=array.dtype.str))
    tensor: torch.Tensor = values
    return tensor.to(*args, **kwargs) if args or kwargs else tensor
