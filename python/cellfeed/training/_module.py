"""The Lightning module: losses, scores, optimizer and schedule of what is trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from lightning.pytorch import LightningModule
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.nn import functional

from .._torch import TokenTensors
from ..errors import InvalidArgumentError
from ._confusion import Scores, confusion_of, scores_of
from ._networks import CellNetwork, CellTensors, hidden_of
from ._specification import Specification
from ._termination import Termination
from ._transformer import GeneTransformer


@dataclass(frozen=True)
class Optimization:
    """Of AdamW: rate after warm-up, decay of matrices, share of the steps that warm up."""

    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup_ratio: float = 0.05


# Shares out the parameters of a list of blocks and of the whole network, in place.
ShareOut = Callable[[list[nn.Module], nn.Module, DeviceMesh | None], None]


class CellModule(LightningModule):
    """A network with its heads, trained on batches of a :class:`~cellfeed.Loader`.

    The loss of labels is the mean over the cells of **all** ranks that have one, and that of hidden
    tokens the mean over these, so that it does not depend on how many ranks share a batch. Dropout
    depends on (seed, epoch, batch, rank) alone.

    Parameters
    ----------
    specification
        What to make.
    optimization
        How to train it.
    seed
        Of dropout.
    share_out
        How parameters are shared out over ranks; ``None``: they are not.
    """

    def __init__(
        self,
        specification: Specification,
        optimization: Optimization | None = None,
        seed: int = 0,
        share_out: ShareOut | None = None,
    ) -> None:
        super().__init__()
        self.specification = specification
        self.optimization = Optimization() if optimization is None else optimization
        self.seed = seed
        self._share_out = share_out
        self._is_shared = False
        self.network = CellNetwork(specification)
        self.scores: dict[str, Scores] = {}
        self._sums: dict[str, torch.Tensor] = {}
        self._last_loss: tuple[int, torch.Tensor | None] = (0, None)
        self.termination = Termination()
        self._n_asked: torch.Tensor | None = None  # ranks that were asked to end, at the last step

    def configure_model(self) -> None:
        """Lightning's hook: the process group is there."""
        if self._share_out is not None and not self._is_shared:
            self._is_shared = True
            self._share_out(list(self.network.encoder.blocks), self.network, self.device_mesh)

    def forward(self, batch: CellTensors) -> dict[str, torch.Tensor]:
        """What :class:`~cellfeed.training._networks.CellNetwork` makes of a batch."""
        out: dict[str, torch.Tensor] = self.network(batch)
        return out

    def _labels(self, batch: CellTensors) -> torch.Tensor:
        assert self.specification.label_key is not None
        codes = batch[self.specification.label_key]
        return codes.masked_fill(batch.is_padding, -1).long()

    def _losses(self, batch: CellTensors) -> tuple[dict[str, torch.Tensor], torch.Tensor | None]:
        """Of each objective the summed loss and what it is of; and the confusion matrix."""
        out = self(batch)
        losses, confusion = {}, None
        if "logits" in out:
            logits, labels = out["logits"].float(), self._labels(batch)
            loss = functional.cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
            losses["label"] = torch.stack([loss, (labels >= 0).sum().to(loss.dtype)])
            n_classes = len(self.specification.classes)
            confusion = confusion_of(labels, logits.argmax(dim=1), n_classes)
        if "hidden" in out:
            losses["hidden"] = self._hidden_loss(out["hidden"].float(), cast(TokenTensors, batch))
        return losses, confusion

    def _hidden_loss(self, predicted: torch.Tensor, batch: TokenTensors) -> torch.Tensor:
        is_hidden = hidden_of(batch)
        if self.specification.predicts == "genes":
            assert batch.labels is not None
            loss = functional.cross_entropy(predicted, batch.labels[is_hidden], reduction="sum")
        else:
            assert batch.value_labels is not None
            encoder = cast(GeneTransformer, self.network.encoder)
            wanted = batch.value_labels[is_hidden] * encoder.value_scale
            loss = functional.mse_loss(predicted.squeeze(1), wanted, reduction="sum")
        return torch.stack([loss, torch.full_like(loss, len(predicted))])

    def on_train_start(self) -> None:
        """Lightning's hook: a checkpoint has brought the decay that it was trained with."""
        for optimizer in self.trainer.optimizers:
            optimizer.param_groups[0]["weight_decay"] = self.optimization.weight_decay

    def on_train_batch_start(self, batch: CellTensors, batch_idx: int) -> None:
        """Lightning's hook: dropout and rate are functions of the step, so a checkpoint keeps none.

        The rate rises for the warm-up and then falls as a cosine, to 0 at the end.
        """
        numbers = [self.seed, self.current_epoch, batch_idx, self.global_rank]
        torch.manual_seed(_mixed(numbers))
        chosen, n_steps = self.optimization, self._n_steps()
        n_warm = math.ceil(n_steps * chosen.warmup_ratio)
        rate = chosen.learning_rate * rate_factor(self.global_step, n_warm, n_steps)
        for optimizer in self.trainer.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate

    def _n_steps(self) -> int:
        trainer = self.trainer
        if trainer.max_steps > 0:
            return int(trainer.max_steps)
        per_epoch = math.ceil(trainer.num_training_batches / trainer.accumulate_grad_batches)
        return per_epoch * max(1, trainer.max_epochs or 1)

    def training_step(self, batch: CellTensors, batch_idx: int) -> torch.Tensor:
        """The loss of a batch, such that the mean over ranks is that of all their cells."""
        self.require_finite()
        if self._n_asked is not None:  # waited for a step later, too
            self.termination.end_if(self._n_asked, self.trainer)
        losses, _ = self._losses(batch)
        names = list(losses)
        mine = torch.stack([losses[name] for name in names])
        asked = self.termination.asked(self.device).expand(1, 2)
        total = self._summed(torch.cat([mine.detach().double(), asked]))
        total, self._n_asked = total[:-1], total[-1, 0]
        n_all = total[:, 1].clamp(min=1)
        loss = (total[:, 0] / n_all).sum()
        self._last_loss = (self.global_step, loss)
        self.log("train_loss", loss, batch_size=len(batch), logger=False)  # History has it
        return (mine[:, 0] / n_all.to(mine.dtype)).sum() * self.trainer.world_size

    def require_finite(self) -> None:
        """Stop where the last step's loss is not a number; before the next step and each save.

        A step later than it is known: a device would have to be waited for.

        Raises
        ------
        InvalidArgumentError
            On all ranks alike.
        """
        (step, loss), self._last_loss = self._last_loss, (0, None)
        if loss is not None and not bool(torch.isfinite(loss)):
            raise InvalidArgumentError(
                f"the loss of step {step + 1} is {float(loss):g}: training ends, as the weights "
                "say nothing any more. Look for NaN, infinite or huge values in X, give "
                f"data.preprocessing, or lower training.learning_rate{self._of_half()}; the "
                "checkpoints are of steps before"
            )

    def _of_half(self) -> str:
        if self.trainer.precision != "16-true":
            return ""
        return "; numbers of training.precision 16-true end at 65,504: bf16-true has larger ones"

    def _summed(self, values: torch.Tensor) -> torch.Tensor:
        summed: torch.Tensor = self.trainer.strategy.reduce(values, reduce_op="sum")
        return summed

    def on_validation_epoch_start(self) -> None:
        """Lightning's hook."""
        self.require_finite()
        self._sums = {}

    def on_test_epoch_start(self) -> None:
        """Lightning's hook."""
        self._sums = {}

    def validation_step(self, batch: CellTensors, batch_idx: int) -> None:
        """Add a batch to the sums."""
        losses, confusion = self._losses(batch)
        for name, loss in losses.items():
            self._add(f"{name}_loss", loss.double())
        if confusion is not None:
            self._add("confusion", confusion)

    def test_step(self, batch: CellTensors, batch_idx: int) -> None:
        """As in validation."""
        self.validation_step(batch, batch_idx)

    def _add(self, name: str, values: torch.Tensor) -> None:
        self._sums[name] = self._sums[name] + values if name in self._sums else values

    def on_validation_epoch_end(self) -> None:
        """Lightning's hook: scores over all ranks."""
        self._score("val")

    def on_test_epoch_end(self) -> None:
        """Lightning's hook: scores over all ranks."""
        self._score("test")

    def _score(self, part: str) -> None:
        losses: dict[str, float] = {}
        for name, sums in self._sums.items():
            if name != "confusion":
                loss, count = self._summed(sums).tolist()
                losses[name] = loss / max(1.0, count)
        if part == "val":
            self._require_finite_score(losses)
        scores: Scores = {**losses, "loss": sum(losses.values())}
        if "confusion" in self._sums:
            confusion = self._summed(self._sums["confusion"]).cpu().numpy()
            scores |= {**scores_of(confusion), "confusion": confusion}
        self.scores[part] = scores
        to_loggers = part == "test" and bool(self.trainer.loggers)  # of others History has rows
        for name in ("loss", "label_loss", "hidden_loss", "accuracy", "macro_f1"):
            if name in scores:
                self.log(f"{part}_{name}", float(scores[name]), logger=to_loggers)

    def _require_finite_score(self, losses: dict[str, float]) -> None:
        for name, loss in losses.items():
            if not math.isfinite(loss):
                raise InvalidArgumentError(
                    f"the {name} of the validation cells is {loss:g} after step "
                    f"{self.global_step}: no checkpoint could be the best. Look for NaN, infinite "
                    f"or huge values in X, in cells of that part above all{self._of_half()}"
                )

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW; vectors, such as biases, do not decay."""
        chosen = self.optimization
        matrices = [p for p in self.parameters() if p.ndim > 1]
        vectors = [p for p in self.parameters() if p.ndim <= 1]
        groups = [
            {"params": matrices, "weight_decay": chosen.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        # Squares of gradients below 2e-4 are 0 in float16, and so is the usual 1e-8.
        is_half = any(p.dtype == torch.float16 for p in matrices)
        return torch.optim.AdamW(groups, lr=chosen.learning_rate, eps=1e-4 if is_half else 1e-8)


def rate_factor(step: int, n_warm: int, n_steps: int) -> float:
    """Of the highest learning rate: linear warm-up, then half a cosine.

    Parameters
    ----------
    step
        From 0.
    n_warm, n_steps
        Steps of the warm-up, and in all.
    """
    if step < n_warm:
        return (step + 1) / n_warm
    done = (step - n_warm) / max(1, n_steps - n_warm)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def _mixed(numbers: list[int]) -> int:
    """One seed of several numbers: the 64-bit finaliser of MurmurHash3 over their sum."""
    mixed = 0
    for number in numbers:
        mixed = (mixed ^ number) + 0x9E3779B97F4A7C15 & 2**64 - 1
        mixed = (mixed ^ mixed >> 33) * 0xFF51AFD7ED558CCD & 2**64 - 1
        mixed = (mixed ^ mixed >> 33) * 0xC4CEB9FE1A85EC53 & 2**64 - 1
        mixed ^= mixed >> 33
    return mixed
