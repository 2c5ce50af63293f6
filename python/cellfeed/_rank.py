"""Which rank this process is, and the seed that all ranks share."""

from __future__ import annotations

import os
import secrets
import sys
from typing import Any

from ._schedule import as_int
from .errors import InvalidArgumentError


def resolve_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and world size.

    Explicit arguments win; else an initialised ``torch.distributed`` group; else ``RANK`` and
    ``WORLD_SIZE`` of the environment (as torchrun sets them); else ``(0, 1)``. torch is never
    imported for this.
    """
    if (rank is None) != (world_size is None):
        raise InvalidArgumentError(
            f"pass rank and world_size together, or neither: rank={rank}, world_size={world_size}"
        )
    if rank is None or world_size is None:
        rank, world_size = _detect()
    rank = as_int("rank", rank, 0)
    world_size = as_int("world_size", world_size, 1)
    if rank >= world_size:
        raise InvalidArgumentError(f"rank must be in [0, world_size): rank {rank} of {world_size}")
    return rank, world_size


def resolve_seed(seed: int | None, world_size: int) -> int:
    """The seed given, or one that every rank shares.

    ``None`` on one rank is drawn at random. On several ranks it is drawn by rank 0 of the
    initialised ``torch.distributed`` group of that size, and every rank must come here; where there
    is no such group, it is 0.
    """
    if seed is not None:
        return as_int("seed", seed, 0, 2**63 - 1)
    if world_size == 1:
        return secrets.randbits(31)
    group = _initialised_group()
    if group is None or group.get_world_size() != world_size:
        return 0
    from .torch import broadcast_seed

    return broadcast_seed(secrets.randbits(31))


def register_iterable(kind: type) -> None:
    """Let a torch ``DataLoader`` iterate objects of this class, where torch is in use."""
    if "torch.utils.data" in sys.modules:
        from .torch import register_iterable_dataset

        register_iterable_dataset(kind)


def _initialised_group() -> Any:
    # A group can only be initialised where torch has been imported.
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def _detect() -> tuple[int, int]:
    distributed = _initialised_group()
    if distributed is not None:
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
