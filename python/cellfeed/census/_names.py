"""Which matrix the name of a Census layer means, and what must be so of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._arguments import as_names, as_text, suggestion
from .._cells.matrices import layer_key, obsm_key
from ..errors import InvalidArgumentError, NoSuchKeyError

if TYPE_CHECKING:
    import scipy.sparse

    from .._cells.protocols import Cells


class MatrixNames:
    """Of the matrices that some cells were opened with.

    Parameters
    ----------
    cells
        A collection. ``"raw"`` is the matrix that it was opened with as ``layer=``, X by default,
        if that has counts; any other name is that of an open matrix.
    """

    def __init__(self, cells: Cells) -> None:
        layer = cells._origin.options.layer
        self._main = "raw" if isinstance(layer, list) else layer and layer_key(layer)
        self._layers = dict(cells._matrices.layers)
        self._obsm = dict(cells._matrices.obsm)

    def key_of(self, name: str) -> str | None:
        """Its key among ``layers`` of a batch, or None for ``x`` itself."""
        name = as_text("X_name", name)
        if self._main is None:
            raise NoSuchKeyError(
                f"no matrix {name!r}: the cells were opened with layer=None, as obs alone"
            )
        means_main = name == "raw" and name not in self._layers
        if means_main and self._main != "raw/X" and "raw/X" in self._layers:
            raise InvalidArgumentError(
                "'raw' is raw/X, which has genes of its own beside another matrix: open the files "
                f"with layer='raw/X', or name the other one, X_name={self._main!r}"
            )
        if means_main or name == self._main:
            return None
        if name not in self._layers:
            known = ["raw", self._main, *self._layers]
            raise NoSuchKeyError(
                f"no open matrix is called {name!r}: name it as layers=[{name!r}] of cellfeed.open"
                f"{suggestion(name, dict.fromkeys(known))}"
            )
        if name == "raw/X":
            raise InvalidArgumentError(
                "raw/X has genes of its own beside another matrix: open the files with "
                "layer='raw/X'"
            )
        return name if self._layers[name] else None

    def obsm_keys(self, names: Sequence[str]) -> dict[str, str]:
        """Name -> key of the arrays of obsm that were asked for."""
        found = {name: obsm_key(name) for name in as_names("obsm_layers", names)}
        for name, key in found.items():
            if key not in self._obsm:
                raise NoSuchKeyError(
                    f"no open array of obsm is called {name!r}: name it as obsm=[{name!r}] of "
                    f"cellfeed.open{suggestion(name, self._obsm)}"
                )
        return found


def require_counts(x: scipy.sparse.csr_matrix) -> None:
    """Refuse what ``"raw"`` cannot mean: values that are no counts."""
    values = x.data
    wrong = ~np.isfinite(values) | (values < 0) | (values != np.floor(values))
    if wrong.any():
        raise InvalidArgumentError(
            f"X_name='raw' asks for counts, and the matrix holds {values[wrong][0]}: open the "
            "files with layer='raw/X' or the layer that has the counts, or say which matrix is "
            "meant, such as X_name='X'"
        )
