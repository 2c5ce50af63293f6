"""Files and AnnData in memory as one collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ._arguments import absolute, as_names, as_paths, is_anndata
from ._cells.genes import report_left_out, report_missing_genes
from ._cells.matrices import Matrices
from ._cores import several_core
from ._options import MissingGenes
from .collection import CellCollection
from .errors import CorruptDataError

if TYPE_CHECKING:
    import pyarrow as pa


def items_of(given: Any, chosen: dict[str, Any]) -> list[Any] | None:
    """Paths and AnnData in memory, of a list that has such; None for anything else."""
    if not isinstance(given, (list, tuple)) or not any(map(is_anndata, given)):
        return None
    from ._cells.anndata_arrays import path_of_backed

    items: list[Any] = []
    for item in given:
        if not is_anndata(item):
            items += as_paths("paths", item)
        elif item.isbacked:
            items.append(path_of_backed(item, Matrices.of(chosen).paths))
        else:
            items.append(item)
    return items


def open_several(
    items: list[Any],
    options: dict[str, Any],
    obs: Sequence[str] | str | None,
    missing_genes: MissingGenes,
) -> CellCollection:
    from ._cells.anndata_arrays import arrow_table

    tables = [arrow_table(item.obs) if is_anndata(item) else None for item in items]
    core = several_core(items, options, tables)
    report_missing_genes(core.missing_genes_text, missing_genes, stacklevel=3)
    report_left_out(core.left_out_text, stacklevel=3)
    return with_obs(CellCollection(core, Several(items, options, tables), []), obs)


def with_obs(cells: CellCollection, obs: Sequence[str] | str | None) -> CellCollection:
    cells.default_obs = [] if obs is None else as_names("obs", obs)
    for name in cells.default_obs:
        cells.obs_column(name)
    return cells


@dataclass(frozen=True)
class Several:
    """Files and AnnData in memory, in their order."""

    items: list[Any]
    options: dict[str, Any]
    tables: list[pa.Table | None]

    @property
    def steps(self) -> list[str]:
        """None: all of them."""
        return []

    def fingerprint(self, of_core: int) -> int:
        """The core's, and all of obs that is in memory."""
        return self._content ^ of_core

    @cached_property
    def _content(self) -> int:
        from ._cells.anndata_arrays import content_of

        content = 0
        for number, table in enumerate(self.tables):
            if table is not None:
                content ^= (content_of(table) * (2 * number + 1)) % 2**64
        return content

    def reduce(self, cells: CellCollection) -> tuple[Any, ...]:
        """What pickle makes a copy of the collection by."""
        items = [item if is_anndata(item) else absolute(item) for item in self.items]
        return _open_several_again, (items, self.options, cells.default_obs, cells.fingerprint)


def _open_several_again(
    items: list[Any], options: dict[str, Any], obs: list[str], fingerprint: int
) -> CellCollection:
    cells = open_several(items, options, obs, "zero")
    if cells.fingerprint != fingerprint:
        raise CorruptDataError(
            "the files, or the AnnData in memory, changed since this collection was opened, so "
            "rows and labels are other ones now: open them again instead of unpickling"
        )
    return cells
