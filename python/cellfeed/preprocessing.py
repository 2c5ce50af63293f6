"""Raw counts in, normalised and filtered cells out, in bounded memory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import (
    absolute,
    as_bool,
    as_choice,
    as_float,
    as_int,
    as_path,
    as_text,
    check_options,
)
from ._cells.genes import report_left_out
from ._conversion_arguments import (
    cells_of_all,
    cells_to_write,
    compression_text,
    existing,
    obs_choice,
    resources,
    text_of,
)
from ._leftovers import report_leftovers
from ._options import HVG_FLAVORS, Compression, Data, HvgFlavor, ProcessingOptions
from ._progress import Progress
from .collection import CellCollection
from .shard_plan import ShardPlan, begin

if TYPE_CHECKING:
    from typing import Unpack


@dataclass(frozen=True)
class PreprocessResult:
    """What :func:`preprocess` made. Usable wherever a path is: ``cf.open(result)``.

    Attributes
    ----------
    path
        The shard directory or the ``.h5ad`` file.
    n_cells, n_genes, nnz
        Cells, genes and stored values of the output.
    n_cells_before, n_genes_before
        Of the input.
    n_shards
        0 for a file.
    processing
        What was done to the values, as it is recorded with them.
    bytes
        Size of the output.
    seconds, cells_per_second
        Time of this run, and cells of the input in it.
    """

    path: str
    n_cells: int
    n_genes: int
    nnz: int
    n_cells_before: int
    n_genes_before: int
    n_shards: int
    processing: dict[str, Any]
    bytes: int
    seconds: float
    cells_per_second: float

    def __fspath__(self) -> str:
        return self.path


def preprocess(
    cells: Data | CellCollection,
    output: str | os.PathLike[str],
    *,
    normalize: bool = True,
    target_sum: float = 1e4,
    log_transform: bool = True,
    n_top_genes: int | None = None,
    hvg_flavor: HvgFlavor = "seurat",
    batch_key: str | None = None,
    min_genes: int = 0,
    min_cells: int = 0,
    max_mito_share: float = 1.0,
    mito_prefix: str = "MT-",
    keep_counts: bool = False,
    force: bool = False,
    obs: Sequence[str] | str | None = None,
    exclude_obs: Sequence[str] | str | None = None,
    shard_size: int = 100_000,
    compression: Compression | None = None,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress = None,
) -> PreprocessResult:
    """Normalise, log-transform and filter counts, and keep highly variable genes.

    In this order, as ``scanpy.pp`` does each: ``filter_cells`` (``min_genes``, mitochondrial
    share), ``normalize_total``, ``log1p``, ``filter_genes`` (``min_cells``),
    ``highly_variable_genes``; the totals of cells are over all genes of their file. Two passes over
    the inputs, in bounded memory: one checks every value and looks at the genes, one writes
    (``"seurat_v3"`` takes one more).
    Values are float32 and equal scanpy's within 1e-6 of their size; the genes chosen are the same.

    What was done is recorded with the data: in the manifest of shards, and in ``uns`` of an
    ``.h5ad`` (with scanpy's ``uns["log1p"]``). Data that says so is not normalised or
    log-transformed again, here or by the transforms of a loader.

    Parameters
    ----------
    cells
        As for :func:`convert_to_shards`; raw counts.
    output
        A file to write where it ends in ``.h5ad``, else a directory of shards.
    normalize, target_sum
        Scale each cell to this total.
    log_transform
        ``log(1 + value)``, natural.
    n_top_genes, hvg_flavor, batch_key
        Keep the highly variable genes that scanpy's ``highly_variable_genes`` of this flavor
        (``"seurat"``, ``"cell_ranger"``, ``"seurat_v3"``) finds; with ``batch_key``, an obs column
        of labels, in each batch and joined. As in scanpy, ``"seurat_v3"`` finds them in the counts,
        and the others in the changed values, where genes tied with the last one are kept too.
    min_genes
        Leave out cells with fewer genes.
    min_cells
        Leave out genes that fewer of the remaining cells have.
    max_mito_share, mito_prefix
        Leave out cells with a larger share (0 to 1) of counts in genes whose names begin with the
        prefix, in upper or lower case.
    keep_counts
        Keep the values as they were, of the cells and genes that stay, as layer ``"counts"``, in
        their own type.
    force
        Although the data says that it was done before, or holds fractions where counts are to be
        normalised.
    obs, exclude_obs
        As for :func:`convert_to_shards`.
    shard_size
        Cells of a shard.
    compression
        Of an ``.h5ad``: ``"none"`` or ``"gzip"``.
    threads, memory_budget, progress
        As for :func:`convert_to_shards`.
    resume
        Of shards: continue a run that was interrupted.
    overwrite
        Replace what is there, once the new is whole.

    Returns
    -------
    PreprocessResult

    Warns
    -----
    UserWarning
        As for :func:`convert_to_shards`.

    Raises
    ------
    InvalidArgumentError
        Values that are NaN, infinite, negative, or (to be normalised) fractions, with file, cell
        and gene; data that was processed before; filters that leave nothing.
    AlreadyExistsError, NotFoundError, CorruptDataError, NoSpaceError, NoSuchKeyError
        As for :func:`convert_to_shards`.
    """
    options: ProcessingOptions = {
        "normalize": normalize, "target_sum": target_sum, "log_transform": log_transform,
        "n_top_genes": n_top_genes, "hvg_flavor": hvg_flavor, "batch_key": batch_key,
        "min_genes": min_genes, "min_cells": min_cells, "max_mito_share": max_mito_share,
        "mito_prefix": mito_prefix, "keep_counts": keep_counts, "force": force,
        "obs": obs, "exclude_obs": exclude_obs, "shard_size": shard_size, "resume": resume,
        "overwrite": overwrite,
    }  # fmt: skip
    path, kind = as_path("output", output), compression_text(compression)
    given, shared = text_of(_core_options(options)), resources(threads, memory_budget, progress)
    with cells_to_write(cells) as opened:
        made = _core.preprocess(opened, path, given, kind, **shared)
    return _result(made, path)


def plan_preprocess(
    cells: Data | CellCollection,
    output: str | os.PathLike[str],
    *,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    progress: Progress = None,
    **options: Unpack[ProcessingOptions],
) -> ShardPlan[PreprocessResult]:
    """Begin a preprocessing whose shards other processes write, by any task runner.

    As :func:`plan_shards` is for :func:`cellfeed.convert_to_shards`. All cells are read now, to
    check their values and to choose genes; :func:`write_shards` reads them once more.

    Parameters
    ----------
    cells
        As for :func:`plan_shards`.
    output
        The folder of the shards; no ``.h5ad``, which one process writes.
    threads, memory_budget, progress
        Of what is done now.
    **options
        As for :func:`preprocess`.

    Returns
    -------
    ShardPlan

    Raises
    ------
    InvalidArgumentError, AlreadyExistsError, NotFoundError, CorruptDataError, NoSuchKeyError
        As for :func:`preprocess`.
    UnsupportedError
        An input is not stored by rows.
    """
    check_options("plan_preprocess", options, list(ProcessingOptions.__annotations__))
    source = cells_of_all(cells, "cells")
    path = absolute(as_path("output", output))
    return begin(
        {**_core_options(options), "output_dir": path}, source,
        resources(threads, memory_budget, progress),
        lambda made: _result(made.finish(), path),
    )  # fmt: skip


def _steps(options: ProcessingOptions) -> dict[str, Any]:
    """What is done to cells and genes, as the core takes it."""
    n_top, batch_key = options.get("n_top_genes"), options.get("batch_key")
    return {
        "normalize": as_bool("normalize", options.get("normalize", True)),
        "target_sum": as_float("target_sum", options.get("target_sum", 1e4)),
        "log_transform": as_bool("log_transform", options.get("log_transform", True)),
        "n_top_genes": 0 if n_top is None else as_int("n_top_genes", n_top, 1),
        "hvg_flavor": as_choice("hvg_flavor", options.get("hvg_flavor", "seurat"), HVG_FLAVORS),
        "batch_key": "" if batch_key is None else as_text("batch_key", batch_key),
        "min_genes": as_int("min_genes", options.get("min_genes", 0), 0),
        "min_cells": as_int("min_cells", options.get("min_cells", 0), 0),
        "max_mito_share": as_float("max_mito_share", options.get("max_mito_share", 1.0)),
        "mito_prefix": as_text("mito_prefix", options.get("mito_prefix", "MT-")),
        "keep_counts": as_bool("keep_counts", options.get("keep_counts", False)),
        "force": as_bool("force", options.get("force", False)),
    }


def _core_options(options: ProcessingOptions) -> dict[str, Any]:
    """What is done and where it goes, as the core takes it."""
    return {
        "processing": _steps(options),
        "shard_size": as_int("shard_size", options.get("shard_size", 100_000), 1),
        "layout": "packed",
        "gene_order": "source",
        "shuffle": False,
        "seed": 0,
        **obs_choice(options.get("obs"), options.get("exclude_obs")),
        "existing": existing(options),
    }


def _result(made: dict[str, Any], path: str) -> PreprocessResult:
    report_left_out(made.pop("left_out_text"), stacklevel=3)
    report_leftovers(made, stacklevel=3)
    return PreprocessResult(path=path, processing=json.loads(made.pop("processing")), **made)
