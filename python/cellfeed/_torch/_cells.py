"""Single cells as tensors, and padded batches of them."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NotRequired, TypedDict, TypeVar

import numpy as np
import torch
from torch.utils.data._utils.collate import default_collate_fn_map

from .._special_tokens import PAD_ID
from ..errors import InvalidArgumentError


class CellBatch(TypedDict):
    """What :func:`collate_cells` makes of cells."""

    expression: torch.Tensor
    gene_indices: torch.Tensor
    attention_mask: torch.Tensor
    n_genes: torch.Tensor
    metadata: list[dict[str, Any]]
    is_padding: NotRequired[torch.Tensor]


Cell = TypeVar("Cell", bound=MutableMapping[str, Any])


def cells_to_tensors(cells: list[Cell]) -> list[Cell]:
    """Turn the arrays of the cells into tensors that share their memory."""
    for cell in cells:
        _teach_default_collate(type(cell))
        cell["expression"] = torch.from_numpy(cell["expression"])
        cell["gene_indices"] = torch.from_numpy(cell["gene_indices"])
    return cells


def collate_cells(batch: Sequence[Mapping[str, Any]], pad_value: int = PAD_ID) -> CellBatch:
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
        ``metadata``, a list of dicts; of cells with ``is_padding`` that too, bool (n,).
    """
    if not batch:
        raise InvalidArgumentError("there are no cells to collate")
    # By numpy, whose copies do not wait for torch's threads, which the loader's own keep busy.
    lengths = np.array([len(cell["gene_indices"]) for cell in batch], dtype=np.int64)
    is_gene = np.arange(lengths.max()) < lengths[:, None]
    expression = np.zeros(is_gene.shape, dtype=np.float32)
    expression[is_gene] = np.concatenate([np.asarray(cell["expression"]) for cell in batch])
    gene_indices = np.full(is_gene.shape, pad_value, dtype=np.int64)
    gene_indices[is_gene] = np.concatenate([np.asarray(cell["gene_indices"]) for cell in batch])
    collated: CellBatch = {
        "expression": torch.from_numpy(expression),
        "gene_indices": torch.from_numpy(gene_indices),
        "attention_mask": torch.from_numpy(is_gene.astype(np.int64)),
        "n_genes": torch.from_numpy(lengths),
        "metadata": [cell["metadata"] for cell in batch],
    }
    if all("is_padding" in cell for cell in batch):
        collated["is_padding"] = torch.tensor([cell["is_padding"] for cell in batch])
    return collated


def _teach_default_collate(kind: type) -> None:
    # A DataLoader without collate_fn cannot stack cells of different lengths; this is torch's own
    # door for new types.
    if kind not in default_collate_fn_map:
        default_collate_fn_map[kind] = lambda batch, *, collate_fn_map=None: collate_cells(batch)
