"""scDataset as an ``IterableDataset`` of torch."""

from __future__ import annotations

from typing import Any, NoReturn

from torch.utils.data import IterableDataset
from torch.utils.data._utils.collate import default_collate_fn_map

from .._batch import Batch
from .._iterable import BATCHED_AGAIN
from .._scdataset import Batches
from ..errors import InvalidArgumentError


class scDataset(Batches, IterableDataset):  # noqa: N801
    __doc__ = Batches.__doc__


def register_iterable_dataset(kind: type) -> None:
    """Make a class a virtual subclass of ``IterableDataset``, for ``DataLoader``."""
    IterableDataset.register(kind)


def _refuse_to_collate(batch: Any, *, collate_fn_map: Any = None) -> NoReturn:
    raise InvalidArgumentError(BATCHED_AGAIN)


# torch's own door for new types.
default_collate_fn_map[Batch] = _refuse_to_collate
