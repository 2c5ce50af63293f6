"""What makes a run the one that a checkpoint is of: its parts, its order, its model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..config import Config
from ..errors import CorruptDataError, InvalidArgumentError
from ._checkpoints import read_checkpoint
from ._data_module import CellDataModule
from ._specification import KEY, VERSION, Specification, whole

# What makes the order of cells and steps, and losses that are compared with those before.
_FIXED = (
    "training.seed", "training.accumulate_grad_batches", "training.mask_fraction",
    "training.sampling.strategy", "training.sampling.label_key",
    "training.sampling.curriculum_warmup_epochs", "data.streaming", "data.streaming_shuffle_buffer",
    "data.streaming_chunk_size", "training.early_stopping_patience",
)  # fmt: skip


@dataclass(frozen=True)
class RunIdentity:
    """What must stay the same where a run goes on, beside its model.

    Attributes
    ----------
    cells
        Fingerprint of all cells.
    parts
        Name -> cells of the part and the fingerprint of its rows.
    split, settings
        Full name -> value: how cells are divided, and what the order is made by.
    batch_size, world_size
        Cells of a rank's batch; ranks. Their product must stay.
    """

    cells: str
    parts: dict[str, list[Any]]
    split: dict[str, Any]
    settings: dict[str, Any]
    batch_size: int
    world_size: int

    @staticmethod
    def of(config: Config, data: CellDataModule, world_size: int) -> RunIdentity:
        """Of a configuration and its data, set up."""
        return RunIdentity(
            cells=_shown(data.cells.fingerprint),
            parts={name: [len(x), _shown(x.fingerprint)] for name, x in data.parts.items()},
            split={name: config[name] for name in config if name.startswith("data.split.")},
            settings={name: config[name] for name in _FIXED},
            batch_size=data.batch_size,
            world_size=world_size,
        )


def _shown(fingerprint: int) -> str:
    return f"{fingerprint:016x}"


def describe(specification: Specification, run: RunIdentity) -> dict[str, Any]:
    """What checkpoints keep under KEY."""
    return {"version": VERSION, "specification": specification.to_dict(), "run": asdict(run)}


def require_same_run(
    path: Path, specification: Specification, now: RunIdentity, num_epochs: int
) -> None:
    """A checkpoint of other data, parts, order or model is an error that says what differs.

    Raises
    ------
    InvalidArgumentError
        It is not of this run.
    CellfeedError
        Of :func:`~cellfeed.training._checkpoints.read_checkpoint`.
    """
    checkpoint = read_checkpoint(path)
    kept = checkpoint[KEY]
    other = Specification.from_dict(kept.get("specification"), str(path)).to_dict()
    mine = specification.to_dict()
    for name in ("genes", "gene_ids", "label_key", "classes"):
        if other[name] != mine[name]:
            raise InvalidArgumentError(
                f"{path} is of another data set: its {name} ({_short(other[name])}) are not those "
                f"of the configuration ({_short(mine[name])})"
            )
    then = whole(RunIdentity, kept.get("run"), str(path), "what it was trained on")
    _require_same_cells(path, then, now)
    for name, value in mine.items():
        if other[name] != value:
            raise InvalidArgumentError(
                f"{path} is of another model: its {name} is {_short(other[name])}, and that of the "
                f"configuration {_short(value)}"
            )
    _require_same_order(path, then, now)
    _require_epochs(path, checkpoint, num_epochs)


def _require_epochs(path: Path, checkpoint: dict[str, Any], num_epochs: int) -> None:
    try:
        progress = checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"]
        begun, done = int(progress["ready"]), int(progress["processed"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptDataError(f"{path}: does not say how many epochs were done") from error
    if begun > num_epochs:
        raise InvalidArgumentError(
            f"{path} is of a run that has done {done} epochs"
            f"{' and begun another' if begun > done else ''}, and training.num_epochs is "
            f"{num_epochs}: give {begun} or more"
        )


def _require_same_cells(path: Path, then: RunIdentity, now: RunIdentity) -> None:
    if then.cells != now.cells:
        raise InvalidArgumentError(
            f"{path} is of another data set: the cells are not those that it was trained on; use "
            "the same files in the same order"
        )
    for name in dict.fromkeys([*then.parts, *now.parts]):
        if then.parts.get(name) != now.parts.get(name):
            sizes = [x.parts[name][0] if name in x.parts else 0 for x in (then, now)]
            raise InvalidArgumentError(
                f"{path} is of a run that divides the cells otherwise: its part {name!r} is not "
                f"that of the configuration ({sizes[0]:,} cells, now {sizes[1]:,}), so that the "
                "model would be judged by cells that it has learned"
                f"{_changed(then.split, now.split)}: divide them as before, or begin a new run"
            )


def _changed(then: dict[str, Any], now: dict[str, Any]) -> str:
    said = [f"{k} was {then.get(k)!r} and is {v!r}" for k, v in now.items() if then.get(k) != v]
    return f"; {', '.join(said)}" if said else ""


def _require_same_order(path: Path, then: RunIdentity, now: RunIdentity) -> None:
    changed = _changed(then.settings, now.settings)
    if then.batch_size * then.world_size != now.batch_size * now.world_size:
        changed += (
            f"; training.batch_size was {then.batch_size} on {then.world_size} ranks and is "
            f"{now.batch_size} on {now.world_size}"
        )
    if changed:
        raise InvalidArgumentError(
            f"{path} is of a run with another order of cells, steps or losses{changed}: leave that "
            "as it was, or begin a new run"
        )


def _short(value: object) -> str:
    if isinstance(value, list):
        return f"{len(value)}: {', '.join(map(str, value[:3]))}{', ...' if len(value) > 3 else ''}"
    return repr(value)
