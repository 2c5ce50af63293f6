"""Which rank this process is: explicit arguments, else torch.distributed, else the environment, else alone."""

from __future__ import annotations

import os
import sys

from .errors import InvalidArgumentError


def resolve_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and world size.

    Explicit arguments win; else an initialised ``torch.distributed`` group; else ``RANK`` and ``WORLD_SIZE`` of the
    environment (as torchrun sets them); else ``(0, 1)``. torch is never imported for this.
    """
    if (rank is None) != (world_size is None):
        raise InvalidArgumentError(
            f"pass rank and world_size together, or neither: rank={rank}, world_size={world_size}"
        )
    if rank is None or world_size is None:
        rank, world_size = _detect()
    if world_size < 1:
        raise InvalidArgumentError(f"world_size must be at least 1: {world_size}")
    if not 0 <= rank < world_size:
        raise InvalidArgumentError(f"rank must be in [0, world_size): rank {rank} of {world_size}")
    return int(rank), int(world_size)


def _detect() -> tuple[int, int]:
    # A group can only be initialised where torch has been imported.
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, world_size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is not None and world_size is not None:
        try:
            return int(rank), int(world_size)
        except ValueError as error:
            raise InvalidArgumentError(
                f"RANK and WORLD_SIZE of the environment must be integers: {rank!r}, {world_size!r}"
            ) from error
    return 0, 1
