"""What a loader of tokens yields: :class:`TokenBatch`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np

from . import _core
from ._arguments import as_row_numbers, refuse_one_row, suggestion
from ._batch_cells import BatchOfCells
from ._batch_source import BatchSource, BlockArrays
from .errors import NoSuchKeyError

if TYPE_CHECKING:
    import torch

    from ._options import Rows
    from ._torch import TokenTensors

# Arrays of a batch; the last two where something is predicted.
TOKEN_ARRAYS = (
    "input_ids", "values", "attention_mask", "lengths", "labels", "value_labels",
)  # fmt: skip


@dataclass(frozen=True)
class TokenArrays:
    """The arrays of a batch of tokens as Python owns them: of pickled batches and parts of them."""

    tokens: Mapping[str, np.ndarray]
    rows: np.ndarray
    is_padding: np.ndarray | None
    columns: list[np.ndarray] = field(default_factory=list)
    files: np.ndarray | None = None
    others: list[BlockArrays] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Cells."""
        return len(self.rows)

    def obs(self, place: int) -> np.ndarray:
        """Values of one obs column."""
        return self.columns[place]

    def matrix(self, number: int) -> BlockArrays:
        """One further matrix; they count from 1."""
        return self.others[number - 1]

    def take(self, rows: np.ndarray) -> TokenArrays:
        """Some rows, copied."""
        return replace(
            self,
            tokens={name: array[rows] for name, array in self.tokens.items()},
            rows=self.rows[rows],
            is_padding=None if self.is_padding is None else self.is_padding[rows],
            columns=[column[rows] for column in self.columns],
            files=None if self.files is None else self.files[rows],
            others=[other.take(rows) for other in self.others],
        )


CoreTokens: TypeAlias = "_core.Batch | TokenArrays"


class TokenBatch(BatchOfCells["TokenTensors"]):
    """Cells as sequences of tokens, their obs values and where they came from.

    Arrays are views of the loader's memory, as those of a :class:`Batch`; ``to_torch()`` has them
    as tensors. L is the length of the longest cell, or ``max_length`` (``pad="max_length"``).

    Attributes
    ----------
    input_ids
        int32 (cells, L): numbers of the vocabulary; 0 where a cell has ended.
    values
        float32 (cells, L): what the tokens class says of them; 0 for padding and class tokens.
    attention_mask
        bool (cells, L): True for tokens, False for padding.
    lengths
        int32 (cells,): tokens of each cell, the class token among them.
    labels
        int64 (cells, L), with masking: number of the gene, or the bin, that is predicted there;
        -100 where nothing is. None without masking, and where continuous values are predicted.
    value_labels
        float32 (cells, L), where values are predicted: the value; NaN where nothing is. Else None.
    obs, index, is_padding
        As of a :class:`Batch`. Nothing is predicted of cells that are padding.
    """

    _core: CoreTokens

    def __init__(self, core: CoreTokens, source: BatchSource) -> None:
        super().__init__(core, source)
        arrays = (
            core.tokens
            if isinstance(core, TokenArrays)
            else {name: getattr(core.tokens, name) for name in TOKEN_ARRAYS}
        )
        self.input_ids: np.ndarray = arrays["input_ids"]
        self.values: np.ndarray = arrays["values"]
        self.attention_mask: np.ndarray = arrays["attention_mask"]
        self.lengths: np.ndarray = arrays["lengths"]
        self.labels: np.ndarray | None = arrays.get("labels")
        self.value_labels: np.ndarray | None = arrays.get("value_labels")

    @property
    def tokens(self) -> dict[str, np.ndarray]:
        """The arrays of tokens by name, those that there are."""
        arrays = {name: getattr(self, name) for name in TOKEN_ARRAYS}
        return {name: array for name, array in arrays.items() if array is not None}

    def __reduce__(self) -> tuple[object, ...]:
        arrays = self._arrays()
        if not self._source.is_found_again:
            arrays = replace(arrays, files=self._files)
        return TokenBatch, (arrays, self._source)

    def _arrays(self) -> TokenArrays:
        core, source = self._core, self._source
        if isinstance(core, TokenArrays):
            return core
        numbers = range(1, len(source.matrices.paths) + 1)
        return TokenArrays(
            self.tokens,
            core.rows,
            core.is_padding,
            [core.obs(i) for i in range(len(source.columns))],
            others=[BlockArrays.of(core.matrix(number)) for number in numbers],
        )

    def keys(self) -> list[str]:
        """Names that ``batch[name]`` takes: of token arrays, then of obs columns."""
        return [*self.tokens, *(name for name in self.obs if name not in self.tokens)]

    @overload
    def __getitem__(self, rows: str) -> np.ndarray: ...

    @overload
    def __getitem__(self, rows: Rows) -> TokenBatch: ...

    def __getitem__(self, rows: str | Rows) -> np.ndarray | TokenBatch:
        """``batch["input_ids"]``, ``batch["cell_type"]``, or some of the cells, copied.

        Parameters
        ----------
        rows
            A token array or an obs column; or a slice, a boolean mask or positions in any order.
        """
        if isinstance(rows, str):
            if rows in self.tokens:
                return self.tokens[rows]
            if rows in TOKEN_ARRAYS:
                raise NoSuchKeyError(f"this batch has no {rows}: pass masking=cf.Masking(...)")
            if rows not in self.obs:
                raise NoSuchKeyError(f"no {rows!r} in this batch{suggestion(rows, self.keys())}")
            return self.obs[rows]
        refuse_one_row(rows)
        positions = as_row_numbers(rows, len(self))
        return TokenBatch(self._arrays().take(positions), self._source)

    def __repr__(self) -> str:
        return f"TokenBatch({len(self):,} cells x {self.shape[1]:,} tokens, {self.obs!r})"

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and tokens of a cell, padding included."""
        return self.input_ids.shape[0], self.input_ids.shape[1]

    def with_padding(self, is_padding: np.ndarray) -> TokenBatch:
        """The same cells with other marks of padding, one bool a cell."""
        return TokenBatch(replace(self._arrays(), is_padding=is_padding), self._source)

    def to_torch(self) -> dict[str, torch.Tensor]:
        """The arrays of tokens as tensors that share their memory, by name.

        Page-locked of a loader with ``pin_memory=True``.
        """
        from ._torch import tokens_to_tensors

        return tokens_to_tensors(self)

    def _tensors(self) -> TokenTensors:
        from ._torch import TokenTensors

        return TokenTensors.of(self)
