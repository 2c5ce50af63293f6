"""Our samplers as a ``DistributedSampler`` of torch: frameworks leave those as they are."""

from __future__ import annotations

from torch.utils.data.distributed import DistributedSampler

from .._strategies import WeightedCells
from ..data.distributed import ShardSampler


class DistributedShardSampler(ShardSampler, DistributedSampler):
    __doc__ = ShardSampler.__doc__


class WeightedCellSampler(WeightedCells, DistributedSampler):
    __doc__ = WeightedCells.__doc__
