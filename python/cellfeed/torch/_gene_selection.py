"""Batches of the genes that matter most in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._arguments import as_choice, as_int
from .._options import GENE_SELECTIONS, GeneSelection
from ..errors import InvalidArgumentError
from ._cells import collate_cells


class GeneSelectionCollator:
    """Keep some genes of each batch, then pad the cells: a ``collate_fn`` for ``DataLoader``.

    Cells keep the order of their genes, and have at most ``n_genes`` of them.

    Parameters
    ----------
    tokenizer
        Makes a batch of a list of cells; :func:`collate_cells` by default.
    masking
        Changes that batch, for training by reconstruction; nothing by default.
    strategy
        ``"all"`` keeps every gene. ``"most_expressed"`` keeps those with the largest sum over the
        batch, of equal ones the smaller number. ``"random_expressed"`` draws among those that any
        cell of the batch has, by torch's generator of this process, which a ``DataLoader`` seeds
        for each worker and epoch.
    n_genes
        Genes to keep; all are kept where there are no more.
    """

    def __init__(
        self,
        tokenizer: Callable[[list[Any]], Any] | None = None,
        masking: Callable[[Any], Any] | None = None,
        strategy: GeneSelection = "all",
        n_genes: int | None = None,
    ) -> None:
        as_choice("strategy", strategy, GENE_SELECTIONS)
        if strategy != "all":
            if n_genes is None:
                raise InvalidArgumentError(f"strategy {strategy!r} needs n_genes")
            as_int("n_genes", n_genes, 1)
        self.tokenizer = collate_cells if tokenizer is None else tokenizer
        self.masking = masking
        self.strategy = strategy
        self.n_genes = n_genes

    def __call__(self, batch: Sequence[Any]) -> Any:
        """Make a batch of cells."""
        cells = list(batch)
        if self.strategy != "all" and cells:
            kept = self._choose(cells)
            cells = [_filter(cell, kept) for cell in cells]
        collated = self.tokenizer(cells)
        return collated if self.masking is None else self.masking(collated)

    def _choose(self, cells: list[Any]) -> torch.Tensor:
        numbers = torch.cat([torch.as_tensor(cell["gene_indices"]) for cell in cells])
        genes, places = torch.unique(numbers, return_inverse=True)
        if self.strategy == "random_expressed":
            chosen = torch.randperm(len(genes))[: self.n_genes]
            return torch.index_select(genes, 0, chosen)
        values = torch.cat([torch.as_tensor(cell["expression"]) for cell in cells]).double()
        sums = torch.zeros(len(genes), dtype=torch.float64).index_add_(0, places, values)
        largest = torch.sort(sums, descending=True, stable=True).indices[: self.n_genes]
        return torch.index_select(genes, 0, largest)


def _filter(cell: Any, kept: torch.Tensor) -> Any:
    numbers = torch.as_tensor(cell["gene_indices"])
    is_kept = torch.isin(numbers, kept)
    filtered = type(cell)(cell)
    filtered["gene_indices"] = numbers[is_kept]
    filtered["expression"] = torch.as_tensor(cell["expression"])[is_kept]
    filtered["n_genes"] = int(is_kept.sum())
    return filtered
