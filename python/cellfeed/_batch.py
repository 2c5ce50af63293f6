"""What a loader yields: :class:`Batch` and the obs values in it."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from . import _core
from ._epochs import this_worker
from .errors import InvalidTypeError, NoSuchKeyError, OutOfRangeError

if TYPE_CHECKING:
    import anndata
    import pandas as pd
    import pyarrow as pa
    import scipy.sparse
    import torch


class BatchSource:
    """What the batches of one loader share: obs columns and gene names.

    A batch that comes from a worker process brings the key of its source only, and finds the source
    that its loader
    has in this process.
    """

    _alive: ClassVar[weakref.WeakValueDictionary[str, BatchSource]] = weakref.WeakValueDictionary()

    def __init__(self, columns: dict[str, Any], core: Any, key: str | None = None) -> None:
        self.columns = columns
        self._core = core
        self.key = uuid.uuid4().hex if key is None else key
        self._alive.setdefault(self.key, self)

    @cached_property
    def gene_names(self) -> list[str]:
        return self._core.gene_names

    def __reduce__(self) -> tuple[Any, ...]:
        if this_worker().is_process:
            return _find_source, (self.key,)
        columns = {name: ColumnInfo.of(column) for name, column in self.columns.items()}
        return BatchSource, (columns, _GeneNames(self.gene_names), self.key)


def _find_source(key: str) -> BatchSource:
    source = BatchSource._alive.get(key)
    if source is None:
        raise NoSuchKeyError(
            "the loader of this batch is gone: keep it as long as its batches are used"
        )
    return source


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
    categories: list[str]

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
    missing); :meth:`labels` gives the texts behind the codes.
    """

    def __init__(self, core: _core.Batch | BatchArrays, columns: dict[str, Any]) -> None:
        self._core = core
        self._columns = columns
        self._places = {name: i for i, name in enumerate(columns)}

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self._core.obs(self._places[name])
        except KeyError:
            raise NoSuchKeyError(
                f"this batch was loaded without obs column {name!r}; it has: "
                f"{', '.join(self._columns) or 'none'}; pass obs=[...] to the loader"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"BatchObs({', '.join(self._columns) or 'empty'})"

    def categories(self, name: str) -> list[str]:
        """Texts of the codes 0, 1, ... of a categorical column."""
        self[name]
        return self._columns[name].categories

    def labels(self, name: str) -> np.ndarray:
        """Texts of a categorical column as an object array; ``None`` where missing."""
        names = np.array([*self.categories(name), None], dtype=object)
        return names[self[name]]

    def to_pandas(self) -> pd.DataFrame:
        """A data frame; categoricals stay categorical."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for name, column in self._columns.items():
            values = self[name]
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
            values = self[name]
            if column.is_categorical:
                codes = pa.array(values, mask=values < 0)
                columns[name] = pa.DictionaryArray.from_arrays(
                    codes, pa.array(column.categories, pa.string()), ordered=column.ordered
                )
            else:
                columns[name] = pa.array(values)
        return pa.table(columns)


class Batch:
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

    def __getitem__(self, rows: Any) -> Batch:
        """Some of the cells, copied: a slice, a boolean mask or positions in any order."""
        if isinstance(rows, slice):
            positions = np.arange(len(self))[rows]
        else:
            positions = np.asarray(rows)
            if positions.dtype == bool and positions.shape == (len(self),):
                positions = np.flatnonzero(positions)
        if positions.ndim != 1 or (
            positions.size and not np.issubdtype(positions.dtype, np.integer)
        ):
            raise InvalidTypeError(
                f"a batch takes a slice, a mask or a list of positions, not {rows!r:.80}"
            )
        positions = positions.astype(np.int64)
        if positions.size and not (-len(self) <= positions.min() and positions.max() < len(self)):
            raise OutOfRangeError(f"positions must be in [0, {len(self)}): {rows!r:.80}")
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

    @cached_property
    def obs(self) -> BatchObs:
        """Obs columns by name."""
        return BatchObs(self._core, self._source.columns)

    @property
    def gene_names(self) -> list[str]:
        """Names of the columns of ``x``."""
        return self._source.gene_names

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
    def x(self) -> scipy.sparse.csr_matrix | np.ndarray:
        """The expression, cells x genes."""
        return self.to_scipy() if self._core.is_sparse else self._core.values

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
        """An :class:`anndata.AnnData` with ``obs`` and gene names; cells are named by ``index``."""
        import anndata
        import pandas as pd

        obs = self.obs.to_pandas()
        obs.index = pd.Index(self.index.astype(str))
        return anndata.AnnData(X=self.x, obs=obs, var=pd.DataFrame(index=pd.Index(self.gene_names)))
