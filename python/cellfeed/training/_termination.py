"""SIGTERM and Ctrl-C: how training ends early, on all ranks."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.exceptions import SIGTERMException


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

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Lightning's hook: there are no steps any more."""
        self._is_in_loop = False

    def end(self, trainer: Trainer) -> NoReturn:
        """End the loops, at a step where all ranks do."""
        self.is_asked = trainer._signal_connector.received_sigterm = True
        raise SIGTERMException

    @contextlib.contextmanager
    def handled(self, trainer: Trainer) -> Iterator[None]:
        """SIGTERM and Ctrl-C end the body by :class:`Terminated` and ``KeyboardInterrupt``.

        Lightning ends the program for both, and leaves Ctrl-C without effect.
        """
        is_main = threading.current_thread() is threading.main_thread()
        of_sigint = signal.getsignal(signal.SIGINT)
        of_sigterm = signal.getsignal(signal.SIGTERM)
        if is_main:
            setattr(trainer._signal_connector, "_sigterm_notifier_fn", _do_nothing)  # noqa: B010
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
            if is_main:
                signal.signal(signal.SIGINT, of_sigint)
                signal.signal(signal.SIGTERM, of_sigterm)
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


def _do_nothing(*_: object) -> None:
    pass
