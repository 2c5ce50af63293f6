"""Shards: files packed once, so that a random cell is one small read (docs/format/shard.md)."""

from __future__ import annotations

import os
from typing import Any

from .._options import Data, Genes
from ..collection import CellCollection
from ..conversion import ShardingResult
from ..conversion import convert_to_shards as _convert_to_shards
from ..opening import open as _open
from ..verification import validate_shard_dir

__all__ = ["ShardingResult", "convert_to_shards", "validate_shard_dir"]


def convert_to_shards(
    adata_path: Data | CellCollection,
    output_dir: str | os.PathLike[str],
    gene_vocab: Genes | None = None,
    shard_size: int = 100_000,
    **options: Any,
) -> ShardingResult:
    """:func:`cellfeed.convert_to_shards` by the arguments that its specification names.

    Parameters
    ----------
    adata_path
        Files, or cells of :func:`cellfeed.open`.
    output_dir, shard_size
        As for :func:`cellfeed.convert_to_shards`.
    gene_vocab
        The gene axis of the files: a :class:`~cellfeed.data.vocab.GeneVocab` or names.
    **options
        As for :func:`cellfeed.convert_to_shards`.

    Returns
    -------
    ShardingResult
    """
    cells = adata_path if gene_vocab is None else _open(adata_path, genes=gene_vocab)
    return _convert_to_shards(cells, output_dir, shard_size, **options)
