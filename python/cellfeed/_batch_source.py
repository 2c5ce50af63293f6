"""Where a batch comes from: what the batches of one loader share, and arrays of its own."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from . import _core
from ._cells.matrices import Matrices
from ._extras import scipy
from ._iteration.worker import this_worker
from ._lazy import cached_property
from .errors import InvalidArgumentError, NoSuchKeyError

if TYPE_CHECKING:
    from ._cells.gene_masks import GeneMasks
    from ._cells.names import Names
    from ._options import Label

# What obs columns are, with or without their files.
Column: TypeAlias = "ColumnInfo | _core.ObsColumn"
Columns: TypeAlias = "Mapping[str, Column]"
# One matrix of a batch; a batch is that of its x.
AnyBlock: TypeAlias = "_core.Block | BlockArrays | BatchArrays"


class HasGenes(Protocol):
    """Whoever knows the genes of a batch."""

    @property
    def gene_names(self) -> list[str]:
        """Names of its columns."""

    def matrix_genes(self, number: int) -> list[str]:
        """Names of the columns of one of its matrices; number 0 is ``x``."""


_NO_MATRICES = Matrices({}, {}, ())


class BatchSource:
    """What the batches of one loader share: obs columns, names of matrices and genes.

    A batch that comes from a worker process brings the key of its source only, and finds the source
    that its loader
    has in this process.
    """

    _alive: ClassVar[weakref.WeakValueDictionary[str, BatchSource]] = weakref.WeakValueDictionary()

    def __init__(
        self,
        columns: Columns,
        core: HasGenes,
        key: str | None = None,
        names: Names | None = None,
        gene_masks: GeneMasks | None = None,
        matrices: Matrices = _NO_MATRICES,
        files: _core.Collection | None = None,
    ) -> None:
        """``files``: what row numbers count in; ``None`` where it is not known."""
        self.columns = columns
        self.matrices = matrices
        self.files = files
        self._core = core
        self._names = names
        self._gene_masks = gene_masks
        self.key = uuid.uuid4().hex if key is None else key
        self._alive.setdefault(self.key, self)

    @cached_property
    def var_names(self) -> np.ndarray:
        names = np.array(self._core.gene_names, dtype=object)
        names.flags.writeable = False  # shared by all batches
        return names

    def names_of_columns(self, number: int) -> np.ndarray:
        """Of one matrix: an object array of ``str``."""
        return np.array(self._core.matrix_genes(number), dtype=object)

    @property
    def names(self) -> Names:
        if self._names is None:
            raise NoSuchKeyError(
                "the names of cells and genes' columns are in the files of the loader, which are "
                "not open in this process: ask for obs_names or to_anndata() where the loader is"
            )
        return self._names

    @property
    def gene_masks(self) -> GeneMasks:
        return self.names.gene_masks() if self._gene_masks is None else self._gene_masks

    @property
    def is_found_again(self) -> bool:
        """Pickled now, a batch comes to where this source is: a worker's to the main process."""
        return this_worker().is_process

    def __reduce__(self) -> tuple[object, ...]:
        if self.is_found_again:
            return _find_source, (self.key,)
        columns = {name: ColumnInfo.of(column) for name, column in self.columns.items()}
        genes = [
            self.names_of_columns(number).tolist() for number in range(len(self.matrices.paths) + 1)
        ]
        rest = (self.key, self.gene_masks, self.matrices)
        return _restore_source, (columns, _GeneNames(genes), *rest)


def _find_source(key: str) -> BatchSource:
    source = BatchSource._alive.get(key)
    if source is None:
        raise NoSuchKeyError(
            "the loader of this batch is gone: keep it as long as its batches are used"
        )
    return source


def _restore_source(
    columns: Columns, genes: _GeneNames, key: str, gene_masks: GeneMasks, matrices: Matrices
) -> BatchSource:
    alive = BatchSource._alive.get(key)
    return alive or BatchSource(columns, genes, key, None, gene_masks, matrices)


@dataclass(frozen=True)
class _GeneNames:
    of_matrices: list[list[str]]

    @property
    def gene_names(self) -> list[str]:
        return self.of_matrices[0]

    def matrix_genes(self, number: int) -> list[str]:
        return self.of_matrices[number]


@dataclass(frozen=True)
class ColumnInfo:
    """What an obs column is, without its values."""

    name: str
    is_categorical: bool
    ordered: bool
    dtype: str
    categories: list[Label]

    @classmethod
    def of(cls, column: Column) -> ColumnInfo:
        categories = column.categories if column.is_categorical else []
        return cls(
            column.name, column.is_categorical, column.ordered, column.dtype, list(categories)
        )


def column_numbers(block: AnyBlock) -> np.ndarray:
    """Columns of the non-zeros of a sparse block, int32."""
    return _of_sparse(block.indices)


def row_starts(block: AnyBlock) -> np.ndarray:
    """Where the rows of a sparse block begin among its non-zeros, int32: a copy."""
    return _of_sparse(block.indptr).astype(np.int32)


def _of_sparse(array: np.ndarray | None) -> np.ndarray:
    if array is None:
        raise InvalidArgumentError("this batch is dense: it has no indptr and indices")
    return array


def as_csr(block: AnyBlock) -> scipy.sparse.csr_matrix:
    """A sparse matrix that shares the memory of a sparse block."""
    parts = (block.values, column_numbers(block), row_starts(block))
    matrix = scipy.sparse.csr_matrix(parts, shape=(block.n_rows, block.n_cols), copy=False)
    matrix.has_canonical_format = True
    return matrix


class _Block:
    """What blocks have in common, x among them."""

    n_cols: int
    values: np.ndarray
    indptr: np.ndarray | None
    indices: np.ndarray | None
    is_pinned: ClassVar[bool] = False

    def pinned_values(self) -> None:
        return None

    def pinned_indices(self) -> None:
        return None

    @property
    def is_sparse(self) -> bool:
        return self.indptr is not None

    def _parts_of(self, rows: np.ndarray) -> dict[str, Any]:
        """Fields of some rows, copied."""
        if self.indptr is None or self.indices is None:
            return {"values": self.values[rows]}
        sizes = np.diff(self.indptr)[rows]
        indptr = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=indptr[1:])
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[:-1][rows] - indptr[:-1], sizes)
        return {"values": self.values[places], "indptr": indptr, "indices": self.indices[places]}


@dataclass(frozen=True)
class BlockArrays(_Block):
    """The arrays of one matrix of a batch as Python owns them."""

    n_rows: int
    n_cols: int
    values: np.ndarray
    indptr: np.ndarray | None = None
    indices: np.ndarray | None = None

    @classmethod
    def of(cls, block: _core.Block) -> BlockArrays:
        indptr, indices = (block.indptr, block.indices) if block.is_sparse else (None, None)
        return cls(block.n_rows, block.n_cols, block.values, indptr, indices)

    def take(self, rows: np.ndarray) -> BlockArrays:
        """Some rows, copied."""
        return replace(self, n_rows=len(rows), **self._parts_of(rows))


@dataclass(frozen=True)
class BatchArrays(_Block):
    """The arrays of a batch as Python owns them: of pickled batches and parts of batches.

    Attributes
    ----------
    files
        The file of each row, of batches that leave the process where the files are open.
    """

    n_cols: int
    values: np.ndarray
    rows: np.ndarray
    is_padding: np.ndarray | None = None
    indptr: np.ndarray | None = None
    indices: np.ndarray | None = None
    columns: list[np.ndarray] = field(default_factory=list)
    files: np.ndarray | None = None
    others: list[BlockArrays] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    def obs(self, place: int) -> np.ndarray:
        return self.columns[place]

    def matrix(self, number: int) -> BatchArrays | BlockArrays:
        return self if number == 0 else self.others[number - 1]

    @classmethod
    def of(cls, core: _core.Batch | BatchArrays, n_columns: int, n_others: int) -> BatchArrays:
        if isinstance(core, BatchArrays):
            return core
        return cls(
            core.n_cols,
            core.values,
            core.rows,
            core.is_padding,
            core.indptr if core.is_sparse else None,
            core.indices if core.is_sparse else None,
            [core.obs(i) for i in range(n_columns)],
            others=[BlockArrays.of(core.matrix(i + 1)) for i in range(n_others)],
        )

    def take(self, rows: np.ndarray) -> BatchArrays:
        """Some rows, copied."""
        return replace(
            self,
            **self._parts_of(rows),
            rows=self.rows[rows],
            is_padding=None if self.is_padding is None else self.is_padding[rows],
            columns=[column[rows] for column in self.columns],
            files=None if self.files is None else self.files[rows],
            others=[other.take(rows) for other in self.others],
        )
