"""Whole files in, whole files out: :func:`simulate`, :func:`export_h5ad`, :func:`info`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from . import _core
from ._progress import as_progress_callback
from ._sizes import parse_bytes

Path = str | os.PathLike[str]


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
    compression: str = "none",
    threads: int = 0,
    memory_budget: int | str = "512MB",
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
        All the machine allows when 0.
    memory_budget
        Bytes; half of it may hold the real cells.
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
        os.fspath(like),
        layer=layer,
        n_cells=n_cells,
        output=os.fspath(output),
        n_files=n_files,
        seed=seed,
        order=order,
        thin=thin,
        compression=compression,
        threads=threads,
        memory_budget=parse_bytes(memory_budget),
        overwrite=overwrite,
        progress=as_progress_callback(progress, "cells"),
    )


def export_h5ad(
    paths: Path | Iterable[Path],
    output: Path,
    *,
    layer: str = "X",
    join: str | None = None,
    make_unique: bool = False,
    keep_stored_gene_order: bool = False,
    keep_source_columns: bool = False,
    compression: str = "none",
    threads: int = 0,
    memory_budget: int | str = "512MB",
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
    names = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    return _core.export_h5ad(
        [os.fspath(name) for name in names],
        os.fspath(output),
        layer=layer,
        join=join or "",
        make_unique=make_unique,
        keep_stored_gene_order=keep_stored_gene_order,
        keep_source_columns=keep_source_columns,
        compression=compression,
        threads=threads,
        memory_budget=parse_bytes(memory_budget),
        overwrite=overwrite,
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
    return json.loads(_core.describe(os.fspath(path), layer))
