"""Whole groups dealt out to parts, as near to their shares as groups allow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import _core

# Deviations in cells are compared to this many digits, so that rounding decides nothing.
_DIGITS = 6
# More than there are ways to deal 7 groups to any number of parts, none empty: those are searched
# to the end.
_WAYS_TRIED = 110_000
_STARTS = 8
_PAIRS_TRIED = 5_000
# More groups have one start, and are not searched.
_FEW_GROUPS = 200


def shuffled(n: int, seed: int, start: int = 0) -> np.ndarray:
    """0 to n - 1 in the order that ``BlockShuffling(block_size=1)`` has for the seed."""
    return _core.make_block_shuffling(n, 1, None, False).order(seed, start, 0, n)


def fill_parts(shares: np.ndarray, counts: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The part of each group, taken in order, each to where it brings all labels nearest.

    No part is empty if there are as many groups as parts.

    Parameters
    ----------
    shares
        Of each part; they sum to 1.
    counts
        Cells of each group and label (groups, labels); no group is empty.
    order
        Groups in the order in which they are taken.
    """
    fractions = counts / np.maximum(counts.sum(axis=0), 1)
    squares = (fractions**2).sum(axis=1).tolist()
    per_share = 1 / shares
    # With h cells held of w wanted, f more change the sum of share * (h / w - 1) ** 2 over labels
    # by f * f / share + f * 2 * (h / w), and by what is the same for every part.
    held = np.zeros((len(shares), counts.shape[1]))
    is_empty = np.ones(len(shares), dtype=bool)
    n_empty, n_left = len(shares), len(order)
    part_of_group = np.empty(len(counts), dtype=np.int64)
    for group in order.tolist():
        change = held @ fractions[group] + squares[group] * per_share
        if n_left <= n_empty:
            change[~is_empty] = np.inf
        part = int(change.argmin())
        n_left -= 1
        if is_empty[part]:
            is_empty[part] = False
            n_empty -= 1
        held[part] += 2 * per_share[part] * fractions[group]
        part_of_group[group] = part
    return part_of_group


def nearest_parts(shares: np.ndarray, sizes: np.ndarray, seed: int) -> np.ndarray:
    """The part of each group, with the largest deviation of a part from its share small.

    Parts are filled with groups, large ones first on the whole, then changed by moves and swaps
    until none helps, from several starts; few groups are searched to the end. It is enough if every
    part is within one cell of its share.

    Parameters
    ----------
    shares
        Of each part; they sum to 1. There are at least as many groups.
    sizes
        Cells of each group, int64, above 0.
    seed
        Where random numbers begin.
    """
    best = _started(shares, sizes, seed, 0)
    for start in range(1, _STARTS if len(sizes) <= _FEW_GROUPS else 1):
        if best.is_near():
            break
        best = min(best, _started(shares, sizes, seed, start), key=_Dealt.key)
    if best.is_near() or len(sizes) > _FEW_GROUPS:
        return best.parts
    return _Search(best, shuffled(len(sizes), seed), shuffled(len(shares), seed)).best_parts()


def _started(shares: np.ndarray, sizes: np.ndarray, seed: int, start: int) -> _Dealt:
    chance = 1 + shuffled(len(sizes), seed, start) / len(sizes)
    order = np.argsort(-sizes * chance, kind="stable")
    dealt = _Dealt(shares, sizes, fill_parts(shares, sizes[:, None].astype(np.float64), order))
    dealt.improve()
    return dealt


class _Dealt:
    """Groups in parts, and how far the parts are from their shares."""

    def __init__(self, shares: np.ndarray, sizes: np.ndarray, parts: np.ndarray) -> None:
        self.sizes = sizes
        self.parts = parts
        self.wanted = shares * sizes.sum()
        self.held = np.bincount(parts, sizes, len(shares))
        # Part -> its sizes, each once and ascending, and a group of each.
        self._groups: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._numbers = np.bincount(parts, minlength=len(shares))

    def deviations(self) -> np.ndarray:
        """Cells too many (or too few, below 0) of each part."""
        return np.asarray(np.round(self.held - self.wanted, _DIGITS))

    def key(self) -> list[float]:
        """The smaller, the better: how far the parts are off, the farthest first."""
        return sorted(np.abs(self.deviations()).tolist(), reverse=True)

    def is_near(self) -> bool:
        """Whether every part is within one cell of its share."""
        return bool(np.abs(self.deviations()).max() < 1)

    def improve(self) -> None:
        """Move groups, or swap two, while that brings the farther one of two parts nearer."""
        pairs = self._pairs()
        for _ in range(_PAIRS_TRIED):
            pair = next(pairs, None)
            if pair is None or self.is_near():
                return
            if self._improve_pair(*pair):
                pairs = self._pairs()

    def _pairs(self) -> Iterator[tuple[int, int]]:
        """Parts and their partners; those first that are far off, and that lack what it has."""
        deviations = self.deviations()
        for part in np.argsort(-np.abs(deviations), kind="stable").tolist():
            opposite = deviations * np.sign(deviations[part])
            for other in np.argsort(opposite, kind="stable").tolist():
                if abs(deviations[other]) < abs(deviations[part]):
                    yield part, other

    def _improve_pair(self, part: int, other: int) -> bool:
        """Between a part that has too many cells and one that has too few, or the reverse."""
        deviations = self.deviations()
        over, under = (part, other) if deviations[part] > deviations[other] else (other, part)
        ideal = (deviations[over] - deviations[under]) / 2
        given, taken, moved = self._nearest_change(over, under, ideal)
        before = max(abs(deviations[over]), abs(deviations[under]))
        after = max(abs(deviations[over] - moved), abs(deviations[under] + moved))
        if round(after, _DIGITS) >= round(before, _DIGITS):
            return False
        self._move(given, under)
        if taken is not None:
            self._move(taken, over)
        return True

    def _nearest_change(self, over: int, under: int, ideal: float) -> tuple[int, int | None, float]:
        """A group to give, one to take for it or None, and the cells that this moves."""
        own, own_groups = self._groups_of(over)
        others, other_groups = self._groups_of(under)
        if self._numbers[over] > 1:
            others, other_groups = np.append(0, others), np.append(-1, other_groups)
        at = np.searchsorted(others, own - ideal).clip(1, max(len(others) - 1, 1))
        places = np.minimum(np.stack([at - 1, at]), len(others) - 1)
        moved = own - others[places]
        side, place = np.unravel_index(np.abs(moved - ideal).argmin(), moved.shape)
        taken = int(other_groups[places[side, place]])
        return int(own_groups[place]), None if taken < 0 else taken, float(moved[side, place])

    def _groups_of(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        if part not in self._groups:
            groups = np.flatnonzero(self.parts == part)
            sizes, firsts = np.unique(self.sizes[groups], return_index=True)
            self._groups[part] = sizes, groups[firsts]
        return self._groups[part]

    def _move(self, group: int, to: int) -> None:
        source = int(self.parts[group])
        for part, sign in ((source, -1), (to, 1)):
            self.held[part] += sign * self.sizes[group]
            self._numbers[part] += sign
            self._groups.pop(part, None)
        self.parts[group] = to


class _Search:
    """Ways to deal groups to parts one after another, without those that cannot be better."""

    def __init__(self, start: _Dealt, order: np.ndarray, parts: np.ndarray) -> None:
        # Of groups of one size, and of parts with one share, chance says which come first.
        self._order = order[np.argsort(-start.sizes[order], kind="stable")]
        self._parts = parts
        self._sizes = start.sizes[self._order].tolist()
        self._left = np.append(np.cumsum(self._sizes[::-1])[::-1], 0).tolist()
        self._wanted = start.wanted[parts].tolist()
        self._held = [0] * len(parts)
        self._way = [0] * len(order)
        self._best, self._best_key = start.parts, start.key()
        self._n_tried = 0

    def best_parts(self) -> np.ndarray:
        """The part of each group."""
        self._deal(0, len(self._parts))
        return self._best

    def _deal(self, place: int, n_empty: int) -> None:
        """All ways for the groups from this place on."""
        if place == len(self._sizes):
            self._compare()
            return
        size = self._sizes[place]
        is_as_before = place > 0 and size == self._sizes[place - 1]
        seen = set()
        for part in range(self._way[place - 1] if is_as_before else 0, len(self._parts)):
            held, wanted = self._held[part], self._wanted[part]
            if (held, wanted) in seen or self._n_tried >= _WAYS_TRIED or self._best_key[0] < 1:
                continue
            seen.add((held, wanted))
            self._n_tried += 1
            self._held[part], self._way[place] = held + size, part
            n_left_empty = n_empty - (held == 0)
            if n_left_empty < len(self._sizes) - place and self._may_be_better(place + 1):
                self._deal(place + 1, n_left_empty)
            self._held[part] = held

    def _may_be_better(self, place: int) -> bool:
        """Whether no part has too many cells, nor all of them together too few to come."""
        most = self._best_key[0] + 10**-_DIGITS
        lacking = 0.0
        for held, wanted in zip(self._held, self._wanted, strict=True):
            if held - wanted > most:
                return False
            lacking += max(wanted - most - held, 0)
        return bool(lacking <= self._left[place] + 10**-_DIGITS)

    def _compare(self) -> None:
        gaps = zip(self._held, self._wanted, strict=True)
        key = sorted((round(abs(held - wanted), _DIGITS) for held, wanted in gaps), reverse=True)
        if key < self._best_key:
            self._best_key = key
            self._best = np.empty_like(self._best)
            self._best[self._order] = self._parts[self._way]
