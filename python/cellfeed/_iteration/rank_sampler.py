"""What samplers share: ranks that share the draws, a count of epochs, and places to go on from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .._arguments import as_int, shown
from ..errors import InvalidArgumentError
from .agreement import Agreement
from .epochs import EpochCounter
from .rank import Ranks
from .states import MAX_EPOCH, as_epoch
from .worker import this_worker

_VERSION = 1


class RankSampler:
    """A rank among those that share the draws, and a count of epochs."""

    _ranks: Ranks
    _epochs: EpochCounter
    _agreement: Agreement | None = None

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """What the draws depend on, as Agreement has it."""

    @abstractmethod
    def __len__(self) -> int:
        """Samples of a rank in an epoch."""

    @abstractmethod
    def _samples(self, epoch: int) -> Iterator[int]:
        """Those of this rank."""

    def __iter__(self) -> Iterator[int]:
        self._ranks.refuse_second_split()
        return SamplerIterator(self)

    @property
    def rank(self) -> int:
        """Number of this process, as of now."""
        return self._ranks.now()[0]

    @property
    def num_replicas(self) -> int:
        """Processes that share an epoch, as of now."""
        return self._ranks.now()[1]

    @property
    def epoch(self) -> int:
        """Epoch of the next iteration."""
        return self._epochs.next_epoch()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; otherwise each iteration advances by one."""
        self._epochs.set(as_epoch(epoch))

    def _require_one_plan(self) -> None:
        if self._agreement is None:
            self._agreement = Agreement(self._ranks, type(self).__name__, self._facts())
        self._agreement.require()

    def _take_epoch(self) -> int:
        return self._epochs.start(this_worker(), 0)[0]

    def _state_facts(self) -> dict[str, Any]:
        return {**self._facts(), "num_replicas": self.num_replicas}


class SamplerIterator(Iterator[int]):
    """One epoch of a sampler, with the states that torchdata's loader saves and loads.

    An iterator that is never advanced takes no epoch.
    """

    def __init__(self, sampler: RankSampler) -> None:
        self._sampler = sampler
        self._epoch: int | None = None
        self._n_yielded = 0
        self._rest: Iterator[int] | None = None

    def __next__(self) -> int:
        if self._rest is None:
            self._sampler._require_one_plan()
            if self._epoch is None:
                self._epoch = self._sampler._take_epoch()
            self._rest = islice(self._sampler._samples(self._epoch), self._n_yielded, None)
        sample = next(self._rest)
        self._n_yielded += 1
        return sample

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, the same on every rank, as small JSON-able data."""
        return {
            "version": _VERSION,
            "epoch": self._sampler.epoch if self._epoch is None else self._epoch,
            "yielded": self._n_yielded,
            "sampler": self._sampler._state_facts(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state.

        Raises
        ------
        InvalidArgumentError
            It is no state, or one of a sampler of other samples or settings, or other ranks.
        """
        if not isinstance(state, dict) or state.get("version") != _VERSION:
            raise InvalidArgumentError(f"not a state of this version of cellfeed: {shown(state)}")
        here, there = self._sampler._state_facts(), state.get("sampler")
        if there != here:
            raise InvalidArgumentError(
                "the state belongs to a sampler of other samples, settings or ranks, and this one "
                f"would go on elsewhere: here {here}, in the state {shown(there)}"
            )
        n_yielded = as_int("yielded of the state", state.get("yielded"), 0, len(self._sampler))
        self._epoch = as_int("epoch of the state", state.get("epoch"), 0, MAX_EPOCH)
        self._n_yielded = n_yielded
        self._rest = None
        self._sampler._epochs.set(self._epoch + 1)
