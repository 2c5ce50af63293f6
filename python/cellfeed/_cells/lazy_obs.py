"""obs of some cells, as pandas has it: a column is read when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from .._arguments import as_names, as_row_numbers, shown
from .._extras import pd
from .._row_order import mask_index_of, require_order
from ..errors import InvalidTypeError
from .indexing import are_names
from .tables import table_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from .._batch_source import Column
    from .._options import Label
    from .protocols import Cells


def as_pandas(values: np.ndarray, column: Column) -> pd.Categorical | np.ndarray:
    """Values of an obs column as pandas has them: a ``Categorical`` of codes, or the numbers.

    Parameters
    ----------
    values
        Codes, or numbers.
    column
        Says which, and has the categories.
    """
    if not column.is_categorical:
        return values
    return pd.Categorical.from_codes(values, column.categories, ordered=column.ordered)


class LazyObs:
    """What ``view.obs`` is: columns are pandas' ``Series``, and ``df`` is all of them.

    ``obs["cell_type"]`` reads one column, and ``obs[["cell_type", "donor"]]`` two. Anything else
    that a ``DataFrame`` has (``loc``, ``groupby``, ``value_counts``, ...) is asked of ``df``, which
    reads all columns. Label columns are categorical, with the categories of all cells of the
    collection. Read only: change a copy, ``obs.df``.
    """

    __slots__ = ("_cells", "_columns", "_index")
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._columns: dict[str, pd.Series] = {}
        self._index: pd.Index[str] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return LazyObs, (self._cells,)

    def keys(self) -> list[str]:
        """Names of the columns."""
        return list(self._cells.obs_keys())

    @property
    def columns(self) -> pd.Index[str]:
        """Names of the columns."""
        return pd.Index(self.keys())

    @property
    def index(self) -> pd.Index[str]:
        """Names of the cells."""
        if self._index is None:
            cells = self._cells
            self._index = pd.Index(cells._names.obs_names(cells._all_rows()))
        return self._index

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and columns."""
        return len(self._cells), len(self.keys())

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.keys()

    @overload
    def __getitem__(self, key: str) -> pd.Series: ...

    @overload
    def __getitem__(self, key: Sequence[str] | slice | np.ndarray) -> pd.DataFrame: ...

    def __getitem__(
        self, key: str | Sequence[str] | slice | np.ndarray
    ) -> pd.Series | pd.DataFrame:
        if isinstance(key, str):
            return self._column(key).copy()
        if isinstance(key, slice) or str(getattr(key, "dtype", "")) == "bool":
            require_order(
                "the mask", mask_index_of(key), len(self), lambda: self.index, "obs.index"
            )
            return self.df.iloc[as_row_numbers(key, len(self))]
        if are_names(key):
            return self._frame(as_names("columns", list(key)))
        raise InvalidTypeError(
            f"obs takes the name of a column, a list of names, a mask or a slice, not {shown(key)}"
        )

    def _column(self, name: str) -> pd.Series:
        if name not in self._columns:
            values = as_pandas(self._cells.obs_values(name), self._cells.obs_column(name))
            self._columns[name] = pd.Series(values, index=self.index, name=name)
        return self._columns[name]

    def _frame(self, names: Iterable[str]) -> pd.DataFrame:
        return pd.DataFrame({name: self._column(name) for name in names}, index=self.index)

    @property
    def df(self) -> pd.DataFrame:
        """All columns, as a frame of its own; a warning names those that are not readable."""
        return self._frame(self._cells._readable_obs())

    def to_pandas(self) -> pd.DataFrame:
        """As ``df``."""
        return self.df

    def to_dict(
        self, keys: Iterable[str] | None = None, *, use_convert: bool = True
    ) -> dict[str, pd.Series]:
        """Column -> Series, as of an AnnCollection.

        Parameters
        ----------
        keys
            Names of columns; all by default.
        use_convert
            Nothing is converted, so that it changes nothing.
        """
        del use_convert
        names = self.keys() if keys is None else as_names("keys", keys)
        return {name: self[name] for name in names}

    def categories(self, name: str) -> list[Label]:
        """Labels of the codes 0, 1, ... of a label column."""
        return list(self._cells.categories(name))

    def labels(self, name: str) -> np.ndarray:
        """Labels of a label column as an object array; ``None`` where missing."""
        labels: np.ndarray = np.array([*self.categories(name), None], dtype=object)
        found: np.ndarray = labels[self._cells.obs_values(name)]
        return found

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All columns for any Arrow library: ``pyarrow.table(cells.obs)``."""
        return table_of(self.df, index=None).__arrow_c_stream__(requested_schema)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        # pandas.DataFrame(obs) would ask for this too, and have no names.
        raise InvalidTypeError("obs reads a column at a time: write obs.df for a DataFrame")

    def __eq__(self, other: object) -> pd.DataFrame:
        return self.df == other

    def __ne__(self, other: object) -> pd.DataFrame:
        return self.df != other

    def __setitem__(self, key: object, value: object) -> None:
        raise InvalidTypeError("obs is read only here: change a copy, obs.df")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self:
            return self[name]
        return getattr(self.df, name)

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()

    def __repr__(self) -> str:
        return f"obs of {len(self):,} cells with columns: {', '.join(self.keys()) or 'none'}"
