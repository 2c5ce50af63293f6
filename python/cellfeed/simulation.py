"""Large atlases made of real cells: :func:`simulate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _core
from ._arguments import as_bool, as_int, as_path, as_text
from ._cells.genes import report_left_out
from ._conversion_arguments import cells_to_write, compression_text, resources
from ._options import Compression, Data, Path
from ._progress import Progress
from .collection import CellCollection
from .errors import InvalidArgumentError


@dataclass(frozen=True)
class SimulationResult:
    """What :func:`simulate` wrote: ``cf.open(result.files)``; of one file ``cf.open(result)``.

    Attributes
    ----------
    files
        What was written.
    n_cells, n_genes, nnz
        Cells, genes and stored values.
    n_real_cells
        Cells that they were drawn from.
    has_counts
        Whether its values are counts, which are thinned as such.
    bytes
        Size of all files.
    seconds, cells_per_second
        Time of this run.
    """

    files: list[str]
    n_cells: int
    n_genes: int
    nnz: int
    n_real_cells: int
    has_counts: bool
    bytes: int
    seconds: float
    cells_per_second: float

    def __fspath__(self) -> str:
        if len(self.files) != 1:
            raise InvalidArgumentError(
                f"{len(self.files)} files were written: give result.files, or one of these"
            )
        return self.files[0]


def simulate(
    cells: Data | CellCollection,
    n_cells: int,
    output: Path,
    *,
    n_files: int = 1,
    seed: int = 0,
    order: str = "random",
    thin: bool = True,
    compression: Compression | None = None,
    threads: int | None = None,
    memory_budget: int | str | None = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> SimulationResult:
    """Make a large ``.h5ad`` of real cells, drawn with replacement and thinned.

    obs column ``source_cell`` says which of ``cells`` a cell comes from.

    Parameters
    ----------
    cells
        The real cells, as for :func:`convert_to_shards`.
    n_cells
        Cells to make.
    output
        The file to write; with several files ``atlas_0.h5ad``, ``atlas_1.h5ad``, ...
    n_files
        Files to write.
    seed
        The same seed gives the same cells, whatever the threads.
    order
        ``"random"``, ``"source"`` (copies side by side), or an obs column (runs of one label).
    thin
        Keep each count with a probability of the cell's own, uniform on (0.7, 1).
    compression
        ``None`` or ``"none"``, and ``"gzip"``.
    threads
        All the machine allows by default.
    memory_budget
        Bytes, 32 MB at least; half of it may hold the real cells. Default: 512 MB, or a quarter of
        what the machine or the control group has left where that is less.
    overwrite
        Replace files that are there.
    progress
        ``True``, ``False``, ``None`` (on a terminal), or a function
        ``f(phase, done, total, rate)``.

    Returns
    -------
    SimulationResult
    """
    given: dict[str, Any] = {
        "n_cells": as_int("n_cells", n_cells, 1),
        "output": as_path("output", output),
        "n_files": as_int("n_files", n_files, 1),
        "seed": as_int("seed", seed, 0, 2**64 - 1),
        "order": as_text("order", order),
        "thin": as_bool("thin", thin),
        "compression": compression_text(compression),
        "overwrite": as_bool("overwrite", overwrite),
    }
    shared = resources(threads, memory_budget, progress)
    with cells_to_write(cells, make_unique=True) as opened:
        made = _core.simulate(opened, **given, **shared)
    report_left_out(made.pop("left_out_text"), stacklevel=2)
    return SimulationResult(**made)
