"""What lets torch's ``DataLoader`` iterate our loaders, without importing torch for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Generic, TypeVar

Yielded = TypeVar("Yielded", covariant=True)

if TYPE_CHECKING:
    from torch.utils.data import IterableDataset

    class TorchIterable(IterableDataset[Yielded]):
        """An ``IterableDataset``."""

else:

    class TorchIterable(Generic[Yielded]):
        """An ``IterableDataset`` to whoever asks, wherever torch is in use.

        ``isinstance`` asks an object for its class. That is when ours are registered, so that it
        does not matter whether the object or ``import torch`` came first.
        """

        @property
        def __class__(self) -> type:
            """The class, made known to torch."""
            register_iterable(type(self))
            return type(self)


_registered: set[type] = set()


def register_iterable(kind: type) -> None:
    """Make a class an ``IterableDataset`` of torch, where torch is in use."""
    data = sys.modules.get("torch.utils.data")
    if kind not in _registered and hasattr(data, "DataLoader"):
        _registered.add(kind)
        from .torch import register_iterable_dataset

        register_iterable_dataset(kind)
