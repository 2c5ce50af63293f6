"""Tensors of a batch that move together, of cells and of windows alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch

from .._arguments import shown
from .._lazy import cached_property
from ..errors import InvalidTypeError
from ._pinned import pin
from ._tensors import as_tensor, make_csr


def as_device(device: object) -> torch.device:
    """A device as torch names it."""
    if isinstance(device, torch.device):
        return device
    if isinstance(device, bool) or not isinstance(device, (str, int)):
        is_dtype = isinstance(device, (torch.dtype, np.dtype, type))
        hint = "; dtype= of the loader chooses that of the values" if is_dtype else ""
        raise InvalidTypeError(
            f"device must be a torch.device, its name or its number, not {shown(device)}{hint}"
        )
    return torch.device(device)


class TensorsOnDevice:
    """The parts of a batch as tensors on one device; base of what ``batch.to()`` returns."""

    _batch: Any
    _parts: dict[str, torch.Tensor]  # what the batch is named by, first

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        """The same of changed tensors; without those that are made when they are asked for."""
        raise NotImplementedError

    def _all(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        changed = self._each(change)
        for name in ("index", "is_padding"):
            if name in self.__dict__:
                changed.__dict__[name] = change(self.__dict__[name])
        return changed

    # Two copies fewer a batch for those who do not ask.
    @cached_property
    def index(self) -> torch.Tensor:
        """int64, numbers of the samples; brought to the device when it is asked for."""
        return self._brought(self._batch.index)

    @cached_property
    def is_padding(self) -> torch.Tensor:
        """bool, True where a sample only fills up the batch."""
        marks = self._batch.is_padding
        if marks.any():
            return self._brought(marks)
        return torch.zeros(len(marks), dtype=torch.bool, device=self.device)

    def _brought(self, array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        if self.device.type != "cuda":
            return tensor.to(self.device)
        # A copy out of other memory waits for all that the GPU has been told to do.
        return pin(tensor).to(self.device, non_blocking=True)

    def to(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> Self:
        """Move every tensor to a device; to where they are by default.

        Parameters
        ----------
        device
            Where to.
        non_blocking
            Do not wait for copies out of page-locked memory.

        Raises
        ------
        InvalidTypeError
            It is no device: a dtype would change labels and row numbers with the values.
        """
        if device is None:
            return self
        place = as_device(device)
        return self._all(lambda tensor: tensor.to(place, non_blocking=non_blocking))

    def cuda(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> Self:
        """Move to a GPU, the current one by default."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def cpu(self) -> Self:
        """Move to the CPU's memory."""
        return self.to("cpu")

    def pin_memory(self) -> Self:
        """Page-lock every tensor; what is page-locked already is not copied."""
        return self._all(pinned)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return next(iter(self._parts.values())).device

    def keys(self) -> list[str]:
        """Names that ``batch[name]`` takes."""
        names: list[str] = self._batch.keys()
        return names

    def __contains__(self, name: object) -> bool:
        return name in self._batch

    def __len__(self) -> int:
        return len(self._batch)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._batch!r} on {self.device})"


def pinned(values: object) -> torch.Tensor:
    """A page-locked tensor of a tensor, an array or a (densified) sparse matrix.

    Parameters
    ----------
    values
        Copied, but for a tensor that is page-locked already.
    """
    tensor = as_tensor(values)
    if tensor.layout is not torch.sparse_csr:
        return tensor if tensor.is_pinned() else tensor.pin_memory()
    parts = (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    crow, columns, entries = (pinned(part) for part in parts)
    return make_csr(crow, columns, entries, tensor.shape)
