"""Cells of one or more files as one table: what ``cellfeed.open`` returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np
import numpy.typing as npt

from ._arguments import as_bool, as_chosen_names, as_dtype, as_int, as_row_numbers, shown
from ._cells.added_obs import matched
from ._cells.as_anndata import as_stored, make_anndata, of_dtype, pieces, stored_dtypes
from ._cells.filtering import rows_where, step_of
from ._cells.indexing import are_all, gene_numbers, row_numbers, split_index
from ._cells.lazy_obs import LazyObs
from ._cells.origins import GenesChosen, ObsAdded, Selected, Viewed
from ._cells.runs import Runs
from ._cells.splitting import deal
from ._cells.tables import table_of
from ._extras import anndata, pd
from ._keywords import ReadKeywords
from ._lazy import cached_property
from ._options import Casting, CellLabels, DType, How, Index, Output, Rows, Where
from ._reader import Reader, ReaderOptions
from ._table import CellTable
from ._view import BatchOnDemand
from .batch import Batch
from .errors import NoSuchKeyError, OutOfRangeError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from .transforms import Transform


class CellCollection(CellTable):
    """Cells of one or more files as one table, made by :func:`cellfeed.open`.

    Picklable: a copy opens the files again.

    Attributes
    ----------
    shape
        Cells and genes.
    var_names
        The gene axis, an array of ``str``.
    default_obs
        obs columns that come with every batch of a loader by default. It can be set.
    """

    def filter(self, where: Where) -> CellCollection:
        """Some of the cells, as a collection of its own; no counts are read.

        Its rows are numbered from 0, in the order asked for; genes, labels and their codes stay.
        Everything that takes a collection takes it. Memory grows with the runs of neighbouring
        cells, and not with the cells.

        Parameters
        ----------
        where
            An expression as of pandas' ``query``: ``"tissue == 'lung' and n_counts > 500"``. It
            takes ``== != < <= > >= in``, ``not in``, ``is missing``, ``is not missing``, ``and or
            not``, and names in backticks. A missing value passes only ``!=``, ``not in`` and ``is
            missing``. A missing boolean passes neither ``column`` nor ``not column``. Or a dict of
            column -> value or list of values; a mask; row numbers in any order; a slice.

        Raises
        ------
        NoSuchKeyError
            There is no such obs column.
        InvalidArgumentError
            The expression is none; a label is none of the column's; no cell is left.
        InvalidTypeError
            A column is compared with a value of another kind, as a label ``1`` with ``"1"``.
        """
        rows = rows_where(self, where)
        return self._select(rows, step_of(where, len(rows), len(self)))

    def with_obs(self, table: Any, on: str | None = None, how: How = "left") -> CellCollection:
        """The same cells with more columns of obs, which are not in their files.

        The columns are used like those of the files: in filters, splits, sampling strategies,
        batches, shards and exports. Nothing is written.

        Parameters
        ----------
        table
            A pandas DataFrame or Series with the names of the cells as its index; a polars
            DataFrame or an Arrow table with a column ``"obs_names"``; or the path of a CSV or TSV
            file whose first column has the names, read as ``pandas.read_csv`` does.
        on
            An obs column to match by instead, as ``"donor"`` for a table with a row for each donor.
            The table has it as a column, or as its index.
        how
            ``"left"``: cells without a row have missing values, and rows without a cell are
            ignored. ``"exact"``: either is an error.

        Raises
        ------
        InvalidArgumentError
            Obs has a column of that name; rows and cells do not match as ``how`` asks; a name or a
            value of ``on`` has several rows, or a name several cells.

        Examples
        --------
        >>> cells = cells.with_obs(pandas.read_csv("labels.csv", index_col=0))  # doctest: +SKIP
        >>> cells = cells.with_obs("donors.csv", on="donor", how="exact")       # doctest: +SKIP
        """
        return self._with_columns(matched(self, table, on, how))

    def _with_columns(self, columns: pd.DataFrame) -> CellCollection:
        core = self._core.with_obs(table_of(columns, index=None))
        return CellCollection(core, ObsAdded(self, columns), list(self.default_obs), self._names)

    def _select(self, rows: np.ndarray, step: str) -> CellCollection:
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        core, origin = self._core.with_rows(rows), Selected(self, Runs.of(rows), step)
        return CellCollection(core, origin, list(self.default_obs), self._names)

    def _with_genes(self, genes: np.ndarray) -> CellCollection:
        core = self._core.with_genes(genes)
        return CellCollection(core, GenesChosen(self, genes), list(self.default_obs), self._names)

    def _view(self, rows: np.ndarray | None) -> CellView:
        return CellView(self, rows)

    def _viewed(self) -> tuple[CellCollection, np.ndarray | None]:
        """What a view of this one reads, and which rows of it; None for all."""
        return self, None

    def split(
        self,
        shares: Mapping[str, float],
        *,
        by: CellLabels | str | None = None,
        stratify: CellLabels | str | None = None,
        seed: int = 0,
    ) -> dict[str, CellCollection]:
        """Divide the cells at random, as for training, validation and test; the same every time.

        Parameters
        ----------
        shares
            Name -> share of the cells, such as ``{"train": 0.8, "val": 0.1, "test": 0.1}``.
        by
            An obs column of labels, integers or booleans, such as ``"donor"``, or a label for each
            cell: cells with one value
            come to one part, so that nothing is learned of the others' donors. No part is empty
            where there are as many groups as parts. Without ``stratify``, parts are within one cell
            of their shares or as near as whole groups allow: of up to 7 groups for certain, of more
            as far as moves and swaps of groups lead.
        stratify
            A column or labels, likewise, that every part has in about equal
            proportions; without ``by``, to one cell of each label.
        seed
            Another seed is another division.

        Returns
        -------
        dict
            Name -> collection, each with its cells in the order they have here. A cell that is here
            several times is of one part.

        Raises
        ------
        InvalidArgumentError
            A part would have no cell; a cell has no label of ``by``.
        InvalidTypeError
            ``by`` or ``stratify`` is a column of floats.
        """
        parts = deal(self, shares, by, stratify, as_int("seed", seed, 0))
        how = f"split {dict(shares)}, by={shown(by)}, stratify={shown(stratify)}, seed={seed}"
        return {
            name: self._select(np.flatnonzero(parts == part), f"{name!r} of {how}")
            for part, name in enumerate(shares)
        }

    def folds(
        self,
        k: int,
        *,
        by: CellLabels | str | None = None,
        stratify: CellLabels | str | None = None,
        seed: int = 0,
    ) -> list[tuple[CellCollection, CellCollection]]:
        """Divide the cells into k equal parts, each the test of the others: (train, test) pairs.

        Parameters
        ----------
        k
            At least 2.
        by, stratify, seed
            As for :meth:`split`.
        """
        equal = {f"fold {number}": 1 / k for number in range(as_int("k", k, 2, len(self)))}
        parts = deal(self, equal, by, stratify, as_int("seed", seed, 0))
        how = f"of {k} folds, by={shown(by)}, stratify={shown(stratify)}, seed={seed}"
        return [
            (
                self._select(np.flatnonzero(parts != p), f"all but fold {p} {how}"),
                self._select(np.flatnonzero(parts == p), f"fold {p} {how}"),
            )
            for p in range(k)
        ]

    @overload
    def read(
        self, rows: Rows, *, output: Literal["csr"] = ..., **options: Unpack[ReadKeywords]
    ) -> Batch[csr_matrix]: ...

    @overload
    def read(
        self, rows: Rows, *, output: Literal["dense"], **options: Unpack[ReadKeywords]
    ) -> Batch[np.ndarray]: ...

    def read(
        self,
        rows: Rows,
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
        wanted = as_row_numbers(rows, len(self))
        if wanted.size == 0:
            raise OutOfRangeError("no rows asked for")
        options = ReaderOptions(
            output=output, dtype=as_dtype("dtype", dtype), casting=casting, transforms=transforms,
            obs=as_chosen_names("obs", obs),
        )  # fmt: skip
        reader = Reader(self, options)
        reader.check_values(lambda n: wanted[:: max(1, len(wanted) // n)])
        return reader.read(wanted)

    def __getitem__(self, index: Index) -> CellView:
        """``cells[rows]``, ``cells[:, genes]``, ``cells[rows, genes]``: a view, read on demand.

        Parameters
        ----------
        index
            Rows are an int, a slice, a mask, numbers in any order, or a list of cells' names; genes
            likewise, each once, or one name.

        Returns
        -------
        CellView
            Nothing is read but for names that are asked for.

        Raises
        ------
        OutOfRangeError, InvalidArgumentError, NoSuchKeyError, InvalidTypeError
            A number is outside; nothing is left; a name is unknown, or of several.
        """
        if isinstance(index, str):
            raise NoSuchKeyError(
                f"cells[{index!r}]: write cells[[{index!r}]] for the cell of that name, "
                f"cells[:, {index!r}] for a gene, cells.obs[{index!r}] for an obs column"
            )
        rows, genes = split_index(index)
        table, own = self._viewed()
        if not are_all(genes):
            table = table._with_genes(gene_numbers(genes, self._core.gene_names))
        if not are_all(rows):
            numbers = row_numbers(rows, self)
            own = numbers if own is None else own[numbers]
        return table._view(own)

    def iterate_axis(
        self, batch_size: int, *, axis: Literal[0, 1] = 0, shuffle: bool = False,
        drop_last: bool = False,
    ) -> Iterator[tuple[CellView, list[int]]]:  # fmt: skip
        """Views of all cells, or genes, one after another, each with the numbers of its own.

        A :class:`~cellfeed.Loader` reads ahead, and this does not.

        Parameters
        ----------
        batch_size
            Cells, or genes, in each; the last may have fewer.
        axis
            0 for cells, 1 for genes.
        shuffle
            In random order: numpy's, so that ``numpy.random.seed`` fixes it.
        drop_last
            Leave out a last one that is smaller.
        """
        # Each piece may be of one kind, and all of them are not.
        self._core.processing  # noqa: B018
        return pieces(self, batch_size, axis, shuffle, drop_last)


class CellView(BatchOnDemand, CellCollection):
    """Some cells and genes of a collection, what ``cells[...]`` gives: nothing is read yet.

    A collection of its own, with rows from 0, for everything that takes one. What a
    :class:`~cellfeed.Batch` has is read once, when it is first asked for, and kept: ``x``,
    ``to_torch()``, ``to(device)`` and the like, in float32 and with the obs columns of
    ``default_obs``; ``cells.read(rows, ...)`` gives other ones. What an AnnData has is as stored:
    ``X``, ``obs``, ``var``, ``to_anndata()``.

    Picklable: a copy opens the files again, and reads for itself.
    """

    def __init__(self, table: CellCollection, rows: np.ndarray | None) -> None:
        core = table._core
        runs = None
        if rows is not None:
            rows = np.ascontiguousarray(rows, dtype=np.int64)
            core = core.with_rows(rows)
            runs = Runs.of(rows)
        super().__init__(core, Viewed(table, runs), list(table.default_obs), table._names)
        self._table = table
        self._runs = runs

    def _viewed(self) -> tuple[CellCollection, np.ndarray | None]:
        return self._table, None if self._runs is None else self._runs.rows()

    @overload
    def __getitem__(self, index: str) -> csr_matrix | np.ndarray: ...

    @overload
    def __getitem__(self, index: Index) -> CellView: ...

    def __getitem__(self, index: str | Index) -> csr_matrix | np.ndarray | CellView:
        """As of a collection; and ``view["X"]``, ``view["cell_type"]``, as of a batch."""
        if not isinstance(index, str):
            return super().__getitem__(index)
        return self.x if index == "X" else self.obs_values(index)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name == "X" or name in self.obs_keys())

    @cached_property
    def batch(self) -> Batch[csr_matrix]:
        """The cells, read: what ``cells.read(rows)`` gives."""
        return self._table.read(self.index, obs=self.default_obs)

    @property
    def index(self) -> npt.NDArray[np.int64]:
        """Row numbers, int64, in the collection that the first view was made of."""
        return self._all_rows() if self._runs is None else self._runs.rows()

    def keys(self) -> list[str]:
        """``"X"`` and the names of ``default_obs``."""
        return ["X", *(name for name in self.default_obs if name != "X")]

    @cached_property
    def X(self) -> csr_matrix | np.ndarray:  # noqa: N802 - anndata's name
        """As files have it, but wider where sums of duplicates exceed that; dense if all are."""
        x: csr_matrix | np.ndarray = of_dtype(self._as_stored.x, stored_dtypes(self)[0][0])
        return x

    @cached_property
    def _as_stored(self) -> Batch[Any]:
        """All matrices, in dtypes that hold what the files have."""
        return as_stored(
            self,
            lambda **options: Reader(self, ReaderOptions(obs=[], **options)).read(slice(None)),
        )

    @cached_property
    def obs(self) -> LazyObs:
        """Obs as pandas has it: see :attr:`CellCollection.obs`."""
        # Of the view itself it would keep what the view has read until garbage is collected.
        return LazyObs(CellCollection(self._core, self._origin, self.default_obs, self._names))

    @property
    def obs_names(self) -> pd.Index:
        """Names of the cells, a ``pandas.Index``."""
        return self.obs.index

    @property
    def var_names(self) -> pd.Index:
        """Names of the genes, a ``pandas.Index``."""
        return pd.Index(self._core.gene_names)

    def to_anndata(self, *, ignore_X: bool = False, ignore_layers: bool = False) -> anndata.AnnData:  # noqa: N803
        """An AnnData with ``X``, layers and obsm as stored and every column of obs and var.

        Parameters
        ----------
        ignore_X
            Leave X out. Counts are read only where there are layers or obsm, with which they come.
        ignore_layers
            Leave layers and raw out.
        """
        without_layers = as_bool("ignore_layers", ignore_layers)
        return make_anndata(self, as_bool("ignore_X", ignore_X), without_layers)
