"""SIGTERM and Ctrl-C: how training ends early, on all ranks."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.exceptions import SIGTERMException

_BATCHES_PER_LOOK = 8


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends what goes on as Ctrl-C does."""


class Termination(Callback):
    """Whether this rank was asked to end, and the end of all of them.

    In its loops a rank only remembers a SIGTERM, and all learn of it by what they sum up for each
    batch in any case, so that they end at one step: one that left, or asked others, in the middle
    of what they do together would leave them waiting. (Lightning's own handler does both.) Before
    and behind the loops the rank ends at once, and with it the ranks that it has started.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._is_in_loop = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook: all ranks are there."""
        self._is_in_loop = True

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook, likewise."""
        self._is_in_loop = True

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook, likewise."""
        self._is_in_loop = True

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:  # fmt: skip
        """Lightning's hook."""
        self._look(trainer, pl_module, batch_idx)

    def on_test_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:  # fmt: skip
        """Lightning's hook."""
        self._look(trainer, pl_module, batch_idx)

    def _look(self, trainer: Trainer, module: LightningModule, batch_idx: int) -> None:
        # Ranks have nothing else to say to one another there.
        if trainer.world_size > 1 and batch_idx % _BATCHES_PER_LOOK == 0:
            asked = self.asked(module.device)
            self.end_if(trainer.strategy.reduce(asked, reduce_op="sum"), trainer)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Lightning's hook: there are no steps any more."""
        self._is_in_loop = False

    def asked(self, device: torch.device) -> torch.Tensor:
        """1 where this rank was asked to end, else 0: float64, to be summed over all."""
        return torch.full((), float(self.is_asked), dtype=torch.float64, device=device)

    def end_if(self, n_asked: torch.Tensor, trainer: Trainer) -> None:
        """End the loops, on all ranks alike, where any rank was asked to."""
        if n_asked > 0:
            self.is_asked = trainer._signal_connector.received_sigterm = True
            raise SIGTERMException

    @contextlib.contextmanager
    def handled(self, trainer: Trainer) -> Iterator[None]:
        """SIGTERM and Ctrl-C end the body by :class:`Terminated` and ``KeyboardInterrupt``.

        Lightning ends the program for both, and leaves Ctrl-C without effect.
        """
        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        if is_main:
            notifier = "_sigterm_notifier_fn"
            setattr(trainer._signal_connector, notifier, lambda *_: None)
            signal.signal(signal.SIGTERM, lambda *_: self._receive(trainer))
        try:
            yield
        except SystemExit as error:
            if not trainer.interrupted:
                raise
            raise (Terminated if self.is_asked else KeyboardInterrupt) from error
        except Exception as error:
            if not self.is_asked or trainer.world_size == 1:
                raise
            raise Terminated from error  # another rank was gone already
        finally:
            for number, handler in before.items():
                if is_main and handler is not None:  # None: it is not Python's
                    signal.signal(number, handler)
        if self.is_asked:  # behind the last step
            raise Terminated

    def _receive(self, trainer: Trainer) -> None:
        is_first, self.is_asked = not self.is_asked, True
        launcher: Any = trainer.strategy.launcher
        if is_first and launcher is not None:
            launcher.kill(signal.SIGTERM)  # the ranks that this one has started
        if not self._is_in_loop:
            raise Terminated
        if trainer.world_size == 1:
            trainer._signal_connector.received_sigterm = True
