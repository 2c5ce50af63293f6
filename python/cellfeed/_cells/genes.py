"""Lists of genes that users hand in, and what is said of genes that the data lacks."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._arguments import as_text, refuse_unordered, shown
from ..errors import (
    InvalidArgumentError,
    InvalidTypeError,
    LeftOutWarning,
    MissingGenesWarning,
    NoSuchKeyError,
)

if TYPE_CHECKING:
    from .protocols import Cells


def gene_list(genes: object, name: str = "genes") -> list[str]:
    """Names in the wanted order: of a str (one gene), a list, an array, a GeneVocab, a generator.

    Parameters
    ----------
    genes
        What the user gave.
    name
        The argument, for messages.

    Raises
    ------
    InvalidTypeError
        For a set or the keys of a dict, whose order means nothing, and for names that are not
        ``str``.
    InvalidArgumentError
        For no names, and for a name that is there twice.
    """
    if isinstance(genes, str):
        return [as_text(name, genes)]
    refuse_unordered(genes, name, "genes")
    genes = getattr(genes, "genes", genes)
    if isinstance(genes, bytes) or not isinstance(genes, Iterable):
        raise InvalidTypeError(f"{name} must be a list of gene names, not {shown(genes)}")
    names = list(genes)
    for gene in names:
        if not isinstance(gene, str):
            raise InvalidTypeError(f"{name} must hold gene names, each a str, not {shown(gene)}")
    if not names:
        raise InvalidArgumentError(f"{name} is empty: name at least one gene, or leave it out")
    seen: set[str] = set()
    for gene in names:
        if gene in seen:
            raise InvalidArgumentError(f"{name} has gene {gene!r} twice; each gene is one column")
        seen.add(gene)
    return [as_text(f"each of {name}", gene) for gene in names]


def known_names(
    genes: list[str], cells: Cells, columns: list[str], keys: Sequence[str]
) -> list[str]:
    """Genes by the names that files have, where other names were given; unknown ones as they are.

    Parameters
    ----------
    genes
        Of :func:`gene_list`.
    cells
        A collection of all genes of the files.
    columns
        Of var, with other names of the genes.
    keys
        The ``var_key`` that the files were opened with.

    Raises
    ------
    NoSuchKeyError
        No file has a column.
    InvalidArgumentError
        A name is of several genes, or two names are of one; or it is the name of a gene in one
        file and the other name of a gene in another.
    """
    own = set(cells.var_names)
    names_of: dict[str, dict[str, list[str]]] = {}  # alias -> name -> columns
    for column in columns:
        for name, alias in cells.gene_aliases(column).items():
            names_of.setdefault(alias, {}).setdefault(name, []).append(column)
    asked: dict[str, str] = {}
    for gene in genes:
        if gene in own:
            others = {name: of for name, of in names_of.get(gene, {}).items() if name != gene}
            _refuse_hidden(gene, others, cells, keys)
        found = {gene} if gene in own else set(names_of.get(gene, {gene: []}))
        if len(found) > 1:
            raise InvalidArgumentError(
                f"gene {gene!r} is {', '.join(map(repr, sorted(found)))} in the files: ask by name"
            )
        name = next(iter(found))
        if name in asked:
            raise InvalidArgumentError(
                f"{asked[name]!r} and {gene!r} are one gene: ask for it once"
            )
        asked[name] = gene
    return list(asked)


def _refuse_hidden(
    gene: str, others: dict[str, list[str]], cells: Cells, keys: Sequence[str]
) -> None:
    """Refuse a name under which a file has another gene, and none of its own.

    ``others``: name -> the columns in which ``gene`` is its other name.
    """
    if not others:
        return
    places = {name: i for i, name in enumerate(cells.var_names)}
    masks = cells.gene_mask
    # Those that hold this name, whatever other aliases were asked for: these name genes otherwise.
    alike = dict.fromkeys([*itertools.chain(*others.values()), *keys, "_index"])
    for other in sorted(others):
        hidden = np.flatnonzero(masks[:, places[other]] & ~masks[:, places[gene]])
        if hidden.size:
            raise InvalidArgumentError(
                f"gene {gene!r} is a gene's name in some files and another name of {other!r} in "
                f"{cells.files[int(hidden[0])]['path']}, where it would read as 0; name the genes "
                f"of all files alike instead: var_key={list(alike)!r}"
            )


def report_left_out(text: str, stacklevel: int) -> None:
    """Warn of what files hold and is not read though nobody chose that.

    Parameters
    ----------
    text
        What is to be said; nothing is done where it is empty.
    stacklevel
        As for :func:`warnings.warn`.
    """
    if text:
        warnings.warn(text, LeftOutWarning, stacklevel=stacklevel + 1)


def report_missing_genes(text: str, missing_genes: str, stacklevel: int) -> None:
    """Warn of genes that were asked for and are nowhere, or refuse them.

    Parameters
    ----------
    text
        What is to be said; nothing is done where it is empty.
    missing_genes
        ``"warn"``, ``"zero"`` (say nothing) or ``"error"``.
    stacklevel
        As for :func:`warnings.warn`.
    """
    if not text or missing_genes == "zero":
        return
    if missing_genes == "error":
        raise NoSuchKeyError(text)
    warnings.warn(
        f'{text} (what a file lacks reads as 0; missing_genes="zero" is silent, "error" refuses)',
        MissingGenesWarning,
        stacklevel=stacklevel + 1,
    )
