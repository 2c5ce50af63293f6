"""Batches of tokens as tensors on one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .. import _core
from .._batch_cells import BatchObs
from .._batch_matrices import BatchMatrices
from ..token_batch import TokenBatch
from ._batches import Columns, pinned
from ._pinned import adopt_tensor
from ._tensors import as_tensor, block_to_tensor


def tokens_to_tensors(batch: TokenBatch) -> dict[str, torch.Tensor]:
    """Tensors that share the memory of a batch of tokens, by name; page-locked where that is.

    Parameters
    ----------
    batch
        What a loader yielded.
    """
    tokens = batch._core.tokens
    owner = tokens.pinned_memory() if isinstance(tokens, _core.Tokens) else None
    if owner is None:
        return {name: torch.from_numpy(array) for name, array in batch.tokens.items()}
    assert isinstance(tokens, _core.Tokens)
    memory, offsets = adopt_tensor(owner, tokens.memory), tokens.offsets
    tensors = {}
    for name, array in batch.tokens.items():
        part = memory[offsets[name] : offsets[name] + array.nbytes]
        tensors[name] = part.view(getattr(torch, array.dtype.name)).view(array.shape)
    return tensors


class TokenTensors:
    """What :meth:`cellfeed.TokenBatch.to` returns: the parts of a batch as tensors on one device.

    Attributes
    ----------
    input_ids, values, attention_mask, lengths, labels, value_labels
        As of the :class:`cellfeed.TokenBatch`; the last two are None where it has none.
    index
        int64, global row numbers.
    is_padding
        bool, True where a cell only fills up the batch.
    """

    def __init__(
        self, batch: TokenBatch, tokens: dict[str, torch.Tensor], columns: list[torch.Tensor],
        index: torch.Tensor, is_padding: torch.Tensor, others: list[torch.Tensor],
    ) -> None:  # fmt: skip
        self._batch = batch
        self._columns = columns
        self._others = others
        self.tokens = tokens
        self.input_ids = tokens["input_ids"]
        self.values = tokens["values"]
        self.attention_mask = tokens["attention_mask"]
        self.lengths = tokens["lengths"]
        self.labels = tokens.get("labels")
        self.value_labels = tokens.get("value_labels")
        self.index = index
        self.is_padding = is_padding

    @classmethod
    def of(cls, batch: TokenBatch) -> TokenTensors:
        """Tensors that share the batch's memory.

        Parameters
        ----------
        batch
            What a loader yielded.
        """
        columns = [as_tensor(values) for values in batch.obs.values()]
        index = torch.from_numpy(np.ascontiguousarray(batch.index))
        padding = torch.from_numpy(np.ascontiguousarray(batch.is_padding))
        numbers = range(1, len(batch._source.matrices.paths) + 1)
        others = [block_to_tensor(batch._core.matrix(number)) for number in numbers]
        return cls(batch, tokens_to_tensors(batch), columns, index, padding, others)

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> TokenTensors:
        return TokenTensors(
            self._batch, {name: change(tensor) for name, tensor in self.tokens.items()},
            [change(column) for column in self._columns], change(self.index),
            change(self.is_padding), [change(other) for other in self._others],
        )  # fmt: skip

    def to(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> TokenTensors:
        """Move every tensor to a device; to where they are by default.

        Parameters
        ----------
        device
            Where to.
        non_blocking
            Do not wait for copies out of page-locked memory.
        """
        if device is None:
            return self
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def cuda(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> TokenTensors:
        """Move to a GPU, the current one by default."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def cpu(self) -> TokenTensors:
        """Move to the CPU's memory."""
        return self.to("cpu")

    def pin_memory(self) -> TokenTensors:
        """Page-lock every tensor; what is page-locked already is not copied."""
        return self._each(pinned)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.input_ids.device

    @property
    def obs(self) -> BatchObs:
        """Obs columns by name, as tensors."""
        columns: Any = Columns(self._columns)
        return BatchObs(columns, self._batch._source.columns)

    @property
    def layers(self) -> BatchMatrices:
        """Further matrices by gene, as tensors."""
        return BatchMatrices(self._batch._source, self._matrix, of_obsm=False)

    @property
    def obsm(self) -> BatchMatrices:
        """Arrays of ``obsm``, as tensors."""
        return BatchMatrices(self._batch._source, self._matrix, of_obsm=True)

    def _matrix(self, number: int) -> torch.Tensor:
        return self._others[number - 1]

    def keys(self) -> list[str]:
        """Names that ``batch[name]`` takes: of token arrays, then of obs columns."""
        return self._batch.keys()

    def __getitem__(self, name: str) -> torch.Tensor:
        if name in self.tokens:
            return self.tokens[name]
        self._batch[name]  # names what is not there
        column: Any = self.obs[name]
        tensor: torch.Tensor = column
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._batch

    def __len__(self) -> int:
        return len(self._batch)

    def __repr__(self) -> str:
        return f"TokenTensors({self._batch!r} on {self.device})"

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and tokens of a cell, padding included."""
        return self._batch.shape

    @property
    def obs_names(self) -> np.ndarray:
        """Names of the cells; see :attr:`cellfeed.Batch.obs_names`."""
        return self._batch.obs_names
