"""Arguments of a mapped collection, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._arguments import as_float, as_names, as_paths, first_repeated, is_anndata, one_of, shown
from .._cells.filtering import rows_where
from .._cells.matrices import layer_key, obsm_key
from .._cores import Item
from .._options import (
    JOINS,
    Casting,
    Data,
    DTypeName,
    Join,
    Label,
    MixedProcessing,
    Output,
    UnknownLabel,
)
from ..collection import CellCollection
from ..errors import InvalidArgumentError, InvalidTypeError

# Of the number of its file in a row.
FILE_NAME = "_store_idx"
NUMBERS = (bool, int, float, np.bool_, np.number)


@dataclass(frozen=True, kw_only=True)
class MappedOptions:
    """What a mapped collection reads, and how: its arguments, checked.

    Attributes
    ----------
    paths
        Files, and AnnData.
    layers_keys, obs_keys, obsm_keys, join, output, casting, make_unique, mixed_processing
        As of :class:`~cellfeed.MappedCollection`.
    encoded
        The obs columns that come as codes.
    unknown
        The label that has code -1, of each of them.
    dtype
        Of the rows; None as stored.
    threads
        One a processor where it is 0.
    """

    paths: list[Item]
    layers_keys: list[str]
    obs_keys: list[str]
    obsm_keys: list[str]
    join: Join | None
    encoded: list[str]
    unknown: dict[str, Label | None]
    dtype: DTypeName | None
    output: Output
    casting: Casting
    make_unique: bool
    mixed_processing: MixedProcessing
    threads: int


def each_once(name: str, value: object) -> list[str]:
    """Names, of which none is there twice."""
    names = as_names(name, value)
    if (twice := first_repeated(names)) is not None:
        raise InvalidArgumentError(f"{name} has {twice!r} twice")
    return names


def layer_name(key: str) -> str:
    """The layer of ``cellfeed.open`` that a key of ``layers_keys`` means."""
    return "raw/X" if key == "raw.X" else key


def as_layers_keys(layers_keys: object) -> list[str]:
    """Names of matrices, one at least; X by default."""
    keys = each_once("layers_keys", "X" if layers_keys is None else layers_keys)
    if not keys:
        raise InvalidArgumentError("layers_keys is empty: name a matrix, such as 'X'")
    for key in keys:
        if key.startswith("obsm/"):
            raise InvalidArgumentError(
                f"layers_keys names {key!r}: pass obsm_keys=[{obsm_key(key)!r}]"
            )
    each_once("layers_keys", [layer_key(layer_name(key)) for key in keys])
    return keys


def as_obsm_keys(obsm_keys: object) -> list[str]:
    """Names of arrays; none by default."""
    keys = [] if obsm_keys is None else each_once("obsm_keys", obsm_keys)
    each_once("obsm_keys", [obsm_key(key) for key in keys])
    return keys


def check_row_names(options: MappedOptions) -> None:
    """Refuse names that would stand in a row twice."""
    what_of = {FILE_NAME: "the number of the file"}
    for names, what in (
        (options.layers_keys, "a matrix of layers_keys"),
        ([f"obsm_{key}" for key in options.obsm_keys], "an array of obsm_keys"),
        (options.obs_keys, "a column of obs_keys"),
    ):
        for name in names:
            if name in what_of:
                raise InvalidArgumentError(
                    f"rows would have {name!r} twice: {what_of[name]}, and {what}; rename one"
                )
            what_of[name] = what


def as_join(join: Join | Literal["auto"] | None) -> Join | None:
    """How genes are joined; ``"auto"`` joins those that differ, and ``"inner"`` no others."""
    if join == "auto":
        return "inner"
    if join is None or join in JOINS:
        return join
    raise InvalidArgumentError(f"join must be None, {one_of((*JOINS, 'auto'))}, not {shown(join)}")


def as_path_list(path_list: Data) -> list[Item]:
    """Files and AnnData, as a list or as ``cellfeed.open`` takes them."""
    if isinstance(path_list, CellCollection):
        raise InvalidTypeError(
            "path_list must be files, not a collection that is open: give its files, and "
            "obs_filter= for some of the cells"
        )
    if is_anndata(path_list):
        return [path_list]
    if isinstance(path_list, (list, tuple)) and any(map(is_anndata, path_list)):
        return list(path_list)
    return [*as_paths("path_list", path_list)]


def encoded_columns(encode_labels: bool | Sequence[str], obs_keys: list[str] | None) -> list[str]:
    """Those of ``obs_keys`` that come as codes."""
    keys = obs_keys or []
    if isinstance(encode_labels, (bool, np.bool_)):
        return list(keys) if encode_labels else []
    names = each_once("encode_labels", encode_labels)
    for name in names:
        if name not in keys:
            raise InvalidArgumentError(
                f"encode_labels names {name!r}, which is not one of obs_keys: {shown(keys)}"
            )
    return names


def unknown_labels(unknown_label: UnknownLabel, encoded: list[str]) -> dict[str, Label | None]:
    """The unknown label of each encoded column that has one."""
    if not isinstance(unknown_label, Mapping):
        if unknown_label is not None and not isinstance(unknown_label, (str, *NUMBERS)):
            raise InvalidTypeError(
                f"unknown_label must be a label, or a dict of column -> label, not "
                f"{shown(unknown_label)}"
            )
        return dict.fromkeys(encoded, unknown_label)
    for name in unknown_label:
        if name not in encoded:
            raise InvalidArgumentError(
                f"unknown_label names {name!r}, which is not an encoded column: {shown(encoded)}"
            )
    return dict(unknown_label)


def filtered_rows(cells: CellCollection, obs_filter: object) -> np.ndarray:
    """Rows that have one of the values asked for in each column."""
    if not isinstance(obs_filter, Mapping):
        raise InvalidTypeError(
            "obs_filter must be a dict of column -> value or list of values, not "
            f"{shown(obs_filter)}"
        )
    return rows_where(cells, obs_filter)


def as_weighing(
    obs_keys: str | Sequence[str], scaler: float | None
) -> tuple[list[str], float | None]:
    """The obs columns that labels are counted by, and what weights are scaled by."""
    names = each_once("obs_keys", obs_keys)
    if not names:
        raise InvalidArgumentError("obs_keys must name at least one obs column")
    if scaler is not None and as_float("scaler", scaler) <= 0:
        raise InvalidArgumentError(f"scaler must be above 0, not {shown(scaler)}")
    return names, scaler
