"""Tokens as docs/tokens.md and the papers of Geneformer and scGPT have them, by numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from sampling_reference import Stream

PAD, MASK, CLS = 0, 2, 3
CELL_TOKENS, GENES_OF_BATCH = 10, 11
_MASK64 = (1 << 64) - 1


def splitmix64(state: int, index: int) -> int:
    z = (state + (index + 1) * 0x9E3779B97F4A7C15) & _MASK64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK64
    return z ^ (z >> 31)


def keys_of(seed: int, epoch: int, position: int) -> tuple[int, int, int]:
    """Of masking, truncation and ties."""
    stream = Stream(seed, epoch, CELL_TOKENS)
    first, second = stream.two(position)
    return first, second, stream.two(position, 1)[0]


def rank(ids: np.ndarray, values: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Geneformer's rank_genes, stable."""
    order = np.argsort(-values, kind="stable")[:room]
    return ids[order], values[order]


def bins(values: np.ndarray, n_bins: int, key: int | None) -> np.ndarray:
    """scGPT's binning: numpy's quantiles and digitize; draws by key instead of numpy.random."""
    if not len(values):
        return values
    edges = np.quantile(values, np.linspace(0, 1, n_bins - 1))
    last, first = np.digitize(values, edges), np.digitize(values, edges, right=True)
    made = last.copy()
    for i, (low, high) in enumerate(zip(first, last, strict=True)):
        if key is not None and high > low + 1:
            made[i] = high - (splitmix64(key, i) * int(high - low) >> 64)
    return made.astype(np.float32)


def kept(values: np.ndarray, room: int, key: int | None) -> np.ndarray:
    """Places that stay, ascending; by value where there is no key."""
    if len(values) <= room:
        return np.arange(len(values))
    if key is None:
        return np.sort(np.argsort(-values, kind="stable")[:room])
    places = np.arange(len(values))
    for i in range(room):
        j = i + (splitmix64(key, i) * (len(values) - i) >> 64)
        places[[i, j]] = places[[j, i]]
    return np.sort(places[:room])


def chosen(n: int, fraction: float, key: int) -> np.ndarray:
    """Which of n genes masking chooses, in the order that it draws them."""
    size = max(1, round(fraction * n)) if n else 0
    places = np.arange(n)
    for i in range(size):
        j = i + ((splitmix64(key, i) >> 32) * (n - i) >> 32)
        places[[i, j]] = places[[j, i]]
    return places[:size]


def selected(
    x: np.ndarray, ids: np.ndarray, strategy: str, n_genes: int, seed: int, epoch: int, step: int
) -> np.ndarray:
    """Of each column whether a batch keeps it."""
    sums = x.sum(axis=0, dtype=np.float64)
    columns = np.flatnonzero((sums > 0) & (ids > 0))
    if strategy == "most_expressed":
        columns = sorted(columns, key=lambda c: (-sums[c], ids[c]))
    else:
        key = Stream(seed, epoch, GENES_OF_BATCH).two(step)[0]
        columns = sorted(columns, key=lambda c: (splitmix64(key, int(ids[c])), ids[c]))
    keeps = np.zeros(x.shape[1], dtype=bool)
    keeps[columns[:n_genes]] = True
    return keeps


def padded(rows: list[Any], width: int, fill: Any, dtype: Any) -> np.ndarray:
    made = np.full((len(rows), width), fill, dtype=dtype)
    for i, row in enumerate(rows):
        made[i, : len(row)] = row
    return made
