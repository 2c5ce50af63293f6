"""What a loader yields: :class:`Batch` and the obs values in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Literal, NoReturn, TypeVar, cast, overload

import numpy as np
import numpy.typing as npt

from . import _core
from ._arguments import as_row_numbers, refuse_one_row
from ._batch_cells import BatchObs, BatchOfCells
from ._batch_source import BatchArrays, as_csr, column_numbers, row_starts
from ._extras import anndata, pd, scipy
from ._lazy import cached_property
from .errors import InvalidTypeError

if TYPE_CHECKING:
    import torch

    from ._batch_matrices import BatchMatrices
    from ._options import Rows
    from ._torch import TensorBatch as TensorBatch

__all__ = ["Batch", "BatchObs"]

# Of x: scipy.sparse.csr_matrix or numpy.ndarray.
X = TypeVar("X")


class Batch(BatchOfCells["TensorBatch"], Generic[X]):
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
    layers, obsm
        :class:`BatchMatrices`: further matrices of the same cells, as ``cellfeed.open(layers=[...],
        obsm=[...])`` asked for.
    index
        Global row numbers (int64), one per cell.
    """

    _core: _core.Batch | BatchArrays

    def __reduce__(self) -> tuple[object, ...]:
        arrays = self._arrays()
        if not self._source.is_found_again:
            arrays = replace(arrays, files=self._files)
        return Batch, (arrays, self._source)

    def _arrays(self) -> BatchArrays:
        source = self._source
        return BatchArrays.of(self._core, len(source.columns), len(source.matrices.paths))

    def keys(self) -> list[str]:
        """``"X"`` and the names of the obs columns: what ``batch[name]`` takes."""
        return ["X", *(name for name in self.obs if name != "X")]

    @overload
    def __getitem__(self, rows: Literal["X"]) -> X: ...  # type: ignore[overload-overlap]

    @overload
    def __getitem__(self, rows: str) -> np.ndarray: ...

    @overload
    def __getitem__(self, rows: Rows) -> Batch[X]: ...

    def __getitem__(self, rows: str | Rows) -> X | np.ndarray | Batch[X]:
        """``batch["X"]``, ``batch["cell_type"]`` (as in ``obs``), or some of the cells, copied.

        Parameters
        ----------
        rows
            ``"X"`` or an obs column; or a slice, a boolean mask or positions in any order.
        """
        if isinstance(rows, str):
            return self.x if rows == "X" else self.obs[rows]
        refuse_one_row(rows)
        positions = as_row_numbers(rows, len(self))
        return Batch(self._arrays().take(positions), self._source)

    def __repr__(self) -> str:
        kind = "CSR" if self._core.is_sparse else "dense"
        parts = [
            repr(part) for part in (self.obs, self.layers, self.obsm) if part or part is self.obs
        ]
        return (
            f"Batch({len(self):,} cells x {self._core.n_cols:,} genes, {kind}, {', '.join(parts)})"
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and genes."""
        return self._core.n_rows, self._core.n_cols

    def with_padding(self, is_padding: np.ndarray) -> Batch[X]:
        """The same cells with other marks of padding, one bool a cell."""
        return Batch(replace(self._arrays(), is_padding=is_padding), self._source)

    @property
    def var_names(self) -> npt.NDArray[np.object_]:
        """Names of the columns of ``x``, an object array of ``str``; read-only."""
        return self._source.var_names

    @property
    def layers(self) -> BatchMatrices[X]:
        """Further matrices by gene, by name: ``batch.layers["spliced"]``."""
        return cast("BatchMatrices[X]", super().layers)

    @property
    def gene_mask(self) -> npt.NDArray[np.bool_]:
        """Which values are known, bool (cells, genes): False where the cell's file lacks the gene.

        So the zeros of ``x`` that mean "not measured" are told from those that were counted, after
        ``join="outer"`` and ``genes=``. Made when it is asked for, a byte a value;
        ``cells.gene_mask`` has a row a file.
        """
        return self._source.gene_masks.of_files(self._files, self.var_names)

    @property
    def data(self) -> np.ndarray:
        """Values of the non-zeros, (nnz,); of the whole matrix for a dense batch."""
        return self._core.values

    @property
    def indices(self) -> np.ndarray:
        """Columns of the non-zeros, int32 (nnz,), sorted inside each row."""
        return column_numbers(self._core)

    @cached_property
    def indptr(self) -> np.ndarray:
        """Start of each row in ``indices``, int32 (cells + 1,)."""
        return row_starts(self._core)

    @cached_property
    def x(self) -> X:
        """The expression, cells x genes."""
        x: X = cast("X", self.to_scipy() if self._core.is_sparse else self._core.values)
        return x

    @property
    def X(self) -> X:  # noqa: N802 - anndata's name
        """The same as ``x``."""
        return self.x

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def __iter__(self) -> NoReturn:
        raise InvalidTypeError(
            "a batch is one object and no tuple: write x, y = batch.x, batch['label'], or have the "
            "loader yield tuples: collate_fn=lambda batch: (batch.x, batch['label'])"
        )

    def to_scipy(self) -> scipy.sparse.csr_matrix:
        """``scipy.sparse.csr_matrix``; no copy of a sparse batch."""
        if not self._core.is_sparse:
            return scipy.sparse.csr_matrix(self._core.values)
        return as_csr(self._core)

    def to_numpy(self) -> np.ndarray:
        """A dense array, cells x genes; no copy of a dense batch."""
        return np.asarray(self.to_scipy().toarray()) if self._core.is_sparse else self._core.values

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
        from ._torch import batch_to_tensor

        return batch_to_tensor(self, dense=dense)

    def to_anndata(self) -> anndata.AnnData:
        """An :class:`anndata.AnnData` with ``obs``, ``var``, and the names of both.

        Values of ``var`` are of the first file that has the gene and the column. ``layers`` and
        ``obsm`` are those of the batch, and ``raw`` is ``layers["raw/X"]`` with the names of its
        genes.
        """
        obs = self.obs.to_pandas().set_axis(self.obs_names)
        var = self._source.names.var().loc[self.var_names]
        names = self._source.matrices.layer_names
        layers = {names[key]: self.layers[key] for key in names if self._has_genes_of_x(key)}
        adata = anndata.AnnData(X=self.x, obs=obs, var=var, layers=layers, obsm=dict(self.obsm))
        if "raw/X" in self.layers:
            genes = pd.DataFrame(index=pd.Index(self.layers.var_names("raw/X")))
            adata.raw = anndata.AnnData(X=self.layers["raw/X"], obs=obs[[]], var=genes)
        return adata

    def _has_genes_of_x(self, key: str) -> bool:
        return np.array_equal(self.layers.var_names(key), self.var_names)

    def _tensors(self) -> TensorBatch:
        from ._torch import TensorBatch as TensorBatch

        return TensorBatch.of(self)
