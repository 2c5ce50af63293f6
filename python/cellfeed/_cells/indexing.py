"""What ``cells[...]`` asks for: rows and genes, by number, mask or name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import numpy.typing as npt

from .._arguments import as_row_numbers, suggestion
from .._row_order import mask_index_of, require_order, require_row_order
from ..errors import InvalidArgumentError, InvalidTypeError, NoSuchKeyError

if TYPE_CHECKING:
    from .protocols import Cells

_SHOWN = 5


_ALL = slice(None)


def split_index(index: object) -> tuple[object, object]:
    """Rows and genes of what stands in ``cells[...]``."""
    if not isinstance(index, tuple):
        return index, _ALL
    if len(index) > 2:
        raise InvalidTypeError(f"cells have rows and genes, not {len(index)} dimensions")
    rows, genes = (*index, _ALL, _ALL)[:2]
    return rows, genes


def are_all(part: object) -> bool:
    """``:`` or ``...`` stands there."""
    return part is Ellipsis or (isinstance(part, slice) and part == _ALL)


def row_numbers(rows: object, cells: Cells) -> npt.NDArray[np.int64]:
    """Rows that are asked for, int64.

    Parameters
    ----------
    rows
        An int, a slice, a mask, numbers in any order, or a list of names.
    cells
        The collection or view that they are of.
    """
    if are_names(rows):
        # Not obs_names, which takes pandas for a view.
        return _places(list(rows), cells._names.obs_names(cells._all_rows()), "cell")
    require_row_order("the mask", mask_index_of(rows), cells)
    return as_row_numbers(rows, len(cells))


def gene_numbers(genes: object, names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Genes that are asked for, int64: as rows are, or one name."""
    if isinstance(genes, str):
        genes = [genes]
    if isinstance(genes, slice) and (isinstance(genes.start, str) or isinstance(genes.stop, str)):
        raise InvalidTypeError(f"genes must be a slice of integers, not {genes}: list the names")
    if are_names(genes):
        return _places(list(genes), names, "gene")
    require_order("the mask of genes", mask_index_of(genes), len(names), lambda: names, "var_names")
    return as_row_numbers(genes, len(names), ("gene", "gene"))


def are_names(part: Any) -> TypeGuard[Sequence[str]]:
    """A list, an array or an index of texts."""
    if isinstance(part, (list, tuple)):
        return len(part) > 0 and isinstance(part[0], str)
    dtype = getattr(part, "dtype", None)
    if dtype is None or getattr(part, "ndim", 1) != 1:
        return False
    is_text = getattr(dtype, "kind", "") in "UOT" or str(dtype) in ("str", "string", "category")
    return is_text and len(part) > 0 and all(isinstance(name, str) for name in part)


def _places(wanted: list[str], names: Iterable[str], kind: str) -> np.ndarray:
    place_of: dict[str, int] = {}
    is_wanted = set(wanted)
    for place, name in enumerate(names):
        if name in is_wanted and place_of.setdefault(name, place) != place:
            raise InvalidArgumentError(
                f"the name {name!r} is of {kind} {place_of[name]} and of {kind} {place}: "
                f"ask by number"
            )
    missing = [name for name in wanted if name not in place_of]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:_SHOWN])
        more = f", ... ({len(missing)} in all)" if len(missing) > _SHOWN else ""
        known = suggestion(missing[0], names) if isinstance(missing[0], str) else ""
        raise NoSuchKeyError(f"no {kind} has the name {shown}{more}{known}")
    return np.array([place_of[name] for name in wanted], dtype=np.int64)
