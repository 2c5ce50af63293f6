"""The same windows out of pytorch-forecasting's TimeSeriesDataSet and gluonts' InstanceSplitter.

python benchmarks/series/rivals.py [--entities N] [--rows N] [--batches N] [--rounds N]

Windows of 60 rows x 20 features and the next row of them, batches of 512 in random order, one
process each, as these libraries make them; a library that is not installed is passed over, and is
no requirement of the project. Both hold all rows in memory, so that the data are small. Rounds
alternate; a ratio is that of one round, and the median of the rounds is printed.
"""

import argparse
import importlib.util
import pathlib
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pandas as pd

import cellfeed as cf
from cellfeed.series import SeriesDataset, build_series

WINDOW, N_FEATURES, BATCH = 60, 20, 512
FEATURES = [f"f{number}" for number in range(N_FEATURES)]


def make_frame(n_entities: int, n_rows: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    values = random.normal(size=(n_entities * n_rows, N_FEATURES)).astype(np.float32)
    frame = pd.DataFrame(values, columns=FEATURES)
    frame["e"] = np.repeat([f"e{e}" for e in range(n_entities)], n_rows)
    frame["t"] = np.tile(np.arange(n_rows), n_entities)
    return frame


def forecasting_batches(frame: pd.DataFrame) -> Iterator[object]:
    """X is ``encoder_cont``, y the first of its pair: (512, 60, 20) and a list of (512, 1)."""
    from pytorch_forecasting import TimeSeriesDataSet
    from pytorch_forecasting.data import MultiNormalizer, TorchNormalizer

    ds = TimeSeriesDataSet(
        frame,
        time_idx="t",
        target=FEATURES,
        group_ids=["e"],
        min_encoder_length=WINDOW,
        max_encoder_length=WINDOW,
        min_prediction_length=1,
        max_prediction_length=1,
        time_varying_unknown_reals=FEATURES,
        target_normalizer=MultiNormalizer([TorchNormalizer("identity") for _ in FEATURES]),
    )
    loader = ds.to_dataloader(train=True, batch_size=BATCH, num_workers=0)
    while True:
        yield from loader


def check_forecasting(batch: object) -> None:
    x, (y, _) = batch  # type: ignore[misc]
    assert tuple(x["encoder_cont"].shape) == (BATCH, WINDOW, N_FEATURES), x["encoder_cont"].shape
    assert len(y) == N_FEATURES and tuple(y[0].shape) == (BATCH, 1)


def gluonts_batches(frame: pd.DataFrame) -> Iterator[object]:
    """``past_target`` and ``future_target``: (512, 60, 20) and (512, 1, 20)."""
    from gluonts.itertools import batcher
    from gluonts.transform import ExpectedNumInstanceSampler, InstanceSplitter

    entries = [
        {"target": rows[FEATURES].to_numpy().T, "start": pd.Period("2020-01-01", "D")}
        for _, rows in frame.groupby("e", sort=False)
    ]
    order = np.random.default_rng(0)
    splitter = InstanceSplitter(
        target_field="target",
        is_pad_field="is_pad",
        start_field="start",
        forecast_start_field="forecast_start",
        # About a window of an entity each time that it comes, as training with it does.
        instance_sampler=ExpectedNumInstanceSampler(
            num_instances=1.0, min_past=WINDOW, min_future=1
        ),
        past_length=WINDOW,
        future_length=1,
    )

    def endless() -> Iterator[dict]:
        while True:
            for number in order.permutation(len(entries)):
                yield dict(entries[number])

    for windows in batcher(splitter(endless(), is_train=True), BATCH):
        yield {
            name: np.stack([window[name] for window in windows])
            for name in ("past_target", "future_target")
        }


def check_gluonts(batch: object) -> None:
    assert batch["past_target"].shape == (BATCH, WINDOW, N_FEATURES)  # type: ignore[index]
    assert batch["future_target"].shape == (BATCH, 1, N_FEATURES)  # type: ignore[index]


def rate(batches: Iterator[object], n: int) -> float:
    """Batches a second, the first not counted."""
    next(batches)
    begin = time.perf_counter()
    done = sum(1 for _ in islice(batches, n))
    return done / (time.perf_counter() - begin)


RIVALS = {
    "pytorch_forecasting": ("pytorch-forecasting", forecasting_batches, check_forecasting),
    "gluonts": ("gluonts' InstanceSplitter", gluonts_batches, check_gluonts),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entities", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=300, help="of ours; a rival makes fewer")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    frame = make_frame(options.entities, options.rows)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        frame.to_parquet(folder / "rows.parquet", index=False)
        build_series(folder / "rows.parquet", folder / "out", entity="e", time="t", scaler=None)
        ds = SeriesDataset(folder / "out", window=WINDOW)
        for module, (title, batches_of, check) in RIVALS.items():
            if importlib.util.find_spec(module) is None:
                print(f"{title}: not installed")
                continue
            check(next(iter(batches_of(frame))))
            ratios, theirs = [], iter(batches_of(frame))
            for _ in range(options.rounds):
                loader = cf.series.SeriesLoader(ds, cf.BlockShuffling(1), batch_size=BATCH)
                ours = rate(iter(loader), min(options.batches, len(loader) - 1))
                other = rate(theirs, max(2, options.batches // 60))
                ratios.append(ours / other)
            print(
                f"{title:<28} {statistics.median(ratios):8.1f}x ({min(ratios):.1f} to "
                f"{max(ratios):.1f})   {ours:,.0f} batches/s beside {other:,.2f}"
            )


if __name__ == "__main__":
    main()
