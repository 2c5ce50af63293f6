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


@dataclass(frozen=True)
class Selected(Chosen):
    """Some cells of another collection."""

    runs: Runs
    step: str

    def _own_steps(self) -> list[str]:
        return [self.step]

    def reduce(self, cells: Cells) -> tuple[object, ...]:
        """What pickle makes a copy of the collection by."""
        return _select_again, (self.cells, self.runs, cells.default_obs, self.step)


@dataclass(frozen=True)
class ObsAdded(Chosen):
    """Another collection with more columns of obs."""

    columns: pd.DataFrame

    def _own_steps(self) -> list[str]:
        return [f"obs of a table: {', '.join(map(str, self.columns))}"]

    def reduce(self, cells: Cells) -> tuple[object, ...]:
        """What pickle makes a copy of the collection by."""
        return _add_obs_again, (self.cells, self.columns, cells.default_obs)


@dataclass(frozen=True)
class GenesChosen(Chosen):
    """Some genes of another collection."""

    genes: np.ndarray

    def _own_steps(self) -> list[str]:
        return [f"{len(self.genes):,} of {self.cells.n_vars:,} genes"]

    def reduce(self, cells: Cells) -> tuple[object, ...]:
        """What pickle makes a copy of the collection by."""
        return _choose_genes_again, (self.cells, self.genes, cells.default_obs)


@dataclass(frozen=True)
class Viewed(Chosen):
    """A view of another collection, of all its cells where there are no runs."""

    runs: Runs | None

    def _own_steps(self) -> list[str]:
        if self.runs is None:
            return []
        return [f"{int(self.runs.lengths.sum()):,} of {len(self.cells):,} cells by number"]

    def reduce(self, cells: Cells) -> tuple[object, ...]:
        """What pickle makes a copy of the view by: what it has read stays behind."""
        return _view_again, (self.cells, self.runs, cells.default_obs)


def _select_again(cells: AnyCells, runs: Runs, obs: list[str], step: str) -> AnyCells:
    selected = cells._select(runs.rows(), step)
    selected.default_obs = obs
    return selected


def _add_obs_again(cells: AnyCells, columns: pd.DataFrame, obs: list[str]) -> AnyCells:
    added = cells._with_columns(columns)
    added.default_obs = obs
    return added


def _choose_genes_again(cells: AnyCells, genes: np.ndarray, obs: list[str]) -> AnyCells:
    chosen = cells._with_genes(genes)
    chosen.default_obs = obs
    return chosen


def _view_again(cells: AnyCells, runs: Runs | None, obs: list[str]) -> AnyCells:
    view = cells._view(None if runs is None else runs.rows())
    view.default_obs = obs
    return view
