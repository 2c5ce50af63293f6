"""What batches of cells as tensors on one device have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch

from .._batch_cells import BatchObs, BatchOfCells
from .._batch_matrices import BatchMatrices
from ._on_device import TensorsOnDevice
from ._tensors import as_tensor, block_to_tensor


class _Columns:
    """obs columns by place, as :class:`BatchObs` asks for them."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.tensors = tensors

    def obs(self, place: int) -> torch.Tensor:
        return self.tensors[place]


Source = TypeVar("Source", bound=BatchOfCells[Any])


class BatchTensors(TensorsOnDevice, Generic[Source]):
    """The parts of a batch of cells as tensors on one device."""

    _batch: Source

    def __init__(
        self, batch: Source, parts: dict[str, torch.Tensor], columns: list[torch.Tensor],
        others: list[torch.Tensor],
    ) -> None:  # fmt: skip
        self._batch = batch
        self._parts = parts
        self._columns = columns
        self._others = others

    @classmethod
    def _with_parts(cls, batch: Source, parts: dict[str, torch.Tensor]) -> Self:
        columns = [as_tensor(values) for values in batch.obs.values()]
        numbers = range(1, len(batch._source.matrices.paths) + 1)
        others = [block_to_tensor(batch._core.matrix(number)) for number in numbers]
        return cls(batch, parts, columns, others)

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        return type(self)(
            self._batch, {name: change(tensor) for name, tensor in self._parts.items()},
            [change(column) for column in self._columns],
            [change(other) for other in self._others],
        )  # fmt: skip

    @property
    def obs(self) -> BatchObs[torch.Tensor]:
        """Obs columns by name, as tensors."""
        return BatchObs(_Columns(self._columns), self._batch._source.columns)

    @property
    def layers(self) -> BatchMatrices[torch.Tensor]:
        """Further matrices by gene, as tensors."""
        return BatchMatrices(self._batch._source, self._matrix, of_obsm=False)

    @property
    def obsm(self) -> BatchMatrices[torch.Tensor]:
        """Arrays of ``obsm``, as tensors."""
        return BatchMatrices(self._batch._source, self._matrix, of_obsm=True)

    def _matrix(self, number: int) -> torch.Tensor:
        return self._others[number - 1]

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._parts[name] if name in self._parts else self.obs[name]

    @property
    def shape(self) -> tuple[int, int]:
        """As of the batch."""
        return self._batch.shape

    @property
    def obs_names(self) -> np.ndarray:
        """Names of the cells; see :attr:`cellfeed.Batch.obs_names`."""
        return self._batch.obs_names
