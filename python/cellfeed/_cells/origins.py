"""Where a collection comes from: how it is named, told from others, and made again elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .open_options import OpenOptions
from .runs import Runs

if TYPE_CHECKING:
    import pandas as pd

    from .protocols import AnyCells, Cells, Origin


@dataclass(frozen=True)
class Chosen:
    """Some cells or genes of another collection."""

    cells: AnyCells

    @property
    def _before(self) -> Origin:
        origin: Origin = self.cells._origin
        return origin

    @property
    def options(self) -> OpenOptions:
        """What the other one was opened with."""
        return self._before.options

    @property
    def paths(self) -> list[str]:
        """Those of the other one."""
        return self._before.paths

    @property
    def steps(self) -> list[str]:
        """Those of the other one, and this."""
        return [*self._before.steps, *self._own_steps()]

    def _own_steps(self) -> list[str]:
        raise NotImplementedError

    def make(self) -> AnyCells:
        """The collection, made again: what it has read stays behind."""
        raise NotImplementedError

    def reduce(self, cells: Cells) -> tuple[object, ...]:
        """What pickle makes a copy of the collection by."""
        return _make_again, (self, cells.default_obs)


@dataclass(frozen=True)
class Selected(Chosen):
    """Some cells of another collection."""

    runs: Runs
    step: str

    def _own_steps(self) -> list[str]:
        return [self.step]

    def make(self) -> AnyCells:
        """The collection, made again."""
        return self.cells._select(self.runs.rows(), self.step)


@dataclass(frozen=True)
class ObsAdded(Chosen):
    """Another collection with more columns of obs."""

    columns: pd.DataFrame

    def _own_steps(self) -> list[str]:
        return [f"obs of a table: {', '.join(map(str, self.columns))}"]

    def make(self) -> AnyCells:
        """The collection, made again."""
        return self.cells._with_columns(self.columns)


@dataclass(frozen=True)
class GenesChosen(Chosen):
    """Some genes of another collection."""

    genes: np.ndarray

    def _own_steps(self) -> list[str]:
        return [f"{len(self.genes):,} of {self.cells.n_vars:,} genes"]

    def make(self) -> AnyCells:
        """The collection, made again."""
        return self.cells._with_genes(self.genes)


@dataclass(frozen=True)
class Viewed(Chosen):
    """A view of another collection, of all its cells where there are no runs."""

    runs: Runs | None

    def _own_steps(self) -> list[str]:
        if self.runs is None:
            return []
        return [f"{int(self.runs.lengths.sum()):,} of {len(self.cells):,} cells by number"]

    def make(self) -> AnyCells:
        """The collection, made again."""
        return self.cells._view(None if self.runs is None else self.runs.rows())


def _make_again(origin: Chosen, obs: list[str]) -> AnyCells:
    cells = origin.make()
    cells.default_obs = obs
    return cells
