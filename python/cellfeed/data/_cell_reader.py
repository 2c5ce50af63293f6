"""Single cells of a collection: what the map-style datasets and stores hand out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._collection import CellCollection, as_row_numbers
from .._loader import Loader
from .._strategies import Streaming
from .._transforms import Transform
from ..errors import InvalidArgumentError, InvalidTypeError
from .vocab import GeneVocab

MISSING_LABEL = "unknown"


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
        preprocessing: Any,
    ) -> None:
        if gene_vocab is not None:
            _require_common_genes(cells, gene_vocab)
        transforms, self._function = _split_preprocessing(preprocessing)
        self.cells = cells
        self.gene_vocab = gene_vocab or GeneVocab.from_genes(cells.var_names)
        self.obs_keys = list(obs_keys)
        self._loader = Loader(
            cells, Streaming(), batch_size=1, transforms=transforms, obs=self.obs_keys,
            casting="same_kind", rank=0, world_size=1,
        )  # fmt: skip
        # A transform may have selected genes.
        names = self._loader.gene_names
        is_whole = not transforms or names == self.gene_vocab.genes
        self._gene_ids = self.gene_vocab.gene_ids if is_whole else self.gene_vocab.encode(names)

    def read(self, rows: Any) -> list[Cell]:
        """Cells of some rows, in the order asked for, from one read.

        Parameters
        ----------
        rows
            Numbers; negative ones count from the end.
        """
        rows = as_row_numbers(rows, len(self.cells))
        if rows.size == 0:
            return []
        batch = self._loader.read_rows(rows)
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
                expression = self._preprocess(expression, int(rows[i]))
            cells.append(
                Cell(
                    expression=expression,
                    gene_indices=ids[begin:end],
                    n_genes=int(end - begin),
                    metadata=metadata[i],
                )
            )
        return cells

    def read_one(self, row: Any) -> Cell:
        """One cell.

        Parameters
        ----------
        row
            Its number; negative ones count from the end.
        """
        if not hasattr(row, "__index__"):
            raise InvalidTypeError(f"a cell is named by its number: {row!r}")
        return self.read([row.__index__()])[0]

    def labels(self, key: str) -> np.ndarray:
        """One obs column as text, one per cell; ``"unknown"`` where missing.

        Parameters
        ----------
        key
            The column.
        """
        values = self.cells.obs_values(key)
        if self.cells.obs_column(key).is_categorical:
            return np.array([*self.cells.categories(key), MISSING_LABEL], dtype=object)[values]
        return np.array(
            [MISSING_LABEL if v != v else str(v) for v in values.tolist()], dtype=object
        )

    def _metadata(self, batch: Any) -> list[dict[str, Any]]:
        columns = {}
        for key in self.obs_keys:
            values = batch.obs[key]
            column = self.cells.obs_column(key)
            if column.is_categorical:
                values = np.array([*column.categories, MISSING_LABEL], dtype=object)[values]
            columns[key] = values.tolist()
        return [{key: values[i] for key, values in columns.items()} for i in range(len(batch))]

    def _preprocess(self, expression: np.ndarray, row: int) -> np.ndarray:
        result = np.asarray(self._function(expression.copy()), dtype=np.float32)
        if result.shape != expression.shape:
            raise InvalidArgumentError(
                f"preprocessing must keep the number of values: it made {result.shape} of "
                f"{expression.shape} for cell {row}"
            )
        return result


def _split_preprocessing(preprocessing: Any) -> tuple[tuple[Any, ...], Callable[..., Any] | None]:
    if preprocessing is None:
        return (), None
    if isinstance(preprocessing, Transform):
        return (preprocessing,), None
    if callable(preprocessing):
        return (), preprocessing
    return tuple(preprocessing), None


def _require_common_genes(cells: CellCollection, gene_vocab: GeneVocab) -> None:
    core = cells._core
    if not any(gene in gene_vocab for s in range(core.n_stores) for gene in core.store_genes(s)):
        example = ", ".join(core.store_genes(0)[:3]) if core.n_stores else "none"
        raise InvalidArgumentError(
            f"the data and the vocabulary have no gene in common: data: {example}, ...; "
            f"vocabulary: {', '.join(gene_vocab.genes[:3])}, ...; are both symbols, or both ids?"
        )
