"""Settings measured on this machine: what ``Loader(..., tune=True)`` applies."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, cast

from . import _core
from ._loader_options import LoaderOptions
from .collection import CellCollection
from .errors import InvalidArgumentError
from .strategies import BlockShuffling, SamplingStrategy

# Share of true random's label entropy that tuned batches keep.
WANTED_ENTROPY = 0.98
SECONDS_PER_POINT = 0.2


class TuningPoint(TypedDict):
    """Settings that were tried, and what was measured with them."""

    block_size: int
    fetch_factor: int
    threads: int
    cells_per_second: float
    megabytes_per_second: float
    bytes_read_per_used: float
    label_entropy_bits: float


class Tuning(TuningPoint):
    """The settings that a loader uses, their memory in bytes, and all points that were tried."""

    memory_budget: int
    random_entropy_bits: float
    points: list[TuningPoint]


def tuned(
    cells: CellCollection, strategy: SamplingStrategy, options: LoaderOptions
) -> tuple[Tuning, SamplingStrategy, LoaderOptions]:
    """Block size, fetch factor, threads and memory that load fastest here and keep batches diverse.

    Reads for a few seconds.

    Parameters
    ----------
    cells
        What will be loaded.
    strategy
        Must be :class:`BlockShuffling`: its block size is what is tuned.
    options
        Of the loader. ``tune`` names the obs column whose entropy per batch is kept; ``True`` takes
        the first label column that is loaded with each batch. Ranks that measure apart would
        disagree on the order, so there must be one.

    Returns
    -------
    tuple
        What was measured, and the strategy and the options with it.
    """
    if not isinstance(strategy, BlockShuffling):
        raise InvalidArgumentError(
            f"tune chooses a block size, so it needs BlockShuffling: {strategy!r}"
        )
    if options.make_ranks().now()[1] > 1:
        raise InvalidArgumentError(
            "ranks that measure apart would disagree on the order: run `cellfeed bench` once and "
            "pass its settings to every rank"
        )
    measured = _core.tune(
        cells._core, options.batch_size, _label_of(cells, options), WANTED_ENTROPY,
        SECONDS_PER_POINT, options.memory_budget, 0,
    )  # fmt: skip
    best = cast(Tuning, measured)
    blocks = BlockShuffling(best["block_size"], strategy.indices, strategy.drop_last)
    used = replace(
        options, fetch_factor=best["fetch_factor"], threads=best["threads"],
        memory_budget=best["memory_budget"], is_tuned=True,
    )  # fmt: skip
    return best, blocks, used


def _label_of(cells: CellCollection, options: LoaderOptions) -> str:
    loaded = cells.default_obs if options.obs is None else options.obs
    labels = [options.tune] if isinstance(options.tune, str) else loaded
    label = next((name for name in labels if cells.obs_column(name).is_categorical), None)
    if label is None:
        raise InvalidArgumentError(
            'tune needs a label column to keep batches diverse: pass tune="cell_type", '
            "or obs=[...] with a column of labels"
        )
    return label
