"""Names of cells and columns of genes: read from the files when they are first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import _core
from .._arguments import shown, suggestion
from ..errors import InvalidArgumentError, InvalidTypeError, NoSuchKeyError
from .gene_masks import GeneMasks
from .genes import report_left_out
from .joined_var import FILES_AT_ONCE, join_var, var_tables
from .tables import objects_of

if TYPE_CHECKING:
    import pandas as pd


class Names:
    """obs names and the var table of one collection.

    Thread-safe: what two threads read at once is read twice, and equal.
    """

    def __init__(self, core: _core.Collection, of_all: Names | None = None) -> None:
        self._core = core
        # Genes of a selection are some of these; the files are read once for all of them.
        self._of_all = of_all
        # By file, so that all selections of some files share them.
        self._obs_names: dict[int, np.ndarray] = {} if of_all is None else of_all._obs_names
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
        wanted: list[int] = np.unique(files).tolist()
        self._read_names([file for file in wanted if file not in self._obs_names])
        for file in wanted:
            places = files == file
            names[places] = self._obs_names[file][places_in_file[places]]
        return names

    def _read_names(self, files: list[int]) -> None:
        for begin in range(0, len(files), FILES_AT_ONCE):
            some = files[begin : begin + FILES_AT_ONCE]
            for file, table in zip(some, self._core.read_obs_names(some), strict=True):
                self._obs_names[file] = table["_index"].values

    def var(self) -> pd.DataFrame:
        """The var columns of every gene, each value of the first file that has both."""
        if self._var is None:
            if self._of_all is None:
                report_left_out(self._core.unreadable(True)[1], stacklevel=3)
                self._var = join_var(self._core)
            else:
                genes = self._core.gene_names
                var = self._of_all.var()
                self._var = var if list(var.index) == genes else var.loc[genes]
        return self._var

    def aliases(self, column: str) -> dict[str, str]:
        """Gene -> its value in a var column; see ``cells.gene_aliases``."""
        core = self._core
        genes = core.gene_names
        found: dict[str, tuple[str, int]] = {}
        is_known = False
        last = None
        for file, table in enumerate(var_tables(core)):
            # Shards of one directory have one table.
            if column not in table.column_names or (last is not None and table.equals(last)):
                continue
            last = table
            is_known = True
            places = core.gene_map(file)
            for gene, value in enumerate(objects_of(table[column])):
                place = gene if places is None else int(places[gene])
                if place < 0 or value is None or value == "":
                    continue
                if not isinstance(value, str):
                    raise InvalidTypeError(
                        f"{self._path(file)}: var column {column!r} holds {shown(value)}, not text"
                    )
                name = genes[place]
                other, first = found.setdefault(name, (value, file))
                if other != value:
                    raise InvalidArgumentError(
                        f"gene {name!r} has two values in var column {column!r}: {other!r} in "
                        f"{self._path(first)}, {value!r} in {self._path(file)}"
                    )
        if not is_known:
            columns = [name for f in range(core.n_stores) for name in self._var_columns(f)]
            raise NoSuchKeyError(
                f"no file has var column {column!r}{suggestion(column, dict.fromkeys(columns))}"
            )
        return {name: value for name, (value, _) in found.items()}

    def _path(self, file: int) -> str:
        return str(self._core.store_info(file)["path"])

    def _var_columns(self, file: int) -> list[str]:
        names = self._core.read_var([file])[0].column_names
        return [name for name in names if name != "_index"]
