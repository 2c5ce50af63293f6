"""Which dtype holds what files store, and as which it is read."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .._options import DTypeName

# Reading makes these of the dtypes that files have.
_READ_AS: dict[str, DTypeName] = {
    "uint32": "int64", "uint64": "int64", "int64": "int64",
    "float16": "float32", "float32": "float32", "float64": "float64",
}  # fmt: skip


def common_dtype(stored: Iterable[str]) -> tuple[str, DTypeName]:
    """The dtype that numpy finds for all that is stored, and the one to read it as.

    Parameters
    ----------
    stored
        Names of dtypes.
    """
    common = np.result_type(*(np.dtype(name) for name in set(stored))).name
    return common, _READ_AS.get(common, "int32")
