"""Builds of columns that are float32, of float64 that hold no more, and of float64 that do."""

from itertools import product

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import StandardScaler
from tiers import fast

from cellfeed import errors
from cellfeed.series import build_series

N_ROWS = 600_000  # many blocks of rows, and more than half of the smallest budget
FILES = ("all_features.mmap", "time.mmap", "scaler.json", "checksums.mmap", "entities.arrow")
KINDS = {
    "float32": ["float32"] * 5,
    "float64": ["float64"] * 5,
    "one of float64": ["float32", "float32", "float64", "float32", "float32"],
    "whole numbers": ["int16"] * 5,
}


def make_frame(types, first_wide, n_entities=3, alternates=False):
    """From the row `first_wide` on, values of float64 are not those of float32."""
    random = np.random.default_rng(first_wide)
    columns = {}
    for number, dtype in enumerate(types):
        values = (random.normal(number, 100, N_ROWS)).astype(np.float32).astype(np.float64)
        if dtype == "float64":
            values[first_wide:] += 1e-9
        columns[f"f{number}"] = values.astype(dtype)
    entities = np.arange(N_ROWS)
    entities = entities % n_entities if alternates else entities * n_entities // N_ROWS
    return pd.DataFrame(columns | {"e": entities, "t": np.arange(N_ROWS)})


def build(folder, name, **options):
    out = folder / name
    build_series(folder / "rows.parquet", out, entity="e", time="t", dtype="float64", **options)
    return out


@pytest.mark.parametrize(
    ("kind", "first_wide", "alternates"),
    [
        pytest.param("float32", 0, False, marks=pytest.mark.slow),
        pytest.param("float32", 0, True, marks=pytest.mark.slow),
        pytest.param("float64", 0, False, marks=pytest.mark.slow),
        pytest.param("float64", 100, True, marks=pytest.mark.slow),
        pytest.param("float64", 300_007, False, marks=pytest.mark.slow),
        pytest.param("float64", N_ROWS, False, marks=pytest.mark.slow),
        ("one of float64", 300_007, True),
        pytest.param("one of float64", N_ROWS, False, marks=pytest.mark.slow),
        ("whole numbers", 0, False),
    ],
)
def test_rows_are_those_of_scikit_learn(tmp_path, kind, first_wide, alternates):
    frame = make_frame(KINDS[kind], first_wide, alternates=alternates)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=70_001)
    out = build(tmp_path, "out", threads=1)
    features = [f"f{number}" for number in range(5)]
    rows = frame.sort_values(["e", "t"], kind="stable")
    expected = StandardScaler().fit_transform(rows[features].to_numpy(np.float64))
    found = np.fromfile(out / "all_features.mmap", np.float64).reshape(-1, 5)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(np.fromfile(out / "time.mmap", np.int64), rows.t)
    # Neither threads nor what is kept in memory, and as what, change a byte.
    for name, options in {
        "spilled": {"threads": 1, "memory_budget": "32MB"},
        "shared": {"threads": 3, "memory_budget": "48MB"},
    }.items():
        other = build(tmp_path, name, **options)
        for file in FILES:
            assert (other / file).read_bytes() == (out / file).read_bytes(), (name, file)


@pytest.mark.parametrize(
    ("value", "dtype"),
    fast(
        [(np.nan, "float32"), (np.inf, "float32"), (-np.inf, "float64"), (None, "float64")],
        product([np.nan, np.inf, -np.inf, None], ["float32", "float64"]),
    ),
)
def test_values_that_may_not_be_are_named(tmp_path, dtype, value):
    frame = make_frame([dtype] * 5, N_ROWS)
    if value is None:
        frame["f3"] = frame.f3.astype(dtype.replace("f", "F"))
    frame.loc[423_456, "f3"] = value
    frame.to_parquet(tmp_path / "rows.parquet")
    place = r"row 423456, column 'f3'.*" + ("infinite" if value and np.isinf(value) else "missing")
    with pytest.raises(errors.CorruptDataError, match=place):
        build(tmp_path, "out")
    assert pq.read_metadata(tmp_path / "rows.parquet").num_rows == N_ROWS
    if value is None or np.isnan(value):
        out = build(tmp_path, "dropped", missing="drop")
        times = np.fromfile(out / "time.mmap", np.int64)
        np.testing.assert_array_equal(times, np.delete(np.arange(N_ROWS), 423_456))
