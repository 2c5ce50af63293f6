"""What batches of cells have in common, whatever became of their expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ._arguments import as_text, suggestion
from ._batch_matrices import BatchMatrices
from ._batch_source import AnyBlock, BatchSource, Columns, as_csr
from ._cells.lazy_obs import as_pandas
from ._cells.tables import table_of
from ._extras import pd, scipy
from ._lazy import cached_property
from ._on_device import MovesToDevice, Tensors
from .errors import NoSuchKeyError

if TYPE_CHECKING:
    from ._options import Label

# What an obs column is: an array, or a tensor.
Values = TypeVar("Values", covariant=True)


class ObsColumns(Protocol[Values]):
    """What has the obs columns of some cells."""

    def obs(self, place: int) -> Values:
        """Values of one obs column."""


class CellArrays(ObsColumns[np.ndarray], Protocol):
    """What a batch of the core, or of arrays that Python owns, has of its cells."""

    @property
    def n_rows(self) -> int:
        """Cells."""

    @property
    def rows(self) -> np.ndarray:
        """Global row numbers."""

    @property
    def is_padding(self) -> np.ndarray | None:
        """Marks of cells that only fill up a batch; None where there are none."""

    def matrix(self, number: int) -> AnyBlock:
        """One matrix."""


class BatchObs(Generic[Values]):
    """obs columns of a batch by name.

    ``obs["cell_type"]`` is int64 codes for a categorical (-1 = missing), numbers otherwise (NaN =
    missing); :meth:`labels` gives the labels behind the codes. It is read as a ``dict`` is, and
    any Arrow library takes it.
    """

    # No Mapping: polars would take the codes of one.

    def __init__(self, core: ObsColumns[Values], columns: Columns) -> None:
        self._core = core
        self._columns = columns
        self._places = {name: i for i, name in enumerate(columns)}

    def __getitem__(self, name: str) -> Values:
        try:
            return self._core.obs(self._places[as_text("name", name)])
        except KeyError:
            raise NoSuchKeyError(
                f"this batch was loaded without obs column {name!r}, pass obs=[...] to the loader"
                f"{suggestion(name, self._columns)}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def keys(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    def values(self) -> list[Values]:
        """What the columns hold."""
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Values]]:
        """Names, and what the columns hold."""
        return [(name, self[name]) for name in self]

    def get(self, name: str, default: Any = None) -> Values | Any:
        """What a column holds, or the default where it was not loaded."""
        return self[name] if name in self else default  # noqa: SIM401

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def __repr__(self) -> str:
        return f"BatchObs({', '.join(self._columns) or 'empty'})"

    def categories(self, name: str) -> list[Label]:
        """Labels of the codes 0, 1, ... of a categorical column: text, numbers or booleans.

        Raises
        ------
        NoSuchKeyError
            The column holds numbers, which need no codes: ``obs[name]`` has them.
        """
        self[name]
        column = self._columns[name]
        if not column.is_categorical:
            raise NoSuchKeyError(
                f"obs column {name!r} holds {column.dtype}, not labels, so it has no categories; "
                f"its values are obs[{name!r}]"
            )
        return list(column.categories)

    def labels(self, name: str) -> npt.NDArray[np.object_]:
        """Labels of a categorical column as an object array; ``None`` where missing.

        Raises
        ------
        NoSuchKeyError
            The column holds numbers: ``obs[name]`` has them.
        """
        names = np.array([*self.categories(name), None], dtype=object)
        return np.asarray(names[_as_numpy(self[name])])

    def to_pandas(self) -> pd.DataFrame:
        """A data frame; categoricals stay categorical."""
        return pd.DataFrame({name: self.column(name) for name in self})

    def column(self, name: str) -> pd.Categorical | np.ndarray:
        """One column as pandas has it: a ``Categorical``, or an array of numbers."""
        return as_pandas(_as_numpy(self[name]), self._columns[name])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """For any Arrow library: ``pyarrow.table(batch.obs)``, ``polars.DataFrame(batch.obs)``.

        Categoricals are dictionaries; missing codes, and NaN, are null.
        """
        return table_of(self.to_pandas(), index=None).__arrow_c_stream__(requested_schema)


def _as_numpy(values: object) -> np.ndarray:
    return np.asarray(values.cpu().numpy() if hasattr(values, "cpu") else values)


class BatchOfCells(MovesToDevice[Tensors]):
    """obs values of some cells, and where they came from; base of :class:`Batch`."""

    _core: CellArrays

    def __init__(self, core: CellArrays, source: BatchSource) -> None:
        self._core = core
        self._source = source

    def __len__(self) -> int:
        return self._core.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and columns."""
        raise NotImplementedError

    @cached_property
    def index(self) -> npt.NDArray[np.int64]:
        """Global row numbers, int64."""
        return self._core.rows

    @cached_property
    def is_padding(self) -> npt.NDArray[np.bool_]:
        """True where a cell only fills up the batch, so that all ranks have batches of one size."""
        padding = self._core.is_padding
        return np.zeros(len(self), dtype=bool) if padding is None else padding

    @cached_property
    def obs(self) -> BatchObs[np.ndarray]:
        """Obs columns by name."""
        return BatchObs(self._core, self._source.columns)

    # Not kept: they hold the batch, whose memory is to go with it.
    @property
    def layers(self) -> BatchMatrices[scipy.sparse.csr_matrix | np.ndarray]:
        """Further matrices by gene, by name: ``batch.layers["spliced"]``."""
        return BatchMatrices(self._source, self._matrix, of_obsm=False)

    @property
    def obsm(self) -> BatchMatrices[np.ndarray]:
        """Arrays of ``obsm`` by name, (cells, columns): ``batch.obsm["X_pca"]``."""
        return BatchMatrices(self._source, self._matrix, of_obsm=True)

    def _matrix(self, number: int) -> scipy.sparse.csr_matrix | np.ndarray:
        if number not in self._others:
            block: AnyBlock = self._core.matrix(number)
            self._others[number] = as_csr(block) if block.is_sparse else block.values
        return self._others[number]

    @cached_property
    def _others(self) -> dict[int, scipy.sparse.csr_matrix | np.ndarray]:
        return {}

    @cached_property
    def obs_names(self) -> npt.NDArray[np.object_]:
        """Names of the cells, an object array of ``str``.

        Read from the files when first asked for. The names of each file that the batch has cells
        of then stay in memory, some 100 bytes a cell.
        """
        return self._source.names.obs_names(self.index)

    @cached_property
    def _files(self) -> np.ndarray:
        known = getattr(self._core, "files", None)
        return self._source.names.files_of(self.index) if known is None else known
