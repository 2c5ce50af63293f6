"""JSON files from anywhere, read as if they were hostile."""

from __future__ import annotations

import json
import math
import os
import stat
from typing import Any

from .errors import (
    CellfeedError,
    CorruptDataError,
    InputOutputError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
)

# Far above any vocabulary; parsing takes some ten times as much.
MAX_BYTES = 64 << 20


def read_json(path: str | os.PathLike[str], what: str) -> Any:
    """What a regular UTF-8 file of at most ``MAX_BYTES`` holds.

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
    try:
        name = os.fspath(path)
    except TypeError as error:
        raise InvalidTypeError(f"a {what} file is named by a path: {path!r}") from error
    return parse_json(_read(name, what), name, what)


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


def _read(name: str, what: str) -> bytes:
    try:
        # O_NONBLOCK: a pipe without a writer would block.
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise NotFoundError(f"{name}: there is no such {what} file") from error
    except OSError as error:
        raise InputOutputError(f"{name}: cannot be opened: {error.strerror}") from error
    except ValueError as error:
        raise InvalidArgumentError(f"not a path: {name!r}: {error}") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise InputOutputError(f"{name}: a {what} must be a regular file")
        if status.st_size > MAX_BYTES:
            raise CorruptDataError(
                f"{name}: {status.st_size:,} bytes, more than a {what} ever holds ({MAX_BYTES:,})"
            )
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(MAX_BYTES)
    except CellfeedError:
        raise
    except OSError as error:
        raise InputOutputError(f"{name}: cannot be read: {error.strerror}") from error
    finally:
        os.close(fd)


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
