"""Empties the page cache before a cold measurement, fills it before a warm one."""

from __future__ import annotations

import os
from collections.abc import Iterable


def drop(paths: Iterable[str]) -> str:
    """Write dirty pages out and forget clean ones; says how it was done."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3\n")
        return "drop_caches"
    except OSError:
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
        return "posix_fadvise DONTNEED"


def fill(paths: Iterable[str]) -> None:
    """Read every file once."""
    buffer = bytearray(1 << 22)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
