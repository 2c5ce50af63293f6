"""Cells of different lengths as padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import InvalidArgumentError
from .vocab import PAD_ID

__all__ = ["collate_cells"]


def collate_cells(batch: Sequence[Any], pad_value: int = PAD_ID) -> dict[str, Any]:
    """Pad cells to the longest of them: a ``collate_fn`` for torch's ``DataLoader``.

    Parameters
    ----------
    batch
        Cells, as :class:`~cellfeed.data.dataset.CellDataset` gives them; n of them, with up to L
        genes.
    pad_value
        Gene number where a cell has no more genes.

    Returns
    -------
    dict
        ``expression`` float32 (n, L), padded with 0; ``gene_indices`` int64 (n, L);
        ``attention_mask`` int64 (n, L), 1 for a gene and 0 for padding; ``n_genes`` int64 (n,);
        ``metadata``, a list of dicts.
    """
    if not batch:
        raise InvalidArgumentError("there are no cells to collate")
    lengths = torch.tensor([len(cell["gene_indices"]) for cell in batch], dtype=torch.int64)
    is_gene = torch.arange(int(lengths.max())) < lengths[:, None]
    expression = torch.zeros(is_gene.shape, dtype=torch.float32)
    expression[is_gene] = torch.cat([torch.as_tensor(cell["expression"]) for cell in batch])
    gene_indices = torch.full(is_gene.shape, pad_value, dtype=torch.int64)
    gene_indices[is_gene] = torch.cat([torch.as_tensor(cell["gene_indices"]) for cell in batch])
    return {
        "expression": expression,
        "gene_indices": gene_indices,
        "attention_mask": is_gene.to(torch.int64),
        "n_genes": lengths,
        "metadata": [cell["metadata"] for cell in batch],
    }
