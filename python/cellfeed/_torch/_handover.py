"""What a worker process of a ``DataLoader`` makes reaches the main process, or an error does."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils import fetch

from ..errors import InputOutputError


def hand_over_in_shared_memory() -> None:
    """Have the worker process that calls this move what its ``collate_fn`` makes to shared memory.

    For what a ``DataLoader`` calls of a data set to call first. torch moves tensors that lie
    elsewhere in a thread of its queue: an error there loses the batch, and reaches nobody.
    """
    if get_worker_info() is None:
        return
    fetcher = _find_fetcher()
    if fetcher is not None and not isinstance(fetcher.collate_fn, _CollateAndShare):
        fetcher.collate_fn = _CollateAndShare(fetcher.collate_fn)


def _find_fetcher() -> Any:
    """The part of the ``DataLoader`` that asked for samples; None where another thread did."""
    frame = sys._getframe(1)
    while frame.f_globals is not vars(fetch):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return frame.f_locals["self"]


class _CollateAndShare:
    """A ``collate_fn`` whose tensors lie in shared memory."""

    def __init__(self, collate_fn: Callable[[Any], Any]) -> None:
        self._collate_fn = collate_fn

    def __call__(self, samples: Any) -> Any:
        made = self._collate_fn(samples)
        _Sharer().dump(made)
        return made


class _Sharer(ForkingPickler):
    """Goes through an object as the queue will, and moves the memory of its tensors."""

    def __init__(self) -> None:
        # Buffers are not copied: this returns nothing, which keeps them out.
        super().__init__(io.BytesIO(), 5, True, lambda buffer: None)

    def reducer_override(self, part: Any) -> Any:
        if isinstance(part, torch.UntypedStorage):
            _share(part)
            return int, ()
        # Handing out the memory of a GPU is counted, so it is left to the queue.
        if isinstance(part, torch.Tensor) and part.device.type != "cpu":
            return int, ()
        return NotImplemented


def _share(memory: torch.UntypedStorage) -> None:
    if memory.nbytes() == 0:
        return
    try:
        memory.share_memory_()
    except RuntimeError as error:
        raise InputOutputError(
            f"a worker process of a DataLoader cannot put {memory.nbytes():,} bytes of a batch "
            f"into shared memory: {error}; make /dev/shm larger (docker run --shm-size=8g) or "
            "batches smaller, or use num_workers=0"
        ) from error
