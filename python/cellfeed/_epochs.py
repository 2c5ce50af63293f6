"""Which epoch an iteration is, and which part of it this process yields."""

from __future__ import annotations

import sys


def worker_of_this_process() -> tuple[int, int]:
    """This process's number among the workers of a torch DataLoader, and how many there are; (0, 1) elsewhere."""
    data = sys.modules.get("torch.utils.data")
    info = data.get_worker_info() if data is not None else None
    return (0, 1) if info is None else (info.id, info.num_workers)


class EpochCounter:
    """Counts iterations: the first is epoch ``first``, each further one is the next."""

    def __init__(self, first: int = 0) -> None:
        self._next = first

    def next_epoch(self) -> int:
        """Epoch that the next :meth:`start` returns."""
        return self._next

    def start(self, worker: int = 0) -> int:
        """Begin an iteration; its epoch."""
        epoch = self._next
        self._next += 1
        return epoch

    def set(self, epoch: int) -> None:
        """Make ``epoch`` the next one."""
        self._next = epoch
