"""Shards or files, written as one ``.h5ad``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _core
from ._arguments import as_bool, as_path, is_anndata
from ._cells.genes import report_left_out
from ._conversion_arguments import cells_to_write, compression_text, obs_choice, resources
from ._options import Compression, Data, Path
from ._progress import Progress
from ._several import items_of
from .collection import CellCollection


@dataclass(frozen=True)
class ExportResult:
    """What :func:`export_h5ad` wrote. Usable wherever a path is: ``cf.open(result)``.

    Attributes
    ----------
    path
        The file.
    n_cells, n_genes, nnz
        Cells, genes and stored values.
    bytes
        Size of the file.
    seconds, cells_per_second
        Time of this run.
    """

    path: str
    n_cells: int
    n_genes: int
    nnz: int
    bytes: int
    seconds: float
    cells_per_second: float

    def __fspath__(self) -> str:
        return self.path


def export_h5ad(
    cells: Data | CellCollection,
    output: Path,
    *,
    obs: Sequence[str] | str | None = None,
    exclude_obs: Sequence[str] | str | None = None,
    keep_stored_gene_order: bool = False,
    keep_source_columns: bool = False,
    compression: Compression | None = None,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> ExportResult:
    """Write cells as one ``.h5ad``; shards come back equal to what they were made from.

    Parameters
    ----------
    cells
        As for :func:`convert_to_shards`. Shard directories that are given by their paths are
        written with all layers and arrays of ``obsm`` that they hold.
    output
        The file to write.
    obs, exclude_obs
        Columns of obs to write, or those to leave out; all are written by default.
    keep_stored_gene_order
        Keep the order of shards in mean order, instead of giving the source's back. Cells that
        were opened with ``genes=`` keep that order.
    keep_source_columns
        Say of each cell which file and row it is from, in the obs columns ``_source_file`` and
        ``_source_row``, which shards have. Without it obs is that of the files.
    compression
        ``None`` or ``"none"``, and ``"gzip"``.
    threads, memory_budget, overwrite, progress
        As for :func:`convert_to_shards`; there is no ``resume``, a file is written as a whole.

    Returns
    -------
    ExportResult
    """
    path = as_path("output", output)
    given: dict[str, Any] = {
        "keep_stored_gene_order": as_bool("keep_stored_gene_order", keep_stored_gene_order)
        or (isinstance(cells, CellCollection) and cells._origin.options.genes is not None),
        "keep_source_columns": as_bool("keep_source_columns", keep_source_columns),
        "compression": compression_text(compression),
        "overwrite": as_bool("overwrite", overwrite),
    }
    columns, shared = obs_choice(obs, exclude_obs), resources(threads, memory_budget, progress)
    with cells_to_write(cells, **_matrices_of(cells)) as opened:
        made = _core.export_h5ad(opened, path, **given, **columns, **shared)
    report_left_out(made.pop("left_out_text"), stacklevel=2)
    return ExportResult(path=path, **made)


def _matrices_of(cells: Data | CellCollection) -> dict[str, list[str]]:
    """What shards hold beside X, all of it."""
    if isinstance(cells, CellCollection):
        return {}
    items = items_of(cells, [], "cells")
    if any(map(is_anndata, items)):
        return {}
    names = _core.matrices_of_shards([str(path) for path in items])
    of_obsm = [name for name in names if name.startswith("obsm/")]
    return {"layers": [name for name in names if name not in of_obsm], "obsm": of_obsm}
