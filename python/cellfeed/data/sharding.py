"""Shards: files packed once, so that a random cell is one small read (docs/format/shard.md)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .. import _core
from .._progress import as_progress_callback
from .._sizes import parse_bytes
from ..errors import CorruptDataError, InvalidArgumentError, InvalidTypeError

__all__ = ["ShardingResult", "convert_to_shards", "validate_shard_dir"]


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
    layout: str = "packed",
    layer: str = "X",
    gene_order: str = "source",
    join: str | None = None,
    shuffle: bool = False,
    seed: int = 0,
    make_unique: bool = False,
    threads: int | None = None,
    memory_budget: int | str = "512MB",
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
        Bytes held by work under way and by caches, at least 32 MB.
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
    if resume and overwrite:
        raise InvalidArgumentError(
            "resume continues what is there and overwrite replaces it: choose one"
        )
    callback = as_progress_callback(progress, "cells")
    with _input_paths(adata_path) as inputs:
        result = _core.convert_to_shards(
            inputs,
            os.fspath(output_dir),
            shard_size=_as_count("shard_size", shard_size),
            layout=layout,
            layer=layer,
            gene_order=gene_order,
            genes=_gene_names(gene_vocab),
            join=join or "",
            shuffle=bool(shuffle),
            seed=_as_seed(seed),
            make_unique=make_unique,
            threads=0 if threads is None else _as_count("threads", threads),
            memory_budget=parse_bytes(memory_budget),
            existing="resume" if resume else "overwrite" if overwrite else "refuse",
            progress=callback,
        )
    return ShardingResult(path=os.fspath(output_dir), **result)


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
    path = os.fspath(shard_dir)
    damages = _core.verify(
        path,
        threads=0 if threads is None else _as_count("threads", threads),
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
    if isinstance(source, (str, os.PathLike)):
        yield [os.fspath(source)]
    elif hasattr(source, "write_h5ad"):
        with tempfile.TemporaryDirectory(prefix="cellfeed-") as folder:
            path = os.path.join(folder, "in_memory.h5ad")
            source.write_h5ad(path)
            yield [path]
    elif isinstance(source, Iterable):
        paths = list(source)
        for path in paths:
            if not isinstance(path, (str, os.PathLike)):
                raise InvalidTypeError(f"adata_path holds something that is not a path: {path!r}")
        yield [os.fspath(path) for path in paths]
    else:
        raise InvalidTypeError(
            f"adata_path must be a path, a glob, a list of paths or an AnnData: {source!r}"
        )


def _gene_names(gene_vocab: Any) -> list[str]:
    if gene_vocab is None:
        return []
    names = [str(gene) for gene in getattr(gene_vocab, "genes", gene_vocab)]
    if not names:
        raise InvalidArgumentError("gene_vocab holds no genes")
    return names


def _as_seed(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidTypeError(f"seed must be an integer: {value!r}")
    if not 0 <= value.__index__() < 2**64:
        raise InvalidArgumentError(f"seed must be at least 0 and below 2^64: {value}")
    return value.__index__()


def _as_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidTypeError(f"{name} must be an integer: {value!r}")
    if value.__index__() < 1:
        raise InvalidArgumentError(f"{name} must be at least 1: {value}")
    return value.__index__()
