"""Opening files, or an AnnData in memory, as one collection: :func:`open`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ._arguments import (
    as_bool,
    as_choice,
    as_folder,
    as_names,
    as_paths,
    as_text,
    is_anndata,
)
from ._cells.genes import gene_list, known_names, report_left_out, report_missing_genes
from ._cells.matrices import Matrices
from ._cores import anndata_core, cache_folder, files_core
from ._files import Files
from ._options import (
    ACCESS,
    CACHE_MODES,
    JOINS,
    MISSING_GENES,
    VERIFY,
    Access,
    CacheMode,
    Join,
    MissingGenes,
    Path,
    Verify,
)
from ._several import items_of, open_several, with_obs
from .collection import CellCollection
from .errors import CorruptDataError, InvalidArgumentError, InvalidTypeError, LeftOutWarning
from .storage import set_for_paths

if TYPE_CHECKING:
    import anndata
    import pyarrow as pa


def open(
    paths: Path | anndata.AnnData | Iterable[Path | anndata.AnnData],
    *,
    join: Join | None = None,
    genes: Any = None,
    missing_genes: MissingGenes = "warn",
    var_key: Sequence[str] | str | None = None,
    gene_aliases: Sequence[str] | str | None = None,
    obs: Sequence[str] | str | None = None,
    categories: Mapping[str, Any] | None = None,
    unknown_label: Any = None,
    layer: str | None = "X",
    layers: Sequence[str] | str | None = None,
    obsm: Sequence[str] | str | None = None,
    make_unique: bool = False,
    cache: int | str = "256MiB",
    access: Access = "auto",
    verify: Verify = "always",
    allow_external: Path | None = None,
    cache_dir: Path | None = "auto",
    cache_mode: CacheMode | None = None,
    genome: str | None = None,
    feature_type: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> CellCollection:
    """Open files as one collection of cells; nothing but metadata is read.

    Parameters
    ----------
    paths
        An ``.h5ad`` file, a 10x ``.h5`` file, a folder with 10x's ``matrix.mtx`` (or the
        ``PREFIXmatrix.mtx`` itself), a shard directory, a glob such as ``"atlas/*.h5ad"`` (sorted),
        an :class:`anndata.AnnData`, or a list of these: an AnnData in memory is copied, one in
        backed mode is read from its file. Paths may lie in a bucket (``s3://bucket/a.h5ad``) or on
        a server (``https://host/a.h5ad``).
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
        obs columns that come with every batch of a loader by default.
    categories
        Column -> labels in the order of their codes, or what :func:`load_encoders` gives: fixes the
        codes of these columns, instead of numbering the labels of the files. A label of the files
        that the list lacks is an error, unless there is an ``unknown_label``; then it is -1.
    unknown_label
        The label that means "not known", of all label columns or column -> label: it is no
        category, and its cells have code -1, as those without a label.
    layer
        What ``batch.x`` is of: ``"X"``, ``"raw/X"``, or the name of a layer. ``None``: obs alone,
        of files of any kind, whether they have an X or none. The cells then have no genes, and
        batches an ``x`` of no columns; ``obsm`` comes with them if it is named.
    layers
        Further matrices that come with every batch, as ``batch.layers[name]``: ``"X"``, ``"raw/X"``
        or names of layers, also as ``"layers/NAME"``. All files must have them. They are read with
        ``batch.x``, and joined as it is; ``"raw/X"`` keeps its own genes. Transforms change
        ``batch.x`` alone, but ``SelectGenes`` chooses the columns of all matrices with its genes.
    obsm
        Arrays of ``obsm`` that come with every batch, as ``batch.obsm[name]``, dense and of floats
        whatever ``output`` and ``dtype``. All files must have them, of one width.
    make_unique
        Number repeated gene names (``-1``, ``-2``, ...) as anndata does, instead of refusing them.
        Where several files have such a name, a column of ``var`` has to tell which are the same.
    cache
        Bytes of inflated chunks kept between reads of a compressed file; 0 keeps none. While there
        are loaders, what their ``memory_budget`` allows counts instead.
    access
        How packed shards are read: ``"auto"`` maps them and asks for what is not in memory ahead of
        time, ``"map"`` maps them only, ``"pread"`` and ``"uring"`` copy through read calls,
        ``"direct"`` goes past the page cache. Other files treat all of these as ``"auto"``.
    verify
        ``"always"`` compares what is read of a shard directory with its checksums, so that damage
        is an error and never a wrong value; it takes a few hundredths of the time. ``"never"``
        leaves that out. Other files have no checksums of ours.
    allow_external
        A folder: ``.h5ad`` files may lead to files inside it, by HDF5's external links and external
        storage. Names count from the folder of the file that has them, and symbolic links are
        followed before it is looked at. By default what leads out of a file is refused.
    cache_dir
        Where the rows of matrices that are not stored by rows (CSC, ``.mtx``) are kept: they are
        written once, as packed shards, and used again until the file changes. ``"auto"``: the
        folder that the environment names as ``CELLFEED_CACHE``, else ``FILE.cellfeed`` beside the
        file; of a file in a bucket or on a server it has to be named, and is a local one. ``None``
        refuses such matrices.
    cache_mode
        ``"packed"``: what is read of compressed files, and of files of buckets and servers, is
        written to ``cache_dir`` as packed records on the way, and read from there from then on: the
        second epoch has the speed of shards. Batches stay as they are. Rows are kept of sparse
        matrices, until the file changes; a full disk ends that with a
        :class:`~cellfeed.errors.CacheWarning`, and batches go on. ``None`` keeps none.
    genome
        Of 10x ``.h5`` files: features of this genome only. A file of Cell Ranger 2 with a matrix
        for each of several genomes has to be told which.
    feature_type
        Of 10x files: features of this type only, or ``"all"``. Without it gene expression
        is read, as scanpy does, and a :class:`~cellfeed.errors.LeftOutWarning` says what else there
        is.
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
    layer = None if layer is None else as_text("layer", layer)
    layers = None if layers is None else as_names("layers", layers)
    obsm = None if obsm is None else as_names("obsm", obsm)
    chosen = {"layer": layer, "layers": layers, "obsm": obsm}
    Matrices.of(chosen)  # says what is wrong with the names
    _refuse_genes_of_none(layer, genes, var_key)
    make_unique = as_bool("make_unique", make_unique)
    access = as_choice("access", access, ACCESS)
    verify = as_choice("verify", verify, VERIFY)
    allow_external = as_folder("allow_external", allow_external)
    tenx = {"genome": genome, "feature_type": feature_type}
    given: Any = paths
    if isinstance(given, CellCollection):
        raise InvalidTypeError(
            "paths is a collection that is open already: use it as it is, cells.filter(...) for "
            "some of its cells, or give its files"
        )
    if gene_aliases is not None:
        if genes is None:
            raise InvalidArgumentError("gene_aliases is for genes: name them, or leave it out")
        given = list(given) if isinstance(given, Iterator) else given
        how: Any = {"layer": layer, "var_key": var_key, "make_unique": make_unique}
        if not (is_anndata(given) and not given.isbacked):
            how |= {"join": "outer", "allow_external": allow_external or None, **tenx}
            how |= {"missing_genes": "zero", "cache_dir": cache_dir, "access": access}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeftOutWarning)  # said once, below
            with open(given, **how) as whole:
                columns = as_names("gene_aliases", gene_aliases)
                genes = known_names(gene_list(genes), whole, columns)
    if is_anndata(given):
        if not given.isbacked:
            if join is not None:
                raise InvalidArgumentError("join is for several files; an AnnData is one")
            for option, value in tenx.items():
                if value is not None:
                    raise InvalidArgumentError(f"{option} is for 10x .h5 files: leave it out")
            if cache_mode is not None:
                raise InvalidArgumentError("cache_mode is for files, and this AnnData is in memory")
            return _open_anndata(
                given, genes, missing_genes, obs, categories, unknown_label, layer, make_unique,
                var_key, layers, obsm,
            )  # fmt: skip
        from ._cells.anndata_arrays import path_of_backed

        given = path_of_backed(given, Matrices.of(chosen).paths)
    items = items_of(given, chosen)
    names = as_paths("paths", given) if items is None else []
    if storage_options is not None:
        set_for_paths([item for item in items or names if isinstance(item, str)], storage_options)
    join = None if join is None else as_choice("join", join, JOINS)
    axis = _gene_axis(genes, missing_genes)
    if axis is not None and join is not None:
        raise InvalidArgumentError(
            f"genes fixes the gene axis, and join={join!r} makes one of the files' genes: give one"
        )
    folder = cache_folder(cache_dir)
    if cache_mode is not None:
        as_choice("cache_mode", cache_mode, CACHE_MODES)
        if folder is None:
            raise InvalidArgumentError("cache_mode needs a folder, and cache_dir is None")
    options = {
        "join": join, "genes": axis, "missing_genes": _said(missing_genes),
        "var_key": _var_keys(var_key),
        "categories": categories, "unknown_label": unknown_label, **chosen,
        "make_unique": make_unique, "cache": cache, "access": access,
        "verify": verify, "allow_external": allow_external or None,
        "cache_dir": folder or ("auto" if folder == "" else None), "cache_mode": cache_mode, **tenx,
    }  # fmt: skip
    if items is not None:
        return open_several(items, options, obs, missing_genes)
    core = files_core(names, options)
    report_missing_genes(core.missing_genes_text, missing_genes, stacklevel=2)
    report_left_out(core.left_out_text, stacklevel=2)
    return with_obs(CellCollection(core, Files(names, options), []), obs)


def _refuse_genes_of_none(layer: str | None, genes: Any, var_key: Any) -> None:
    for option, is_given in {"genes": genes is not None, "var_key": _var_keys(var_key)}.items():
        if layer is None and is_given:
            raise InvalidArgumentError(
                f"layer=None reads obs alone, without genes: leave {option} out"
            )


def from_anndata(
    adata: anndata.AnnData,
    *,
    genes: Any = None,
    missing_genes: MissingGenes = "warn",
    var_key: Sequence[str] | str | None = None,
    obs: Sequence[str] | str | None = None,
    categories: Mapping[str, Any] | None = None,
    unknown_label: Any = None,
    layer: str | None = "X",
    make_unique: bool = False,
    layers: Sequence[str] | str | None = None,
    obsm: Sequence[str] | str | None = None,
) -> CellCollection:
    """Open an :class:`anndata.AnnData` in memory; the collection holds a copy of its values.

    Parameters
    ----------
    adata
        Sparse or dense. Zeros of a dense matrix are left out.
    genes, missing_genes, var_key, obs, categories, unknown_label, layer, make_unique, layers, obsm
        As for :func:`open`.
    """
    return _open_anndata(
        adata, genes, missing_genes, obs, categories, unknown_label, layer, make_unique, var_key,
        layers, obsm,
    )  # fmt: skip


def _open_anndata(
    adata: anndata.AnnData,
    genes: Any,
    missing_genes: MissingGenes,
    obs: Sequence[str] | str | None,
    categories: Mapping[str, Any] | None,
    unknown_label: Any,
    layer: str | None,
    make_unique: bool,
    var_key: Sequence[str] | str | None,
    layers: Sequence[str] | str | None,
    obsm: Sequence[str] | str | None,
) -> CellCollection:
    from ._cells.anndata_arrays import arrow_table

    _refuse_genes_of_none(layer, genes, var_key)
    keys = _var_keys(var_key)
    axis = _gene_axis(genes, missing_genes)
    options = {
        "genes": axis, "missing_genes": _said(missing_genes), "categories": categories,
        "unknown_label": unknown_label, "layer": layer, "make_unique": make_unique, "var_key": keys,
        "layers": layers, "obsm": obsm,
    }  # fmt: skip
    obs_table = arrow_table(adata.obs)
    core = anndata_core(adata, options, obs_table)
    report_missing_genes(core.missing_genes_text, missing_genes, stacklevel=3)
    return with_obs(CellCollection(core, InMemory(adata, options, obs_table), []), obs)


def _gene_axis(genes: Any, missing_genes: MissingGenes) -> list[str] | None:
    as_choice("missing_genes", missing_genes, MISSING_GENES)
    return None if genes is None else gene_list(genes)


def _var_keys(var_key: Sequence[str] | str | None) -> list[str]:
    return [] if var_key is None else as_names("var_key", var_key)


def _said(missing_genes: MissingGenes) -> MissingGenes:
    # A copy by pickle, in each worker, does not say it again.
    return "zero" if missing_genes == "warn" else missing_genes


@dataclass(frozen=True)
class InMemory:
    """The :class:`anndata.AnnData` of a collection, which a copy by pickle carries along."""

    adata: anndata.AnnData
    options: dict[str, Any]
    obs: pa.Table

    @property
    def steps(self) -> list[str]:
        """None: all of the AnnData."""
        return []

    def fingerprint(self, of_core: int) -> int:
        """The core's, of the matrix, and all of obs."""
        return self._content ^ of_core

    @cached_property
    def _content(self) -> int:
        from ._cells.anndata_arrays import content_of

        return content_of(self.obs)

    def reduce(self, cells: CellCollection) -> tuple[Any, ...]:
        """What pickle makes a copy of the collection by."""
        from ._cells.anndata_arrays import arrow_table

        # A copy is made of the AnnData as it is now, and has to be that of then.
        now = from_anndata(self.adata, **self.options)
        is_same = self.obs.equals(arrow_table(self.adata.obs))
        if now.fingerprint != cells.fingerprint or not is_same:
            raise CorruptDataError(
                "the AnnData was changed since it was opened, so that a copy in another process "
                "would hold other values or labels: open it again, or open a copy (adata.copy())"
            )
        return _copy_anndata, (self.adata, self.options, cells.default_obs)


def _copy_anndata(
    adata: anndata.AnnData, options: Mapping[str, Any], obs: list[str]
) -> CellCollection:
    return from_anndata(adata, obs=obs, **options)
