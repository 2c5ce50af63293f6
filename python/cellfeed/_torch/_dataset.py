"""Our data sets in the eyes of torch's ``DataLoader``."""

from __future__ import annotations

from typing import NoReturn

from torch.utils.data import IterableDataset
from torch.utils.data._utils.collate import default_collate_fn_map

from .._batch_cells import BatchOfCells
from ..errors import InvalidArgumentError


def register_iterable_dataset(kind: type, batched_again: str) -> None:
    """Make a class a virtual subclass of ``IterableDataset``, for ``DataLoader``.

    Parameters
    ----------
    kind
        The class.
    batched_again
        The error where torch would make batches of its batches.
    """

    def refuse(batch: object, *, collate_fn_map: object = None) -> NoReturn:
        raise InvalidArgumentError(batched_again)

    IterableDataset.register(kind)
    # torch's own door for new types.
    default_collate_fn_map[BatchOfCells] = refuse
