"""Types of arguments, for type checkers and editors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import numpy as np

if TYPE_CHECKING:
    import torch

    from ._transforms import Transform

Access: TypeAlias = Literal["auto", "map", "pread", "uring", "direct"]
Casting: TypeAlias = Literal["round", "exact", "same_kind"]
Compression: TypeAlias = Literal["none", "gzip"]
DTypeName: TypeAlias = Literal["float32", "float64", "int32", "int64"]
DType: TypeAlias = "DTypeName | np.dtype[Any] | type[np.generic] | type[float] | torch.dtype"
GeneOrder: TypeAlias = Literal["source", "mean"]
Join: TypeAlias = Literal["inner", "outer"]
Layout: TypeAlias = Literal["packed", "dense"]
Output: TypeAlias = Literal["csr", "dense"]
Partition: TypeAlias = Literal["auto", "interleave", "group"]
Remainder: TypeAlias = Literal["pad", "drop", "error"]
Verify: TypeAlias = Literal["always", "never"]


class LoaderOptions(TypedDict, total=False):
    """Arguments of a ``Loader`` that do not change the type of its batches."""

    dtype: DType
    obs: Sequence[str] | str | None
    transforms: Sequence[Transform]
    seed: int | None
    epoch: int | None
    rank: int | None
    world_size: int | None
    partition: Partition
    remainder: Remainder
    fetch_factor: int | None
    memory_budget: int | str
    threads: int | None
    drop_last: bool
    casting: Casting
    pin_memory: bool
    tune: bool | str


class ReadOptions(TypedDict, total=False):
    """Arguments of ``cells.read`` that do not change the type of the batch."""

    obs: Sequence[str] | str | None
    dtype: DType
    casting: Casting
    transforms: Sequence[Transform]
