"""Gene vocabularies: which gene a model knows by which number."""

from __future__ import annotations

import itertools
import json
import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from . import _core
from ._arguments import (
    as_choice,
    as_int,
    as_names,
    as_path,
    as_rows,
    as_text,
    refuse_unordered,
    shown,
    suggestion,
)
from ._cells.anndata_arrays import var_of
from ._extras import anndata, pd
from ._json_file import read_json
from ._special_tokens import CLS_ID, FIRST_GENE_ID, MASK_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID
from .collection import CellCollection
from .errors import (
    CorruptDataError,
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
)
from .loader import Loader
from .opening import open as open_cells
from .strategies import Streaming

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

    from .batch import Batch

__all__ = ["CLS_ID", "FIRST_GENE_ID", "MASK_ID", "PAD_ID", "SPECIAL_TOKENS", "UNK_ID", "GeneVocab"]

# Rows of an embedding table: len() of a vocabulary is one more than its largest number.
_MAX_ID = 2**63 - 2

_log = logging.getLogger(__name__)


class GeneVocab:
    """Numbers for genes: 0 padding, 1 unknown, 2 mask, 3 class token, genes from 4.

    Parameters
    ----------
    gene_to_id
        Gene name -> number, 4 or more, each once. Most vocabularies come from :meth:`from_adata`,
        :meth:`from_genes` or :meth:`from_file` instead.

    Attributes
    ----------
    genes
        Names in the order of their numbers. ``cf.open(..., genes=vocab)`` makes them the gene axis.
    gene_ids
        int64, the numbers of ``genes``: 4, 5, ... unless a file said otherwise.
    """

    pad_token_id = PAD_ID
    unk_token_id = UNK_ID
    mask_token_id = MASK_ID
    cls_token_id = CLS_ID

    def __init__(self, gene_to_id: Mapping[str, int]) -> None:
        if not isinstance(gene_to_id, Mapping):
            raise InvalidTypeError(
                f"gene_to_id must be a dict of names and numbers, not {shown(gene_to_id)}"
            )
        items = sorted(
            (
                (
                    as_int(f"the number of gene {shown(gene)}", number, 0, _MAX_ID),
                    as_text("a gene's name", gene),
                )
                for gene, number in gene_to_id.items()
            ),
            key=lambda item: item[0],
        )
        for (number, gene), (following, other) in itertools.pairwise(items):
            if number == following:
                raise InvalidArgumentError(
                    f"genes {gene!r} and {other!r} have one number: {number}"
                )
        if items and items[0][0] < FIRST_GENE_ID:
            raise InvalidArgumentError(
                f"numbers 0 to {FIRST_GENE_ID - 1} are for {', '.join(SPECIAL_TOKENS)}; "
                f"gene {items[0][1]!r} has {items[0][0]}"
            )
        self.genes: list[str] = [gene for _, gene in items]
        self.gene_ids = np.array([number for number, _ in items], dtype=np.int64)
        self._ids = {gene: number for number, gene in items}
        self._names = {number: gene for number, gene in items}
        for number, token in enumerate(SPECIAL_TOKENS):
            if token in self._ids:
                raise InvalidArgumentError(
                    f"a gene cannot be called {token!r}: that is a special token"
                )
            self._names[number] = token

    @classmethod
    def from_genes(cls, genes: Iterable[str]) -> GeneVocab:
        """Make a vocabulary of names, numbered from 4; a repeated name keeps its first place.

        Parameters
        ----------
        genes
            Names.
        """
        if isinstance(genes, str):
            raise InvalidTypeError(f"genes must be a list of names, not one str: {genes!r}")
        refuse_unordered(genes, "genes", "genes")
        names = as_names("genes", genes)
        unique = dict.fromkeys(names)
        if len(unique) < len(names):
            _log.warning("%d repeated gene names keep their first place", len(names) - len(unique))
        return cls({gene: FIRST_GENE_ID + i for i, gene in enumerate(unique)})

    @classmethod
    def from_adata(
        cls,
        adata: anndata.AnnData | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        var_key: str | None = None,
        *,
        n_genes: int | None = None,
        by: str = "detected",
        layer: str = "X",
    ) -> GeneVocab:
        """Make a vocabulary of the genes of a data set, in its own order.

        Parameters
        ----------
        adata
            An ``.h5ad`` file, a glob, a list of files (then the sorted union of their genes), a
            shard directory, or an :class:`anndata.AnnData`.
        var_key
            The var column that holds the names; ``var_names`` by default.
        n_genes
            Keep this many genes only; all when omitted. The data is then read once, in bounded
            memory.
        by
            Which ``n_genes``: ``"detected"`` those that most cells have, ``"dispersion"`` those
            with the largest variance / mean. Ties go to the earlier gene, and the ones kept stay in
            the data's order.
        layer
            The matrix that ``n_genes`` looks at: ``"X"``, ``"raw/X"``, or the name of a layer.
        """
        as_choice("by", by, tuple(_RANKINGS))
        if isinstance(adata, CellCollection):
            cells = adata
        elif hasattr(adata, "var_names"):
            if n_genes is None:
                return cls.from_genes(_names_in(adata, layer, var_key))
            cells = open_cells(adata, layer=layer, make_unique=True)
        else:
            is_list = not isinstance(adata, (str, os.PathLike)) or any(
                c in os.fspath(adata) for c in "*?["
            )
            cells = open_cells(
                adata,
                join="outer" if is_list else None,
                layer=layer,
                make_unique=True,
            )
        names = cells.var_names if var_key is None else _column_of(cells.var, var_key)
        if n_genes is None:
            return cls.from_genes(names)
        return cls.from_genes(names[_top_columns(cells, n_genes, by)])

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> GeneVocab:
        """Read what :meth:`save` wrote: a JSON object of names and numbers, or a list of names.

        Parameters
        ----------
        path
            The file.
        """
        path = as_path("path", path)
        content = read_json(path, "vocabulary")
        if not isinstance(content, (list, dict)):
            raise CorruptDataError(
                f"{path}: a vocabulary is a JSON list of names or an object of names "
                f"and numbers, not a {type(content).__name__}"
            )
        try:
            return cls(content) if isinstance(content, dict) else cls.from_genes(content)
        except (InvalidArgumentError, InvalidTypeError) as error:
            raise CorruptDataError(f"{path}: not a vocabulary: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write names and numbers as JSON, without the special tokens; directories are made.

        The file is replaced as a whole or not at all; a link in its place is not followed.

        Parameters
        ----------
        path
            The file to write.
        """
        text = json.dumps(self._ids, indent=2, ensure_ascii=False)
        _core.write_file(as_path("path", path), text.encode())

    def encode(self, genes: Iterable[str]) -> np.ndarray:
        """Numbers (int64) of names; 1 for those that are not in the vocabulary.

        Parameters
        ----------
        genes
            Names.
        """
        if isinstance(genes, str):
            raise InvalidTypeError(f"encode takes a list of names, not one str: {genes!r}")
        names = as_names("genes", genes)
        return np.array([self._ids.get(name, UNK_ID) for name in names], dtype=np.int64)

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Names of numbers; ``<pad>`` and the like for special ones, ``<unk>`` for unknown ones.

        Parameters
        ----------
        ids
            Numbers.
        """
        numbers = as_rows("ids", ids)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise InvalidTypeError(f"ids must be a list of integers, not {shown(ids)}")
        return [self._names.get(number, SPECIAL_TOKENS[UNK_ID]) for number in numbers.tolist()]

    def get_alignment_indices(self, genes: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Positions in ``genes`` that are in the vocabulary, and their numbers.

        Parameters
        ----------
        genes
            Names of the data set, in its order.

        Raises
        ------
        NoSuchKeyError
            The vocabulary has none of them.
        """
        names = as_names("genes", genes)
        ids = self.encode(names)
        positions = np.flatnonzero(ids != UNK_ID)
        if names and not positions.size:
            why = _core.explain_missing_genes(self.genes, names)
            raise NoSuchKeyError(
                f"the data has none of the {len(self.genes):,} genes of the vocabulary: data: "
                f"{', '.join(names[:3])}, ...; vocabulary: {', '.join(self.genes[:3])}, ..."
                + (f"; {why}" if why else "")
            )
        return positions, ids[positions]

    def __len__(self) -> int:
        # Rows of an embedding table: numbers may have gaps.
        return max(int(self.gene_ids.max(initial=0)) + 1, FIRST_GENE_ID)

    def __contains__(self, gene: object) -> bool:
        return gene in self._ids

    @staticmethod
    def check(gene_vocab: object) -> None:
        """Refuse what is neither a vocabulary nor None.

        Parameters
        ----------
        gene_vocab
            The argument of that name.
        """
        if gene_vocab is not None and not isinstance(gene_vocab, GeneVocab):
            raise InvalidTypeError(
                f"gene_vocab must be a GeneVocab, not {shown(gene_vocab)}; make one of names with "
                "GeneVocab.from_genes"
            )

    def __getitem__(self, gene: str) -> int:
        try:
            return self._ids[gene]
        except KeyError:
            raise NoSuchKeyError(
                f"gene {gene!r} is not in this vocabulary of {len(self._ids):,}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.genes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GeneVocab) and self._ids == other._ids

    def __hash__(self) -> int:
        return hash(tuple(self._ids.items()))

    def __repr__(self) -> str:
        shown = ", ".join(self.genes[:3]) + (", ..." if len(self.genes) > 3 else "")
        return f"GeneVocab({len(self.genes):,} genes: {shown})"


def _names_in(adata: anndata.AnnData, layer: str, key: str | None) -> Iterable[str]:
    """As those of the file that it would be written to."""
    var = var_of(adata, layer)
    if key is not None:
        return _column_of(var, key)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Suffix used")
        names: Iterable[str] = anndata.utils.make_index_unique(var.index)
    return names


def _column_of(var: pd.DataFrame, key: str) -> np.ndarray:
    if as_text("var_key", key) not in var:
        raise NoSuchKeyError(f"no var column {key!r}{suggestion(key, list(var.columns))}")
    is_missing = var[key].isna()
    if is_missing.any():
        gene = var.index[is_missing.argmax()]
        raise InvalidArgumentError(f"var column {key!r} has no value for the gene {gene!r}")
    return np.asarray(var[key].astype(object))


def _top_columns(cells: CellCollection, n_genes: int, by: str) -> np.ndarray:
    n_genes = as_int("n_genes", n_genes, 1)
    if n_genes >= cells.n_vars:
        return np.arange(cells.n_vars)
    return np.sort(np.argsort(-_RANKINGS[by](cells), kind="stable")[:n_genes])


def _batches(cells: CellCollection) -> Iterator[Batch[csr_matrix]]:
    return iter(
        Loader(cells, Streaming(), batch_size=1024, dtype="float64", rank=0, world_size=1, obs=())
    )


def _detection(cells: CellCollection) -> np.ndarray:
    counts = np.zeros(cells.n_vars, dtype=np.int64)
    for batch in _batches(cells):
        counts += np.bincount(batch.indices[batch.data != 0], minlength=cells.n_vars)
    return counts


def _dispersion(cells: CellCollection) -> np.ndarray:
    total, squares = np.zeros(cells.n_vars), np.zeros(cells.n_vars)
    for batch in _batches(cells):
        total += np.bincount(batch.indices, weights=batch.data, minlength=cells.n_vars)
        squares += np.bincount(batch.indices, weights=batch.data**2, minlength=cells.n_vars)
    mean = total / len(cells)
    variance = squares / len(cells) - mean**2
    return np.divide(variance, mean, out=np.zeros_like(mean), where=mean > 0)


# Name -> score of each column; larger is better.
_RANKINGS = {"detected": _detection, "dispersion": _dispersion}
