"""Objects of a bucket that are replaced while a series is built of them: never rows of two."""

import io
import shutil
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from fault_rules import Fault

import cellfeed as cf
from cellfeed import errors
from cellfeed.series import SeriesDataset, append_series, build_series, verify_series

pytest.importorskip("boto3")
# More than one request reads of them.
N_ROWS = {"csv": 400_000, "parquet": 400_000}
SETTINGS = {"time": "t", "scaler": None, "dtype": "float64", "entity": "e", "threads": 2}


def content_of(kind, offset, first=0):
    """Rows whose values tell which object they are of; as many bytes for any offset."""
    n = N_ROWS[kind]
    rows = np.arange(first, first + n)
    values = (rows + 1_000_000 + offset).astype(np.int64)
    table = pa.table({"e": pa.array(["one"] * n), "t": rows, "v": values, "w": values * 2})
    out = io.BytesIO()
    if kind == "csv":
        pyarrow.csv.write_csv(table, out)
    else:
        plain = {"use_dictionary": ["e"], "compression": "none"}
        pq.write_table(table, out, row_group_size=n // 16, **plain)
    return out.getvalue()


@pytest.fixture(scope="module")
def contents():
    return {kind: [content_of(kind, offset) for offset in (0, 2_000_000)] for kind in N_ROWS}


@pytest.fixture(autouse=True)
def patience(proxied, monkeypatch):
    """No answer that is held back is given up on a slow machine."""
    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "100")


def replaced_after(bucket, proxied, key, other, k, use):
    """What use() says where the object is another one once the k-th request was answered.

    That answer is held back meanwhile and then lost, so that it is asked for again.
    """
    proxied.set_faults(Fault(kind="hold", method="GET", path=key, nth=(k,)))
    proxied.reset()
    is_over = threading.Event()

    def replace():
        while not is_over.is_set() and not proxied.is_holding():
            time.sleep(0.002)
        if proxied.is_holding():
            bucket.put_object(Bucket="atlas", Key=key, Body=other)
            proxied.set_faults()

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        return use()
    finally:
        is_over.set()
        thread.join()
        proxied.set_faults()


def values_of(path):
    return SeriesDataset(path, window=1).arrays(slice(None))[0][:, 0, 0]


def expected(kind, offset):
    return np.arange(N_ROWS[kind] - 1) + 1_000_000 + offset


def listed(bucket, prefix):
    found = bucket.list_objects_v2(Bucket="atlas", Prefix=prefix).get("Contents", [])
    return [each["Key"] for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("kind", list(N_ROWS))
def test_an_object_that_is_replaced_in_a_build_is_named(
    bucket, proxied, contents, tmp_path, kind, is_kept
):
    one, other = contents[kind]
    assert len(one) == len(other) and one != other
    key = f"prices.{kind}"
    bucket.put_object(Bucket="atlas", Key=key, Body=one)
    build_series(f"s3://atlas/{key}", tmp_path / "first", **SETTINGS)
    n_requests = proxied.count("GET", key)
    assert n_requests > 2
    refused = 0
    for k in dict.fromkeys([1, 2, n_requests // 2, n_requests - 1, n_requests]):
        bucket.put_object(Bucket="atlas", Key=key, Body=one)
        out = tmp_path / f"out{k}"
        if is_kept:
            cf.set_storage_options("s3://atlas", {"cache_dir": str(tmp_path / f"copies{k}")})
        try:
            replaced_after(
                bucket, proxied, key, other, k,
                lambda out=out: build_series(f"s3://atlas/{key}", out, **SETTINGS),
            )  # fmt: skip
        except errors.CellfeedError as error:
            refused += 1
            assert f"s3://atlas/{key}" in str(error) and "written again" in str(error), k
            with pytest.raises(errors.NotFoundError):
                SeriesDataset(out, window=1)
            # Gone on with or begun again, it is of the new object alone.
            try:
                build_series(f"s3://atlas/{key}", out, resume=True, **SETTINGS)
            except errors.CellfeedError:
                shutil.rmtree(out)
                build_series(f"s3://atlas/{key}", out, **SETTINGS)
            np.testing.assert_array_equal(values_of(out), expected(kind, 2_000_000))
        else:
            found = values_of(out)
            assert any(np.array_equal(found, expected(kind, x)) for x in (0, 2_000_000)), k
        finally:
            cf.set_storage_options("s3://atlas", {})
        assert verify_series(out)
    assert refused > 0


def test_nothing_of_a_build_that_was_refused_is_taken_for_a_series_in_a_bucket(
    bucket, proxied, contents
):
    one, other = contents["csv"]
    bucket.put_object(Bucket="atlas", Key="prices.csv", Body=one)
    with pytest.raises(errors.CellfeedError, match=r"s3://atlas/prices\.csv"):
        replaced_after(
            bucket, proxied, "prices.csv", other, 2,
            lambda: build_series("s3://atlas/prices.csv", "s3://atlas/made", **SETTINGS),
        )  # fmt: skip
    assert "made/metadata.json" not in listed(bucket, "made/")
    with pytest.raises(errors.NotFoundError):
        SeriesDataset("s3://atlas/made", window=1)


def test_an_append_of_an_object_that_is_replaced_leaves_the_series_as_it_was(
    bucket, proxied, contents, tmp_path
):
    (tmp_path / "a.csv").write_bytes(contents["csv"][0])
    build_series(tmp_path / "a.csv", tmp_path / "out", **SETTINGS)
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    more = [content_of("csv", offset, first=N_ROWS["csv"]) for offset in (0, 2_000_000)]
    bucket.put_object(Bucket="atlas", Key="more.csv", Body=more[0])
    with pytest.raises(errors.CellfeedError, match=r"s3://atlas/more\.csv"):
        replaced_after(
            bucket, proxied, "more.csv", more[1], 2,
            lambda: append_series("s3://atlas/more.csv", tmp_path / "out"),
        )  # fmt: skip
    after = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert {name: after[name] for name in before} == before
    assert verify_series(tmp_path / "out")
