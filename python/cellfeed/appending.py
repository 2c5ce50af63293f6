"""More cells for a directory of shards."""

from __future__ import annotations

import os
import warnings as _warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _core
from ._arguments import as_bool, as_choice, as_int, as_path
from ._cells.genes import report_left_out, report_missing_genes
from ._conversion_arguments import cells_to_write, obs_choice, resources
from ._leftovers import report_uploads
from ._options import EXTRA_GENES, MISSING_GENES, Data, ExtraGenes, MissingGenes
from ._progress import Progress
from .collection import CellCollection


@dataclass(frozen=True)
class AppendResult:
    """What :func:`append_to_shards` did. Usable wherever a path is: ``cf.open(result)``.

    Attributes
    ----------
    path
        The shard directory.
    n_cells_added, n_shards_added
        Cells that were appended, and the shards that hold them.
    n_cells, n_genes, nnz, n_shards, not_finite, bytes
        Of the directory now, as of :class:`~cellfeed.conversion.ShardingResult`.
    n_shards_resumed
        New shards that an earlier, interrupted run had finished.
    n_missing_genes
        Genes of the shards that a source lacks, of the source that lacks most.
    n_genes_left_out
        Genes of one source, the one with most of them, that the shards lack. Each cell's total over
        all of them is kept, for ``NormalizeTotal``.
    warnings
        What else there is to say.
    seconds, cells_per_second
        Time of this run.
    """

    path: str
    n_cells_added: int
    n_shards_added: int
    n_cells: int
    n_genes: int
    nnz: int
    n_shards: int
    n_shards_resumed: int
    not_finite: int
    n_missing_genes: int
    n_genes_left_out: int
    warnings: list[str]
    bytes: int
    seconds: float
    cells_per_second: float

    def __fspath__(self) -> str:
        return self.path


def append_to_shards(
    cells: Data | CellCollection,
    shards: str | os.PathLike[str],
    *,
    shard_size: int | None = None,
    missing_genes: MissingGenes = "warn",
    extra_genes: ExtraGenes = "error",
    shuffle: bool = False,
    seed: int = 0,
    force: bool = False,
    resume: bool = False,
    obs: Sequence[str] | str | None = None,
    exclude_obs: Sequence[str] | str | None = None,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    progress: Progress = None,
) -> AppendResult:
    """Add cells behind those of a shard directory, in new shards.

    Nothing that is there is written again but the manifest, which comes last: a run that is killed
    leaves the shards as they were. Genes, layers, ``obsm``, layout and the order of genes are those
    of the shards, and obs is united by the rule of :func:`cellfeed.open`: what is read afterwards
    is what the shards and the files give when they are opened together. Collections that are open
    go on with the cells that they know; the state of a loader is of those, and is refused by
    another.

    Parameters
    ----------
    cells
        Cells of :func:`cellfeed.open`, opened with the genes of the shards
        (``genes=cellfeed.open(shards).var_names``) and the layers and obsm that they hold. A path,
        a glob, a list of these or an :class:`anndata.AnnData` is opened so, with the layer that
        the shards hold of the files they were made from.
    shards
        The directory that :func:`convert_to_shards` or :func:`preprocess` wrote.
    shard_size
        Cells of a new shard; as those that are there by default.
    missing_genes
        What is done when a source lacks genes of the shards, which are zeros there: ``"warn"``
        gives a :class:`~cellfeed.errors.MissingGenesWarning`, ``"zero"`` says nothing,
        ``"error"`` refuses.
    extra_genes
        What is done when a file has genes that the shards lack: ``"error"``, or ``"drop"``: they
        are left out, and each cell keeps its total over all of them, for ``NormalizeTotal``. The
        genes of a collection were chosen when it was opened, so ``"drop"`` holds for it.
    obs, exclude_obs
        As for :func:`convert_to_shards`.
    shuffle, seed
        Write the new cells in one random order. They still come behind those that are there: where
        all cells are to be in one order, convert all files again.
    force
        Also append sources whose cells the shards hold already, and have them twice: told by what
        files hold, not by their names. And sources of fractions where the shards hold whole
        numbers, or the other way round. Each is a warning then.
    resume
        Continue an append that was interrupted; without it, what that left is removed.
    threads, memory_budget, progress
        As for :func:`convert_to_shards`.

    Returns
    -------
    AppendResult

    Warns
    -----
    MissingGenesWarning
        See ``missing_genes``.
    UserWarning
        A file of the same name was written to the shards before; ``uns`` and ``varm`` of a single
        file are left out now; what was forced; what :func:`convert_to_shards` warns of.

    Raises
    ------
    AlreadyExistsError
        A source's cells are in the shards already, or another process writes to them.
    InvalidArgumentError
        A source has other genes (see ``extra_genes``), other values (processed otherwise, fractions
        beside whole numbers), or its obs cannot be united with that of the shards.
    NoSuchKeyError
        A source has no gene of the shards, or lacks a layer of theirs.
    NotFoundError
        There are no finished shards.
    CorruptDataError, NoSpaceError, PrecisionError, UnsupportedError
        As for :func:`convert_to_shards`.
    """
    as_choice("missing_genes", missing_genes, MISSING_GENES)
    given: dict[str, Any] = {
        "shards": as_path("shards", shards),
        "shard_size": 0 if shard_size is None else as_int("shard_size", shard_size, 1),
        "extra_genes": as_choice("extra_genes", extra_genes, EXTRA_GENES),
        "refuse_missing_genes": missing_genes == "error",
        "shuffle": as_bool("shuffle", shuffle),
        "seed": as_int("seed", seed, 0, 2**64 - 1),
        "force": as_bool("force", force),
        "resume": as_bool("resume", resume),
        **obs_choice(obs, exclude_obs),
    }
    how: dict[str, Any] = {}
    if isinstance(cells, CellCollection):
        given["extra_genes"] = "drop"
    else:
        layer, layers, obsm, genes = _core.matrices_to_append(given["shards"], "")
        how = {"layer": layer, "layers": layers, "obsm": obsm, "genes": genes}
    shared = resources(threads, memory_budget, progress)
    with cells_to_write(cells, **how) as opened:
        made = _core.append_to_shards(opened, **given, **shared)
    report_missing_genes(made.pop("missing_genes_text"), missing_genes, stacklevel=2)
    report_left_out(made.pop("left_out_text"), stacklevel=2)
    del made["n_absent_genes"]
    report_uploads(made)
    for text in made["warnings"]:
        _warnings.warn(text, UserWarning, stacklevel=2)
    return AppendResult(path=given["shards"], **made)
