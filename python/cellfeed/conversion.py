"""Whole files in, whole files out: shards and exports."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _core
from ._arguments import (
    as_bool,
    as_choice,
    as_folder,
    as_int,
    as_names,
    as_path,
    as_paths,
    as_text,
)
from ._cells.genes import gene_list, report_left_out, report_missing_genes
from ._conversion_arguments import (
    chosen_cells,
    input_paths,
    join_text,
    resources,
    tenx_choice,
)
from ._options import (
    COMPRESSIONS,
    GENE_ORDERS,
    LAYOUTS,
    MISSING_GENES,
    Compression,
    GeneOrder,
    Join,
    Layout,
    MissingGenes,
    Path,
)
from ._progress import Progress
from .collection import CellCollection
from .errors import InvalidArgumentError

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
    adata_path: Any,
    output_dir: str | os.PathLike[str],
    gene_vocab: Any = None,
    shard_size: int = 100_000,
    *,
    layout: Layout = "packed",
    layer: str = "X",
    layers: Sequence[str] | str | None = None,
    obsm: Sequence[str] | str | None = None,
    genome: str | None = None,
    feature_type: str | None = None,
    gene_order: GeneOrder = "source",
    join: Join | None = None,
    missing_genes: MissingGenes = "warn",
    shuffle: bool = False,
    seed: int = 0,
    var_key: Sequence[str] | str | None = None,
    make_unique: bool = False,
    allow_external: Path | None = None,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress = None,
) -> ShardingResult:
    """Convert files to a directory of shards, in bounded memory whatever their size.

    Nothing is lost: values, genes, and every obs and var column come back as they were, by
    :func:`cellfeed.open` and by ``cellfeed export``. A run that is killed leaves finished shards
    and nothing half-written; ``resume=True`` continues it and ends with the bytes of an undisturbed
    run.

    Parameters
    ----------
    adata_path
        An ``.h5ad`` file, a 10x ``.h5`` file or ``.mtx`` folder, a glob such as
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
    allow_external
        A folder whose files the inputs may lead to, as for :func:`cellfeed.open`.
    threads
        Threads that read, decode and encode; all the machine allows by default.
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

    Raises
    ------
    InvalidArgumentError, AlreadyExistsError, NotFoundError, CorruptDataError, NoSpaceError,
    PrecisionError
        All derive from :class:`~cellfeed.errors.CellfeedError` and say what, where and what to do.
    """
    resume, overwrite = as_bool("resume", resume), as_bool("overwrite", overwrite)
    if resume and overwrite:
        raise InvalidArgumentError(
            "resume continues what is there and overwrite replaces it: choose one"
        )
    as_choice("missing_genes", missing_genes, MISSING_GENES)
    shared = resources(threads, memory_budget, progress)
    directory = as_path("output_dir", output_dir)
    cells = chosen_cells(
        adata_path, gene_vocab=(gene_vocab, None), layer=(layer, "X"), layers=(layers, None),
        obsm=(obsm, None), genome=(genome, None), feature_type=(feature_type, None),
        join=(join, None), var_key=(var_key, None), make_unique=(make_unique, False),
        allow_external=(allow_external, None),
    )  # fmt: skip
    with input_paths([] if cells else adata_path) as inputs:
        result = _core.convert_to_shards(
            inputs,
            directory,
            shard_size=as_int("shard_size", shard_size, 1),
            layout=as_choice("layout", layout, LAYOUTS),
            layer=as_text("layer", layer),
            layers=[] if layers is None else as_names("layers", layers),
            obsm=[] if obsm is None else as_names("obsm", obsm),
            gene_order=as_choice("gene_order", gene_order, GENE_ORDERS),
            genes=[] if gene_vocab is None else gene_list(gene_vocab, "gene_vocab"),
            refuse_absent_genes=missing_genes == "error",
            join=join_text(join),
            shuffle=as_bool("shuffle", shuffle),
            seed=as_int("seed", seed, 0, 2**64 - 1),
            var_keys=[] if var_key is None else as_names("var_key", var_key),
            make_unique=as_bool("make_unique", make_unique),
            allow_external=as_folder("allow_external", allow_external),
            existing="resume" if resume else "overwrite" if overwrite else "refuse",
            cells=cells,
            **tenx_choice(genome, feature_type),
            **shared,
        )
    absent, left_out = result.pop("absent_genes_text"), result.pop("left_out_text")
    if cells is None:  # of a collection it was said when it was opened
        report_missing_genes(absent, missing_genes, stacklevel=2)
    report_left_out(left_out, stacklevel=2)
    if result["n_genes_left_out"]:
        _log.info(
            "up to %d genes of a file are left out of the shards, which keep each cell's total "
            "over all of them for NormalizeTotal; join='outer' keeps all genes",
            result["n_genes_left_out"],
        )
    return ShardingResult(path=directory, **result)


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
    allow_external: Path | None = None,
    keep_stored_gene_order: bool = False,
    keep_source_columns: bool = False,
    compression: Compression = "none",
    threads: int | None = None,
    memory_budget: int | str | None = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> dict[str, Any]:
    """Write shards or files as one ``.h5ad``, equal to what the shards were made from.

    Parameters
    ----------
    paths
        A shard directory, a file, a glob, a list of these, or cells of :func:`cellfeed.open`, as
        for :func:`convert_to_shards`: they are written with the genes that they have, in their
        order.
    output
        The file to write.
    layer, genome, feature_type, join, var_key, make_unique, allow_external
        As for :func:`cellfeed.open`.
    layers, obsm
        Names of layers and of arrays of ``obsm`` to write beside it. By default, if neither is
        given, all that shards hold, and none of other files.
    keep_stored_gene_order
        Keep the order of shards in mean order, instead of giving the source's back.
    keep_source_columns
        Keep the obs columns ``_source_file`` and ``_source_row`` that sharding added.
    compression
        ``"none"`` or ``"gzip"``.
    threads, memory_budget, overwrite, progress
        As for :func:`convert_to_shards`; there is no ``resume``, a file is written as a whole.

    Returns
    -------
    dict
        ``n_cells``, ``n_genes``, ``nnz``, ``bytes``, ``seconds``, ``cells_per_second``.
    """
    cells = chosen_cells(
        paths, layer=(layer, "X"), layers=(layers, None), obsm=(obsm, None), genome=(genome, None),
        feature_type=(feature_type, None), join=(join, None), var_key=(var_key, None),
        make_unique=(make_unique, False), allow_external=(allow_external, None),
        keep_stored_gene_order=(keep_stored_gene_order, False),
    )  # fmt: skip
    result: dict[str, Any] = _core.export_h5ad(
        [] if cells else as_paths("paths", paths),
        as_path("output", output),
        layer=as_text("layer", layer),
        layers=_names_if_any("layers", layers, obsm),
        obsm=_names_if_any("obsm", obsm, layers),
        join=join_text(join),
        var_keys=[] if var_key is None else as_names("var_key", var_key),
        make_unique=as_bool("make_unique", make_unique),
        allow_external=as_folder("allow_external", allow_external),
        keep_stored_gene_order=as_bool("keep_stored_gene_order", keep_stored_gene_order),
        keep_source_columns=as_bool("keep_source_columns", keep_source_columns),
        cells=cells,
        compression=as_choice("compression", compression, COMPRESSIONS),
        overwrite=as_bool("overwrite", overwrite),
        **tenx_choice(genome, feature_type),
        **resources(threads, memory_budget, progress),
    )
    report_left_out(result.pop("left_out_text"), stacklevel=2)
    return result


def info(
    path: Path,
    *,
    layer: str = "X",
    allow_external: Path | None = None,
    genome: str | None = None,
    feature_type: str | None = None,
) -> dict[str, Any]:
    """Say what a file or shard directory holds, without reading its values.

    Parameters
    ----------
    path
        A file or folder that :func:`cellfeed.open` takes.
    layer
        ``"X"``, ``"raw/X"``, or the name of a layer.
    allow_external, genome, feature_type
        As for :func:`cellfeed.open`.

    Returns
    -------
    dict
        What ``cellfeed info --json`` prints.
    """
    text = _core.describe(
        as_path("path", path),
        as_text("layer", layer),
        as_folder("allow_external", allow_external),
        **tenx_choice(genome, feature_type),
    )
    description: dict[str, Any] = json.loads(text)
    return description


def _names_if_any(
    name: str, names: Sequence[str] | str | None, others: Sequence[str] | str | None
) -> list[str] | None:
    """None where neither is given."""
    if names is None:
        return None if others is None else []
    return as_names(name, names)
