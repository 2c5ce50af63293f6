"""Whole files in, whole files out: :func:`simulate`, :func:`export_h5ad`, :func:`info`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from . import _core
from ._checks import as_bool, as_choice, as_int, as_path, as_paths, as_text
from ._options import Compression, Join
from ._progress import as_progress_callback
from ._sizes import parse_memory_budget, parse_threads

Path = str | os.PathLike[str]

COMPRESSIONS = ("none", "gzip")
JOINS = ("inner", "outer")


def simulate(
    like: Path,
    n_cells: int,
    output: Path,
    *,
    n_files: int = 1,
    seed: int = 0,
    order: str = "random",
    thin: bool = True,
    layer: str = "X",
    compression: Compression = "none",
    threads: int | None = None,
    memory_budget: int | str | None = None,
    overwrite: bool = False,
    progress: Any = None,
) -> dict[str, Any]:
    """Make a large ``.h5ad`` of real cells, drawn with replacement and thinned.

    obs column ``source_cell`` says which row of ``like`` a cell comes from.

    Parameters
    ----------
    like
        The real cells: a file or a shard directory.
    n_cells
        Cells to make.
    output
        The file to write; with several files ``atlas_0.h5ad``, ``atlas_1.h5ad``, ...
    n_files
        Files to write.
    seed
        The same seed gives the same cells, whatever the threads.
    order
        ``"random"``, ``"source"`` (copies side by side), or an obs column (runs of one label).
    thin
        Keep each count with a probability of the cell's own, uniform on (0.7, 1).
    layer
        ``"X"``, ``"raw/X"``, or the name of a layer.
    compression
        ``"none"`` or ``"gzip"``.
    threads
        All the machine allows by default.
    memory_budget
        Bytes, 32 MB at least; half of it may hold the real cells. Default: 512 MB, or a quarter of
        what the machine or the control group has left where that is less.
    overwrite
        Replace files that are there.
    progress
        ``True``, ``False``, ``None`` (on a terminal), or a function
        ``f(phase, done, total, rate)``.

    Returns
    -------
    dict
        ``n_cells``, ``n_genes``, ``nnz``, ``n_real_cells``, ``has_counts``, ``files``, ``bytes``,
        ``seconds``, ``cells_per_second``.
    """
    return _core.simulate(
        as_path("like", like),
        layer=as_text("layer", layer),
        n_cells=as_int("n_cells", n_cells, 1),
        output=as_path("output", output),
        n_files=as_int("n_files", n_files, 1),
        seed=as_int("seed", seed, 0, 2**64 - 1),
        order=as_text("order", order),
        thin=as_bool("thin", thin),
        compression=as_choice("compression", compression, COMPRESSIONS),
        threads=parse_threads(threads),
        memory_budget=0 if memory_budget is None else parse_memory_budget(memory_budget),
        overwrite=as_bool("overwrite", overwrite),
        progress=as_progress_callback(progress, "cells"),
    )


def export_h5ad(
    paths: Path | Iterable[Path],
    output: Path,
    *,
    layer: str = "X",
    join: Join | None = None,
    make_unique: bool = False,
    keep_stored_gene_order: bool = False,
    keep_source_columns: bool = False,
    compression: Compression = "none",
    threads: int | None = None,
    memory_budget: int | str | None = None,
    overwrite: bool = False,
    progress: Any = None,
) -> dict[str, Any]:
    """Write shards or files as one ``.h5ad``, equal to what the shards were made from.

    Parameters
    ----------
    paths
        A shard directory, a file, a glob, or a list of these.
    output
        The file to write.
    layer, join, make_unique
        As for :func:`cellfeed.open`.
    keep_stored_gene_order
        Keep the order of shards in mean order, instead of giving the source's back.
    keep_source_columns
        Keep the obs columns ``_source_file`` and ``_source_row`` that sharding added.
    compression
        ``"none"`` or ``"gzip"``.
    threads, memory_budget, overwrite, progress
        As for :func:`simulate`.

    Returns
    -------
    dict
        ``n_cells``, ``n_genes``, ``nnz``, ``bytes``, ``seconds``, ``cells_per_second``.
    """
    return _core.export_h5ad(
        as_paths("paths", paths),
        as_path("output", output),
        layer=as_text("layer", layer),
        join="" if join is None else as_choice("join", join, JOINS),
        make_unique=as_bool("make_unique", make_unique),
        keep_stored_gene_order=as_bool("keep_stored_gene_order", keep_stored_gene_order),
        keep_source_columns=as_bool("keep_source_columns", keep_source_columns),
        compression=as_choice("compression", compression, COMPRESSIONS),
        threads=parse_threads(threads),
        memory_budget=0 if memory_budget is None else parse_memory_budget(memory_budget),
        overwrite=as_bool("overwrite", overwrite),
        progress=as_progress_callback(progress, "cells"),
    )


def info(path: Path, *, layer: str = "X") -> dict[str, Any]:
    """Say what a file or shard directory holds, without reading its values.

    Parameters
    ----------
    path
        An ``.h5ad`` file or a shard directory.
    layer
        ``"X"``, ``"raw/X"``, or the name of a layer.

    Returns
    -------
    dict
        What ``cellfeed info --json`` prints.
    """
    return json.loads(_core.describe(as_path("path", path), as_text("layer", layer)))
