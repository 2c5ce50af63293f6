"""What files, folders and columns a build takes for what, against pandas and scikit-learn."""

import datetime as dt
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import RobustScaler, StandardScaler
from test_series_build import stored

from cellfeed import errors
from cellfeed.series import Scaler, SeriesDataset, append_series, build_series


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def built(paths, out, **options):
    build_series(paths, out, scaler=None, dtype="float64", **options)
    return stored(out)


def test_folders_of_pandas_name_entities_as_pandas_reads_them(tmp_path):
    names = ["BRK/A", "X Y", "a=b", "100%", "é"]
    frame = pd.DataFrame({"sym": names, "t": range(5), "v": np.arange(5.0)})
    frame.to_parquet(tmp_path / "in", partition_cols=["sym"])
    read = pd.read_parquet(tmp_path / "in")
    _about, entities, _times, values = built(tmp_path / "in", tmp_path / "out", entity="sym")
    assert sorted(entities) == sorted(names)
    assert dict(zip(entities, values[:, -1], strict=True)) == dict(
        zip(read["sym"].astype(str), read["v"], strict=True)
    )


def test_dictionaries_of_numbers_are_features_of_any_file(tmp_path):
    table = pa.table({"t": [1, 2], "v": [1.0, 2.0], "k": pa.array([5, 6]).dictionary_encode()})
    pq.write_table(table, tmp_path / "in.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "in.feather")
    for name in ("in.parquet", "in.feather"):
        about, *_, values = built(tmp_path / name, tmp_path / f"{name}.out", time="t")
        assert about["features"] == ["v", "k"] and values.tolist() == [[1, 5], [2, 6]]


@pytest.mark.parametrize("text", ["1.#IND", "1.#QNAN", "-1.#IND", "#N/A", "NULL"])
def test_missing_values_are_those_of_pandas(tmp_path, text):
    path = write(tmp_path / "in.csv", f"t,v,w\n1,2,1\n2,{text},1\n")
    assert pd.read_csv(path)["v"].isna().tolist() == [False, True]
    about, *_, values = built(path, tmp_path / "out", time="t", missing="nan")
    assert about["features"] == ["v", "w"] and np.isnan(values[1, 0])


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
def test_static_numbers_are_as_they_were_read_or_refused(tmp_path, kind):
    def statics(name, ids, as_type=None):
        frame = pd.DataFrame({"t": [1, 2], "v": [1.0, 2.0], "e": ["a", "b"], "id": ids})
        frame["id"] = frame["id"] if as_type is None else frame["id"].astype(as_type)
        path = tmp_path / f"{name}.{kind}"
        writers = {"parquet": frame.to_parquet, "feather": frame.to_feather}
        writers.get(kind, lambda p: frame.to_csv(p, index=False))(path)
        build_series(path, tmp_path / name, entity="e", time="t", static="id", scaler=None)
        return [entity["static"]["id"] for entity in stored(tmp_path / name)[0]["entities"]]

    assert statics("exact", [2**53, -(2**62)]) == [2.0**53, -(2.0**62)]
    assert statics("floats", [1e300, 0.5]) == [1e300, 0.5]
    with pytest.raises(errors.PrecisionError, match=r"'id': 9007199254740993 is no float64"):
        statics("ids", [2**53, 2**53 + 1])
    with pytest.raises(errors.PrecisionError, match=r"'id': 18446744073709551615 is no float64"):
        statics("unsigned", [1, 2**64 - 1], "uint64")
    if kind == "parquet":
        decimals = [Decimal(2**53 + 1), Decimal(5)]
        with pytest.raises(errors.PrecisionError, match=r"'id': 9007199254740993 is no float64"):
            statics("decimals", decimals, pd.ArrowDtype(pa.decimal128(38, 0)))
        assert statics("small", decimals[1:] * 2, pd.ArrowDtype(pa.decimal128(38, 2))) == [5, 5]


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_dictionaries_are_parts_of_times(tmp_path, kind):
    days = pa.array([3, 4], pa.int32()).dictionary_encode()
    table = pa.table({"y": [2024, 2024], "m": [1, 1], "d": days, "v": [1.0, 2.0]})
    path = tmp_path / f"in.{kind}"
    {"parquet": pq.write_table, "feather": pyarrow.feather.write_feather}[kind](table, path)
    _about, _names, times, _values = built(path, tmp_path / "out", time=["y", "m", "d"])
    assert times.astype("M8[ns]").astype("M8[D]").astype(str).tolist() == [
        "2024-01-03",
        "2024-01-04",
    ]


def test_what_cannot_be_is_said_before_files_are_read(tmp_path):
    path = write(tmp_path / "in.csv", "t,v\n1,x\n")
    with pytest.raises(errors.InvalidArgumentError, match=r"fit_until must be a time.*2024-13-01"):
        build_series(path, tmp_path / "out", time="t", fit_until="2024-13-01")
    with pytest.raises(errors.InvalidArgumentError, match="duplicates are rows of one time"):
        build_series(path, tmp_path / "out", duplicates="last")


@pytest.mark.parametrize("damaged", [-1, 86_400 * 10**9, 2**63 - 1])
def test_nanoseconds_of_no_day_are_refused(tmp_path, damaged):
    table = pa.table({"t": pa.array([dt.datetime(2024, 1, 1, 0, 0, 7)], pa.timestamp("us"))})
    table = table.append_column("v", [[1.0]])
    path = tmp_path / "in.parquet"
    options = {"use_deprecated_int96_timestamps": True, "use_dictionary": False}
    pq.write_table(table, path, compression="none", write_statistics=False, **options)
    stored_ns = (7 * 10**9).to_bytes(8, "little")
    assert path.read_bytes().count(stored_ns) == 1
    damaged_ns = damaged.to_bytes(8, "little", signed=True)
    path.write_bytes(path.read_bytes().replace(stored_ns, damaged_ns))
    with pytest.raises(errors.CorruptDataError, match="column 't': a time is beyond what nanos"):
        built(path, tmp_path / "out", time="t")


@pytest.mark.parametrize("time", ["1677-09-21T00:12:44", "2262-04-11T23:47:16"])
def test_first_and_last_times_of_96_bits(tmp_path, time):
    table = pa.table({"t": pa.array([np.datetime64(time, "us")], pa.timestamp("us")), "v": [1.0]})
    pq.write_table(table, tmp_path / "in.parquet", use_deprecated_int96_timestamps=True)
    *_, times, _values = built(tmp_path / "in.parquet", tmp_path / "out", time="t")
    assert times[0] == np.datetime64(time, "ns").astype("i8")


@pytest.mark.parametrize("year", [1500, 1677, 2024, 2262, 9999])
def test_times_of_96_bits_are_those_of_64_or_refused(tmp_path, year):
    times = [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), dt.datetime(year, 12, 31, 1, 2, 3)]
    table = pa.table({"t": pa.array([*times, None], pa.timestamp("us")), "v": [1.0, 2, 3, 4]})
    path = tmp_path / "in.parquet"
    pq.write_table(table.slice(0, 3), path, use_deprecated_int96_timestamps=True, row_group_size=2)
    if year in (1677, 2024):
        *_, stored_times, values = built(path, tmp_path / "out", time="t")
        order = np.argsort(np.array(times, "datetime64[ns]"))
        np.testing.assert_array_equal(values[:, 0], table["v"].to_numpy()[:3][order])
        np.testing.assert_array_equal(
            stored_times, np.array(times, "datetime64[ns]")[order].view("i8")
        )
        return
    with pytest.raises(errors.CorruptDataError, match=r"column 't': a time is beyond what nano"):
        built(path, tmp_path / "out", time="t")


def test_the_folder_of_missing_values_has_no_entity(tmp_path):
    frame = pd.DataFrame({"sym": ["A", None], "t": [1, 2], "v": [1.0, 2.0]})
    frame["sym"] = frame["sym"].fillna("__HIVE_DEFAULT_PARTITION__")
    frame.to_parquet(tmp_path / "in", partition_cols=["sym"])
    with pytest.raises(errors.CorruptDataError, match="'sym': the value is missing"):
        built(tmp_path / "in", tmp_path / "bad", entity="sym", time="t")
    result = build_series(
        tmp_path / "in", tmp_path / "out", entity="sym", time="t", missing="drop", scaler=None
    )
    about, _names, _times, values = stored(tmp_path / "out")
    assert result.n_dropped == 1 and values.tolist() == [[1.0]]
    assert [entity["name"] for entity in about["entities"]] == ["A"]


def test_a_column_that_the_folder_has_too_must_agree(tmp_path):
    write(tmp_path / "same/sym=B%2FA/x.csv", "sym,v\nB/A,1\nB/A,2\n")
    assert built(tmp_path / "same", tmp_path / "out", entity="sym")[1].tolist() == ["B/A"] * 2
    write(tmp_path / "other/sym=B%2FA/x.csv", "sym,v\nB/A,1\nC,2\n")
    with pytest.raises(errors.CorruptDataError, match="line 3, column 'sym': is 'C' where"):
        built(tmp_path / "other", tmp_path / "bad", entity="sym")


def test_times_of_folders_are_refused_by_name(tmp_path):
    write(tmp_path / "in/year=2024/x.csv", "month,v\n1,1\n2,2\n")
    with pytest.raises(errors.UnsupportedError, match="'year', which time names, is the key of a"):
        built(tmp_path / "in", tmp_path / "bad", time=["year", "month"])


def test_columns_without_a_name_are_no_features(tmp_path):
    frame = pd.DataFrame({"t": [1, 2], "v": [1.0, 2.0]})
    frame.to_csv(tmp_path / "index.csv")
    assert built(tmp_path / "index.csv", tmp_path / "a", time="t")[0]["features"] == ["v"]
    path = write(tmp_path / "two.csv", ",t,v,\n0,1,1,\n1,2,2,\n")
    about, _names, _times, values = built(path, tmp_path / "b", time="t")
    assert about["features"] == ["v"] and values.tolist() == [[1.0], [2.0]]
    with pytest.raises(errors.CorruptDataError, match="several have no name"):
        built(path, tmp_path / "bad", time="t", features=["", "v"])


@pytest.mark.parametrize("kind", ["files", "chunks", "null text", "null type"])
def test_rows_without_a_time_are_of_no_kind(tmp_path, kind):
    folder = tmp_path / "in"
    write(folder / "a.csv", "t,v\n2024-01-01T00:00Z,1\n")
    n_missing = 1
    if kind == "files":
        write(folder / "b.csv", "t,v\n,2\n")
    elif kind == "chunks":
        n_missing = 40_000
        write(folder / "b.csv", "t,v\n" + ",1\n" * n_missing + "2024-01-02T00:00Z,3\n")
    else:
        kinds = {"null text": pa.string(), "null type": pa.null()}
        pq.write_table(pa.table({"t": pa.nulls(1, kinds[kind]), "v": [2.0]}), folder / "b.parquet")
    result = build_series(folder, tmp_path / "out", time="t", missing="drop", scaler=None)
    about, _names, times, values = stored(tmp_path / "out")
    expected = ["2024-01-01", "2024-01-02"] if kind == "chunks" else ["2024-01-01"]
    assert times.tolist() == [pd.Timestamp(day).value for day in expected]
    assert about["time"]["kind"] == "zoned" and result.n_dropped == n_missing
    assert values[0].tolist() == [1.0]
    with pytest.raises(errors.CorruptDataError, match="'t': the value is missing"):
        build_series(folder, tmp_path / "bad", time="t", scaler=None)


def test_kinds_that_differ_are_found_beyond_rows_without_a_time(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "t,v\n2024-01-01T00:00Z,1\n" + ",1\n" * 40_000 + "2024-01-02T00:00,3\n",
    )
    with pytest.raises(errors.CorruptDataError, match="zone"):
        built(path, tmp_path / "bad", time="t", missing="drop")


def test_no_time_at_all_is_named(tmp_path):
    path = write(tmp_path / "a.csv", "t,v\n,1\n")
    with pytest.raises(errors.CorruptDataError, match="no row of the inputs has a time"):
        built(path, tmp_path / "bad", time="t", missing="drop")


def test_booleans_of_text_are_those_of_parquet(tmp_path):
    frame = pd.DataFrame({"p": [True, False, True], "v": [1.0, 2.0, 3.0]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    for i, name in enumerate(["a.csv", "a.parquet"]):
        values = built(tmp_path / name, tmp_path / f"n{i}", features=["p", "v"])[3]
        np.testing.assert_array_equal(values, frame.to_numpy(np.float64))
        assert built(tmp_path / name, tmp_path / f"o{i}")[0]["features"] == ["v"]
    path = write(tmp_path / "b.csv", "p,v\ntrue,1\n,2\nFalse,3\n")
    values = built(path, tmp_path / "gap", features="p", missing="nan")[3]
    np.testing.assert_array_equal(values[:, 0], [1, np.nan, 0])


@pytest.mark.parametrize("last", ["1", "2.5", "yes"])
def test_what_is_no_boolean_among_booleans_is_named(tmp_path, last):
    path = write(tmp_path / "a.csv", "p\n" + "True\n" * 2000 + f"{last}\n")
    with pytest.raises(errors.CorruptDataError, match=r"line 2002.*neither true nor false"):
        built(path, tmp_path / "bad", features="p")
    path = write(tmp_path / "b.csv", f"p\n{last}\nTrue\n")
    with pytest.raises(errors.CorruptDataError, match="is no number"):
        built(path, tmp_path / "bad", features="p")


@pytest.mark.parametrize(
    "model",
    [
        StandardScaler(with_std=False),
        StandardScaler(with_mean=False),
        StandardScaler(with_mean=False, with_std=False),
        RobustScaler(with_scaling=False),
        RobustScaler(with_centering=False),
        RobustScaler(with_centering=False, with_scaling=False),
    ],
    ids=repr,
)
def test_scalers_that_leave_out_a_step(tmp_path, model):
    frame = pd.DataFrame(np.random.default_rng(0).normal(5, 3, (50, 2)), columns=["a", "b"])
    expected = model.fit(frame).transform(frame)
    scaler = Scaler.from_sklearn(model)
    np.testing.assert_allclose(scaler.transform(frame.to_numpy()), expected, rtol=1e-12)
    np.testing.assert_allclose(scaler.to_sklearn().transform(frame), expected, rtol=1e-12)
    frame.to_csv(tmp_path / "x.csv", index=False)
    build_series(tmp_path / "x.csv", tmp_path / "out", scaler=scaler, dtype="float64")
    np.testing.assert_allclose(stored(tmp_path / "out")[3], expected, rtol=1e-12)
    assert Scaler.load(tmp_path / "out") == scaler


def test_series_below_a_folder_are_no_inputs(tmp_path):
    write(tmp_path / "in/a.csv", "t,v\n1,1\n2,2\n")
    options = {"time": "t"}
    first = built(tmp_path / "in", tmp_path / "in/series", **options)
    again = built(tmp_path / "in", tmp_path / "in/again", **options)
    other = built(tmp_path / "in", tmp_path / "other", **options)
    for rows in (again, other):
        np.testing.assert_array_equal(rows[3], first[3])
        assert [e["name"] for e in rows[0]["entities"]] == ["a"]
    write(tmp_path / "in/a.csv", "t,v\n3,3\n")
    assert append_series(tmp_path / "in", tmp_path / "in/series").n_rows_added == 1
    with pytest.raises(errors.NotFoundError, match="series are none"):
        built(tmp_path / "other", tmp_path / "bad")


def test_what_lies_where_a_series_will_be_is_no_input(tmp_path):
    write(tmp_path / "in/a.csv", "t,v\n1,1\n2,2\n")
    write(tmp_path / "in/b/metadata.json", '{"format": "of somebody else"}')
    write(tmp_path / "in/b/b.csv", "t,v\n1,1\n2,2\n")
    names = built(tmp_path / "in", tmp_path / "in/series", time="t")[1]
    assert names.tolist() == ["a", "a", "b", "b"]


def test_suffixes_in_capitals(tmp_path):
    write(tmp_path / "in/A.CSV", "t,v\n1,1\n")
    write(tmp_path / "in/B.Tsv", "t\tv\n1\t2\n")
    _about, names, _times, values = built(tmp_path / "in", tmp_path / "out", time="t")
    assert names.tolist() == ["A", "B"] and values[:, 0].tolist() == [1, 2]


@pytest.mark.parametrize(
    "pattern", [re.compile("a", re.I), re.compile("(?x)a"), re.compile("a", re.A)]
)
def test_flags_of_patterns_are_refused(tmp_path, pattern):
    path = write(tmp_path / "a.csv", "v\n1\n")
    with pytest.raises(errors.InvalidArgumentError, match="which patterns for paths do not know"):
        built(path, tmp_path / "bad", entity=pattern)


@pytest.mark.parametrize(
    ("name", "start", "says"),
    [
        ("a.csv", b"date;price\n2024-01-01;1,5\n", "line 1 has no commas but semicolons"),
        ("a.csv", b"t\ta\n1\t2\n", "line 1 has no commas but tabs"),
        ("a.tsv", b"t,a\n1,2\n", "line 1 has no tabs but commas"),
        ("a.csv", b"t,a\r1,2\r2,3\r", "end lines by LF or CRLF"),
        ("a.csv", b"PK\x03\x04\x14\x00,\n1", "is no table of text but a zip archive"),
        ("a.csv", b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        ("a.csv", b"PAR1\x15\n", "a Parquet file"),
    ],
)
def test_what_is_no_table_of_commas_is_named(tmp_path, name, start, says):
    (tmp_path / name).write_bytes(start)
    with pytest.raises(errors.CorruptDataError, match=says):
        build_series(tmp_path / name, tmp_path / "out", time="t")


@pytest.mark.parametrize("time", ["2262-04-12", "1677-09-21T00:12:43", "2300-01-01"])
def test_times_that_nanoseconds_do_not_reach_are_named(tmp_path, time):
    write(tmp_path / "a.csv", f"t,a\n{time},1\n")
    with pytest.raises(errors.CorruptDataError, match="of the years 1677 to 2262"):
        build_series(tmp_path / "a.csv", tmp_path / "out", time="t")


def test_the_last_whole_number_is_a_time_like_another(tmp_path):
    write(tmp_path / "a.csv", f"t,a\n1,0\n2,10\n{2**63 - 1},1000\n")
    values = np.array([0, 10, 1000.0])
    build_series(tmp_path / "a.csv", tmp_path / "out", time="t", dtype="float64")
    expected = StandardScaler().fit_transform(values[:, None])
    assert np.allclose(stored(tmp_path / "out")[3], expected, rtol=1e-12)
    build_series(
        tmp_path / "a.csv", tmp_path / "before", time="t", dtype="float64", fit_until=2**63 - 1
    )
    assert np.allclose(stored(tmp_path / "before")[3], (values[:, None] - 5) / 5, rtol=1e-12)


def test_bounds_have_a_zone_only_where_times_have_one(tmp_path):
    zoned = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=-5)))
    hours = pd.date_range("2024-01-01", periods=48, freq="h")
    for name, times in (("naive", hours), ("zoned", hours.tz_localize("UTC"))):
        pd.DataFrame({"t": times, "a": np.arange(48.0)}).to_parquet(tmp_path / f"{name}.parquet")
        build_series(tmp_path / f"{name}.parquet", tmp_path / name, time="t")
    for i, bound in enumerate((zoned, zoned.isoformat(), "2024-01-01T17:00:00Z")):
        with pytest.raises(errors.InvalidArgumentError, match="names a zone, and the times of"):
            SeriesDataset(tmp_path / "naive", window=1, horizon=1, between=(bound, None))
        with pytest.raises(errors.InvalidArgumentError, match="names a zone, and the times of"):
            whole = SeriesDataset(tmp_path / "naive", window=1, horizon=1)
            whole.split(dates={"train": bound, "test": None})
        with pytest.raises(errors.InvalidArgumentError, match="fit_until names a zone"):
            built_until(tmp_path / "naive.parquet", tmp_path / "not", bound)
        part = SeriesDataset(tmp_path / "zoned", window=1, horizon=1, between=(bound, None))
        assert len(part) == 48 - 17 - 1
        built_until(tmp_path / "zoned.parquet", tmp_path / f"until{i}", bound)


def test_a_scaler_of_zoned_times_may_be_of_naive_ones(tmp_path):
    hours = pd.date_range("2024-01-01", periods=48, freq="h")
    for name, times in (("zoned", hours.tz_localize("UTC")), ("naive", hours)):
        pd.DataFrame({"t": times, "a": np.arange(48.0)}).to_parquet(tmp_path / f"{name}.parquet")
    later = pd.DataFrame({"t": hours + pd.Timedelta(days=9), "a": np.arange(48.0)})
    later.to_parquet(tmp_path / "later.parquet")
    build_series(
        tmp_path / "zoned.parquet", tmp_path / "z", time="t", fit_until="2024-01-02T00:00:00Z"
    )
    scaler = SeriesDataset(tmp_path / "z", window=2, horizon=1).scaler
    build_series(tmp_path / "naive.parquet", tmp_path / "n", time="t", scaler=scaler)
    with pytest.warns(UserWarning, match="its mean moved"):
        append_series(tmp_path / "later.parquet", tmp_path / "n")
    assert len(stored(tmp_path / "n")[2]) == 96


@pytest.mark.parametrize(
    ("name", "column"), [("a.csv", '"a;b"'), ("a.csv", "price;eur"), ("a.tsv", "weight, kg")]
)
def test_one_column_may_have_any_name(tmp_path, name, column):
    write(tmp_path / name, f"{column}\n1.5\n2.5\n")
    assert len(built(tmp_path / name, tmp_path / "out")[3]) == 2


def built_until(path, out, bound):
    return build_series(path, out, time="t", fit_until=bound)


def test_checksums_of_parquet_pages_are_compared(tmp_path):
    path = tmp_path / "in.parquet"
    values = np.arange(1000.0) + 0.5
    pq.write_table(pa.table({"t": range(1000), "v": values}), path, compression="none",
                   use_dictionary=False, write_page_checksum=True)  # fmt: skip
    whole = path.read_bytes()
    np.testing.assert_array_equal(built(path, tmp_path / "whole", time="t")[3][:, 0], values)
    at = whole.index(np.float64(700.5).tobytes())
    path.write_bytes(whole[:at] + b"\x01" + whole[at + 1 :])
    with pytest.raises(OSError, match="CRC"):
        pq.read_table(path, page_checksum_verification=True)
    with pytest.raises(errors.CorruptDataError, match="CRC checksum"):
        built(path, tmp_path / "damaged", time="t")


def test_a_few_texts_among_numbers_are_named(tmp_path):
    lines = [
        f"{i},{i},{'-' if i == 6 else i / 2},{7 if i % 3 else 'x'},{'x' if i % 3 else 7}\n"
        for i in range(50)
    ]
    path = write(tmp_path / "in.csv", "t,u,v,most,few\n" + "".join(lines))
    with pytest.warns(UserWarning, match="no feature") as caught:
        result = build_series(path, tmp_path / "out", time="t", scaler=None)
    assert result.n_features == 1
    said = [str(warning.message) for warning in caught]
    assert len(said) == 2 and all(str(path) in text for text in said)
    assert "'v' is no feature, because line 8 has '-' where 49 of the first 50" in said[0]
    assert "'most' is no feature, because line 2 has 'x' where 33 of the first 50" in said[1]
    with pytest.raises(errors.CorruptDataError, match="line 8, column 'v': is no number: '-'"):
        build_series(path, tmp_path / "named", time="t", features="v")


@pytest.mark.parametrize("texts", [["1,5", "2,25", "-3,0"], ["1,234.5", "12", "9,876,543"]])
def test_a_column_of_numbers_with_commas_is_named(tmp_path, texts):
    lines = "".join(f"{i}\t{i}\t{text}\ta,b\n" for i, text in enumerate(texts))
    path = write(tmp_path / "in.tsv", "t\tu\tv\tplace\n" + lines)
    with pytest.warns(UserWarning, match="'v' is no feature, because line 2 .*decimal or thous"):
        result = build_series(path, tmp_path / "out", time="t", scaler=None)
    assert (result.n_features, len(result.warnings)) == (1, 1)
    with pytest.raises(errors.InvalidArgumentError, match=r"target 'v' is no feature; .*line 2"):
        build_series(path, tmp_path / "aimed", time="t", scaler=None, target="v")


def test_numbers_are_written_as_pandas_is_told(tmp_path):
    texts = ["1.234,5", "-", "-7,25", "12", "?", "1.000.000", "NA"]
    path = write(
        tmp_path / "in.tsv", "t\tv\n" + "".join(f"{i}\t{v}\n" for i, v in enumerate(texts))
    )
    options = {"decimal": ",", "thousands": ".", "na_values": ["-", "?"]}
    read = pd.read_csv(path, sep="\t", **options)
    values = built(path, tmp_path / "out", time="t", missing="nan", **options)[3]
    np.testing.assert_array_equal(values[:, 0], read["v"])
    more = write(tmp_path / "more" / "in.tsv", "t\tv\n7\t2.500,5\n8\t?\n")
    append_series(more, tmp_path / "out")
    np.testing.assert_array_equal(stored(tmp_path / "out")[3][-2:, 0], [2500.5, np.nan])
    for wrong in [{"decimal": ",,"}, {"thousands": "3"}, {"decimal": ",", "thousands": ","}]:
        with pytest.raises(errors.InvalidArgumentError, match=r"decimal|thousands"):
            built(path, tmp_path / "wrong", time="t", **wrong)


@pytest.mark.parametrize("text", ["%Y-%m", "%Y/%m", "quarters"])
def test_months_and_quarters_are_times(tmp_path, text):
    days = pd.date_range("1958-03-01", periods=30, freq="QS" if text == "quarters" else "MS")
    texts = days.to_period("Q").astype(str) if text == "quarters" else days.strftime(text)
    frame = pd.DataFrame({"month": texts, "v": np.arange(30.0)})
    frame.to_csv(tmp_path / "in.csv", index=False)
    frame.to_parquet(tmp_path / "in.parquet")
    for suffix in ("csv", "parquet"):
        times = built(tmp_path / f"in.{suffix}", tmp_path / suffix, time="month")[2]
        np.testing.assert_array_equal(times, days.to_numpy("datetime64[ns]").view(np.int64))
