"""Five days of many stocks from sixty: log returns of windows, a small transformer.

python examples/stock_prices.py [--prices FOLDER_OF_CSV]

One file a stock, with Date, Open, High, Low, Close and Volume, such as StockNet's; without a folder
it makes some whose returns have a little memory. Each stock has a scale of its own, and windows are
log returns, so that a share of 10 and one of 200,000 look alike. The last fifth of the days is held
out; the scaler never looks at it. The baseline says that prices stay: of real prices a model is
hardly better, and this prints how much.
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
from cellfeed.series import LogReturns, SeriesDataset, WindowNorm, build_series

WINDOW, HORIZON = 60, 5
PRICES = ["Open", "High", "Low", "Close"]
PERCENT = 100.0  # the model sees returns in percent: numbers near 1


def write_prices(folder: pathlib.Path, n_stocks: int, n_days: int) -> None:
    """Stocks whose return of a day is partly that of the day before; one was listed late."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for stock in range(n_stocks):
        n = n_days if stock else n_days // 3
        returns = random.normal(0, 0.01, n)
        for day in range(1, n):
            returns[day] += 0.6 * returns[day - 1]
        close = random.uniform(5, 500) * np.exp(returns.cumsum())
        days = pd.bdate_range(end="2017-09-01", periods=n)
        frame = pd.DataFrame({"Date": days, "Close": close})
        frame["Open"] = frame.Close.shift(1, fill_value=close[0])
        frame["High"] = frame[["Open", "Close"]].max(axis=1) * 1.002
        frame["Low"] = frame[["Open", "Close"]].min(axis=1) * 0.998
        frame["Volume"] = random.lognormal(12, 0.3, n).round()
        frame.to_csv(folder / f"S{stock:02}.csv", index=False)


parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
parser.add_argument("--prices", type=pathlib.Path, help="a folder of CSV files, one a stock")
parser.add_argument("--output-dir", type=pathlib.Path, default="build/examples")
parser.add_argument("--short", action="store_true", help="one short epoch")
options = parser.parse_args()
prices = options.prices or options.output_dir / "prices"
if options.prices is None:
    shutil.rmtree(prices, ignore_errors=True)
    write_prices(prices, 6 if options.short else 30, 400 if options.short else 1_200)
torch.manual_seed(0)
torch.set_num_threads(1)

dates = pd.concat([pd.read_csv(file, usecols=["Date"]).Date for file in prices.glob("*.csv")])
cut = dates.sort_values().iloc[int(len(dates) * 0.8)]
folder = options.output_dir / "stocks"
shutil.rmtree(folder, ignore_errors=True)
result = build_series(
    prices, folder, time="Date", features=[*PRICES, "Volume"], target="Close", scale="entity",
    fit_until=cut,
)  # fmt: skip
print(f"{result.n_rows} days of {result.n_entities} stocks; statistics of days before {cut}")

ds = SeriesDataset(
    folder,
    window=WINDOW,
    horizon=HORIZON,
    target="Close",
    transforms=[LogReturns(PRICES), WindowNorm("zscore", "Volume")],
)
parts = ds.split(by="time", dates={"train": cut, "test": None})
train = cf.series.SeriesLoader(
    parts["train"], cf.BlockShuffling(1), batch_size=64, seed=0, drop_last=True
)
test = cf.series.SeriesLoader(parts["test"], cf.Streaming(), batch_size=256)


def last_value(x: torch.Tensor) -> torch.Tensor:
    """That the price stays: returns of 0, (n, 1)."""
    return torch.zeros(len(x), 1)


def predict(model: Forecaster, x: torch.Tensor) -> torch.Tensor:
    """Returns of the next days."""
    percent = torch.cat([x[..., : len(PRICES)] * PERCENT, x[..., len(PRICES) :]], -1)
    forecast: torch.Tensor = model(percent, last_value(x)) / PERCENT
    return forecast


model = Forecaster(WINDOW, HORIZON, len(ds.features), patch=5)
steps = torch.optim.Adam(model.parameters(), 1e-3)
for epoch in range(1 if options.short else 4):
    speed = train_epoch(model, predict, train, steps)
    error, last = mean_errors(model, predict, last_value, test)
    print(
        f"epoch {epoch}: {speed}; held-out MSE of returns {error * PERCENT**2:.4f} %^2, "
        f"last value {last * PERCENT**2:.4f} %^2"
    )

part = parts["test"]
name = part.entity_of(0)
windows = [i for i in range(0, min(len(part), 60), HORIZON) if part.entity_of(i) == name]
x, y = part.batch(windows)
with torch.no_grad():
    forecasts = part.inverse(predict(model, x), index=windows)
save_plot(
    options.output_dir / "stock_prices.png",
    f"{name}: closing prices, held out",
    part.inverse(y, index=windows),
    forecasts,
)
