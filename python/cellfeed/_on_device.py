"""Batches that go to a device as tensors, of cells and of windows alike; without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

if TYPE_CHECKING:
    import torch


class OnDevice(Protocol):
    """Tensors that move together."""

    def to(self, device: Any = None, *, non_blocking: bool = False) -> Self:
        """Move every tensor to a device."""

    def pin_memory(self) -> Self:
        """Page-locked copies."""


# What a batch is on a device.
Tensors = TypeVar("Tensors", bound=OnDevice)


class MovesToDevice(Generic[Tensors]):
    """A batch with names for its parts, which torch and Lightning move to a device."""

    def keys(self) -> list[str]:
        """Names that ``batch[name]`` takes."""
        raise NotImplementedError

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def _tensors(self) -> Tensors:
        """On the CPU, of the batch's memory."""
        raise NotImplementedError

    def to(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> Tensors:
        """The batch as tensors on a device: all its parts, ``index`` and ``is_padding``.

        Parameters
        ----------
        device
            Where to; the CPU by default, which copies nothing.
        non_blocking
            Do not wait for copies out of page-locked memory, as of :meth:`pin_memory`.
        """
        return self._tensors().to(device, non_blocking=non_blocking)

    def cuda(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> Tensors:
        """As :meth:`to`, on a GPU: the current one by default."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def pin_memory(self) -> Tensors:
        """The batch as page-locked tensors; a ``DataLoader`` with ``pin_memory`` calls this.

        A copy, but for what is page-locked already: ``Loader(pin_memory=True)`` decodes cells into
        such memory.
        """
        return self.to().pin_memory()
