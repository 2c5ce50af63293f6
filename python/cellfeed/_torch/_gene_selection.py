"""Batches of the genes that matter most in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import torch

from .._arguments import as_choice, as_int
from .._options import GENE_SELECTIONS, GeneSelection
from ..errors import InvalidArgumentError
from ._cells import Cell, collate_cells


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
        tokenizer: Callable[[list[MutableMapping[str, Any]]], Any] | None = None,
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

    def __call__(self, batch: Sequence[MutableMapping[str, Any]]) -> Any:
        """Make a batch of cells."""
        cells = list(batch)
        if self.strategy != "all" and cells:
            kept = self._choose(cells)
            cells = [_filter(cell, kept) for cell in cells]
        collated = self.tokenizer(cells)
        return collated if self.masking is None else self.masking(collated)

    # By numpy, as collate_cells.
    def _choose(self, cells: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Numbers of the genes that stay."""
        numbers = np.concatenate([np.asarray(cell["gene_indices"]) for cell in cells])
        genes, places = np.unique(numbers, return_inverse=True)
        if self.strategy == "random_expressed":
            order = torch.randperm(len(genes)).numpy()
        else:
            values = np.concatenate([np.asarray(cell["expression"]) for cell in cells])
            sums = np.bincount(places, weights=values, minlength=len(genes))
            order = np.argsort(-sums, kind="stable")
        kept: np.ndarray = genes[order[: self.n_genes]]
        return kept


def _filter(cell: Cell, kept: np.ndarray) -> Cell:
    numbers = np.asarray(cell["gene_indices"])
    is_kept = np.isin(numbers, kept)
    kind: Callable[[Cell], Cell] = type(cell)
    filtered = kind(cell)
    filtered["gene_indices"] = torch.from_numpy(numbers[is_kept])
    filtered["expression"] = torch.from_numpy(np.asarray(cell["expression"])[is_kept])
    filtered["n_genes"] = int(np.count_nonzero(is_kept))
    return filtered
