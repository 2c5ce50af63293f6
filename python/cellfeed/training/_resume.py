"""A callback that takes a loader's place in the data to Lightning's checkpoints and back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from ..errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING or "pytorch_lightning" not in sys.modules:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    from pytorch_lightning import Callback, LightningModule, Trainer

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from .._iteration.dataset import BatchDataset


class ResumeLoader(Callback):
    """Continue a ``DataLoader`` over our data set where a Lightning checkpoint stood.

    A :class:`~cellfeed.Loader` or ``scDataset`` that is handed to ``Trainer.fit`` itself needs no
    help: Lightning keeps its state and sets its epoch. Of a ``torch.utils.data.DataLoader`` around
    one Lightning keeps nothing: training would begin anew in the middle of an epoch, and repeat the
    order of epoch 0. Give that ``DataLoader`` to this callback::

        batches = DataLoader(dataset, batch_size=None)
        trainer = Trainer(callbacks=[cellfeed.training.ResumeLoader(batches)])
        trainer.fit(model, batches, ckpt_path=...)

    With worker processes a checkpoint in the middle of an epoch needs torchdata's
    ``StatefulDataLoader``; this callback then takes care of the epochs. Continue with as many ranks
    and the same batch size: Lightning counts the batches of an epoch, and would leave some out, so
    that anything else is an error.

    Parameters
    ----------
    loader
        The ``DataLoader``, or the data set in it.
    """

    def __init__(self, loader: BatchDataset[Any] | DataLoader[Any]) -> None:
        self._data_set = cast("BatchDataset[Any]", getattr(loader, "dataset", loader))
        if not hasattr(self._data_set, "n_batches_left"):
            raise InvalidTypeError(
                "ResumeLoader takes a DataLoader over a cellfeed Loader or scDataset: "
                f"{type(loader).__name__} of {type(self._data_set).__name__}"
            )
        # StatefulDataLoader: Lightning keeps the state, but only of unfinished epochs.
        self._is_kept = loader is not self._data_set and hasattr(loader, "load_state_dict")
        self._trainer: Trainer | None = None
        self._loaded: dict[str, Any] | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Lightning's hook: training begins."""
        self._trainer = trainer

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Lightning's hook: the state of an epoch that was used up would yield an empty epoch."""
        if self._is_kept and trainer.is_last_batch:
            kept = checkpoint["loops"]["fit_loop"]["state_dict"]
            if len(kept.get("combined_loader", ())) == 1:
                del kept["combined_loader"]

    def state_dict(self) -> dict[str, Any]:
        """Lightning's hook: what a checkpoint keeps."""
        data_set = self._data_set
        is_between = self._trainer is None or self._trainer.is_last_batch
        saved = {"n_batches": len(data_set), "is_between": is_between}
        if self._is_kept or (is_between and data_set._schedule.epochs.is_counted_by_workers()):
            # The epoch under way has been counted, unless nothing has begun.
            epoch = data_set.epoch if is_between else max(0, data_set.epoch - 1)
            return {**saved, "epoch": epoch}
        return {**saved, "state": data_set.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Lightning's hook: a checkpoint was read."""
        self._loaded = state_dict

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook: training, not only testing, goes on from it."""
        saved, self._loaded = self._loaded, None
        if saved is None:
            return
        n_batches = len(self._data_set)
        if not saved["is_between"] and saved["n_batches"] != n_batches:
            raise InvalidArgumentError(
                f"the checkpoint lies within an epoch of {saved['n_batches']} batches, which now "
                f"has {n_batches}, and Lightning counts on from there: continue with the same "
                "number of ranks and batch size, or from a checkpoint at the end of an epoch"
            )
        state = saved.get("state")
        if state is None:
            self._data_set.set_epoch(saved["epoch"])
            return
        self._data_set.load_state_dict(state)
        # Lightning's epoch may end before that of the data: limit_train_batches.
        is_over = saved["is_between"] and state["consumed"] > 0
        if is_over or self._data_set.n_batches_left == 0:
            self._data_set.set_epoch(state["epoch"] + 1)
