"""``cached_property`` without the lock that functools' has up to Python 3.11.

That one is of all objects of a class and held while a value is made, so that a process that forks
meanwhile leaves its child waiting for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 - as functools has it
        """A value that is made when it is first asked for; threads that ask at once get one."""

        def __init__(self, make: Any) -> None:
            self.func = make
            self.__doc__ = make.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            if self._name not in instance.__dict__:
                return instance.__dict__.setdefault(self._name, self.func(instance))
            return instance.__dict__[self._name]


__all__ = ["cached_property"]
