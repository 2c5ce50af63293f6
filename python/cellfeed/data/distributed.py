"""Whole shards dealt to ranks: :class:`DistributedShardSampler`."""

from __future__ import annotations

from ..samplers import DistributedShardSampler

__all__ = ["DistributedShardSampler"]
