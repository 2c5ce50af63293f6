"""Names of cells or genes as an array, which needs no pandas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from ..errors import InvalidTypeError, NoSuchAttributeError


class NameArray(np.ndarray):
    """An object array of ``str`` that answers ``isin`` as a ``pandas.Index`` does."""

    @classmethod
    def of(cls, names: Sequence[str] | np.ndarray) -> Self:
        """Of names, in their order."""
        return np.asarray(names, dtype=object).view(cls)

    def isin(self, values: Iterable[str]) -> npt.NDArray[np.bool_]:
        """A mask: which of the names are among some."""
        if isinstance(values, str):
            raise InvalidTypeError(f"values must be a list of names, not {values!r}")
        wanted = set(values)
        return np.array([name in wanted for name in self.tolist()], dtype=bool)

    if not TYPE_CHECKING:  # types are checked by the attributes that there are

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):
                raise AttributeError(name)
            raise NoSuchAttributeError(
                f"names of a collection are an array, which has no {name}: cells[:].obs_names and "
                "cells[:].var_names are each a pandas.Index"
            )
