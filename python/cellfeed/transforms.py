"""Transforms of a ``Loader``, and hooks of ``scDataset`` for other libraries' collections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._checks import as_names, suggestion
from ._multi_indexable import MultiIndexable
from ._transforms import Log1p, NormalizeTotal, SelectGenes, Transform
from .errors import InvalidTypeError, NoSuchKeyError, OutOfRangeError, UnsupportedError

if TYPE_CHECKING:
    import torch

__all__ = [
    "Log1p",
    "NormalizeTotal",
    "SelectGenes",
    "Transform",
    "adata_to_mindex",
    "bionemo_to_tensor",
    "fetch_transform_adata",
    "hf_tahoe_to_tensor",
]


def adata_to_mindex(batch: Any, columns: Sequence[str] | str | None = None) -> MultiIndexable:
    """Cells of AnnData or AnnCollection as dense ``X`` and obs columns that are subset together.

    Parameters
    ----------
    batch
        An AnnData, a view of a backed one, or a view of an AnnCollection, read into memory here; or
        anything with ``X`` and ``obs[name].values``.
    columns
        obs columns to take along, as their pandas values (categoricals stay categorical).

    Returns
    -------
    MultiIndexable
        Members ``"X"``, cells x genes, and one a column.
    """
    adata = _in_memory(batch)
    names = [] if columns is None else as_names("columns", columns)
    dense = adata.X.toarray() if hasattr(adata.X, "toarray") else np.asarray(adata.X)
    return MultiIndexable({"X": dense, **{name: _values(adata.obs, name) for name in names}})


def _values(obs: Any, name: str) -> Any:
    try:
        column = obs[name]
    except KeyError as error:
        known = suggestion(name, obs) if hasattr(obs, "__iter__") else ""
        raise NoSuchKeyError(f"no obs column {name!r}{known}") from error
    return getattr(column, "values", column)


def fetch_transform_adata(
    batch: Any, columns: Sequence[str] | str | None = None
) -> np.ndarray | MultiIndexable:
    """Cells of AnnData or AnnCollection as a dense array, or with obs columns.

    Parameters
    ----------
    batch
        As for :func:`adata_to_mindex`.
    columns
        obs columns to take along.

    Returns
    -------
    numpy.ndarray or MultiIndexable
        ``X``, cells x genes, where no columns are asked for; a torch ``DataLoader`` makes a tensor
        of its batches.
    """
    group = adata_to_mindex(batch, columns)
    return group["X"] if group.count == 1 else group


def _in_memory(batch: Any) -> Any:
    for method in ("to_adata", "to_memory"):
        if hasattr(batch, method):
            return getattr(batch, method)()
    if hasattr(batch, "X") and hasattr(batch, "obs"):
        return batch
    raise InvalidTypeError(f"not an AnnData or AnnCollection: {type(batch).__name__}")


def hf_tahoe_to_tensor(batch: Any, num_genes: int = 62713) -> torch.Tensor:
    """Cells of Tahoe-100M on Hugging Face as a dense float32 tensor, cells x genes.

    Parameters
    ----------
    batch
        A dict of ``"genes"`` and ``"expressions"``, lists with one array a cell; or a list with one
        such dict a cell.
    num_genes
        Columns of the tensor.
    """
    from .torch import as_tensor

    if isinstance(batch, dict):
        genes, values = batch["genes"], batch["expressions"]
    elif isinstance(batch, list):
        genes, values = [cell["genes"] for cell in batch], [cell["expressions"] for cell in batch]
    else:
        raise InvalidTypeError(
            f"a batch must be a dict or a list of dicts with genes and expressions, not "
            f"{type(batch).__name__}"
        )
    dense = np.zeros((len(genes), num_genes), dtype=np.float32)
    for row, (columns, expression) in enumerate(zip(genes, values, strict=True)):
        columns = np.asarray(columns, dtype=np.int64)
        if columns.size and not (columns.min() >= 0 and columns.max() < num_genes):
            raise OutOfRangeError(f"cell {row} has genes outside of [0, {num_genes})")
        dense[row, columns] = expression
    return as_tensor(dense)


def bionemo_to_tensor(data_collection: Any, idx: Any) -> torch.Tensor:
    """``fetch_callback`` for a SingleCellMemMapDataset of bionemo-scdl: dense rows, cells x genes.

    Parameters
    ----------
    data_collection
        The data set.
    idx
        An int, a slice, or row numbers.
    """
    try:
        from bionemo.scdl.util.torch_dataloader_utils import collate_sparse_matrix_batch
    except ImportError as error:
        raise UnsupportedError("bionemo_to_tensor needs the package bionemo-scdl") from error
    if isinstance(idx, slice):
        idx = range(*idx.indices(len(data_collection)))
    rows = [int(i) for i in np.atleast_1d(np.asarray(idx))]
    return collate_sparse_matrix_batch([data_collection[i] for i in rows]).to_dense()
