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
        self._has_begun = False
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
            if not self._can_ask():
                return
            self._first = self._ask(*self._ranks.now())
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

    def _can_ask(self) -> bool:
        # A worker has no group, and that of a forked process is its parent's, who goes on with it.
        return not (
            self._ranks.is_given
            or this_worker().is_process
            or self._ranks.now()[1] == 1
            or not self._ranks.are_grouped()
            or is_group_inherited()
        )

    def _is_compared(self) -> bool:
        return self._first is not None and not self._is_copy and self._can_ask()

    def begin(self, state: str | None) -> None:
        """Compare what the first iteration continues: ranks without a state would begin anew.

        Parameters
        ----------
        state
            None: that of this rank is over, as those of others need not be.

        Raises
        ------
        InvalidArgumentError
            Another rank has begun with another state.
        """
        if self._has_begun or not self._is_compared():
            return
        self._has_begun = True
        if state is None:
            return
        rank, world_size = self._ranks.now()
        first = _said_first(f"{self._name}/begins", {"rank": rank, "state": state})
        if first["state"] != state:
            raise InvalidArgumentError(
                f"rank {rank} of {world_size} would begin elsewhere than rank {first['rank']}: the "
                f"state it has loaded is {state}, there {first['state']}. All ranks must load one "
                "state before they iterate; what is read on some ranks only needs a loader of its "
                "own, with rank=0, world_size=1"
            )

    def go_on(self, last: str, read: str, is_all: bool) -> None:
        """Compare what was read of an epoch that the next one follows upon.

        A rank that has looked at a batch alone is an epoch ahead of the others from then on. Those
        that all stop before the end need not stop at one place.

        Parameters
        ----------
        last
            The epoch.
        read
            What was read of it, in words.
        is_all
            Whether that was all.

        Raises
        ------
        InvalidArgumentError
            Of one rank it was all, of the other not.
        """
        if not self._is_compared():
            return
        rank, world_size = self._ranks.now()
        first = _said_first(f"{self._name}/{last}", {"rank": rank, "read": read, "is_all": is_all})
        if first["is_all"] != is_all:
            raise InvalidArgumentError(
                f"rank {rank} of {world_size} would read another epoch than rank {first['rank']}: "
                f"of the epoch before it has read {read}, and rank {first['rank']} "
                f"{first['read']}. Each iteration is an epoch further, so all ranks must begin as "
                "many: what is read on some ranks only needs a loader of its own, with rank=0, "
                "world_size=1; where ranks may stop at different batches, call set_epoch() before "
                "each iteration"
            )

    def _ask(self, rank: int, world_size: int) -> dict[str, Any]:
        number = _n_compared[self._kind]
        _n_compared[self._kind] += 1
        self._name = f"{self._kind}/{number}/{world_size}"
        return _said_first(self._name, {"rank": rank, **self._facts})


def _said_first(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    from .._torch import first_said

    return cast("dict[str, Any]", json.loads(first_said(name, json.dumps(facts))))


def _differences(here: dict[str, Any], first: dict[str, Any]) -> str:
    return ", ".join(f"{name} is {value}, there {first.get(name)}" for name, value in here.items())
