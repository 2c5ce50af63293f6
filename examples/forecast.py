"""Forecast a day of transformer temperatures from four: windows of a series, a small transformer.

python examples/forecast.py [--csv ETTh1.csv]

Without a file it makes series of the same shape: daily and weekly waves, a drift, noise. Rows of
the last fifth are held out; the scaler never looks at them.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import time

import numpy as np
import pandas as pd
import torch

import cellfeed as cf
from cellfeed.series import SeriesDataset, build_series

WINDOW, HORIZON = 96, 24


def write_series(path: pathlib.Path, n_hours: int) -> None:
    """Hourly rows of seven features, of which OT is to be forecast."""
    random = np.random.default_rng(0)
    hours = np.arange(n_hours)
    frame = pd.DataFrame({"date": pd.date_range("2016-07-01", periods=n_hours, freq="h")})
    for number, name in enumerate(["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]):
        daily = np.sin(2 * np.pi * (hours / 24 + number / 7))
        weekly = np.sin(2 * np.pi * hours / 168)
        drift = random.normal(0, 0.05, n_hours).cumsum()
        frame[name] = 10 + 4 * daily + weekly + drift + random.normal(0, 0.3, n_hours)
    frame.to_csv(path, index=False)


class Forecaster(torch.nn.Module):
    """Patches of 8 hours through a transformer; what it adds to the last value is learned."""

    def __init__(self, n_features: int, target: int, width: int = 32) -> None:
        super().__init__()
        self.target = target
        self.embed = torch.nn.Linear(8 * n_features, width)
        self.position = torch.nn.Parameter(torch.zeros(WINDOW // 8, width))
        layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.encode = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width * (WINDOW // 8), HORIZON)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Windows (n, 96, features) to the target's next 24 values."""
        last = x[:, -1:, :]
        patches = (x - last).reshape(len(x), WINDOW // 8, -1)
        return last[:, 0, self.target, None] + self.head(
            self.encode(self.embed(patches) + self.position).flatten(1)
        )


def mean_error(model, loader) -> tuple[float, float]:
    """Mean squared error of the model, and of the last value said again."""
    ours, last, n = 0.0, 0.0, 0
    with torch.no_grad():
        for batch in loader:
            x, y = batch.to_torch()
            ours += float(((model(x) - y) ** 2).sum())
            last += float(((x[:, -1:, model.target] - y) ** 2).sum())
            n += y.numel()
    return ours / n, last / n


parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
parser.add_argument("--csv", type=pathlib.Path, help="ETTh1.csv, or a file of its columns")
parser.add_argument("--output-dir", type=pathlib.Path, default="build/examples")
parser.add_argument("--short", action="store_true", help="one short epoch")
options = parser.parse_args()
options.output_dir.mkdir(parents=True, exist_ok=True)
csv = options.csv or options.output_dir / "hourly.csv"
if options.csv is None:
    write_series(csv, 2_000 if options.short else 12_000)
torch.manual_seed(0)
torch.set_num_threads(1)

dates = pd.read_csv(csv, usecols=["date"]).date
cut = dates.iloc[int(len(dates) * 0.8)]
folder = options.output_dir / "series"
shutil.rmtree(folder, ignore_errors=True)
result = build_series(csv, folder, time="date", target="OT", fit_until=cut)
print(f"{result.n_rows} rows of {result.n_features} features; statistics of rows before {cut}")

ds = SeriesDataset(folder, window=WINDOW, horizon=HORIZON, target="OT")
parts = ds.split(by="time", dates={"train": cut, "test": None})
train = cf.Loader(parts["train"], cf.BlockShuffling(1), batch_size=64, seed=0, drop_last=True)
test = cf.Loader(parts["test"], cf.Streaming(), batch_size=256)
model = Forecaster(len(ds.features), ds.features.index("OT"))
steps = torch.optim.Adam(model.parameters(), 2e-3)

for epoch in range(1 if options.short else 3):
    begin, waited = time.perf_counter(), train.stats()["wait_seconds"]
    for batch in train:
        x, y = batch.to_torch()
        loss = torch.nn.functional.mse_loss(model(x), y)
        steps.zero_grad()
        loss.backward()
        steps.step()
    seconds = time.perf_counter() - begin
    stall = (train.stats()["wait_seconds"] - waited) / seconds
    error, last = mean_error(model, test)
    print(
        f"epoch {epoch}: {len(train) / seconds:.0f} batches/s, waiting {stall:.1%} of the time; "
        f"held-out MSE {error:.3f}, last value {last:.3f}"
    )

x, y = parts["test"].batch([0])
with torch.no_grad():
    forecast = ds.inverse(model(x))[0]
print("the first held-out day, read and forecast, every 6 hours:")
for hour in range(0, HORIZON, 6):
    print(f"  {hour:2d} h  {ds.inverse(y)[0][hour]:6.2f}  {forecast[hour]:6.2f}")
