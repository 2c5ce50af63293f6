"""Windows of series that were copied out together, as tensors of that batch: no second copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data._utils.collate import collate, default_collate_fn_map

if TYPE_CHECKING:
    from ..series._dataset import WindowPair


def register_windows(kind: type) -> None:
    """Let torch's default collation take a list of these pairs as the batch they were copied as."""
    default_collate_fn_map.setdefault(kind, _collate_windows)


def _collate_windows(pairs: list[WindowPair], *, collate_fn_map: Any = None) -> Any:
    whole = pairs[0].batch
    if whole is not None and len(pairs) == len(whole[1]) and _are_in_order(pairs):
        return list(whole)
    return collate([tuple(pair) for pair in pairs], collate_fn_map=collate_fn_map)


def _are_in_order(pairs: list[WindowPair]) -> bool:
    return all(pair.batch is pairs[0].batch and pair.place == i for i, pair in enumerate(pairs))


def as_tensors(
    x: np.ndarray | dict[str, np.ndarray], y: np.ndarray
) -> tuple[torch.Tensor | dict[str, torch.Tensor], torch.Tensor]:
    """Tensors that share the memory of arrays; of a dict of arrays, a dict."""
    if isinstance(x, dict):
        return {name: torch.from_numpy(part) for name, part in x.items()}, torch.from_numpy(y)
    return torch.from_numpy(x), torch.from_numpy(y)
