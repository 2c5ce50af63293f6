"""One epoch of a sampler, which says where it stands and goes on from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from .._arguments import as_int, shown
from ..errors import InvalidArgumentError
from .states import MAX_EPOCH

_VERSION = 1


class SamplerIterator(Iterator[int]):
    """Samples of one epoch of this rank, with the states that torchdata's loader saves and loads.

    An iterator that is never advanced takes no epoch.

    Parameters
    ----------
    samples
        Epoch -> its samples, of this rank.
    begin
        Called with the epoch that is gone on with, or None for the sampler's next, which it takes:
        the epoch.
    next_epoch, set_epoch
        The sampler's next epoch, which stays that; set it.
    facts
        What the samples depend on beside the epoch, as of now.
    """

    def __init__(
        self,
        samples: Callable[[int], Iterator[int]],
        begin: Callable[[int | None], int],
        next_epoch: Callable[[], int],
        set_epoch: Callable[[int], None],
        facts: Callable[[], dict[str, Any]],
    ) -> None:
        self._samples = samples
        self._begin = begin
        self._next_epoch = next_epoch
        self._set_epoch = set_epoch
        self._facts = facts
        self._epoch: int | None = None
        self._n_yielded = 0
        self._rest: Iterator[int] | None = None

    def __next__(self) -> int:
        if self._rest is None:
            self._epoch = self._begin(self._epoch)
            self._rest = islice(self._samples(self._epoch), self._n_yielded, None)
        sample = next(self._rest)
        self._n_yielded += 1
        return sample

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, the same on every rank, as small JSON-able data."""
        return {
            "version": _VERSION,
            "epoch": self._next_epoch() if self._epoch is None else self._epoch,
            "yielded": self._n_yielded,
            "sampler": self._facts(),
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
        here, there = self._facts(), state.get("sampler")
        if there != here:
            raise InvalidArgumentError(
                "the state belongs to a sampler of other samples, settings or ranks, and this one "
                f"would go on elsewhere: here {here}, in the state {shown(there)}"
            )
        n_yielded = as_int("yielded of the state", state.get("yielded"), 0)
        self._epoch = as_int("epoch of the state", state.get("epoch"), 0, MAX_EPOCH)
        self._n_yielded = n_yielded
        self._rest = None
        self._set_epoch(self._epoch + 1)
