"""Configuration files: YAML, checked when it is read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from . import _core
from ._arguments import as_path, as_text, did_you_mean, suggestion
from .errors import NoSuchKeyError

__all__ = ["Config", "Section"]


class Section(Mapping[str, Any]):
    """A group of settings: ``config.data.paths``, ``config["data.paths"]``.

    A setting that is not in the file has its default, and ``None`` where it has none. Iterating
    gives the names of all settings below, such as ``"shards.enabled"`` of ``config.data``.
    """

    def __init__(self, values: dict[str, Any], prefix: str) -> None:
        self._values = values
        self._prefix = prefix

    def __getitem__(self, key: str) -> Any:
        full = self._prefix + as_text("key", key)
        if full in self._values:
            value = self._values[full]
            return list(value) if isinstance(value, list) else value
        if any(name.startswith(full + ".") for name in self._values):
            return Section(self._values, full + ".")
        raise NoSuchKeyError(f"there is no setting {full!r}{suggestion(full, self._values)}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except NoSuchKeyError:
            near = did_you_mean(name, self.__dir__())
            raise AttributeError(f"there is no setting {self._prefix + name!r}{near}") from None

    def __iter__(self) -> Iterator[str]:
        n = len(self._prefix)
        return (name[n:] for name in self._values if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __dir__(self) -> list[str]:
        return list(dict.fromkeys(name.split(".")[0] for name in self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)})"


class Config(Section):
    """The settings of one file. :meth:`load` makes it; it does not change.

    Attributes
    ----------
    path
        The file.
    given
        Full names of the settings that the file holds; the others have their defaults.
    """

    def __init__(self, path: str, loaded: dict[str, Any]) -> None:
        super().__init__(loaded["values"], "")
        self.path = path
        self.given = frozenset(loaded["given"])
        self._has_preprocessing: bool = loaded["has_preprocessing"]
        self._text: str = loaded["text"]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Config:
        """Read a file and check all of it.

        Parameters
        ----------
        path
            A YAML file (docs/configuration.md has every setting).

        Raises
        ------
        NotFoundError, InputOutputError
            The file cannot be read.
        InvalidArgumentError
            It is not YAML; it holds an unknown key, a value of the wrong type or out of range, or
            settings that contradict one another. Names file, line, column and the nearest name.
        """
        name = as_path("path", path)
        return cls(name, _core.load_config(name))

    @staticmethod
    def schema() -> dict[str, Any]:
        """The JSON Schema (draft 2020-12) of configuration files."""
        schema: dict[str, Any] = json.loads(_core.config_schema())
        return schema

    def show(self) -> str:
        """Every setting that has an effect, with its unit, as YAML: what ``--show`` prints."""
        return self._text
