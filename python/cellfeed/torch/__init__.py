"""What needs PyTorch; importing it imports torch."""

from __future__ import annotations

from ._batches import TensorBatch
from ._dataset import register_iterable_dataset, scDataset
from ._pinned import find_torch_library
from ._ranks import broadcast_seed
from ._samplers import DistributedShardSampler, WeightedCellSampler
from ._tensors import as_tensor, batch_to_tensor

__all__ = [
    "DistributedShardSampler",
    "TensorBatch",
    "WeightedCellSampler",
    "as_tensor",
    "batch_to_tensor",
    "broadcast_seed",
    "find_torch_library",
    "register_iterable_dataset",
    "scDataset",
]
