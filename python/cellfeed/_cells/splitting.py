"""Cells dealt out to parts of given shares: by cell, by group, alike in their labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import as_float, as_text, shown
from .._options import CellLabels
from .._row_order import index_of, require_row_order
from ..errors import InvalidArgumentError, InvalidTypeError
from .group_shares import fill_parts, nearest_parts, shuffled
from .labels import ROWS_AT_ONCE, encode_labels, look_up_labels, require_labels

if TYPE_CHECKING:
    from .protocols import Cells


def deal(
    cells: Cells,
    shares: Mapping[str, float],
    by: CellLabels | str | None,
    stratify: CellLabels | str | None,
    seed: int,
) -> np.ndarray:
    """The part of each cell: its place among the shares.

    Parameters
    ----------
    cells
        A collection of :func:`cellfeed.open`.
    shares, by, stratify, seed
        As for its method ``split``.
    """
    sizes = _sizes(shares)
    labels = None if stratify is None else _codes(cells, "stratify", stratify)
    if by is None:
        parts = deal_cells(sizes, labels, len(cells), seed, _repeats(cells))
    else:
        groups = _codes(cells, "by", by)
        if (groups < 0).any():
            how = f"cells.filter({f'`{by}` is not missing'!r})" if isinstance(by, str) else (
                "cells.filter(mask)"
            )  # fmt: skip
            raise InvalidArgumentError(
                f"{(groups < 0).sum():,} cells have no label in {_name_of(by)}, so that their "
                f"group is not known; leave them out: {how}"
            )
        parts = deal_groups(sizes, groups, labels, seed)
    for part, name in enumerate(shares):
        if not (parts == part).any():
            of_groups = "" if by is None else f", or groups in {_name_of(by)},"
            raise InvalidArgumentError(
                f"{name!r} would have no cell: there are too few cells{of_groups} for these "
                "shares (a cell that was chosen several times is of one part)"
            )
    return parts


def _sizes(shares: Mapping[str, float]) -> np.ndarray:
    if not isinstance(shares, Mapping) or not shares:
        raise InvalidTypeError(
            f"shares must be a dict such as {{'train': 0.8, 'val': 0.2}}, not {shown(shares)}"
        )
    sizes = np.array([as_float(f"the share of {name!r}", s) for name, s in shares.items()])
    for name, size in zip(shares, sizes.tolist(), strict=True):
        if size <= 0:
            raise InvalidArgumentError(f"the share of {name!r} must be above 0: {shown(size)}")
    if abs(sizes.sum() - 1) > 1e-6:
        raise InvalidArgumentError(
            f"shares must sum to 1, not to {sizes.sum():g}: {shown(dict(shares))}"
        )
    return np.asarray(sizes / sizes.sum())


def _name_of(labels: CellLabels | str | None) -> str:
    return repr(labels) if isinstance(labels, str) else "the labels of by="


def _codes_of(cells: Cells, argument: str, labels: CellLabels) -> np.ndarray:
    require_row_order(argument, index_of(labels), cells)
    codes, names = encode_labels(labels)
    if len(codes) != len(cells):
        raise InvalidArgumentError(
            f"{argument} must have a label for each of the {len(cells):,} cells, not {len(codes):,}"
        )
    if any(isinstance(name, float) for name in names):
        raise InvalidTypeError(f"{argument} must be labels, integers or booleans, not floats")
    repeats = _repeats(cells)
    if repeats is not None:
        _, first = np.unique(repeats, return_index=True)
        if (codes != codes[first][repeats]).any():
            raise InvalidArgumentError(
                f"{argument} has several labels for a cell that was chosen several times"
            )
    return _in_order(codes, names)


def _in_order(codes: np.ndarray, labels: list[Any]) -> np.ndarray:
    """Places of the labels in their sorted order, -1 where missing."""
    places = np.empty(len(labels) + 1, dtype=np.int64)
    places[np.argsort(np.array(labels, dtype=object), kind="stable")] = np.arange(len(labels))
    places[-1] = -1  # of the code -1
    return np.asarray(places[codes])


def _codes(cells: Cells, argument: str, name: CellLabels | str) -> np.ndarray:
    """Places of the labels in their order, whatever that of the categories; -1 where missing."""
    if not isinstance(name, str):
        return _codes_of(cells, argument, name)
    require_labels(cells, argument, as_text(argument, name))
    return _in_order(*look_up_labels(cells, name))


def _repeats(cells: Cells) -> np.ndarray | None:
    """A code for each cell, the same for cells that are one in their file; None without such."""
    if not cells._origin.steps:
        return None
    begins = np.cumsum([0, *(file["n_cells"] for file in cells.files)])
    places = np.empty(len(cells), dtype=np.int64)
    for begin in range(0, len(cells), ROWS_AT_ONCE):
        files, rows = cells.locate(slice(begin, begin + ROWS_AT_ONCE))
        places[begin : begin + len(rows)] = begins[files] + rows
    is_chosen = np.zeros(begins[-1], dtype=bool)
    is_chosen[places] = True
    if np.count_nonzero(is_chosen) == len(cells):
        return None
    return np.asarray((np.cumsum(is_chosen) - 1)[places])


def deal_cells(
    shares: np.ndarray,
    labels: np.ndarray | None,
    n: int,
    seed: int,
    repeats: np.ndarray | None = None,
) -> np.ndarray:
    """The part of each of n cells, in random order; of each label, parts get their shares.

    Parameters
    ----------
    shares
        Of each part; they sum to 1.
    labels
        Codes, one a cell; -1 is a label as well.
    n, seed
        Number of cells, and where random numbers begin.
    repeats
        Codes from 0, one a cell; cells of one code have one label and come to one part.
    """
    of_label = np.zeros(n, dtype=np.uint16) if labels is None else _narrow(labels)
    if repeats is None:
        return _deal_alike(shares, of_label, np.ones(n, dtype=np.uint8), seed)
    _, firsts, times = np.unique(repeats, return_index=True, return_counts=True)
    return np.asarray(_deal_alike(shares, of_label[firsts], times, seed)[repeats])


def _deal_alike(shares: np.ndarray, labels: np.ndarray, times: np.ndarray, seed: int) -> np.ndarray:
    """The part of each cell that counts so many times; those that count most are dealt first."""
    order = shuffled(len(labels), seed)
    order = order[np.argsort(_narrow(-times.astype(np.int64))[order], kind="stable")]
    order = order[np.argsort(labels[order], kind="stable")]
    differs = (np.diff(labels[order]) != 0) | (np.diff(times[order]) != 0)
    parts = np.empty(len(labels), dtype=np.int64)
    left = np.zeros_like(shares)
    counts_once = bool((times == 1).all())
    for cells in np.split(order, np.flatnonzero(differs) + 1):
        # What earlier ones were rounded by is made up for.
        each = int(times[cells[0]])
        wanted = shares * len(cells) * each + left
        given = (
            _rounded(shares * len(cells), left)
            if counts_once
            else _whole(wanted / each, len(cells))
        )
        left = wanted - given * each
        parts[cells] = np.repeat(np.arange(len(shares)), given)
    return parts


def _narrow(codes: np.ndarray) -> np.ndarray:
    """In few bits, which sort by radix."""
    codes = codes - codes.min()
    return codes.astype(np.uint16) if codes.max() < 2**16 else codes


def _rounded(wanted: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Each rounded down or up, and the same in all; up where most is left of before."""
    down = np.floor(wanted + 1e-9)
    over = wanted - down
    n_up = round(float(over.sum()))
    first = np.argsort(np.where(over > 1e-9, -(over + left), np.inf), kind="stable")
    down[first[:n_up]] += 1
    return np.asarray(down.astype(np.int64))


def _whole(wanted: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers near those wanted, not negative, that sum to the total."""
    if wanted.min() < 0:
        # Those that have too many already get none, and all others as much less.
        most_first = -np.sort(-wanted)
        levels = (np.cumsum(most_first) - total) / np.arange(1, len(wanted) + 1)
        wanted = np.maximum(wanted - levels[np.flatnonzero(most_first > levels)[-1]], 0)
    given = np.floor(wanted + 1e-9).astype(np.int64)
    while given.sum() > total:
        given[np.argmax(given - wanted)] -= 1
    while given.sum() < total:
        given[np.argmax(wanted - given)] += 1
    return given


def deal_groups(
    shares: np.ndarray, groups: np.ndarray, labels: np.ndarray | None, seed: int
) -> np.ndarray:
    """The part of each cell, where all cells of a group come to one part.

    Without labels the parts are as near to their shares as :func:`nearest_parts` makes them. With
    labels, groups are taken from the largest to the smallest, those of equal size in random order;
    each goes to the part where it brings the cells of every label nearest to their shares.

    Parameters
    ----------
    shares
        Of each part; they sum to 1.
    groups
        Codes, one a cell, none negative.
    labels
        Codes, one a cell, or None.
    seed
        Where random numbers begin.
    """
    sizes = np.bincount(groups)
    # Codes of those that some cell is of.
    groups = (np.cumsum(sizes > 0) - 1)[groups]
    sizes = sizes[sizes > 0]
    if labels is None and len(sizes) >= len(shares):
        return np.asarray(nearest_parts(shares, sizes, seed)[groups])
    of_label = np.zeros_like(groups) if labels is None else labels.astype(np.int64) - labels.min()
    n_labels = int(of_label.max()) + 1
    counts = np.bincount(groups * n_labels + of_label, minlength=len(sizes) * n_labels)
    order = shuffled(len(sizes), seed)
    order = order[np.argsort(-sizes[order], kind="stable")]
    part_of_group = fill_parts(shares, counts.reshape(len(sizes), n_labels), order)
    return np.asarray(part_of_group[groups])
