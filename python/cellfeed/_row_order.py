"""What pandas says of the rows that values are of: those of other rows are refused."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

import numpy as np

from ._arguments import shown
from ._extras import pd
from ._samples import length_of
from .errors import InvalidArgumentError


def index_of(values: Any) -> pd.Index | None:
    """The index of pandas' values; None for others, which are taken by position."""
    return values.index if hasattr(values, "iloc") else None


def mask_index_of(values: Any) -> pd.Index | None:
    """The same of a mask; numbers of rows are no values of rows."""
    return index_of(values) if str(getattr(values, "dtype", "")).startswith("bool") else None


def require_row_order(name: str, index: pd.Index | None, rows: Any) -> None:
    """Refuse values whose index is that of other rows, or of the same in another order.

    Parameters
    ----------
    name
        What the values are called.
    index
        Of the values; None: they say nothing of it.
    rows
        A table with ``obs_names`` or pandas' ``index``; of any other, rows have no names.

    Raises
    ------
    InvalidArgumentError
        Naming the first place where it differs.
    """
    if index is not None:
        named = "index" if hasattr(rows, "iloc") else "obs_names"
        require_order(name, index, length_of(rows), lambda: getattr(rows, named, None), named)


def require_order(
    name: str, index: pd.Index | None, n: int, names: Callable[[], Sized | None], named: str
) -> None:
    """The same of anything that has names, which are asked for where the index is none of numbers.

    Values are taken by position. So they may be where their index counts from 0, or is the names.
    """
    if index is None or len(index) != n:
        return

    if index.equals(pd.RangeIndex(n)):
        return
    own = names()
    if own is None or index is own:
        return
    here, there = np.array(index, dtype=object), np.asarray(own, dtype=object)
    here[pd.isna(here)] = None  # a missing name of pandas compares as missing
    differs = np.flatnonzero(here != there)
    if differs.size:
        at = int(differs[0])
        raise InvalidArgumentError(
            f"{name}: the index of these pandas values is not {named}: at {at} it has "
            f"{shown(here[at])}, there is {shown(there[at])}. Values are taken by position: bring "
            f"them to that order (.loc[{named}]), or pass .to_numpy() where they are in it"
        )
