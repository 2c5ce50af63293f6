"""JSON files from anywhere, read as if they were hostile."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from . import _core
from ._arguments import as_path
from .errors import CorruptDataError

# Far above any vocabulary; parsing takes some ten times as much.
MAX_BYTES = 64 << 20


def read_json(path: str | os.PathLike[str], what: str) -> Any:
    """What a regular UTF-8 file of at most ``MAX_BYTES`` holds, also one of a bucket.

    Parameters
    ----------
    path
        The file.
    what
        What it should be, for messages: ``"vocabulary"``.

    Raises
    ------
    NotFoundError, InputOutputError, CorruptDataError, InvalidArgumentError
        Naming the file. NaN, infinities, numbers beyond float64 and keys that repeat are refused.
    """
    name = as_path(f"the path of a {what}", path)
    return parse_json(_core.read_file(name, MAX_BYTES), name, what)


def parse_json(content: bytes, name: str, what: str) -> Any:
    """What the bytes of a file hold, as :func:`read_json` says.

    Parameters
    ----------
    content
        The bytes.
    name, what
        The file, and what it should be, for messages.
    """
    try:
        return json.loads(
            content.decode("utf-8"), parse_constant=_refuse, parse_float=_finite,
            object_pairs_hook=_each_once,
        )  # fmt: skip
    except RecursionError as error:
        raise CorruptDataError(f"{name}: nested too deeply for a {what}") from error
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError among them
        raise CorruptDataError(f"{name}: not a JSON {what}: {error}") from error


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key {key!r} is there more than once")
        values[key] = value
    return values


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits:.40} is beyond float64")
    return value
