"""Matrices of a batch beside ``x``: ``batch.layers`` and ``batch.obsm``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from ._arguments import as_names, as_text, suggestion
from ._batch_source import BatchSource
from ._cells.matrices import layer_key, obsm_key
from .errors import NoSuchKeyError

Matrix = TypeVar("Matrix", covariant=True)


class BatchMatrices(Mapping[str, Matrix]):
    """Matrices of a batch by name, a row a cell, in the order of its cells.

    ``batch.layers["spliced"]`` is as ``batch.x``: sparse of a loader of sparse batches, with the
    same genes (of ``"raw/X"`` its own: :meth:`var_names`). ``batch.obsm["X_pca"]`` is an array.
    """

    def __init__(
        self,
        source: BatchSource,
        make: Callable[[int], Matrix],
        *,
        of_obsm: bool,
    ) -> None:
        self._argument = "obsm" if of_obsm else "layers"
        self._key = obsm_key if of_obsm else layer_key
        self._source = source
        self._numbers = source.matrices.obsm if of_obsm else source.matrices.layers
        self._make = make

    def _number(self, name: str) -> int:
        try:
            return self._numbers[self._key(as_text("name", name))]
        except KeyError:
            raise NoSuchKeyError(
                f"this batch has no {self._argument}[{name!r}], pass {self._argument}=[...] to "
                f"cellfeed.open{suggestion(name, self._numbers) if self._numbers else ''}"
            ) from None

    def __getitem__(self, name: str) -> Matrix:
        return self._make(self._number(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._key(name) in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        return f"{self._argument}: {', '.join(self._numbers) or 'none'}"

    def var_names(self, name: str) -> np.ndarray:
        """Names of the columns of one matrix, an object array; numbers of an array of obsm."""
        return self._source.names_of_columns(self._number(name))

    def to_dict(
        self, keys: Iterable[str] | None = None, *, use_convert: bool = True
    ) -> dict[str, Matrix]:
        """Name -> matrix, as of an AnnCollection.

        Parameters
        ----------
        keys
            Names of matrices; all by default.
        use_convert
            Nothing is converted, so that it changes nothing.
        """
        del use_convert
        return {name: self[name] for name in (self if keys is None else as_names("keys", keys))}
