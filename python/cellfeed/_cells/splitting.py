"""Cells dealt out to parts of given shares: by cell, by group, alike in their labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .. import _core
from .._arguments import as_float, as_text, shown
from ..errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from .._table import CellTable


def deal(
    cells: CellTable, shares: Mapping[str, float], by: str | None, stratify: str | None, seed: int
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
        parts = deal_cells(sizes, labels, len(cells), seed)
    else:
        groups = _codes(cells, "by", by)
        if (groups < 0).any():
            raise InvalidArgumentError(
                f"{(groups < 0).sum():,} cells have no label in {by!r}, so that their group is "
                f"not known; leave them out: cells.filter({f'`{by}` is not missing'!r})"
            )
        parts = deal_groups(sizes, groups, labels, seed)
    for part, name in enumerate(shares):
        if not (parts == part).any():
            of_groups = "" if by is None else f", or groups in {by!r},"
            raise InvalidArgumentError(
                f"{name!r} would have no cell: there are too few cells{of_groups} for these shares"
            )
    return parts


def _sizes(shares: Mapping[str, float]) -> np.ndarray:
    if not isinstance(shares, Mapping) or not shares:
        raise InvalidTypeError(
            f"shares must be a dict such as {{'train': 0.8, 'val': 0.2}}, not {shown(shares)}"
        )
    sizes = np.array([as_float(f"the share of {name!r}", s) for name, s in shares.items()])
    if (sizes <= 0).any() or abs(sizes.sum() - 1) > 1e-6:
        raise InvalidArgumentError(
            f"shares must be above 0 and sum to 1, not to {sizes.sum():g}: {shown(dict(shares))}"
        )
    return np.asarray(sizes / sizes.sum())


def _codes(cells: CellTable, argument: str, name: str) -> np.ndarray:
    column = cells.obs_column(as_text(argument, name))
    if not column.is_categorical:
        raise InvalidTypeError(
            f"{argument} must be a column of labels; {name!r} holds {column.dtype}"
        )
    return np.asarray(cells.obs_values(name))


def _shuffled(n: int, seed: int) -> np.ndarray:
    """0 to n - 1 in the order that ``BlockShuffling(block_size=1)`` has for the seed."""
    return _core.make_block_shuffling(n, 1, None, False).order(seed, 0, 0, n)


def deal_cells(shares: np.ndarray, labels: np.ndarray | None, n: int, seed: int) -> np.ndarray:
    """The part of each of n cells, in random order; of each label, parts get their shares.

    Parameters
    ----------
    shares
        Of each part; they sum to 1.
    labels
        Codes, one a cell; -1 is a label as well.
    n, seed
        Number of cells, and where random numbers begin.
    """
    of_label = np.zeros(n, dtype=np.uint16) if labels is None else _narrow(labels)
    order = _shuffled(n, seed)
    order = order[np.argsort(of_label[order], kind="stable")]
    begins = np.flatnonzero(np.diff(of_label[order])) + 1
    parts = np.empty(n, dtype=np.int64)
    left = np.zeros_like(shares)
    for cells in np.split(order, begins):
        # What earlier labels were rounded by is made up for.
        wanted = shares * len(cells) + left
        given = _whole(wanted, len(cells))
        left = wanted - given
        parts[cells] = np.repeat(np.arange(len(shares)), given)
    return parts


def _narrow(codes: np.ndarray) -> np.ndarray:
    """In few bits, which sort by radix."""
    codes = codes - codes.min()
    return codes.astype(np.uint16) if codes.max() < 2**16 else codes


def _whole(wanted: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers near those wanted, not negative, that sum to the total."""
    given = np.maximum(np.floor(wanted + 1e-9), 0).astype(np.int64)
    while given.sum() > total:
        given[np.argmax(given - wanted)] -= 1
    while given.sum() < total:
        given[np.argmax(wanted - given)] += 1
    return given


def deal_groups(
    shares: np.ndarray, groups: np.ndarray, labels: np.ndarray | None, seed: int
) -> np.ndarray:
    """The part of each cell, where all cells of a group come to one part.

    Groups are taken from the largest to the smallest, those of equal size in random order; each
    goes to the part where it brings the cells of every label nearest to their shares.

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
    n_groups = int(groups.max()) + 1
    of_label = np.zeros(len(groups), dtype=np.int64) if labels is None else labels - labels.min()
    n_labels = int(of_label.max()) + 1
    counts = np.bincount(groups * n_labels + of_label, minlength=n_groups * n_labels)
    counts = counts.reshape(n_groups, n_labels).astype(np.float64)
    totals = counts.sum(axis=0)
    wanted = shares[:, None] * np.maximum(totals, 1)
    held = np.zeros_like(wanted)
    part_of_group = np.zeros(n_groups, dtype=np.int64)
    order = _shuffled(n_groups, seed)
    for group in order[np.argsort(-counts.sum(axis=1)[order], kind="stable")].tolist():
        if counts[group].sum() == 0:
            continue
        # How far every label of a part would be from its share, over how far it is now.
        after = (((held + counts[group]) / wanted - 1) ** 2).sum(axis=1)
        now = ((held / wanted - 1) ** 2).sum(axis=1)
        part = int(np.argmin((after - now) * shares))
        part_of_group[group] = part
        held[part] += counts[group]
    parts: np.ndarray = part_of_group[groups]
    return parts
