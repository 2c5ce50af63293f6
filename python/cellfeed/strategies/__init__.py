"""Sampling strategies: which cell comes at which position of an epoch (docs/sampling.md)."""

from ._blocks import BlockShuffling, Streaming, WholeShards, shuffled
from ._by_label import ClassBalancedSampling, GroupSampling, LabelStrategy
from ._strategy import SamplingStrategy, as_indices, as_size, as_strategy
from ._weighted import BlockWeightedSampling

__all__ = [
    "BlockShuffling",
    "BlockWeightedSampling",
    "ClassBalancedSampling",
    "GroupSampling",
    "LabelStrategy",
    "SamplingStrategy",
    "Streaming",
    "WholeShards",
    "as_indices",
    "as_size",
    "as_strategy",
    "shuffled",
]
