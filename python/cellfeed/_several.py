"""Files and AnnData in memory as one collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import _core
from ._arguments import absolute, as_names, as_paths, is_anndata
from ._cells.open_options import OpenOptions
from ._cells.protocols import Cells
from ._cells.tables import table_of
from ._cores import Item, several_core
from ._options import Data
from .collection import CellCollection
from .errors import CorruptDataError, InvalidArgumentError

if TYPE_CHECKING:
    import anndata


def items_of(given: Data, matrices: Sequence[str], name: str = "paths") -> list[Item]:
    """Paths and AnnData in memory, in their order; an AnnData in backed mode is its file.

    Parameters
    ----------
    given
        One or several, as for :func:`cellfeed.open`.
    matrices
        Further ones that are to be read.
    name
        The argument, for messages.
    """
    if is_anndata(given):
        return [_item(given, matrices)]
    if not isinstance(given, (list, tuple)) or not any(map(is_anndata, given)):
        return [*as_paths(name, given)]
    items: list[Item] = []
    for item in given:
        items += [_item(item, matrices)] if is_anndata(item) else as_paths(name, item)
    _require_each_once(items)
    return items


def _require_each_once(items: list[Item]) -> None:
    """Refuse an object that is there twice, and a file under whichever names."""
    seen: dict[int, int] = {}
    for number, item in enumerate(items):
        first = seen.setdefault(id(item), number) if is_anndata(item) else number
        if first != number:
            raise InvalidArgumentError(
                f"AnnData {number} in memory: given twice, so that all it holds would count "
                f"twice: give it once (the other name: AnnData {first} in memory)"
            )
    paths = [item for item in items if isinstance(item, str)]
    if paths:
        _core.expand_paths(paths)


def _item(adata: anndata.AnnData, matrices: Sequence[str]) -> Item:
    from ._cells.anndata_arrays import path_of_backed

    return path_of_backed(adata, matrices) if adata.isbacked else adata


def open_several(
    items: list[Item], options: OpenOptions, obs: Sequence[str] | str | None
) -> CellCollection:
    tables = {i: table_of(item.obs) for i, item in enumerate(items) if is_anndata(item)}
    core = several_core(items, options, tables)
    return with_default_obs(CellCollection(core, Several(items, options), []), obs)


def with_default_obs(cells: CellCollection, obs: Sequence[str] | str | None) -> CellCollection:
    cells.default_obs = [] if obs is None else as_names("obs", obs)
    for name in cells.default_obs:
        cells.obs_column(name)
    return cells


@dataclass(frozen=True)
class Several:
    """Files and AnnData in memory, in their order."""

    items: list[Item]
    options: OpenOptions

    @property
    def paths(self) -> list[str]:
        """None: not all of them are files."""
        return []

    @property
    def steps(self) -> list[str]:
        """None: all of them."""
        return []

    def reduce(self, cells: Cells) -> tuple[object, ...]:
        """What pickle makes a copy of the collection by."""
        items = [item if is_anndata(item) else absolute(item) for item in self.items]
        return _open_several_again, (items, self.options, cells.default_obs, cells.fingerprint)


def _open_several_again(
    items: list[Item], options: OpenOptions, obs: list[str], fingerprint: int
) -> CellCollection:
    cells = open_several(items, options, obs)
    if cells.fingerprint != fingerprint:
        raise CorruptDataError(
            "the files, or the AnnData in memory, changed since this collection was opened, so "
            "rows and labels are other ones now: open them again instead of unpickling"
        )
    return cells
