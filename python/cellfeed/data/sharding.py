"""Shards: files packed once, so that a random cell is one small read (docs/format/shard.md)."""

from __future__ import annotations

from ..conversion import ShardingResult, convert_to_shards
from ..verification import validate_shard_dir

__all__ = ["ShardingResult", "convert_to_shards", "validate_shard_dir"]
