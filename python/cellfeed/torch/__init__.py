"""What needs PyTorch; importing it imports torch."""

from __future__ import annotations

from ._tensors import batch_to_tensor

__all__ = ["batch_to_tensor"]
