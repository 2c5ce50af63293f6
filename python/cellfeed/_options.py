"""Types of arguments, for type checkers and editors, and the words that some of them may be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

import numpy as np

if TYPE_CHECKING:
    import torch

    from .tokens import CellTokens, Masking
    from .transforms import Transform

Access: TypeAlias = Literal["auto", "map", "pread", "uring", "direct"]
CacheMode: TypeAlias = Literal["packed"]
Casting: TypeAlias = Literal["round", "exact", "same_kind"]
Compression: TypeAlias = Literal["none", "gzip"]
DTypeName: TypeAlias = Literal["float32", "float64", "int32", "int64"]
DType: TypeAlias = "DTypeName | np.dtype[Any] | type[np.generic] | type[float] | torch.dtype"
GeneOrder: TypeAlias = Literal["source", "mean"]
GeneSelection: TypeAlias = Literal["all", "most_expressed", "random_expressed"]
HvgFlavor: TypeAlias = Literal["seurat", "cell_ranger", "seurat_v3"]
Join: TypeAlias = Literal["inner", "outer"]
Layout: TypeAlias = Literal["packed", "dense"]
MissingGenes: TypeAlias = Literal["warn", "zero", "error"]
Output: TypeAlias = Literal["csr", "dense"]
LoaderOutput: TypeAlias = Literal["csr", "dense", "tokens"]
Path: TypeAlias = "str | os.PathLike[str]"
Partition: TypeAlias = Literal["auto", "interleave", "group"]
Remainder: TypeAlias = Literal["pad", "drop", "error"]
Verify: TypeAlias = Literal["always", "never"]

CACHE_MODES = get_args(CacheMode)
ACCESS, CASTINGS, COMPRESSIONS = get_args(Access), get_args(Casting), get_args(Compression)
DTYPES, GENE_ORDERS, JOINS = get_args(DTypeName), get_args(GeneOrder), get_args(Join)
GENE_SELECTIONS, LAYOUTS, MISSING_GENES = (
    get_args(GeneSelection), get_args(Layout), get_args(MissingGenes),
)  # fmt: skip
LOADER_OUTPUTS = get_args(LoaderOutput)
OUTPUTS, PARTITIONS, REMAINDERS = get_args(Output), get_args(Partition), get_args(Remainder)
VERIFY, HVG_FLAVORS = get_args(Verify), get_args(HvgFlavor)


class ReadOptions(TypedDict, total=False):
    """Arguments of ``cells.read`` that do not change the type of the batch."""

    obs: Sequence[str] | str | None
    dtype: DType
    casting: Casting
    transforms: Sequence[Transform]


class ReaderKeywords(ReadOptions, total=False):
    """What a loader reads with."""

    memory_budget: int | str
    threads: int | None
    pin_memory: bool


class LoaderOptions(ReaderKeywords, total=False):
    """Arguments of a ``Loader`` that do not change the type of its batches."""

    seed: int | None
    epoch: int | None
    rank: int | None
    world_size: int | None
    partition: Partition
    remainder: Remainder
    fetch_factor: int | None
    drop_last: bool
    tune: bool | str
    tokens: CellTokens | None
    masking: Masking | None


class CellOptions(ReaderKeywords, total=False):
    """Arguments of ``scDataset`` that are for a collection of ``cellfeed.open`` only."""

    output: Output


class ShardingOptions(TypedDict, total=False):
    """Arguments of ``convert_to_shards`` that decide what is written."""

    layout: Layout
    layer: str
    layers: Sequence[str] | str | None
    obsm: Sequence[str] | str | None
    genome: str | None
    feature_type: str | None
    gene_order: GeneOrder
    join: Join | None
    missing_genes: MissingGenes
    shuffle: bool
    seed: int
    var_key: Sequence[str] | str | None
    make_unique: bool
    allow_external: Path | None
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
    gene_vocab: Any
    missing_genes: MissingGenes
    layer: str
    genome: str | None
    feature_type: str | None
    join: Join | None
    var_key: Sequence[str] | str | None
    make_unique: bool
    allow_external: Path | None
    shard_size: int
    resume: bool
    overwrite: bool
