"""Genes of each file, and how they became one axis."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .._arguments import as_bool, as_names
from .._extras import pd
from .._lazy import cached_property
from ..collection import CellCollection


def have_same_genes(cells: CellCollection) -> bool:
    """True if the files have equal gene axes, so that nothing is joined."""
    return all(cells._core.gene_map(file) is None for file in range(cells._core.n_stores))


class FileGenes:
    """Of the files of a collection. Thread-safe: immutable.

    Parameters
    ----------
    cells
        All files as one table.
    join
        As :class:`MappedCollection` has it.
    """

    def __init__(self, cells: CellCollection, join: str | None) -> None:
        self._cells = cells
        self._join = join

    @cached_property
    def join(self) -> str | None:
        """How they were joined; None where they were not, as all files have the same."""
        return None if have_same_genes(self._cells) else self._join

    @cached_property
    def of_files(self) -> list[pd.Index]:
        """Names in the order of each file."""
        core = self._cells._core
        genes = [core.store_genes(file) for file in range(core.n_stores)]
        return [pd.Index(names, dtype=object) for names in genes]

    @cached_property
    def joint(self) -> pd.Index | None:
        """Names of the joined axis."""
        return None if self._join is None else pd.Index(self._cells.var_names, dtype=object)

    @cached_property
    def places(self) -> list[np.ndarray] | None:
        """Of the joint genes in each file (inner), or of its genes among them (outer)."""
        joint = self.joint
        if joint is None or self.join is None:
            return None
        if self.join == "inner":
            return [genes.get_indexer(joint) for genes in self.of_files]
        return [joint.get_indexer(genes) for genes in self.of_files]

    def are_sorted(self, ascending: bool) -> bool:
        """Whether those of every file are."""
        if as_bool("ascending", ascending):
            return all(genes.is_monotonic_increasing for genes in self.of_files)
        return all(genes.is_monotonic_decreasing for genes in self.of_files)

    def files_without_axis(self, names: Iterable[str]) -> list[int]:
        """Numbers of the files whose genes are not exactly these, in this order."""
        wanted = pd.Index(as_names("vars", names), dtype=object)
        return [i for i, genes in enumerate(self.of_files) if not genes.equals(wanted)]
