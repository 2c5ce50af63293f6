"""Whole files in, whole files out: shards and exports."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import (
    as_bool,
    as_choice,
    as_chosen_names,
    as_int,
    as_path,
    as_text,
    check_options,
)
from ._cells.genes import report_left_out, report_missing_genes
from ._conversion_arguments import (
    absolute,
    axis_options,
    chosen_cells,
    existing,
    input_of_all,
    input_paths,
    obs_choice,
    resources,
    settled_when_opened,
    tenx_choice,
)
from ._dask import check_client, write_on_cluster
from ._leftovers import report_leftovers
from ._options import (
    GENE_ORDERS,
    LAYOUTS,
    Data,
    GeneOrder,
    Genes,
    Join,
    Layout,
    MissingGenes,
    Path,
    ShardingOptions,
)
from ._progress import Progress
from .collection import CellCollection
from .shard_plan import ShardPlan, begin

if TYPE_CHECKING:
    from typing import Unpack

    from dask.distributed import Client

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
        Genes of the vocabulary that no input has: empty columns.
    n_genes_left_out
        Genes of one input, the one with most of them, that ``join="inner"`` or ``gene_vocab``
        keeps out of the shards. Each cell's total over all of them is kept, for
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
    adata_path: Data | CellCollection,
    output_dir: str | os.PathLike[str],
    gene_vocab: Genes | None = None,
    shard_size: int = 100_000,
    *,
    layout: Layout = "packed",
    layer: str = "X",
    layers: Sequence[str] | str | None = None,
    obsm: Sequence[str] | str | None = None,
    obs: Sequence[str] | str | None = None,
    exclude_obs: Sequence[str] | str | None = None,
    genome: str | None = None,
    feature_type: str | None = None,
    gene_order: GeneOrder = "source",
    join: Join | None = None,
    missing_genes: MissingGenes = "warn",
    shuffle: bool = False,
    seed: int = 0,
    var_key: Sequence[str] | str | None = None,
    make_unique: bool = False,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress = None,
    client: Client | None = None,
) -> ShardingResult:
    """Convert files to a directory of shards, in bounded memory whatever their size.

    Nothing is lost: values, genes, and every obs and var column come back as they were, by
    :func:`cellfeed.open` and by ``cellfeed export``. A run that is killed leaves finished shards
    and nothing half-written; ``resume=True`` continues it and ends with the bytes of an undisturbed
    run.

    Parameters
    ----------
    adata_path
        An ``.h5ad`` file, a zarr store, a 10x ``.h5`` file or ``.mtx`` folder, a glob such as
        ``"atlas/*.h5ad"``, a shard directory, a list of these in the order of the cells, an
        :class:`anndata.AnnData`, or cells of :func:`cellfeed.open`: all of them, or what
        ``cells.filter(...)``, ``cells.split(...)["train"]`` or ``cells[rows, genes]`` chose. Cells
        are written with the genes, layers and obsm that they were opened with, and the options that
        decide these belong to ``open``; obs is that of the files, with all of their categories. The
        manifest says what was chosen, and ``_source_row`` which rows.
    output_dir
        Directory to write: new or empty, unless ``resume`` or ``overwrite`` say otherwise.
    gene_vocab
        A :class:`~cellfeed.data.vocab.GeneVocab` (or a list of names) that fixes the gene axis.
        Genes it lacks are dropped, genes that no input has become empty columns.
    shard_size
        Cells of a shard. Larger: fewer files, more to repeat after an interruption.
    layout
        ``"packed"``: bit-packed sparse records. ``"dense"``: float32 ``.npy`` files that numpy
        maps, much larger.
    layer
        ``"X"``, ``"raw/X"``, or the name of a layer: what is X of the shards.
    layers, obsm
        Names of layers and of arrays of ``obsm`` to write beside it, which all inputs must have;
        shards are then opened with ``layers=`` and ``obsm=``, as files are. Layers have the genes
        of ``layer``, joined as those are. Arrays of ``obsm`` keep their dtype.
    obs, exclude_obs
        Columns of obs to write, or those to leave out; all are written by default.
    genome, feature_type
        Of 10x files, as for :func:`cellfeed.open`.
    gene_order
        ``"source"``: column j of a shard is column j of the file. ``"mean"``: genes by falling mean
        expression, 20 to 25 % smaller; the inputs are read twice.
    join
        ``"inner"`` or ``"outer"``, for inputs with different genes.
    missing_genes
        What is done when genes of ``gene_vocab`` are in no input and become empty columns, or an
        input has none of them: ``"warn"``, ``"zero"`` or ``"error"``, as for :func:`cellfeed.open`.
    shuffle
        Write the cells of all inputs in one random order, every order equally likely, so that even
        blocks of neighbouring cells are random samples. Takes two passes, and as much temporary
        space in ``output_dir`` as the shards. The obs columns ``_source_file`` and ``_source_row``
        say where each cell came from.
    seed
        Of the shuffle: the same inputs and seed give the same shards, whatever the threads and the
        budget (docs/sampling.md, "Shuffled shards").
    var_key
        The column of ``var`` that names the genes, or columns of which each input's first that it
        has counts, as for :func:`cellfeed.open`; ``var`` keeps the names as ``var_names``.
    make_unique
        Number repeated gene names instead of refusing them.
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
    client
        A :class:`dask.distributed.Client`: its workers write the shards, one a task, to the same
        bytes; all of them see the inputs and ``output_dir`` under the same paths. ``threads`` and
        ``memory_budget`` are then of each worker (docs/many_machines.md).

    Returns
    -------
    ShardingResult

    Warns
    -----
    UserWarning
        Uploads that a killed writer left in a bucket of S3 could not be removed (docs/cloud.md).

    Raises
    ------
    ClusterError
        Of a ``client``: the scheduler went away, or a worker ended or has another cellfeed.
    InvalidArgumentError, AlreadyExistsError, NotFoundError, CorruptDataError, NoSpaceError,
    PrecisionError
        All derive from :class:`~cellfeed.errors.CellfeedError` and say what, where and what to do.
    """
    options: ShardingOptions = {
        "layout": layout, "layer": layer, "layers": layers, "obsm": obsm, "obs": obs,
        "exclude_obs": exclude_obs, "genome": genome, "feature_type": feature_type,
        "gene_order": gene_order, "join": join, "missing_genes": missing_genes,
        "shuffle": shuffle, "seed": seed, "var_key": var_key,
        "make_unique": make_unique, "resume": resume,
        "overwrite": overwrite,
    }  # fmt: skip
    if client is not None:
        check_client(client)
        plan = plan_shards(
            adata_path, output_dir, gene_vocab, shard_size, threads=threads,
            memory_budget=memory_budget, progress=progress, **options,
        )  # fmt: skip
        return write_on_cluster(plan, client, threads, memory_budget, progress)
    given = _core_options(output_dir, gene_vocab, shard_size, options)
    shared = resources(threads, memory_budget, progress)
    cells = chosen_cells(adata_path, **settled_when_opened(gene_vocab, options))
    with input_paths([] if cells else adata_path) as inputs:
        made = _core.convert_to_shards(inputs, cells=cells, **given, **shared)
    return _result(made, given["output_dir"], None if cells else missing_genes)


def plan_shards(
    adata_path: Data | CellCollection,
    output_dir: str | os.PathLike[str],
    gene_vocab: Genes | None = None,
    shard_size: int = 100_000,
    *,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    progress: Progress = None,
    **options: Unpack[ShardingOptions],
) -> ShardPlan[ShardingResult]:
    """Begin a conversion whose shards other processes write, by any task runner.

    Three calls: this one, in the process that holds the folder; :func:`cellfeed.write_shards`, in
    as many as there are; and :func:`cellfeed.finish_shards`, in the first again. The bytes are
    those of :func:`convert_to_shards`, whose arguments it takes. Nothing is written of cells yet,
    but with ``gene_order="mean"`` they are all read.

    Parameters
    ----------
    adata_path
        As for :func:`convert_to_shards`, but in files: every process opens them. Relative paths
        become absolute, and shards name their sources so.
    output_dir, gene_vocab, shard_size
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
    source, inputs = input_of_all(adata_path, "adata_path")
    given = _core_options(output_dir, gene_vocab, shard_size, options)
    chosen_cells(source, **settled_when_opened(gene_vocab, options))
    given |= {"inputs": inputs, "output_dir": absolute(given["output_dir"])}
    missing = None if source else options.get("missing_genes", "warn")
    return begin(
        given, source, resources(threads, memory_budget, progress),
        lambda made: _result(made.finish(), given["output_dir"], missing),
    )  # fmt: skip


def _core_options(
    output_dir: Path, gene_vocab: Genes | None, shard_size: int, options: ShardingOptions
) -> dict[str, Any]:
    """What the core takes, but for the inputs and resources."""
    return {
        "output_dir": as_path("output_dir", output_dir),
        "shard_size": as_int("shard_size", shard_size, 1),
        "layout": as_choice("layout", options.get("layout", "packed"), LAYOUTS),
        "layer": as_text("layer", options.get("layer", "X")),
        "layers": as_chosen_names("layers", options.get("layers")) or [],
        "obsm": as_chosen_names("obsm", options.get("obsm")) or [],
        "gene_order": as_choice("gene_order", options.get("gene_order", "source"), GENE_ORDERS),
        "shuffle": as_bool("shuffle", options.get("shuffle", False)),
        "seed": as_int("seed", options.get("seed", 0), 0, 2**64 - 1),
        **axis_options(gene_vocab, options),
        **obs_choice(options.get("obs"), options.get("exclude_obs")),
        "existing": existing(options),
        **tenx_choice(options.get("genome"), options.get("feature_type")),
    }


def _result(made: dict[str, Any], path: str, missing_genes: MissingGenes | None) -> ShardingResult:
    """``missing_genes``: None for a collection, of which it was said when it was opened."""
    absent, left_out = made.pop("absent_genes_text"), made.pop("left_out_text")
    if missing_genes is not None:
        report_missing_genes(absent, missing_genes, stacklevel=3)
    report_left_out(left_out, stacklevel=3)
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
        **tenx_choice(genome, feature_type),
        modality="" if modality is None else as_text("modality", modality),
        transpose=None if transpose is None else as_bool("transpose", transpose),
    )
    description: dict[str, Any] = json.loads(text)
    return description
