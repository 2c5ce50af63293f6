"""Data sets of windows that share no row: cuts at times, or whole entities."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from .. import _core
from .._arguments import as_float, shown
from ..errors import InvalidArgumentError, InvalidTypeError

# A SeriesDataset: it gives back what it got.
Windows: TypeAlias = Any

_MIN_TIME, _MAX_TIME = -(2**63) + 1, 2**63 - 1


def split_by_entity(ds: Windows, fractions: object, seed: int) -> dict[str, Windows]:
    """Whole entities, dealt out in random order."""
    shares = _shares(fractions)
    _warn_of_shared_scaler(ds)
    n = len(ds._entities)
    order = _core.make_block_shuffling(n, 1, None, False).order(seed, 0, 0, n)
    ends = np.round(np.cumsum([0.0, *shares.values()]) * n).astype(int)
    parts = {}
    for name, (begin, end) in zip(shares, pairwise(ends.tolist()), strict=True):
        parts[name] = ds._part(name, _entities=ds._entities[np.sort(order[begin:end])])
    return parts


def split_by_time(ds: Windows, fractions: object, dates: object, purge: int) -> dict[str, Windows]:
    """Earlier rows, later rows, cut at the same times for all entities."""
    ends = _cuts(ds, _shares(fractions)) if dates is None else _dates(ds, dates)
    first, last = ds._between
    parts, begin = {}, first
    _warn_of_leaks(ds, next(iter(ends.values())))
    for number, (name, end) in enumerate(ends.items()):
        until = last if end is None else end if last is None else min(end, last)
        changes = {"_between": (begin, until), "_purge": purge if number else ds._purge}
        parts[name] = ds._part(name, **changes)
        begin = until
    return parts


def _warn_of_shared_scaler(ds: Windows) -> None:
    """It must not have looked at the entities of other parts."""
    about = ds._about
    if about["scaler"] == "none" or about["scale"] == "entity" or about["fit_mask"] is not None:
        return
    warnings.warn(
        "one scaler of all entities: values of the other parts leak into training, unless it was "
        "given and fitted elsewhere; build the series with scale='entity', or with a fit_mask "
        "that marks rows for training",
        UserWarning,
        stacklevel=4,
    )


def _warn_of_leaks(ds: Windows, cut: int | None) -> None:
    """The scaler must not have looked at rows of a later part."""
    about = ds._about
    if about["scaler"] == "none" or cut is None:
        return
    last, until = about["fit_last_time"], about["fit_until"]
    if last is not None:
        is_leak, seen = ds._time("fit_last_time", last) >= cut, f"rows until {last}"
    elif until is not None:
        is_leak, seen = ds._time("fit_until", until) > cut, f"rows until {until}"
    else:
        is_leak, seen = True, "all rows"
    if not is_leak:
        return
    at = ds._as_times(np.array([cut]))[0]
    warnings.warn(
        f"the scaler looked at {seen}, also at those after {at}, so that later values leak "
        f"into training; build the series with fit_until={str(at)!r}, or with a fit_mask",
        UserWarning,
        stacklevel=4,
    )


def _dates(ds: Windows, dates: object) -> dict[str, int | None]:
    if not isinstance(dates, Mapping) or len(dates) < 2:
        raise InvalidTypeError(
            "dates must be a dict such as {'train': '2020-01-01', 'test': None}, not "
            f"{shown(dates)}"
        )
    *earlier, (last_name, last) = dates.items()
    if last is not None:
        raise InvalidArgumentError(f"the last part, {last_name!r}, must end with None")
    ends: dict[str, int | None] = {
        str(name): ds._time(f"the end of {name!r}", end) for name, end in earlier
    }
    cuts = list(ends.values())
    if any(a >= b for a, b in pairwise(cuts)):  # type: ignore[operator]
        raise InvalidArgumentError(f"dates must rise: {shown(dict(dates))}")
    return ends | {str(last_name): None}


def _first_time_with(ds: Windows, n_rows: int, low: int, high: int) -> int:
    """The first time before which there are that many rows."""
    while low < high:
        middle = (low + high) // 2
        if ds._rows.rows_before(ds._entities, middle) < n_rows:
            low = middle + 1
        else:
            high = middle
    return low


def _cuts(ds: Windows, shares: dict[str, float]) -> dict[str, int | None]:
    """The times at which so many of the rows, of all entities together, are over."""
    first, last = ds._between
    low = _MIN_TIME if first is None else first
    high = _MAX_TIME if last is None else last
    before = ds._rows.rows_before(ds._entities, low)
    total = ds._rows.rows_before(ds._entities, high) - before
    ends: dict[str, int | None] = {}
    share = 0.0
    for name in list(shares)[:-1]:
        share += shares[name]
        wanted = before + round(share * total)
        ends[name] = _first_time_with(ds, wanted, low, high)
    return ends | {list(shares)[-1]: None}


def _shares(fractions: object) -> dict[str, float]:
    if not isinstance(fractions, Mapping) or len(fractions) < 2:
        raise InvalidTypeError(
            f"fractions must be a dict such as {{'train': 0.8, 'val': 0.2}}, not {shown(fractions)}"
        )
    shares = {str(k): as_float(f"the share of {k!r}", v) for k, v in fractions.items()}
    if min(shares.values()) <= 0 or abs(sum(shares.values()) - 1) > 1e-6:
        raise InvalidArgumentError(
            f"fractions must be above 0 and sum to 1: {shown(dict(fractions))}"
        )
    return shares
