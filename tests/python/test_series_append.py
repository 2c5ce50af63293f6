"""Rows appended to a series, against one that was built of all files; and what stops an append."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from conftest import REAL_DATA
from held_program import held
from hypothesis import given
from hypothesis import strategies as st
from program import PROGRAM, run
from sklearn.preprocessing import StandardScaler
from tiers import examples

from cellfeed import errors
from cellfeed.series import (
    Scaler,
    SeriesDataset,
    append_series,
    build_series,
    verify_series,
)

SHIM = pathlib.Path(__file__).parents[2] / "build/wheel/fault_shim.so"


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function(*arguments, **options)


def rows_of(out):
    """Times and values of each entity, found by metadata.json and numpy alone."""
    about = json.loads((out / "metadata.json").read_text())
    shape = (about["n_rows"], len(about["features"]))
    values = np.memmap(out / "all_features.mmap", about["dtype"], "r", shape=shape)
    times = np.fromfile(out / "time.mmap", np.int64)
    found = {}
    for entity in about["entities"]:
        rows = [np.arange(begin, end) for begin, end in entity["rows"]]
        rows = np.concatenate(rows) if rows else np.arange(0)
        found[entity["name"]] = times[rows], values[rows]
    return found


def assert_same_rows(one, other, rtol=0.0):
    ours, theirs = rows_of(one), rows_of(other)
    assert list(ours) == list(theirs)
    for name, (times, values) in ours.items():
        np.testing.assert_array_equal(times, theirs[name][0])
        np.testing.assert_allclose(values, theirs[name][1], rtol=rtol, atol=rtol)


def assert_same_windows(one, other, window, horizon):
    ours, theirs = (quietly(SeriesDataset, p, window, horizon) for p in (one, other))
    assert len(ours) == len(theirs)
    for a, b in zip(ours.arrays(slice(None)), theirs.arrays(slice(None)), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(ours.obs_of(slice(None))["time"],
                                  theirs.obs_of(slice(None))["time"])  # fmt: skip
    assert [ours.entity_of(i) for i in range(len(ours))] == [
        theirs.entity_of(i) for i in range(len(theirs))
    ]


def pieces_of(frame, cuts):
    """The rows before each cut and after the one before."""
    bounds = [-np.inf, *sorted(cuts), np.inf]
    return [frame[(frame.t >= a) & (frame.t < b)] for a, b in pairwise(bounds)]


@given(st.data())
@examples(40)
def test_rows_and_windows_are_those_of_one_build(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("append")
    lengths = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=5))
    cuts = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3, unique=True))
    scaler = data.draw(st.sampled_from(["standard", "minmax", "robust", None]))
    options = {
        "entity": "e", "time": "t", "missing": "nan",
        "dtype": data.draw(st.sampled_from(["float32", "float64"])),
    }  # fmt: skip
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    frame = pd.concat(
        pd.DataFrame({
            "e": f"e{e}", "t": np.cumsum(random.integers(1, 3, n)) + 7 * e,
            "a": random.normal(e, 1, n), "b": random.normal(100, 9, n),
        })
        for e, n in enumerate(lengths)
    ).sample(frac=1, random_state=0)  # fmt: skip
    pieces = [piece for piece in pieces_of(frame, cuts) if len(piece)]
    for i, piece in enumerate(pieces):
        piece.to_parquet(folder / f"{i}.parquet", row_group_size=5)
    grown, whole = folder / "grown", folder / "whole"
    quietly(build_series, folder / "0.parquet", grown, scaler=scaler, **options)
    stored = Scaler.load(grown)
    for i in range(1, len(pieces)):
        before = (grown / "all_features.mmap").read_bytes()
        result = quietly(append_series, folder / f"{i}.parquet", grown)
        assert result.n_rows_added == len(pieces[i])
        assert (grown / "all_features.mmap").read_bytes().startswith(before)
        assert verify_series(grown)
    assert Scaler.load(grown) == stored
    quietly(build_series, sorted(folder.glob("*.parquet")), whole, scaler=stored, **options)
    assert_same_rows(grown, whole)
    window, horizon = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    if max(lengths) >= window + horizon:
        assert_same_windows(grown, whole, window, horizon)
        if len(frame) > 6:
            first = sorted(frame.t)[len(frame) // 3]
            between = [
                quietly(SeriesDataset, p, 1, 1, between=(int(first), None), target="a")
                for p in (grown, whole)
                if (frame[frame.t >= first].groupby("e").size() > 1).any()
            ]
            if between:
                np.testing.assert_array_equal(*[ds.arrays(slice(None))[0] for ds in between])


def write(folder, name, frame):
    frame.to_csv(folder / name, index=False)
    return folder / name


def day_frame(first, n, **columns):
    frame = pd.DataFrame({"t": pd.date_range(first, periods=n)})
    for name, values in columns.items():
        frame[name] = values
    return frame


def test_prices_of_stocks_as_they_come_in(tmp_path):
    if not REAL_DATA.is_dir():
        pytest.skip("no real data")
    names = ["AAPL", "ABBV", "BABA", "GMRE"]
    frames = {n: pd.read_csv(REAL_DATA / f"series/stocknet_prices/{n}.csv") for n in names}
    for part, keep in {
        "old": lambda d: d < "2016-01-01",
        "new": lambda d: d >= "2016-01-01",
    }.items():
        (tmp_path / part).mkdir()
        for name, frame in frames.items():
            rows = frame[keep(frame.Date)]
            if len(rows):
                rows.to_csv(tmp_path / part / f"{name}.csv", index=False)
    out = tmp_path / "out"
    built = build_series(tmp_path / "old", out, time="Date")
    result = quietly(append_series, tmp_path / "new", out)
    assert built.n_rows + result.n_rows_added == sum(len(f) for f in frames.values())
    features = json.loads((out / "metadata.json").read_text())["features"]
    old = pd.concat(f[f.Date < "2016-01-01"] for f in frames.values())[features]
    model = StandardScaler().fit(old)
    found = rows_of(out)
    for name, frame in frames.items():
        frame = frame.sort_values("Date")
        np.testing.assert_allclose(found[name][1], model.transform(frame[features]), 1e-5, 1e-5)
        times = pd.to_datetime(frame.Date).to_numpy().astype("datetime64[ns]").view("i8")
        np.testing.assert_array_equal(found[name][0], times)
    new = pd.concat(f[f.Date >= "2016-01-01"] for f in frames.values())[features]
    for i, name in enumerate(features):
        drift = result.drift[name]
        z = (new[name] - model.mean_[i]) / model.scale_[i]
        assert drift["mean_shift"] == pytest.approx(z.mean())
        assert drift["spread_ratio"] == pytest.approx(z.std(ddof=0))
        low, high = old[name].min(), old[name].max()
        assert drift["low"] == pytest.approx((new[name].min() - low) / (high - low))
        assert drift["high"] == pytest.approx((new[name].max() - low) / (high - low))


def test_gaps_are_filled_across_the_seam_and_rows_are_counted_on(tmp_path):
    old = pd.DataFrame({"e": ["a", "b", "a"], "t": [1, 1, 2], "v": [1.5, 7.0, 2.5]})
    new = pd.DataFrame({"e": ["a", "b", "c", "a", "c"], "t": [3, 2, 1, 4, 2],
                        "v": [np.nan, np.nan, np.nan, 9.0, 1.0]})  # fmt: skip
    out = tmp_path / "out"
    build_series(write(tmp_path, "old.csv", old), out, entity="e", time="t", missing="ffill",
                 dtype="float64")  # fmt: skip
    result = quietly(append_series, write(tmp_path, "new.csv", new), out)
    assert (result.n_rows_added, result.n_dropped) == (4, 1)
    found = {n: v[:, 0] for n, (_, v) in rows_of(out).items()}
    scaler = Scaler.load(out)
    for name, values in {"a": [1.5, 2.5, 2.5, 9], "b": [7, 7], "c": [1]}.items():
        np.testing.assert_allclose(scaler.inverse_transform(found[name][:, None])[:, 0], values)
    counted = tmp_path / "counted"
    build_series(tmp_path / "old.csv", counted, entity="e", features="v")
    quietly(append_series, write(tmp_path, "more.csv", new.fillna(0)), counted)
    assert {n: t.tolist() for n, (t, _) in rows_of(counted).items()} == {
        "a": [0, 1, 2, 3], "b": [0, 1], "c": [0, 1],
    }  # fmt: skip


def test_one_entity_that_grows_stays_in_one_piece(tmp_path):
    out = tmp_path / "out"
    random = np.random.default_rng(0)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x.csv").write_text(
        day_frame("2024-01-01", 30, v=random.normal(size=30)).to_csv(index=False)
    )
    build_series(tmp_path / "old", out, time="t")
    for i in range(5):
        folder = tmp_path / f"new{i}"
        folder.mkdir()
        write(folder, "x.csv", day_frame(f"2024-03-0{i + 1}", 1, v=[0.25]))
        quietly(append_series, folder, out)
    about = json.loads((out / "metadata.json").read_text())
    assert [e["rows"] for e in about["entities"]] == [[[0, 35]]]
    assert about["n_appends"] == 5
    assert sorted(p.name for p in out.iterdir() if p.name[0] != ".") == [
        "all_features.mmap", "checksums.5.mmap", "entities.5.arrow", "metadata.json", "scaler.json",
        "time.mmap",
    ]  # fmt: skip


@pytest.mark.parametrize("scaler", ["standard", "robust"])
def test_new_entities_of_a_scale_of_each(tmp_path, scaler):
    random = np.random.default_rng(1)
    options = {"entity": "e", "time": "t", "scaler": scaler, "scale": "entity", "fit_until": 60}
    frames = [
        pd.DataFrame({"e": e, "t": np.arange(100), "v": random.normal(5 * i, 1 + i, 100)})
        for i, e in enumerate("abc")
    ]
    frame = pd.concat(frames)
    is_old = (frame.t < 80) & (frame.e != "c")
    write(tmp_path, "old.csv", frame[is_old])
    write(tmp_path, "new.csv", frame[~is_old])
    out, whole = tmp_path / "out", tmp_path / "whole"
    build_series(tmp_path / "old.csv", out, **options)
    quietly(append_series, tmp_path / "new.csv", out)
    build_series([tmp_path / "old.csv", tmp_path / "new.csv"], whole, **options)
    assert_same_rows(out, whole)
    assert Scaler.load(out) == Scaler.load(whole)
    assert (out / "scaler.1.json").read_bytes() == (whole / "scaler.json").read_bytes()
    ds = quietly(SeriesDataset, out, window=5, target="v")
    np.testing.assert_allclose(
        ds.inverse(ds.arrays([len(ds) - 1])[1], entity="c")[0], [frames[2].v.iloc[-1]], 1e-5
    )
    late = pd.DataFrame({"e": "d", "t": np.arange(70, 80), "v": 1.0})
    with pytest.raises(
        errors.InvalidArgumentError, match=r"'d' is new.*'v' has no value.*before 60"
    ):
        append_series(write(tmp_path, "late.csv", late), out)
    assert verify_series(out)


@pytest.fixture
def small(tmp_path):
    """A series, its files, and files to append."""
    random = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"e": np.tile(list("abcd"), 50), "t": np.repeat(np.arange(50), 4),
         "v": random.normal(size=200), "w": random.normal(size=200)}
    )  # fmt: skip
    write(tmp_path, "old.csv", frame[(frame.t < 40) & (frame.e != "d")])
    write(tmp_path, "new.csv", frame[(frame.t >= 40) | (frame.e == "d")])
    build_series(tmp_path / "old.csv", tmp_path / "out", entity="e", time="t")
    return tmp_path


def test_rows_that_are_not_later_are_refused(small):
    out = small / "out"
    before = {p.name: p.read_bytes() for p in out.iterdir() if p.name[0] != "."}
    rows = pd.DataFrame({"e": ["b"], "t": [39], "v": [0.0], "w": [0.0]})
    for t in (39, 5):
        message = rf"entity 'b' are there until 39, and a row of {t} is not later"
        with pytest.raises(errors.InvalidArgumentError, match=message):
            append_series(write(small, "late.csv", rows.assign(t=t)), out)
    with pytest.raises(errors.InvalidArgumentError, match="not later"):
        append_series(small / "old.csv", out)  # what is there already
    append_series(
        write(small, "later.csv", rows.assign(t=40)), small / shutil.copytree(out, small / "copy")
    )
    assert {p.name: p.read_bytes() for p in out.iterdir() if p.name[0] != "."} == before


WRONG = {
    "no series": (errors.NotFoundError, "no series directory"),
    "no column": (errors.NoSuchKeyError, "no column 'w'"),
    "another column": (errors.InvalidArgumentError, "numeric column 'x'"),
    "times of another kind": (errors.CorruptDataError, "times of these files are naive"),
    "a missing value": (errors.CorruptDataError, "line 3.*'v'.*missing"),
    "a repeated time": (errors.CorruptDataError, "two rows of the time 90"),
    "nothing": (errors.NotFoundError, "nowhere.csv"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_appended_is_named_and_changes_nothing(small, what):
    out = small / "out"
    before = {p.name: p.read_bytes() for p in out.iterdir() if p.name[0] != "."}
    rows = pd.DataFrame({"e": ["b", "b"], "t": [90, 91], "v": [0.0, 1.0], "w": [0.0, 1.0]})
    rows = {
        "no column": rows.drop(columns="w"),
        "another column": rows.assign(x=1.0),
        "times of another kind": rows.assign(t=["2024-01-01", "2024-01-02"]),
        "a missing value": rows.assign(v=[0, np.nan]),
        "a repeated time": rows.assign(t=90),
    }.get(what, rows)
    path = small / "nowhere.csv" if what == "nothing" else write(small, "rows.csv", rows)
    error, message = WRONG[what]
    with pytest.raises(error, match=message):
        append_series(path, small / "none" if what == "no series" else out)
    assert not (small / "none").exists()
    assert {p.name: p.read_bytes() for p in out.iterdir() if p.name[0] != "."} == before
    assert sorted(p.name for p in out.iterdir() if p.name[0] == ".") in ([], [".lock"])
    quietly(append_series, small / "new.csv", out)


def test_damage_is_not_blessed_by_a_new_checksum(small):
    out = small / "out"
    values = bytearray((out / "all_features.mmap").read_bytes())
    values[17] ^= 4
    (out / "all_features.mmap").write_bytes(values)
    with pytest.raises(errors.CorruptDataError, match="damaged within its last 960 bytes"):
        append_series(small / "new.csv", out)
    assert (out / "all_features.mmap").read_bytes() == values


CALLS = ["write", "pwrite", "fsync", "rename", "ftruncate", "unlink", "mkdir"]


def state_of(out):
    """What a reader finds: rows of every entity, and windows across the seam."""
    rows = {n: (t.tolist(), v.tolist()) for n, (t, v) in rows_of(out).items()}
    ds = quietly(SeriesDataset, out, window=7)
    x, y = ds.arrays(slice(None))
    return rows, x.tobytes(), y.tobytes(), Scaler.load(out).to_json()


def append_with_fault(out, files, fault, log=None):
    environment = {**os.environ, "LD_PRELOAD": str(SHIM), "FAULT": fault, "FAULT_UNDER": str(out)}
    if log:
        environment["FAULT_LOG"] = str(log)
    return subprocess.run(
        [PROGRAM, "series", "append", out, files, "--quiet", "--threads", "1"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_killed_or_refused_at_any_call_it_is_the_old_state_or_the_new(small):
    log = small / "calls"
    done = small / "done"
    shutil.copytree(small / "out", done)
    old = state_of(done)
    assert append_with_fault(done, small / "new.csv", "none:0:EIO", log).returncode == 0
    new = state_of(done)
    assert old != new
    called = log.read_text().split()
    n_old = n_new = 0
    for call in sorted(set(called)):
        for n in range(1, called.count(call) + 1):
            for what in [("kill", "died", "ENOSPC")[n % 3]]:
                out = small / "copy"
                shutil.rmtree(out, ignore_errors=True)
                shutil.copytree(small / "out", out)
                result = append_with_fault(out, small / "new.csv", f"{call}:{n}:{what}")
                assert result.returncode in (0, 1, -signal.SIGKILL), result
                if result.returncode == 1:
                    assert result.stderr.startswith("cellfeed: error: "), result.stderr
                state = state_of(out)
                assert state in (old, new), (call, n, what)
                n_old, n_new = n_old + (state == old), n_new + (state == new)
                assert verify_series(out)
                if state == old:
                    run("series", "append", out, small / "new.csv", "--quiet")
                    assert state_of(out) == new
                assert verify_series(out)
    assert n_old > 5
    assert n_new > 2


def test_two_writers(small):
    out = small / "out"
    rows = 4000
    large = pd.DataFrame({"e": "z", "t": np.arange(rows), "v": 0.5, "w": 1.5})
    command = [PROGRAM, "series", "append", out, write(small, "large.csv", large), "--quiet"]
    with held(command, "pwrite:2", out) as (child, let_go):  # the first is of its lock
        assert (out / ".appending").exists()
        with pytest.raises(errors.AlreadyExistsError, match=str(child.pid)):
            append_series(small / "new.csv", out)
        let_go()
        assert child.wait() == 0
    assert len(rows_of(out)["z"][0]) == rows
    quietly(append_series, small / "new.csv", out)
    assert verify_series(out)


def test_a_data_set_that_is_open_goes_on_with_the_rows_it_knows(small):
    out = small / "out"
    ds = SeriesDataset(out, window=5)
    x, y = ds.arrays(slice(None))
    quietly(append_series, small / "new.csv", out)
    for a, b in zip(ds.arrays(slice(None)), (x, y), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(errors.CorruptDataError, match="another series"):
        ds.open_memmap()
    now = SeriesDataset(out, window=5)
    assert len(now) > len(ds)
    with (out / "time.mmap").open("r+b") as file:  # not by appending
        file.write(b"\1")
    os.utime(out / "time.mmap")
    with pytest.raises(errors.CellfeedError, match="written to while it was open"):
        now.arrays([0])


@pytest.mark.slow
def test_readers_never_see_half_of_an_append(small):
    """Opened again and again while rows are appended: each state is whole."""
    out, n_appends = small / "out", 12
    states = {len(SeriesDataset(out, window=3))}
    stop, failures = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                states.add(len(quietly(SeriesDataset, out, window=3)))
            except Exception as error:
                failures.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(n_appends):
        rows = pd.DataFrame({"e": list("abc"), "t": 100 + i, "v": 0.5, "w": 0.5})
        quietly(append_series, write(small, "rows.csv", rows), out)
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures, failures
    assert states <= {111 + 3 * i for i in range(n_appends + 1)}


def test_the_program_says_what_it_did(small):
    out = small / "out"
    text = run("series", "append", out, small / "new.csv")
    assert "80 rows appended to 4 entities, 1 of them new" in text
    assert re.search(r"drift.*\n +v +-?0\.\d+", text)
    about = json.loads(run("series", "info", out, "--json"))
    assert (about["n_rows"], about["n_entities"]) == (200, 4)
    rows = pd.DataFrame({"e": ["a"], "t": [99], "v": [50.0], "w": [0.5]})
    found = json.loads(run("series", "append", out, write(small, "far.csv", rows), "--json"))
    assert found["drift"]["v"]["mean_shift"] > 10
    assert "'v' is not what the scaler was fitted on" in found["warnings"][0]
    with pytest.warns(UserWarning, match="'v' is not what the scaler"):
        append_series(write(small, "far.csv", rows.assign(t=100)), out)
