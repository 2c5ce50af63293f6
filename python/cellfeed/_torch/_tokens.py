"""Batches of tokens as tensors on one device."""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from ._batch_tensors import BatchTensors
from ._pinned import adopt_tensor


def tokens_to_tensors(batch: Any) -> dict[str, torch.Tensor]:
    """Tensors that share the memory of a batch of tokens, by name; page-locked where that is.

    Parameters
    ----------
    batch
        A :class:`cellfeed.token_batch.TokenBatch`.
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


class TokenTensors(BatchTensors[Any]):
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

    def __init__(self, batch: Any, parts: dict[str, torch.Tensor], *others: Any) -> None:
        super().__init__(batch, parts, *others)
        self.tokens = parts
        self.input_ids = parts["input_ids"]
        self.values = parts["values"]
        self.attention_mask = parts["attention_mask"]
        self.lengths = parts["lengths"]
        self.labels = parts.get("labels")
        self.value_labels = parts.get("value_labels")

    @classmethod
    def of(cls, batch: Any) -> TokenTensors:
        """Tensors that share the batch's memory.

        Parameters
        ----------
        batch
            What a loader yielded.
        """
        return cls._with_parts(batch, tokens_to_tensors(batch))

    def __getitem__(self, name: str) -> torch.Tensor:
        self._batch[name]  # names what is not there
        return super().__getitem__(name)
