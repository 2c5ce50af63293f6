"""Shards written by several processes: plan them here, write them anywhere, finish them here.

>>> import cellfeed as cf
>>> with cf.cluster.plan_shards("atlas/*.h5ad", "shards") as plan:          # doctest: +SKIP
...     made = cf.cluster.write_with_dask(plan, client)                     # doctest: +SKIP

``write_with_dask`` hands the shards to the workers of a Dask cluster. With any other task runner,
call :func:`write_shards` in its tasks and :func:`finish_shards` with what they return
(docs/many_machines.md).
"""

from __future__ import annotations

from ._dask import write_with_dask
from .conversion import plan_shards
from .preprocessing import plan_preprocess
from .shard_plan import ShardPlan, WrittenShard, finish_shards, write_shards

__all__ = [
    "ShardPlan",
    "WrittenShard",
    "finish_shards",
    "plan_preprocess",
    "plan_shards",
    "write_shards",
    "write_with_dask",
]
