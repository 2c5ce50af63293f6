"""Types of arguments, for type checkers and editors, and the words that some of them may be."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, get_args

import numpy as np

if TYPE_CHECKING:
    from types import EllipsisType

    import anndata
    import pandas as pd
    import torch


class Vocabulary(Protocol):
    """Genes in the order of their numbers, as :class:`cellfeed.data.vocab.GeneVocab` has them."""

    @property
    def genes(self) -> list[str]:
        """Names."""

    @property
    def gene_ids(self) -> np.ndarray:
        """Their numbers."""


Access: TypeAlias = Literal["auto", "map", "pread", "uring", "direct"]
RowAccess: TypeAlias = Literal["auto", "map", "direct"]
Cache: TypeAlias = Literal["files", "blocks", "rows"]
How: TypeAlias = Literal["left", "exact"]
Casting: TypeAlias = Literal["round", "exact", "same_kind"]
Compression: TypeAlias = Literal["none", "gzip"]
DTypeName: TypeAlias = Literal["float32", "float64", "int32", "int64"]
DType: TypeAlias = "DTypeName | np.dtype[Any] | type[np.generic] | type[float] | torch.dtype"
ExtraGenes: TypeAlias = Literal["error", "drop"]
GeneOrder: TypeAlias = Literal["source", "mean"]
GeneSelection: TypeAlias = Literal["all", "most_expressed", "random_expressed"]
HvgFlavor: TypeAlias = Literal["seurat", "cell_ranger", "seurat_v3"]
Join: TypeAlias = Literal["inner", "outer"]
Layout: TypeAlias = Literal["packed", "dense"]
MissingGenes: TypeAlias = Literal["warn", "zero", "error"]
MixedProcessing: TypeAlias = Literal["error", "allow"]
# Labels of cells, and what fixes their codes.
Label: TypeAlias = str | bool | int | float
Labels: TypeAlias = Iterable[Label]
Categories: TypeAlias = Mapping[str, Labels | Mapping[Label, int]]
UnknownLabel: TypeAlias = Label | Mapping[str, Label] | None
Names: TypeAlias = str | Sequence[str]
# Which cells: a number, some in any order, or a mask.
Rows: TypeAlias = "int | slice | Sequence[int] | Sequence[bool] | np.ndarray | pd.Index | pd.Series"
Indices: TypeAlias = "Sequence[int] | Sequence[bool] | np.ndarray | pd.Index"
# Of each cell: its label, None or NaN where it has none.
CellLabels: TypeAlias = "Sequence[Label | None] | np.ndarray | pd.Series | pd.Categorical"
# Which cells: an expression over obs, the values of columns, or as above.
Where: TypeAlias = "str | Mapping[str, Sequence[Label | None] | Label | None] | Rows"
# What stands in ``cells[...]``: rows, or rows and genes.
IndexPart: TypeAlias = "Rows | list[str] | EllipsisType"
Index: TypeAlias = "IndexPart | tuple[IndexPart, IndexPart | str]"
# Genes by name, in the order of the columns.
Genes: TypeAlias = "str | Iterable[str] | np.ndarray | pd.Index | Vocabulary"
# Cells in files or in memory.
Data: TypeAlias = "Path | anndata.AnnData | Iterable[Path | anndata.AnnData]"
Output: TypeAlias = Literal["csr", "dense"]
LoaderOutput: TypeAlias = Literal["csr", "dense", "tokens"]
Path: TypeAlias = str | os.PathLike[str]
Partition: TypeAlias = Literal["auto", "interleave", "group"]
Remainder: TypeAlias = Literal["pad", "drop", "error"]
Verify: TypeAlias = Literal["always", "never"]

CACHES = get_args(Cache)
HOW = get_args(How)
ACCESS, CASTINGS, COMPRESSIONS = get_args(Access), get_args(Casting), get_args(Compression)
ROW_ACCESS = get_args(RowAccess)
DTYPES, GENE_ORDERS, JOINS = get_args(DTypeName), get_args(GeneOrder), get_args(Join)
GENE_SELECTIONS, LAYOUTS, MISSING_GENES = (
    get_args(GeneSelection), get_args(Layout), get_args(MissingGenes),
)  # fmt: skip
LOADER_OUTPUTS, MIXED_PROCESSING = get_args(LoaderOutput), get_args(MixedProcessing)
OUTPUTS, PARTITIONS, REMAINDERS = get_args(Output), get_args(Partition), get_args(Remainder)
VERIFY, HVG_FLAVORS = get_args(Verify), get_args(HvgFlavor)
EXTRA_GENES = get_args(ExtraGenes)


class ShardingOptions(TypedDict, total=False):
    """Arguments of ``convert_to_shards`` that decide what is written."""

    layout: Layout
    gene_order: GeneOrder
    shuffle: bool
    seed: int
    obs: Sequence[str] | str | None
    exclude_obs: Sequence[str] | str | None
    resume: bool
    overwrite: bool


class ProcessingOptions(TypedDict, total=False):
    """Arguments of ``preprocess`` that decide what is written to shards."""

    normalize: bool
    target_sum: float
    log_transform: bool
    n_top_genes: int | None
    hvg_flavor: HvgFlavor
    batch_key: str | None
    min_genes: int
    min_cells: int
    max_mito_share: float
    mito_prefix: str
    keep_counts: bool
    force: bool
    obs: Sequence[str] | str | None
    exclude_obs: Sequence[str] | str | None
    shard_size: int
    resume: bool
    overwrite: bool
