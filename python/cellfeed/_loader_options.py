"""How a loader reads and deals out what it reads: its arguments, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from ._arguments import did_you_mean, shown
from ._iteration.options import IterationOptions
from ._reader import ReaderOptions
from .errors import InvalidTypeError

# Arguments of other loaders -> what to write here.
_REFLEXES = {
    "collate": "write collate_fn=",
    "dataset": "the cells are the first argument",
    "device": "write batch.to(device), or collate_fn=lambda batch: batch.to(device)",
    "generator": "write seed=",
    "convert": "write collate_fn=",
    "label_key": "write obs=",
    "label_keys": "write obs=",
    "layer": "open the files with it: cellfeed.open(path, layer=...)",
    "num_workers": "the core reads ahead on threads of its own: write threads=, or nothing",
    "obs_keys": "write obs=",
    "persistent_workers": "there are no worker processes: leave it out",
    "prefetch_factor": "write fetch_factor= or memory_budget=",
    "sampler": "write strategy=",
    "batch_sampler": "write strategy= and batch_size=",
    "use_cuda": "write collate_fn=lambda batch: batch.to('cuda')",
    "worker_init_fn": "there are no worker processes: leave it out",
}


def refuse_unknown(given: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse arguments that a loader does not have, and say what to write instead.

    Parameters
    ----------
    given
        The arguments that it does not have.
    known
        Names of those that it has.
    """
    for name in given:
        near = f": {_REFLEXES[name]}" if name in _REFLEXES else did_you_mean(name, list(known))
        raise InvalidTypeError(f"Loader has no argument {name!r}{near}")


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
