"""scDataset as an ``IterableDataset`` of torch."""

from __future__ import annotations

from torch.utils.data import IterableDataset

from .._scdataset import Batches


class scDataset(Batches, IterableDataset):  # noqa: N801
    __doc__ = Batches.__doc__


def register_iterable_dataset(kind: type) -> None:
    """Make a class a virtual subclass of ``IterableDataset``, for ``DataLoader``."""
    IterableDataset.register(kind)
