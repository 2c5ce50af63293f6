"""Forecast a day of transformer temperatures from four: windows of a series, a small transformer.

python examples/forecast.py [--csv ETTh1.csv]

Without a file it makes series of the same shape: daily and weekly waves, a drift, noise. Rows of
the last fifth are held out; the scaler never looks at them.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil

import numpy as np
import pandas as pd
import torch
from _forecasting import Forecaster, mean_errors, save_plot, train_epoch

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
train = cf.series.SeriesLoader(
    parts["train"], cf.BlockShuffling(1), batch_size=64, seed=0, drop_last=True
)
test = cf.series.SeriesLoader(parts["test"], cf.Streaming(), batch_size=256)
target = ds.features.index("OT")


def last_value(x: torch.Tensor) -> torch.Tensor:
    """The last value of the target, (n, 1)."""
    return x[:, -1:, target]


def predict(model: Forecaster, x: torch.Tensor) -> torch.Tensor:
    """The next day, from a window less its last row."""
    forecast: torch.Tensor = model(x - x[:, -1:, :], last_value(x))
    return forecast


model = Forecaster(WINDOW, HORIZON, len(ds.features), patch=8)
steps = torch.optim.Adam(model.parameters(), 2e-3)
for epoch in range(1 if options.short else 3):
    speed = train_epoch(model, predict, train, steps)
    error, last = mean_errors(model, predict, last_value, test)
    print(f"epoch {epoch}: {speed}; held-out MSE {error:.3f}, last value {last:.3f}")

days = range(0, min(len(parts["test"]), 7 * HORIZON), HORIZON)
x, y = parts["test"].batch(list(days))
with torch.no_grad():
    forecasts = ds.inverse(predict(model, x))
save_plot(options.output_dir / "forecast.png", "OT, a week held out", ds.inverse(y), forecasts)
