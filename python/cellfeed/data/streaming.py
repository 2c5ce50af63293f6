"""Cells one after another, as torch's ``IterableDataset``: no conversion, little memory."""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from .._arguments import as_int, as_names, shown
from .._iteration.iterable import TorchIterable
from .._iteration.run import Run
from .._options import Join, Remainder
from ..errors import InvalidArgumentError
from ..loader import Loader
from ..strategies import Streaming
from ..vocab import GeneVocab
from ._cell_reader import Cell, CellReader, Preprocessing, ReadsCells, open_with_vocab

__all__ = ["StreamingCellDataset"]

# Workers of a DataLoader take batches in turn, so that none is long idle.
_BATCH_CELLS = 512


class StreamingCellDataset(ReadsCells, TorchIterable[Cell]):
    """Cells of files in their order, shuffled within a buffer: for one pass, or as many as wanted.

    Items are those of :class:`~cellfeed.data.dataset.CellDataset`, with ``is_padding`` besides. A
    ``DataLoader`` makes padded batches of them (``DataLoader(dataset, batch_size=128)``, or with
    ``collate_fn=collate_cells``). Each iteration is the next epoch, in another order. However many
    workers and ranks there are, each cell comes once an epoch, and every rank gets as many.

    Values are those of the files, NaN too, as everywhere; ``cf.NormalizeTotal`` refuses those.

    For shuffling that reaches further than a buffer, and for whole batches at many times the rate,
    see :class:`~cellfeed.Loader`.

    Parameters
    ----------
    h5ad_path
        An ``.h5ad`` file, a shard directory, a glob, or a list of these.
    gene_vocab
        Numbers the genes; genes that it lacks are left out. By default the data's genes count from
        4.
    chunk_size
        Cells that are read together.
    shuffle_buffer_size
        Consecutive cells that are permuted together; 0 keeps the order of the files.
    preprocessing
        Transforms such as ``cf.NormalizeTotal()``, one or several, or a function of one cell's
        values.
    obs_keys
        obs columns that come as metadata; none by default.
    paths
        Another name of ``h5ad_path``.
    seed
        Seed of the order.
    epoch
        Of the first iteration.
    rank, world_size
        As for :class:`~cellfeed.Loader`.
    remainder
        Where cells do not divide by the ranks: ``"pad"`` gives some twice, which ``is_padding``
        marks, ``"drop"`` leaves some out, ``"error"`` refuses.
    layer, join
        As for :class:`~cellfeed.data.dataset.CellDataset`.
    memory_budget, threads
        As for :class:`~cellfeed.Loader`.
    """

    def __init__(
        self,
        h5ad_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        gene_vocab: GeneVocab | None = None,
        chunk_size: int = 10_000,
        shuffle_buffer_size: int = 10_000,
        preprocessing: Preprocessing | None = None,
        obs_keys: Sequence[str] | None = None,
        *,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        seed: int | None = 0,
        epoch: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        remainder: Remainder = "pad",
        layer: str = "X",
        join: Join | None = None,
        memory_budget: int | str = "2GB",
        threads: int | None = None,
    ) -> None:
        if (h5ad_path is None) == (paths is None):
            raise InvalidArgumentError("give files as h5ad_path, or as paths, and not as both")
        GeneVocab.check(gene_vocab)
        chunk = as_int("chunk_size", chunk_size, 1, 2**31)
        buffer = as_int("shuffle_buffer_size", shuffle_buffer_size, 0, 2**62)
        keys = [] if obs_keys is None else as_names("obs_keys", obs_keys)
        cells = open_with_vocab(
            paths if h5ad_path is None else h5ad_path,
            gene_vocab,
            layer=layer,
            join=join if gene_vocab is None else None,
        )
        self._reader = CellReader(cells, gene_vocab, keys, preprocessing)
        size = min(chunk, _BATCH_CELLS)
        self._loader = Loader(
            cells, Streaming(shuffle_buffer=buffer), size, fetch_factor=math.ceil(chunk / size),
            obs=keys, transforms=self._reader.transforms, seed=seed, epoch=epoch, rank=rank,
            world_size=world_size, remainder=remainder, memory_budget=memory_budget,
            threads=threads,
        )  # fmt: skip
        # Of the iteration under way: where the loader stood before the batch that is handed out,
        # and how many of its cells were.
        self._place: tuple[dict[str, Any], int] | None = None
        self._n_to_skip = 0
        self._n_begun = 0

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_place": None}

    def __iter__(self) -> Iterator[Cell]:
        return self._cells(self._loader._schedule.begin())

    def _begin_anew(self) -> None:
        self._place = None
        self._n_to_skip = 0
        self._n_begun += 1

    def _cells(self, run: Run) -> Generator[Cell, None, None]:
        from .._torch import cells_to_tensors

        run.start()  # from here on the loader's states are of this run
        # Of the workers that share a loaded state, one has the batch that was begun.
        n_to_skip = self._n_to_skip if run.is_first_resumed else 0
        self._begin_anew()
        number = self._n_begun
        batches = self._loader._batches(run)
        while True:
            before = self._loader.state_dict()
            batch = next(batches, None)
            if number == self._n_begun:
                self._place = None
            if batch is None:
                return
            cells = cells_to_tensors(self._reader.cells_of(batch))
            for cell, is_padding in zip(cells, batch.is_padding.tolist(), strict=True):
                cell["is_padding"] = is_padding
            for n_done in range(n_to_skip, len(cells)):
                if number == self._n_begun:  # states are of the iteration that began last
                    self._place = before, n_done + 1
                yield cells[n_done]
            n_to_skip = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; otherwise each iteration advances by one.

        A state of that epoch, just loaded, stays.

        Parameters
        ----------
        epoch
            0 or more.
        """
        self._loader.set_epoch(epoch)
        if self._loader._schedule.epochs.pending() is None:
            self._begin_anew()

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands, as small JSON-able data: exact to the cell.

        Where worker processes iterate, only torchdata's ``StatefulDataLoader`` knows what was used:
        use its own.
        """
        if self._place is None:
            return self._state(self._loader.state_dict(), self._n_to_skip)
        return self._state(*self._place)

    def _state(self, loader: dict[str, Any], n_cells: int) -> dict[str, Any]:
        return {"loader": loader, "n_cells": n_cells, "world_size": self.world_size}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` stood: the next iteration yields the cells left.

        Parameters
        ----------
        state_dict
            What ``state_dict`` returned, in this or another process.

        Raises
        ------
        InvalidArgumentError
            It is none; it belongs to other files, another seed or buffer; or, within an epoch, to
            another number of ranks.
        """
        if not isinstance(state_dict, dict) or set(state_dict) != {
            "loader", "n_cells", "world_size",
        }:  # fmt: skip
            raise InvalidArgumentError(
                f"this is not a state of a StreamingCellDataset: {shown(state_dict)}"
            )
        n_cells = as_int("n_cells", state_dict["n_cells"], 0, self._loader.batch_size)
        if n_cells > 0 and state_dict["world_size"] != self.world_size:
            raise InvalidArgumentError(
                f"the state lies within the cells of {state_dict['world_size']} ranks, and there "
                f"are {self.world_size} now: continue with as many, or from the end of an epoch"
            )
        self._loader.load_state_dict(state_dict["loader"])
        self._begin_anew()
        self._n_to_skip = n_cells

    @property
    def epoch(self) -> int:
        """Epoch of the next iteration."""
        return self._loader.epoch

    @property
    def seed(self) -> int:
        """Seed of the order, the one drawn where None was given."""
        return self._loader.seed

    @property
    def rank(self) -> int:
        """Number of this process among those that share each epoch, as of now."""
        return self._loader.rank

    @property
    def world_size(self) -> int:
        """Processes that share each epoch, as of now."""
        return self._loader.world_size

    def __repr__(self) -> str:
        cells, genes = len(self.collection), len(self.gene_vocab.genes)
        return f"StreamingCellDataset({cells:,} cells, {genes:,} genes)"
