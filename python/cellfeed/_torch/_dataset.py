"""Our data sets in the eyes of torch's ``DataLoader``."""

from __future__ import annotations

from typing import NoReturn

from torch.utils.data import IterableDataset
from torch.utils.data._utils.collate import default_collate_fn_map

from .._iteration.iterable import BATCHED_AGAIN
from ..batch import Batch
from ..errors import InvalidArgumentError


def register_iterable_dataset(kind: type) -> None:
    """Make a class a virtual subclass of ``IterableDataset``, for ``DataLoader``."""
    IterableDataset.register(kind)


def _refuse_to_collate(batch: object, *, collate_fn_map: object = None) -> NoReturn:
    raise InvalidArgumentError(BATCHED_AGAIN)


# torch's own door for new types.
default_collate_fn_map[Batch] = _refuse_to_collate
