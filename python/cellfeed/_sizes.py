"""Byte sizes and numbers of threads as users write them: one rule wherever they are taken."""

from __future__ import annotations

import math
import re
from typing import Any

from . import _core
from ._checks import as_int, shown
from .errors import InvalidArgumentError, InvalidTypeError

_UNITS = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6,
    "g": 10**9, "gb": 10**9, "t": 10**12, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip


def parse_bytes(size: int | float | str, name: str = "memory_budget", low: int = 1) -> int:
    """Bytes of ``2_000_000_000``, ``"2GB"``, ``"512 MiB"``; GB is 10^9, GiB is 2^30."""
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-zA-Z]*)\s*", size, re.ASCII)
        if match is None or match[2].lower() not in _UNITS:
            raise InvalidArgumentError(
                f'{name} must look like "2GB" or "512MiB", not {shown(size)}; units are B, KB, MB, '
                f"GB, TB, KiB, MiB, GiB, TiB"
            )
        number = float(match[1]) * _UNITS[match[2].lower()]
    elif isinstance(size, (int, float)) and not isinstance(size, bool):
        try:
            number = float(size)
        except OverflowError:
            number = math.inf
    else:
        raise InvalidTypeError(
            f'{name} must be a number of bytes or a text like "2GB", not {shown(size)}'
        )
    if not low <= number < 2**63:
        limit = f"at least {low}" if number < low else "less than 2**63 bytes"
        raise InvalidArgumentError(f"{name} must be {limit}, not {shown(size)}")
    return int(size) if isinstance(size, int) else int(number)


def parse_memory_budget(size: int | float | str) -> int:
    """Bytes of a memory budget; refuses one that nothing can work in."""
    value = parse_bytes(size)
    if value < _core.MIN_MEMORY_BUDGET:
        raise InvalidArgumentError(
            f"memory_budget must be at least {_core.MIN_MEMORY_BUDGET // 10**6}MB, not "
            f"{shown(size)}"
        )
    return value


def parse_threads(threads: Any) -> int:
    """A number of threads for the core: 0, one a processor, where ``None`` is given."""
    return 0 if threads is None else as_int("threads", threads, 1, _core.MAX_THREADS)
