"""Labels as integer codes: of a list, or looked up by key in a collection of any kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .._arguments import shown, suggestion
from .._options import Label
from ..errors import InvalidArgumentError, InvalidTypeError, NoSuchKeyError

if TYPE_CHECKING:
    from .protocols import Cells

ROWS_AT_ONCE = 1 << 22
# Whole numbers up to here are floats as well.
EXACT_IN_FLOAT64 = 2**53


def encode_labels(labels: object) -> tuple[np.ndarray, list[Label]]:
    """Codes (int32, -1 = missing) and the labels they stand for, sorted where they can be.

    Parameters
    ----------
    labels
        A list, an array, a pandas Series or Categorical, a torch tensor: texts, numbers or
        booleans. None, NaN and codes below 0 of a Categorical are missing.
    """
    values: Any = getattr(labels, "array", labels) if hasattr(labels, "dtype") else labels
    if isinstance(labels, np.ma.MaskedArray):
        known = labels.data.astype(object)
        known[np.ma.getmaskarray(labels)] = None
        return encode_labels(known)
    if hasattr(values, "codes") and hasattr(values, "categories"):
        return _fit(np.asarray(values.codes)), list(values.categories)
    if hasattr(values, "isna") and getattr(values.dtype, "kind", "") in "iub":
        # pandas' nullable numbers: numpy would round large ones to make room for NaN.
        known = ~np.asarray(values.isna())
        return _scatter(known, np.asarray(values[known].astype(values.dtype.numpy_dtype)))
    if isinstance(values, (str, bytes)) or not isinstance(values, (Iterable, np.ndarray)):
        raise InvalidTypeError(f"labels must be one value a sample, not {shown(labels)}")
    # numpy would turn NaN among texts into the text "nan".
    is_mixed = isinstance(values, (list, tuple)) and not all(isinstance(v, str) for v in values)
    try:
        array = (
            np.asarray(values, dtype=object)
            if is_mixed and _has_text(values)
            else np.asarray(values)
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidTypeError(f"labels must be one value a sample, not {shown(values)}") from error
    if array.dtype.kind == "f" and isinstance(values, (list, tuple)) and _has_large(values):
        array = np.asarray(values, dtype=object)
    if array.ndim != 1:
        raise InvalidArgumentError(f"labels must be one-dimensional, not of shape {array.shape}")
    if array.dtype.kind in "biuSU":
        names, codes = np.unique(array, return_inverse=True)
        return _fit(codes), names.tolist()
    if array.dtype.kind == "f":
        known = ~np.isnan(array)
        return _scatter(known, array[known])
    return _encode_objects(array)


def _scatter(known: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, list[Label]]:
    names, found = np.unique(values, return_inverse=True)
    codes = np.full(len(known), -1, dtype=np.int32)
    codes[known] = found
    return codes, names.tolist()


def _has_text(values: Iterable[object]) -> bool:
    return any(isinstance(value, str) for value in values)


def _has_large(values: Iterable[object]) -> bool:
    """Whether there are whole numbers that floats would be one for."""
    return any(
        isinstance(value, (int, np.integer)) and abs(int(value)) > EXACT_IN_FLOAT64
        for value in values
    )


def _encode_objects(array: np.ndarray) -> tuple[np.ndarray, list[Label]]:
    places: dict[Hashable, int] = {}
    codes = np.empty(len(array), dtype=np.int32)
    for i, label in enumerate(array.tolist()):
        if not isinstance(label, Hashable):
            raise InvalidTypeError(f"labels must be texts, numbers or booleans, not {shown(label)}")
        # NaN, NaT and pandas' NA are not equal to themselves.
        is_missing = label is None or _is_na(label)
        codes[i] = -1 if is_missing else places.setdefault(label, len(places))
    names: list[Any] = list(places)
    try:
        order = sorted(range(len(names)), key=names.__getitem__)
    except TypeError:
        return codes, names
    rank = np.empty(len(names) + 1, dtype=np.int32)
    rank[order] = np.arange(len(names), dtype=np.int32)
    rank[-1] = -1
    return rank[codes], [names[i] for i in order]


def _is_na(label: object) -> bool:
    try:
        return bool(label != label)
    except TypeError:
        return True


def _fit(codes: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(codes, dtype=np.int32)


def look_up_labels(collection: object, key: str) -> tuple[np.ndarray, list[Label]]:
    """Codes and names of the label column ``key`` of a collection.

    Looked for in, by the kind of the collection: obs columns of :func:`cellfeed.open`; ``.obs`` of
    AnnData and AnnCollection; merged labels of a MappedCollection; members of a MultiIndexable or a
    mapping; columns of a pandas data frame or a Hugging Face data set.

    Raises
    ------
    NoSuchKeyError
        Naming the columns there are.
    """
    codes, names, counts = look_up_runs(collection, key)
    return codes if counts is None else np.repeat(codes, counts), names


def require_labels(cells: Cells, argument: str, key: str) -> None:
    """Refuse an obs column of floats, which are no labels."""
    column = cells.obs_column(key)
    if not column.is_categorical and column.stored_dtype.startswith("float"):
        raise InvalidTypeError(
            f"{argument} must be a column of labels, integers or booleans; {key!r} holds "
            f"{column.stored_dtype}"
        )


def look_up_runs(collection: object, key: str) -> tuple[np.ndarray, list[Label], np.ndarray | None]:
    """As :func:`look_up_labels`, but a code a run of samples, and how many samples each run has.

    The latter is None where nothing knows of runs: each code is then of one sample.
    """
    if hasattr(collection, "obs_values") and hasattr(collection, "obs_column"):
        return *_codes_of_cells(cast("Cells", collection), key), None
    get, known = _column_getter(collection)
    if key not in known:
        raise NoSuchKeyError(
            f"no label column {key!r} in {type(collection).__name__}{suggestion(key, known)}"
        )
    obs: Any = getattr(collection, "obs", None)
    if not hasattr(type(obs), "runs_of"):  # of a data frame any name may be a column
        return *encode_labels(get(key)), None
    values, counts = obs.runs_of(key)
    return *encode_labels(values), counts


def _column_getter(collection: Any) -> tuple[Callable[[str], Any], list[str]]:
    obs: Any = getattr(collection, "obs", None)
    if obs is not None and hasattr(obs, "keys"):
        return lambda key: obs[key], [str(k) for k in obs.keys()]  # noqa: SIM118
    if hasattr(collection, "get_merged_labels"):
        return collection.get_merged_labels, [
            str(k) for k in getattr(collection, "obs_keys", None) or ()
        ]
    if hasattr(collection, "obs_keys") and hasattr(obs, "__getitem__"):
        return lambda key: obs[key], list(collection.obs_keys())
    names = getattr(collection, "column_names", None)
    if names is None and hasattr(collection, "columns"):
        names = collection.columns
    if names is None and hasattr(collection, "names"):
        names = collection.names
    if names is None and isinstance(collection, Mapping):
        names = collection.keys()
    if names is None:
        raise NoSuchKeyError(
            "the collection has no named columns to find labels in; pass labels=[...] instead of "
            "label_key"
        )
    return lambda key: collection[key], [str(name) for name in names]


def _codes_of_cells(cells: Cells, key: str) -> tuple[np.ndarray, list[Label]]:
    column = cells.obs_column(key)
    n = len(cells)
    if not column.is_categorical:
        return encode_labels(cells.obs_values(key))
    codes = np.empty(n, dtype=np.int32)
    for begin in range(0, n, ROWS_AT_ONCE):
        end = min(n, begin + ROWS_AT_ONCE)
        codes[begin:end] = cells.obs_values(key, np.arange(begin, end))
    return codes, list(column.categories)
