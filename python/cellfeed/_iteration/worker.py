"""This process among the workers of a torch DataLoader."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Worker:
    """This process among the workers of a torch DataLoader.

    Attributes
    ----------
    index, count
        Number of this worker, and how many there are; 0 of 1 outside of a DataLoader's worker.
    token
        The same for all workers that a DataLoader started together; 0 outside of a worker.
    """

    index: int = 0
    count: int = 1
    token: int = 0

    @property
    def is_process(self) -> bool:
        """True in a worker process of a DataLoader."""
        return self.token != 0


def this_worker() -> Worker:
    # A worker process has imported torch.
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    if info is None:
        return Worker()
    # torch seeds worker w with base + w; the base is drawn anew each time workers are started.
    return Worker(info.id, info.num_workers, ((info.seed - info.id) % 2**62) | 1 << 62)
