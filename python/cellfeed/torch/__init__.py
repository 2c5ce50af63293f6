"""What needs PyTorch; importing it imports torch."""

from __future__ import annotations

from ._dataset import register_iterable_dataset, scDataset
from ._ranks import broadcast_seed
from ._tensors import as_tensor, batch_to_tensor

__all__ = [
    "as_tensor",
    "batch_to_tensor",
    "broadcast_seed",
    "register_iterable_dataset",
    "scDataset",
]
