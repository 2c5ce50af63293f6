"""Slices of a collection as AnnData, asked for as of the CELLxGENE Census."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._arguments import as_names, as_row_numbers, as_text, suggestion
from ._cells.filtering import genes_where
from ._options import DType, Rows
from .collection import CellCollection
from .errors import InvalidArgumentError, InvalidTypeError, NoSuchKeyError
from .transforms import SelectGenes

if TYPE_CHECKING:
    import anndata
    import pandas as pd

__all__ = ["get_anndata"]


# What filters call the names of the genes.
_NAMES = ("feature_name", "feature_id")


def get_anndata(
    cells: CellCollection,
    *,
    obs_value_filter: str | None = None,
    obs_coords: Rows | None = None,
    var_value_filter: str | None = None,
    var_coords: Rows | None = None,
    obs_column_names: Sequence[str] | str | None = None,
    var_column_names: Sequence[str] | str | None = None,
    dtype: DType = "float32",
) -> anndata.AnnData:
    """Some cells and genes of a collection, read into memory.

    Parameters
    ----------
    cells
        What :func:`cellfeed.open` gave.
    obs_value_filter
        As for ``cells.filter``: ``"tissue == 'lung' and n_counts > 500"``.
    obs_coords
        Row numbers, a slice or a mask: of these cells those that pass the filter.
    var_value_filter
        The same of the columns of ``cells.var``; the names of the genes are ``feature_name`` and
        ``feature_id``, unless there is a column of that name.
    var_coords
        Numbers of genes, a slice or a mask.
    obs_column_names, var_column_names
        Columns that are wanted; all by default.
    dtype
        Of X.

    Returns
    -------
    anndata.AnnData
        X is a CSR matrix. Cells and genes come in the order of the collection, or of their coords.

    Raises
    ------
    NoSuchKeyError, InvalidArgumentError, InvalidTypeError
        As ``cells.filter``; also for a filter that leaves no gene.
    """
    if not isinstance(cells, CellCollection):
        raise InvalidTypeError(
            f"cells must be what cellfeed.open gives, not {type(cells).__name__}"
        )
    chosen = cells if obs_coords is None else cells.filter(obs_coords)
    if obs_value_filter is not None:
        chosen = chosen.filter(as_text("obs_value_filter", obs_value_filter))
    genes = _genes(cells, var_coords, var_value_filter)
    keys = cells.obs_keys()
    columns = keys if obs_column_names is None else as_names("obs_column_names", obs_column_names)
    transforms = [] if genes is None else [SelectGenes(list(cells.var_names[genes]))]
    batch = chosen.read(slice(None), obs=columns, dtype=dtype, transforms=transforms)
    adata = batch.to_anndata()
    if var_column_names is not None:
        adata.var = adata.var[_known(as_names("var_column_names", var_column_names), adata.var)]
    return adata


def _known(names: list[str], frame: pd.DataFrame) -> list[str]:
    for name in names:
        if name not in frame.columns:
            raise NoSuchKeyError(f"no var column {name!r}{suggestion(name, frame.columns)}")
    return names


def _genes(cells: CellCollection, coords: Rows | None, where: str | None) -> np.ndarray | None:
    if coords is None and where is None:
        return None
    n = cells.n_vars
    genes = np.arange(n) if coords is None else as_row_numbers(coords, n)
    if where is not None:
        frame = cells.var.iloc[genes]
        for name in _NAMES:
            if name not in frame.columns:
                frame = frame.assign(**{name: cells.var_names[genes]})
        genes = genes[genes_where(frame, as_text("var_value_filter", where))]
    if genes.size == 0:
        raise InvalidArgumentError(f"none of the {n:,} genes is left")
    return genes
