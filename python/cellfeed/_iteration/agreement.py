"""Whether the ranks of a process group make one plan: a named error where they would not."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, cast

from ..errors import InvalidArgumentError
from .rank import Ranks, is_group_inherited
from .worker import this_worker

# Of each kind, what this process has compared: the ranks of one program make the same in turn.
_n_compared: Counter[str] = Counter()


class Agreement:
    """What a plan depends on, which must be the same on all ranks.

    It is compared where an initialised ``torch.distributed`` group has all ranks, with what the
    first of them said; nobody waits for anybody, so that it is told to each rank but that one.
    Ranks that were passed explicitly may have data of their own, and workers have no group.

    Parameters
    ----------
    kind
        What is compared with one another, such as the name of a strategy.
    facts
        Name -> what shows in JSON as it is.
    """

    def __init__(self, ranks: Ranks, kind: str, facts: dict[str, Any]) -> None:
        self._ranks = ranks
        self._kind = kind
        self._facts = facts
        self._first: dict[str, Any] | None = None  # what the first rank said, once it was asked
        self._name = ""  # under which it was
        self._n_begun = 0  # iterations since then
        self._is_copy = False

    def require(self) -> None:
        """Ask once, and compare.

        Raises
        ------
        InvalidArgumentError
            Another rank has said something else; whenever it is called then.
        """
        if self._ranks.is_given or this_worker().is_process:
            return
        if self._first is None:
            rank, world_size = self._ranks.now()
            if world_size == 1 or not self._ranks.are_grouped() or is_group_inherited():
                return
            self._first = self._ask(rank, world_size)
        first = self._first
        other = {name: value for name, value in self._facts.items() if first.get(name) != value}
        if other:
            rank, world_size = self._ranks.now()
            raise InvalidArgumentError(
                f"rank {rank} of {world_size} would read by another plan than rank "
                f"{first['rank']}: {_differences(other, first)}. All ranks must open the same "
                "files in the same order, with the same settings: of a folder or a bucket that "
                "changes meanwhile, list the files once and pass that list to all ranks. What is "
                "made on some ranks only, or of files of each rank's own, is to be told so: "
                "rank=0, world_size=1"
            )

    def __getstate__(self) -> dict[str, object]:
        # A copy of one that has begun may begin at any place.
        return {**self.__dict__, "_is_copy": self._first is not None}

    def begin(self, state: str | None, before: str | None) -> None:
        """Compare where an iteration begins with where that of the same number does elsewhere.

        Parameters
        ----------
        state
            What the first iteration continues: ranks without it would begin anew. None: that of
            this rank is over, as those of others need not be.
        before
            What was read of the last iteration, where the epoch follows from that one: a rank that
            has looked at a batch alone would be an epoch ahead. None: it does not.

        Raises
        ------
        InvalidArgumentError
            Another rank has begun it otherwise.
        """
        if self._first is None or self._is_copy:
            return
        number = self._n_begun
        self._n_begun += 1
        said = before if number else state
        if said is None:
            return
        rank, world_size = self._ranks.now()
        first = _said_first(f"{self._name}/{number}", {"rank": rank, "said": said})
        if first["said"] == said:
            return
        other = first["rank"]
        if number == 0:
            raise InvalidArgumentError(
                f"rank {rank} of {world_size} would begin elsewhere than rank {other}: the state "
                f"it has loaded is {said}, there {first['said']}. All ranks must load one state "
                "before they iterate; what is read on some ranks only needs a loader of its own, "
                "with rank=0, world_size=1"
            )
        raise InvalidArgumentError(
            f"rank {rank} of {world_size} would read another epoch than rank {other}: of the "
            f"iteration before it has read {said}, and rank {other} {first['said']}. Each "
            "iteration is an epoch further, so all ranks must begin as many: what is read on some "
            "ranks only needs a loader of its own, with rank=0, world_size=1; where ranks may stop "
            "at different batches, call set_epoch() before each iteration"
        )

    def _ask(self, rank: int, world_size: int) -> dict[str, Any]:
        number = _n_compared[self._kind]
        _n_compared[self._kind] += 1
        self._name = f"{self._kind}/{number}/{world_size}"
        return _said_first(self._name, {"rank": rank, **self._facts})


def _said_first(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    from ..torch import first_said

    return cast("dict[str, Any]", json.loads(first_said(name, json.dumps(facts))))


def _differences(here: dict[str, Any], first: dict[str, Any]) -> str:
    return ", ".join(f"{name} is {value}, there {first.get(name)}" for name, value in here.items())
