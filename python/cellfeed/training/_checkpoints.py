"""Checkpoints: written whole or not at all, and checked before training goes on from one."""

from __future__ import annotations

import errno
import os
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

from .._arguments import shown
from ..errors import (
    CellfeedError,
    CorruptDataError,
    InputOutputError,
    NotFoundError,
    UnsupportedError,
)
from ._run_folder import RunFolder
from ._specification import KEY, VERSION
from ._whole_file import whole_file

if TYPE_CHECKING:
    from ._module import CellModule


# The lowest validation loss and its step, where none is known.
_NONE = float("inf"), -1
_DAMAGED = (
    "is damaged or cut off, or no checkpoint that cellfeed wrote: take another one (last.ckpt and "
    "best.ckpt lie side by side), or train again"
)
# What zipfile and torch raise for bytes that are not as they were written.
_OF_DAMAGE = (
    zipfile.BadZipFile, pickle.UnpicklingError, EOFError, RuntimeError, LookupError, ValueError,
    TypeError, AttributeError,
)  # fmt: skip


class CheckpointFiles(TorchCheckpointIO):
    """Writes where it is told to; Lightning's own goes by way of the system's temporary folder."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Lightning's hook.

        Parameters
        ----------
        checkpoint
            What is written.
        path
            The file.
        storage_options
            None: there are none.
        """
        with open(path, "wb") as file:
            torch.save(checkpoint, file)


class Checkpoints(Checkpoint):
    """Writes ``last.ckpt`` every so many steps and after each epoch, and ``best.ckpt``.

    A file is written beside its place and renamed, so that a killed run leaves the one before it.

    Parameters
    ----------
    folder
        Of the run.
    every_n_steps
        0: after each epoch only.
    description
        What is kept beside weights and states.
    """

    def __init__(self, folder: RunFolder, every_n_steps: int, description: dict[str, Any]) -> None:
        self._folder = folder
        self._every_n_steps = every_n_steps
        self._description = description
        self._saved_step = -1
        self._best, self._best_step = _NONE
        self._has_best: bool | None = None  # None: not looked for yet

    def best_of(self, trainer: Trainer) -> Path | None:
        """The checkpoint of the lowest validation loss, on all ranks alike.

        Parameters
        ----------
        trainer
            That of the run.

        Returns
        -------
        Path or None
            ``None``: there are no cells for validation, a run that was over came from another
            folder, or best.ckpt is not the one that the state tells of: another run left it, or
            steps that were lost.
        """
        if self._has_best is None:
            found = trainer.is_global_zero and self._is_best_there()
            self._has_best = bool(trainer.strategy.broadcast(found))
        return self._folder.best if self._has_best else None

    def _is_best_there(self) -> bool:
        mine = self._best, self._best_step
        if mine == _NONE or not self._folder.best.is_file():
            return False
        try:
            kept = read_checkpoint(self._folder.best).get("callbacks")
        except CellfeedError as error:
            warnings.warn(f"the best weights are not known: {error}", UserWarning, stacklevel=2)
            return False
        state = kept.get(self.state_key) if isinstance(kept, dict) else None
        if not isinstance(state, dict):
            return False
        return (state.get("best"), state.get("best_step")) == mine

    def is_best(self, trainer: Trainer) -> bool:
        """Whether the weights at hand are those of the lowest validation loss, as far as is known.

        Parameters
        ----------
        trainer
            That of the run.
        """
        return self._best_step == trainer.global_step

    def state_dict(self) -> dict[str, Any]:
        """Lightning's hook: what is kept."""
        return {"best": self._best, "best_step": self._best_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lightning's hook."""
        self._best, self._best_step = state_dict["best"], state_dict["best_step"]

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Lightning's hook."""
        checkpoint[KEY] = self._description

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook: the step that was resumed is saved already.

        Not so the best weights where a run goes on in another folder.
        """
        self._saved_step = trainer.global_step
        if self.best_of(trainer) is None:
            self._best, self._best_step = _NONE

    def on_train_batch_end(self, trainer: Trainer, *arguments: Any) -> None:
        """Lightning's hook. Within a step, gradients that have been added up would be lost."""
        if trainer.is_last_batch:  # the epoch's end has more to keep
            return
        step = trainer.global_step
        if self._every_n_steps and step != self._saved_step and step % self._every_n_steps == 0:
            self._save(trainer, self._folder.last)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook, after validation."""
        loss = trainer.callback_metrics.get("val_loss")
        if loss is not None and float(loss) < self._best:
            self._best, self._best_step = float(loss), trainer.global_step
            self._save(trainer, self._folder.best)
            self._has_best = True
        self._save(trainer, self._folder.last)
        if not self._has_best and trainer.is_global_zero:
            self._folder.drop_best()

    def _save(self, trainer: Trainer, path: Path) -> None:
        cast("CellModule", trainer.lightning_module).require_finite()
        self._saved_step = trainer.global_step
        with whole_file(path, trainer.is_global_zero) as beside:
            trainer.save_checkpoint(beside)


def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a checkpoint of ours holds, as plain values and tensors in memory.

    Raises
    ------
    NotFoundError, InputOutputError
        It cannot be read.
    CorruptDataError
        It is damaged, or holds what no checkpoint of ours does.
    UnsupportedError
        It is of another version.
    """
    name = os.fspath(path)
    try:
        with zipfile.ZipFile(name) as file:  # torch does not look at the checksums
            is_whole = file.testzip() is None
        # weights_only: what a hostile file holds is not run.
        kept = torch.load(name, map_location="cpu", weights_only=True) if is_whole else None
    except FileNotFoundError as error:
        raise NotFoundError(f"{name}: there is no such checkpoint") from error
    except IsADirectoryError as error:
        raise InputOutputError(
            f"{name}: is a folder; the best checkpoint of a run lies in its checkpoints/best.ckpt"
        ) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # torch seeks in a zip archive that was cut off
            raise CorruptDataError(f"{name}: {_DAMAGED}") from error
        raise InputOutputError(f"{name}: cannot be read: {error.strerror}") from error
    except _OF_DAMAGE as error:
        # What torch says is of ways to read files that are not trusted.
        raise CorruptDataError(f"{name}: {_DAMAGED}") from error
    if not is_whole:
        raise CorruptDataError(f"{name}: {_DAMAGED}")
    if not isinstance(kept, dict) or not isinstance(kept.get(KEY), dict):
        raise CorruptDataError(f"{name}: not a checkpoint that cellfeed wrote")
    if (version := kept[KEY].get("version")) != VERSION:
        raise UnsupportedError(
            f"{name}: a checkpoint of version {shown(version)}, and this cellfeed reads version "
            f"{VERSION}: train again"
        )
    return kept
