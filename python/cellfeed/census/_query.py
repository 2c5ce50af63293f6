"""Cells and genes that were asked for, and what is read of them: :class:`ExperimentAxisQuery`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from .._arguments import as_bool, as_names, as_text, suggestion
from .._cells.filtering import genes_where, rows_where
from .._extras import anndata, pa, pd
from .._lazy import cached_property
from .._options import DType
from ..collection import CellCollection
from ..errors import InvalidArgumentError, InvalidTypeError, NoSuchKeyError, UnsupportedError
from ..transforms import SelectGenes
from ._axis import AxisQuery, narrowed, numbers_at
from ._names import MatrixNames, require_counts
from ._organism import organism_mask
from ._reads import MatrixReads, TableReads

if TYPE_CHECKING:
    from ..batch import Batch

_JOINID = "soma_joinid"
# What columns of the genes' names are called.
_GENE_NAMES = ("feature_name", "feature_id")
_ROWS_AT_ONCE = 1 << 14


class ExperimentAxisQuery:
    """Some cells and genes of a collection, as ``tiledbsoma.ExperimentAxisQuery`` has them.

    ``soma_joinid`` is the number of a cell, or of a gene, in the collection, from 0; where the
    files have a column of that name, as those of the Census do, the column counts in tables and
    filters, and coordinates and ``obs_joinids`` are the numbers still. Nothing is read until it is
    asked for. Not thread-safe.

    Parameters
    ----------
    experiment
        What :func:`cellfeed.open` gave.
    measurement_name
        ``"RNA"``: a collection is of one measurement.
    obs_query, var_query
        Which cells and which genes; all by default.
    organism
        As of :func:`get_anndata`.
    """

    def __init__(
        self,
        experiment: CellCollection,
        measurement_name: str = "RNA",
        *,
        obs_query: AxisQuery | None = None,
        var_query: AxisQuery | None = None,
        organism: str | None = None,
    ) -> None:
        self._cells = as_cells(experiment)
        if as_text("measurement_name", measurement_name) != "RNA":
            raise InvalidArgumentError(
                f"measurement_name must be 'RNA', not {measurement_name!r}: a collection is of one "
                "measurement, which feature_type= of cellfeed.open chooses of 10x files"
            )
        self._obs = as_axis_query("obs_query", obs_query)
        self._var = as_axis_query("var_query", var_query)
        self._organism = organism

    # ---- which

    @cached_property
    def _rows(self) -> npt.NDArray[np.int64]:
        cells, query = self._cells, self._obs
        rows = numbers_at("coords of obs", query.coord, len(cells), ("row", "cell"))
        if self._organism is not None:
            mask = organism_mask(cells, self._organism)
            rows = narrowed(rows, None if mask is None else np.flatnonzero(mask))
        if query.value_filter is not None:
            self._refuse_joinids(query.value_filter)
            rows = narrowed(rows, rows_where(cells, query.value_filter))
        rows = np.arange(len(cells)) if rows is None else rows
        if rows.size == 0:
            raise InvalidArgumentError(f"none of the {len(cells):,} cells is left")
        return rows

    def require_organism(self) -> None:
        """Refuse an organism that no cell is of."""
        if self._organism is not None:
            organism_mask(self._cells, self._organism)

    def _refuse_joinids(self, where: str) -> None:
        if _JOINID in self._cells.obs_keys() or not re.search(rf"\b{_JOINID}\b", where):
            return
        raise InvalidArgumentError(
            f"{_JOINID} is the row number here, and no column of obs that filters know: choose "
            "rows by obs_coords, or coords"
        )

    @cached_property
    def _genes(self) -> npt.NDArray[np.int64]:
        n, query = self._cells.n_vars, self._var
        genes = numbers_at("coords of var", query.coord, n, ("gene", "gene"))
        genes = np.arange(n) if genes is None else genes
        if query.value_filter is not None and genes.size:
            frame = self._whole_var.iloc[genes]
            genes = genes[genes_where(frame, query.value_filter)]
        if genes.size == 0 and n > 0:
            raise InvalidArgumentError(f"none of the {n:,} genes is left")
        return genes

    @cached_property
    def _whole_var(self) -> pd.DataFrame:
        """All genes, with the columns that can be asked for."""
        frame = _with_joinids(self._cells.var, np.arange(self._cells.n_vars))
        names = {name: frame.index for name in _GENE_NAMES if name not in frame.columns}
        return frame.assign(**{name: np.asarray(index) for name, index in names.items()})

    @property
    def n_obs(self) -> int:
        """How many cells there are."""
        return len(self._rows)

    @property
    def n_vars(self) -> int:
        """How many genes there are."""
        return len(self._genes)

    def obs_joinids(self) -> pa.Array:
        """Numbers of the cells in the collection, int64."""
        return pa.array(self._rows, pa.int64())

    def var_joinids(self) -> pa.Array:
        """Numbers of the genes in the collection, int64."""
        return pa.array(self._genes, pa.int64())

    # ---- tables

    def obs(self, *, column_names: Sequence[str] | str | None = None) -> TableReads:
        """Columns of obs, as an Arrow table: ``query.obs().concat().to_pandas()``.

        Parameters
        ----------
        column_names
            Those that are wanted; ``soma_joinid`` and all others by default.
        """
        return _one_table(self.obs_frame(column_names))

    def var(self, *, column_names: Sequence[str] | str | None = None) -> TableReads:
        """Columns of var, as :meth:`obs` has them.

        Parameters
        ----------
        column_names
            Also ``feature_name`` and ``feature_id``, the names of the genes where there is no
            column of that name.
        """
        return _one_table(self.var_frame(column_names))

    def obs_frame(self, column_names: Sequence[str] | str | None = None) -> pd.DataFrame:
        """Columns of obs, the names of the cells as index."""
        names, known = None, list(dict.fromkeys([_JOINID, *self._cells.obs_keys()]))
        if column_names is not None:
            names = _known("obs", as_names("column_names of obs", column_names), known)
        wanted = known if names is None else names

        obs = self._chosen.obs
        frame = pd.DataFrame({name: obs[name] for name in wanted if name in obs}, index=obs.index)
        return _with_joinids(frame, self._rows)[wanted]

    def var_frame(self, column_names: Sequence[str] | str | None = None) -> pd.DataFrame:
        """Columns of var, the names of the genes as index."""
        if column_names is None:
            names = list(dict.fromkeys([_JOINID, *self._cells.var.columns]))
        else:
            known = list(self._whole_var.columns)
            names = _known("var", as_names("column_names of var", column_names), known)
        return self._whole_var.iloc[self._genes][names]

    @cached_property
    def _chosen(self) -> CellCollection:
        return self._cells.filter(self._rows)

    # ---- matrices

    def X(self, layer_name: str = "raw") -> MatrixReads:  # noqa: N802 - SOMA's name
        """A matrix as tables of ``soma_joinid`` and values: ``query.X("raw").tables()``.

        Parameters
        ----------
        layer_name
            As ``X_name`` of :func:`get_anndata`.
        """
        key = MatrixNames(self._cells).key_of(layer_name)
        return MatrixReads(lambda: self._tables(key, layer_name))

    def _tables(self, key: str | None, name: str) -> Iterator[pa.Table]:
        for begin in range(0, self.n_obs, _ROWS_AT_ONCE):
            rows = self._rows[begin : begin + _ROWS_AT_ONCE]
            x = _matrix(self._read(rows, "float32"), key, name).tocoo()
            yield pa.table(
                {
                    "soma_dim_0": rows[x.row],
                    "soma_dim_1": self._genes[x.col],
                    "soma_data": x.data,
                }
            )

    def _read(self, rows: np.ndarray, dtype: DType) -> Batch[Any]:
        is_whole = np.array_equal(self._genes, np.arange(self._cells.n_vars))
        genes = [] if is_whole else [SelectGenes(list(self._cells.var_names[self._genes]))]
        return self._cells.read(rows, obs=[], dtype=dtype, transforms=genes)

    def to_anndata(
        self,
        X_name: str | None = "raw",  # noqa: N803 - SOMA's name
        *,
        column_names: Mapping[str, Sequence[str] | None] | None = None,
        X_layers: Sequence[str] = (),  # noqa: N803
        obsm_layers: Sequence[str] = (),
        obsp_layers: Sequence[str] = (),
        varm_layers: Sequence[str] = (),
        varp_layers: Sequence[str] = (),
        drop_levels: bool = False,
        dtype: DType = "float32",
    ) -> anndata.AnnData:
        """What was asked for, in memory, as of ``tiledbsoma``.

        Parameters
        ----------
        X_name, X_layers, obsm_layers, obsp_layers, varm_layers, varp_layers, dtype
            As of :func:`get_anndata`; without an ``X_name`` there is no X.
        column_names
            ``{"obs": [...], "var": [...]}``; all by default.
        drop_levels
            Leave out categories that no cell has.
        """
        refuse_what_cells_lack(obsp_layers, varm_layers, varp_layers)
        wanted = columns_of_axes(column_names)
        matrices = MatrixNames(self._cells)
        layers = {name: matrices.key_of(name) for name in as_names("X_layers", X_layers)}
        obsm = matrices.obsm_keys(obsm_layers)
        if X_name is None and layers:
            raise InvalidArgumentError("X_layers are beside X: without X_name there is none")
        key = None if X_name is None else matrices.key_of(X_name)
        obs, var = self.obs_frame(wanted["obs"]), self.var_frame(wanted["var"])
        if as_bool("drop_levels", drop_levels):
            obs, var = _without_unused(obs), _without_unused(var)
        if X_name is None and not obsm:
            return anndata.AnnData(obs=obs, var=var, shape=(self.n_obs, self.n_vars))
        batch = self._read(self._rows, dtype)
        return anndata.AnnData(
            X=None if X_name is None else _matrix(batch, key, X_name), obs=obs, var=var,
            layers={name: _matrix(batch, key, name) for name, key in layers.items()},
            obsm={name: batch.obsm[key] for name, key in obsm.items()},
            shape=(self.n_obs, self.n_vars) if X_name is None else None,
        )  # fmt: skip

    # ---- life

    def close(self) -> None:
        """Nothing: the collection is the caller's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _matrix(batch: Batch[Any], key: str | None, name: str) -> Any:
    x = batch.x if key is None else batch.layers[key]
    if name == "raw":
        require_counts(x)
    return x


def _with_joinids(frame: pd.DataFrame, numbers: np.ndarray) -> pd.DataFrame:
    if _JOINID in frame.columns:
        return frame
    frame = frame.copy()
    frame.insert(0, _JOINID, np.asarray(numbers, dtype=np.int64))
    return frame


def _without_unused(frame: pd.DataFrame) -> pd.DataFrame:
    kept = {
        name: frame[name].cat.remove_unused_categories()
        for name in frame
        if frame[name].dtype == "category"
    }
    return frame.assign(**kept)


def _one_table(frame: pd.DataFrame) -> TableReads:
    return TableReads(lambda: iter([pa.Table.from_pandas(frame, preserve_index=False)]))


def _known(axis: str, names: list[str], known: list[str]) -> list[str]:
    for name in names:
        if name not in known:
            raise NoSuchKeyError(f"no {axis} column {name!r}{suggestion(name, known)}")
    return names


def as_cells(census: object) -> CellCollection:
    """A collection of cells."""
    if not isinstance(census, CellCollection):
        raise InvalidTypeError(
            f"cells must be what cellfeed.open gives, not {type(census).__name__}"
        )
    return census


def as_axis_query(name: str, query: object) -> AxisQuery:
    """What is asked of an axis; None for all."""
    if query is None:
        return AxisQuery()
    if not isinstance(query, AxisQuery):
        raise InvalidTypeError(
            f"{name} must be a cellfeed.census.AxisQuery, not {type(query).__name__}"
        )
    return query


def columns_of_axes(
    column_names: Mapping[str, Sequence[str] | None] | None,
) -> dict[str, Sequence[str] | None]:
    """Columns that are wanted of obs and of var; None for all."""
    given = {} if column_names is None else dict(column_names)
    for axis in given:
        if axis not in ("obs", "var"):
            raise InvalidArgumentError(f"column_names has {axis!r}: it is of 'obs' and 'var'")
    return {"obs": given.get("obs"), "var": given.get("var")}


def refuse_what_cells_lack(
    obsp: Sequence[str] | None, varm: Sequence[str] | None, varp: Sequence[str] | None
) -> None:
    """Refuse matrices between cells, and those of genes."""
    for name, value in (("obsp_layers", obsp), ("varm_layers", varm), ("varp_layers", varp)):
        if value is not None and len(value) > 0:
            raise UnsupportedError(
                f"{name}: cells have X, layers and obsm, and nothing else that is read by rows; of "
                "a file, anndata.read_h5ad(path) has it"
            )
