"""What the ranks of a process group agree on."""

from __future__ import annotations

import torch
import torch.distributed


def broadcast_seed(seed: int) -> int:
    """The seed that rank 0 passed. Collective: all ranks of the default group call it."""
    backend = torch.distributed.get_backend()
    # A tensor of NCCL must lie on the GPU of this process, whatever its rank among several
    # machines.
    device = torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else None
    value = torch.tensor([seed], dtype=torch.int64, device=device)
    torch.distributed.broadcast(value, src=0)
    return int(value.item())
