"""Names of cells and columns of genes: read from the files when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import _core
from .gene_masks import GeneMasks

if TYPE_CHECKING:
    import pandas as pd


class Names:
    """obs names and the var table of one collection.

    Thread-safe: what two threads read at once is read twice, and equal.
    """

    def __init__(self, core: _core.Collection) -> None:
        self._core = core
        self._obs_names: dict[int, np.ndarray] = {}
        self._var: pd.DataFrame | None = None
        self._gene_masks: GeneMasks | None = None

    def files_of(self, rows: np.ndarray) -> np.ndarray:
        """The file of each row, int64."""
        return self._core.locate(rows)[0]

    def gene_masks(self) -> GeneMasks:
        """Which genes each file has."""
        if self._gene_masks is None:
            self._gene_masks = GeneMasks.of(self._core)
        return self._gene_masks

    def obs_names(self, rows: np.ndarray) -> np.ndarray:
        """Names of some cells, an object array of ``str``.

        The names of every file that one of them is in stay in memory from then on.
        """
        files, places_in_file = self._core.locate(rows)
        names = np.empty(len(rows), dtype=object)
        for file in np.unique(files).tolist():
            places = files == file
            names[places] = self._of_file(file)[places_in_file[places]]
        return names

    def _of_file(self, file: int) -> np.ndarray:
        import pyarrow as pa

        if file not in self._obs_names:
            table = pa.table(self._core.read_obs_names(file))
            self._obs_names[file] = table["_index"].to_numpy()
        return self._obs_names[file]

    def var(self) -> pd.DataFrame:
        """The var columns of every gene, each from the first file that has the gene."""
        if self._var is None:
            self._var = _join_var(self._core)
        return self._var


def _join_var(core: _core.Collection) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa

    n = core.n_genes
    is_found = np.zeros(n, dtype=bool)
    parts = []
    for file in range(core.n_stores):
        places = core.gene_map(file)
        places = np.arange(n) if places is None else places
        is_new = places >= 0
        is_new[is_new] = ~is_found[places[is_new]]
        if is_new.any():
            frame = pa.table(core.read_var(file)).to_pandas().drop(columns="_index")
            parts.append(frame[is_new].set_axis(places[is_new]))
            is_found[places[is_new]] = True
        if is_found.all():
            break
    frame = pd.concat(parts) if parts else pd.DataFrame(index=[])
    return frame.reindex(range(n)).set_axis(np.array(core.gene_names, dtype=object))
