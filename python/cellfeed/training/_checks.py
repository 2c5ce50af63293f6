"""What is looked at before the first step, so that a run does not end in the middle for it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._options import Label
from .._reader import Reader, ReaderOptions
from ..collection import CellCollection
from ..errors import InvalidArgumentError, InvalidTypeError
from ..transforms import Transform
from ..vocab import GeneVocab
from ._specification import Specification

if TYPE_CHECKING:
    import scipy.sparse

# Cells whose values are looked at: some thousand, spread over all.
_CELLS_LOOKED_AT = 2048
# Of a vocabulary; a list of genes of the same species shares far more with any file.
_LEAST_SHARE_OF_GENES = 0.2


def require_cells(cells: CellCollection) -> None:
    """There must be something to train on or to compute.

    Raises
    ------
    InvalidArgumentError
        The files hold no cell.
    """
    if len(cells) == 0:
        paths = [file["path"] for file in cells.files]
        raise InvalidArgumentError(
            f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}: has no cells"
        )


def require_enough_cells(train: CellCollection, world_size: int) -> None:
    """Every rank needs a cell of its own.

    Raises
    ------
    InvalidArgumentError
        There are fewer cells than ranks.
    """
    if len(train) < world_size:
        raise InvalidArgumentError(
            f"there are {len(train):,} cells to train on, and {world_size} devices to share them: "
            "use fewer devices"
        )


def classes_of(train: CellCollection, label_key: str) -> list[Label]:
    """Labels of a column in the order of their codes.

    Raises
    ------
    NoSuchKeyError
        There is no such column.
    InvalidTypeError
        It holds no labels.
    InvalidArgumentError
        Cells to train on have fewer than two of them.
    """
    if not train.obs_column(label_key).is_categorical:
        raise InvalidTypeError(
            f"training.label_key: obs column {label_key!r} holds numbers or booleans, not labels; "
            "a classifier needs a column of categories or text: "
            f"adata.obs[{label_key!r}].astype('category') makes one"
        )
    codes = train.obs_values(label_key)
    classes = list(train.categories(label_key))
    there = np.unique(codes[codes >= 0])
    if len(there) < 2:
        names = ", ".join(repr(classes[code]) for code in there) or "none"
        raise InvalidArgumentError(
            f"training.label_key: cells to train on have one label at most in obs column "
            f"{label_key!r} ({names}): there is nothing to tell apart"
        )
    return classes


def require_labelled(parts: Mapping[str, CellCollection], label_key: str) -> None:
    """A part without labels would have scores that say nothing.

    Raises
    ------
    InvalidArgumentError
        No cell of a part has a label.
    """
    for name, cells in parts.items():
        if not (cells.obs_values(label_key) >= 0).any():
            raise InvalidArgumentError(
                f"training.label_key: none of the {len(cells):,} cells of the part {name!r} has a "
                f"label in obs column {label_key!r}, so that nothing can be said of it: divide the "
                "cells otherwise (data.split), or give them labels"
            )


def warn_of_unseen_labels(parts: Mapping[str, CellCollection], label_key: str) -> None:
    """Labels that no training cell has are never learned; a warning names them.

    Parameters
    ----------
    parts
        Name -> cells, of ``"train"`` and others.
    label_key
        The obs column.
    """
    train = parts["train"]
    learned = np.unique(train.obs_values(label_key))
    names = train.categories(label_key)
    for name, cells in parts.items():
        codes = cells.obs_values(label_key)
        unseen = np.setdiff1d(codes[codes >= 0], learned)
        if not len(unseen):
            continue
        shown = ", ".join(repr(names[code]) for code in unseen[:5])
        warnings.warn(
            f"training.label_key: no training cell has the label {shown}"
            f"{', ...' if len(unseen) > 5 else ''} of obs column {label_key!r}, which "
            f"{int(np.isin(codes, unseen).sum()):,} cells of the part {name!r} have: the model "
            "never says it, and they count as wrong; divide the cells otherwise (data.split)",
            UserWarning,
            stacklevel=4,
        )


def require_same_species(cells: CellCollection, vocab: GeneVocab) -> None:
    """Most of a vocabulary should be in the files.

    Raises
    ------
    InvalidArgumentError
        Hardly any of its genes is.
    """
    absent = set(cells.missing_genes) | (set(vocab.genes) - set(cells.var_names))
    n_genes, missing = len(vocab.genes), [gene for gene in vocab.genes if gene in absent]
    if n_genes - len(missing) < _LEAST_SHARE_OF_GENES * n_genes:
        raise InvalidArgumentError(
            f"of the {n_genes:,} genes of the vocabulary only {n_genes - len(missing):,} are in "
            f"the files; missing are {', '.join(missing[:3])}, ...: is it of another species, or "
            "of other names for genes?"
        )


def kind_of_values(cells: CellCollection) -> str:
    """``"counts"`` where all values are whole, else ``"fractions"``; some thousand cells are read.

    Parameters
    ----------
    cells
        What is looked at.

    Raises
    ------
    InvalidArgumentError
        A value is NaN or infinite.
    """
    rows = some_rows(cells)
    x = cells.read(rows, obs=(), dtype="float64").x
    values: np.ndarray = x.data
    is_bad = ~np.isfinite(values)
    if is_bad.any():
        at = int(np.argmax(is_bad))
        raise InvalidArgumentError(
            f"X holds {values[at]:g}, which no model learns from: {_place(cells, rows, x, at)} "
            f"({int(is_bad.sum()):,} such values in {len(rows):,} cells looked at); mend the file"
        )
    return "counts" if bool((values == np.floor(values)).all()) else "fractions"


def some_rows(cells: CellCollection) -> np.ndarray:
    """Some thousand rows, spread over all, increasing.

    Parameters
    ----------
    cells
        Some of which are looked at.
    """
    return np.unique(np.linspace(0, len(cells) - 1, _CELLS_LOOKED_AT).astype(np.int64))


def _place(cells: CellCollection, rows: np.ndarray, x: scipy.sparse.csr_matrix, at: int) -> str:
    """Where the at-th of some values is, for messages: file, cell in it, gene."""
    row = rows[np.searchsorted(x.indptr, at, side="right") - 1]
    store, cell = (int(part[0]) for part in cells._core.locate(np.array([row])))
    path, gene = cells.files[store]["path"], cells.var_names[x.indices[at]]
    return f"cell {cell} of {path}, gene {gene!r}"


def require_counts(cells: CellCollection, transforms: Sequence[Transform]) -> None:
    """Refuse what a loader with these transforms refuses, as far as some thousand cells tell.

    Raises
    ------
    InvalidArgumentError
        There are negative values or fractions where counts are expected.
    """
    reader = Reader(cells, ReaderOptions(obs=(), transforms=transforms))
    reader.check_values(lambda _: some_rows(cells))


def require_values_as_trained(
    cells: CellCollection, specification: Specification, is_processed: bool
) -> None:
    """A model that has learned from counts says nothing of logarithms, nor the other way round.

    Raises
    ------
    InvalidArgumentError
        The files hold values of another kind than those trained on.
    """
    now = kind_of_values(cells)
    if is_processed:
        return
    require_counts(cells, specification.processing().transforms())
    if specification.values not in (None, now):
        raise InvalidArgumentError(
            f"the model was trained on {specification.values}, and these cells hold {now}: give it "
            "values that were made the same way, or force it"
        )
