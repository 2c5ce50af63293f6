"""Row numbers as runs of neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Runs:
    """Rows in any order; memory grows with the runs."""

    firsts: np.ndarray
    lengths: np.ndarray

    @staticmethod
    def of(rows: np.ndarray) -> Runs:
        """Of at least one row."""
        begins = np.concatenate([[0], np.flatnonzero(np.diff(rows) != 1) + 1])
        return Runs(rows[begins], np.diff(begins, append=len(rows)))

    def rows(self) -> np.ndarray:
        """The rows again."""
        begins = np.cumsum(self.lengths) - self.lengths
        places = np.arange(int(self.lengths.sum()))
        return np.asarray(places + np.repeat(self.firsts - begins, self.lengths))
