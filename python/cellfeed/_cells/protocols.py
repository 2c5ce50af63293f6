"""What modules below the collection know of one: types, so that none of them imports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .._core import Collection, ObsColumn
from .._options import Label
from .matrices import Matrices
from .open_options import OpenOptions

# A collection that a function makes another of: it gives back what it got.
AnyCells: TypeAlias = Any


class Origin(Protocol):
    """Where a collection comes from."""

    @property
    def options(self) -> OpenOptions:
        """What it was opened with."""

    @property
    def paths(self) -> list[str]:
        """The files; none for what is in memory."""

    @property
    def steps(self) -> list[str]:
        """What was chosen of what was opened, in words; none where it is all of it."""

    def reduce(self, cells: Cells) -> tuple[object, ...]:
        """What pickle makes a copy of the collection by."""


class Cells(Protocol):
    """A collection: all that is known without reading counts."""

    _core: Collection
    _names: Any  # Names
    _matrices: Matrices
    default_obs: list[str]

    @property
    def _origin(self) -> Origin: ...

    def __len__(self) -> int: ...

    @property
    def fingerprint(self) -> int: ...

    @property
    def n_vars(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def var_names(self) -> Any: ...

    @property
    def gene_mask(self) -> npt.NDArray[np.bool_]: ...

    @property
    def files(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def encoders(self) -> Mapping[str, Mapping[Label, int]]: ...

    def gene_aliases(self, column: str) -> dict[str, str]: ...

    def obs_keys(self) -> list[str]: ...

    def obs_column(self, name: str) -> ObsColumn: ...

    def obs_values(self, name: str, rows: Any = None) -> np.ndarray: ...

    def categories(self, name: str) -> list[Label]: ...

    def locate(self, rows: Any = None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...

    def _readable_obs(self) -> list[str]: ...

    def _all_rows(self) -> np.ndarray: ...
