"""Inputs that change, or are no text, while a series is made of them: always an error."""

import gzip
import os
import pathlib
import re
import shutil
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from tiers import fast

from cellfeed import errors
from cellfeed.series import append_series, build_series, verify_series

N_ROWS = 300_000
KINDS = ("csv", "csv.gz", "parquet", "feather")
SHARED_OUT = ("csv", "parquet")  # several threads read parts of such a file


def write(path, offset=0.0, n_rows=N_ROWS, first=0):
    """Rows whose values tell which file they are of; as texts, which take time to read."""
    rows = np.arange(first, first + n_rows)
    columns = {"t": pa.array(rows), "v": pa.array(rows + offset), "w": pa.array(rows * 3 + offset)}
    table = pa.table({name: column.cast(pa.string()) for name, column in columns.items()})
    if path.name.endswith(".parquet"):
        table = table.set_column(0, "t", columns["t"])
        pq.write_table(table, path, row_group_size=10_000, use_dictionary=False)
    elif path.name.endswith(".feather"):
        pyarrow.feather.write_feather(
            table.set_column(0, "t", columns["t"]), path, chunksize=10_000
        )
    elif path.name.endswith(".gz"):
        with gzip.open(path, "wb", compresslevel=1) as file:
            pyarrow.csv.write_csv(table, file)
    else:
        pyarrow.csv.write_csv(table, path)


def rewrite(other, path, keeps_time=False):
    before = path.stat()
    with open(path, "r+b") as file:
        file.write(other.read_bytes())
        file.truncate()
    if keeps_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def grow(_, path):
    with open(path, "ab") as file:
        file.write(b"900000,900000.0,1.0\n")


CHANGES = {
    "replaced": os.replace,
    "rewritten": rewrite,
    "rewritten, with its old time": lambda other, path: rewrite(other, path, keeps_time=True),
    "grown": grow,
    "removed": lambda _, path: path.unlink(),
}


def once(change, *paths, after=0.0):
    """A callback that changes a file in the midst of reading."""
    done = []

    def report(phase, n, total, _rate):
        if phase == "reading" and not done and after * total < n < total:
            done.append(n)
            change(*paths)

    report.done = done
    return report


def error_of(make, change, other, path, out, use):
    """What use(progress) says where the file is changed while it reads it.

    A file that is replaced while its last part is read was whole: then there are more rows.
    """
    for n_rows in (N_ROWS, 6 * N_ROWS, 36 * N_ROWS):
        make(n_rows)
        progress = once(change, other, path)
        try:
            use(progress)
        except errors.CellfeedError as error:
            assert progress.done, "failed before the change"
            return error
        steps = np.unique(np.diff(values_of(out)[:, 0]))
        assert set(steps) <= {1.0, 1.0 - n_rows}, "rows of two files, and nothing was said"
    pytest.fail("reading was always over before the file could be changed")


def build(paths, out, **options):
    settings = {
        "time": "t", "features": ["v", "w"], "scaler": None, "dtype": "float64", "threads": 1,
    }  # fmt: skip
    return build_series(paths, out, **settings | options)


def values_of(out):
    return np.fromfile(out / "all_features.mmap").reshape(-1, 2)


@pytest.fixture
def change_while_read(tmp_path):
    """Builds of a.* (and of what lies before it) while it changes."""

    def changed(kind, change, out, other_rows=1.0, before=(), **options):
        path, other = tmp_path / f"a.{kind}", tmp_path / f"b.{kind}"

        def make(n_rows):
            shutil.rmtree(out, ignore_errors=True)
            for earlier in before:
                write(earlier, n_rows=n_rows)
            write(path, n_rows=n_rows)
            write(other, offset=0.5, n_rows=int(other_rows * n_rows))

        paths = [*before, path]
        return path, error_of(
            make, change, other, path, out,
            lambda progress: build(paths, out, progress=progress, **options),
        )  # fmt: skip

    return changed


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", SHARED_OUT)
def test_a_file_that_changes_between_its_parts_is_an_error(
    tmp_path, change_while_read, kind, change
):
    path, error = change_while_read(kind, CHANGES[change], tmp_path / "out")
    assert isinstance(error, errors.CorruptDataError)
    assert str(path) in str(error) and "since its reading began" in str(error)
    assert not (tmp_path / "out" / "metadata.json").exists()


@pytest.mark.parametrize(
    ("kind", "other_rows"),
    fast([("csv", 0.5), ("parquet", 2)], product(SHARED_OUT, [0.5, 2])),
)
def test_a_file_that_another_of_other_length_replaces_is_named(
    tmp_path, change_while_read, kind, other_rows
):
    options = {"time": None, "other_rows": other_rows}
    path, error = change_while_read(kind, os.replace, tmp_path / "out", **options)
    assert isinstance(error, errors.CorruptDataError)
    assert f"{path}" in str(error) and "since its reading began" in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_file_that_changes_is_an_error(tmp_path, change_while_read, kind):
    before = [tmp_path / f"first.{kind}"]
    path, error = change_while_read(kind, rewrite, tmp_path / "out", before=before)
    assert isinstance(error, errors.CorruptDataError)
    assert f"{path}" in str(error) and "since its reading began" in str(error)


@pytest.mark.parametrize("kind", [pytest.param("csv", marks=pytest.mark.slow), "parquet"])
def test_a_build_that_resumes_after_a_change_is_of_the_new_file_alone(
    tmp_path, change_while_read, kind
):
    path, error = change_while_read(kind, os.replace, tmp_path / "out")
    assert "since its reading began" in str(error)
    build(path, tmp_path / "out", resume=True)
    values = values_of(tmp_path / "out")[:, 0]
    np.testing.assert_array_equal(values, np.arange(len(values)) + 0.5)


@pytest.mark.filterwarnings("ignore:.*is not what the scaler was fitted on")
@pytest.mark.parametrize("kind", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_an_append_of_a_file_that_changes_leaves_the_series_as_it_was(tmp_path, kind):
    path, other, out = tmp_path / f"p.{kind}", tmp_path / f"q.{kind}", tmp_path / "out"
    write(tmp_path / "b.csv", n_rows=2, first=-2)

    def make(n_rows):
        shutil.rmtree(out, ignore_errors=True)
        build(tmp_path / "b.csv", out, entity=re.compile("(test_an_append)"))
        write(path, n_rows=n_rows)
        write(other, offset=0.5, n_rows=n_rows)

    make(10)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    error = error_of(
        make, os.replace, other, path, out,
        lambda progress: append_series(path, out, threads=1, progress=progress),
    )  # fmt: skip
    assert str(path) in str(error) and "since its reading began" in str(error)
    after = {file.name: file.read_bytes() for file in out.iterdir()}
    assert {**after, "metadata.json": b""} == {**before, "metadata.json": b""}
    assert verify_series(out)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_header_that_is_no_text_is_an_error(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_bytes(b"v\xe9,w\n1,2\n")
    else:
        pd.DataFrame({"vXX": [1.0], "w": [2.0]}).to_parquet(path, index=False)
        path.write_bytes(path.read_bytes().replace(b"vXX", b"v\xe9X"))
    for options in ({}, {"features": ["w"]}):
        with pytest.raises(errors.CorruptDataError, match=f"{path}.*column 1 is not UTF-8"):
            build(path, tmp_path / "out", time=None, **options)
        left = pathlib.Path(tmp_path / "out")
        assert not left.exists() or not any(left.iterdir())
        shutil.rmtree(left, ignore_errors=True)


@pytest.mark.parametrize("name", [b"a\xe9", b"\xed\xa0\x80", b"\xe0\x80\xaf"])
def test_names_of_entities_and_static_values_are_texts(tmp_path, name):
    path = tmp_path / "a.csv"
    path.write_bytes(b"e,w,s\n" + name + b",2,x\n")
    with pytest.raises(errors.CorruptDataError, match="not UTF-8"):
        build(path, tmp_path / "out", time=None, entity="e", features=["w"])
    path.write_bytes(b"e,w,s\nx,2," + name + b"\n")
    with pytest.raises(errors.CorruptDataError, match="not UTF-8"):
        build(path, tmp_path / "out", time=None, entity="e", features=["w"], static=["s"])
