"""Every strategy, and the rows of its batches as docs/sampling.md has them, in plain Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sampling_reference as reference
from one_table import N_CELLS, obs

import cellfeed as cf

SEED = 5
ALL = range(N_CELLS)
# In no order, some twice.
ROWS = [*range(200, 90, -3), 17, 3, 3, 150, 33, *range(60, 75), 0, 210, 150]
MASK = np.arange(N_CELLS) % 7 < 5
WEIGHTS = [0.0 if row % 5 == 4 else 1.0 + row % 7 for row in ALL]
SHARD_OFFSETS = [0, 40, 40, 103, 150, N_CELLS]


@dataclass(frozen=True)
class Sharing:
    """How an epoch is cut into batches, and which of them are whose."""

    batch_size: int = 37
    fetch_factor: int = 2
    rank: int = 0
    world_size: int = 1
    partition: str = "interleave"
    epoch: int = 0

    def options(self) -> dict[str, Any]:
        """Of a loader."""
        return {**self.__dict__, "seed": SEED}

    def order_key(self) -> dict[str, int]:
        """What an order depends on."""
        step = self.batch_size * self.world_size
        group = self.batch_size if self.partition == "group" else step
        return {
            "seed": SEED, "epoch": self.epoch, "step_samples": step,
            "fetch_samples": group * self.fetch_factor,
        }  # fmt: skip


@dataclass(frozen=True)
class PlannedBatch:
    """Rows of a batch, which of them fill it up, and their positions in the order."""

    rows: np.ndarray
    is_padding: np.ndarray
    positions: np.ndarray


class Mapped:
    """An order over some of the rows, or over rows by other numbers."""

    def __init__(self, rows: Any, order: Any) -> None:
        self._rows, self._order = rows, order

    def __getitem__(self, position: int) -> int:
        return self._rows[self._order[position]]


class Positions:
    """The order whose samples are positions."""

    def __getitem__(self, position: int) -> int:
        return position


def codes() -> list[int]:
    return obs()["kind"].cat.codes.tolist()


def balanced_once(**key: int) -> tuple[Any, int]:
    """Draws without replacement are weighted ones, by p(class) / count."""
    of_rows = codes()
    counts = {code: of_rows.count(code) for code in set(of_rows) - {-1}}
    mean = sum(counts.values()) / len(counts)
    weights = [1 / (counts[code] + 0.5 * mean) if code >= 0 else 0.0 for code in of_rows]
    return reference.BlockWeightedSampling(weights, 4, 150, False, 60, **key), 150


def weighted_rows(**key: int) -> tuple[Any, int]:
    rows = sorted(ROWS)
    order = reference.BlockWeightedSampling([WEIGHTS[row] for row in rows], 4, 130, **key)
    return Mapped(rows, order), 130


def whole_shards(num_ranks: int, sizes: list[int], **key: int) -> tuple[Any, int]:
    return reference.WholeShards(sizes, num_ranks, **key), sum(sizes)


def of(kind: Any, *arguments: Any, **options: Any) -> Callable[..., tuple[Any, int]]:
    """A function of the order's key: the order of the reference, and its length."""

    def make(**key: int) -> tuple[Any, int]:
        order = kind(*arguments, **options, **key)
        if hasattr(order, "n"):
            return order, order.n
        return order, len(order.all if hasattr(order, "all") else order.rows)

    return make


@dataclass(frozen=True)
class Strategy:
    """One of ours, made of the keywords that give labels and of the world size; its reference."""

    make: Callable[[dict[str, Any], int], cf.SamplingStrategy]
    reference: Callable[..., tuple[Any, int]]


STRATEGIES = {
    "in order": Strategy(lambda labels, ranks: cf.Streaming(), of(reference.Streaming, ALL)),
    "shuffled groups": Strategy(
        lambda labels, ranks: cf.Streaming(shuffle=True), of(reference.Streaming, ALL, True)
    ),
    "shuffle buffer": Strategy(
        lambda labels, ranks: cf.Streaming(ROWS, shuffle_buffer=17),
        of(reference.Streaming, ROWS, shuffle_buffer=17),
    ),
    "true random": Strategy(
        lambda labels, ranks: cf.BlockShuffling(1), of(reference.BlockShuffling, ALL, 1)
    ),
    "blocks": Strategy(
        lambda labels, ranks: cf.BlockShuffling(8), of(reference.BlockShuffling, ALL, 8)
    ),
    "blocks of rows": Strategy(
        lambda labels, ranks: cf.BlockShuffling(4, ROWS), of(reference.BlockShuffling, ROWS, 4)
    ),
    "blocks of a mask": Strategy(
        lambda labels, ranks: cf.BlockShuffling(16, MASK, drop_last=True),
        of(reference.BlockShuffling, np.flatnonzero(MASK).tolist(), 16, True),
    ),
    "weighted": Strategy(
        lambda labels, ranks: cf.BlockWeightedSampling(8, weights=WEIGHTS, total_size=230),
        of(reference.BlockWeightedSampling, WEIGHTS, 8, 230),
    ),
    "weighted, one by one": Strategy(
        lambda labels, ranks: cf.BlockWeightedSampling(1, weights=WEIGHTS),
        of(reference.BlockWeightedSampling, WEIGHTS, 1),
    ),
    "weighted, once": Strategy(
        lambda labels, ranks: cf.BlockWeightedSampling(
            4, weights=WEIGHTS, total_size=180, replace=False, sampling_size=70
        ),
        of(reference.BlockWeightedSampling, WEIGHTS, 4, 180, False, 70),
    ),
    "weighted rows": Strategy(
        lambda labels, ranks: cf.BlockWeightedSampling(4, ROWS, WEIGHTS, total_size=130),
        weighted_rows,
    ),
    "balanced": Strategy(
        lambda labels, ranks: cf.ClassBalancedSampling(block_size=4, smoothing=0.5, **labels),
        lambda **key: of(reference.ClassBalancedSampling, codes(), 4, smoothing=0.5)(**key),
    ),
    "balanced, one by one": Strategy(
        lambda labels, ranks: cf.ClassBalancedSampling(block_size=1, total_size=220, **labels),
        lambda **key: of(reference.ClassBalancedSampling, codes(), 1, 220)(**key),
    ),
    "balanced, once": Strategy(
        lambda labels, ranks: cf.ClassBalancedSampling(
            block_size=4, smoothing=0.5, total_size=150, replace=False, sampling_size=60, **labels
        ),
        balanced_once,
    ),
    "curriculum": Strategy(
        lambda labels, ranks: cf.WeightedCellSampler(curriculum_warmup_epochs=4, **labels),
        lambda **key: of(reference.WeightedCellSampler, codes(), True, 4)(**key),
    ),
    "curriculum, once": Strategy(
        lambda labels, ranks: cf.WeightedCellSampler(
            replacement=False, curriculum_warmup_epochs=4, **labels
        ),
        lambda **key: of(reference.WeightedCellSampler, codes(), False, 4)(**key),
    ),
    "groups": Strategy(
        lambda labels, ranks: cf.GroupSampling(**labels),
        lambda **key: of(reference.GroupSampling, codes())(**key),
    ),
    "whole groups": Strategy(
        lambda labels, ranks: cf.GroupSampling(drop_last=True, **labels),
        lambda **key: of(reference.GroupSampling, codes(), True)(**key),
    ),
    "whole shards": Strategy(
        lambda labels, ranks: cf.WholeShards(ranks, SHARD_OFFSETS),
        lambda num_ranks, **key: whole_shards(num_ranks, np.diff(SHARD_OFFSETS).tolist(), **key),
    ),
}


@functools.cache
def planned(name: str, sharing: Sharing) -> list[PlannedBatch]:
    """The batches of one rank."""
    more = {"num_ranks": sharing.world_size} if name == "whole shards" else {}
    order, length = STRATEGIES[name].reference(**more, **sharing.order_key())
    return batches_of(order, length, sharing)


def batches_of(order: Any, length: int, sharing: Sharing, **resumed: Any) -> list[PlannedBatch]:
    """The batches of one rank of any order; ``resumed`` as of the reference's plan."""
    options = {
        "batch_size": sharing.batch_size, "fetch_factor": sharing.fetch_factor,
        "rank": sharing.rank, "world_size": sharing.world_size,
        "group": sharing.partition == "group", **resumed,
    }  # fmt: skip
    samples = reference.plan(order, length, **options)
    places = reference.plan(Positions(), length, **options)
    return [
        PlannedBatch(
            np.array([row for row, _ in batch], dtype=np.int64),
            np.array([is_padding for _, is_padding in batch], dtype=bool),
            np.array([position for position, _ in where], dtype=np.int64),
        )
        for batch, where in zip(samples, places, strict=True)
    ]
