"""What lets torch's ``DataLoader`` iterate our loaders, without importing torch for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Generic, TypeVar

from ..errors import InvalidArgumentError

_registered: set[type] = set()

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

        def __init_subclass__(cls) -> None:
            super().__init_subclass__()
            register_iterable(cls)

        @property
        def __class__(self) -> type:
            """The class, made known to torch."""
            register_iterable(type(self))
            return type(self)


def register_iterable(kind: type) -> None:
    """Make a class an ``IterableDataset`` of torch, where torch is in use."""
    data = sys.modules.get("torch.utils.data")
    if kind not in _registered and hasattr(data, "DataLoader"):
        _registered.add(kind)
        from .._torch import register_iterable_dataset

        register_iterable_dataset(kind, BATCHED_AGAIN)


BATCHED_AGAIN = (
    "a loader of cellfeed makes whole batches, which a DataLoader must not batch again: use "
    "batch_size=None, as in DataLoader(loader, batch_size=None)"
)


def refuse_batching_again() -> None:
    """Refuse to be iterated by a ``DataLoader`` that would stack our batches into larger ones.

    For ``__iter__`` to call first. A DataLoader says what it will do with the batches nowhere but
    in its fetcher, the object whose method calls ``__iter__``.
    """
    fetch = sys.modules.get("torch.utils.data._utils.fetch")
    frame = sys._getframe(1).f_back
    if fetch is None or frame is None:
        return
    caller = frame.f_locals.get("self")
    if not isinstance(caller, fetch._BaseDatasetFetcher) or not caller.auto_collation:
        return
    # A collate_fn of the user's own may know what to do with several batches.
    if caller.collate_fn is sys.modules["torch.utils.data"].default_collate:
        raise InvalidArgumentError(BATCHED_AGAIN)
