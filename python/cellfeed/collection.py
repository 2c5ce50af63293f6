"""Cells of one or more files as one table: what ``cellfeed.open`` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, Unpack, overload

import numpy as np

from . import _core
from ._arguments import as_int, as_row_numbers, as_text
from ._cells.closed import Closed
from ._cells.filtering import rows_where
from ._cells.names import Names
from ._cells.runs import Runs
from ._cells.splitting import deal
from ._options import Casting, DType, Output, ReadOptions
from ._reader import Reader, ReaderOptions
from .batch import Batch
from .encoders import Encoders
from .errors import NoSuchKeyError, OutOfRangeError, PrecisionError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from scipy.sparse import csr_matrix

    from .transforms import Transform


class Origin(Protocol):
    """Where a collection comes from."""

    @property
    def options(self) -> dict[str, Any]:
        """Arguments that it was opened with."""

    def fingerprint(self, of_core: int) -> int:
        """What the collection's fingerprint is, where that of its core does not tell all."""

    def reduce(self, cells: CellCollection) -> tuple[Any, ...]:
        """What pickle makes a copy of the collection by."""


@dataclass(frozen=True)
class Selected:
    """Some cells of another collection."""

    cells: CellCollection
    runs: Runs

    @property
    def options(self) -> dict[str, Any]:
        """Arguments that the other one was opened with."""
        return self.cells._origin.options

    def fingerprint(self, of_core: int) -> int:
        """As of the other one: the core knows the rows."""
        return self.cells._origin.fingerprint(of_core)

    def reduce(self, cells: CellCollection) -> tuple[Any, ...]:
        """What pickle makes a copy of the collection by."""
        return _select_again, (self.cells, self.runs, cells.default_obs)


def _select_again(cells: CellCollection, runs: Runs, obs: list[str]) -> CellCollection:
    selected = cells._select(runs.rows())
    selected.default_obs = obs
    return selected


class CellCollection:
    """Cells of one or more files as one table, made by :func:`cellfeed.open`.

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
        origin: Origin,
        default_obs: list[str],
    ) -> None:
        self._core = core
        self._origin = origin
        self.default_obs = default_obs
        self._names = Names(core)

    def close(self) -> None:
        """Let go of the files. Loaders made before keep them open until they are closed too.

        Using the collection afterwards is an error. ``with cf.open(...) as cells:`` closes it.
        """
        closed: Any = Closed("this collection is closed: open the files again")
        self._core = closed
        self._names = Names(self._core)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return self._origin.reduce(self)

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
    def gene_mask(self) -> np.ndarray:
        """Which genes the files have, bool (files, genes); ``batch.gene_mask`` is of its cells.

        A shard directory is one file here: it has every gene that it was written with.
        """
        return self._names.gene_masks().of_files(np.arange(self._core.n_stores), self.var_names)

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
        return self._origin.fingerprint(self._core.fingerprint)

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
        for other data ``cf.open(..., categories=cf.load_encoders("labels.json"))``: the same label
        has the same code.
        """
        unknown = self._origin.options["unknown_label"]
        fixed = self._origin.options["categories"] or {}
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

    def locate(self, rows: Any = None) -> tuple[np.ndarray, np.ndarray]:
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

    def filter(self, where: str | Mapping[str, Any] | Any) -> CellCollection:
        """Some of the cells, as a collection of its own; no counts are read.

        Its rows are numbered from 0, in the order asked for; genes, labels and their codes stay.
        Everything that takes a collection takes it. Memory grows with the runs of neighbouring
        cells, and not with the cells.

        Parameters
        ----------
        where
            An expression, as pandas' ``query`` and SOMA's value filters have it: ``"tissue ==
            'lung' and n_counts > 500"``. It knows ``== != < <= > >= in``, ``not in``, ``is
            missing``, ``is not missing``, ``and or not``; columns whose names are not Python's go
            in backticks. Missing values fail all but ``!=``, ``not in`` and ``is missing``.
            Or a dict of column -> value or list of values; a mask; row numbers in any order; a
            slice.

        Raises
        ------
        NoSuchKeyError
            There is no such obs column.
        InvalidArgumentError
            The expression is none; a label is none of the column's; no cell is left.
        InvalidTypeError
            A column is compared with a value of another kind.
        """
        return self._select(rows_where(self, where))

    def _select(self, rows: np.ndarray) -> CellCollection:
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        core = self._core.with_rows(rows)
        return CellCollection(core, Selected(self, Runs.of(rows)), list(self.default_obs))

    def split(
        self,
        shares: Mapping[str, float],
        *,
        by: str | None = None,
        stratify: str | None = None,
        seed: int = 0,
    ) -> dict[str, CellCollection]:
        """Divide the cells at random, as for training, validation and test; the same every time.

        Parameters
        ----------
        shares
            Name -> share of the cells, such as ``{"train": 0.8, "val": 0.1, "test": 0.1}``.
        by
            An obs column of labels, such as ``"donor"``: cells with one label come to one part, so
            that nothing is learned of the others' donors. Parts are then as near to their shares as
            whole groups allow.
        stratify
            An obs column of labels that every part has in about equal proportions; without
            ``by``, to one cell of each label.
        seed
            Another seed is another division.

        Returns
        -------
        dict
            Name -> collection, each with its cells in the order they have here.

        Raises
        ------
        InvalidArgumentError
            A part would have no cell; a cell has no label of ``by``.
        """
        parts = deal(self, shares, by, stratify, as_int("seed", seed, 0))
        return {
            name: self._select(np.flatnonzero(parts == part)) for part, name in enumerate(shares)
        }

    def folds(
        self, k: int, *, by: str | None = None, stratify: str | None = None, seed: int = 0
    ) -> list[tuple[CellCollection, CellCollection]]:
        """Divide the cells into k equal parts, each the test of the others: (train, test) pairs.

        Parameters
        ----------
        k
            At least 2.
        by, stratify, seed
            As for :meth:`split`.
        """
        k = as_int("k", k, 2, len(self))
        equal = {f"fold {number}": 1 / k for number in range(k)}
        parts = deal(self, equal, by, stratify, as_int("seed", seed, 0))
        return [
            (self._select(np.flatnonzero(parts != p)), self._select(np.flatnonzero(parts == p)))
            for p in range(k)
        ]

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
        wanted = as_row_numbers(rows, len(self))
        if wanted.size == 0:
            raise OutOfRangeError("no rows asked for")
        options = ReaderOptions(output, dtype, casting, obs, transforms)
        reader = Reader(self, options)
        reader.check_values(lambda n: wanted[:: max(1, len(wanted) // n)])
        return reader.read(wanted)

    def __getitem__(self, rows: Any) -> Batch[csr_matrix]:
        """Cells by number, with the defaults of :meth:`read`."""
        return self.read(rows)
