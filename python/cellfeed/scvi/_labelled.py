"""What SCANVI is trained on: batches of all cells, each with one of labelled cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import InvalidArgumentError
from ..loader import Loader
from ._fields import Tensors


class WithLabelled:
    """Pairs of a batch of all cells and one of labelled cells, as SemiSupervisedDataLoader makes.

    An epoch goes once over all cells; labelled cells are repeated as needed.

    Parameters
    ----------
    cells, labelled
        Loaders of all cells and of those with a label.
    """

    def __init__(self, cells: Loader[Tensors], labelled: Loader[Tensors]) -> None:
        if len(labelled) == 0:
            raise InvalidArgumentError(
                "there are fewer labelled cells than batch_size: leave drop_last out, or give a "
                "smaller batch_size"
            )
        self._cells, self._labelled = cells, labelled

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[tuple[Tensors, Tensors]]:
        labelled = self._forever()
        try:
            for batch in self._cells:
                yield batch, next(labelled)
        finally:
            labelled.close()

    def _forever(self) -> Any:
        while True:
            yield from self._labelled

    @property
    def sampler(self) -> Any:
        """That of all cells: Lightning tells it the epoch."""
        return self._cells.sampler

    def state_dict(self) -> dict[str, Any]:
        """Where the loader of all cells is, for checkpoints."""
        return self._cells.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there.

        Parameters
        ----------
        state_dict
            What :meth:`state_dict` returned.
        """
        self._cells.load_state_dict(state_dict)
