"""How an obs column of several files becomes one, written down a second time for tests."""

from __future__ import annotations

import anndata
import numpy as np
import pandas as pd
import scipy.sparse

import cellfeed as cf


def write_file(path, obs: pd.DataFrame, genes=("g1", "g2")) -> str:
    """An .h5ad with these obs columns; the value of cell i at gene j is 10 * i + j + 1."""
    values = np.arange(len(obs))[:, None] * 10 + np.arange(len(genes))[None, :] + 1
    frame = obs.copy()
    frame.index = [str(name) for name in frame.index]
    adata = anndata.AnnData(
        scipy.sparse.csr_matrix(values.astype(np.float32)),
        obs=frame,
        var=pd.DataFrame(index=list(genes)),
    )
    adata.write_h5ad(path)
    return str(path)


def merge_orders(chains: list[list]) -> list | None:
    """One order that keeps every chain, the smallest free label first; None where none does."""
    left = sorted(set().union(*chains))
    before = {label: set() for label in left}
    for chain in chains:
        for i, label in enumerate(chain):
            before[label].update(chain[:i])
    merged = []
    while left:
        free = [label for label in left if before[label] <= set(merged)]
        if not free:
            return None
        merged.append(free[0])
        left.remove(free[0])
    return merged


def united_labels(columns: list[pd.Series | None]) -> tuple[list, bool]:
    """Categories in the order of their codes, and whether they are ordered."""
    there = [column for column in columns if column is not None]
    if any(column.dtype.name != "category" for column in there):
        return sorted(set().union(*(column.dropna() for column in there))), False
    lists = [column.cat.categories.tolist() for column in there]
    lists = [names for names in lists if names]
    if not lists:
        return [], False
    ordered = all(c.cat.ordered for c in there if len(c.cat.categories))
    if all(names == lists[0] for names in lists):
        return lists[0], ordered
    merged = merge_orders(lists) if ordered else None
    return (sorted(set().union(*lists)), False) if merged is None else (merged, True)


def labels_of(cells: cf.CellCollection, name: str) -> list:
    names = np.array([*cells.categories(name), None], dtype=object)
    return names[cells.obs_values(name)].tolist()


def what_is_read(cells: cf.CellCollection, name: str) -> tuple:
    """All that a model sees of a column."""
    column = cells.obs_column(name)
    values = cells.obs_values(name)
    if column.is_categorical:
        names = cells.categories(name)
        return [type(n) for n in names], names, column.ordered, values.tolist()
    return values.dtype.name, [None if v != v else v for v in values.tolist()]
