"""One window of several that were copied out together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._windows import Inputs

if TYPE_CHECKING:
    import torch


class WindowPair(tuple["Inputs", "torch.Tensor"]):
    """One ``(X, y)`` of a batch that was copied out together."""

    batch: tuple[Inputs, torch.Tensor] | None = None
    place: int = 0


def one_of(x: Inputs, place: int) -> Inputs:
    """The inputs of one window of a batch's."""
    return {name: part[place] for name, part in x.items()} if isinstance(x, dict) else x[place]
