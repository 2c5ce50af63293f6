"""Transforms of windows against numpy, and predictions undone."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

import cellfeed as cf
from cellfeed import errors
from cellfeed.series import (
    Differences,
    LogReturns,
    SeriesDataset,
    WindowNorm,
    build_series,
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Three entities of positive walks, with a scaler of each."""
    folder = tmp_path_factory.mktemp("rows")
    random = np.random.default_rng(0)
    frame = pd.concat(
        pd.DataFrame(
            {
                "e": f"e{e}",
                "t": np.arange(40),
                "a": 50 + random.normal(size=40).cumsum(),
                "b": np.exp(random.normal(size=40)),
                "flat": 3.0,
            }
        )
        for e in range(3)
    )
    frame.to_parquet(folder / "rows.parquet", index=False)
    for scale in ("global", "entity"):
        with pytest.warns(UserWarning, match="all values are the same"):
            build_series(folder / "rows.parquet", folder / scale, entity="e", time="t",
                         dtype="float64", scale=scale)  # fmt: skip
    return folder, frame


@pytest.mark.parametrize("norm", ["zscore", "last", "minmax"])
def test_y_has_no_scale_where_all_of_x_is_missing(tmp_path, norm):
    values = np.r_[[np.nan] * 4, 100.0 + np.arange(6)]
    pd.DataFrame({"t": range(10), "v": values}).to_parquet(tmp_path / "in.parquet")
    build_series(tmp_path / "in.parquet", tmp_path / "out", time="t", missing="nan", scaler=None)
    data = SeriesDataset(tmp_path / "out", window=4, horizon=2, transforms=[WindowNorm(norm)])
    x, y = data[0]
    assert np.isnan(np.asarray(x)).all() and np.isnan(np.asarray(y)).all()
    x, y = data[3]  # one value is there
    assert np.isfinite(np.asarray(x)[-1]).all() and np.isfinite(np.asarray(y)).all()


def by_numpy(read, stored, kind, norm, lead, window):
    """One column of a window and its y: what a model sees."""
    v = read if kind == "log_returns" else stored
    if kind == "differences":
        v = np.diff(v)
    elif kind == "log_returns":
        v = np.diff(np.log(v))
    else:
        v = v[lead:]
    x = v[:window]
    if norm == "zscore":
        v = (v - x.mean()) / (x.std() if np.ptp(x) > 0 else 1)
    elif norm == "last":
        v = v - x[-1]
    elif norm == "minmax":
        v = (v - x.min()) / (np.ptp(x) if np.ptp(x) > 0 else 1)
    return v


@given(st.data())
@examples(60)
def test_windows_are_those_of_numpy_and_are_undone(rows, data):
    folder, frame = rows
    scale = data.draw(st.sampled_from(["global", "entity"]))
    window, horizon = data.draw(st.integers(2, 8)), data.draw(st.integers(1, 4))
    stride = data.draw(st.integers(1, 5))
    steps = {n: data.draw(st.sampled_from([None, Differences, LogReturns])) for n in "ab"}
    norms = {n: data.draw(st.sampled_from([None, "zscore", "last", "minmax"])) for n in "ab"}
    transforms = [make(n) for n, make in steps.items() if make]
    transforms += [WindowNorm(norm, n) for n, norm in norms.items() if norm]
    ds = SeriesDataset(folder / scale, window, horizon, stride, target=["b", "a"],
                       dtype="float64", transforms=transforms)  # fmt: skip
    lead = 1 if any(steps.values()) else 0
    x, y = ds.arrays(slice(None))
    at = 0
    read_y = []
    for e, group in frame.groupby("e", sort=False):
        read = group[["a", "b", "flat"]].to_numpy()
        stored = ds.scaler.transform(read, entity=e if scale == "entity" else None)
        for begin in range(0, 40 - lead - window - horizon + 1, stride):
            rows_of = slice(begin, begin + lead + window + horizon)
            seen = {
                n: by_numpy(read[rows_of, i], stored[rows_of, i],
                            steps[n]().kind if steps.get(n) else None, norms.get(n), lead, window)
                for i, n in enumerate(["a", "b", "flat"])
            }  # fmt: skip
            np.testing.assert_allclose(
                x[at], np.stack([seen[n][:window] for n in seen], 1), 1e-7, 1e-9
            )
            np.testing.assert_allclose(
                y[at], np.stack([seen["b"][window:], seen["a"][window:]], 1), 1e-7, 1e-9
            )
            assert ds.entity_of(at) == e
            assert ds.time_of(at) == begin + lead + window - 1
            read_y.append(read[rows_of][lead + window :, [1, 0]])
            at += 1
    assert at == len(ds)
    if transforms:
        np.testing.assert_allclose(ds.inverse(y, index=np.arange(at)), read_y, 1e-7, 1e-7)
        np.testing.assert_allclose(ds.inverse(y[-1], index=at - 1), read_y[-1], 1e-7, 1e-7)


def steps_by_pandas(values, kind):
    """From each value and the last one before it that is there."""
    before = pd.Series(values).ffill().shift().to_numpy()
    return {"differences": values - before, "log_returns": np.log(values / before)}.get(
        kind, values
    )


@given(st.data())
@examples(40)
def test_missing_values_are_passed_over_and_the_others_come_back(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("missing")
    values = np.random.default_rng(data.draw(st.integers(0, 999))).normal(100, 5, 20)
    values[sorted(data.draw(st.sets(st.integers(0, 19), max_size=12)))] = np.nan
    pd.DataFrame({"t": range(20), "v": values}).to_parquet(folder / "in.parquet")
    build_series(folder / "in.parquet", folder / "out", time="t", missing="nan", scaler=None,
                 dtype="float64")  # fmt: skip
    window, horizon = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    for step, norm in itertools.product(
        [None, Differences, LogReturns], [None, "zscore", "last", "minmax"]
    ):
        transforms = [*([step()] if step else []), *([WindowNorm(norm)] if norm else [])]
        if not transforms:
            continue
        ds = SeriesDataset(folder / "out", window, horizon, target="v", dtype="float64",
                           transforms=transforms)  # fmt: skip
        _, y = ds.arrays(slice(None))
        back = ds.inverse(y, index=np.arange(len(ds)))
        for i in range(len(ds)):
            read = values[i : i + (step is not None) + window + horizon]
            stepped = steps_by_pandas(read, step().kind if step else None)
            is_known = ~np.isnan(read[-horizon:])
            is_known &= (
                not norm or not np.isnan(stepped[-horizon - window : -horizon]).all()
            ) and (not step or not np.isnan(read[:-horizon]).all())
            np.testing.assert_allclose(back[i], np.where(is_known, read[-horizon:], np.nan), 1e-9)


def test_in_the_loader_and_of_constant_windows(rows):
    folder, frame = rows
    ds = SeriesDataset(folder / "global", 6, 2, target="a",
                       transforms=[LogReturns("a"), WindowNorm("zscore")])  # fmt: skip
    batch = next(iter(cf.series.SeriesLoader(ds, cf.BlockShuffling(1), batch_size=16)))
    x, _ = ds.arrays(batch.index)
    np.testing.assert_array_equal(batch.x, x)
    np.testing.assert_array_equal(batch.x[:, :, 2], 0)
    np.testing.assert_allclose(batch.x[:, :, 0].std(axis=1), 1, 1e-5)
    read = ds.inverse(batch.y, index=batch.index)
    for at, (name, t) in enumerate(zip(batch.entities, batch.obs["time"], strict=True)):
        rows_of = frame[(frame.e == name) & (frame.t > t)].a.to_numpy()[:2]
        np.testing.assert_allclose(read[at], rows_of, 1e-4)


def test_what_cannot_be_is_named(rows, tmp_path):
    folder, _ = rows
    series = folder / "global"
    wrong = {
        "must come before": [WindowNorm("last"), Differences("a")],
        "take one": [Differences(), LogReturns("a")],
        "no feature 'aa'": [Differences("aa")],
        "WindowNorm, Differences and LogReturns": [lambda x, y: (x, y)],
        "must be a list": WindowNorm("last"),
    }
    for message, transforms in wrong.items():
        with pytest.raises(errors.CellfeedError, match=message):
            SeriesDataset(series, 4, transforms=transforms)
    with pytest.raises(errors.InvalidArgumentError, match="kind must be"):
        WindowNorm("z")
    ds = SeriesDataset(series, 4, transforms=[Differences()])
    with pytest.raises(errors.InvalidArgumentError, match=r"index=batch\.index"):
        ds.inverse(ds.arrays([0])[1])
    with pytest.raises(errors.InvalidArgumentError, match="shape"):
        ds.inverse(ds.arrays([0])[1], index=[0, 1])
    pd.DataFrame({"t": range(9), "v": [5.0, 4, 3, 2, 1, 0, 1, 2, 3]}).to_csv(tmp_path / "x.csv")
    build_series(tmp_path / "x.csv", tmp_path / "out", time="t", features="v")
    ds = SeriesDataset(tmp_path / "out", 2, transforms=[LogReturns()])
    ds.arrays([0, 1])
    with pytest.raises(errors.PrecisionError, match=r"entity 'x' that begins at 3 .* not above 0"):
        ds.arrays([2])
