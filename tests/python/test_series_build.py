"""Series directories against pandas and scikit-learn on the same files, and what stops a build."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import REAL_DATA
from held_program import held
from hypothesis import given
from hypothesis import strategies as st
from program import PROGRAM, run
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from tiers import examples

from cellfeed import errors
from cellfeed.series import build_series, verify_series

SHIM = pathlib.Path(__file__).parents[2] / "build/wheel/fault_shim.so"
SCALERS = {"standard": StandardScaler, "minmax": MinMaxScaler, "robust": RobustScaler}


@pytest.fixture
def real():
    if not REAL_DATA.is_dir():
        pytest.skip("no real data")
    return REAL_DATA / "series"


def stored(path):
    """Entity, time and values of every row, as numpy maps them."""
    path = pathlib.Path(path)
    about = json.loads((path / "metadata.json").read_text())
    shape = (about["n_rows"], len(about["features"]))
    values = np.memmap(path / "all_features.mmap", about["dtype"], "r", shape=shape)
    times = np.fromfile(path / "time.mmap", np.int64)
    names = np.repeat(
        [entity["name"] for entity in about["entities"]],
        [sum(end - begin for begin, end in entity["rows"]) for entity in about["entities"]],
    )
    rows = [np.arange(*extent) for entity in about["entities"] for extent in entity["rows"]]
    rows = np.concatenate(rows)
    np.testing.assert_array_equal(np.sort(rows), np.arange(about["n_rows"]))
    if (rows == np.arange(len(rows))).all():
        return about, names, times, values
    return about, names, times[rows], values[rows]


def n_rows_of(entity):
    return sum(end - begin for begin, end in entity["rows"])


def by_policy(frame, features, duplicates="error", missing="error"):
    """pandas' own: sorted, duplicates, then missing values. Columns: entity, time and features."""
    order = pd.unique(frame.entity)
    frame = frame.sort_values("time", kind="stable")
    if duplicates == "mean":
        frame = frame.groupby(["entity", "time"], sort=False)[features].mean().reset_index()
    elif duplicates != "error":
        frame = frame.drop_duplicates(["entity", "time"], keep=duplicates)
    frame = frame.sort_values("time", kind="stable").set_index("entity")
    frame = pd.concat([frame.loc[[name]] for name in order]).reset_index()
    if missing == "ffill":
        frame[features] = frame.groupby("entity", sort=False)[features].ffill()
    return frame if missing == "nan" else frame.dropna(subset=features)


def assert_same(out, frame, features, scaler="standard", fit=None):
    about, names, times, values = stored(out)
    assert about["features"] == list(features)
    assert list(pd.unique(names)) == list(pd.unique(frame.entity))
    np.testing.assert_array_equal(names, frame.entity.to_numpy())
    np.testing.assert_array_equal(times, frame.time.to_numpy().astype("datetime64[ns]").view("i8"))
    expected = frame[features].to_numpy(np.float64)
    if scaler:
        model = SCALERS[scaler]()
        rows = expected if fit is None else expected[fit(frame)]
        if scaler == "robust":
            model.fit(rows)
        else:
            for part in np.array_split(rows, 3):
                if len(part):
                    model.partial_fit(part)
        expected = model.transform(expected)
        written = json.loads((pathlib.Path(out) / "scaler.json").read_text())
        centers = {"standard": "mean_", "minmax": "data_min_", "robust": "center_"}
        np.testing.assert_allclose(written["center"], getattr(model, centers[scaler]), 1e-9)
        spread = model.data_range_ if scaler == "minmax" else model.scale_
        np.testing.assert_allclose(written["scale_by"], np.where(spread == 0, 1, spread), 1e-9)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)


def read_csvs(paths, time, features, name=lambda path, frame: path.name.split(".")[0]):
    frames = []
    for path in paths:
        frame = pd.read_csv(path)
        part = frame[features].astype(float)
        part["entity"] = name(path, frame)
        part["time"] = time(frame)
        frames.append(part)
    return pd.concat(frames, ignore_index=True)


@pytest.mark.parametrize("scaler", ["standard", "minmax", "robust", None])
def test_prices_of_stocks_that_were_listed_late(real, tmp_path, scaler):
    features = ["Open", "High", "Low", "Close", "Adj Close", "Volume"]
    paths = sorted((real / "stocknet_prices").glob("*.csv"))
    frame = read_csvs(paths, lambda f: pd.to_datetime(f.Date), features)
    result = build_series(real / "stocknet_prices", tmp_path / "out", time="Date", scaler=scaler)
    assert (result.n_rows, result.n_entities) == (len(frame), 44)
    assert_same(result, frame, features, scaler)
    lengths = {e["name"]: n_rows_of(e) for e in stored(result)[0]["entities"]}
    assert [lengths[n] for n in ("GMRE", "AGFS", "BABA", "ABBV")] == [297, 701, 745, 1177]
    assert verify_series(result)


@pytest.mark.parametrize("missing", ["drop", "ffill"])
def test_sensors_with_gaps_and_split_time(real, tmp_path, missing):
    features = ["PM2.5", "SO2", "CO", "TEMP"]
    fields = ["year", "month", "day", "hour"]
    frame = read_csvs(
        sorted((real / "PRSA").glob("*.csv")),
        lambda f: pd.to_datetime(f[fields]),
        features,
        lambda _, f: f.station,
    )
    frame = by_policy(frame, features, missing=missing)
    result = build_series(
        str(real / "PRSA/*.csv"),
        tmp_path / "out",
        entity="station",
        time=fields,
        features=features,
        missing=missing,
        fit_until="2016-01-01",
    )
    assert_same(result, frame, features, fit=lambda f: (f.time < "2016-01-01").to_numpy())
    by_name = build_series(
        str(real / "PRSA/*.csv"),
        tmp_path / "again",
        entity=re.compile("Data_([A-Za-z]+)_"),
        time=fields,
        features=features,
        missing=missing,
        fit_until=pd.Timestamp("2016-01-01"),
    )
    for name in ("all_features.mmap", "scaler.json", "entities.arrow"):
        one, other = pathlib.Path(result) / name, pathlib.Path(by_name) / name
        assert one.read_bytes() == other.read_bytes()
    with pytest.raises(errors.CorruptDataError, match="the value is missing") as refused:
        build_series(str(real / "PRSA/*.csv"), tmp_path / "no", time=fields, features=features)
    # Of whichever file a thread read first.
    place = re.match(r"(.*): line (\d+), column '(.*)':", str(refused.value))
    path, line, column = place.groups()
    assert pd.isna(pd.read_csv(path)[column][int(line) - 2])


@pytest.mark.parametrize("duplicates", ["first", "last", "mean"])
def test_metrics_with_repeated_and_decreasing_timestamps(real, tmp_path, duplicates):
    paths = sorted((real / "NAB").glob("*/*.csv"))
    frame = read_csvs(paths, lambda f: pd.to_datetime(f.timestamp), ["value"])
    expected = by_policy(frame, ["value"], duplicates)
    with pytest.warns(UserWarning) if expected.value.nunique() == 1 else no_warning():
        result = build_series(
            real / "NAB", tmp_path / "out", time="timestamp", duplicates=duplicates
        )
    assert result.n_merged == len(frame) - len(expected)
    assert_same(result, expected, ["value"])
    with pytest.raises(errors.CorruptDataError, match="two rows of the time"):
        build_series(real / "NAB", tmp_path / "no", time="timestamp")
    machine = real / "NAB/realKnownCause/machine_temperature_system_failure.csv"
    with pytest.raises(errors.CorruptDataError, match="follows one of"):
        build_series(machine, tmp_path / "no", time="timestamp", duplicates="first", sort=False)


class no_warning:  # noqa: N801
    def __enter__(self): ...
    def __exit__(self, *_): ...


def test_zones_gzip_prices_as_text_and_row_groups_of_one_row(real, tmp_path):
    frame = read_csvs(
        [real / "nautilus/fxcm-gbpusd-m1-bid-2012.csv"],
        lambda f: pd.to_datetime(f.timestamp).dt.tz_localize(None),
        ["open", "close"],
    )
    result = build_series(
        real / "nautilus/fxcm-gbpusd-m1-bid-2012.csv",
        tmp_path / "a",
        time="timestamp",
        features=["open", "close"],
    )
    assert_same(result, frame, ["open", "close"])
    assert stored(result)[0]["time"] == {"kind": "zoned", "unit": "ns", "zone": "UTC"}

    bars = real / "nautilus/6EH4.XCME_1min_bars_20240101_20240131.csv.gz"
    features = ["open", "high", "low", "close", "volume"]
    frame = read_csvs(
        [bars],
        lambda f: pd.to_datetime(f.timestamp_utc),
        features,
        lambda path, _: path.name.removesuffix(".csv.gz"),
    )
    result = build_series(bars, tmp_path / "b", time="timestamp_utc")
    assert_same(result, frame, features)

    frames = []
    for path in sorted((real / "crypto_ticks").glob("*.parquet")):
        ticks = pd.read_parquet(path)
        part = ticks[["p", "q"]].astype(float)
        part["entity"], part["time"] = path.stem, ticks["T"]
        frames.append(part)
    result = build_series(
        real / "crypto_ticks", tmp_path / "c", time="T", features=["p", "q"], duplicates="last"
    )
    assert_same(result, by_policy(pd.concat(frames), ["p", "q"], "last"), ["p", "q"])

    deltas = real / "nautilus/deltas_64bit_1077_row_groups.parquet"
    assert pq.ParquetFile(deltas).num_row_groups == 1077
    table = pq.read_table(deltas, columns=["order_id", "ts_event"]).to_pandas()
    frame = pd.DataFrame({"order_id": table.order_id.astype(float), "entity": deltas.stem})
    frame["time"] = pd.to_datetime(table.ts_event.astype("int64"))
    result = build_series(
        deltas,
        tmp_path / "d",
        time="ts_event",
        time_unit="ns",
        features="order_id",
        duplicates="first",
        scaler=None,
    )
    assert_same(result, by_policy(frame, ["order_id"], "first"), ["order_id"], None)


def test_transformers_and_quotes_whose_prices_are_bytes(real, tmp_path):
    features = ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]
    frame = read_csvs([real / "ETTh1.csv"], lambda f: pd.to_datetime(f.date), features)
    until = pd.Timestamp("2017-07-01")
    result = build_series(real / "ETTh1.csv", tmp_path / "a", time="date", fit_until=until)
    assert_same(result, frame, features, fit=lambda rows: (rows.time < until).to_numpy())
    assert result.n_rows == 17_420
    # Of files of quotes the prices are bytes; what is numbers is read as such.
    for name in ("quote_tick_eurusd_2019_sim_rust", "quotes_64bit_10_row_groups"):
        path = real / f"nautilus/{name}.parquet"
        ticks = pd.read_parquet(path)
        rows = pd.DataFrame({"ts_event": ticks.ts_event.astype(float)})
        rows["entity"], rows["time"] = name, ticks.ts_init.to_numpy().astype("datetime64[ns]")
        for duplicates in ("first", "mean"):
            made = build_series(
                path, tmp_path / (name + duplicates), time="ts_init", time_unit="ns",
                features="ts_event", duplicates=duplicates, dtype="float64",
            )  # fmt: skip
            assert_same(made, by_policy(rows, ["ts_event"], duplicates), ["ts_event"])


def test_files_that_are_cut_off_or_not_what_they_say(real, tmp_path):
    odd = REAL_DATA / "odd"
    fields = ["year", "month", "day", "hour"]
    with pytest.raises(errors.CorruptDataError, match=r"line 21485 has 3 fields where .* 18"):
        build_series(
            odd / "PRSA_Dingling_truncated.csv", tmp_path / "a", time=fields, missing="nan"
        )
    with pytest.raises(errors.CorruptDataError, match="is an empty file"):
        build_series(odd / "zero_bytes.feather", tmp_path / "b")
    with pytest.raises(errors.CellfeedError):
        build_series(odd / "parquet_broken_fuzzer4360.parquet", tmp_path / "c")
    with pytest.raises(errors.CorruptDataError, match=r"fixed_size_binary.*no number") as caught:
        build_series(
            real / "nautilus/quotes_64bit_10_row_groups.parquet",
            tmp_path / "d",
            features="bid_price",
        )
    assert "bid_price" in str(caught.value)


# ---- made files


def frame_of(data, n_entities, missing, repeats):
    """Rows of several entities, mixed, some without values, some with the time of another."""
    seed = data.draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    n = data.draw(st.integers(n_entities, 200))
    frame = pd.DataFrame(random.normal(100, 30, (n, 2)), columns=["a", "b"])
    frame["entity"] = random.permutation(np.arange(n) % n_entities).astype(str)
    steps = random.permutation(n) if not repeats else random.integers(0, n, n)
    frame["time"] = pd.Timestamp("2020-02-27") + pd.to_timedelta(steps * 37, unit="min")
    if missing:
        frame.loc[random.random(n) < 0.2, "a"] = np.nan
    return frame


def write_files(frame, folder, kind, n_files):
    for i, part in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        rows = frame.iloc[part]
        path = folder / f"part_{i:03}.{kind}"
        if kind == "csv":
            rows.to_csv(path, index=False)
        elif kind == "csv.gz":
            rows.to_csv(path, index=False, compression="gzip")
        elif kind == "feather":
            rows.reset_index(drop=True).to_feather(path)
        else:
            rows.to_parquet(path, row_group_size=7, index=False)


@given(st.data())
@examples(40)
def test_any_rows_come_out_as_pandas_has_them(tmp_path_factory, data):
    missing = data.draw(st.sampled_from(["error", "drop", "ffill"]))
    duplicates = data.draw(st.sampled_from(["error", "first", "last", "mean"]))
    scaler = data.draw(st.sampled_from(["standard", "minmax", "robust", None]))
    kind = data.draw(st.sampled_from(["csv", "csv.gz", "parquet", "feather"]))
    frame = frame_of(data, data.draw(st.integers(1, 6)), missing != "error", duplicates != "error")
    expected = by_policy(frame, ["a", "b"], duplicates, missing)
    if expected.empty or (expected[["a", "b"]].nunique() < 2).any():
        return
    folder = tmp_path_factory.mktemp("files")
    write_files(frame, folder, kind, data.draw(st.integers(1, 4)))
    result = build_series(
        folder,
        folder / "out",
        entity="entity",
        time="time",
        features=["a", "b"],
        scaler=scaler,
        missing=missing,
        duplicates=duplicates,
        threads=data.draw(st.integers(1, 4)),
    )
    present = [name for name in pd.unique(frame.entity) if (expected.entity == name).any()]
    about, *_ = stored(result)
    assert [e["name"] for e in about["entities"] if e["rows"]] == present
    assert_same_rows(result, expected, scaler)


def assert_same_rows(out, expected, scaler):
    expected = expected.reset_index(drop=True)
    assert_same(out, expected, ["a", "b"], scaler)


def test_statistics_of_each_entity(tmp_path):
    random = np.random.default_rng(3)
    for name, offset in (("x", 5.0), ("y", 1e4)):
        pd.DataFrame({"t": range(50), "v": random.normal(offset, 2, 50)}).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    for scaler, model in SCALERS.items():
        out = tmp_path / scaler
        build_series(str(tmp_path / "*.csv"), out, time="t", scaler=scaler, scale="entity")
        about, names, _times, values = stored(out)
        assert about["time"]["kind"] == "integer"
        for name in ("x", "y"):
            column = pd.read_csv(tmp_path / f"{name}.csv")[["v"]].to_numpy()
            np.testing.assert_allclose(
                values[names == name], model().fit_transform(column), rtol=1e-5, atol=1e-5
            )


def test_hive_folders_decimals_booleans_dictionaries_and_types_that_differ(tmp_path):
    import decimal

    for ticker, values in (("A", pa.array([1, 2, 3], pa.int16())), ("B", pa.array([0.5, 2.5, 7]))):
        folder = tmp_path / "in" / f"ticker={ticker}"
        folder.mkdir(parents=True)
        table = pa.table(
            {
                "day": pa.array([18000, 18001, 18002], pa.date32()),
                "v": values,
                "price": pa.array(
                    [decimal.Decimal(f"{i}.25") for i in range(3)], pa.decimal128(12, 2)
                ),
                "open": pa.array([True, False, True]),
                "code": pa.array(["1.5", "2.5", "1.5"]).dictionary_encode(),
            }
        )
        pq.write_table(table, folder / "part.parquet")
    out = tmp_path / "out"
    build_series(
        tmp_path / "in",
        out,
        entity="ticker",
        time="day",
        scaler=None,
        features=["v", "price", "open", "code"],
    )
    _about, names, times, values = stored(out)
    assert names.tolist() == ["A"] * 3 + ["B"] * 3
    assert times[0] == pd.Timestamp("1970-01-01").value + 18000 * 86_400_000_000_000
    np.testing.assert_array_equal(values[:, 0], [1, 2, 3, 0.5, 2.5, 7])
    np.testing.assert_array_equal(values[:3, 1:], [[0.25, 1, 1.5], [1.25, 0, 2.5], [2.25, 1, 1.5]])


def build_bytes(folder):
    return {
        path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name[0] != "."
    }


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Enough rows to be stopped in the middle of."""
    folder = tmp_path_factory.mktemp("large")
    random = np.random.default_rng(1)
    for i in range(12):
        n = 30_000
        pd.DataFrame(
            {
                "t": random.permutation(n),
                "e": random.integers(0, 9, n),
                "a": random.normal(size=n),
                "b": random.normal(size=n),
            }
        ).to_csv(folder / f"{i}.csv", index=False)
    return folder


OPTIONS = ["--entity", "e", "--time", "t", "--duplicates", "first", "--scaler", "robust"]


@pytest.fixture(scope="module")
def undisturbed(large, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    run("series", "build", large, "--output-dir", out, *OPTIONS, "--quiet")
    return build_bytes(out)


@pytest.mark.parametrize(
    ("threads", "budget"),
    [(1, "32MB"), pytest.param(4, "100MB", marks=pytest.mark.slow), (7, "1GB")],
)
def test_the_bytes_do_not_depend_on_threads_or_budget(
    large, undisturbed, tmp_path, threads, budget
):
    out = tmp_path / "out"
    run("series", "build", large, "--output-dir", out, *OPTIONS, "--threads", threads,
        "--memory-budget", budget)  # fmt: skip
    assert build_bytes(out) == undisturbed


@pytest.mark.slow
def test_row_groups_larger_than_the_budget_are_read_within_it(tmp_path):
    n = 2_500_000
    random = np.random.default_rng(3)
    frame = pd.DataFrame(random.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["t"] = np.arange(n)
    frame.to_parquet(tmp_path / "one.parquet", row_group_size=n, index=False)
    assert pq.ParquetFile(tmp_path / "one.parquet").metadata.num_row_groups == 1
    assert (tmp_path / "one.parquet").stat().st_size > 60e6
    command = [PROGRAM, "series", "build", tmp_path / "one.parquet", "--time", "t", "--quiet"]
    command += ["--output-dir", tmp_path / "out", "--memory-budget", "32MB", "--threads", "2"]
    peak = 0
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL) as running:
        while running.poll() is None:
            with contextlib.suppress(OSError):
                status = pathlib.Path(f"/proc/{running.pid}/status").read_text()
                found = re.search(r"VmHWM:\s+(\d+) kB", status)
                peak = max(peak, int(found[1]) * 1024 if found else 0)
            time.sleep(0.01)
    assert running.returncode == 0
    assert 0 < peak < 232e6
    values = np.fromfile(tmp_path / "out/all_features.mmap", np.float32).reshape(-1, 3)
    expected = frame[["a", "b", "c"]].to_numpy()
    expected = (expected - expected.mean(axis=0)) / expected.std(axis=0)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)


def test_texts_that_take_more_than_the_budget_once_decoded_are_read_within_it(tmp_path):
    n, names = 40_000, [letter * 1000 for letter in "abc"]
    frame = pd.DataFrame({"t": np.arange(n), "v": np.arange(n, dtype=float)})
    frame["e"] = np.repeat(names, [1, n // 2, n - n // 2 - 1])
    frame.to_parquet(tmp_path / "one.parquet", row_group_size=n, index=False)
    assert pq.ParquetFile(tmp_path / "one.parquet").metadata.num_row_groups == 1
    build_series(
        tmp_path / "one.parquet", tmp_path / "out", entity="e", time="t", scaler=None,
        memory_budget="32MB", threads=1,
    )  # fmt: skip
    about, entities, times, values = stored(tmp_path / "out")
    assert [each["name"] for each in about["entities"]] == names
    np.testing.assert_array_equal(entities, frame.e)
    np.testing.assert_array_equal(times, frame.t)
    np.testing.assert_array_equal(values[:, 0], frame.v.astype("float32"))


def build_with_fault(large, out, **fault):
    return subprocess.run(
        [PROGRAM, "series", "build", large, "--output-dir", out, *OPTIONS, "--quiet", "--resume",
         "--threads", "2"],
        env={**os.environ, "LD_PRELOAD": str(SHIM), "FAULT_UNDER": str(out), **fault},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed(large, undisturbed, tmp_path):
    log = tmp_path / "calls"
    assert build_with_fault(large, tmp_path / "logged", FAULT_LOG=str(log)).returncode == 0
    calls = log.read_text().split()
    n_unfinished = 0
    for i in range(6):
        out = tmp_path / f"out{i}"
        at = len(calls) * (2 * i + 1) // 12
        moment = f"{calls[at]}:{calls[: at + 1].count(calls[at])}"
        killed = build_with_fault(large, out, FAULT=f"{moment}:{('kill', 'died')[i % 2]}")
        assert killed.returncode == -signal.SIGKILL, (moment, killed)
        if (out / ".building" / "plan.txt").exists() and not (out / "metadata.json").exists():
            n_unfinished += 1
            message = run("series", "build", large, "--output-dir", out, *OPTIONS, code=1)
            assert "unfinished build" in message
        run("series", "build", large, "--output-dir", out, *OPTIONS, "--resume")
        assert build_bytes(out) == undisturbed
        assert not (out / ".building").exists()
    assert n_unfinished > 2


@pytest.mark.slow
@pytest.mark.parametrize("call", ["write", "pwrite", "fsync", "rename", "ftruncate"])
def test_a_full_disk_is_named_and_the_build_goes_on(large, undisturbed, tmp_path, call):
    out = tmp_path / "out"
    for n in (1, 7):
        done = build_with_fault(large, out, FAULT=f"{call}:{n}:ENOSPC")
        assert done.returncode in (0, 1)
        if done.returncode == 1:
            assert re.match("cellfeed: error: .*(space|full)", done.stderr), done.stderr
            assert not (out / "metadata.json").exists()
    run("series", "build", large, "--output-dir", out, *OPTIONS, "--resume")
    assert build_bytes(out) == undisturbed


@pytest.mark.slow
def test_any_flipped_byte_is_found(tmp_path):
    pd.DataFrame({"t": range(40), "v": np.arange(40.0) ** 2}).to_csv(tmp_path / "a.csv")
    out = tmp_path / "out"
    build_series(tmp_path / "a.csv", out, time="t", features="v")
    random = np.random.default_rng(0)
    for path in sorted(out.iterdir()):
        if path.name.startswith("."):
            continue
        whole = path.read_bytes()
        for at in {0, len(whole) - 1, *random.integers(0, len(whole), 12).tolist()}:
            damaged = bytearray(whole)
            damaged[at] ^= 1 << random.integers(0, 8)
            path.write_bytes(damaged)
            with pytest.raises(errors.CorruptDataError) as caught:
                verify_series(out)
            assert path.name in str(caught.value)
            assert "cellfeed: error" in run("series", "verify", out, "--quiet", code=1)
        path.write_bytes(whole[:-1])
        with pytest.raises(errors.CorruptDataError):
            verify_series(out)
        path.unlink()
        with pytest.raises((errors.NotFoundError, errors.CorruptDataError)):
            verify_series(out)
        path.write_bytes(whole)
        assert verify_series(out)


def test_two_writers(large, tmp_path):
    out = tmp_path / "out"
    command = [PROGRAM, "series", "build", large, "--output-dir", out, *OPTIONS, "--quiet"]
    with held(command, "pwrite:2", out) as (child, let_go):  # the first is of its lock
        assert (out / ".building").exists()
        with pytest.raises(errors.AlreadyExistsError):
            build_series(large, out, entity="e", time="t", resume=True)
        let_go()
        assert child.wait() == 0
    assert verify_series(out)
    with pytest.raises(errors.AlreadyExistsError, match="finished series"):
        build_series(large, out, entity="e", time="t")
    with pytest.raises(errors.InvalidArgumentError, match="other inputs or options"):
        build_series(large, out, entity="e", time="t", resume=True)


def test_a_finished_series_is_not_built_again(large, tmp_path):
    out = tmp_path / "out"
    options = {"entity": "e", "time": "t", "duplicates": "first"}
    first = build_series(large, out, **options)
    again = build_series(large, out, resume=True, **options)
    assert (again.n_rows, again.bytes, again.n_entities) == (
        first.n_rows,
        first.bytes,
        first.n_entities,
    )
    shutil.rmtree(out)
