"""What is asked of one axis, as of SOMA: coordinates, and a filter of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .._arguments import as_row_numbers, as_text, settle, shown
from .._options import Rows
from ..errors import InvalidArgumentError, InvalidTypeError


@dataclass(frozen=True, kw_only=True)
class AxisQuery:
    """Cells or genes by coordinates and a filter, as of ``tiledbsoma.AxisQuery``.

    Attributes
    ----------
    value_filter
        As for ``cells.filter``; ``None`` for all.
    coords
        Of the one axis that there is: ``([0, 5, 7],)``, ``(slice(0, 99),)``, which is of the first
        hundred, as SOMA's slices have both of their ends, or ``()`` for all.
    """

    value_filter: str | None = None
    coords: Sequence[Rows | None] = ()

    def __post_init__(self) -> None:
        if self.value_filter is not None:
            as_text("value_filter", self.value_filter)
        if not isinstance(self.coords, (tuple, list)):
            raise InvalidTypeError(
                f"coords must be a tuple with one entry, such as (slice(0, 99),), not "
                f"{shown(self.coords)}"
            )
        if len(self.coords) > 1:
            raise InvalidArgumentError(
                f"coords has {len(self.coords)} entries, and there is one dimension: write "
                f"([0, 5, 7],) for these three"
            )
        settle(self, coords=tuple(self.coords))

    @property
    def coord(self) -> Rows | None:
        """What the one coordinate is; None for all."""
        return self.coords[0] if self.coords else None


def numbers_at(
    name: str, coord: Rows | None, n: int, of: tuple[str, str]
) -> npt.NDArray[np.int64] | None:
    """Numbers of one coordinate, ascending and each once, as SOMA gives them; None for all.

    Parameters
    ----------
    name
        Of the argument.
    coord
        An int, a list, an array of numpy or Arrow, a mask, or a slice, whose ends both count.
    n, of
        How many there are, and the words for a number and what it counts.
    """
    if coord is None:
        return None
    if isinstance(coord, slice):
        return _of_slice(name, coord, n)
    numbers = as_row_numbers(coord, n, of)
    given = np.asarray(coord)
    if given.dtype != bool and (given < 0).any():
        raise InvalidArgumentError(f"{name} has {given.min()}: coordinates count from 0")
    return np.unique(numbers)


def _of_slice(name: str, coord: slice, n: int) -> npt.NDArray[np.int64]:
    ends = []
    for end, default in ((coord.start, 0), (coord.stop, n - 1)):
        end = default if end is None else end
        if isinstance(end, bool) or not isinstance(end, (int, np.integer)):
            raise InvalidTypeError(f"{name} must be a slice of integers, not {coord}")
        ends.append(int(end))
    first, last = ends
    if coord.step not in (None, 1) or first < 0 or last < first:
        raise InvalidArgumentError(
            f"{name} is {coord}: both ends of a slice are among what it selects, as SOMA has it, "
            "so that they count from 0, the second is not below the first, and there is no step"
        )
    return np.arange(first, min(last, n - 1) + 1, dtype=np.int64)


def narrowed(
    chosen: npt.NDArray[np.int64] | None, other: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64] | None:
    """What is among both, each of which ascends; None stands for all."""
    if chosen is None or other is None:
        return other if chosen is None else chosen
    return np.intersect1d(chosen, other, assume_unique=True)
