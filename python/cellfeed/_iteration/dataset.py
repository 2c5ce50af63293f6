"""What every data set of ours is and can do, whatever it reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .._options import Remainder
from .iterable import TorchIterable, Yielded
from .schedule import Schedule
from .states import as_epoch


class EpochSetter:
    """Sets the epoch of a schedule: what training frameworks look for in a ``sampler``."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, for one that counts its batches itself.

        Raises
        ------
        InvalidArgumentError
            A state within that epoch was loaded, and what is left of it makes other batches than
            those that were counted before.
        """
        self._schedule.require_batches_of(as_epoch(epoch))
        self._schedule.set_epoch(epoch)


class BatchDataset(TorchIterable[Yielded]):
    """Batches by a schedule: epochs, ranks and states."""

    _schedule: Schedule

    @property
    def batch_size(self) -> int:
        """Samples of a batch on one rank."""
        return self._schedule.options.batch_size

    @property
    def fetch_factor(self) -> int:
        """Batches of a fetch group."""
        return self._schedule.options.fetch_factor

    @property
    def drop_last(self) -> bool:
        """True where a last batch that is shorter is left out."""
        return self._schedule.options.drop_last

    @property
    def remainder(self) -> Remainder:
        """What happens to samples that do not divide by the world size."""
        return self._schedule.options.remainder

    @property
    def partition(self) -> str:
        """How samples are dealt to the ranks of now: ``"interleave"`` or ``"group"``."""
        return self._schedule.partition

    @property
    def rank(self) -> int:
        """Number of this process among those that share each epoch, as of now."""
        return self._schedule.ranks.now()[0]

    @property
    def world_size(self) -> int:
        """Processes that share each epoch, as of now."""
        return self._schedule.ranks.now()[1]

    @property
    def seed(self) -> int:
        """Seed of every order, the one drawn where none was given.

        Where none was given and the process group came after the data set, all ranks must ask for
        it, or iterate: they agree on one then.
        """
        return self._schedule.seed

    @property
    def epoch(self) -> int:
        """Epoch of the next iteration."""
        return self._schedule.epochs.next_epoch()

    @property
    def sampler(self) -> EpochSetter:
        """What sets the epoch, where Lightning's ``Trainer`` looks for it."""
        return EpochSetter(self._schedule)

    @property
    def batch_sampler(self) -> None:
        """None, as batches come whole: Lightning asks for it beside ``sampler`` in validation."""
        return None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; otherwise each iteration advances by one.

        A state of that epoch that was loaded and not begun yet stays; of another, it is dropped.

        Parameters
        ----------
        epoch
            0 or more.
        """
        self._schedule.set_epoch(epoch)

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch, also after resuming: the same on every rank."""
        return self._schedule.n_batches

    @property
    def n_batches_left(self) -> int:
        """Batches of this rank that are left of the epoch that :meth:`state_dict` tells of.

        After :meth:`load_state_dict` what the next iteration yields; during an iteration what it
        has not handed out; after it the whole next epoch.
        """
        return self._schedule.n_batches_left

    def plan(self, epoch: int | None = None) -> Iterator[npt.NDArray[np.int64]]:
        """Row numbers of this rank's batches, without reading any data.

        Parameters
        ----------
        epoch
            0 or more; by default the next iteration's, or what a loaded state leaves of it.

        Yields
        ------
        numpy.ndarray
            int64, one per sample of the batch: of a Loader, what ``batch.index`` will be.
        """
        return self._schedule.next_rows(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the current iteration stands, as small JSON-able data.

        Where worker processes iterate, only torchdata's ``StatefulDataLoader`` knows what was used:
        use its own.
        """
        return self._schedule.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` stood.

        The next iteration yields exactly the remaining batches. The world size may differ: what
        remains is then dealt to the ranks of now.

        Parameters
        ----------
        state_dict
            What ``state_dict`` returned, in this or another process.

        Raises
        ------
        InvalidArgumentError
            The state belongs to another collection, strategy, seed or version.
        """
        self._schedule.load_state_dict(state_dict)
