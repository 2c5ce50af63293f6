"""What a table of cells tells of itself: names, genes, obs columns, where its rows lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypedDict, cast

import numpy as np
import numpy.typing as npt

from . import _core
from ._arguments import as_int, as_names, as_row_numbers, as_text, is_url
from ._cells.closed import Closed
from ._cells.foreign_names import no_such_attribute, not_settable
from ._cells.genes import report_left_out
from ._cells.html import html_of
from ._cells.lazy_obs import LazyObs
from ._cells.name_array import NameArray
from ._cells.names import Names
from ._cells.protocols import Cells, Origin
from ._lazy import cached_property
from ._options import Label, Rows
from .encoded import EncodedCells
from .encoders import Encoders, encoders_of
from .errors import NoSuchKeyError

if TYPE_CHECKING:
    import pandas as pd


class StoredFile(TypedDict):
    """One file of a collection, or one shard."""

    path: str
    format: str
    layer: str
    n_cells: int
    n_genes: int
    nnz: int
    dtype: str
    is_dense: bool
    compression: str
    rows_per_chunk: int
    bytes_on_disk: int


class CellTable:
    """Base of collections: all that is known without reading counts."""

    def __init__(
        self,
        core: _core.Collection,
        origin: Origin,
        default_obs: list[str],
        names: Names | None = None,
    ) -> None:
        self._core = core
        self._origin = origin
        self.default_obs = default_obs
        self._names = Names(core, names)
        self._matrices = origin.options.matrices

    if not TYPE_CHECKING:  # types are checked by the attributes that there are

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(name)
            if hasattr(type(self), name):  # a property that raised: its own error says more
                return object.__getattribute__(self, name)
            raise no_such_attribute(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name != "default_obs" and not name.startswith("_"):
            raise not_settable(self, name)
        if name == "default_obs":
            value = as_names(name, value)
            vars(self).pop("batch", None)  # what a view has read has other columns
        super().__setattr__(name, value)

    def close(self) -> None:
        """Let go of the files. Loaders made before keep them open until they are closed too.

        Using the collection afterwards is an error. ``with cf.open(...) as cells:`` closes it.
        """
        closed = Closed("this collection is closed: open the files again")
        self._core = cast(_core.Collection, closed)
        self._names = Names(self._core)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return self._origin.reduce(self)

    def __len__(self) -> int:
        return self._core.n_rows

    def __repr__(self) -> str:
        if isinstance(self._core, Closed):
            return f"{type(self).__name__}, closed"
        files = self._core.n_stores
        further = {"layers": self._matrices.layers, "obsm": self._matrices.obsm}
        return (
            f"{type(self).__name__}: {self.n_obs:,} cells x {self.n_vars:,} genes in {files:,} "
            f"file{'s' if files != 1 else ''}\n    obs: {', '.join(self.obs_keys()) or 'none'}"
        ) + "".join(f"\n    {kind}: {', '.join(names)}" for kind, names in further.items() if names)

    def _repr_html_(self) -> str:
        if isinstance(self._core, Closed):
            return repr(self)
        is_remote = any(map(is_url, self._origin.paths))
        return html_of(cast("Cells", self), repr(self).splitlines()[0], reads=not is_remote)

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
    def var_names(self) -> NameArray:
        """The gene axis, an object array of ``str``; of a view a ``pandas.Index``."""
        return NameArray.of(self._core.gene_names)

    @property
    def missing_genes(self) -> list[str]:
        """Genes asked for (``genes=``) that no file has, in that order; they read as 0."""
        return self._core.missing_genes

    @property
    def gene_mask(self) -> npt.NDArray[np.bool_]:
        """Which genes the files have, bool (files, genes); ``batch.gene_mask`` is of its cells.

        Shards have every gene that they were written with.
        """
        genes = np.array(self._core.gene_names, dtype=object)
        return self._names.gene_masks().of_files(np.arange(self._core.n_stores), genes)

    @property
    def obs_names(self) -> NameArray:
        """Names of the cells, an object array of ``str``, of a view a ``pandas.Index``.

        Some 100 bytes a cell.
        """
        return NameArray.of(self._names.obs_names(self._all_rows()))

    @property
    def var(self) -> pd.DataFrame:
        """Columns of the genes, a copy: each value of the first file that has gene and column."""
        return self._names.var().copy()

    def gene_aliases(self, column: str) -> dict[str, str]:
        """Other names of the genes, by a var column: ``cells.gene_aliases("gene_ids")["TP53"]``.

        Parameters
        ----------
        column
            Of text, in some of the files. Genes without a value there are left out.

        Raises
        ------
        NoSuchKeyError
            No file has the column.
        InvalidArgumentError
            Two files have different values for one gene.
        """
        return self._names.aliases(as_text("column", column))

    @property
    def fingerprint(self) -> int:
        """Changes with any of the files, their order, the gene axis or fixed categories."""
        return self._core.fingerprint

    @property
    def files(self) -> list[StoredFile]:
        """Path, format, layer, cells, genes, non-zeros, dtype and compression of each file."""
        return [cast(StoredFile, self._core.store_info(s)) for s in range(self._core.n_stores)]

    @property
    def has_backed(self) -> bool:
        """Whether some of the cells lie in files, as an AnnCollection has it."""
        return any(file["format"] != "memory" for file in self.files)

    @property
    def attrs_keys(self) -> dict[str, list[str]]:
        """Names of what views have, as an AnnCollection has it: of obs, obsm and layers."""
        matrices = self._matrices
        return {
            "obs": self.obs_keys(), "obsm": list(matrices.obsm), "layers": list(matrices.layers),
        }  # fmt: skip

    @property
    def obs(self) -> LazyObs:
        """Obs as pandas has it, a column at a time: ``cells.obs["donor"]``, ``cells.obs.df``.

        Reads the names of the cells too, some 100 bytes a cell of each file; ``obs_values`` does
        not.
        """
        return LazyObs(self)

    def obs_keys(self) -> list[str]:
        """Names of the obs columns of any file."""
        return self._core.obs_names

    def _readable_obs(self) -> list[str]:
        """Names of the obs columns but those of no readable type, of which it warns."""
        left_out, text = self._core.unreadable(False)
        report_left_out(text, stacklevel=3)
        return [name for name in self.obs_keys() if f"obs/{name}" not in left_out]

    def obs_column(self, name: str) -> _core.ObsColumn:
        """One obs column over all files; raises ``NoSuchKeyError`` naming those there are."""
        return self._core.obs_column(as_text("name", name))

    def categories(self, name: str) -> list[Label]:
        """Labels of a column by code: text, whole numbers, floats or booleans, as in the files.

        Where all files agree on the categories and their order, that order (so for one file always:
        pandas' codes); else their sorted union; ordered categories stay ordered where their orders
        merge without contradiction. ``categories=`` of :func:`cellfeed.open` fixes another order.
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
        for other data ``cf.open(..., categories=cf.Encoders.load("labels.json"))``: the same label
        has the same code.
        """
        return encoders_of(self)

    def obs_values(self, name: str, rows: Rows | None = None) -> np.ndarray:
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

    def locate(
        self, rows: Rows | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where cells come from, also of a collection that ``filter`` or ``split`` gave.

        Parameters
        ----------
        rows
            Row numbers of this collection, such as ``batch.index``; all when omitted.

        Returns
        -------
        tuple of numpy.ndarray
            Place among ``files``, and row in that file, each int64 (rows,).
        """
        rows = as_row_numbers(slice(None) if rows is None else rows, len(self))
        return self._core.locate(rows)

    def obs_table(self, file: int = 0, begin: int = 0, end: int | None = None) -> _core.Table:
        """Rows of every obs column of one file, the cells' names first as ``_index``.

        Any Arrow library takes the table: ``pyarrow.table(t)``, ``polars.DataFrame(t)``, duckdb.
        ``t.to_pandas()`` needs none.
        """
        report_left_out(self._core.unreadable(False)[1], stacklevel=2)
        n = self._core.store_info(as_int("file", file, 0))["n_cells"]
        begin, end = as_int("begin", begin, 0, n), n if end is None else as_int("end", end, 0, n)
        return self._core.read_obs(file, begin, end)

    def var_table(self, file: int = 0) -> _core.Table:
        """Gene table of one file, the genes' names first as ``_index``; as of ``obs_table``."""
        report_left_out(self._core.unreadable(True)[1], stacklevel=2)
        return self._core.read_var([as_int("file", file, 0)])[0]

    def packed_shards(self) -> list[str]:
        """Shard directories that the cached rows have become, one for each matrix of each file.

        For files opened with ``cache="rows"``, once all rows of the matrix were read. Directories
        that are not written yet are written first. :func:`cellfeed.open` reads them as any shards.

        Raises
        ------
        NoSpaceError, InputOutputError
            They cannot be written.
        """
        return self._core.packed_shards()

    def encoded(self, begin: int, end: int) -> list[EncodedCells]:
        """Cells ``[begin, end)`` as the packed records that shards hold, for decoding elsewhere.

        Of X. Reads them whole and compares their checksums; nothing is decoded here.

        Returns
        -------
        list
            One :class:`~cellfeed.encoded.EncodedCells` for each shard that has some of the cells,
            in order.

        Raises
        ------
        OutOfRangeError
            Cells that are not there.
        UnsupportedError
            Files that are no packed shards; a selection of cells or genes; shards whose genes the
            collection has in other places.
        CorruptDataError
            A record does not match its checksum.
        """
        begin, end = as_int("begin", begin, 0), as_int("end", end, 0)
        return [EncodedCells(part) for part in self._core.encoded(begin, end)]

    def _all_rows(self) -> np.ndarray:
        return np.arange(len(self))
