"""What stands in for a core object that was closed."""

from __future__ import annotations

from typing import NoReturn

from ..errors import InvalidArgumentError


class Closed:
    """Says so, whatever is asked of it.

    Parameters
    ----------
    message
        What is closed, and what to do.
    """

    def __init__(self, message: str) -> None:
        self._message = message

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InvalidArgumentError(self._message)

    def __reduce__(self) -> tuple[object, ...]:
        raise InvalidArgumentError(self._message)
