"""Samplers of map-style data sets: weighted draws, and whole shards dealt to ranks.

Each is a ``DistributedSampler`` of torch where that is installed, so that training frameworks do
not deal its share once more.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._arguments import as_bool, as_int
from ._iteration.epochs import EpochCounter
from ._iteration.rank import Ranks
from ._iteration.rank_sampler import RankSampler
from ._options import CellLabels, Indices, Label
from .errors import InvalidArgumentError, InvalidTypeError
from .strategies import LabelStrategy, as_size

if TYPE_CHECKING:
    from torch.utils.data.distributed import DistributedSampler

_POSITIONS_AT_ONCE = 1 << 16
# Part of a shard: its number and a range of positions in its order of this epoch.
Part = tuple[int, int, int]


class WeightedCells(RankSampler, LabelStrategy):
    """A curriculum from uniform draws to draws inverse to class frequency.

    In epoch e every draw has ``p = (1 - a) / N + a / (K * count of its class)`` with ``a = min(1, e
    / curriculum_warmup_epochs)``. It is a strategy of :class:`~cellfeed.Loader` and of
    ``scDataset``, and also a sampler of a map-style data set: ``DataLoader(dataset,
    sampler=WeightedCellSampler(labels))``.

    Parameters
    ----------
    labels
        One label a sample.
    replacement
        ``False``: each sample once an epoch, the likelier ones earlier; O(samples) memory.
    seed
        Seed as a sampler; as a strategy, the loader's seed counts.
    curriculum_warmup_epochs
        Epochs until full weight; 0 is full weight at once.
    label_key
        Column of the collection that holds the labels, instead of ``labels``; as a strategy only.
    num_replicas, rank
        As a sampler on several ranks: this rank gets every ``num_replicas``-th draw, equally many
        on each. By default found out when an iteration begins or a length is asked for, as for
        :class:`~cellfeed.Loader`.
    """

    def __init__(
        self,
        labels: CellLabels | str | None = None,
        replacement: bool = True,
        seed: int = 0,
        curriculum_warmup_epochs: int = 0,
        *,
        label_key: str | None = None,
        indices: Indices | None = None,
        total_size: int | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(labels, label_key, indices)
        self.replacement = as_bool("replacement", replacement)
        self.seed = as_int("seed", seed, 0, 2**63 - 1)
        self.curriculum_warmup_epochs = as_int(
            "curriculum_warmup_epochs", curriculum_warmup_epochs, 0
        )
        self.total_size = as_size("total_size", total_size)
        self._ranks = Ranks(rank, num_replicas, "num_replicas")
        self._epochs = EpochCounter()
        self._own: _core.Strategy | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_own": None}

    def __repr__(self) -> str:
        return f"WeightedCellSampler(curriculum_warmup_epochs={self.curriculum_warmup_epochs})"

    def bind(self, cells: Sized) -> _core.Strategy:
        """The order over ``len(cells)`` samples; a label key is looked up in ``cells``."""
        return _core.make_weighted_cells(
            self._labels(cells), self.replacement, self.curriculum_warmup_epochs, self.total_size
        )

    @property
    def class_weights(self) -> dict[Label, float]:
        """N / count of each class."""
        codes, names = self._own_labels()
        counts = np.bincount(codes[codes >= 0], minlength=len(names))
        return {name: counts.sum() / n for name, n in zip(names, counts.tolist(), strict=True) if n}

    def __len__(self) -> int:
        return -(-self._order().length() // self.num_replicas)

    def _facts(self) -> dict[str, Any]:
        order = self._order()
        return {
            "samples": order.length(), "order": f"{order.fingerprint:016x}", "seed": self.seed,
        }  # fmt: skip

    def _samples(self, epoch: int) -> Iterator[int]:
        order, n = self._order(), self._order().length()
        ranks = rank, world_size = self._ranks.now()
        for begin in range(rank, n, world_size * _POSITIONS_AT_ONCE):
            end = min(n, begin + world_size * _POSITIONS_AT_ONCE)
            yield from order.order(self.seed, epoch, begin, end, world_size).tolist()
            self._ranks.require_same(ranks)
        if n % world_size and rank >= n % world_size:
            first = rank - n % world_size  # pads from the start of the order
            yield order.order(self.seed, epoch, first % n, first % n + 1).tolist()[0]

    def _own_labels(self) -> tuple[np.ndarray, list[Label]]:
        if self._encoded is None:
            raise InvalidArgumentError(
                f"WeightedCellSampler(label_key={self.label_key!r}) samples nothing by itself: "
                f"pass labels to use it as a "
                "sampler, or give it to a Loader as its strategy"
            )
        return self._encoded

    def _order(self) -> _core.Strategy:
        if self._own is None:
            self._own = self.bind(range(len(self._own_labels()[0])))
        return self._own


class ShardSampler(RankSampler):
    """Sampler that lets each rank read shards of its own: ``DataLoader(dataset, sampler=...)``.

    Shards are dealt in turn: without shuffling rank r gets shards r, r + R, r + 2R, ... Every rank
    yields the same number of cells, as DDP needs: where shards leave ranks unequal, cells at the
    end of the longer ranks' lists go to the shorter ones. An epoch holds every cell once; where the
    number of cells does not divide by R, the last cell of each short rank repeats its first, or
    with ``drop_last`` the odd cells are left out.

    Parameters
    ----------
    dataset
        Has ``shard_offsets`` or ``store.shard_offsets``: the first cell of each shard, and the
        number of cells.
    num_replicas, rank
        By default those of the initialised ``torch.distributed`` group, else of the environment,
        found out when an iteration begins or a length is asked for.
    shuffle
        Shuffle the shards, and the cells of each.
    seed
        The same on all ranks.
    drop_last
        Leave out cells rather than repeat some.
    """

    def __init__(
        self,
        dataset: object = None,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        *,
        store: object = None,
    ) -> None:
        self.dataset = store if dataset is None else dataset
        self._offsets = _offsets_of(self.dataset)
        self._ranks = Ranks(rank, num_replicas, "num_replicas")
        self.shuffle = as_bool("shuffle", shuffle)
        self.seed = as_int("seed", seed, 0, 2**63 - 1)
        self.drop_last = as_bool("drop_last", drop_last)
        self._epochs = EpochCounter()

    def __len__(self) -> int:
        """Cells of this rank in an epoch: the same on every rank."""
        n = int(self._offsets[-1])
        return n // self.num_replicas if self.drop_last else -(-n // self.num_replicas)

    def shards(self, epoch: int | None = None) -> list[int]:
        """Shards that this rank reads in an epoch, in order; the next iteration's by default."""
        parts = self._parts(self.epoch if epoch is None else epoch)[self.rank]
        return list(dict.fromkeys(shard for shard, _, _ in parts))

    def _facts(self) -> dict[str, Any]:
        return {
            "cells": int(self._offsets[-1]), "shards": len(self._offsets) - 1,
            "shard_offsets": zlib.crc32(self._offsets.tobytes()), "shuffle": self.shuffle,
            "seed": self.seed, "drop_last": self.drop_last,
        }  # fmt: skip

    def _samples(self, epoch: int) -> Iterator[int]:
        ranks = rank, _ = self._ranks.now()
        parts = self._parts(epoch)
        n = len(self)
        yield from islice(self._cells_of(parts[rank], epoch), n)
        self._ranks.require_same(ranks)
        missing = n - sum(end - begin for _, begin, end in parts[rank])
        if missing > 0:
            # A rank without cells (fewer cells than ranks) repeats those of the first.
            yield from islice(self._cells_of(parts[rank] or parts[0], epoch), missing)

    def _cells_of(self, parts: list[Part], epoch: int) -> Iterator[int]:
        for shard, begin, end in parts:
            first, size = (
                int(self._offsets[shard]),
                int(self._offsets[shard + 1] - self._offsets[shard]),
            )
            order = _order_of(size, self.shuffle)
            seed = (self.seed + 0x9E3779B97F4A7C15 * (shard + 1)) % 2**63
            for position in range(begin, end, _POSITIONS_AT_ONCE):
                rows = order.order(seed, epoch, position, min(end, position + _POSITIONS_AT_ONCE))
                yield from (rows + first).tolist()

    def _parts(self, epoch: int) -> list[list[Part]]:
        """Parts of shards of every rank, after levelling."""
        sizes = np.diff(self._offsets)
        deal = _order_of(len(sizes), self.shuffle).order(self.seed, epoch, 0, len(sizes)).tolist()
        ranks: list[list[Part]] = [
            [
                (shard, 0, int(sizes[shard]))
                for shard in deal[r :: self.num_replicas]
                if sizes[shard]
            ]
            for r in range(self.num_replicas)
        ]
        targets = self._targets()
        surplus: list[Part] = []
        for parts, target in zip(ranks, targets, strict=True):
            surplus += _cut(parts, target)
        for parts, target in zip(ranks, targets, strict=True):
            missing = target - _size(parts)
            while missing > 0 and surplus:
                shard, begin, end = surplus.pop()
                given = min(missing, end - begin)
                parts.append((shard, begin, begin + given))
                if begin + given < end:
                    surplus.append((shard, begin + given, end))
                missing -= given
        return ranks

    def _targets(self) -> list[int]:
        share, odd = divmod(int(self._offsets[-1]), self.num_replicas)
        return [share + (rank < odd and not self.drop_last) for rank in range(self.num_replicas)]


def _offsets_of(dataset: object) -> np.ndarray:
    offsets = getattr(dataset, "shard_offsets", None)
    if offsets is None:
        offsets = getattr(getattr(dataset, "store", None), "shard_offsets", None)
    if offsets is None:
        raise InvalidTypeError(
            f"{type(dataset).__name__} does not say where its shards begin: it needs "
            f"shard_offsets or store.shard_offsets"
        )
    offsets = np.asarray(offsets, dtype=np.int64)
    if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise InvalidArgumentError(
            "shard_offsets must begin with 0, not decrease, and end with the number of cells"
        )
    if offsets[-1] == 0:
        raise InvalidArgumentError("the shards hold no cells")
    return offsets


def _order_of(n: int, shuffle: bool) -> _core.Strategy:
    if shuffle:
        return _core.make_block_shuffling(n, 1, None, False)
    return _core.make_streaming(n, None, False, 0)


def _size(parts: list[Part]) -> int:
    return sum(end - begin for _, begin, end in parts)


def _cut(parts: list[Part], target: int) -> list[Part]:
    """Takes what is above the target off the end of ``parts``."""
    cut = []
    above = _size(parts) - target
    while above > 0:
        shard, begin, end = parts.pop()
        taken = min(above, end - begin)
        cut.append((shard, end - taken, end))
        if begin < end - taken:
            parts.append((shard, begin, end - taken))
        above -= taken
    return cut


_KINDS = {"DistributedShardSampler": ShardSampler, "WeightedCellSampler": WeightedCells}

if TYPE_CHECKING:

    class DistributedShardSampler(ShardSampler, DistributedSampler[int]):  # type: ignore
        """A sampler that lets each rank read shards of its own."""

    class WeightedCellSampler(WeightedCells, DistributedSampler[int]):  # type: ignore
        """A curriculum from uniform draws to draws inverse to class frequency."""


def __getattr__(name: str) -> Any:
    if name not in _KINDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kind: type = _KINDS[name]
    bases: tuple[type, ...] = (kind,)
    try:
        from ._torch import DistributedSampler

        bases = (kind, DistributedSampler)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "torch":
            raise
    value = type(name, bases, {"__module__": __name__, "__doc__": kind.__doc__})
    globals()[name] = value
    return value
