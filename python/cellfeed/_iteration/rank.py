"""Which rank this process is, and the seed that all ranks share."""

from __future__ import annotations

import os
import secrets
import sys
from multiprocessing import context
from types import FrameType
from typing import Any

from .._arguments import as_int, shown
from ..errors import InvalidArgumentError
from .worker import this_worker


class Ranks:
    """Rank and world size of this process, found out when they are asked for.

    Process groups come late: data sets are often made before, or in another process. So only what
    was given explicitly is fixed. Else an initialised ``torch.distributed`` group counts; else
    ``RANK`` and ``WORLD_SIZE`` of the environment (as torchrun sets them; RANK alone is
    refused); else ``(0, 1)``. A worker process of a DataLoader is of its parent's rank. torch is
    never imported for this.

    Parameters
    ----------
    rank, world_size
        Both, or neither.
    size_name
        What users call the second.
    """

    def __init__(
        self,
        rank: int | None = None,
        world_size: int | None = None,
        size_name: str = "world_size",
    ) -> None:
        if (rank is None) != (world_size is None):
            raise InvalidArgumentError(
                f"pass rank and {size_name} together, or neither: "
                f"rank={shown(rank)}, {size_name}={shown(world_size)}"
            )
        self._given = None if rank is None else _checked(rank, world_size)
        self._of_parent: tuple[tuple[int, int], bool] | None = None
        self._pid = 0

    def __getstate__(self) -> dict[str, object]:
        # A started worker has no group, nor does it inherit one as a forked worker does.
        is_started = context.get_spawning_popen() is not None
        if is_started:
            self.refuse_second_split()
        of_parent = (self.now(), self.are_grouped()) if is_started else None
        return {"_given": self._given, "_of_parent": of_parent}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._pid = os.getpid()

    @property
    def is_given(self) -> bool:
        """True where the ranks were passed explicitly."""
        return self._given is not None

    def now(self) -> tuple[int, int]:
        """Rank and world size."""
        if self._given is not None:
            return self._given
        of_parent = self._told_by_parent()
        return _detect() if of_parent is None else of_parent[0]

    def require_same(self, before: tuple[int, int]) -> None:
        """Refuse to go on with an epoch that began with other ranks."""
        now = self.now()
        if now != before:
            raise InvalidArgumentError(
                f"this epoch began on rank {before[0]} of {before[1]}, which now is rank {now[0]} "
                f"of {now[1]}: what was handed out belongs to another deal; start or end the "
                "process group between epochs, or pass rank and world_size"
            )

    def refuse_second_split(self) -> None:
        """Refuse to be iterated by Hugging Face's Accelerate, which deals a rank's share again.

        For what hands samples out to call first. Nothing but the stack shows who iterates.
        """
        accelerate = sys.modules.get("accelerate.data_loader")
        if accelerate is None or self.now()[1] == 1:
            return
        splitters = (
            accelerate.BatchSamplerShard, accelerate.DataLoaderDispatcher,
            accelerate.DataLoaderShard, accelerate.IterableDatasetShard,
        )  # fmt: skip
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if isinstance(frame.f_locals.get("self"), splitters):
                raise InvalidArgumentError(
                    "accelerator.prepare splits the batches of a DataLoader among the processes, "
                    "and these are the share of one process already, so that most samples would be "
                    "left out: prepare a cellfeed.Loader or scDataset without a DataLoader, or "
                    "leave the DataLoader out of prepare and move its batches to "
                    "accelerator.device"
                )
            frame = frame.f_back

    def are_grouped(self) -> bool:
        """True where an initialised ``torch.distributed`` group has all ranks, and no others."""
        of_parent = self._told_by_parent()
        if of_parent is not None:
            return of_parent[1]
        group = _initialised_group()
        return group is not None and group.get_world_size() == self.now()[1]

    def _told_by_parent(self) -> tuple[tuple[int, int], bool] | None:
        # The process that was started with this object may be a worker, or a rank that has workers.
        is_started = self._of_parent is not None and self._pid == os.getpid()
        return self._of_parent if is_started and this_worker().is_process else None


def is_group_inherited() -> bool:
    """True where the group is that of a process that this one was forked from, which goes on."""
    return _pid_of_inherited == os.getpid()


def agree_on_seed(seed: int | None, ranks: Ranks) -> int:
    """A seed that every rank shares.

    On one rank it is ``seed``, or drawn. On several ranks it is that of rank 0 of their initialised
    ``torch.distributed`` group, and every rank must come here; where there is no such group, it is
    0.
    """
    if seed is None:
        seed = secrets.randbits(31)
    if ranks.now()[1] == 1:
        return seed
    if not ranks.are_grouped():
        return 0
    if this_worker().is_process:
        raise InvalidArgumentError(
            "no seed was given, and the worker processes of a rank cannot agree on one with other "
            "ranks: pass seed=..., or make the data set after the process group is initialised, or "
            "ask for its .seed on every rank before it is iterated"
        )
    from .._torch import broadcast_seed

    return broadcast_seed(seed)


def _checked(rank: object, world_size: object) -> tuple[int, int]:
    rank = as_int("rank", rank, 0)
    world_size = as_int("world_size", world_size, 1)
    if rank >= world_size:
        raise InvalidArgumentError(f"rank must be in [0, world_size): rank {rank} of {world_size}")
    return rank, world_size


def _initialised_group() -> Any:
    # A group can only be initialised where torch has been imported.
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def _note_fork() -> None:
    global _pid_of_inherited
    if _initialised_group() is not None:
        _pid_of_inherited = os.getpid()


_pid_of_inherited = 0
os.register_at_fork(after_in_child=_note_fork)


def _detect() -> tuple[int, int]:
    distributed = _initialised_group()
    if distributed is not None:
        return distributed.get_rank(), distributed.get_world_size()
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    # Lightning sets WORLD_SIZE alone in the processes it starts, until they have their group.
    if rank is None:
        return 0, 1
    if world_size is None:
        raise InvalidArgumentError(
            f"RANK={rank} is in the environment and WORLD_SIZE is not, so that nobody knows which "
            "samples this process is to get: set both, as torchrun does, unset RANK, or pass rank "
            "and world_size"
        )
    try:
        return _checked(int(rank), int(world_size))
    except ValueError as error:
        raise InvalidArgumentError(
            f"RANK and WORLD_SIZE of the environment must be integers, RANK in [0, WORLD_SIZE): "
            f"{rank!r}, {world_size!r}"
        ) from error
