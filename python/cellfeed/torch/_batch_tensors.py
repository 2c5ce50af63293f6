"""What batches as tensors on one device have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch

from .._arguments import shown
from .._batch_cells import BatchObs, BatchOfCells
from .._batch_matrices import BatchMatrices
from ..errors import InvalidTypeError
from ._tensors import as_tensor, block_to_tensor


class _Columns:
    """obs columns by place, as :class:`BatchObs` asks for them."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self.tensors = tensors

    def obs(self, place: int) -> torch.Tensor:
        return self.tensors[place]


Source = TypeVar("Source", bound=BatchOfCells[Any])


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


class BatchTensors(Generic[Source]):
    """The parts of a batch as tensors on one device; base of what ``batch.to()`` returns.

    Attributes
    ----------
    index
        int64, global row numbers.
    is_padding
        bool, True where a cell only fills up the batch.
    """

    def __init__(
        self, batch: Source, parts: dict[str, torch.Tensor], columns: list[torch.Tensor],
        index: torch.Tensor, is_padding: torch.Tensor, others: list[torch.Tensor],
    ) -> None:  # fmt: skip
        self._batch = batch
        self._parts = parts  # what the batch is named by, first
        self._columns = columns
        self.index = index
        self.is_padding = is_padding
        self._others = others

    @classmethod
    def _with_parts(cls, batch: Source, parts: dict[str, torch.Tensor]) -> Self:
        columns = [as_tensor(values) for values in batch.obs.values()]
        index = torch.from_numpy(np.ascontiguousarray(batch.index))
        padding = torch.from_numpy(np.ascontiguousarray(batch.is_padding))
        numbers = range(1, len(batch._source.matrices.paths) + 1)
        others = [block_to_tensor(batch._core.matrix(number)) for number in numbers]
        return cls(batch, parts, columns, index, padding, others)

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        return type(self)(
            self._batch, {name: change(tensor) for name, tensor in self._parts.items()},
            [change(column) for column in self._columns], change(self.index),
            change(self.is_padding), [change(other) for other in self._others],
        )  # fmt: skip

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
        return self._each(lambda tensor: tensor.to(place, non_blocking=non_blocking))

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
        return self._each(pinned)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return next(iter(self._parts.values())).device

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

    def keys(self) -> list[str]:
        """Names that ``batch[name]`` takes."""
        return self._batch.keys()

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._parts[name] if name in self._parts else self.obs[name]

    def __contains__(self, name: object) -> bool:
        return name in self._batch

    def __len__(self) -> int:
        return len(self._batch)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._batch!r} on {self.device})"

    @property
    def shape(self) -> tuple[int, int]:
        """As of the batch."""
        return self._batch.shape

    @property
    def obs_names(self) -> np.ndarray:
        """Names of the cells; see :attr:`cellfeed.Batch.obs_names`."""
        return self._batch.obs_names


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
    return torch.sparse_csr_tensor(crow, columns, entries, size=tensor.shape)
