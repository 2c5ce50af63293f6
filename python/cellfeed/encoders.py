"""Label maps: which label has which code, kept so that inference codes equal training codes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._arguments import as_text, shown
from ._json_file import read_json
from ._options import Categories, Label, UnknownLabel
from .errors import (
    CorruptDataError,
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
    PrecisionError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from ._cells.protocols import Cells

__all__ = ["Encoders"]

_VERSION = 1
_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,), "boolean": (bool,), "integer": (int,), "number": (float,)
}  # fmt: skip


class Encoders(Mapping[str, dict[Label, int]]):
    """Codes of labels by obs column: ``encoders["cell_type"]["B cell"]`` is 0.

    ``cells.encoders`` makes one, :meth:`save` and :meth:`load` keep it, and
    ``cf.open(..., categories=encoders)`` numbers other data in the same way. Picklable.

    Parameters
    ----------
    columns
        Column -> its labels in the order of their codes: all text, all booleans, all integers or
        all floats.
    unknown_label
        Column -> the label that means "not known", which is -1.
    """

    def __init__(
        self,
        columns: Mapping[str, Iterable[Label]],
        unknown_label: Mapping[str, Label | None] | None = None,
    ) -> None:
        self._labels = {name: label_list(name, labels) for name, labels in columns.items()}
        unknown = dict(unknown_label or {})
        self._unknown = {name: unknown.get(name) for name in self._labels}
        for name, label in self._unknown.items():
            check_unknown(name, label, self._labels[name])

    def __getitem__(self, column: str) -> dict[Label, int]:
        return {label: code for code, label in enumerate(self.labels(column))}

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Encoders)
            and self._labels == other._labels
            and self._unknown == other._unknown
        )

    def __hash__(self) -> int:
        return hash(repr((self._labels, self._unknown)))

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {len(labels)}" for name, labels in self._labels.items())
        return f"Encoders({columns})"

    def __reduce__(self) -> tuple[object, ...]:
        return Encoders, (self._labels, self._unknown)

    def labels(self, column: str) -> list[Label]:
        """Labels in the order of their codes.

        Parameters
        ----------
        column
            The obs column.
        """
        try:
            return list(self._labels[column])
        except KeyError:
            raise NoSuchKeyError(
                f"no label map for {column!r}; there are: {', '.join(self._labels) or 'none'}"
            ) from None

    def unknown_label(self, column: str) -> Label | None:
        """The label that is -1, like a missing one; ``None`` where there is none.

        Parameters
        ----------
        column
            The obs column.
        """
        self.labels(column)
        return self._unknown[column]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as JSON, all or nothing; directories are made.

        Parameters
        ----------
        path
            The file to write.
        """
        path = os.fspath(path)
        columns = {
            name: {
                "kind": _kind_of(labels), "labels": labels, "unknown_label": self._unknown[name]
            }
            for name, labels in self._labels.items()
        }  # fmt: skip
        text = json.dumps(
            {"cellfeed_encoders": _VERSION, "columns": columns},
            indent=2, ensure_ascii=False, allow_nan=False,
        )  # fmt: skip
        _core.write_file(path, (text + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Encoders:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path
            The file.

        Raises
        ------
        NotFoundError, CorruptDataError
            Naming the file.
        """
        content = read_json(path, "label map")
        try:
            return _from_json(content)
        except (InvalidArgumentError, InvalidTypeError) as error:
            raise CorruptDataError(
                f"{os.fspath(path)}: not label maps of cellfeed: {error}"
            ) from error


def _from_json(content: object) -> Encoders:
    if not isinstance(content, dict) or "cellfeed_encoders" not in content:
        raise InvalidArgumentError("it lacks the key 'cellfeed_encoders'")
    version = content["cellfeed_encoders"]
    if version != _VERSION or isinstance(version, bool):
        raise InvalidArgumentError(
            f"it has version {shown(version)}; this cellfeed reads {_VERSION}"
        )
    columns = content.get("columns")
    if not isinstance(columns, dict):
        raise InvalidTypeError("its 'columns' must be an object of columns")
    labels: dict[str, list[Label]] = {}
    unknown: dict[str, Label | None] = {}
    for name, column in columns.items():
        if not isinstance(column, dict) or not isinstance(column.get("labels"), list):
            raise InvalidTypeError(f"column {name!r} must have a list of labels")
        kind = column.get("kind")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise InvalidArgumentError(f"column {name!r} has labels of kind {shown(kind)}")
        values = column["labels"]
        wrong = [v for v in values if type(v) not in _KINDS[kind]]
        if wrong:
            raise InvalidTypeError(f"column {name!r}: {shown(wrong[0])} is not of kind {kind!r}")
        labels[name] = values
        unknown[name] = column.get("unknown_label")
    return Encoders(labels, unknown)


def _kind_of(labels: list[Label]) -> str:
    kind = type(labels[0]) if labels else str
    return next(name for name, types in _KINDS.items() if kind in types)


def _plain(label: Any) -> Any:
    """A numpy scalar as Python's own."""
    if isinstance(label, str):
        return str(label)
    return label.item() if isinstance(label, np.generic) else label


def label_list(column: str, labels: object) -> list[Label]:
    """Labels that a user gave, in the order of their codes: of one type, each once.

    Parameters
    ----------
    column
        The obs column, for messages.
    labels
        A list, an array, an Index, the labels of an :class:`Encoders`.
    """
    if isinstance(labels, Mapping):
        labels = _by_code(column, labels)
    if isinstance(labels, (str, bytes, AbstractSet)) or not isinstance(labels, Iterable):
        raise InvalidTypeError(
            f"categories of {column!r} must be a list, whose order gives the codes, not a "
            f"{type(labels).__name__}"
        )
    names = [_plain(label) for label in labels]
    if {type(name) for name in names} == {int, float}:
        names = [float(name) for name in names]
    for name in names:
        if type(name) not in (str, bool, int, float) or (
            isinstance(name, float) and not math.isfinite(name)
        ):
            raise InvalidTypeError(
                f"categories of {column!r} must be text, booleans or numbers, not {shown(name)}"
            )
        if type(name) is not type(names[0]):
            raise InvalidTypeError(
                f"categories of {column!r} must be of one type: {shown(names[0])} and {shown(name)}"
            )
        if isinstance(name, str):
            as_text(f"each category of {column!r}", name)
        if isinstance(name, int) and not -(2**63) <= name < 2**64:
            raise InvalidArgumentError(f"categories of {column!r}: {name} has more than 64 bits")
    seen: set[Label] = set()
    for name in names:
        if name in seen:
            raise InvalidArgumentError(f"categories of {column!r} have {name!r} twice")
        seen.add(name)
    return names


def _by_code(column: str, codes: Mapping[Label, int]) -> list[Label]:
    """Labels of a mapping label -> code, as :class:`Encoders` has them."""
    if sorted(codes.values(), key=repr) != sorted(range(len(codes)), key=repr):
        raise InvalidArgumentError(
            f"categories of {column!r}: a mapping must give its labels the codes 0 to "
            f"{len(codes) - 1}, each once"
        )
    return sorted(codes, key=codes.__getitem__)


def check_unknown(column: str, unknown: object, labels: list[Label] | None) -> None:
    """Refuse an ``unknown_label`` that cannot be one.

    Parameters
    ----------
    column
        The obs column, for messages.
    unknown
        What the user gave for it.
    labels
        The fixed labels, where there are any.
    """
    if unknown is None:
        return
    if type(unknown) not in (str, bool, int, float):
        raise InvalidTypeError(
            f"unknown_label must be a label, or a dict of column -> label, not {shown(unknown)}"
        )
    if isinstance(unknown, str):
        as_text("unknown_label", unknown)
    if labels is not None and unknown in labels:
        raise InvalidArgumentError(
            f"unknown_label {unknown!r} is one of the categories of {column!r}: it stands for -1, "
            f"so leave it out of the list"
        )


def label_maps(
    categories: Categories | None, unknown_label: UnknownLabel, known: Iterable[str]
) -> dict[str, tuple[list[Label] | None, Label | None]]:
    """What the core takes: column -> labels in the order of their codes, and the unknown one.

    Parameters
    ----------
    categories
        A mapping of column to labels, an :class:`Encoders`, or None. An Encoders may have more
        columns than the data.
    unknown_label
        One label for all columns, a mapping of column to label, or None.
    known
        obs columns of the data.
    """
    known = list(known)
    if categories is not None and not isinstance(categories, Mapping):
        raise InvalidTypeError(
            f"categories must be a dict of obs column -> labels, or what Encoders.load gives, not "
            f"{shown(categories)}"
        )
    fixed: dict[str, list[Label]] = {}
    unknown: dict[str, Label | None] = {}
    if isinstance(categories, Encoders):
        fixed = {name: categories.labels(name) for name in categories if name in known}
        unknown = {name: categories.unknown_label(name) for name in fixed}
    elif categories is not None:
        fixed = {name: label_list(name, labels) for name, labels in categories.items()}
    if isinstance(unknown_label, Mapping):
        given = {name: _plain(label) for name, label in unknown_label.items()}
    else:
        given = {} if unknown_label is None else dict.fromkeys(known, _plain(unknown_label))
    for name in [*fixed, *(unknown_label if isinstance(unknown_label, Mapping) else ())]:
        if name not in known:
            raise NoSuchKeyError(
                f"no file has obs column {name!r}, for which labels are given; there are: "
                f"{', '.join(known) or 'none'}"
            )
    unknown.update(given)
    for name, label in unknown.items():
        check_unknown(name, label, fixed.get(name))
    return {
        name: (fixed.get(name), unknown.get(name))
        for name in dict.fromkeys([*fixed, *unknown])
        if fixed.get(name) is not None or unknown.get(name) is not None
    }


def encoders_of(cells: Cells) -> Encoders:
    """What ``cells.encoders`` is.

    Parameters
    ----------
    cells
        The collection.
    """
    unknown = cells._origin.options.unknown_label
    fixed = cells._origin.options.categories or {}
    names = list(dict.fromkeys([*cells.default_obs, *fixed]))
    columns = {}
    for name in cells.obs_keys():
        if names and name not in names:
            continue
        try:
            columns[name] = cells.obs_column(name)
        except (PrecisionError, UnsupportedError):  # what does not load has no labels
            if name in names:
                raise
    labels = {name: c.categories for name, c in columns.items() if c.is_categorical}
    unknown_of = {}
    for name in labels:
        unknown_of[name] = unknown.get(name) if isinstance(unknown, Mapping) else unknown
        if unknown_of[name] is None and isinstance(fixed, Encoders) and name in fixed:
            unknown_of[name] = fixed.unknown_label(name)
    return Encoders(labels, unknown_of)
