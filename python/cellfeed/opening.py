"""Opening files, or an AnnData in memory, as one collection: :func:`open`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from . import _core
from ._arguments import as_chosen_names, as_folder, as_names, is_anndata, is_url
from ._cache_warnings import report_blocks
from ._cells.genes import gene_list, known_names, report_left_out, report_missing_genes
from ._cells.open_options import OpenOptions
from ._cells.protocols import Cells
from ._cells.tables import table_of
from ._cores import Item, anndata_core, cache_folder, files_core
from ._files import Files
from ._options import (
    Access,
    Cache,
    Categories,
    Data,
    Genes,
    Join,
    MissingGenes,
    MixedProcessing,
    Path,
    UnknownLabel,
    Verify,
)
from ._several import items_of, open_several, with_default_obs
from .collection import CellCollection
from .errors import CorruptDataError, InvalidArgumentError, InvalidTypeError
from .storage import add_options, set_for_paths, taken_back_on_failure

if TYPE_CHECKING:
    import anndata


# Which files an option is for, and no AnnData in memory.
_OPTIONS_OF_FILES = {
    "genome": "10x .h5 files", "feature_type": "10x .h5 files", "modality": "MuData files",
    "transpose": ".mtx files", "genes_column": "Parquet tables", "values_column": "Parquet tables",
    "var": "Parquet tables",
}  # fmt: skip


# The cache holds inflated chunks of a compressed file. A memory_budget takes its place.
CACHE_BYTES = 256 << 20


def open(
    paths: Data,
    *,
    join: Join | None = None,
    genes: Genes | None = None,
    missing_genes: MissingGenes = "warn",
    var_key: Sequence[str] | str | None = None,
    gene_aliases: Sequence[str] | str | None = None,
    obs: Sequence[str] | str | None = None,
    categories: Categories | None = None,
    unknown_label: UnknownLabel = None,
    layer: str | list[str] | None = "X",
    layers: Sequence[str] | str | None = None,
    obsm: Sequence[str] | str | None = None,
    make_unique: bool = False,
    mixed_processing: MixedProcessing = "error",
    access: Access = "auto",
    verify: Verify = "always",
    cache_dir: Path | None = "auto",
    cache: Cache | None = None,
    offline: bool | None = None,
    genome: str | None = None,
    feature_type: str | None = None,
    modality: str | None = None,
    transpose: bool | None = None,
    genes_column: str | None = None,
    values_column: str | None = None,
    var: Path | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> CellCollection:
    """Open files as one collection of cells; nothing but metadata is read.

    Parameters
    ----------
    paths
        An ``.h5ad`` file, a modality of an ``.h5mu`` file (MuData), a zarr store (a directory or
        ``.zarr.zip``, also the table of a SpatialData), a 10x ``.h5`` file, a folder with the
        ``.mtx`` of Cell Ranger, Parse Biosciences, kb_python or alevin-fry (or the matrix itself,
        such as ``PREFIXmatrix.mtx``), a ``.parquet`` table of cells, a shard directory, a glob
        such as ``"atlas/*.h5ad"`` (sorted), an :class:`anndata.AnnData`, or a list of these: an
        AnnData in memory is copied, one in backed mode is read from its file. Paths may lie in a
        bucket (``s3://bucket/a.h5ad``) or on a server (``https://host/a.h5ad``). A file or an
        object that is there twice is an error; a copy, and a view of an AnnData, is one of its own.
    join
        How files with different genes become one table: ``"inner"`` keeps the genes of every file
        in the first one's order, ``"outer"`` the sorted union (absent genes read as 0), ``None``
        demands equal genes.
    genes
        A fixed gene axis instead of ``join``: names in the wanted order, each once, or a
        :class:`~cellfeed.data.vocab.GeneVocab`. A ``str`` is one gene. None of them in the data is
        an error.
    missing_genes
        What is done when some of ``genes`` are in no file, or a file has none of them (they read as
        0): ``"warn"`` gives one :class:`~cellfeed.errors.MissingGenesWarning`, ``"zero"`` says
        nothing, ``"error"`` refuses. ``cells.missing_genes`` lists them. The same is done where
        ``join="outer"`` puts Ensembl ids of one file beside symbols of another.
    var_key
        The column of ``var`` that names the genes, such as ``"gene_symbols"``, for joins, ``genes``
        and ``var_names``; of a list each file's first that it has, where ``"_index"`` are the
        names that the genes have without it: ``["gene_ids", "_index"]`` joins a file of symbols,
        whose ids are in a column, to one of ids. A gene without a value there is an error; repeated
        values are as repeated names (``make_unique``). ``cells.var["var_names"]`` has the names.
    gene_aliases
        Columns of ``var`` with other names of the genes, such as ``"gene_ids"``: each of ``genes``
        that is not the name of a gene is looked up there, so that names and ids may stand beside
        one another. Genes then have the names of the files. An alias of several genes is an error.
    obs
        obs columns that come with every batch of a loader by default. Of a Parquet table with a
        column for each gene, numeric columns that are named here are obs, and all others genes.
    categories
        Column -> labels in the order of their codes, or what :meth:`Encoders.load` gives: fixes the
        codes of these columns, instead of numbering the labels of the files. A label of the files
        that the list lacks is an error, unless there is an ``unknown_label``; then it is -1.
    unknown_label
        The label that means "not known", of all label columns or column -> label: it is no
        category, and its cells have code -1, as those without a label.
    layer
        What ``batch.x`` is of: ``"X"``, ``"raw/X"``, or the name of a layer. Of a list each file's
        first that it has: ``["counts", "raw/X", "X"]`` reads the counts of files that keep them in
        different places, as CELLxGENE's do (``cells.files`` says which). ``None``: obs alone,
        of files of any kind, whether they have an X or none. The cells then have no genes, and
        batches an ``x`` of no columns; ``obsm`` comes with them if it is named.
    layers
        Further matrices that come with every batch, as ``batch.layers[name]``: ``"X"``, ``"raw/X"``
        or names of layers, also as ``"layers/NAME"``. All files must have them. They are read with
        ``batch.x``, and joined as it is; ``"raw/X"`` keeps its own genes. Transforms change
        ``batch.x`` alone, but ``SelectGenes`` chooses the columns of all matrices with its genes.
    obsm
        Arrays of ``obsm`` that come with every batch, as ``batch.obsm[name]``, dense and of floats
        whatever ``output`` and ``dtype``. All files must have them, of one width. A table of
        numbers is read as one too; ``batch.obsm.var_names(name)`` are its columns.
    make_unique
        Number repeated gene names (``-1``, ``-2``, ...) as anndata does, instead of refusing them.
        Where several files have such a name, a column of ``var`` has to tell which are the same.
    mixed_processing
        What is done where values are taken of files that record different steps, as
        :func:`cellfeed.preprocess` and scanpy's ``log1p`` do (docs/preprocessing.md): ``"error"``
        refuses, ``"allow"`` takes them as they are.
    access
        How packed shards are read: ``"auto"`` maps them and asks for what is not in memory ahead of
        time, ``"map"`` maps them only, ``"pread"`` and ``"uring"`` copy through read calls,
        ``"direct"`` goes past the page cache. Other files treat all of these as ``"auto"``.
    verify
        ``"always"`` compares what is read of a shard directory with its checksums, so that damage
        is an error and never a wrong value; it takes a few hundredths of the time. ``"never"``
        leaves that out. Other files have no checksums of ours.
    cache_dir
        The folder of the cache. ``"auto"``: the folder that the environment names as
        ``CELLFEED_CACHE``, else ``~/.cache/cellfeed`` (``$XDG_CACHE_HOME/cellfeed``), which is
        also used, with a :class:`~cellfeed.errors.CacheWarning`, if another user may have written
        to the folder that was named. Rows of matrices that are not stored by rows (CSC, ``.mtx``)
        are always cached: they are written once, as packed shards. ``None`` caches nothing and
        refuses such matrices.
    cache
        What else is cached, until the file changes. ``"files"``: whole copies of files of buckets
        and servers, which is the default if ``cache_dir`` names a folder. ``"blocks"``: the blocks
        of 1 MiB that are read of them. ``"rows"``: the rows that are read of compressed files and
        of buckets, as packed records, so that the second epoch has the speed of shards. A full
        disk ends it with a :class:`~cellfeed.errors.CacheWarning`.
    offline
        ``True`` reads files of buckets and servers from whole copies in the cache, without asking
        for their version; a file that is not there is an error. ``cellfeed cache fetch PATH...``
        makes the copies. ``None``: as before for this bucket, else as ``CELLFEED_OFFLINE`` says.
    genome
        Of 10x ``.h5`` files: features of this genome only. A file of Cell Ranger 2 with a matrix
        for each of several genomes has to be told which.
    feature_type
        Of 10x files: features of this type only, or ``"all"``. Without it gene expression
        is read, as scanpy does, and a :class:`~cellfeed.errors.LeftOutWarning` says what else there
        is.
    modality
        The modality of a MuData file to read, such as ``"rna"``. Each modality is an AnnData with
        its own cells.
    transpose
        Of ``.mtx`` files: ``True`` where rows of the file are genes, as in 10x folders, ``False``
        where they are cells. Without it the names of the files decide, or the lengths of the lists
        of cells and genes where these fit only the other way; a square matrix fits both ways.
    genes_column, values_column
        Of Parquet tables with two lists for each cell: the column with the ids or names of its
        genes, and the one with their values, where their names do not tell (``"genes"``,
        ``"gene_ids"``, ``"gene_indices"``, ``"indices"``; ``"expressions"``, ``"expression"``,
        ``"values"``, ``"counts"``, ``"data"``).
    var
        Of Parquet tables of lists of ids: a Parquet table with a row for each gene. Its column
        ``"token_id"``, ``"gene_token"``, ``"gene_index"``, ``"soma_joinid"`` or ``"id"`` has the
        ids (without integers they are the numbers of the rows), its index in pandas or its first
        column of texts the names. Without it genes are named by their ids.
    storage_options
        How the buckets of the paths are reached, where the environment does not say it:
        :func:`~cellfeed.storage.set_storage_options` lists them.

    Returns
    -------
    CellCollection

    Raises
    ------
    NotFoundError, CorruptDataError, UnsupportedError, InvalidArgumentError, NoSuchKeyError
        All derive from :class:`~cellfeed.errors.CellfeedError` and name the file at fault.
    """
    if isinstance(paths, CellCollection):
        raise InvalidTypeError(
            "paths is a collection that is open already: use it as it is, cells.filter(...) for "
            "some of its cells, or give its files"
        )
    if gene_aliases is not None and genes is None:
        raise InvalidArgumentError("gene_aliases is for genes: name them, or leave it out")
    options = OpenOptions(
        join=join, genes=None if genes is None else gene_list(genes), missing_genes=missing_genes,
        var_keys=as_chosen_names("var_key", var_key) or [], categories=categories,
        unknown_label=unknown_label, layer=layer, layers=as_chosen_names("layers", layers),
        obsm=as_chosen_names("obsm", obsm), make_unique=make_unique,
        cache_bytes=CACHE_BYTES, access=access, verify=verify,
        cache_dir=cache_folder(cache_dir), cache=cache, offline=offline, genome=genome,
        feature_type=feature_type, modality=modality, transpose=transpose,
        genes_column=genes_column, values_column=values_column, var=as_folder("var", var),
        obs_columns=as_chosen_names("obs", obs) or [], mixed_processing=mixed_processing,
    )  # fmt: skip
    return _open(paths, options, gene_aliases, storage_options)


def open_to_write(
    paths: Data,
    *,
    is_shared: bool = False,
    layer: str = "X",
    layers: list[str] | None = None,
    obsm: list[str] | None = None,
    genes: list[str] | None = None,
    make_unique: bool = False,
) -> CellCollection:
    """Open files whose cells are read once, in order.

    Parameters
    ----------
    paths, layer, layers, obsm, make_unique
        As for :func:`open`.
    is_shared
        Several processes open them.
    genes
        The gene axis. Whoever writes reports what is missing.
    """
    options = OpenOptions(
        layer=layer, layers=layers or None, obsm=obsm or None, genes=genes,
        make_unique=make_unique,
        missing_genes="warn" if genes is None else "zero", cache_dir=None,
        is_to_write=not is_shared,
    )  # fmt: skip
    # The warnings are of the call of whoever writes.
    return _open(paths, options, None, None, "cells", 5 if is_shared else 6)


def _open(
    paths: Data,
    options: OpenOptions,
    gene_aliases: Sequence[str] | str | None,
    storage_options: Mapping[str, object] | None,
    name: str = "paths",
    stacklevel: int = 3,
) -> CellCollection:
    data = _data_of(paths, options, name)
    files = [item for item in data if isinstance(item, str)] if isinstance(data, list) else []
    with taken_back_on_failure(files):
        if isinstance(data, list):
            _set_storage(files, storage_options, options)
        if options.genes is not None and gene_aliases is not None:
            names = _names_of(options.genes, data, options, as_names("gene_aliases", gene_aliases))
            options = replace(options, genes=names)
        cells = _opened(data, options, options.obs_columns)
    report_missing_genes(
        cells._core.missing_genes_text, options.missing_genes, stacklevel=stacklevel
    )
    report_left_out(cells._core.left_out_text, stacklevel=stacklevel)
    report_blocks()
    return cells


def _set_storage(
    paths: list[str], given: Mapping[str, object] | None, options: OpenOptions
) -> None:
    if options.cache in ("files", "blocks") and not any(map(is_url, paths)):
        raise InvalidArgumentError(
            f"cache={options.cache!r} is for files of buckets and servers, and these are local: "
            'leave it out, or use "rows"'
        )
    if given is not None:
        set_for_paths(paths, given, options.of_objects)
    else:
        add_options(paths, options.of_objects)


def _data_of(paths: Data, options: OpenOptions, name: str) -> anndata.AnnData | list[Item]:
    """What to open: an AnnData that is in memory, or paths and such AnnData."""
    if not is_anndata(paths) or paths.isbacked:
        return items_of(paths, options.matrices.paths, name)
    if options.join is not None:
        raise InvalidArgumentError("join is for several files; an AnnData is one")
    for option, files in _OPTIONS_OF_FILES.items():
        if getattr(options, option) not in (None, ""):
            raise InvalidArgumentError(f"{option} is for {files}: leave it out")
    if options.cache is not None:
        raise InvalidArgumentError("cache is for files, and this AnnData is in memory")
    return paths


def _names_of(
    genes: list[str], data: anndata.AnnData | list[Item], options: OpenOptions, columns: list[str]
) -> list[str]:
    """Genes by the names that files have, where they were given by those in columns of var."""
    how = replace(
        options, join="outer", genes=None, missing_genes="zero", categories=None,
        unknown_label=None, layers=None, obsm=None, cache=None,
    )  # fmt: skip
    with _opened(data, how, None) as whole:
        return known_names(genes, whole, columns, options.var_keys)


def _opened(
    data: anndata.AnnData | list[Item], options: OpenOptions, obs: Sequence[str] | str | None
) -> CellCollection:
    if is_anndata(data):
        return _open_in_memory(data, options, obs)
    if any(map(is_anndata, data)):
        return open_several(data, options, obs)
    # A glob is looked up once: a file that is added later is none of these.
    paths = _core.expand_paths([str(path) for path in data])
    return with_default_obs(
        CellCollection(files_core(paths, options), Files(paths, options), []), obs
    )


def _open_in_memory(
    adata: anndata.AnnData, options: OpenOptions, obs: Sequence[str] | str | None
) -> CellCollection:
    core = anndata_core(adata, options, table_of(adata.obs))
    return with_default_obs(CellCollection(core, InMemory(adata, options), []), obs)


@dataclass(frozen=True)
class InMemory:
    """The :class:`anndata.AnnData` of a collection, which a copy by pickle carries along."""

    adata: anndata.AnnData
    options: OpenOptions

    @property
    def paths(self) -> list[str]:
        """None."""
        return []

    @property
    def steps(self) -> list[str]:
        """None: all of the AnnData."""
        return []

    def reduce(self, cells: Cells) -> tuple[object, ...]:
        """What pickle makes a copy of the collection by."""
        # A copy is made of the AnnData as it is now, and has to be that of then.
        now = _open_in_memory(self.adata, self.options, None)
        if now.fingerprint != cells.fingerprint:
            raise CorruptDataError(
                "the AnnData was changed since it was opened, so that a copy in another process "
                "would hold other values or labels: open it again, or open a copy (adata.copy())"
            )
        return _open_in_memory, (self.adata, self.options, cells.default_obs)
