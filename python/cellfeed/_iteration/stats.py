"""What loaders count while they run."""

from __future__ import annotations

from typing import TypedDict


class LoaderStats(TypedDict):
    """Of a loader of cells; seconds of threads are summed over them."""

    cells: int
    batches: int
    nnz: int
    bytes_read: int
    bytes_used: int
    wait_seconds: float
    fetch_seconds: float
    decode_seconds: float
    transform_seconds: float
    collate_seconds: float
    elapsed_seconds: float
    cells_per_second: float
    label_entropy_bits: dict[str, float]
    queue_depth: float
    peak_bytes: int
    threads: int


class SeriesStats(TypedDict):
    """Of a loader of windows."""

    windows: int
    batches: int
    bytes: int
    copy_seconds: float
    wait_seconds: float
    collate_seconds: float
