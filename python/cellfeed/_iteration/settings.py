"""What the plan of an epoch depends on besides seed, epoch and ranks."""

from __future__ import annotations

from dataclasses import dataclass

from .._arguments import as_bool, as_choice, as_int
from .._options import PARTITIONS, REMAINDERS


@dataclass
class Settings:
    """What a plan depends on besides seed, epoch and ranks.

    Attributes
    ----------
    partition
        ``"interleave"``, ``"group"`` or ``"auto"``.
    is_chunked
        The files keep rows in chunks, which ``"auto"`` goes by.
    is_tuned
        The order was measured by this process for itself.
    """

    batch_size: int
    fetch_factor: int
    partition: str
    remainder: str
    drop_last: bool
    is_chunked: bool = False
    is_tuned: bool = False

    def __post_init__(self) -> None:
        self.batch_size = as_int("batch_size", self.batch_size, 1)
        self.fetch_factor = as_int("fetch_factor", self.fetch_factor, 1)
        as_choice("partition", self.partition, PARTITIONS)
        as_choice("remainder", self.remainder, REMAINDERS)
        self.drop_last = as_bool("drop_last", self.drop_last)
