"""Where a batch comes from: what the batches of one loader share, and arrays of its own."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from . import _core
from ._iteration.worker import this_worker
from .errors import NoSuchKeyError

if TYPE_CHECKING:
    from ._cells.gene_masks import GeneMasks
    from ._cells.names import Names

# What obs columns are, with or without their files.
Column: TypeAlias = "ColumnInfo | _core.ObsColumn"
Columns: TypeAlias = "Mapping[str, Column]"


class HasGenes(Protocol):
    """Whoever knows the genes of a batch."""

    @property
    def gene_names(self) -> list[str]:
        """Names of its columns."""


class BatchSource:
    """What the batches of one loader share: obs columns and gene names.

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
    ) -> None:
        self.columns = columns
        self._core = core
        self._names = names
        self._gene_masks = gene_masks
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

    @property
    def gene_masks(self) -> GeneMasks:
        return self.names.gene_masks() if self._gene_masks is None else self._gene_masks

    @property
    def is_found_again(self) -> bool:
        """Pickled now, a batch comes to where this source is: a worker's to the main process."""
        return this_worker().is_process

    def __reduce__(self) -> tuple[Any, ...]:
        if self.is_found_again:
            return _find_source, (self.key,)
        columns = {name: ColumnInfo.of(column) for name, column in self.columns.items()}
        genes = _GeneNames(self.var_names.tolist())
        return _restore_source, (columns, genes, self.key, self.gene_masks)


def _find_source(key: str) -> BatchSource:
    source = BatchSource._alive.get(key)
    if source is None:
        raise NoSuchKeyError(
            "the loader of this batch is gone: keep it as long as its batches are used"
        )
    return source


def _restore_source(
    columns: Columns, genes: _GeneNames, key: str, gene_masks: GeneMasks
) -> BatchSource:
    alive = BatchSource._alive.get(key)
    return alive or BatchSource(columns, genes, key, gene_masks=gene_masks)


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
    def of(cls, column: Column) -> ColumnInfo:
        categories = column.categories if column.is_categorical else []
        return cls(
            column.name, column.is_categorical, column.ordered, column.dtype, list(categories)
        )


@dataclass(frozen=True)
class BatchArrays:
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
    def of(cls, core: _core.Batch | BatchArrays, n_columns: int) -> BatchArrays:
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
        )

    def take(self, rows: np.ndarray) -> BatchArrays:
        """Some rows, copied."""
        padding = None if self.is_padding is None else self.is_padding[rows]
        columns = [column[rows] for column in self.columns]
        files = None if self.files is None else self.files[rows]
        if self.indptr is None or self.indices is None:
            return BatchArrays(
                self.n_cols,
                self.values[rows],
                self.rows[rows],
                padding,
                columns=columns,
                files=files,
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
            files,
        )
