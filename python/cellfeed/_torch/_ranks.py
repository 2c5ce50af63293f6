"""What the ranks of a process group agree on."""

from __future__ import annotations

import torch
import torch.distributed
from torch.distributed import distributed_c10d


def broadcast_seed(seed: int) -> int:
    """The seed that rank 0 passed. Collective: all ranks of the default group call it."""
    backend = torch.distributed.get_backend()
    # A tensor of NCCL must lie on the GPU of this process, whatever its rank among several
    # machines.
    device = torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else None
    value = torch.tensor([seed], dtype=torch.int64, device=device)
    torch.distributed.broadcast(value, src=0)
    return int(value.item())


def first_said(name: str, text: str) -> str:
    """What the first rank of the default group that came here with this name has said: maybe this.

    No rank waits for others. Where they can no longer be asked, as after the end of the rank that
    keeps the group's store, it is ``text``.
    """
    try:
        store = distributed_c10d._get_default_store()
    except ValueError:  # there is no group any more
        return text
    try:
        return str(store.compare_set(f"cellfeed/{name}", "", text).decode())
    except RuntimeError:  # of the store; each kind of it has words of its own
        return text
