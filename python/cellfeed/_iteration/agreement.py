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

    def _ask(self, rank: int, world_size: int) -> dict[str, Any]:
        from ..torch import first_said

        number = _n_compared[self._kind]
        _n_compared[self._kind] += 1
        said = first_said(
            f"{self._kind}/{number}/{world_size}", json.dumps({"rank": rank, **self._facts})
        )
        return cast("dict[str, Any]", json.loads(said))


def _differences(here: dict[str, Any], first: dict[str, Any]) -> str:
    return ", ".join(f"{name} is {value}, there {first.get(name)}" for name, value in here.items())
