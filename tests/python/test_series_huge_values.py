"""Values whose sums are beyond float64: an error that names the feature, or right."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MinMaxScaler

from cellfeed import errors
from cellfeed.series import Scaler, SeriesDataset, append_series, build_series, verify_series

MOST = np.finfo(np.float64).max
SINGLE_MOST = float(np.finfo(np.float32).max)


def write(path, values, first=0):
    times = np.arange(first, first + len(values))
    pd.DataFrame({"t": times, "ok": np.arange(len(values)) + 0.5, "v": values}).to_csv(
        path, index=False
    )
    return path


def with_sentinel(value):
    values = np.arange(100) * 0.5
    values[60] = value
    return values


def halves(value):
    return np.where(np.arange(100) % 2 == 0, value, -value)


@pytest.mark.parametrize("scale", ["global", "entity"])
@pytest.mark.parametrize(
    ("scaler", "values"),
    [
        ("standard", with_sentinel(MOST)),
        ("standard", with_sentinel(1e160)),
        ("standard", halves(1e155)),
        ("minmax", halves(1.7e308)),
        ("robust", halves(1.7e308)),
    ],
)
def test_a_scale_beyond_float64_is_an_error_that_names_the_feature(tmp_path, scaler, scale, values):
    path = write(tmp_path / "sensor.csv", values)
    expected = "the feature 'v' has values from"
    if scale == "entity":
        expected = "entity 'sensor': " + expected
    for dtype in ("float32", "float64"):
        with pytest.raises(errors.PrecisionError, match=expected):
            build_series(path, tmp_path / "out", time="t", scaler=scaler, scale=scale, dtype=dtype)
        assert not (tmp_path / "out" / "metadata.json").exists()


def test_a_range_of_huge_values_is_that_of_sklearn(tmp_path):
    values = halves(1e300)
    out = tmp_path / "out"
    build_series(write(tmp_path / "a.csv", values), out, time="t", scaler="minmax")
    stored = np.fromfile(out / "all_features.mmap", np.float32).reshape(-1, 2)
    expected = MinMaxScaler().fit_transform(values[:, None])
    np.testing.assert_allclose(stored[:, 1], expected[:, 0], rtol=1e-6)
    assert verify_series(out)
    # What is beyond float64 is null in the file, also when it was read and written again.
    scaler = Scaler.load(out)
    assert json.loads(scaler.to_json())["variance"][1] is None
    build_series(tmp_path / "a.csv", tmp_path / "other", time="t", scaler=scaler)
    again = np.fromfile(tmp_path / "other" / "all_features.mmap", np.float32).reshape(-1, 2)
    np.testing.assert_array_equal(again, stored)
    append_series(write(tmp_path / "a.csv", halves(1e300), first=100), out)
    both = np.fromfile(out / "all_features.mmap", np.float32).reshape(-1, 2)
    np.testing.assert_array_equal(both[100:], stored)


def test_values_without_a_scaler_are_as_they_were(tmp_path):
    values = with_sentinel(MOST)
    path = write(tmp_path / "a.csv", values)
    out = tmp_path / "out"
    build_series(path, out, time="t", scaler=None, dtype="float64")
    stored = np.fromfile(out / "all_features.mmap").reshape(-1, 2)
    np.testing.assert_array_equal(stored[:, 1], values)
    append_series(write(path, values, first=100), out)
    assert len(SeriesDataset(out, window=1)) > 100
    with pytest.raises(errors.PrecisionError, match=r"feature 'v'.*beyond what float32"):
        build_series(path, tmp_path / "single", time="t", scaler=None)
    write(path, with_sentinel(1.0001 * SINGLE_MOST))
    with pytest.raises(errors.PrecisionError, match=r"feature 'v'.*beyond what float32"):
        build_series(path, tmp_path / "single", time="t", scaler=None)
    write(path, with_sentinel(SINGLE_MOST))
    build_series(path, tmp_path / "single", time="t", scaler=None)


@pytest.mark.parametrize("scaler", ["standard", "minmax", "robust"])
@pytest.mark.parametrize("scale", ["global", "entity"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_appended_value_whose_scaled_one_is_beyond_the_dtype_is_an_error(
    tmp_path, scaler, scale, dtype
):
    out = tmp_path / "out"
    path = write(tmp_path / "a.csv", np.arange(100) * 1e-10)
    build_series(path, out, time="t", scaler=scaler, scale=scale, dtype=dtype)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    write(path, with_sentinel(MOST), first=100)
    with pytest.raises(errors.PrecisionError, match=f"entity 'a'.*feature 'v'.*{dtype} holds"):
        append_series(path, out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


@pytest.mark.parametrize("scaler", ["standard", "minmax", "robust"])
def test_a_new_entity_whose_scale_is_beyond_float64_is_an_error(tmp_path, scaler):
    out = tmp_path / "out"
    build_series(
        write(tmp_path / "a.csv", np.arange(100.0)), out, time="t", scaler=scaler, scale="entity"
    )
    with pytest.raises(errors.PrecisionError, match="entity 'b': the feature 'v'"):
        append_series(write(tmp_path / "b.csv", halves(1.7e308)), out)
    assert verify_series(out)


def test_quartiles_that_are_the_same_are_not_called_values_that_are(tmp_path):
    path = write(tmp_path / "a.csv", np.where(np.arange(100) < 10, np.arange(100) * 1.0, 7.0))
    with pytest.warns(UserWarning, match="the quartiles are the same.*: v$"):
        build_series(path, tmp_path / "robust", time="t", scaler="robust")
    write(path, np.full(100, 7.0))
    with pytest.warns(UserWarning, match="^all values are the same.*: v$"):
        build_series(path, tmp_path / "minmax", time="t", scaler="minmax")
