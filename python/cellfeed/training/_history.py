"""What happened while training: rows of numbers, in checkpoints, as CSV and for loggers."""

from __future__ import annotations

import csv
import time
from collections.abc import Sized
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from .._progress import ProgressLine
from ._whole_file import whole_file

COLUMNS = (
    "epoch", "step", "train_loss", "learning_rate", "val_loss", "val_accuracy", "val_macro_f1",
    "cells_per_second", "wait_share",
)  # fmt: skip


class Pace:
    """Cells, seconds and seconds of waiting for the loader, since it was last asked."""

    def __init__(self) -> None:
        self._cells = 0
        self._clock = time.perf_counter()
        self._waited: float | None = None

    def add(self, n_cells: int) -> None:
        """A batch went through."""
        self._cells += n_cells

    def take(self, loader: Any) -> dict[str, float]:
        """``cells_per_second`` of all ranks' loaders like this one, and ``wait_share`` of it."""
        now, waited = time.perf_counter(), float(loader.stats()["wait_seconds"])
        seconds = max(1e-9, now - self._clock)
        before = 0.0 if self._waited is None else self._waited
        pace = {
            "cells_per_second": self._cells * loader.world_size / seconds,
            "wait_share": min(1.0, max(0.0, waited - before) / seconds),
        }
        self._cells, self._clock, self._waited = 0, now, waited
        return pace


class History(Callback):
    """Collects rows; a checkpoint holds those before it, so that nothing is there twice.

    Parameters
    ----------
    path
        Where the CSV goes.
    every_n_steps
        Between rows within an epoch; each epoch ends with one.
    """

    def __init__(self, path: Path, every_n_steps: int) -> None:
        self.rows: list[dict[str, float]] = []
        self._path = path
        self._every_n_steps = every_n_steps
        self._pace = Pace()
        self._at_end: dict[str, float] = {}
        self._noted_step = 0

    def state_dict(self) -> dict[str, Any]:
        """Lightning's hook: what a checkpoint keeps."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lightning's hook."""
        self.rows = list(state_dict["rows"])

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook."""
        self._noted_step = trainer.global_step

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook."""
        self._pace.take(trainer.train_dataloader)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: object,
        batch: Sized,
        batch_idx: int,
    ) -> None:
        """Lightning's hook."""
        self._pace.add(len(batch))
        step = trainer.global_step
        if trainer.is_last_batch:  # validation follows, whose time is not the loader's
            self._at_end = self._pace.take(trainer.train_dataloader)
        elif step != self._noted_step and step % self._every_n_steps == 0:
            self._note(trainer, self._pace.take(trainer.train_dataloader))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook, after validation."""
        self._note(trainer, self._at_end, ("val_loss", "val_accuracy", "val_macro_f1"))
        if trainer.is_global_zero:
            self.write()

    def _note(self, trainer: Trainer, pace: dict[str, float], more: tuple[str, ...] = ()) -> None:
        metrics = trainer.callback_metrics
        names = [name for name in ("train_loss", *more) if name in metrics]
        self._noted_step = trainer.global_step
        row: dict[str, float] = {"epoch": trainer.current_epoch, "step": trainer.global_step}
        row |= {name: float(metrics[name]) for name in names}
        row["learning_rate"] = trainer.optimizers[0].param_groups[0]["lr"]
        row |= pace
        self.rows.append(row)
        for logger in trainer.loggers:
            logger.log_metrics({k: row[k] for k in COLUMNS[2:] if k in row}, trainer.global_step)

    def write(self) -> None:
        """Write the CSV, in place of the one before."""
        with whole_file(self._path) as beside, open(beside, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(self.rows)


class ProgressBar(Callback):
    """Batches done, cells/s, the share of waiting for data, and the loss, on stderr."""

    def __init__(self) -> None:
        self._line = _Line("batches")
        self._pace = Pace()
        self._drawn = 0.0

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook."""
        self._pace = Pace()
        self._pace.take(trainer.train_dataloader)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: object,
        batch: Sized,
        batch_idx: int,
    ) -> None:
        """Lightning's hook."""
        self._pace.add(len(batch))
        n_batches, done = int(trainer.num_training_batches), batch_idx + 1
        if done < n_batches and time.perf_counter() - self._drawn < 0.5:
            return
        self._drawn = time.perf_counter()
        pace = self._pace.take(trainer.train_dataloader)
        if not trainer.is_global_zero:
            return
        self._line.more = (
            f", {pace['wait_share']:.1%} of it waiting for data, "
            f"loss {float(trainer.callback_metrics['train_loss']):.4f}"
        )
        phase = f"epoch {trainer.current_epoch + 1} of {trainer.max_epochs}"
        self._line(phase, done, n_batches, pace["cells_per_second"])


class _Line(ProgressLine):
    more = ""

    def _text(self, phase: str, done: int, total: int, rate: float) -> str:
        return f"{phase}: {done:,} of {total:,} batches, {rate:,.0f} cells/s{self.more}"
