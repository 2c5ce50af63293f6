"""What a loader yields: :class:`Batch` and the obs values in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from .errors import NoSuchKeyError

if TYPE_CHECKING:
    import anndata
    import pandas as pd
    import pyarrow as pa
    import scipy.sparse
    import torch


class BatchObs(Mapping[str, np.ndarray]):
    """obs columns of a batch by name.

    ``obs["cell_type"]`` is int64 codes for a categorical (-1 = missing), numbers otherwise (NaN = missing);
    :meth:`labels` gives the texts behind the codes.
    """

    def __init__(self, core: _core.Batch, columns: dict[str, _core.ObsColumn]) -> None:
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

    Arrays are views of the loader's memory: nothing is copied, and the memory is reused once the batch and every
    array made from it are gone.

    Attributes
    ----------
    x
        ``scipy.sparse.csr_matrix`` (output ``"csr"``) or ``numpy.ndarray`` (``"dense"``), cells x genes.
    obs
        :class:`BatchObs`: obs columns by name.
    index
        Global row numbers (int64), one per cell.
    """

    def __init__(
        self, core: _core.Batch, columns: dict[str, _core.ObsColumn], loader: _core.LoaderCore
    ) -> None:
        self._core = core
        self._columns = columns
        self._loader = loader

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
        """obs columns by name."""
        return BatchObs(self._core, self._columns)

    @property
    def gene_names(self) -> list[str]:
        """Names of the columns of ``x``."""
        return self._loader.gene_names

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
        """A tensor, cells x genes: ``torch.sparse_csr`` sharing memory for a sparse batch, else dense.

        Parameters
        ----------
        dense
            Densify a sparse batch.
        """
        from .torch import batch_to_tensor

        return batch_to_tensor(self, dense=dense)

    def to_anndata(self) -> anndata.AnnData:
        """An :class:`anndata.AnnData` with ``obs`` (and ``index`` as obs column ``cellfeed_index``) and gene names."""
        import anndata
        import pandas as pd

        obs = self.obs.to_pandas()
        obs.index = pd.Index(self.index.astype(str))
        return anndata.AnnData(X=self.x, obs=obs, var=pd.DataFrame(index=pd.Index(self.gene_names)))
