"""Whole files in, whole files out: shards and exports."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import absolute, as_bool, as_choice, as_int, as_path, as_text, check_options
from ._cells.genes import report_left_out
from ._conversion_arguments import (
    cells_of_all,
    cells_to_write,
    existing,
    obs_choice,
    resources,
    text_of,
)
from ._leftovers import report_leftovers
from ._options import GENE_ORDERS, LAYOUTS, Data, GeneOrder, Layout, Path, ShardingOptions
from ._progress import Progress
from .collection import CellCollection
from .shard_plan import ShardPlan, begin

if TYPE_CHECKING:
    from typing import Unpack

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShardingResult:
    """What :func:`convert_to_shards` made. Usable wherever a path is: ``cf.open(result)``.

    Attributes
    ----------
    path
        The shard directory.
    n_cells, n_genes, nnz
        Cells, genes and stored values.
    n_shards, n_shards_resumed
        Shards in the directory, and how many of them an earlier, interrupted run had finished.
    not_finite
        NaN and infinite values, stored as they are.
    n_absent_genes
        Genes of the cells that no file has: empty columns.
    n_genes_left_out
        Genes of one input, the one with most of them, that the shards
        lack. Each cell's total over all of them is kept, for
        ``NormalizeTotal``.
    bytes
        Size of the directory's files.
    seconds, cells_per_second
        Time of this run.
    """

    path: str
    n_cells: int
    n_genes: int
    nnz: int
    n_shards: int
    n_shards_resumed: int
    not_finite: int
    n_absent_genes: int
    n_genes_left_out: int
    bytes: int
    seconds: float
    cells_per_second: float

    def __fspath__(self) -> str:
        return self.path


def convert_to_shards(
    cells: Data | CellCollection,
    output_dir: str | os.PathLike[str],
    shard_size: int = 100_000,
    *,
    layout: Layout = "packed",
    gene_order: GeneOrder = "source",
    obs: Sequence[str] | str | None = None,
    exclude_obs: Sequence[str] | str | None = None,
    shuffle: bool = False,
    seed: int = 0,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress = None,
) -> ShardingResult:
    """Write cells as a directory of shards, in bounded memory whatever their number.

    Nothing is lost: values, genes, and every obs and var column come back as they were, by
    :func:`cellfeed.open` and by ``cellfeed export``. A run that is killed leaves finished shards
    and nothing half-written; ``resume=True`` continues it and ends with the bytes of an undisturbed
    run.

    Parameters
    ----------
    cells
        Cells of :func:`cellfeed.open`: all of them, or what ``cells.filter(...)``,
        ``cells.split(...)["train"]`` or ``cells[rows, genes]`` chose. They are written with the
        genes, layers and obsm that they were opened with; obs is that of the files, with all of
        their categories. The manifest says what was chosen, and ``_source_row`` which rows. A
        path, a glob, a list of these or an :class:`anndata.AnnData` is opened with the defaults of
        :func:`cellfeed.open`.
    output_dir
        Directory to write: new or empty, unless ``resume`` or ``overwrite`` say otherwise.
    shard_size
        Cells of a shard. Larger: fewer files, more to repeat after an interruption.
    layout
        ``"packed"``: bit-packed sparse records. ``"dense"``: float32 ``.npy`` files that numpy
        maps, much larger.
    obs, exclude_obs
        Columns of obs to write, or those to leave out; all are written by default.
    gene_order
        ``"source"``: column j of a shard is column j of the file. ``"mean"``: genes by falling mean
        expression, 20 to 25 % smaller; the inputs are read twice.
    shuffle
        Write the cells of all inputs in one random order, every order equally likely, so that even
        blocks of neighbouring cells are random samples. Takes two passes, and as much temporary
        space in ``output_dir`` as the shards. The obs columns ``_source_file`` and ``_source_row``
        say where each cell came from.
    seed
        Of the shuffle: the same inputs and seed give the same shards, whatever the threads and the
        budget (docs/sampling.md, "Shuffled shards").
    threads
        Threads that read, decode and encode; all the machine allows by default, and 16 at least for
        files in buckets.
    memory_budget
        Bytes held by work under way and by caches, at least 32 MB. Default: 512 MB, or a quarter of
        what the machine or the control group has left where that is less.
    resume
        Continue an interrupted conversion; start where there is none.
    overwrite
        Replace shards that are there. Other files are never touched.
    progress
        ``True``, ``False``, ``None`` (on a terminal), or a function ``f(phase, done, total,
        rate)``.

    Returns
    -------
    ShardingResult

    Warns
    -----
    UserWarning
        Uploads that a killed writer left in a bucket of S3 could not be removed (docs/cloud.md).

    Raises
    ------
    InvalidArgumentError, AlreadyExistsError, NotFoundError, CorruptDataError, NoSpaceError,
    PrecisionError
        All derive from :class:`~cellfeed.errors.CellfeedError` and say what, where and what to do.
    """
    options: ShardingOptions = {
        "layout": layout, "gene_order": gene_order, "obs": obs, "exclude_obs": exclude_obs,
        "shuffle": shuffle, "seed": seed, "resume": resume, "overwrite": overwrite,
    }  # fmt: skip
    path = as_path("output_dir", output_dir)
    given = text_of(_core_options(shard_size, options))
    shared = resources(threads, memory_budget, progress)
    with cells_to_write(cells) as opened:
        made = _core.convert_to_shards(opened, path, given, **shared)
    return _result(made, path)


def plan_shards(
    cells: Data | CellCollection,
    output_dir: str | os.PathLike[str],
    shard_size: int = 100_000,
    *,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    progress: Progress = None,
    **options: Unpack[ShardingOptions],
) -> ShardPlan[ShardingResult]:
    """Begin a conversion whose shards other processes write, by any task runner.

    Three calls: this one, in the process that holds the folder; :func:`write_shards`, in as many
    as there are; and :func:`finish_shards`, in the first again. The bytes are those of
    :func:`cellfeed.convert_to_shards`, whose arguments it takes. No cell is written yet, but with
    ``gene_order="mean"`` they are all read.

    Parameters
    ----------
    cells
        As for :func:`convert_to_shards`, but in files: every process opens them. Relative paths
        become absolute, and shards name their sources so.
    output_dir, shard_size
        As for :func:`convert_to_shards`; every process writes to that folder.
    threads, memory_budget, progress
        Of what is done now.
    **options
        As for :func:`convert_to_shards`.

    Returns
    -------
    ShardPlan

    Raises
    ------
    UnsupportedError
        An input is not stored by rows: open it with ``cellfeed.open(..., cache_dir=...)`` first.
    AlreadyExistsError, InvalidArgumentError, NotFoundError
        As for :func:`convert_to_shards`.
    """
    check_options("plan_shards", options, list(ShardingOptions.__annotations__))
    source = cells_of_all(cells, "cells")
    path = absolute(as_path("output_dir", output_dir))
    given = {**_core_options(shard_size, options), "output_dir": path}
    return begin(
        given, source, resources(threads, memory_budget, progress),
        lambda made: _result(made.finish(), path),
    )  # fmt: skip


def _core_options(shard_size: int, options: ShardingOptions) -> dict[str, Any]:
    """What is written, as the core takes it."""
    return {
        "shard_size": as_int("shard_size", shard_size, 1),
        "layout": as_choice("layout", options.get("layout", "packed"), LAYOUTS),
        "gene_order": as_choice("gene_order", options.get("gene_order", "source"), GENE_ORDERS),
        "shuffle": as_bool("shuffle", options.get("shuffle", False)),
        "seed": as_int("seed", options.get("seed", 0), 0, 2**64 - 1),
        **obs_choice(options.get("obs"), options.get("exclude_obs")),
        "existing": existing(options),
    }


def _result(made: dict[str, Any], path: str) -> ShardingResult:
    report_left_out(made.pop("left_out_text"), stacklevel=3)
    report_leftovers(made, stacklevel=3)
    if made["n_genes_left_out"]:
        _log.info(
            "up to %d genes of a file are left out of the shards, which keep each cell's total "
            "over all of them for NormalizeTotal; join='outer' keeps all genes",
            made["n_genes_left_out"],
        )
    return ShardingResult(path=path, **made)


def info(
    path: Path,
    *,
    layer: str = "X",
    genome: str | None = None,
    feature_type: str | None = None,
    modality: str | None = None,
    transpose: bool | None = None,
) -> dict[str, Any]:
    """Say what a file or shard directory holds, without reading its values.

    Parameters
    ----------
    path
        A file or folder that :func:`cellfeed.open` takes.
    layer
        ``"X"``, ``"raw/X"``, or the name of a layer.
    genome, feature_type, modality, transpose
        As for :func:`cellfeed.open`.

    Returns
    -------
    dict
        What ``cellfeed info --json`` prints.
    """
    text = _core.describe(
        as_path("path", path),
        as_text("layer", layer),
        genome="" if genome is None else as_text("genome", genome),
        feature_type="" if feature_type is None else as_text("feature_type", feature_type),
        modality="" if modality is None else as_text("modality", modality),
        transpose=None if transpose is None else as_bool("transpose", transpose),
    )
    description: dict[str, Any] = json.loads(text)
    return description
