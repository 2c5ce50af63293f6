"""What a configuration file says of the data, as arguments of a data module."""

from __future__ import annotations

import math
from typing import Any

from .._torch import can_pin
from ..config import Config
from ..errors import InvalidArgumentError, UnsupportedError
from ..samplers import WeightedCellSampler
from ..storage import keep_copies
from ..strategies import Streaming
from ..vocab import GeneVocab


def arguments_of(config: Config, *, selects_genes: bool = False) -> dict[str, Any]:
    """``data``, ``batch_size``, ``genes``, ``strategy`` and the like; not what is done to values.

    Parameters
    ----------
    config
        What is read.
    selects_genes
        Tokens follow, which select genes of each batch.

    Raises
    ------
    InvalidArgumentError
        It names no data, or asks for two orders at once.
    UnsupportedError
        It asks for what batches of whole cells cannot do.
    """
    _refuse_what_is_not_done(config, selects_genes)
    data = config.data
    paths = data.shards.shard_dir if data.shards.enabled else data.paths
    if paths is None:
        raise InvalidArgumentError(f"{config.path} names no data: give data.paths, or data.shards")
    cache = _cache(config, paths)  # before anything reads the files
    arguments: dict[str, Any] = {
        "data": paths,
        "batch_size": config.training.batch_size,
        "pin_memory": config.training.pin_memory and can_pin(),
        "genes": _genes(config, paths),
        "seed": config.training.seed,
        "whole_shards": bool(data.shards.enabled),
        **cache,
        **_parts(config),
        **_order(config),
    }
    label_key = config.training.label_key
    if label_key is not None:
        arguments["obs"] = list(dict.fromkeys([label_key, *arguments.get("obs", [])]))
    return {name: value for name, value in arguments.items() if value is not None}


def _cache(config: Config, paths: str | list[str]) -> dict[str, Any]:
    cloud = config.data.cloud
    if cloud.cache == "rows":
        return {"cache": "rows", "cache_dir": cloud.cache_dir}
    if cloud.cache_dir is not None:
        keep_copies(
            [paths] if isinstance(paths, str) else paths, cloud.cache_dir, cloud.cache_bytes,
            cloud.cache,
        )  # fmt: skip
    return {}


def _parts(config: Config) -> dict[str, Any]:
    split = config.data.split
    if split.column is not None:
        return {"split": split.column}
    shares = {"train": 1.0 - split.val - split.test, "val": split.val, "test": split.test}
    return {
        "split": {name: share for name, share in shares.items() if share > 0},
        "by": split.by,
        "split_seed": split.seed,
    }


def _refuse_what_is_not_done(config: Config, selects_genes: bool) -> None:
    if config.data.gene_selection.strategy != "all" and not selects_genes:
        raise UnsupportedError(
            f"{config.path}: data.gene_selection chooses genes of each batch, which is for tokens, "
            "and CellDataModule gives matrices: `cellfeed train` trains a transformer_encoder on "
            "them, and ShardedCellDataset with a GeneSelectionCollator gives them to your own model"
        )


def _genes(config: Config, paths: str | list[str]) -> GeneVocab | None:
    vocab = config.data.vocab
    if vocab.path is not None:
        return GeneVocab.from_file(vocab.path)
    return None if vocab.n_genes is None else GeneVocab.from_adata(paths, n_genes=vocab.n_genes)


def _order(config: Config) -> dict[str, Any]:
    sampling, data = config.training.sampling, config.data
    if sampling.strategy == "weighted":
        warmup = sampling.curriculum_warmup_epochs
        draws = WeightedCellSampler(label_key=sampling.label_key, curriculum_warmup_epochs=warmup)
        return {"strategy": draws, "obs": [sampling.label_key]}
    if not data.streaming:
        return {}
    return {
        "strategy": Streaming(shuffle_buffer=data.streaming_shuffle_buffer),
        "fetch_factor": math.ceil(data.streaming_chunk_size / config.training.batch_size),
    }
