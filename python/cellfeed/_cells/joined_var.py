"""The columns of var of several files as one table, a row for each gene of the axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .. import _core
from .._extras import pd
from .labels import EXACT_IN_FLOAT64
from .tables import pandas_of

# Of files that are read together: their tables are in memory at once.
FILES_AT_ONCE = 32


def var_tables(core: _core.Collection) -> Iterator[_core.Table]:
    """The table of genes of each file, in their order; those of remote files are read together.

    Parameters
    ----------
    core
        Of files.
    """
    for begin in range(0, core.n_stores, FILES_AT_ONCE):
        files = range(begin, min(begin + FILES_AT_ONCE, core.n_stores))
        yield from core.read_var(list(files))


def join_var(core: _core.Collection) -> pd.DataFrame:
    """Of every gene each column's value in the first file that has both.

    Numbers are float64, and NaN where missing, but whole ones beyond 2^53, which are pandas'
    nullable integers then. Booleans are pandas' nullable ones where some are missing.

    Parameters
    ----------
    core
        Of files; the index is its gene axis.
    """
    n = core.n_genes
    columns: dict[str, _Column] = {}
    last = None
    for file, table in enumerate(var_tables(core)):
        places = core.gene_map(file)
        places = np.arange(n) if places is None else places
        # Shards of one directory have one table.
        if last is not None and np.array_equal(places, last[1]) and table.equals(last[0]):
            continue
        last = table, places
        values = {column.name: column for column in table.columns}
        if core.var_keys and "var_names" not in values:
            values = {"var_names": values["_index"], **values}
        for name, column in values.items():
            columns.setdefault(name, _Column(np.zeros(n, dtype=bool))).add(column, places)
    frame = {name: column.joined() for name, column in columns.items() if name != "_index"}
    index = pd.Index(np.array(core.gene_names, dtype=object))
    return pd.DataFrame({name: values.set_axis(index) for name, values in frame.items()}, index)


@dataclass
class _Column:
    """Values of one column, and which genes have one."""

    is_known: np.ndarray
    parts: list[pd.Series] = field(default_factory=list)

    def add(self, values: _core.TableColumn, places: np.ndarray) -> None:
        """Those of genes that have none so far; a place below 0 is of no gene."""
        is_new = places >= 0
        is_new[is_new] = ~self.is_known[places[is_new]]
        if not is_new.any():
            return
        self.is_known[places[is_new]] = True
        self.parts.append(_nullable(values)[is_new].set_axis(places[is_new]))

    def joined(self) -> pd.Series:
        """A value for each gene."""
        n = len(self.is_known)
        if not self.parts:
            return pd.Series(np.full(n, np.nan))
        values = pd.concat(self.parts)
        if not self._are_held_by(values):
            values = pd.concat([part.astype(object) for part in self.parts])
        return _plain(values.reindex(range(n)))

    def _are_held_by(self, joined: pd.Series) -> bool:
        """Whether what pandas makes of values of several types is still what the files hold."""
        if len({_kind(part) for part in self.parts} - {"whole", "fraction"}) == 0:
            return _kind(joined) == "whole" or all(map(_is_exact, self.parts))
        return len({_kind(part) for part in self.parts}) == 1


def _nullable(column: _core.TableColumn) -> pd.Series:
    """As pandas has them; whole numbers and booleans nullable, so that none is changed."""
    if column.type == "null":
        return pd.Series(np.full(len(column), np.nan))
    if column.is_categorical or column.values.dtype.kind not in "biu":
        return pd.Series(pandas_of(column))
    is_missing = (
        np.zeros(len(column), dtype=bool) if column.is_missing is None else column.is_missing
    )
    array = pd.arrays.BooleanArray if column.type == "bool" else pd.arrays.IntegerArray
    return pd.Series(array(column.values, is_missing))


def _kind(values: pd.Series) -> str:
    if isinstance(values.dtype, pd.BooleanDtype):
        return "boolean"
    if pd.api.types.is_integer_dtype(values.dtype):
        return "whole"
    return "fraction" if pd.api.types.is_float_dtype(values.dtype) else "other"


def _is_exact(values: pd.Series) -> bool:
    """Whether float64 holds the numbers."""
    if _kind(values) == "fraction":
        return True
    known = values.dropna()
    return known.empty or bool(known.min() >= -EXACT_IN_FLOAT64 and known.max() <= EXACT_IN_FLOAT64)


def _plain(values: pd.Series) -> pd.Series:
    """Without pandas' nullable types, where numpy's hold the same."""
    kind = _kind(values)
    if kind in ("whole", "boolean") and not values.hasnans:
        return values.astype(values.dtype.numpy_dtype)
    is_nullable = not isinstance(values.dtype, np.dtype)
    if is_nullable and kind in ("whole", "fraction") and _is_exact(values):
        return values.astype(np.float64)
    return values
