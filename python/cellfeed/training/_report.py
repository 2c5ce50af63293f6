"""The report of a run: plain numbers, as report.json has them, and a page made of these."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from lightning.pytorch import Trainer

from ..config import Config
from ..loader import Loader
from ._data_module import CellDataModule
from ._history import History
from ._module import CellModule
from ._ranks import Devices
from ._report_page import page_of
from ._whole_file import whole_file

_NAME = "report.json"


class Report(TypedDict):
    """What report.json has: plain numbers, texts and lists, and None instead of NaN."""

    name: str
    folder: str
    rank: int
    n_cells: dict[str, int]
    n_genes: int
    preprocessing: str
    n_parameters: int
    world_size: int
    epochs: int
    steps: int
    classes: list[str]
    scores: dict[str, dict[str, Any]]
    loader: dict[str, float]
    history: list[dict[str, float | None]]
    settings: dict[str, Any]


def make_report(
    folder: Path,
    config: Config,
    devices: Devices,
    data: CellDataModule,
    module: CellModule,
    trainer: Trainer,
    loader: Loader[Any] | None,
    history: History,
) -> Report:
    """What is there to say of a run that ended.

    Parameters
    ----------
    folder, config, devices, data, module, trainer, loader, history
        Of the run.
    """
    settings = {name: config[name] for name in config}
    # Not current_epoch, which stays at the last one where a run was stopped early.
    done: Any = trainer.fit_loop.epoch_progress.current
    report: Report = {
        "name": folder.name,
        "folder": str(folder),
        "rank": trainer.global_rank,
        "n_cells": {name: len(cells) for name, cells in data.parts.items()},
        "n_genes": len(module.specification.genes),
        "preprocessing": data.processing_text,
        "n_parameters": sum(parameter.numel() for parameter in module.parameters()),
        "world_size": devices.world_size,
        "epochs": done.processed,
        "steps": trainer.global_step,
        "classes": [str(name) for name in module.specification.classes],
        "scores": dict(module.scores),
        "loader": {},
        "history": [{**row} for row in history.rows],
        "settings": settings,
    }
    if loader is None or not loader.stats()["cells"]:  # the run was over when it was resumed
        report["loader"] = _loader_before(folder / _NAME, trainer.global_step)
    else:
        report["loader"] = _loader(loader, data, module.specification.label_key)
    plain: Report = _plain(report)
    return plain


def _plain(values: Any) -> Any:
    """As JSON has it: lists instead of arrays, null instead of NaN."""
    if isinstance(values, dict):
        return {name: _plain(value) for name, value in values.items()}
    if isinstance(values, np.ndarray):
        return _plain(values.tolist())
    if isinstance(values, list):
        return [_plain(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def _loader_before(path: Path, n_steps: int) -> dict[str, float]:
    """What the report says that was written when the run ended, if there is one."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(before, dict) or before.get("steps") != n_steps:
        return {}
    kept = before.get("loader")
    if not isinstance(kept, dict):
        return {}
    return kept if all(isinstance(value, int | float) for value in kept.values()) else {}


def _loader(loader: Loader[Any], data: CellDataModule, label_key: str | None) -> dict[str, float]:
    stats = loader.stats()
    out: dict[str, float] = {
        "cells": stats["cells"],
        "cells_per_second": stats["cells_per_second"],
        "bytes_read": stats["bytes_read"],
        "wait_seconds": stats["wait_seconds"],
    }
    if label_key is not None:
        codes = data.parts["train"].obs_values(label_key)
        counts = np.bincount(codes[codes >= 0])
        out["label_entropy_bits"] = stats["label_entropy_bits"][label_key]
        out["label_entropy_bits_at_random"] = entropy_at_random(counts, loader.batch_size)
    return out


def entropy_at_random(counts: np.ndarray, batch_size: int, n_batches: int = 200) -> float:
    """Mean entropy in bits of the labels of batches that are drawn at random, with a fixed seed.

    Parameters
    ----------
    counts
        Cells of each label.
    batch_size
        Cells of a batch, drawn without repetition.
    n_batches
        How many are drawn.
    """
    size = min(batch_size, int(counts.sum()))
    random = np.random.default_rng(0)
    drawn = random.multivariate_hypergeometric(counts, size, n_batches, method="marginals") / size
    logarithms = np.log2(drawn, out=np.zeros_like(drawn), where=drawn > 0)
    return float(-(drawn * logarithms).sum(axis=1).mean())


def write_report(folder: Path, report: Report) -> None:
    """Write report.json and report.html, each in place of the one before.

    Parameters
    ----------
    folder
        Of the run.
    report
        As :func:`make_report` gives it.
    """
    _replace(folder / _NAME, json.dumps(report, indent=1, allow_nan=False) + "\n")
    _replace(folder / "report.html", page_of(report))


def _replace(path: Path, text: str) -> None:
    with whole_file(path) as beside:
        beside.write_text(text, encoding="utf-8")
