"""Windows and gaps in time, against a list of windows made by brute force."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program import run
from test_series_build import stored
from tiers import examples

from cellfeed import errors
from cellfeed.series import Differences, SeriesDataset, append_series, build_series


def build(folder, frame, out="out", **options):
    frame.to_parquet(folder / f"{out}.parquet")
    build_series(folder / f"{out}.parquet", folder / out, time="t", scaler=None,
                 dtype="float64", **options)  # fmt: skip
    return folder / out


def median_step(times):
    """The lower one of two."""
    steps = np.sort(np.diff(times))
    return steps[(len(steps) - 1) // 2] if len(steps) else 0


def windows_by_hand(times, longest, n, stride):
    """The first rows of all windows of n rows; each piece without a gap begins anew."""
    gaps = [i for i in range(1, len(times)) if times[i] - times[i - 1] > longest]
    found = []
    for begin, end in zip([0, *gaps], [*gaps, len(times)], strict=True):
        found += range(begin, end - n + 1, stride)
    return found, len(gaps)


@given(st.data())
@examples(60)
def test_no_window_crosses_a_gap(tmp_path_factory, data):
    steps = data.draw(st.lists(st.sampled_from([1, 1, 1, 1, 2, 4, 30]), min_size=3, max_size=60))
    times = np.cumsum([5, *steps])
    frame = pd.DataFrame({"t": times, "v": np.arange(len(times)) * 1.0})
    path = build(tmp_path_factory.mktemp("gaps"), frame)
    window, stride = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    lead = data.draw(st.integers(0, 1))
    for max_gap in ("auto", None, 1, 3, 29, 1000):
        longest = {"auto": 3 * median_step(times), None: np.inf}.get(max_gap, max_gap)
        expected, n_gaps = windows_by_hand(times, longest, lead + window + 1, stride)
        options = {"max_gap": max_gap, "transforms": [Differences()] if lead else []}
        if not expected:
            with pytest.raises(errors.InvalidArgumentError, match="no entity has"):
                SeriesDataset(path, window, 1, stride, **options)
            continue
        ds = SeriesDataset(path, window, 1, stride, **options)
        assert ds.n_gaps == n_gaps
        assert ds._located(slice(None))[1].tolist() == [row + lead for row in expected]
        if not lead:
            x, y = ds.arrays(slice(None))
            rows = np.arange(window) + np.array(expected)[:, None]
            np.testing.assert_array_equal(x[..., 0], frame.v.to_numpy()[rows])
            np.testing.assert_array_equal(y[:, 0, 0], frame.v.to_numpy()[rows[:, -1] + 1])


def hours_with_a_hole():
    before = pd.date_range("2023-01-01", periods=100, freq="h")
    return before.append(pd.date_range("2023-06-01", periods=50, freq="h"))


def test_a_hole_of_months_is_counted_and_not_crossed(tmp_path):
    times = hours_with_a_hole()
    frame = pd.DataFrame({"t": times, "v": np.arange(150.0)})
    path = build(tmp_path, frame)
    ds = SeriesDataset(path, 24, 6)
    assert (ds.n_gaps, len(ds)) == (1, (100 - 29) + (50 - 29))
    assert len(SeriesDataset(path, 24, 6, max_gap=None)) == 150 - 29
    for longest in ["200D", datetime.timedelta(days=200), np.timedelta64(200, "D")]:
        assert SeriesDataset(path, 24, 6, max_gap=longest).n_gaps == 0
    for longest in ["59min", datetime.timedelta(minutes=59)]:
        with pytest.raises(errors.InvalidArgumentError, match=r"window without a gap \(max_gap\)"):
            SeriesDataset(path, 24, 6, max_gap=longest)
    between = SeriesDataset(path, 24, 6, between=("2023-06-01", None))
    assert (between.n_gaps, len(between)) == (0, 50 - 29)
    assert json.loads(run("series", "info", path, "--json"))["n_gaps"] == 1
    assert "1 of more than three times the median step" in run("series", "info", path)
    for wrong in ["soon", 3, "-1h", "0h", datetime.timedelta(0), 1.5]:
        kind = errors.InvalidTypeError if wrong == 1.5 else errors.InvalidArgumentError
        with pytest.raises(kind, match="max_gap must be a length of time"):
            SeriesDataset(path, 24, 6, max_gap=wrong)


@pytest.mark.filterwarnings("ignore:.*is not what the scaler was fitted on")
def test_rows_that_are_appended_have_gaps_too(tmp_path):
    times = hours_with_a_hole()
    frame = pd.DataFrame({"t": times, "v": np.arange(150.0)})
    whole = build(tmp_path, frame, "whole")
    (tmp_path / "more").mkdir()
    for first in (40, 100, 120):  # the hole lies in what is appended, at the seam, before it
        path = build(tmp_path, frame[:first], f"from{first}")
        more = tmp_path / "more" / f"from{first}.parquet"  # entities are named by files
        frame[first:].to_parquet(more)
        append_series(more, path)
        ours, theirs = (SeriesDataset(p, 24, 6) for p in (path, whole))
        assert ours.n_gaps == 1
        assert ours._located(slice(None))[1].tolist() == theirs._located(slice(None))[1].tolist()


@pytest.mark.parametrize("freq", ["B", "MS", "QS", "h"])
def test_what_calendars_leave_out_is_no_gap(tmp_path, freq):
    """Weekends of trading days, months of 28 to 31 days."""
    times = pd.date_range("2020-01-01", periods=300, freq=freq)
    path = build(tmp_path, pd.DataFrame({"t": times, "v": np.arange(1.0 * len(times))}))
    assert SeriesDataset(path, 10, 2).n_gaps == 0


def test_bursts_with_holes_between_them_are_not_joined(tmp_path):
    burst = pd.date_range("2023-01-01", periods=15, freq="h")
    times = np.concatenate([burst + pd.Timedelta(150 * i, "D") for i in range(8)])
    path = build(tmp_path, pd.DataFrame({"t": times, "v": np.arange(120.0)}))
    ds = SeriesDataset(path, 4, 2)
    assert (ds.n_gaps, len(ds)) == (7, 8 * (15 - 5))


@pytest.mark.filterwarnings("ignore:.*is not what the scaler was fitted on")
@given(st.data())
@examples(40)
def test_rows_that_are_not_there_are_added_as_pandas_does(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("freq")
    n = data.draw(st.integers(2, 30))
    places = np.array(sorted(data.draw(st.sets(st.integers(0, n), min_size=2))))
    values = np.random.default_rng(0).normal(size=len(places))
    values[data.draw(st.integers(0, len(places) - 1))] = np.nan
    times = pd.Timestamp("2024-01-01") + places * pd.Timedelta("90min")
    frame = pd.DataFrame({"t": times, "v": values})
    missing = data.draw(st.sampled_from(["nan", "ffill", "drop"]))
    path = build(folder, frame.sample(frac=1, random_state=0), missing=missing,
                 freq=data.draw(st.sampled_from(["90min", pd.Timedelta("90min")])))  # fmt: skip
    wanted = frame.set_index("t").v
    wanted = wanted.asfreq("90min") if missing != "drop" else wanted
    wanted = {"nan": wanted, "ffill": wanted.ffill().dropna(), "drop": wanted.dropna()}[missing]
    _, _, stored_times, rows = stored(path)
    np.testing.assert_array_equal(stored_times, wanted.index.to_numpy("datetime64[ns]").view("i8"))
    np.testing.assert_array_equal(rows[:, 0], wanted)
    cut = data.draw(st.integers(1, len(frame) - 1))
    if missing == "nan" and frame.v[:cut].notna().any():
        first = build(folder, frame[:cut], "grown", missing="nan", freq="90min")
        (folder / "more").mkdir()
        frame[cut:].to_parquet(folder / "more" / "grown.parquet")
        append_series(folder / "more" / "grown.parquet", first)
        np.testing.assert_array_equal(stored(first)[3], rows)


def test_a_frequency_that_rows_do_not_have_is_named(tmp_path):
    frame = pd.DataFrame({"t": [0, 5, 10, 20], "v": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(errors.CorruptDataError, match=r"has no row of 15: choose .*ffill, nan"):
        build(tmp_path, frame, freq=5)
    with pytest.raises(errors.CorruptDataError, match=r"a row of 5 follows one of 0.* freq"):
        build(tmp_path, frame, freq=4, missing="nan")
    for wrong in ["1h", 0, "soon"]:
        with pytest.raises(errors.InvalidArgumentError, match="freq must be"):
            build(tmp_path, frame, freq=wrong)
    result = build_series(tmp_path / "out.parquet", tmp_path / "out", time="t", freq=5,
                          missing="ffill")  # fmt: skip
    assert (result.n_rows, result.n_filled) == (5, 1)
