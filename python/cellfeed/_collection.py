"""Opening files: :func:`open` and the collection it returns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

import numpy as np

from . import _core
from ._checks import as_bool, as_choice, as_int, as_names, as_paths, as_row_numbers, as_text
from ._closed import Closed
from ._encoders import Encoders, label_maps
from ._genes import check_missing_genes, gene_list, report_missing_genes
from ._names import Names
from ._options import Access, Casting, DType, Join, Output, ReadOptions, Verify
from ._sizes import parse_bytes
from .errors import (
    CorruptDataError,
    InvalidArgumentError,
    NoSuchKeyError,
    OutOfRangeError,
    PrecisionError,
)

if TYPE_CHECKING:
    import anndata
    import pandas as pd
    import pyarrow as pa
    from scipy.sparse import csr_matrix

    from ._batch import Batch
    from ._transforms import Transform

Path = str | os.PathLike[str]

ACCESS = ("auto", "map", "pread", "uring", "direct")
VERIFY = ("always", "never")
JOINS = ("inner", "outer")


def open(
    paths: Path | Iterable[Path] | anndata.AnnData,
    *,
    join: Join | None = None,
    genes: Any = None,
    missing_genes: str = "warn",
    obs: Sequence[str] | str | None = None,
    categories: Mapping[str, Any] | None = None,
    unknown_label: Any = None,
    layer: str = "X",
    make_unique: bool = False,
    cache: int | str = "256MiB",
    access: Access = "auto",
    verify: Verify = "always",
) -> CellCollection:
    """Open files as one collection of cells; nothing but metadata is read.

    Parameters
    ----------
    paths
        An ``.h5ad`` file, a shard directory, a glob such as ``"atlas/*.h5ad"`` (sorted), a list of
        these, or an :class:`anndata.AnnData`: one in memory is copied, one in backed mode is read
        from its file.
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
        ``"X"``, ``"raw/X"``, or the name of a layer.
    make_unique
        Number repeated gene names (``-1``, ``-2``, ...) as anndata does, instead of refusing them.
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

    Returns
    -------
    CellCollection

    Raises
    ------
    NotFoundError, CorruptDataError, UnsupportedError, InvalidArgumentError, NoSuchKeyError
        All derive from :class:`~cellfeed.errors.CellfeedError` and name the file at fault.
    """
    layer = as_text("layer", layer)
    make_unique = as_bool("make_unique", make_unique)
    access = as_choice("access", access, ACCESS)
    verify = as_choice("verify", verify, VERIFY)
    if hasattr(paths, "obs_names") and hasattr(paths, "var_names"):
        if not paths.isbacked:
            if join is not None:
                raise InvalidArgumentError("join is for several files; an AnnData is one")
            return _open_anndata(
                paths, genes, missing_genes, obs, categories, unknown_label, layer, make_unique
            )
        from ._anndata import path_of_backed

        paths = path_of_backed(paths)
    names = as_paths("paths", paths)
    join = None if join is None else as_choice("join", join, JOINS)
    axis = _gene_axis(genes, missing_genes)
    if axis is not None and join is not None:
        raise InvalidArgumentError(
            f"genes fixes the gene axis, and join={join!r} makes one of the files' genes: give one"
        )
    core = _core.Collection.open(
        names, join, axis, make_unique, layer, parse_bytes(cache, "cache", 0), access, verify
    )
    core = core.with_labels(_label_maps(core, categories, unknown_label))
    report_missing_genes(core.missing_genes_text, missing_genes, stacklevel=2)
    options = {
        "join": join, "genes": axis, "missing_genes": _said(missing_genes),
        "categories": categories, "unknown_label": unknown_label, "layer": layer,
        "make_unique": make_unique, "cache": cache, "access": access,
        "verify": verify,
    }  # fmt: skip
    return _with_obs(CellCollection(core, names, options, []), obs)


def _label_maps(core: Any, categories: Any, unknown_label: Any) -> dict[str, Any]:
    # The names of obs columns cost a look at every file.
    if categories is None and unknown_label is None:
        return {}
    return label_maps(categories, unknown_label, core.obs_names)


def from_anndata(
    adata: anndata.AnnData,
    *,
    genes: Any = None,
    missing_genes: str = "warn",
    obs: Sequence[str] | str | None = None,
    categories: Mapping[str, Any] | None = None,
    unknown_label: Any = None,
    layer: str = "X",
    make_unique: bool = False,
) -> CellCollection:
    """Open an :class:`anndata.AnnData` in memory; the collection holds a copy of its values.

    Parameters
    ----------
    adata
        Sparse or dense. Zeros of a dense matrix are left out.
    genes, missing_genes, obs, categories, unknown_label, layer, make_unique
        As for :func:`open`.
    """
    return _open_anndata(
        adata, genes, missing_genes, obs, categories, unknown_label, layer, make_unique
    )


def _open_anndata(
    adata: anndata.AnnData,
    genes: Any,
    missing_genes: str,
    obs: Sequence[str] | str | None,
    categories: Mapping[str, Any] | None,
    unknown_label: Any,
    layer: str,
    make_unique: bool,
) -> CellCollection:
    from ._anndata import arrow_table, csr_arrays

    axis = _gene_axis(genes, missing_genes)
    indptr, indices, values, gene_table = csr_arrays(adata, layer)
    core = _core.Collection.from_memory(
        indptr, indices, values, values.dtype.name, gene_table.num_rows, arrow_table(adata.obs),
        gene_table, "AnnData in memory", make_unique, axis,
    )  # fmt: skip
    core = core.with_labels(_label_maps(core, categories, unknown_label))
    report_missing_genes(core.missing_genes_text, missing_genes, stacklevel=3)
    options = {
        "genes": axis, "missing_genes": _said(missing_genes), "categories": categories,
        "unknown_label": unknown_label, "layer": layer, "make_unique": make_unique,
    }  # fmt: skip
    return _with_obs(MemoryCollection(core, adata, options), obs)


def _gene_axis(genes: Any, missing_genes: str) -> list[str] | None:
    check_missing_genes(missing_genes)
    return None if genes is None else gene_list(genes)


def _said(missing_genes: str) -> str:
    # A copy by pickle, in each worker, does not say it again.
    return "zero" if missing_genes == "warn" else missing_genes


def _with_obs(cells: CellCollection, obs: Sequence[str] | str | None) -> CellCollection:
    cells.default_obs = [] if obs is None else as_names("obs", obs)
    for name in cells.default_obs:
        cells.obs_column(name)
    return cells


class CellCollection:
    """Cells of one or more files as one table, made by :func:`open`.

    Picklable: a copy opens the files again.

    Attributes
    ----------
    shape
        Cells and genes.
    var_names
        The gene axis, an array of ``str``.
    default_obs
        obs columns that come with every batch of a loader by default.
    """

    def __init__(
        self,
        core: _core.Collection,
        paths: list[str],
        options: dict[str, Any],
        default_obs: list[str],
    ) -> None:
        self._core: Any = core
        self._paths = paths
        self._options = options
        self.default_obs = default_obs
        self._names = Names(core)

    def close(self) -> None:
        """Let go of the files. Loaders made before keep them open until they are closed too.

        Using the collection afterwards is an error. ``with cf.open(...) as cells:`` closes it.
        """
        self._core = Closed("this collection is closed: open the files again")
        self._names = Names(self._core)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        paths = [os.path.abspath(path) for path in self._paths]
        return _reopen, (paths, self._options, self.default_obs, self.fingerprint)

    def __len__(self) -> int:
        return self._core.n_rows

    def __repr__(self) -> str:
        if isinstance(self._core, Closed):
            return "CellCollection, closed"
        files = self._core.n_stores
        return (
            f"CellCollection: {self.n_obs:,} cells x {self.n_vars:,} genes in {files:,} "
            f"file{'s' if files != 1 else ''}\n    obs: {', '.join(self.obs_keys()) or 'none'}"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and genes."""
        return self._core.n_rows, self._core.n_genes

    @property
    def n_obs(self) -> int:
        """Number of cells."""
        return self._core.n_rows

    @property
    def n_vars(self) -> int:
        """Number of genes."""
        return self._core.n_genes

    @property
    def var_names(self) -> np.ndarray:
        """The gene axis, an object array of ``str``."""
        return np.array(self._core.gene_names, dtype=object)

    @property
    def missing_genes(self) -> list[str]:
        """Genes asked for (``genes=``) that no file has, in that order; they read as 0."""
        return self._core.missing_genes

    @property
    def obs_names(self) -> np.ndarray:
        """Names of the cells, an object array of ``str``: some 100 bytes a cell."""
        return self._names.obs_names(np.arange(len(self)))

    @property
    def var(self) -> pd.DataFrame:
        """Columns of the genes, each gene's from the first file that has it."""
        return self._names.var()

    @property
    def fingerprint(self) -> int:
        """Changes with any of the files, their order, the gene axis or fixed categories."""
        return self._core.fingerprint

    @property
    def files(self) -> list[dict[str, Any]]:
        """Path, format, layer, cells, genes, non-zeros, dtype and compression of each file."""
        return [self._core.store_info(s) for s in range(self._core.n_stores)]

    def obs_keys(self) -> list[str]:
        """Names of the obs columns of any file."""
        return self._core.obs_names

    def obs_column(self, name: str) -> _core.ObsColumn:
        """One obs column over all files; raises ``NoSuchKeyError`` naming those there are."""
        return self._core.obs_column(as_text("name", name))

    def categories(self, name: str) -> list[Any]:
        """Labels of a column by code: text, whole numbers, floats or booleans, as in the files.

        Where all files agree on the categories and their order, that order (so for one file always:
        pandas' codes); else their sorted union; ordered categories stay ordered where their orders
        merge without contradiction. ``categories=`` of :func:`open` fixes another order.
        """
        column = self.obs_column(name)
        if not column.is_categorical:
            raise NoSuchKeyError(
                f"obs column {name!r} holds {column.dtype}, so it has no categories"
            )
        return column.categories

    @cached_property
    def encoders(self) -> Encoders:
        """Codes of labels, to be saved with a model: of columns in ``obs=`` and ``categories=``.

        Of all label columns where neither was given. ``cells.encoders.save("labels.json")``, and
        for other data ``cf.open(..., categories=cf.load_encoders("labels.json"))``: the same label
        has the same code.
        """
        unknown = self._options["unknown_label"]
        fixed = self._options["categories"] or {}
        names = list(dict.fromkeys([*self.default_obs, *fixed]))
        columns = {}
        for name in self.obs_keys():
            if names and name not in names:
                continue
            try:
                columns[name] = self.obs_column(name)
            except PrecisionError:  # numbers that do not load, so no labels
                if name in names:
                    raise
        labels = {name: c.categories for name, c in columns.items() if c.is_categorical}
        unknown_of = {}
        for name in labels:
            unknown_of[name] = unknown.get(name) if isinstance(unknown, Mapping) else unknown
            if unknown_of[name] is None and isinstance(fixed, Encoders) and name in fixed:
                unknown_of[name] = fixed.unknown_label(name)
        return Encoders(labels, unknown_of)

    def obs_values(self, name: str, rows: Any = None) -> np.ndarray:
        """Values of one obs column: int64 codes of a categorical (-1 = missing), else numbers.

        Missing numbers are NaN.

        Parameters
        ----------
        name
            The column.
        rows
            Row numbers; all when omitted.
        """
        rows = as_row_numbers(slice(None) if rows is None else rows, len(self))
        return self._core.gather_obs(self.obs_column(name), rows)

    def obs_table(self, file: int = 0, begin: int = 0, end: int | None = None) -> pa.Table:
        """Rows of every obs column of one file as Arrow, the cells' names first as ``_index``."""
        import pyarrow as pa

        n = self._core.store_info(as_int("file", file, 0))["n_cells"]
        begin, end = as_int("begin", begin, 0, n), n if end is None else as_int("end", end, 0, n)
        return pa.table(self._core.read_obs(file, begin, end))

    def var_table(self, file: int = 0) -> pa.Table:
        """Gene table of one file as Arrow, the genes' names first as ``_index``."""
        import pyarrow as pa

        return pa.table(self._core.read_var(as_int("file", file, 0)))

    @overload
    def read(
        self, rows: Any, *, output: Literal["csr"] = ..., **options: Unpack[ReadOptions]
    ) -> Batch[csr_matrix]: ...

    @overload
    def read(
        self, rows: Any, *, output: Literal["dense"], **options: Unpack[ReadOptions]
    ) -> Batch[np.ndarray]: ...

    def read(
        self,
        rows: Any,
        *,
        obs: Sequence[str] | str | None = None,
        output: Output = "csr",
        dtype: DType = "float32",
        casting: Casting = "round",
        transforms: Sequence[Transform] = (),
    ) -> Batch[Any]:
        """One :class:`~cellfeed.Batch` of the rows asked for.

        Parameters
        ----------
        rows
            An int, a slice, a mask, or numbers in any order.
        obs, output, dtype, casting, transforms
            As for :class:`~cellfeed.Loader`.
        """
        from ._loader import Loader
        from ._strategies import Streaming

        wanted = as_row_numbers(rows, len(self))
        if wanted.size == 0:
            raise OutOfRangeError("no rows asked for")
        loader = Loader(
            self, Streaming(indices=wanted), batch_size=len(wanted), output=output, dtype=dtype,
            casting=casting, transforms=transforms, obs=obs, rank=0, world_size=1,
        )  # fmt: skip
        return loader._read_rows(wanted)

    def __getitem__(self, rows: Any) -> Batch[csr_matrix]:
        """Cells by number, with the defaults of :meth:`read`."""
        return self.read(rows)


class MemoryCollection(CellCollection):
    """Cells of an :class:`anndata.AnnData` in memory, which a copy by pickle carries along."""

    def __init__(
        self, core: _core.Collection, adata: anndata.AnnData, options: dict[str, Any]
    ) -> None:
        from ._anndata import arrow_table

        super().__init__(core, [], options, [])
        self._adata = adata
        self._obs = arrow_table(adata.obs)

    def __reduce__(self) -> tuple[Any, ...]:
        from ._anndata import arrow_table

        # A copy is made of the AnnData as it is now, and has to be that of then.
        now = from_anndata(self._adata, **self._options)
        if now.fingerprint != self.fingerprint or not self._obs.equals(
            arrow_table(self._adata.obs)
        ):
            raise CorruptDataError(
                "the AnnData was changed since it was opened, so that a copy in another process "
                "would hold other values or labels: open it again, or open a copy (adata.copy())"
            )
        return _copy_anndata, (self._adata, self._options, self.default_obs)


def _copy_anndata(
    adata: anndata.AnnData, options: Mapping[str, Any], obs: list[str]
) -> CellCollection:
    return from_anndata(adata, obs=obs, **options)


def _reopen(
    paths: list[str], options: Mapping[str, Any], obs: list[str], fingerprint: int
) -> CellCollection:
    cells = open(paths, obs=obs, **options)
    if cells.fingerprint != fingerprint:
        raise CorruptDataError(
            "the files changed since this collection was pickled, so rows and labels are other "
            f"ones now: open them again instead of unpickling: {', '.join(paths)}"
        )
    return cells
