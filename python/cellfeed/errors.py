"""The exceptions of cellfeed: each a :class:`CellfeedError` and also the native type that fits."""

from __future__ import annotations

__all__ = [
    "AlreadyExistsError",
    "CacheWarning",
    "CancelledError",
    "CellfeedError",
    "ClusterError",
    "CollectionError",
    "CorruptDataError",
    "InputOutputError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidTypeError",
    "LeftOutWarning",
    "MissingGenesWarning",
    "NoSpaceError",
    "NoSuchAttributeError",
    "NoSuchKeyError",
    "NotFoundError",
    "OutOfRangeError",
    "PrecisionError",
    "UnsupportedError",
]


class CellfeedError(Exception):
    """Base of every error that cellfeed raises.

    Attributes
    ----------
    path
        The file or directory at fault; empty where none is involved.
    """

    path: str = ""

    def __init__(self, *args: object) -> None:
        if args and isinstance(args[0], str) and "://" in args[0]:
            from . import _core

            args = (_core.mask_credentials(args[0]), *args[1:])
        super().__init__(*args)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class MissingGenesWarning(UserWarning):
    """Genes that were asked for are in no file and read as 0, or a file has none of them."""


class CacheWarning(UserWarning):
    """Rows are no longer kept in a cache, or some that were kept are damaged; batches are right."""


class LeftOutWarning(UserWarning):
    """Files hold what is not read though nobody chose that, such as antibodies beside genes."""


class InvalidArgumentError(CellfeedError, ValueError):
    """An argument has a value that cannot work."""


class InvalidTypeError(CellfeedError, TypeError):
    """An argument has a type that cannot work."""


class NotFoundError(CellfeedError, FileNotFoundError):
    """A file or directory is not there."""


class NoSuchKeyError(CellfeedError, KeyError):
    """A column, layer or gene is not in the data."""


class NoSuchAttributeError(CellfeedError, AttributeError):
    """Cells do not have an attribute, such as one of another library, or it cannot be set."""


class OutOfRangeError(CellfeedError, IndexError):
    """A row number lies outside the data."""


class AlreadyExistsError(CellfeedError, FileExistsError):
    """A target exists already, or another process is writing it."""


class CorruptDataError(CellfeedError, OSError):
    """Bytes are not what their format promises."""


class UnsupportedError(CellfeedError, NotImplementedError):
    """Valid data that this version cannot read."""


class InputOutputError(CellfeedError, OSError):
    """The operating system refused to read or write."""


class NoSpaceError(CellfeedError, OSError):
    """The disk is full."""


class PrecisionError(CellfeedError, ValueError):
    """A value does not fit the requested dtype exactly."""


class CollectionError(CellfeedError, RuntimeError):
    """A Python collection raised, or gave other rows than asked for; the cause is chained."""


class ClusterError(CellfeedError, RuntimeError):
    """A scheduler is not there, or a worker ended or has another version of cellfeed."""


class CancelledError(CellfeedError, RuntimeError):
    """The work was stopped before its end, by its consumer or by an error raised elsewhere."""


class InternalError(CellfeedError, RuntimeError):
    """A bug in cellfeed: please report it."""
