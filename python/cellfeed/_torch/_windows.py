"""Windows of series that were copied out together, as tensors of that batch: no second copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from .._lazy import cached_property
from ._on_device import TensorsOnDevice


class SeriesTensors(TensorsOnDevice):
    """What :meth:`cellfeed.series.SeriesBatch.to` returns: windows as tensors on one device.

    Attributes
    ----------
    x, y, future, static
        As of the batch; the last two are None where it has none.
    index
        int64, numbers of the windows.
    is_padding
        bool, True where a window only fills up the batch.
    """

    def __init__(self, batch: Any, parts: dict[str, torch.Tensor]) -> None:
        self._batch = batch
        self._parts = parts
        self.x, self.y = parts["x"], parts["y"]
        self.future, self.static = parts.get("future"), parts.get("static")

    @classmethod
    def of(cls, batch: Any) -> SeriesTensors:
        """Tensors that share the batch's memory.

        Parameters
        ----------
        batch
            What a loader yielded.
        """
        return cls(batch, {name: torch.from_numpy(part) for name, part in batch.parts.items()})

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        return type(self)(self._batch, {n: change(part) for n, part in self._parts.items()})

    @cached_property
    def obs(self) -> dict[str, torch.Tensor]:
        """As of the batch, brought to the device when it is asked for.

        Times are int64, in nanoseconds since 1970 where they are dates; static texts are int64
        codes, their places in ``ds.categories``, -1 where there is none.
        """
        numbers = self._batch.obs_numbers()
        return {name: self._brought(each) for name, each in numbers.items()}

    def __getitem__(self, name: str) -> torch.Tensor:
        if name in self._parts:
            return self._parts[name]
        self._batch.require_key(name)
        return self.obs[name]


def register_windows(kind: type) -> None:
    """Let torch's default collation take a list of these pairs as the batch they were copied as."""
    default_collate_fn_map.setdefault(kind, _collate_windows)


def _collate_windows(pairs: list[Any], *, collate_fn_map: Any = None) -> Any:
    whole = pairs[0].batch
    if whole is not None and len(pairs) == len(whole[1]) and _are_in_order(pairs):
        return list(whole)
    return collate([tuple(pair) for pair in pairs], collate_fn_map=collate_fn_map)


def _are_in_order(pairs: list[Any]) -> bool:
    return all(pair.batch is pairs[0].batch and pair.place == i for i, pair in enumerate(pairs))


def as_tensors(
    x: np.ndarray | dict[str, np.ndarray], y: np.ndarray
) -> tuple[torch.Tensor | dict[str, torch.Tensor], torch.Tensor]:
    """Tensors that share the memory of arrays; of a dict of arrays, a dict."""
    if isinstance(x, dict):
        return {name: torch.from_numpy(part) for name, part in x.items()}, torch.from_numpy(y)
    return torch.from_numpy(x), torch.from_numpy(y)
