"""Checks of arguments, one rule for each kind: names, numbers, sizes in bytes, row numbers.

A message names the argument, what is allowed, and what was given.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt

from . import _core
from ._options import DTYPES, DTypeName
from .errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    OutOfRangeError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import anndata

Choice = TypeVar("Choice")
Function = TypeVar("Function", bound=Callable[..., Any])

_LONGEST = 80
_UNITS = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6,
    "g": 10**9, "gb": 10**9, "t": 10**12, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip


def shown(value: object) -> str:
    """What was given, on one line."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no integers of many thousand digits
        text = f"a huge {type(value).__name__}"
    except Exception:  # a repr of the user's own
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def did_you_mean(name: object, known: Sequence[str]) -> str:
    """``'; did you mean "dense"?'`` for a name that is near one of the known; else nothing."""
    nearest = _core.nearest_name(name, list(known)) if isinstance(name, str) else ""
    return f'; did you mean "{nearest}"?' if nearest else ""


def suggestion(name: object, known: Iterable[object]) -> str:
    """``"; did you mean 'depth'? there are: depth, donor"``: the end of an error about a name."""
    return _core.suggestion(str(name), [str(other) for other in known])


def one_of(choices: Sequence[str]) -> str:
    """``"a", "b" or "c"``."""
    quoted = [f'"{choice}"' for choice in choices]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def as_choice(name: str, value: Choice, choices: Sequence[str]) -> Choice:
    """One of a few words."""
    if isinstance(value, str) and value in choices:
        return value
    kind = InvalidArgumentError if isinstance(value, str) else InvalidTypeError
    raise kind(
        f"{name} must be {one_of(choices)}, not {shown(value)}{did_you_mean(value, choices)}"
    )


def as_int(name: str, value: object, low: int, high: int | None = None) -> int:
    """An integer in ``[low, high]``; without ``high``, any that 64 bits can hold."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        hint = f"; write {int(value)}" if isinstance(value, float) and value.is_integer() else ""
        raise InvalidTypeError(f"{name} must be an integer, not {shown(value)}{hint}")
    if not low <= value <= (2**63 - 1 if high is None else high):
        is_bounded = high is not None or value > 2**63 - 1
        limits = f"in [{low}, {2**63 - 1 if high is None else high}]"
        raise InvalidArgumentError(
            f"{name} must be {limits if is_bounded else f'at least {low}'}, not {shown(value)}"
        )
    return int(value)


def as_float(name: str, value: object, low: float = -math.inf) -> float:
    """A finite number of at least ``low``."""
    is_truth = isinstance(value, (bool, np.bool_))
    if is_truth or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidTypeError(f"{name} must be a number, not {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < low:
        limits = "finite" if low == -math.inf else f"finite and at least {low:g}"
        raise InvalidArgumentError(f"{name} must be {limits}, not {shown(value)}")
    return number


def as_bool(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(f"{name} must be True or False, not {shown(value)}")
    return bool(value)


def as_function(name: str, value: Function | None) -> Function | None:
    """A function, or None for none."""
    if value is not None and not callable(value):
        raise InvalidTypeError(f"{name} must be a function, not {shown(value)}")
    return value


def as_text(name: str, value: object) -> str:
    """A str that UTF-8 can hold."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} must be a str, not {shown(value)}")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidArgumentError(f"{name} must be text that UTF-8 can hold, not {shown(value)}")
    return str(value)


def as_names(name: str, value: object) -> list[str]:
    """A list of names; one str is one name."""
    if isinstance(value, str):
        return [as_text(name, value)]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise InvalidTypeError(f"{name} must be a name or a list of names, not {shown(value)}")
    return [as_text(f"each of {name}", item) for item in value]


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that is there more than once; None where there is none."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def as_chosen_names(name: str, value: Sequence[str] | str | None) -> list[str] | None:
    """A list of names; None where none were chosen."""
    return None if value is None else as_names(name, value)


def as_path(name: str, value: object) -> str:
    """A path as a str; bytes that are not UTF-8 are kept as Python keeps them."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise InvalidTypeError(f"{name} must be a path (str or os.PathLike), not {shown(value)}")
    path = os.fspath(value)
    if path == "":
        raise NotFoundError(f"{name} must be a path, not ''")
    try:
        is_good = bool(os.fsencode(path))
    except UnicodeEncodeError:
        is_good = False
    if "\0" in path:
        raise InvalidArgumentError(
            f"{name} cannot be a path, as it holds a NUL byte: {shown(value)}"
        )
    if not is_good:
        raise InvalidArgumentError(f"{name} cannot be a path: {shown(value)}")
    # As pandas does: nobody means a folder that is called "~".
    return os.path.expanduser(path) if path.startswith("~") else str(path)


def is_url(path: str) -> bool:
    """Whether it leads to a bucket or a server, and not to a local file."""
    return "://" in path


def as_local_path(name: str, value: object) -> str:
    """A path of a local disk: what looks like one of a bucket would be a folder named ``s3:``."""
    path = as_path(name, value)
    if is_url(path):
        raise UnsupportedError(f"{name} must be a path of a local disk, not {path!r}")
    return path


def absolute(path: str) -> str:
    """The path as it is in whatever folder a process runs."""
    # "a/../b" is not "b" where a is a link.
    return path if is_url(path) else os.path.join(os.getcwd(), path)


def as_folder(name: str, value: object) -> str:
    """A path that stays the same in other processes; "" for None."""
    return "" if value is None else absolute(as_path(name, value))


def is_anndata(value: object) -> TypeGuard[anndata.AnnData]:
    """True for what has the names of cells and genes, without importing anndata."""
    return all(hasattr(value, name) for name in ("obs_names", "var_names", "isbacked"))


def refuse_unordered(values: object, name: str, what: str) -> None:
    """Refuse a set, a dict or a view of one: its order means nothing, and may differ each run."""
    if isinstance(values, (AbstractSet, Mapping)):
        raise InvalidTypeError(
            f"{name} is a {type(values).__name__}, which does not say in which order the {what} "
            f"are to be; pass a list, such as sorted({name})"
        )


def without_dimensions(value: Any) -> Any:
    """The number in an array or tensor without dimensions, as samplers give them."""
    is_array = getattr(value, "shape", None) == () and not isinstance(value, np.generic)
    return value.item() if is_array else value


def as_paths(name: str, value: object) -> list[str]:
    """One path, or several."""
    if isinstance(value, (str, os.PathLike)):
        return [as_path(name, value)]
    if not isinstance(value, Mapping):
        refuse_unordered(value, name, "files")
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise InvalidTypeError(
            f"{name} must be a path, a glob, or a list of these, not {shown(value)}"
        )
    return [as_path(f"each of {name}", path) for path in value]


def parse_bytes(size: int | float | str, name: str = "memory_budget", low: int = 1) -> int:
    """Bytes of ``2_000_000_000``, ``"2GB"``, ``"512 MiB"``; GB is 10^9, GiB is 2^30."""
    if isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-zA-Z]*)\s*", size, re.ASCII)
        if match is None or match[2].lower() not in _UNITS:
            raise InvalidArgumentError(
                f'{name} must look like "2GB" or "512MiB", not {shown(size)}; units are B, KB, MB, '
                f"GB, TB, KiB, MiB, GiB, TiB"
            )
        number = float(match[1]) * _UNITS[match[2].lower()]
    elif isinstance(size, (int, float, np.integer, np.floating)) and not isinstance(size, bool):
        try:
            number = float(size)
        except OverflowError:
            number = math.inf
    else:
        raise InvalidTypeError(
            f'{name} must be a number of bytes or a text like "2GB", not {shown(size)}'
        )
    if not low <= number < 2**63:
        limit = f"at least {low}" if number < low else "less than 2**63 bytes"
        raise InvalidArgumentError(f"{name} must be {limit}, not {shown(size)}")
    return int(size) if isinstance(size, int) else int(number)


def parse_memory_budget(size: int | float | str) -> int:
    """Bytes of a memory budget; refuses one that nothing can work in."""
    value = parse_bytes(size)
    if value < _core.MIN_MEMORY_BUDGET:
        raise InvalidArgumentError(
            f"memory_budget must be at least {_core.MIN_MEMORY_BUDGET // 10**6}MB, not "
            f"{shown(size)}"
        )
    return value


def parse_threads(threads: object) -> int:
    """A number of threads for the core: 0, one a processor, where ``None`` is given."""
    return 0 if threads is None else as_int("threads", threads, 1, _core.MAX_THREADS)


def as_dtype(name: str, value: Any, dtypes: tuple[DTypeName, ...] = DTYPES) -> DTypeName:
    """The name of a dtype that batches can have, of these."""
    given = str(value).removeprefix("torch.") if type(value).__module__ == "torch" else value
    try:
        # numpy takes None for float64.
        known = "" if given is None else np.dtype(given).name
    except (TypeError, ValueError):  # ValueError: text that is no Unicode
        known = ""
    if known not in dtypes:
        kind = InvalidArgumentError if isinstance(given, str) or known else InvalidTypeError
        raise kind(f"{name} must be {one_of(dtypes)}, not {shown(value)}{_nearest(given, dtypes)}")
    return known


def _nearest(given: object, dtypes: tuple[DTypeName, ...]) -> str:
    return did_you_mean(given if isinstance(given, str) else getattr(given, "__name__", ""), dtypes)


def as_rows(name: str, value: object) -> np.ndarray:
    """A numpy array of what was given, or an error of ours where it cannot be one."""
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidTypeError(
            f"{name} is a masked array, and what is masked has no row: pass .compressed()"
        )
    try:
        array = np.atleast_1d(np.asarray(value))
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: torch's
        raise InvalidTypeError(
            f"{name} must be integers or a boolean mask, not {shown(value)}"
        ) from error
    # As int64 these would be negative, and count from the end.
    if array.dtype == np.uint64 and array.size and array.max() > np.uint64(2**63 - 1):
        raise OutOfRangeError(f"{name} must be below 2**63, not {array.max()}")
    return array


def as_row_numbers(
    rows: object, n: int, of: tuple[str, str] = ("row", "cell")
) -> npt.NDArray[np.int64]:
    """Row numbers of an int, a slice, a mask or a list; negative ones count from the end.

    Or the numbers of genes: ``of`` has the words of messages, for a number and what it counts.
    """
    number, counted = of
    if isinstance(rows, slice):
        try:
            return np.arange(*rows.indices(n), dtype=np.int64)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(f"{number}s must be a slice of integers, not {rows}") from error
    array = as_rows(f"{number}s", rows)
    if array.dtype == bool:
        if array.shape != (n,):
            raise OutOfRangeError(
                f"a mask needs one value a {counted}: {array.shape} for {n} {counted}s"
            )
        return np.flatnonzero(array).astype(np.int64)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise InvalidTypeError(
            f"{number}s must be integers, a slice or a boolean mask, not {shown(rows)}"
        )
    array = array.astype(np.int64)
    outside = (array < -n) | (array >= n)
    if outside.any():
        raise OutOfRangeError(
            f"{number} {array[outside][0]} is outside the collection of {n} {counted}s"
        )
    return np.ascontiguousarray(np.where(array < 0, array + n, array))


def refuse_one_row(rows: object) -> None:
    """Of a batch: one of its rows alone would be a batch of another shape."""
    if isinstance(rows, (int, np.integer)):
        raise InvalidTypeError(
            f"rows of a batch are a slice, a mask or a list, not {rows}; write [{rows}]"
        )


def settle(options: object, **fields: object) -> None:
    """Set fields of a frozen dataclass to what they mean, while it is made."""
    for name, value in fields.items():
        object.__setattr__(options, name, value)


def check_options(where: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse keyword arguments that are not known."""
    for name in given:
        if name not in known:
            raise InvalidTypeError(
                f"{where} has no argument {name!r}{did_you_mean(name, known)}; it has: "
                f"{', '.join(known)}"
            )
