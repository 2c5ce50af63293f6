"""Byte sizes as users write them."""

from __future__ import annotations

import re

from .errors import InvalidArgumentError, InvalidTypeError

_UNITS = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6,
    "g": 10**9, "gb": 10**9, "t": 10**12, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip


def parse_bytes(size: int | float | str, name: str = "memory_budget") -> int:
    """Bytes of ``2_000_000_000``, ``"2GB"``, ``"512 MiB"``; GB is 10^9, GiB is 2^30."""
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-zA-Z]*)\s*", size)
        if match is None or match[2].lower() not in _UNITS:
            raise InvalidArgumentError(f'{name} must look like "2GB" or "512MiB": {size!r}')
        value = int(float(match[1]) * _UNITS[match[2].lower()])
    elif isinstance(size, (int, float)) and not isinstance(size, bool):
        value = int(size)
    else:
        raise InvalidTypeError(f'{name} must be a number of bytes or a text like "2GB": {size!r}')
    if value <= 0:
        raise InvalidArgumentError(f"{name} must be positive: {size!r}")
    return value
