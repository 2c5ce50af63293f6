"""Shards or files, written as one ``.h5ad``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import _core
from ._arguments import as_bool, as_names, as_path, as_paths, as_text
from ._cells.genes import report_left_out
from ._conversion_arguments import (
    chosen_cells,
    compression_text,
    join_text,
    obs_choice,
    resources,
    tenx_choice,
)
from ._options import Compression, Join, Path
from ._progress import Progress
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
    paths: Path | Iterable[Path] | CellCollection,
    output: Path,
    *,
    layer: str = "X",
    layers: Sequence[str] | str | None = None,
    obsm: Sequence[str] | str | None = None,
    genome: str | None = None,
    feature_type: str | None = None,
    join: Join | None = None,
    var_key: Sequence[str] | str | None = None,
    make_unique: bool = False,
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
    """Write shards or files as one ``.h5ad``, equal to what the shards were made from.

    Parameters
    ----------
    paths
        A shard directory, a file, a glob, a list of these, or cells of :func:`cellfeed.open`, as
        for :func:`convert_to_shards`: they are written with the genes that they have, in their
        order.
    output
        The file to write.
    layer, genome, feature_type, join, var_key, make_unique
        As for :func:`cellfeed.open`.
    layers, obsm
        Names of layers and of arrays of ``obsm`` to write beside it. By default, if neither is
        given, all that shards hold, and none of other files.
    obs, exclude_obs
        Columns of obs to write, or those to leave out; all are written by default.
    keep_stored_gene_order
        Keep the order of shards in mean order, instead of giving the source's back.
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
    cells = chosen_cells(
        paths, layer=(layer, "X"), layers=(layers, None), obsm=(obsm, None), genome=(genome, None),
        feature_type=(feature_type, None), join=(join, None), var_key=(var_key, None),
        make_unique=(make_unique, False),
        keep_stored_gene_order=(keep_stored_gene_order, False),
    )  # fmt: skip
    path = as_path("output", output)
    made = _core.export_h5ad(
        [] if cells else as_paths("paths", paths),
        path,
        layer=as_text("layer", layer),
        layers=_names_if_any("layers", layers, obsm),
        obsm=_names_if_any("obsm", obsm, layers),
        join=join_text(join),
        var_keys=[] if var_key is None else as_names("var_key", var_key),
        make_unique=as_bool("make_unique", make_unique),
        keep_stored_gene_order=as_bool("keep_stored_gene_order", keep_stored_gene_order),
        keep_source_columns=as_bool("keep_source_columns", keep_source_columns),
        cells=cells,
        compression=compression_text(compression),
        overwrite=as_bool("overwrite", overwrite),
        **obs_choice(obs, exclude_obs),
        **tenx_choice(genome, feature_type),
        **resources(threads, memory_budget, progress),
    )
    report_left_out(made.pop("left_out_text"), stacklevel=2)
    return ExportResult(path=path, **made)


def _names_if_any(
    name: str, names: Sequence[str] | str | None, others: Sequence[str] | str | None
) -> list[str] | None:
    """None where neither is given."""
    if names is None:
        return None if others is None else []
    return as_names(name, names)
