"""Slices of a collection, asked for as of the CELLxGENE Census: a script ports in a line.

``census = cellfeed.open("atlas/*.h5ad")`` stands for ``cellxgene_census.open_soma()``, and
``cellfeed.census`` for ``cellxgene_census`` and ``tiledbsoma``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .._arguments import as_text
from .._options import DType, Rows
from ..collection import CellCollection
from ..errors import InvalidArgumentError, UnsupportedError
from ._axis import AxisQuery
from ._query import ExperimentAxisQuery

if TYPE_CHECKING:
    import anndata
    import pandas as pd

__all__ = ["AxisQuery", "ExperimentAxisQuery", "axis_query", "get_anndata", "get_obs", "get_var"]


def get_anndata(
    census: CellCollection,
    organism: str | None = None,
    measurement_name: str = "RNA",
    X_name: str | None = "raw",  # noqa: N803 - the Census's name
    X_layers: Sequence[str] | None = (),  # noqa: N803
    obsm_layers: Sequence[str] | None = (),
    obsp_layers: Sequence[str] | None = (),
    varm_layers: Sequence[str] | None = (),
    varp_layers: Sequence[str] | None = (),
    obs_value_filter: str | None = None,
    obs_coords: Rows | None = None,
    var_value_filter: str | None = None,
    var_coords: Rows | None = None,
    column_names: Mapping[str, Sequence[str] | None] | None = None,
    obs_embeddings: Sequence[str] | None = (),
    var_embeddings: Sequence[str] | None = (),
    obs_column_names: Sequence[str] | str | None = None,
    var_column_names: Sequence[str] | str | None = None,
    modality: str = "census_data",
    *,
    dtype: DType = "float32",
) -> anndata.AnnData:
    """Some cells and genes of a collection, read into memory.

    Parameters
    ----------
    census
        What :func:`cellfeed.open` gave.
    organism
        ``"Homo sapiens"`` or ``"homo_sapiens"``: cells of it, by the obs column ``organism``, or by
        ``uns["organism"]`` of ``.h5ad`` files. Where no file says it, cells are taken for what is
        asked for; where some say it and others do not, it is an error.
    measurement_name
        ``"RNA"``.
    X_name
        ``"raw"``: the matrix that ``census`` was opened with (``layer=``, X by default), which must
        hold counts; a layer of the name ``"raw"`` goes before it. Else the name of an open matrix:
        ``"X"``, or one of ``layers=``, such as ``"normalized"``.
    X_layers, obsm_layers
        Further ones, for ``layers`` and ``obsm``: of ``layers=`` and ``obsm=`` of
        :func:`cellfeed.open`.
    obsp_layers, varm_layers, varp_layers, obs_embeddings, var_embeddings
        There are none here: an error that says so.
    obs_value_filter
        As for ``cells.filter``: ``"tissue == 'lung' and n_counts > 500"``.
    obs_coords
        ``soma_joinid`` of cells, which are their row numbers in ``census``: an int, a list, a mask
        or a slice, whose ends both count, as SOMA has it. Of these the cells that pass the filter,
        in the order of the collection, each once.
    var_value_filter
        The same of the columns of ``census.var``; the names of the genes are ``feature_name`` and
        ``feature_id``, unless there is a column of that name.
    var_coords
        Numbers of genes.
    column_names
        ``{"obs": [...], "var": [...]}``, for the next two.
    obs_column_names, var_column_names
        Columns that are wanted; ``soma_joinid`` and all others by default.
    modality
        ``"census_data"``.
    dtype
        Of X and layers.

    Returns
    -------
    anndata.AnnData
        X is a CSR matrix. Cells and genes come in the order of the collection, with their names as
        index.

    Raises
    ------
    NoSuchKeyError, InvalidArgumentError, InvalidTypeError, UnsupportedError
        As ``cells.filter``; also for coords and filters that leave no cell or no gene, for values
        that are no counts where ``"raw"`` is asked for, and for an organism that no cell is of.
    """
    _require_modality(modality)
    for name, given in (("obs_embeddings", obs_embeddings), ("var_embeddings", var_embeddings)):
        if given is not None and len(given) > 0:
            raise UnsupportedError(
                f"{name} are kept by the Census; arrays of the files are obsm_layers"
            )
    columns = _columns(column_names, obs_column_names, var_column_names)
    query = ExperimentAxisQuery(
        census, measurement_name, organism=organism,
        obs_query=_axis("obs", obs_value_filter, obs_coords),
        var_query=_axis("var", var_value_filter, var_coords),
    )  # fmt: skip
    return query.to_anndata(
        X_name, column_names=columns, X_layers=X_layers or (), obsm_layers=obsm_layers or (),
        obsp_layers=obsp_layers or (), varm_layers=varm_layers or (),
        varp_layers=varp_layers or (), dtype=dtype,
    )  # fmt: skip


def get_obs(
    census: CellCollection,
    organism: str | None = None,
    *,
    value_filter: str | None = None,
    coords: Rows | None = None,
    column_names: Sequence[str] | str | None = None,
    modality: str = "census_data",
) -> pd.DataFrame:
    """Columns of obs of some cells, the names of the cells as index; no counts are read.

    Parameters
    ----------
    census, organism, modality
        As of :func:`get_anndata`.
    value_filter, coords, column_names
        As its ``obs_value_filter``, ``obs_coords`` and ``obs_column_names``.
    """
    _require_modality(modality)
    query = ExperimentAxisQuery(
        census, organism=organism, obs_query=_axis("", value_filter, coords)
    )
    return query.obs_frame(column_names)


def get_var(
    census: CellCollection,
    organism: str | None = None,
    *,
    value_filter: str | None = None,
    coords: Rows | None = None,
    column_names: Sequence[str] | str | None = None,
    modality: str = "census_data",
) -> pd.DataFrame:
    """Columns of var of some genes, their names as index; no counts are read.

    Parameters
    ----------
    census, organism, modality
        As of :func:`get_anndata`; genes are those of all cells, of whichever organism.
    value_filter, coords, column_names
        As its ``var_value_filter``, ``var_coords`` and ``var_column_names``.
    """
    _require_modality(modality)
    query = ExperimentAxisQuery(
        census, organism=organism, var_query=_axis("", value_filter, coords)
    )
    query.require_organism()
    return query.var_frame(column_names)


def axis_query(
    census: CellCollection,
    measurement_name: str = "RNA",
    *,
    obs_query: AxisQuery | None = None,
    var_query: AxisQuery | None = None,
) -> ExperimentAxisQuery:
    """Some cells and genes, as ``experiment.axis_query(...)`` of SOMA gives them.

    Parameters
    ----------
    census, measurement_name, obs_query, var_query
        As of :class:`ExperimentAxisQuery`.
    """
    return ExperimentAxisQuery(census, measurement_name, obs_query=obs_query, var_query=var_query)


def _axis(axis: str, value_filter: str | None, coords: Rows | None) -> AxisQuery:
    if value_filter is not None:
        as_text(f"{axis}_value_filter".lstrip("_"), value_filter)
    return AxisQuery(value_filter=value_filter, coords=() if coords is None else (coords,))


def _columns(
    both: Mapping[str, Sequence[str] | None] | None,
    obs: Sequence[str] | str | None,
    var: Sequence[str] | str | None,
) -> Mapping[str, Sequence[str] | None]:
    if both is None:
        return {"obs": obs, "var": var}
    if obs is not None or var is not None:
        raise InvalidArgumentError(
            "column_names is for obs_column_names and var_column_names: give either"
        )
    return both


def _require_modality(modality: str) -> None:
    if as_text("modality", modality) != "census_data":
        raise UnsupportedError(f"modality must be 'census_data', not {modality!r}")
