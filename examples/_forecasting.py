"""What both examples of forecasting share: a small transformer, training, errors, a plot."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import numpy as np
import torch


class Forecaster(torch.nn.Module):
    """Patches of a window through a transformer; what it adds to a first guess is learned.

    Parameters
    ----------
    window, horizon, n_features
        Of the data set; ``patch`` rows are one token, and divide ``window``.
    """

    def __init__(
        self, window: int, horizon: int, n_features: int, patch: int, width: int = 32
    ) -> None:
        super().__init__()
        self.n_patches = window // patch
        self.embed = torch.nn.Linear(patch * n_features, width)
        self.position = torch.nn.Parameter(torch.zeros(self.n_patches, width))
        layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.encode = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width * self.n_patches, horizon)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, x: torch.Tensor, guess: torch.Tensor) -> torch.Tensor:
        """Windows (n, window, features) and a guess (n, 1) to the next values, (n, horizon)."""
        patches = x.reshape(len(x), self.n_patches, -1)
        added: torch.Tensor = self.head(self.encode(self.embed(patches) + self.position).flatten(1))
        return guess + added


def train_epoch(model: Any, predict: Any, loader: Any, steps: torch.optim.Optimizer) -> str:
    """One epoch over a loader; how fast it went, and the share of time spent waiting for data."""
    begin, waited = time.perf_counter(), loader.stats()["wait_seconds"]
    for batch in loader:
        x, y = batch.to_torch()
        loss = torch.nn.functional.mse_loss(predict(model, x), y)
        steps.zero_grad()
        loss.backward()
        steps.step()
    seconds = time.perf_counter() - begin
    stall = (loader.stats()["wait_seconds"] - waited) / seconds
    return f"{len(loader) / seconds:.0f} batches/s, waiting {stall:.1%} of the time"


def mean_errors(model: Any, predict: Any, last: Any, loader: Any) -> tuple[float, float]:
    """Mean squared errors of the model, and of the last value said again."""
    ours, baseline, n = 0.0, 0.0, 0
    with torch.no_grad():
        for batch in loader:
            x, y = batch.to_torch()
            ours += float(((predict(model, x) - y) ** 2).sum())
            baseline += float(((last(x) - y) ** 2).sum())
            n += y.numel()
    return ours / n, baseline / n


def save_plot(path: pathlib.Path, title: str, read: np.ndarray, forecasts: np.ndarray) -> None:
    """What was read and what was forecast, windows one after another; needs matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("no matplotlib: no plot")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 3))
    axes.plot(read.ravel(), label="read", color="black", linewidth=1)
    axes.plot(forecasts.ravel(), label="forecast", color="tab:orange", linewidth=1)
    for end in range(read.shape[1], read.size, read.shape[1]):
        axes.axvline(end - 0.5, color="lightgrey", linewidth=0.5)
    axes.set_title(title)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
    print(f"plot: {path}")
