"""An AnnData in memory as the arrays and tables that the core takes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._arguments import suggestion
from .._extras import anndata, pd, scipy
from ..errors import (
    CorruptDataError,
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
    PrecisionError,
    UnsupportedError,
)
from .matrices import layer_path
from .tables import table_of

PROCESSING = "cellfeed_processing"  # in uns: what was done to X


def csr_arrays(
    adata: anndata.AnnData, layer: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, _core.Table]:
    """Row starts (int64), columns (int32), values and the gene table of one matrix.

    Parameters
    ----------
    adata
        In memory.
    layer
        ``"X"``, ``"raw/X"``, the name of a layer, also as ``"layers/NAME"``, or ``"obsm/NAME"``,
        whose columns are numbered. ``None``: a matrix without columns.
    """
    matrix, var = _matrix(adata, layer)
    if matrix is None:
        others = ["raw/X"] if adata.raw is not None else []
        others += [f"layers/{name}" for name in _layer_names(adata)]
        found = f"; name one of its matrices instead: {', '.join(others)}" if others else ""
        raise NoSuchKeyError(
            f"this AnnData has no {layer}{found}; obs alone is read by cellfeed.open(..., "
            "layer=None)"
        )
    if getattr(matrix, "dtype", None) == np.float16:  # which scipy's matrices cannot have
        matrix = matrix.astype(np.float32)
    try:
        csr = scipy.sparse.csr_matrix(matrix)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(
            f"{layer} must be a numpy array or a scipy sparse matrix, not {type(matrix).__name__}"
        ) from error
    values = csr.data
    if values.dtype == bool:
        values = values.astype(np.uint8)
    elif values.dtype.kind not in "iuf" or values.dtype.itemsize > 8:
        raise UnsupportedError(f"{layer} holds {values.dtype}: numbers of 8 to 64 bits can be read")
    return (
        np.ascontiguousarray(csr.indptr, dtype=np.int64),
        np.ascontiguousarray(csr.indices, dtype=np.int32),
        np.ascontiguousarray(values),
        table_of(var),
    )


def first_layer(adata: anndata.AnnData, names: Sequence[str]) -> str:
    """The first of some matrices that an AnnData has.

    Parameters
    ----------
    adata
        In memory.
    names
        Each as for :func:`csr_arrays`.
    """
    there = [] if adata.X is None else ["X"]
    there += [] if adata.raw is None else ["raw/X"]
    there += [f"layers/{name}" for name in _layer_names(adata)]
    for name in names:
        if layer_path(name) in there:
            return name
    raise NoSuchKeyError(
        f"this AnnData has none of the layers {', '.join(names)}; there are: {', '.join(there)}"
    )


def processing_of(adata: anndata.AnnData, name: str) -> tuple[str, bool, bool]:
    """What was done to X: our own record, as JSON; whether scanpy took logarithms; of another base.

    Parameters
    ----------
    adata
        In memory.
    name
        Of it, for messages.
    """
    record = adata.uns.get(PROCESSING)
    texts = [] if record is None else np.asarray(record, dtype=object).ravel().tolist()
    if record is not None and not (len(texts) == 1 and isinstance(texts[0], str)):
        raise CorruptDataError(
            f"{name}: uns[{PROCESSING!r}] must be one text; remove it where you changed X"
        )
    mark = adata.uns.get("log1p")
    has_base = isinstance(mark, Mapping) and mark.get("base") is not None
    return texts[0] if texts else "{}", "log1p" in adata.uns, has_base


def rows_table(frame: pd.DataFrame) -> _core.Collection:
    """A data frame as a collection of its rows, without genes."""
    no_genes = table_of(pd.DataFrame(index=pd.Index([], dtype=object)))
    indptr = np.zeros(len(frame) + 1, dtype=np.int64)
    indices, values = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
    return _core.Collection.from_memory(
        indptr, indices, values, "float32", 0, table_of(frame), no_genes, "table in memory",
        False, None, [],
    )  # fmt: skip


def path_of_backed(adata: anndata.AnnData, matrices: Sequence[str] = ()) -> str:
    """The file of an AnnData in backed mode that is that file's content still.

    Parameters
    ----------
    adata
        In backed mode.
    matrices
        Further ones that are to be read, such as ``"layers/spliced"``: anndata holds them in
        memory.

    Raises
    ------
    InvalidArgumentError
        A view, or changed in memory: the file has other cells, genes, names or labels.
    """
    remedy = "; pass the file itself, write the changes to a file, or open adata.to_memory()"
    if adata.is_view:
        raise InvalidArgumentError(
            f"a view of a backed AnnData has some of the cells or genes of {adata.filename}"
            f"{remedy}; indices= of a strategy and genes= choose some"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old formats: said when the user opened it
        stored = anndata.read_h5ad(adata.filename, backed="r")
    try:
        for name, now, then in (("obs", adata.obs, stored.obs), ("var", adata.var, stored.var)):
            if not now.equals(then):
                raise InvalidArgumentError(
                    f"{name} of this backed AnnData is not that of its file {adata.filename}"
                    f"{remedy}"
                )
        for path in matrices:
            if not path.startswith(("obsm/", "layers/")):
                continue
            now, then = _matrix(adata, path)[0], _matrix(stored, path)[0]
            if type(now) is not type(then) or not _are_equal(now, then):
                raise InvalidArgumentError(
                    f"{path} of this backed AnnData is not that of its file {adata.filename}"
                    f"{remedy}"
                )
    finally:
        stored.file.close()
    return str(adata.filename)


def _are_equal(one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return False
    if scipy.sparse.issparse(one):
        one, other = one.tocoo(), other.tocoo()
        return all(
            np.array_equal(getattr(one, part), getattr(other, part)) for part in ("row", "col")
        ) and np.array_equal(one.data, other.data, equal_nan=True)
    return np.array_equal(one, other, equal_nan=True)


def var_of(adata: anndata.AnnData, layer: str) -> pd.DataFrame:
    """The table of the genes of a matrix.

    Parameters
    ----------
    adata, layer
        As for :func:`csr_arrays`.
    """
    return _matrix(adata, layer)[1]


def _matrix(
    adata: anndata.AnnData, layer: str | None
) -> tuple[np.ndarray | scipy.sparse.spmatrix, pd.DataFrame]:
    if layer is None:
        none = scipy.sparse.csr_matrix((adata.n_obs, 0), dtype=np.float32)
        return none, pd.DataFrame(index=pd.Index([], dtype=str))
    if layer == "X":
        return adata.X, adata.var
    if layer == "raw/X":
        if adata.raw is None:
            raise NoSuchKeyError("this AnnData has no raw")
        return adata.raw.X, adata.raw.var
    if layer.startswith("obsm/"):
        return _obsm(adata, layer)
    name = layer.removeprefix("layers/")
    if name not in adata.layers:
        known = [*_layer_names(adata), *(["raw/X"] if adata.raw is not None else [])]
        raise NoSuchKeyError(f"no layer {name!r}{suggestion(name, known)}")
    return adata.layers[name], adata.var


def _layer_names(adata: anndata.AnnData) -> list[str]:
    return [name for name in adata.layers if name is not None]  # which is X since anndata 0.13


def _obsm(
    adata: anndata.AnnData, path: str
) -> tuple[np.ndarray | scipy.sparse.spmatrix, pd.DataFrame]:
    name = path.removeprefix("obsm/")
    if name not in adata.obsm:
        raise NoSuchKeyError(f"no obsm {name!r}{suggestion(name, adata.obsm)}")
    matrix = adata.obsm[name]
    if isinstance(matrix, pd.DataFrame):
        return _numbers_of(matrix, path), pd.DataFrame(index=matrix.columns.astype(str))
    if not isinstance(matrix, np.ndarray) and not scipy.sparse.issparse(matrix):
        raise UnsupportedError(
            f"{path} is a {type(matrix).__name__}; of obsm, arrays, sparse matrices and tables of "
            "numbers can be read"
        )
    if matrix.ndim != 2:
        raise UnsupportedError(
            f"{path} has {matrix.ndim} dimensions; of obsm, arrays of 2 dimensions can be read"
        )
    return matrix, pd.DataFrame(index=[str(column) for column in range(matrix.shape[1])])


def _numbers_of(frame: pd.DataFrame, path: str) -> np.ndarray:
    for column, dtype in frame.dtypes.items():
        if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf":
            raise UnsupportedError(
                f"column {column!r} of {path!r} holds no numbers ({dtype}), and only a table of "
                "numbers is read as a matrix: move the column to obs, or drop it"
            )
    if frame.shape[1] == 0:
        raise UnsupportedError(f"{path!r} is a table without columns")
    names = frame.columns.astype(str)
    if names.has_duplicates:
        raise InvalidArgumentError(
            f"{path!r} has several columns {names[names.duplicated()][0]!r}: rename them"
        )
    values: np.ndarray = frame.to_numpy(np.result_type(*frame.dtypes))
    for number, (column, dtype) in enumerate(frame.dtypes.items()):
        with np.errstate(all="ignore"):
            back = values[:, number].astype(dtype)
        if dtype.kind in "iu" and (back != frame.iloc[:, number].to_numpy()).any():
            raise PrecisionError(
                f"the columns of {path!r} have different types, and a value of {column!r} does not "
                f"fit {values.dtype}, which holds the others"
            )
    return values
