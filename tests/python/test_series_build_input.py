"""What is wrong in arguments and files of series is named, with its place."""

import re
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import StandardScaler
from test_series_build import stored

from cellfeed import errors
from cellfeed.series import build_series


def csv(path, text):
    path.write_text(text)
    return path


WRONG = {
    "no such column": ({"features": ["vv"]}, errors.NoSuchKeyError, "no column 'vv'.*did you mean"),
    "no such time": ({"time": "tt"}, errors.NoSuchKeyError, "no column 'tt'"),
    "no such entity": ({"entity": "who"}, errors.NoSuchKeyError, "no column 'who'"),
    "a target that is none": ({"target": "w"}, errors.InvalidArgumentError, "target 'w'"),
    "scaler": ({"scaler": "z"}, errors.InvalidArgumentError, "scaler must be"),
    "scaler of no kind": ({"scaler": 3}, errors.InvalidTypeError, "scaler must be"),
    "dtype": ({"dtype": "int32"}, errors.InvalidArgumentError, "dtype"),
    "missing": ({"missing": "fill"}, errors.InvalidArgumentError, "missing must be"),
    "budget": ({"memory_budget": "1MB"}, errors.InvalidArgumentError, "32MB"),
    "a time that is none": ({"fit_until": "soon"}, errors.InvalidArgumentError, "fit_until"),
    "a fit before all": ({"fit_until": -5}, errors.InvalidArgumentError, "no value in any row"),
    "a fit of nothing": (
        {"fit_until": 3, "scaler": None},
        errors.InvalidArgumentError,
        "need a scaler",
    ),
    "twice": ({"features": ["v", "v"]}, errors.InvalidArgumentError, "named twice"),
    "horizon 0": ({"horizon": 0}, errors.InvalidArgumentError, "horizon"),
    "a pattern": ({"entity": re.compile("z+")}, errors.InvalidArgumentError, "does not match"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments_are_named(tmp_path, what):
    options, kind, message = WRONG[what]
    path = csv(tmp_path / "a.csv", "t,v\n1,2\n2,5\n")
    with pytest.raises(kind, match=message):
        build_series(path, tmp_path / "out", **{"time": "t", **options})
    build_series(path, tmp_path / "out", time="t")  # nothing is left in the way


BAD_FILES = {
    "inf": ("t,v\n1,2\n2,inf\n", "line 3, column 'v': is infinite"),
    "overflow": ("t,v\n1,2\n2,1e999\n", "line 3, column 'v': is infinite"),
    "text": ("t,v\n1,2\n2,two\n", "line 3, column 'v': is no number: 'two'"),
    "no time": ("t,v\n1,2\n,3\n", "line 3, column 't': the value is missing"),
    "no value": ("t,v\n1,2\n2,\n", "line 3, column 'v': the value is missing"),
    "mixed times": ("t,v\n1,2\n2020-01-01,3\n", "line 3, column 't': is a time unlike"),
    "zones": (
        "t,v\n2020-01-01T00:00:00Z,2\n2020-01-01 01:00:00,3\n",
        "line 3, column 't': is a time unlike",
    ),
    "no such day": ("t,v\n2021-02-29,2\n", "line 2, column 't': is no time"),
    "a quote": ('t,v\n1,"2\n', "line 2: a quote is not closed"),
    "behind a quote": ('t,v\n1,"2"3\n', "line 2: text stands behind"),
    "fields": ("t,v\n1,2\n2\n", "line 3 has 1 fields where the header has 2"),
    "names": ("t,t\n1,2\n", "two columns have the name 't'"),
    "no rows": ("t,v\n", "no rows"),
    "nothing": ("", "empty file"),
    "all missing": ("t,v\n1,\n2,NA\n", "the feature 'v' has no value"),
    "repeated": ("t,v\n1,2\n1,3\n", "two rows of the time 1"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_what_is_wrong_in_a_file_is_named_with_its_line(tmp_path, what):
    text, message = BAD_FILES[what]
    path = csv(tmp_path / "a.csv", text)
    missing = "nan" if what == "all missing" else "error"
    with pytest.raises(errors.CellfeedError, match=message):
        build_series(path, tmp_path / "out", time="t", features="v", missing=missing)


def test_files_that_do_not_agree(tmp_path):
    csv(tmp_path / "a.csv", "t,v\n1,2\n2,3\n")
    csv(tmp_path / "b.csv", "t,w\n1,2\n2,3\n")
    with pytest.raises(errors.InvalidArgumentError, match=r"b\.csv: has the numeric column 'w'"):
        build_series(str(tmp_path / "*.csv"), tmp_path / "out", time="t")
    with pytest.raises(errors.NoSuchKeyError, match=r"b\.csv: has no column 'v'"):
        build_series(str(tmp_path / "*.csv"), tmp_path / "out", time="t", features="v")
    csv(tmp_path / "b.csv", "t,v\n2020-01-01,2\n")
    with pytest.raises(errors.CorruptDataError, match="times are"):
        build_series(str(tmp_path / "*.csv"), tmp_path / "out", time="t")
    pq.write_table(pa.table({"t": [3], "v": [[1.0]]}), tmp_path / "b.parquet")
    with pytest.raises(errors.UnsupportedError, match=r"b\.parquet.*'v' holds lists"):
        build_series(tmp_path / "b.parquet", tmp_path / "out", time="t", features="v")


def test_constant_features_are_warned_about_and_have_scale_1(tmp_path):
    path = csv(tmp_path / "a.csv", "v,w\n" + "\n".join(f"0.1,{i}" for i in range(99)) + "\n")
    with pytest.warns(UserWarning, match="scale is 1: v"):
        result = build_series(path, tmp_path / "out")
    about, _, times, values = stored(result)
    assert (about["time"]["kind"], times.tolist()) == ("row", list(range(99)))
    np.testing.assert_allclose(values[:, 0], 0, atol=1e-7)
    np.testing.assert_allclose(
        values[:, 1], StandardScaler().fit_transform(np.arange(99.0)[:, None])[:, 0], rtol=1e-6
    )


def test_values_beyond_the_dtype(tmp_path):
    path = csv(tmp_path / "a.csv", "v\n1e300\n2\n")
    with pytest.raises(errors.PrecisionError, match="feature 'v': 1e\\+300 is beyond"):
        build_series(path, tmp_path / "out", scaler=None)
    build_series(path, tmp_path / "out", scaler=None, dtype="float64")
    assert stored(tmp_path / "out")[3][0, 0] == 1e300


@pytest.mark.parametrize("missing", ["error", "ffill", "nan"])
def test_a_missing_time_or_entity_is_said_to_need_its_row_left_out(tmp_path, missing):
    path = csv(tmp_path / "a.csv", "t,e,v\n1,a,1\n,a,2\n3,,3\n")
    for columns in ({"time": "t"}, {"entity": "e"}):
        with pytest.raises(errors.CorruptDataError, match="leave out such rows") as refused:
            build_series(path, tmp_path / "out", missing=missing, features=["v"], **columns)
        assert "nan" not in str(refused.value)
        assert (
            build_series(
                path, tmp_path / missing, missing="drop", features=["v"], scaler=None, **columns
            ).n_dropped
            == 1
        )
        shutil.rmtree(tmp_path / missing)


@pytest.mark.parametrize("write", ["to_csv", "to_parquet", "to_feather"])
def test_a_unit_is_of_whole_numbers_alone(tmp_path, write):
    times = pd.to_datetime(["2024-01-01", "2024-01-02"])
    for name, values in {"times": times, "texts": times.astype(str)}.items():
        path = tmp_path / f"{name}.{write[3:]}"
        getattr(pd.DataFrame({"t": values, "v": [1.0, 2.0]}), write)(path)
        build_series(path, tmp_path / name, time="t")
        with pytest.raises(errors.CorruptDataError, match="time_unit"):
            build_series(path, tmp_path / "b", time="t", time_unit="s")
    numbers = pd.DataFrame({"t": [1_704_067_200, 1_704_153_600], "v": [1.0, 2.0]})
    path = tmp_path / f"numbers.{write[3:]}"
    getattr(numbers, write)(path)
    build_series(path, tmp_path / "b", time="t", time_unit="s")
    np.testing.assert_array_equal(stored(tmp_path / "b")[2], times.to_numpy().astype("int64"))


TEXTS = {
    "text": pa.string(),
    "large text": pa.large_string(),
    "text of views": pa.string_view(),
    "bytes": pa.binary(),
    "bytes of one length": pa.binary(8),
    "categories": pa.dictionary(pa.int8(), pa.string()),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_numbers_in_texts_are_left_out_with_a_word_or_read_as_numbers(tmp_path, kind):
    prices = [1.25, 0.1, 63000.5]
    texts = [f"{price:<8}" if kind == "bytes of one length" else str(price) for price in prices]
    table = pa.table(
        {
            "t": [1, 2, 3], "price": pa.array(texts).cast(TEXTS[kind]), "volume": [7.0, 8.0, 9.0],
            "side": ["buy", "sell", "1"], "code": ["12", "13", "14"],
        }
    )  # fmt: skip
    suffix = "feather" if kind in ("text of views", "categories") else "parquet"
    path = tmp_path / f"ticks.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        pa.feather.write_feather(table, path, compression="uncompressed")
    with pytest.warns(errors.LeftOutWarning, match="hold numbers are left out: 'price', 'code'"):
        result = build_series(path, tmp_path / "some", time="t", scaler=None)
    assert result.n_features == 1 and len(result.warnings) == 1
    result = build_series(
        path, tmp_path / "all", time="t", scaler=None, dtype="float64", numeric=["code", "price"]
    )
    assert result.warnings == []
    metadata, _, _, features = stored(tmp_path / "all")
    assert metadata["features"] == ["price", "volume", "code"]
    np.testing.assert_array_equal(features, np.transpose([prices, [7, 8, 9], [12, 13, 14]]))
    chosen = build_series(path, tmp_path / "named", time="t", scaler=None, features="volume")
    assert chosen.warnings == []


def test_files_of_others_with_names_of_a_series_stay(tmp_path):
    pq.write_table(pa.table({"t": [1, 2], "v": [1.0, 2.0]}), tmp_path / "a.parquet")
    (tmp_path / "out").mkdir()
    for name in ("scaler.json", "time.mmap"):
        (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(
        errors.AlreadyExistsError, match="which no build there has begun; choose an"
    ):
        build_series(tmp_path / "a.parquet", tmp_path / "out", time="t")
    assert {file.read_text() for file in (tmp_path / "out").glob("[!.]*")} == {"mine"}


def test_numbers_in_texts_are_found_behind_missing_ones(tmp_path):
    texts = [None] * 3000 + ["-"] + [f"{i}.5" for i in range(3000)]
    table = pa.table({"t": range(6001), "v": np.arange(6001.0), "price": texts})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000)
    with pytest.warns(errors.LeftOutWarning, match="hold numbers are left out: 'price'"):
        build_series(tmp_path / "a.parquet", tmp_path / "out", time="t", scaler=None)


NOT_NUMERIC = {
    "side": (errors.CorruptDataError, "row 0, column 'side': .* no number: \"buy\""),
    "sid": (errors.NoSuchKeyError, "no column 'sid'.*did you mean 'side'"),
    "t": (errors.InvalidArgumentError, "'t' is no feature"),
}


@pytest.mark.parametrize("name", NOT_NUMERIC)
def test_what_numeric_cannot_name_is_an_error(tmp_path, name):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": [1, 2], "v": [1.0, 2.0], "side": ["buy", "sell"]}), path)
    kind, message = NOT_NUMERIC[name]
    with pytest.raises(kind, match=message):
        build_series(path, tmp_path / "s", time="t", numeric=name)
    with pytest.raises(errors.InvalidArgumentError, match="features are named"):
        build_series(path, tmp_path / "s", time="t", features="v", numeric=name)
