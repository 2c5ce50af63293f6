"""How the samples of an epoch become batches: the arguments that all loaders share."""

from __future__ import annotations

from dataclasses import dataclass

from .._arguments import as_bool, as_choice, as_int, settle
from .._options import PARTITIONS, REMAINDERS, Partition, Remainder
from .rank import Ranks
from .states import as_epoch

FETCH_FACTOR = 16


@dataclass(frozen=True, kw_only=True)
class IterationOptions:
    """How the samples of an epoch become batches, checked when this is made.

    Attributes
    ----------
    batch_size, fetch_factor, partition, remainder, drop_last, rank, world_size
        As of :class:`~cellfeed.Loader`.
    seed
        Of every order; None is drawn at random, and that of a loaded state replaces it.
    epoch
        Of the first iteration.
    is_tuned
        What the order depends on was measured by this process for itself.
    """

    batch_size: int = 1024
    fetch_factor: int = FETCH_FACTOR
    partition: Partition = "auto"
    remainder: Remainder = "pad"
    drop_last: bool = False
    seed: int | None = 0
    epoch: int = 0
    rank: int | None = None
    world_size: int | None = None
    is_tuned: bool = False

    def __post_init__(self) -> None:
        settle(
            self,
            batch_size=as_int("batch_size", self.batch_size, 1),
            fetch_factor=as_int("fetch_factor", self.fetch_factor, 1),
            partition=as_choice("partition", self.partition, PARTITIONS),
            remainder=as_choice("remainder", self.remainder, REMAINDERS),
            drop_last=as_bool("drop_last", self.drop_last),
            epoch=as_epoch(self.epoch),
            seed=None if self.seed is None else as_int("seed", self.seed, 0, 2**63 - 1),
        )
        self.make_ranks()

    def make_ranks(self) -> Ranks:
        """Rank and world size, to be asked for when an iteration begins."""
        return Ranks(self.rank, self.world_size)
