"""Single cells of a collection: what the map-style datasets and stores hand out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._arguments import as_int, as_row_numbers, shown
from .._cells.genes import report_missing_genes
from .._options import Data, Label, Rows
from .._reader import Reader, ReaderOptions
from ..batch import Batch
from ..collection import CellCollection
from ..errors import InvalidArgumentError, InvalidTypeError
from ..opening import open
from ..transforms import Transform
from ..vocab import GeneVocab

MISSING_LABEL = "unknown"
# What is done to the values of cells: by the core, or by a function of one cell's.
Preprocessing: TypeAlias = "Transform | Sequence[Transform] | Callable[[np.ndarray], npt.ArrayLike]"


class Cell(dict[str, Any]):
    """The expressed genes of one cell.

    Each key is an attribute too, and ``gene_ids`` is ``gene_indices``.

    Keys
    ----
    expression
        float32 (n,), the non-zero values.
    gene_indices
        int64 (n,), numbers of their genes in the vocabulary.
    n_genes
        n.
    metadata
        obs values by name; a missing label is ``"unknown"``, a missing number NaN.
    """

    n_genes: int
    metadata: dict[str, Label]

    def __getattr__(self, name: str) -> Any:
        try:
            return self["gene_indices" if name == "gene_ids" else name]
        except KeyError:
            raise AttributeError(f"a cell has no {name!r}; it has {', '.join(self)}") from None

    def __repr__(self) -> str:
        return f"Cell({self.get('n_genes', 0):,} genes, metadata {self.get('metadata', {})})"


class CellReader:
    """Cells by row number, with genes numbered by a vocabulary. Picklable; fit for forked workers.

    Parameters
    ----------
    cells
        The collection; opened with the vocabulary's genes where there is a vocabulary.
    gene_vocab
        Numbers of the genes; by default the collection's genes from 4 on.
    obs_keys
        obs columns that come as metadata.
    preprocessing
        Transforms of cellfeed, one or several, or a function of one cell's values.
    """

    def __init__(
        self,
        cells: CellCollection,
        gene_vocab: GeneVocab | None,
        obs_keys: Sequence[str],
        preprocessing: Preprocessing | None,
    ) -> None:
        self.transforms, self._function = _split_preprocessing(preprocessing)
        self.cells = cells
        self.gene_vocab = gene_vocab or GeneVocab.from_genes(cells.var_names)
        self.obs_keys = list(obs_keys)
        self._reader = Reader(cells, ReaderOptions(obs=self.obs_keys, transforms=self.transforms))
        self._reader.check_values(lambda n: np.arange(0, len(cells), max(1, len(cells) // n)))
        # A transform may have selected genes.
        names = self._reader.source.var_names.tolist()
        is_whole = not self.transforms or names == self.gene_vocab.genes
        self._gene_ids = self.gene_vocab.gene_ids if is_whole else self.gene_vocab.encode(names)

    def read(self, rows: Rows) -> list[Cell]:
        """Cells of some rows, in the order asked for, from one read.

        Parameters
        ----------
        rows
            Numbers; negative ones count from the end.
        """
        rows = as_row_numbers(rows, len(self.cells))
        if rows.size == 0:
            return []
        return self.cells_of(self._reader.read(rows))

    def cells_of(self, batch: Batch[Any]) -> list[Cell]:
        """Cells of a batch that was read with the ``transforms`` and ``obs_keys`` of this.

        Parameters
        ----------
        batch
            CSR.
        """
        rows = batch.index
        values, columns, starts = batch.data, batch.indices, batch.indptr
        is_stored = values != 0
        if not is_stored.all():
            starts = np.concatenate([[0], np.cumsum(is_stored)])[starts]
            values, columns = values[is_stored], columns[is_stored]
        ids = self._gene_ids[columns]
        metadata = self._metadata(batch)
        cells = []
        for i in range(len(rows)):
            begin, end = starts[i], starts[i + 1]
            expression = values[begin:end]
            if self._function is not None:
                expression = self._preprocess(self._function, expression, int(rows[i]))
            cells.append(
                Cell(
                    expression=expression,
                    gene_indices=ids[begin:end],
                    n_genes=int(end - begin),
                    metadata=metadata[i],
                )
            )
        return cells

    def read_one(self, row: int) -> Cell:
        """One cell.

        Parameters
        ----------
        row
            Its number; negative ones count from the end.
        """
        return self.read([as_int("row", row, -(2**63))])[0]

    def labels(self, label_key: str) -> np.ndarray:
        """One obs column as text, one per cell; ``"unknown"`` where missing.

        Parameters
        ----------
        label_key
            The column.
        """
        values = self.cells.obs_values(label_key)
        if self.cells.obs_column(label_key).is_categorical:
            names = [str(label) for label in self.cells.categories(label_key)]
            texts = np.array([*names, MISSING_LABEL], dtype=object)
            return np.take(texts, values)
        return np.array(
            [MISSING_LABEL if v != v else str(v) for v in values.tolist()], dtype=object
        )

    def _metadata(self, batch: Batch[Any]) -> list[dict[str, Label]]:
        columns = {}
        for key in self.obs_keys:
            values = batch.obs[key]
            column = self.cells.obs_column(key)
            if column.is_categorical:
                values = np.array([*column.categories, MISSING_LABEL], dtype=object)[values]
            columns[key] = values.tolist()
        return [{key: values[i] for key, values in columns.items()} for i in range(len(batch))]

    def _preprocess(
        self, function: Callable[[np.ndarray], npt.ArrayLike], expression: np.ndarray, row: int
    ) -> np.ndarray:
        result = np.asarray(function(expression.copy()), dtype=np.float32)
        if result.shape != expression.shape:
            raise InvalidArgumentError(
                f"preprocessing must keep the number of values: it made {result.shape} of "
                f"{expression.shape} for cell {row}"
            )
        return result


class ReadsCells:
    """Base of stores and data sets of cells: what they read, with which genes and obs."""

    _reader: CellReader

    @property
    def collection(self) -> CellCollection:
        """The collection behind it, for a :class:`~cellfeed.Loader`."""
        return self._reader.cells

    @property
    def gene_vocab(self) -> GeneVocab:
        """The vocabulary that numbers the genes."""
        return self._reader.gene_vocab

    @property
    def obs_keys(self) -> list[str]:
        """Obs columns that come as metadata with each cell."""
        return list(self._reader.obs_keys)


def _split_preprocessing(
    preprocessing: Preprocessing | None,
) -> tuple[tuple[Transform, ...], Callable[[np.ndarray], npt.ArrayLike] | None]:
    if preprocessing is None:
        return (), None
    if isinstance(preprocessing, Transform):
        return (preprocessing,), None
    if callable(preprocessing):
        return (), preprocessing
    if not isinstance(preprocessing, (list, tuple)):
        raise InvalidTypeError(
            f"preprocessing must be a transform, a list of them or a function, not "
            f"{shown(preprocessing)}"
        )
    return tuple(preprocessing), None


def open_with_vocab(paths: Data, gene_vocab: GeneVocab | None, **options: Any) -> CellCollection:
    """Open files with the genes of a vocabulary as the axis, where there is one.

    A cell lists the genes that it has, so genes of the vocabulary that no file has never occur, and
    none of them reads as 0; a file without any gene of the vocabulary gives empty cells, and is
    warned of.

    Parameters
    ----------
    paths, options
        As for :func:`cellfeed.open`.
    gene_vocab
        The vocabulary; the files' own genes where it is None.
    """
    cells = open(paths, genes=gene_vocab, missing_genes="zero", **options)
    without = [cells.files[s]["path"] for s in cells._core.stores_without_genes]
    if without:
        report_missing_genes(
            f"{len(without)} of {len(cells.files)} files have no gene of the vocabulary, and give "
            f"empty cells: {', '.join(map(repr, dict.fromkeys(without[:5])))}",
            "warn",
            stacklevel=3,
        )
    return cells
