"""Page-locked memory: torch's, which knows which copies to a GPU are still under way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np


def find_torch_library() -> str:
    """Path of the library that page-locked memory comes from.

    Starts torch's GPU of now, as ``torch.empty(..., pin_memory=True)`` would.

    Raises
    ------
    InvalidArgumentError
        Torch has no GPU here, or is too old.
    """
    try:
        pin(torch.empty(1, dtype=torch.uint8))
    # AssertionError is what a torch without CUDA raises.
    except (RuntimeError, AssertionError) as error:
        raise InvalidArgumentError(
            "pin_memory=True page-locks batches for copies to a GPU, and torch "
            f"{torch.__version__} cannot do that here: install a torch with CUDA and a driver for "
            f"it, or leave pin_memory out; torch says: {error}"
        ) from error
    if not _hands_out_memory():
        raise InvalidArgumentError(
            f"pin_memory=True needs a newer torch, such as 2.13, not: {torch.__version__}"
        )
    return str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")


def can_pin() -> bool:
    """Whether loaders can have page-locked batches: torch has a GPU, and hands such memory out."""
    return torch.cuda.is_available() and _hands_out_memory()


def _hands_out_memory() -> bool:
    return hasattr(getattr(torch._C, "_aoti", None), "alloc_tensors_by_stealing_from_void_ptrs")


def pin(tensor: torch.Tensor) -> torch.Tensor:
    """A page-locked copy."""
    return tensor.pin_memory()


def adopt_tensor(owner: Any, array: np.ndarray) -> torch.Tensor:
    """A tensor over the memory of ``array``, which torch itself allocated.

    Unlike one made by ``torch.from_numpy`` it is known to torch's allocator, so that copies of any
    part of it are waited for before the memory is used again.

    Parameters
    ----------
    owner
        Capsule with a tensor of torch's C interface; taken over.
    array
        What lies there.
    """
    # That of one tensor, unlike its name, copies, and the memory is never given back.
    (tensor,) = torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs([owner])
    return tensor.view(getattr(torch, array.dtype.name)).view(array.shape)
