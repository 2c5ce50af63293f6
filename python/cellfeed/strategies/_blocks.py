"""Strategies by place in storage: in order, in blocks, in shards."""

from __future__ import annotations

from collections.abc import Sequence, Sized

import numpy as np

from .. import _core
from .._arguments import as_bool, as_int
from .._options import Indices
from .._samples import length_of
from ..collection import CellCollection
from ..errors import InvalidArgumentError, InvalidTypeError
from ._strategy import SamplingStrategy, as_indices, check_mask


class Streaming(SamplingStrategy):
    """Storage order.

    Parameters
    ----------
    indices
        Row numbers or a boolean mask; all rows when omitted. Read in storage order whatever their
        order here.
    shuffle
        Permute rows inside each fetch group.
    shuffle_buffer
        Consecutive samples that are permuted together instead of a fetch group; implies
        ``shuffle``.
    """

    def __init__(
        self, indices: Indices | None = None, shuffle: bool = False, shuffle_buffer: int = 0
    ) -> None:
        self.indices = indices
        self.shuffle_buffer = as_int("shuffle_buffer", shuffle_buffer, 0, 2**62)
        self.shuffle = as_bool("shuffle", shuffle) or self.shuffle_buffer > 0
        self._shuffle_before_yield = self.shuffle

    def __repr__(self) -> str:
        return f"Streaming(shuffle={self.shuffle})"

    def bind(self, cells: Sized) -> _core.Strategy:
        """The order over ``len(cells)`` samples."""
        check_mask(self.indices, cells)
        return _core.make_streaming(
            length_of(cells), as_indices(self.indices), self.shuffle, self.shuffle_buffer
        )


class BlockShuffling(SamplingStrategy):
    """Blocks of consecutive samples in random order; rows permuted inside each fetch group.

    Parameters
    ----------
    block_size
        Samples of a block; 1 is true random sampling.
    indices
        Row numbers or a boolean mask; all rows when omitted.
    drop_last
        Leave out the samples that do not fill a block, others each epoch.
    """

    _shuffle_before_yield = True

    def __init__(
        self, block_size: int = 8, indices: Indices | None = None, drop_last: bool = False
    ) -> None:
        self.block_size = as_int("block_size", block_size, 1, 2**62)
        self.indices = indices
        self.drop_last = as_bool("drop_last", drop_last)

    def __repr__(self) -> str:
        return f"BlockShuffling(block_size={self.block_size})"

    def bind(self, cells: Sized) -> _core.Strategy:
        """The order over ``len(cells)`` samples."""
        check_mask(self.indices, cells)
        return _core.make_block_shuffling(
            length_of(cells), self.block_size, as_indices(self.indices), self.drop_last
        )


class WholeShards(SamplingStrategy):
    """Each rank reads shards of its own, in true random order; all ranks equally many cells.

    Rank r gets shards r, r + R, r + 2R, ...; where that leaves ranks unequal, cells off the end of
    the longer ranks' lists go to the shorter ones. An epoch holds every cell once. A rank's page
    cache then holds its shards alone. Batches of a rank are of its shards: where shards differ,
    shuffle them (``cellfeed shard --shuffle``).

    Parameters
    ----------
    num_ranks
        Ranks that share an epoch, with ``partition="interleave"``.
    shard_offsets
        First cell of each shard, and the number of cells; those of the files by default.
    """

    def __init__(
        self, num_ranks: int, shard_offsets: Sequence[int] | np.ndarray | None = None
    ) -> None:
        self.num_ranks = as_int("num_ranks", num_ranks, 1, 2**20)
        self.shard_offsets = as_indices(shard_offsets)

    def __repr__(self) -> str:
        return f"WholeShards(num_ranks={self.num_ranks})"

    def bind(self, cells: Sized) -> _core.Strategy:
        """The order over ``len(cells)`` samples."""
        offsets = self.shard_offsets
        if offsets is None:
            offsets = _offsets_of(cells)
        if not len(offsets) or offsets[-1] != length_of(cells):
            raise InvalidArgumentError(
                f"shard_offsets must end with the number of samples, {length_of(cells):,}"
            )
        return _core.make_whole_shards(offsets, self.num_ranks)


def _offsets_of(cells: object) -> np.ndarray:
    if not isinstance(cells, CellCollection):
        raise InvalidTypeError(
            "WholeShards knows where shards begin of a collection of cellfeed.open only: give "
            "shard_offsets"
        )
    n, at_once = len(cells), 1 << 20
    counts = np.zeros(cells._core.n_stores, dtype=np.int64)
    last = 0
    for begin in range(0, n, at_once):
        stores = cells._core.locate(np.arange(begin, min(n, begin + at_once)))[0]
        if stores[0] < last or (np.diff(stores) < 0).any():
            raise InvalidArgumentError(
                "WholeShards needs cells in the order of their shards; these were put in another"
            )
        counts += np.bincount(stores, minlength=len(counts))
        last = stores[-1]
    return np.concatenate([[0], np.cumsum(counts)])


def shuffled(cells: CellCollection) -> BlockShuffling:
    """The order of ``shuffle=True``: single cells, or blocks of 64 in files compressed in chunks.

    Reading one row of a chunk inflates the whole chunk.
    """
    return BlockShuffling(64 if cells._core.is_chunked else 1)
