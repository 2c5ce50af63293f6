"""Arguments that several calls take, as the types of their ``**options``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from ._options import Casting, DType, Output, Partition, Remainder

if TYPE_CHECKING:
    from .tokens import CellTokens, Masking
    from .transforms import Transform


class ReadKeywords(TypedDict, total=False):
    """Arguments of ``cells.read`` that do not change the type of the batch."""

    obs: Sequence[str] | str | None
    dtype: DType
    casting: Casting
    transforms: Sequence[Transform]


class ReaderKeywords(ReadKeywords, total=False):
    """What a loader reads with."""

    memory_budget: int | str
    threads: int | None
    pin_memory: bool


class IterationKeywords(TypedDict, total=False):
    """What every loader deals samples out by, besides the batch size."""

    seed: int | None
    epoch: int | None
    rank: int | None
    world_size: int | None
    partition: Partition
    remainder: Remainder
    fetch_factor: int | None
    drop_last: bool


class WindowKeywords(IterationKeywords, total=False):
    """Arguments of a ``SeriesLoader`` that do not change the type of its batches."""

    memory_budget: int | str
    threads: int | None


class LoaderKeywords(ReaderKeywords, IterationKeywords, total=False):
    """Arguments of a ``Loader`` that do not change the type of its batches."""

    tune: bool | str
    tokens: CellTokens | None
    masking: Masking | None


class SampleKeywords(ReaderKeywords, total=False):
    """Arguments of ``scDataset`` that do not change what it yields."""

    seed: int | None
    epoch: int
    rank: int | None
    world_size: int | None
    partition: Partition
    remainder: Remainder


class CellKeywords(ReaderKeywords, total=False):
    """Arguments of ``scDataset`` that are for a collection of ``cellfeed.open`` only."""

    output: Output
