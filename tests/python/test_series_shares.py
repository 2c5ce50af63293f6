"""One large file is read by several threads: the same rows, and errors that name the right one."""

import gzip
import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from program import run
from test_series_build import stored
from tiers import fast

from cellfeed import errors
from cellfeed.series import build_series

N = 60_000


def large(**others):
    """Rows of 30 entities, one after another; a CSV of them is some megabytes."""
    random = np.random.default_rng(3)
    frame = pd.DataFrame(random.normal(size=(N, 3)), columns=["a", "b", "c"])
    frame["entity"], frame["t"] = np.repeat([f"e{e}" for e in range(30)], N // 30), np.arange(N)
    return frame.assign(**others)


def write(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".feather":
        frame.to_feather(path, chunksize=1000)
    elif path.suffix == ".gz":
        with gzip.open(path, "wt", compresslevel=1) as file:
            frame.to_csv(file, index=False)
    else:
        frame.to_parquet(path, index=False, row_group_size=1500)
    return path


def build(path, out, **options):
    options = {"entity": "entity", "time": "t", "dtype": "float64"} | options
    return build_series(path, out, **options)


KINDS = ["rows.csv", "rows.parquet", "rows.feather", "rows.csv.gz"]
ORDERS = ["as it is", "entities alternate", "backwards"]
OF_EACH = [
    ("rows.csv", "backwards"), ("rows.parquet", "entities alternate"), ("rows.parquet", "as it is"),
    ("rows.feather", "backwards"), ("rows.csv.gz", "entities alternate"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "order"), fast(OF_EACH, product(KINDS, ORDERS)))
def test_rows_are_those_of_the_file(tmp_path, name, order):
    frame = large()
    if order == "entities alternate":
        frame["entity"] = np.resize(frame.entity.unique(), N)
    if order == "backwards":
        frame = frame[::-1].reset_index(drop=True)
    path = write(frame, tmp_path / name)
    assert path.stat().st_size > 1 << 20
    made = []
    for threads, budget in [(1, "1GB"), (4, "1GB"), (3, "32MB")]:
        out = tmp_path / f"out{threads}"
        result = build(path, out, scaler=None, threads=threads, memory_budget=budget)
        assert result.n_rows == result.n_rows_read == N
        made.append({p.name: p.read_bytes() for p in out.iterdir()})
    assert made[0] == made[1] == made[2]
    about, names, times, values = stored(tmp_path / "out1")
    told = run("series", "build", path, "--output-dir", tmp_path / "again", "--entity", "entity",
               "--time", "t", "--json")  # fmt: skip
    assert (json.loads(told)["n_parts"] > 1) == (name in ("rows.csv", "rows.parquet"))
    expected = frame.sort_values(["t"], kind="stable")
    by_entity = pd.concat([expected[expected.entity == e["name"]] for e in about["entities"]])
    assert [e["name"] for e in about["entities"]] == frame.entity.unique().tolist()
    assert names.tolist() == by_entity.entity.tolist()
    assert times.tolist() == by_entity.t.tolist()
    np.testing.assert_allclose(values, by_entity[["a", "b", "c"]], rtol=1e-15)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_rows_without_a_time_are_counted_through_all_shares(tmp_path, ends):
    frame = large()[["a", "entity"]].assign(b=np.arange(N), c="x" * 20)
    frame.to_csv(tmp_path / "rows.csv", index=False, lineterminator=ends)
    build(tmp_path / "rows.csv", tmp_path / "out", time=None, features=["b"], scaler=None)
    _, _, times, values = stored(tmp_path / "out")
    assert values[:, 0].tolist() == list(range(N))
    assert times.tolist() == list(range(N // 30)) * 30


@pytest.mark.slow
@pytest.mark.parametrize("row", [0, 1, 777, N // 3, N // 2, N - 2, N - 1])
def test_errors_name_the_line_of_the_file(tmp_path, row):
    frame = large().astype({"b": object})
    frame.loc[row, "b"] = "oops"
    path = write(frame, tmp_path / "rows.csv")
    with pytest.raises(errors.CorruptDataError, match=f"line {row + 2}, column 'b'.*'oops'"):
        build(path, tmp_path / "out", features=["a", "b", "c"])
    lines = write(large(), path).read_text().splitlines()
    lines[row + 1] = lines[row + 1].rsplit(",", 2)[0]
    path.write_text("\n".join(lines))
    with pytest.raises(errors.CorruptDataError, match=f"line {row + 2} has 3 fields"):
        build(path, tmp_path / "out2")


@pytest.mark.parametrize("row", [0, 1499, 1500, N // 2 + 1, N - 1])
def test_errors_name_the_row_of_a_parquet_file(tmp_path, row):
    frame = large()
    frame.loc[row, "c"] = np.inf
    path = write(frame, tmp_path / "rows.parquet")
    with pytest.raises(errors.CorruptDataError, match=f"row {row}, column 'c': is infinite"):
        build(path, tmp_path / "out")


def test_values_keep_their_bits_in_half_the_memory(tmp_path):
    """Of float32 values, of some that are none, and of both in one file."""
    frame = large()
    frame[["a", "b", "c"]] = frame[["a", "b", "c"]].astype(np.float32).astype(np.float64)
    frame.loc[N // 2 :: 7, "b"] = 0.1
    frame.loc[5, ["a", "b", "c"]] = [-0.0, 2.0**-149, 3e38]
    frame.loc[N // 3 : N // 2, "c"] = np.nan
    path = write(frame, tmp_path / "rows.parquet")
    made = []
    for budget in ("1GB", "32MB"):
        build(path, tmp_path / budget, scaler=None, missing="nan", memory_budget=budget)
        made.append((tmp_path / budget / "all_features.mmap").read_bytes())
    assert made[0] == made[1]
    assert made[0] == frame[["a", "b", "c"]].to_numpy().tobytes()
