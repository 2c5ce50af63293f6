"""Series built, read, appended to and verified in a bucket are those of a local disk."""

import json
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from fault_rules import Fault
from held_program import wait_until
from program import PROGRAM

import cellfeed as cf
from cellfeed.errors import AlreadyExistsError, CorruptDataError, NotFoundError
from cellfeed.series import (
    Differences,
    Scaler,
    SeriesDataset,
    append_series,
    build_series,
    verify_series,
)

pytest.importorskip("boto3")
ENTITIES, N_ROWS = ["a", "b", "c"], 300


def prices(first=0, n=N_ROWS, entities=ENTITIES, seed=0):
    """Prices of each entity, an hour apart; names and numbers that tell rows apart."""
    random = np.random.default_rng(seed)
    hours = pd.date_range("2024-01-01", periods=first + n, freq="h")[first:]
    frames = []
    for place, name in enumerate(entities):
        close = 100 * place + random.normal(size=n).cumsum()
        volume = random.integers(1, 1000, n).astype("float64")
        frames.append(pd.DataFrame({"e": name, "t": hours, "close": close, "volume": volume}))
    return pd.concat(frames, ignore_index=True)


def put_prices(bucket, tmp_path, name="prices", **options):
    """The same files in the bucket and in a local folder; their paths."""
    folder = tmp_path / name
    folder.mkdir()
    frame = prices(**options)
    for entity, rows in frame.groupby("e"):
        rows.to_parquet(folder / f"{entity}.parquet", row_group_size=50)
        bucket.upload_file(str(folder / f"{entity}.parquet"), "atlas", f"{name}/{entity}.parquet")
    return f"s3://atlas/{name}/*.parquet", folder, frame


def stored(bucket, prefix="out"):
    listed = bucket.list_objects_v2(Bucket="atlas", Prefix=prefix + "/").get("Contents", [])
    keys = [each["Key"] for each in listed if not each["Key"].endswith("/")]
    objects = (bucket.get_object(Bucket="atlas", Key=key)["Body"].read() for key in keys)
    return {key[len(prefix) + 1 :]: content for key, content in zip(keys, objects, strict=True)}


def expected_windows(frame, window, horizon):
    """Windows of standardised rows by pandas and numpy alone, entity by entity."""
    values = frame[["close", "volume"]]
    scaled = ((values - values.mean()) / values.std(ddof=0)).to_numpy(np.float32)
    x, y, times = [], [], []
    for _, rows in frame.groupby("e", sort=False):
        for first in range(len(rows) - window - horizon + 1):
            at = rows.index[first : first + window + horizon]
            x.append(scaled[at[:window]])
            y.append(scaled[at[window:]])
            times.append(rows.t.to_numpy()[first + window - 1])
    return np.stack(x), np.stack(y), np.array(times)


@pytest.fixture
def built(bucket, tmp_path):
    paths, folder, frame = put_prices(bucket, tmp_path)
    build_series(paths, "s3://atlas/out", entity="e", time="t", horizon=3)
    return folder, frame


def test_what_is_built_in_a_bucket_is_what_is_built_on_a_disk(built, bucket, tmp_path):
    folder, _ = built
    build_series(folder, tmp_path / "out", entity="e", time="t", horizon=3)
    there = stored(bucket)
    assert sorted(there) == sorted(file.name for file in (tmp_path / "out").iterdir())
    for name, content in there.items():
        if name != "metadata.json":  # which has a fingerprint of the paths
            assert content == (tmp_path / "out" / name).read_bytes(), name
    ours, theirs = (
        json.loads(there["metadata.json"]),
        json.loads((tmp_path / "out" / "metadata.json").read_text()),
    )
    assert {k: v for k, v in ours.items() if k not in ("checksum", "built", "plan")} == {
        k: v for k, v in theirs.items() if k not in ("checksum", "built", "plan")
    }
    assert verify_series("s3://atlas/out")
    assert Scaler.load("s3://atlas/out").features == ["close", "volume"]
    assert (
        Scaler.load("s3://atlas/out/scaler.json").to_json()
        == Scaler.load(tmp_path / "out").to_json()
    )


@pytest.mark.parametrize("is_kept", [False, True])
def test_windows_of_a_bucket_are_those_that_pandas_makes(built, tmp_path, is_kept):
    _, frame = built
    x, y, times = expected_windows(frame, window=20, horizon=3)
    if is_kept:
        cf.set_storage_options("s3://atlas", {"cache_dir": str(tmp_path / "copies")})
    try:
        ds = SeriesDataset("s3://atlas/out", window=20)
        assert len(ds) == len(x)
        for numbers in (np.arange(len(ds)), np.random.default_rng(1).permutation(len(ds))[:100]):
            ours = ds.arrays(numbers)
            np.testing.assert_allclose(ours[0], x[numbers], rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(ours[1], y[numbers], rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(ds.obs_of(numbers)["time"], times[numbers])
        np.testing.assert_allclose(ds[7][0].numpy(), x[7], rtol=1e-5, atol=1e-5)
        again = pickle.loads(pickle.dumps(ds))
        np.testing.assert_array_equal(again.arrays([5])[0], ds.arrays([5])[0])
        assert (tmp_path / "copies").exists() == is_kept
    finally:
        cf.set_storage_options("s3://atlas", {})


def test_choices_and_parts_of_a_bucket_are_those_of_a_disk(built, tmp_path):
    folder, _ = built
    build_series(folder, tmp_path / "out", entity="e", time="t", horizon=3)
    choices = [
        {"features": ["volume"], "target": "close", "dtype": "float64"},
        {"between": ("2024-01-03T05:00", "2024-01-09T12:30"), "stride": 3},
        {"between": ("2023-01-01", None)},
        {"between": (None, "2024-01-02T00:00"), "entities": ["c", "a"]},
        {"transforms": [Differences("close")], "target": "close", "future": ["volume"]},
    ]
    for options in choices:
        one, other = (
            SeriesDataset(path, window=16, **options)
            for path in ("s3://atlas/out", tmp_path / "out")
        )
        assert len(one) == len(other) > 0
        for a, b in zip(one.arrays(slice(None)), other.arrays(slice(None)), strict=True):
            for name in a if isinstance(a, dict) else [None]:
                np.testing.assert_array_equal(a[name] if name else a, b[name] if name else b)
        if "transforms" in options:
            numbers = np.arange(40)
            y = other.arrays(numbers)[1]
            np.testing.assert_array_equal(
                one.inverse(y, index=numbers), other.inverse(y, index=numbers)
            )
    with pytest.warns(UserWarning, match="leak into training"):
        parts = [
            SeriesDataset(path, window=16).split(fractions={"train": 0.7, "test": 0.3}, purge=2)
            for path in ("s3://atlas/out", tmp_path / "out")
        ]
    for name in ("train", "test"):
        assert len(parts[0][name]) == len(parts[1][name])
        assert parts[0][name].time_of(-1) == parts[1][name].time_of(-1)


@pytest.mark.slow
def test_loaders_and_workers_read_windows_of_a_bucket(built):
    _, frame = built
    x, _, times = expected_windows(frame, window=20, horizon=3)
    ds = SeriesDataset("s3://atlas/out", window=20)
    seen = []
    for batch in cf.series.SeriesLoader(ds, cf.BlockShuffling(1), batch_size=100, seed=3):
        np.testing.assert_allclose(batch.x, x[batch.index], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(batch.obs["time"], times[batch.index])
        seen.extend(batch.index[~batch.is_padding])
    assert sorted(seen) == list(range(len(x)))
    for context in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(
            ds, batch_size=50, num_workers=2, multiprocessing_context=context
        )
        every = np.concatenate([batch[0].numpy() for batch in loader])
        np.testing.assert_allclose(every, x, rtol=1e-5, atol=1e-5)


def test_rows_appended_in_a_bucket_go_on_where_those_before_end(built, bucket, tmp_path):
    folder, _ = built
    more = put_prices(
        bucket, tmp_path, "more", first=N_ROWS, n=80, entities=["c", "d"], seed=2
    )  # fmt: skip
    build_series(folder, tmp_path / "out", entity="e", time="t", horizon=3)
    before = stored(bucket)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of drift
        result = append_series(more[0], "s3://atlas/out")
        append_series(more[1], tmp_path / "out")
    assert (result.n_rows_added, result.n_entities_added) == (160, 1)
    there = stored(bucket)
    assert sorted(there) == sorted(file.name for file in (tmp_path / "out").iterdir())
    for name, content in there.items():
        if name != "metadata.json":
            assert content == (tmp_path / "out" / name).read_bytes(), name
    assert there["all_features.mmap"].startswith(before["all_features.mmap"])
    assert verify_series("s3://atlas/out")
    one, other = (SeriesDataset(p, window=16) for p in ("s3://atlas/out", tmp_path / "out"))
    for a, b in zip(one.arrays(slice(None)), other.arrays(slice(None)), strict=True):
        np.testing.assert_array_equal(a, b)


def start(*arguments, **environment):
    """The program, on its way."""
    return subprocess.Popen(
        [PROGRAM, "series", *map(str, arguments), "--quiet"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment,
    )  # fmt: skip


def finished(running):
    """Its exit code, and what it said."""
    said = running.communicate(timeout=120)
    return running.returncode, "".join(said)


def kill_while_sending(proxied, running):
    """Kills it once the store has the object whose answer is held, before it is told so."""
    with running:
        wait_until(proxied.is_holding, running)
        running.kill()
    proxied.set_faults()
    proxied.wait_until_idle()


SENT = ["all_features.mmap", "time.mmap", "entities", "checksums"]


@pytest.mark.slow
@pytest.mark.parametrize("key", SENT)
def test_a_build_that_is_killed_goes_on_to_the_same_bytes(built, proxied, bucket, tmp_path, key):
    whole = stored(bucket)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    build = ["build", "s3://atlas/prices/*.parquet", "--output-dir", "s3://atlas/killed"]
    build += ["--entity", "e", "--time", "t", "--horizon", "3"]
    proxied.set_faults(Fault(kind="hold", method="PUT", path=key))
    kill_while_sending(proxied, start(*build, TMPDIR=str(scratch), CELLFEED_CLOUD_DEADLINE="100"))
    assert "metadata.json" not in stored(bucket, "killed")
    with pytest.raises(NotFoundError, match="did not finish"):
        SeriesDataset("s3://atlas/killed", window=20)
    code, said = finished(start(*build, TMPDIR=str(scratch)))
    assert code == 1
    assert "unfinished build; continue it" in said
    code, said = finished(start(*build, "--resume", TMPDIR=str(scratch)))
    assert code == 0, said
    assert stored(bucket, "killed") == whole
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("key", SENT)
def test_a_killed_append_leaves_the_series_as_it_was(built, proxied, bucket, tmp_path, key):
    put_prices(bucket, tmp_path, "more", first=N_ROWS, n=80, entities=["c", "d"], seed=2)
    before = SeriesDataset("s3://atlas/out", window=20).arrays(slice(None))
    append = ["append", "s3://atlas/out", "s3://atlas/more/*.parquet"]
    proxied.set_faults(Fault(kind="hold", method="PUT", path=key))
    proxied.reset()
    kill_while_sending(proxied, start(*append, CELLFEED_CLOUD_DEADLINE="100"))
    assert verify_series("s3://atlas/out")
    again = SeriesDataset("s3://atlas/out", window=20)
    for a, b in zip(again.arrays(slice(None)), before, strict=True):
        np.testing.assert_array_equal(a, b)
    code, said = finished(start(*append))
    assert code == 0, said
    assert verify_series("s3://atlas/out")
    ds = SeriesDataset("s3://atlas/out", window=20)
    assert len(ds) == len(again) + 80 + (80 - 20 - 3 + 1)
    assert not [name for name in stored(bucket) if "appending" in name or "held" in name]


def test_rows_that_are_replaced_while_they_are_read_are_an_error(built, bucket):
    ds = SeriesDataset("s3://atlas/out", window=20)
    content = stored(bucket)["all_features.mmap"]
    bucket.put_object(Bucket="atlas", Key="out/all_features.mmap", Body=content[::-1])
    with pytest.raises(CorruptDataError, match=r"all_features\.mmap"):
        ds.arrays([0])
    with pytest.raises(CorruptDataError, match="damaged in 1 places"):
        verify_series("s3://atlas/out")


@pytest.mark.slow
def test_the_program_builds_and_looks_at_series_of_a_bucket(bucket, tmp_path):
    put_prices(bucket, tmp_path)
    put_prices(bucket, tmp_path, "more", first=N_ROWS, n=20)

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "cellfeed", "series", *arguments], capture_output=True, text=True
        )

    build = ("build", "s3://atlas/prices", "--output-dir", "s3://atlas/o", "--time", "t")
    made = run(*build, "--entity", "e")
    assert made.returncode == 0, made.stderr
    assert f"{3 * N_ROWS} rows x 2 features of 3 entities" in made.stdout
    assert run("append", "s3://atlas/o", "s3://atlas/more").returncode == 0
    assert run("verify", "s3://atlas/o").returncode == 0
    assert f"{3 * N_ROWS + 60} of 3 entities" in run("info", "s3://atlas/o").stdout
    twice = run(*build, "--entity", "e")
    assert twice.returncode == 1
    assert "holds a finished series" in twice.stderr


def test_row_groups_of_a_bucket_are_asked_for_together(bucket, proxied, tmp_path):
    frame = prices(entities=["a"])
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=10)
    bucket.upload_file(str(tmp_path / "a.parquet"), "atlas", "many/a.parquet")
    proxied.reset()
    build_series("s3://atlas/many/a.parquet", "s3://atlas/o", entity="e", time="t")
    assert proxied.count("GET", "a.parquet") < 20  # and not one for each of 30 x 4 chunks
    x, _, _ = expected_windows(frame, window=20, horizon=1)
    ours = SeriesDataset("s3://atlas/o", window=20).arrays(slice(None))[0]
    np.testing.assert_allclose(ours, x, rtol=1e-5, atol=1e-5)


def test_one_writer_has_a_folder_of_a_bucket(built, bucket):
    bucket.put_object(Bucket="atlas", Key="out/.lock.held", Body=b"elsewhere 1 2\n")
    with pytest.raises(AlreadyExistsError, match=r"\.lock\.held"):
        append_series("s3://atlas/prices/*.parquet", "s3://atlas/out")
