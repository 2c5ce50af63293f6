"""Shards: files packed once, so that a random cell is one small read (docs/format/shard.md)."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .. import _core
from .._checks import as_bool, as_choice, as_int, as_path, as_paths, as_text
from .._genes import check_missing_genes, gene_list, report_missing_genes
from .._options import GeneOrder, Join, Layout
from .._progress import as_progress_callback
from .._sizes import parse_memory_budget, parse_threads
from ..errors import CorruptDataError, InvalidArgumentError

__all__ = ["ShardingResult", "convert_to_shards", "validate_shard_dir"]

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
        keeps out of the shards. The total of a cell that ``NormalizeTotal`` takes of the shards
        is without them.
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
    gene_order: GeneOrder = "source",
    join: Join | None = None,
    missing_genes: str = "warn",
    shuffle: bool = False,
    seed: int = 0,
    make_unique: bool = False,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Any = None,
) -> ShardingResult:
    """Convert files to a directory of shards, in bounded memory whatever their size.

    Nothing is lost: values, genes, and every obs and var column come back as they were, by
    :func:`cellfeed.open` and by ``cellfeed export``. A run that is killed leaves finished shards
    and nothing half-written; ``resume=True`` continues it and ends with the bytes of an undisturbed
    run.

    Parameters
    ----------
    adata_path
        An ``.h5ad`` file, a glob such as ``"atlas/*.h5ad"``, a shard directory, a list of these in
        the order of the cells, or an :class:`anndata.AnnData`.
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
        ``"X"``, ``"raw/X"``, or the name of a layer.
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
    make_unique
        Number repeated gene names instead of refusing them.
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
    check_missing_genes(missing_genes)
    callback = as_progress_callback(progress, "cells")
    directory = as_path("output_dir", output_dir)
    with _input_paths(adata_path) as inputs:
        result = _core.convert_to_shards(
            inputs,
            directory,
            shard_size=as_int("shard_size", shard_size, 1),
            layout=as_choice("layout", layout, ("packed", "dense")),
            layer=as_text("layer", layer),
            gene_order=as_choice("gene_order", gene_order, ("source", "mean")),
            genes=[] if gene_vocab is None else gene_list(gene_vocab, "gene_vocab"),
            refuse_absent_genes=missing_genes == "error",
            join="" if join is None else as_choice("join", join, ("inner", "outer")),
            shuffle=as_bool("shuffle", shuffle),
            seed=as_int("seed", seed, 0, 2**64 - 1),
            make_unique=as_bool("make_unique", make_unique),
            threads=parse_threads(threads),
            memory_budget=0 if memory_budget is None else parse_memory_budget(memory_budget),
            existing="resume" if resume else "overwrite" if overwrite else "refuse",
            progress=callback,
        )
    report_missing_genes(result.pop("absent_genes_text"), missing_genes, stacklevel=2)
    if result["n_genes_left_out"]:
        # Who gives a vocabulary has chosen the genes.
        _log.log(
            logging.WARNING if gene_vocab is None else logging.INFO,
            "up to %d genes of a file are left out of the shards, so that NormalizeTotal over them "
            "counts the genes that are kept; join='outer' keeps all",
            result["n_genes_left_out"],
        )
    return ShardingResult(path=directory, **result)


def validate_shard_dir(
    shard_dir: str | os.PathLike[str], *, threads: int | None = None, progress: Any = None
) -> bool:
    """Check every byte of a shard directory against its checksums.

    Parameters
    ----------
    shard_dir
        The directory.
    threads
        Threads that read; all the machine allows by default.
    progress
        ``True``, ``False``, ``None`` (on a terminal), or a function ``f(phase, done, total,
        rate)``.

    Returns
    -------
    bool
        ``True``; anything else is an exception, so that a bare call is a check.

    Raises
    ------
    CorruptDataError
        Naming the file, shard, segment and bytes of each damaged place; ``damages`` lists them all
        as dicts.
    NotFoundError
        There is no finished shard directory.
    """
    path = as_path("shard_dir", shard_dir)
    damages = _core.verify(
        path,
        threads=parse_threads(threads),
        progress=as_progress_callback(progress, "bytes"),
    )
    if damages:
        error = CorruptDataError(_damage_text(path, damages))
        error.path = path
        error.damages = damages  # type: ignore[attr-defined]
        raise error
    return True


_DAMAGES_SHOWN = 10


def _damage_text(path: str, damages: Sequence[dict[str, Any]]) -> str:
    lines = []
    for damage in damages[:_DAMAGES_SHOWN]:
        place = damage["file"]
        if damage["shard"] >= 0:
            place += f", shard {damage['shard']}"
        if damage["segment"] >= 0:
            place += f", segment {damage['segment']}"
        if damage["end"] > damage["begin"]:
            place += f", bytes {damage['begin']} to {damage['end']}"
        lines.append(f"  {place}: {damage['what']}")
    if len(damages) > _DAMAGES_SHOWN:
        lines.append(f"  ... and {len(damages) - _DAMAGES_SHOWN} more")
    return "\n".join(
        [f"{path}: damaged in {len(damages)} places; convert the sources again:", *lines]
    )


@contextmanager
def _input_paths(source: Any) -> Iterator[list[str]]:
    if hasattr(source, "write_h5ad"):
        with tempfile.TemporaryDirectory(prefix="cellfeed-") as folder:
            path = os.path.join(folder, "in_memory.h5ad")
            source.write_h5ad(path)
            yield [path]
    else:
        yield as_paths("adata_path", source)
