"""``train``: a configuration becomes a run of Lightning's ``Trainer``."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.loggers import Logger

from .._arguments import as_int
from ..config import Config
from ..errors import InvalidArgumentError, UnsupportedError
from ..vocab import GeneVocab
from ._checkpoints import CheckpointFiles, Checkpoints
from ._checks import (
    require_counts,
    require_enough_cells,
    require_labelled,
    require_same_species,
    warn_of_unseen_labels,
)
from ._data_module import CellDataModule
from ._from_config import arguments_of
from ._history import History, ProgressBar
from ._module import CellModule, Optimization
from ._processing import Processing
from ._ranks import Devices, devices_of, is_first_rank, share_out_of, strategy_of
from ._report import Report, make_report, write_report
from ._run_folder import RunFolder
from ._same_run import RunIdentity, describe, require_same_run
from ._specification import Specification
from ._specified import specification_of


def train(
    config: Config | str | os.PathLike[str],
    *,
    num_devices: int | None = None,
    num_nodes: int | None = None,
    resume: str | os.PathLike[str] | None = None,
    name: str | None = None,
    runs_dir: str | os.PathLike[str] = "runs",
    progress: bool = True,
) -> Report:
    """Train what a configuration describes; what ``cellfeed train`` does.

    On several devices Lightning starts this program again for each, with the same arguments, unless
    torchrun has started them. Everything is checked before the first step.

    Parameters
    ----------
    config
        What :meth:`cellfeed.Config.load` returned, or the file.
    num_devices, num_nodes
        Instead of ``training.num_devices`` and ``training.num_nodes``.
    resume
        ``"auto"``: go on from the run's newest checkpoint where there is one. Or a checkpoint.
    name
        Of the run; that of the configuration's file by default.
    runs_dir
        Folder of runs: checkpoints, metrics.csv, report.html and report.json come to
        ``runs_dir/name``.
    progress
        Show progress on stderr.

    Returns
    -------
    dict
        The report, as report.json has it.

    Raises
    ------
    CellfeedError
        Of the configuration, of the data, of a checkpoint of another data set or another model;
        where a run of that name is there already.
    """
    config = config if isinstance(config, Config) else Config.load(config)
    devices = devices_of(
        config,
        None if num_devices is None else as_int("num_devices", num_devices, 1),
        None if num_nodes is None else as_int("num_nodes", num_nodes, 1),
    )
    folder = RunFolder(runs_dir, Path(config.path).stem if name is None else name)
    checkpoint = folder.resolve(resume)
    training = config.training
    _require_precision(config)
    _require_gpus(config, devices)
    data = _data_of(config)
    if progress and data.is_processed and is_first_rank():
        print(f"data.preprocessing: {data.processing_text}", file=sys.stderr)
    specification = _specified(config, data, devices)
    data.feed(specification, training.mask_fraction)
    run = RunIdentity.of(config, data, devices.world_size)
    if checkpoint is not None:
        require_same_run(checkpoint, specification, run, training.num_epochs)
    loggers = _loggers(config, folder)
    with folder.held(resume, checkpoint) if is_first_rank() else contextlib.nullcontext():
        seed_everything(training.seed % 2**32, verbose=False)
        module = CellModule(
            specification,
            Optimization(training.learning_rate, training.weight_decay, training.warmup_ratio),
            training.seed,
            share_out_of(config),
        )
        history = History(folder.path / "metrics.csv", training.log_every_n_steps)
        callbacks: list[Callback] = [module.termination, history]
        callbacks += [ProgressBar()] if progress else []
        if training.early_stopping_patience:
            stopping = EarlyStopping("val_loss", patience=training.early_stopping_patience)
            callbacks += [stopping, StaysStopped(stopping)]
        description = describe(specification, run)
        checkpoints = Checkpoints(folder, training.checkpoint_every_n_steps, description)
        callbacks.append(checkpoints)
        trainer = _trainer(config, devices, callbacks, loggers)
        with _quiet_warnings(), module.termination.handled(trainer):
            trainer.fit(module, datamodule=data, ckpt_path=checkpoint, weights_only=True)
            loader = trainer.train_dataloader
            if trainer.is_global_zero and checkpoint is not None:
                folder.keep(checkpoint)
            _judge(trainer, module, data, checkpoints, history)
        report = make_report(folder.path, config, devices, data, module, trainer, loader, history)
        if trainer.is_global_zero:
            history.write()
            write_report(folder.path, report)
        _leave_group(trainer)
    return report


class StaysStopped(Callback):
    """A run that was stopped early does not go on when it is resumed.

    Parameters
    ----------
    stopping
        What stopped it.
    """

    def __init__(self, stopping: EarlyStopping) -> None:
        self._stopping = stopping

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Lightning's hook, once a checkpoint was read."""
        if self._stopping.wait_count >= self._stopping.patience:
            trainer.should_stop = True


def _judge(
    trainer: Trainer,
    module: CellModule,
    data: CellDataModule,
    checkpoints: Checkpoints,
    history: History,
) -> None:
    """Scores of the parts that training does not learn, of the best weights all of them."""
    rows = history.rows
    best = checkpoints.best_of(trainer)
    if "val" in data.parts and not (checkpoints.is_best(trainer) and module.scores):
        trainer.validate(module, datamodule=data, verbose=False, ckpt_path=best, weights_only=True)
    if "test" in data.parts:
        trainer.test(module, datamodule=data, verbose=False, ckpt_path=best, weights_only=True)
    history.rows = rows  # a checkpoint has those until it was written


def _require_gpus(config: Config, devices: Devices) -> None:
    if not torch.cuda.is_available() or devices.num_devices <= torch.cuda.device_count():
        return
    raise InvalidArgumentError(
        f"{config.path}: {devices.num_devices} devices of this machine are asked for, of which "
        f"PyTorch sees {torch.cuda.device_count()}: give training.num_devices fewer, or "
        "CUDA_VISIBLE_DEVICES= in the environment to train on CPUs"
    )


class _Cells(CellDataModule):
    """Copies to a device are not waited for, as Lightning would wait."""

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        return batch.to(device, non_blocking=True)


def _require_precision(config: Config) -> None:
    if config.training.precision == "16-mixed" and not torch.cuda.is_available():
        raise InvalidArgumentError(
            f"{config.path}: training.precision: '16-mixed' is for GPUs, and there is none here: "
            "give bf16-mixed or 32-true on a CPU"
        )


def _data_of(config: Config) -> CellDataModule:
    selects_genes = config.model.architecture != "mlp"
    data = _Cells(**arguments_of(config, selects_genes=selects_genes))
    data.process(Processing.of_config(config))
    data.setup()
    if config.training.early_stopping_patience and "val" not in data.parts:
        raise InvalidArgumentError(
            f"{config.path}: training.early_stopping_patience watches the validation loss, and no "
            f"cell has the part 'val' in {config.data.split.column}, of data.split.column"
        )
    return data


def _specified(config: Config, data: CellDataModule, devices: Devices) -> Specification:
    train = data.parts["train"]
    require_enough_cells(train, devices.world_size)
    if isinstance(data.genes, GeneVocab):
        require_same_species(data.cells, data.genes)
    specification = specification_of(config, data)
    if specification.label_key is not None:
        require_labelled(data.parts, specification.label_key)
        if is_first_rank():
            warn_of_unseen_labels(data.parts, specification.label_key)
    if not data.is_processed:
        require_counts(train, specification.processing().transforms())
    return specification


def _loggers(config: Config, folder: RunFolder) -> Logger | Literal[False]:
    if not config.training.tensorboard:
        return False
    from lightning.pytorch.loggers import TensorBoardLogger

    try:
        import torch.utils.tensorboard  # noqa: F401 - Lightning imports it while training only
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"{config.path}: training.tensorboard needs TensorBoard: pip install tensorboard, or "
            "leave it out; metrics.csv is written in any case"
        ) from error
    return TensorBoardLogger(folder.path, name="tensorboard", version="")


def _trainer(
    config: Config, devices: Devices, callbacks: list[Callback], loggers: Logger | Literal[False]
) -> Trainer:
    training = config.training
    return Trainer(
        devices=devices.num_devices,
        num_nodes=devices.num_nodes,
        strategy=strategy_of(config, devices),
        max_epochs=training.num_epochs,
        precision=training.precision,
        accumulate_grad_batches=training.accumulate_grad_batches,
        gradient_clip_val=training.gradient_clip_val or None,
        log_every_n_steps=training.log_every_n_steps,
        callbacks=callbacks,
        plugins=[CheckpointFiles()],
        logger=loggers,
        enable_checkpointing=True,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )


class _quiet_warnings(warnings.catch_warnings):  # noqa: N801
    """Without what Lightning says of matters that are settled here."""

    def __enter__(self) -> Any:
        entered = super().__enter__()
        for text in ("GPU available but not used", ".*does not have many workers",
                     ".*sync_dist=True", "Total length of `list`", ".*isinstance\\(treespec",
                     ".*val_dataloader.* does not"):  # fmt: skip
            warnings.filterwarnings("ignore", text)
        return entered


def _leave_group(trainer: Trainer) -> None:
    """End the process group while its threads still have an interpreter to end in."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return
    trainer.strategy.barrier()
    trainer.strategy.model = None
    gc.collect()
    distributed.destroy_process_group()
