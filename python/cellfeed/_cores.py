"""Collections of the core: of files, of AnnData in memory, and of both."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from . import _core
from ._arguments import as_path, is_anndata, is_url
from ._cells.matrices import Layer, core_layers
from ._cells.open_options import OpenOptions
from ._copies import shown_copies
from ._options import Path
from ._progress import as_progress_callback
from .encoders import label_maps
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    import anndata

# A path, or what is in memory.
Item: TypeAlias = "str | anndata.AnnData"

_log = logging.getLogger("cellfeed.opening")


def cache_folder(cache_dir: Path | None) -> str | None:
    # The core's word for "auto" is "". A process elsewhere finds the same folder.
    if cache_dir is None:
        return None
    folder = as_path("cache_dir", cache_dir)
    if is_url(folder):
        raise InvalidArgumentError(f"cache_dir must be a folder of a local disk, not {folder!r}")
    return "" if folder == "auto" else os.path.abspath(folder)


def files_core(paths: list[str], options: OpenOptions) -> _core.Collection:
    with shown_copies(paths):
        core = _open_matrix(paths, options, options.layer)
    further = options.matrices.paths
    core = core.with_matrices([(path, _open_matrix(paths, options, path)) for path in further])
    return _finished(core, options)


def _open_matrix(paths: list[str], options: OpenOptions, layer: Layer) -> _core.Collection:
    # Columns of obsm are no genes.
    of_obsm = _is_obsm(layer)
    return _core.Collection.open(
        paths, "" if of_obsm else options.join or "", None if of_obsm else options.genes,
        options.make_unique, core_layers(layer), options.cache_bytes, options.access,
        options.verify, options.cache_dir, _log.warning,
        as_progress_callback(None, "cells"), options.genome or "", options.feature_type or "",
        options.modality or "", options.transpose, [] if of_obsm else options.var_keys,
        options.cache == "rows",
        (
            options.genes_column or "", options.values_column or "", options.var,
            options.obs_columns,
        ),
        options.is_to_write,
    )  # fmt: skip


def _finished(core: _core.Collection, options: OpenOptions) -> _core.Collection:
    if options.mixed_processing == "allow":
        core = core.with_mixed_processing()
    # The names of obs columns cost a look at every file.
    if options.categories is None and options.unknown_label is None:
        return core
    return core.with_labels(label_maps(options.categories, options.unknown_label, core.obs_names))


def anndata_core(
    adata: anndata.AnnData, options: OpenOptions, obs_table: _core.Table
) -> _core.Collection:
    """A copy of an AnnData, with its further matrices and labels.

    Parameters
    ----------
    adata
        As for :func:`cellfeed.open`.
    options
        How it is opened.
    obs_table
        Of ``adata.obs``, by ``table_of``.
    """
    core = _copy(adata, options, options.layer, obs_table, options.genes, "AnnData in memory")
    further = [
        (path, _copy(adata, options, path, obs_table, options.genes, "AnnData in memory"))
        for path in options.matrices.paths
    ]
    return _finished(core.with_matrices(further), options)


def _copy(
    adata: anndata.AnnData,
    options: OpenOptions,
    layer: Layer,
    obs_table: _core.Table,
    genes: list[str] | None,
    name: str,
) -> _core.Collection:
    from ._cells.anndata_arrays import csr_arrays, first_layer, processing_of

    matrix = first_layer(adata, layer) if isinstance(layer, list) else layer
    of_obsm = _is_obsm(matrix)
    indptr, indices, values, gene_table = csr_arrays(adata, matrix)
    return _core.Collection.from_memory(
        indptr, indices, values, values.dtype.name, gene_table.num_rows, obs_table, gene_table,
        name, options.make_unique, None if of_obsm else genes, [] if of_obsm else options.var_keys,
        *(processing_of(adata, name) if matrix == "X" else ("{}", False, False)),
    )  # fmt: skip


def several_core(
    items: Sequence[Item], options: OpenOptions, obs_tables: Mapping[int, _core.Table]
) -> _core.Collection:
    """Files and AnnData in memory, in their order, as one.

    Parameters
    ----------
    items
        Paths, and AnnData in memory.
    options
        How they are opened.
    obs_tables
        The obs of each AnnData, by its place among the items.
    """

    def joined(matrix: Layer) -> _core.Collection:
        of_obsm = _is_obsm(matrix)
        parts = list(_parts(items, options, obs_tables, matrix))
        if of_obsm:
            _require_equal_columns(parts, str(matrix))
        return _core.Collection.joined(
            parts, "" if of_obsm else options.join or "", None if of_obsm else options.genes,
            options.make_unique and not of_obsm, [] if of_obsm else options.var_keys,
            options.cache_bytes,
        )  # fmt: skip

    core = joined(options.layer)
    core = core.with_matrices([(path, joined(path)) for path in options.matrices.paths])
    return _finished(core, options)


def _parts(
    items: Sequence[Item],
    options: OpenOptions,
    obs_tables: Mapping[int, _core.Table],
    matrix: Layer,
) -> Iterator[_core.Collection]:
    # How their genes are joined is settled once all are there.
    apart = replace(options, join="outer", genes=None)
    for in_memory, group in groupby(enumerate(items), lambda entry: is_anndata(entry[1])):
        if not in_memory:
            yield _open_matrix([path for _, path in group], apart, matrix)
            continue
        for number, adata in group:
            table, name = obs_tables[number], f"AnnData {number} in memory"
            yield _copy(adata, apart, matrix, table, None, name)


def _require_equal_columns(parts: list[_core.Collection], matrix: str) -> None:
    """Columns of obsm are not joined."""
    first = parts[0]
    for part in parts:
        if part.n_genes != first.n_genes:
            raise InvalidArgumentError(
                f"{part.store_info(0)['path']}: '{matrix}' has {part.n_genes} columns, and "
                f"{first.n_genes} in {first.store_info(0)['path']}"
            )
        if part.gene_names != first.gene_names:
            raise InvalidArgumentError(
                f"{part.store_info(0)['path']}: the columns of '{matrix}' have other names in "
                f"{first.store_info(0)['path']}"
            )


def _is_obsm(matrix: Layer) -> bool:
    return isinstance(matrix, str) and matrix.startswith("obsm/")
