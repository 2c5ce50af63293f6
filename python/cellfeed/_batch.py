"""What a loader yields: :class:`Batch` and the obs values in it."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, overload

import numpy as np

from . import _core
from ._checks import as_row_numbers, as_text, suggestion
from ._epochs import this_worker
from .errors import InvalidTypeError, NoSuchKeyError

if TYPE_CHECKING:
    import anndata
    import pandas as pd
    import pyarrow as pa
    import scipy.sparse
    import torch

    from ._names import Names
    from .torch import TensorBatch

# Of x: scipy.sparse.csr_matrix or numpy.ndarray.
X = TypeVar("X")


class BatchSource:
    """What the batches of one loader share: obs columns and gene names.

    A batch that comes from a worker process brings the key of its source only, and finds the source
    that its loader
    has in this process.
    """

    _alive: ClassVar[weakref.WeakValueDictionary[str, BatchSource]] = weakref.WeakValueDictionary()

    def __init__(
        self, columns: dict[str, Any], core: Any, key: str | None = None, names: Names | None = None
    ) -> None:
        self.columns = columns
        self._core = core
        self._names = names
        self.key = uuid.uuid4().hex if key is None else key
        self._alive.setdefault(self.key, self)

    @cached_property
    def var_names(self) -> np.ndarray:
        return np.array(self._core.gene_names, dtype=object)

    @property
    def names(self) -> Names:
        if self._names is None:
            raise NoSuchKeyError(
                "the names of cells and genes' columns are in the files of the loader, which are "
                "not open in this process: ask for obs_names or to_anndata() where the loader is"
            )
        return self._names

    def __reduce__(self) -> tuple[Any, ...]:
        if this_worker().is_process:
            return _find_source, (self.key,)
        columns = {name: ColumnInfo.of(column) for name, column in self.columns.items()}
        return _restore_source, (columns, _GeneNames(self.var_names.tolist()), self.key)


def _find_source(key: str) -> BatchSource:
    source = BatchSource._alive.get(key)
    if source is None:
        raise NoSuchKeyError(
            "the loader of this batch is gone: keep it as long as its batches are used"
        )
    return source


def _restore_source(columns: dict[str, Any], genes: _GeneNames, key: str) -> BatchSource:
    return BatchSource._alive.get(key) or BatchSource(columns, genes, key)


@dataclass(frozen=True)
class _GeneNames:
    gene_names: list[str]


@dataclass(frozen=True)
class ColumnInfo:
    """What an obs column is, without its values."""

    name: str
    is_categorical: bool
    ordered: bool
    dtype: str
    categories: list[Any]

    @classmethod
    def of(cls, column: Any) -> ColumnInfo:
        categories = column.categories if column.is_categorical else []
        return cls(
            column.name, column.is_categorical, column.ordered, column.dtype, list(categories)
        )


@dataclass(frozen=True)
class BatchArrays:
    """The arrays of a batch as Python owns them: of pickled batches and parts of batches."""

    n_cols: int
    values: np.ndarray
    rows: np.ndarray
    is_padding: np.ndarray | None = None
    indptr: np.ndarray | None = None
    indices: np.ndarray | None = None
    columns: list[np.ndarray] = field(default_factory=list)
    is_pinned: ClassVar[bool] = False

    def pinned_values(self) -> None:
        return None

    def pinned_indices(self) -> None:
        return None

    @property
    def is_sparse(self) -> bool:
        return self.indptr is not None

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    def obs(self, place: int) -> np.ndarray:
        return self.columns[place]

    @classmethod
    def of(cls, core: Any, n_columns: int) -> BatchArrays:
        if isinstance(core, cls):
            return core
        columns = [core.obs(i) for i in range(n_columns)]
        sparse = (core.indptr, core.indices) if core.is_sparse else (None, None)
        return cls(core.n_cols, core.values, core.rows, core.is_padding, *sparse, columns)

    def take(self, rows: np.ndarray) -> BatchArrays:
        """Some rows, copied."""
        padding = None if self.is_padding is None else self.is_padding[rows]
        columns = [column[rows] for column in self.columns]
        if self.indptr is None or self.indices is None:
            return BatchArrays(
                self.n_cols, self.values[rows], self.rows[rows], padding, columns=columns
            )
        sizes = np.diff(self.indptr)[rows]
        indptr = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=indptr[1:])
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1][rows] - indptr[:-1], sizes)
        return BatchArrays(
            self.n_cols,
            self.values[places],
            self.rows[rows],
            padding,
            indptr,
            self.indices[places],
            columns,
        )


class BatchObs(Mapping[str, np.ndarray]):
    """obs columns of a batch by name.

    ``obs["cell_type"]`` is int64 codes for a categorical (-1 = missing), numbers otherwise (NaN =
    missing); :meth:`labels` gives the labels behind the codes.
    """

    def __init__(self, core: _core.Batch | BatchArrays, columns: dict[str, Any]) -> None:
        self._core = core
        self._columns = columns
        self._places = {name: i for i, name in enumerate(columns)}

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self._core.obs(self._places[as_text("name", name)])
        except KeyError:
            raise NoSuchKeyError(
                f"this batch was loaded without obs column {name!r}, pass obs=[...] to the loader"
                f"{suggestion(name, self._columns)}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"BatchObs({', '.join(self._columns) or 'empty'})"

    def categories(self, name: str) -> list[Any]:
        """Labels of the codes 0, 1, ... of a categorical column: text, numbers or booleans.

        Raises
        ------
        NoSuchKeyError
            The column holds numbers, which need no codes: ``obs[name]`` has them.
        """
        self[name]
        column = self._columns[name]
        if not column.is_categorical:
            raise NoSuchKeyError(
                f"obs column {name!r} holds {column.dtype}, not labels, so it has no categories; "
                f"its values are obs[{name!r}]"
            )
        return column.categories

    def labels(self, name: str) -> np.ndarray:
        """Labels of a categorical column as an object array; ``None`` where missing.

        Raises
        ------
        NoSuchKeyError
            The column holds numbers: ``obs[name]`` has them.
        """
        names = np.array([*self.categories(name), None], dtype=object)
        return names[_as_numpy(self[name])]

    def to_pandas(self) -> pd.DataFrame:
        """A data frame; categoricals stay categorical."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for name, column in self._columns.items():
            values = _as_numpy(self[name])
            columns[name] = (
                pd.Categorical.from_codes(values, column.categories, ordered=column.ordered)
                if column.is_categorical
                else values
            )
        return pd.DataFrame(columns)

    def to_arrow(self) -> pa.Table:
        """An Arrow table; categoricals as dictionaries."""
        import pyarrow as pa

        columns = {}
        for name, column in self._columns.items():
            values = _as_numpy(self[name])
            if column.is_categorical:
                codes = pa.array(values, mask=values < 0)
                columns[name] = pa.DictionaryArray.from_arrays(
                    codes, _category_array(column.categories), ordered=column.ordered
                )
            else:
                columns[name] = pa.array(values)
        return pa.table(columns)


def _category_array(categories: list[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array(categories) if categories else pa.array([], pa.string())


def _as_numpy(values: Any) -> np.ndarray:
    return values.cpu().numpy() if hasattr(values, "cpu") else values


class Batch(Generic[X]):
    """Expression of some cells, their obs values and where they came from.

    Arrays are views of the loader's memory: nothing is copied, and the memory is reused once the
    batch and every array made from it are gone.

    Attributes
    ----------
    x
        ``scipy.sparse.csr_matrix`` (output ``"csr"``) or ``numpy.ndarray`` (``"dense"``), cells x
        genes.
    obs
        :class:`BatchObs`: obs columns by name.
    index
        Global row numbers (int64), one per cell.
    """

    def __init__(self, core: _core.Batch | BatchArrays, source: BatchSource) -> None:
        self._core = core
        self._source = source

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (BatchArrays.of(self._core, len(self._source.columns)), self._source)

    def keys(self) -> list[str]:
        """``"X"`` and the names of the obs columns: what ``batch[name]`` takes."""
        return ["X", *self.obs]

    @overload
    def __getitem__(self, rows: Literal["X"]) -> X: ...

    @overload
    def __getitem__(self, rows: str) -> Any: ...

    @overload
    def __getitem__(self, rows: Any) -> Batch[X]: ...

    def __getitem__(self, rows: Any) -> Any:
        """``batch["X"]``, ``batch["cell_type"]`` (as in ``obs``), or some of the cells, copied.

        Parameters
        ----------
        rows
            ``"X"`` or an obs column; or a slice, a boolean mask or positions in any order.
        """
        if isinstance(rows, str):
            return self.x if rows == "X" else self.obs[rows]
        if isinstance(rows, (int, np.integer)):
            raise InvalidTypeError(
                f"rows of a batch are a slice, a mask or a list, not {rows}; write [{rows}]"
            )
        positions = as_row_numbers(rows, len(self))
        arrays = BatchArrays.of(self._core, len(self._source.columns))
        return Batch(arrays.take(positions), self._source)

    def __len__(self) -> int:
        return self._core.n_rows

    def __repr__(self) -> str:
        kind = "CSR" if self._core.is_sparse else "dense"
        return f"Batch({len(self):,} cells x {self._core.n_cols:,} genes, {kind}, {self.obs!r})"

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and genes."""
        return self._core.n_rows, self._core.n_cols

    @cached_property
    def index(self) -> np.ndarray:
        """Global row numbers, int64."""
        return self._core.rows

    @cached_property
    def is_padding(self) -> np.ndarray:
        """True where a cell only fills up the batch, so that all ranks have batches of one size."""
        padding = self._core.is_padding
        return np.zeros(len(self), dtype=bool) if padding is None else padding

    def with_padding(self, is_padding: np.ndarray) -> Batch:
        """The same cells with other marks of padding, one bool a cell."""
        arrays = BatchArrays.of(self._core, len(self._source.columns))
        return Batch(replace(arrays, is_padding=is_padding), self._source)

    @cached_property
    def obs(self) -> BatchObs:
        """Obs columns by name."""
        return BatchObs(self._core, self._source.columns)

    @property
    def var_names(self) -> np.ndarray:
        """Names of the columns of ``x``, an object array of ``str``."""
        return self._source.var_names

    @cached_property
    def obs_names(self) -> np.ndarray:
        """Names of the cells, an object array of ``str``.

        Read from the files when first asked for. The names of each file that the batch has cells
        of then stay in memory, some 100 bytes a cell.
        """
        return self._source.names.obs_names(self.index)

    @property
    def data(self) -> np.ndarray:
        """Values of the non-zeros, (nnz,); of the whole matrix for a dense batch."""
        return self._core.values

    @property
    def indices(self) -> np.ndarray:
        """Columns of the non-zeros, int32 (nnz,), sorted inside each row."""
        return self._core.indices

    @cached_property
    def indptr(self) -> np.ndarray:
        """Start of each row in ``indices``, int32 (cells + 1,)."""
        return self._core.indptr.astype(np.int32)

    @cached_property
    def x(self) -> X:
        """The expression, cells x genes."""
        x: Any = self.to_scipy() if self._core.is_sparse else self._core.values
        return x

    def to_scipy(self) -> scipy.sparse.csr_matrix:
        """``scipy.sparse.csr_matrix``; no copy of a sparse batch."""
        import scipy.sparse

        if not self._core.is_sparse:
            return scipy.sparse.csr_matrix(self._core.values)
        matrix = scipy.sparse.csr_matrix(
            (self.data, self.indices, self.indptr), shape=self.shape, copy=False
        )
        matrix.has_canonical_format = True
        return matrix

    def to_numpy(self) -> np.ndarray:
        """A dense array, cells x genes; no copy of a dense batch."""
        return self.to_scipy().toarray() if self._core.is_sparse else self._core.values

    def to_torch(self, *, dense: bool = False) -> torch.Tensor:
        """A tensor, cells x genes: ``torch.sparse_csr`` sharing memory, or dense.

        Of a loader with ``pin_memory=True`` it is page-locked, and ``.to(device,
        non_blocking=True)`` does not wait for the copy. Torch notes such copies: the memory is
        used again after them, whatever becomes of the tensor and the batch. (So it does for
        ``torch.from_numpy`` of a whole array of the batch, but not of a part of one.)

        Parameters
        ----------
        dense
            Densify a sparse batch.
        """
        from .torch import batch_to_tensor

        return batch_to_tensor(self, dense=dense)

    def to_anndata(self) -> anndata.AnnData:
        """An :class:`anndata.AnnData` with ``obs``, ``var``, and the names of both.

        A column of ``var`` is that of the first file that has the gene.
        """
        import anndata

        obs = self.obs.to_pandas().set_axis(self.obs_names)
        return anndata.AnnData(X=self.x, obs=obs, var=self._source.names.var().loc[self.var_names])

    def to(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> TensorBatch:
        """The batch as tensors on a device: ``x``, every obs column, ``index``, ``is_padding``.

        Parameters
        ----------
        device
            Where to; the CPU by default, which copies nothing.
        non_blocking
            Do not wait for copies out of page-locked memory, as of ``Loader(pin_memory=True)``.
        """
        from .torch import TensorBatch

        return TensorBatch.of(self).to(device, non_blocking=non_blocking)

    def cuda(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> TensorBatch:
        """As :meth:`to`, on a GPU: the current one by default."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def pin_memory(self) -> TensorBatch:
        """The batch as page-locked tensors; a ``DataLoader`` with ``pin_memory`` calls this.

        A copy, but for what is page-locked already: ``Loader(pin_memory=True)`` decodes into
        such memory.
        """
        return self.to().pin_memory()
