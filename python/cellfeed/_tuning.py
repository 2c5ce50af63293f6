"""Settings measured on this machine: what ``Loader(..., tune=True)`` applies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _core
from ._collection import CellCollection
from ._strategies import BlockShuffling, SamplingStrategy
from .errors import InvalidArgumentError

# Share of true random's label entropy that tuned batches keep.
WANTED_ENTROPY = 0.98
SECONDS_PER_POINT = 0.2


def tuned(
    cells: CellCollection,
    strategy: SamplingStrategy,
    batch_size: int,
    tune: bool | str,
    obs: Sequence[str],
    world_size: int,
    memory_budget: int,
) -> dict[str, Any]:
    """Block size, fetch factor, threads and memory that load fastest here and keep batches diverse.

    Reads for a few seconds.

    Parameters
    ----------
    cells
        What will be loaded.
    strategy
        Must be :class:`BlockShuffling`: its block size is what is tuned.
    batch_size
        Cells of a batch.
    tune
        The obs column whose entropy per batch is kept; ``True`` takes the first label column of
        ``obs``.
    obs
        Columns loaded with each batch.
    world_size
        Must be 1: ranks that measure apart would disagree on the order.
    memory_budget
        Bytes that may be used.

    Returns
    -------
    dict
        ``block_size``, ``fetch_factor``, ``threads``, ``memory_budget`` (bytes), the rate measured
        and ``points``, everything that was tried.
    """
    if not isinstance(strategy, BlockShuffling):
        raise InvalidArgumentError(
            f"tune chooses a block size, so it needs BlockShuffling: {strategy!r}"
        )
    if world_size > 1:
        raise InvalidArgumentError(
            "ranks that measure apart would disagree on the order: run `cellfeed bench` once and "
            "pass its settings to every rank"
        )
    labels = [tune] if isinstance(tune, str) else obs
    label = next((name for name in labels if cells.obs_column(name).is_categorical), None)
    if label is None:
        raise InvalidArgumentError(
            'tune needs a label column to keep batches diverse: pass tune="cell_type", '
            "or obs=[...] with a column of labels"
        )
    return _core.tune(
        cells._core, batch_size, label, WANTED_ENTROPY, SECONDS_PER_POINT, memory_budget, 0
    )


def with_block_size(strategy: BlockShuffling, block_size: int) -> BlockShuffling:
    """The same strategy with blocks of another size."""
    return BlockShuffling(block_size, strategy.indices, strategy.drop_last)
