"""Opening files: :func:`open` and the collection it returns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._sizes import parse_bytes
from .errors import InvalidTypeError, NoSuchKeyError, OutOfRangeError

if TYPE_CHECKING:
    import anndata
    import pyarrow as pa
    import scipy.sparse

    from ._batch import Batch

Path = str | os.PathLike[str]


def open(
    paths: Path | Iterable[Path] | anndata.AnnData,
    *,
    join: str | None = None,
    genes: Any = None,
    obs: Sequence[str] | str | None = None,
    layer: str = "X",
    make_unique: bool = False,
    cache: int | str = "256MiB",
    access: str = "auto",
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
        A fixed gene axis instead of ``join``: names in the wanted order, or a
        :class:`~cellfeed.data.vocab.GeneVocab`.
    obs
        obs columns that come with every batch of a loader by default.
    layer
        ``"X"``, ``"raw/X"``, or the name of a layer.
    make_unique
        Number repeated gene names (``-1``, ``-2``, ...) as anndata does, instead of refusing them.
    cache
        Bytes of inflated chunks kept between reads of a compressed file.
    access
        How packed shards are read: ``"auto"`` maps them and asks for what is not in memory ahead of
        time, ``"map"`` maps them only, ``"pread"`` and ``"uring"`` copy through read calls,
        ``"direct"`` goes past the page cache. Other files treat all of these as ``"auto"``.

    Returns
    -------
    CellCollection

    Raises
    ------
    NotFoundError, CorruptDataError, UnsupportedError, InvalidArgumentError, NoSuchKeyError
        All derive from :class:`~cellfeed.errors.CellfeedError` and name the file at fault.
    """
    if hasattr(paths, "obs_names") and hasattr(paths, "var_names"):
        if not paths.isbacked:
            return from_anndata(paths, genes=genes, obs=obs, layer=layer, make_unique=make_unique)
        paths = paths.filename
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    try:
        names = [os.fspath(path) for path in paths]
    except TypeError as error:
        raise InvalidTypeError(f"paths must be a path or a list of paths: {paths!r}") from error
    axis = _gene_axis(genes)
    core = _core.Collection.open(
        names, join, axis, make_unique, layer, parse_bytes(cache, "cache"), access
    )
    options = {
        "join": join, "genes": axis, "layer": layer, "make_unique": make_unique, "cache": cache,
        "access": access,
    }  # fmt: skip
    return _with_obs(CellCollection(core, names, options, []), obs)


def from_anndata(
    adata: anndata.AnnData,
    *,
    genes: Any = None,
    obs: Sequence[str] | str | None = None,
    layer: str = "X",
    make_unique: bool = False,
) -> CellCollection:
    """Open an :class:`anndata.AnnData` in memory; the collection holds a copy of its values.

    Parameters
    ----------
    adata
        Sparse or dense. Zeros of a dense matrix are left out.
    genes, obs, layer, make_unique
        As for :func:`open`.
    """
    from ._anndata import arrow_table, csr_arrays

    axis = _gene_axis(genes)
    indptr, indices, values, gene_table = csr_arrays(adata, layer)
    core = _core.Collection.from_memory(
        indptr, indices, values, values.dtype.name, gene_table.num_rows, arrow_table(adata.obs),
        gene_table, "AnnData in memory", make_unique, axis,
    )  # fmt: skip
    options = {"genes": axis, "layer": layer, "make_unique": make_unique}
    return _with_obs(MemoryCollection(core, adata, options), obs)


def _gene_axis(genes: Any) -> list[str] | None:
    return None if genes is None else [str(gene) for gene in getattr(genes, "genes", genes)]


def _with_obs(cells: CellCollection, obs: Sequence[str] | str | None) -> CellCollection:
    cells.default_obs = [obs] if isinstance(obs, str) else list(obs or ())
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
        self._core = core
        self._paths = paths
        self._options = options
        self.default_obs = default_obs

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, ([os.path.abspath(p) for p in self._paths], self._options, self.default_obs)

    def __len__(self) -> int:
        return self._core.n_rows

    def __repr__(self) -> str:
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
    def fingerprint(self) -> int:
        """Changes with any of the files, their order or the gene axis."""
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
        if not isinstance(name, str):
            raise InvalidTypeError(f"an obs column is named by a str: {name!r}")
        return self._core.obs_column(name)

    def categories(self, name: str) -> list[str]:
        """Categories of a label column by code: the sorted union over the files."""
        column = self.obs_column(name)
        if not column.is_categorical:
            raise NoSuchKeyError(
                f"obs column {name!r} holds {column.dtype}, so it has no categories"
            )
        return column.categories

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
        rows = np.arange(len(self)) if rows is None else np.atleast_1d(np.asarray(rows))
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        return self._core.gather_obs(self.obs_column(name), rows)

    def obs_table(self, file: int = 0, begin: int = 0, end: int | None = None) -> pa.Table:
        """Rows of every obs column of one file as Arrow, the cells' names first as ``_index``."""
        import pyarrow as pa

        info = self._core.store_info(file)
        end = info["n_cells"] if end is None else end
        return pa.table(self._core.read_obs(file, begin, end))

    def var_table(self, file: int = 0) -> pa.Table:
        """Gene table of one file as Arrow, the genes' names first as ``_index``."""
        import pyarrow as pa

        return pa.table(self._core.read_var(file))

    def rows(
        self, rows: Any, *, dtype: str = "float32", casting: str = "exact"
    ) -> scipy.sparse.csr_matrix:
        """Expression of some cells, in the order asked for, as ``scipy.sparse.csr_matrix``."""
        return self.read(rows, dtype=dtype, casting=casting).to_scipy()

    def read(
        self,
        rows: Any,
        *,
        obs: Sequence[str] | None = None,
        output: str = "csr",
        dtype: str = "float32",
        casting: str = "exact",
        transforms: Sequence[Any] = (),
    ) -> Batch:
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
            self, Streaming(), batch_size=len(wanted), output=output, dtype=dtype, casting=casting,
            transforms=transforms, obs=obs, rank=0, world_size=1,
        )  # fmt: skip
        return loader.read_rows(wanted)

    def __getitem__(self, rows: Any) -> Batch:
        return self.read(rows)


class MemoryCollection(CellCollection):
    """Cells of an :class:`anndata.AnnData` in memory, which a copy by pickle carries along."""

    def __init__(
        self, core: _core.Collection, adata: anndata.AnnData, options: dict[str, Any]
    ) -> None:
        super().__init__(core, [], options, [])
        self._adata = adata

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy_anndata, (self._adata, self._options, self.default_obs)


def _copy_anndata(
    adata: anndata.AnnData, options: Mapping[str, Any], obs: list[str]
) -> CellCollection:
    return from_anndata(adata, obs=obs, **options)


def _reopen(paths: list[str], options: Mapping[str, Any], obs: list[str]) -> CellCollection:
    return open(paths, obs=obs, **options)


def as_row_numbers(rows: Any, n: int) -> np.ndarray:
    """Row numbers of an int, a slice, a mask or a list; negative ones count from the end."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(n), dtype=np.int64)
    array = np.atleast_1d(np.asarray(rows))
    if array.dtype == bool:
        if array.shape != (n,):
            raise OutOfRangeError(f"a mask needs one value a cell: {array.shape} for {n} cells")
        return np.flatnonzero(array).astype(np.int64)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise InvalidTypeError(
            f"rows must be integers, a slice or a boolean mask, not {array.dtype}"
        )
    array = array.astype(np.int64)
    outside = (array < -n) | (array >= n)
    if outside.any():
        raise OutOfRangeError(f"row {array[outside][0]} is outside the collection of {n} cells")
    return np.ascontiguousarray(np.where(array < 0, array + n, array))
