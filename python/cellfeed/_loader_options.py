"""How a loader reads and deals out what it reads: its arguments, checked once."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ._arguments import shown
from ._iteration.options import IterationOptions
from ._reader import ReaderOptions
from .errors import InvalidTypeError


@dataclass(frozen=True, kw_only=True)
class LoaderOptions(ReaderOptions, IterationOptions):
    """Arguments of :class:`~cellfeed.Loader`, checked when this is made.

    Attributes
    ----------
    tune
        Whether settings are measured, or the label column whose entropy batches keep.
    """

    tune: bool | str = False

    def __post_init__(self) -> None:
        ReaderOptions.__post_init__(self)
        IterationOptions.__post_init__(self)
        if not isinstance(self.tune, (bool, str)):
            raise InvalidTypeError(
                f"tune must be True, False or the name of a label column, not {shown(self.tune)}"
            )

    def changes(self) -> str:
        """What differs from the defaults, but for the ranks: ``batch_size=64, output='dense'``."""
        names = [f.name for f in fields(self) if f.name not in ("batch_size", "rank", "world_size")]
        standard = LoaderOptions()
        changed = [name for name in names if getattr(self, name) != getattr(standard, name)]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in ["batch_size", *changed])
