"""Settings measured on this machine: what ``Loader(..., tune=True)`` applies."""

from __future__ import annotations

from typing import Any

from . import _core
from ._iteration.settings import Settings
from ._reader import ReaderOptions
from .collection import CellCollection
from .errors import InvalidArgumentError
from .strategies import BlockShuffling, SamplingStrategy

# Share of true random's label entropy that tuned batches keep.
WANTED_ENTROPY = 0.98
SECONDS_PER_POINT = 0.2


def tuned(
    cells: CellCollection,
    strategy: SamplingStrategy,
    tune: bool | str,
    options: ReaderOptions,
    settings: Settings,
    world_size: int,
) -> dict[str, Any]:
    """Block size, fetch factor, threads and memory that load fastest here and keep batches diverse.

    Reads for a few seconds.

    Parameters
    ----------
    cells
        What will be loaded.
    strategy
        Must be :class:`BlockShuffling`: its block size is what is tuned.
    tune
        The obs column whose entropy per batch is kept; ``True`` takes the first label column that
        is loaded with each batch.
    options, settings
        Of the loader.
    world_size
        Must be 1: ranks that measure apart would disagree on the order.

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
    loaded = cells.default_obs if options.obs is None else options.obs
    labels = [tune] if isinstance(tune, str) else loaded
    label = next((name for name in labels if cells.obs_column(name).is_categorical), None)
    if label is None:
        raise InvalidArgumentError(
            'tune needs a label column to keep batches diverse: pass tune="cell_type", '
            "or obs=[...] with a column of labels"
        )
    return _core.tune(
        cells._core, settings.batch_size, label, WANTED_ENTROPY, SECONDS_PER_POINT,
        options.budget_bytes, 0,
    )  # fmt: skip


def with_block_size(strategy: SamplingStrategy, block_size: int) -> BlockShuffling:
    """The same strategy with blocks of another size."""
    assert isinstance(strategy, BlockShuffling)  # tuned() has refused others
    return BlockShuffling(block_size, strategy.indices, strategy.drop_last)
