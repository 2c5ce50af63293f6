"""Medians, spreads and ratios of repeated measurements."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of repeats."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        if not values:
            raise ValueError("no repeats to summarise")
        return Spread(statistics.median(values), min(values), max(values))


def ratios(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Spread:
    """Ratio of two programs measured in turn: of the medians of each round, then over the rounds.

    Both sides of one round ran one after the other, so what the machine did meanwhile cancels out.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} rounds beside {len(theirs)}")
    return Spread.of(
        [statistics.median(a) / statistics.median(b) for a, b in zip(ours, theirs, strict=True)]
    )
