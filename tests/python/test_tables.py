"""Tables of the core against pyarrow's of the same values; the package without pyarrow."""

import datetime
import decimal
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Mapping

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from small_atlas import make_anndata

import cellfeed as cf
from cellfeed._cells.tables import table_of
from cellfeed._core import Table
from cellfeed.errors import (
    CorruptDataError,
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
    UnsupportedError,
)

TEXTS = ["b", "", None, "\u00e9\U0001f600", "b" * 40, np.nan]
DAYS = [datetime.date(2020, 2, 29), None, datetime.date(1066, 10, 14)]
TIMES = np.array(["2020-01-01T01:02:03", "NaT", "1969-12-31T23:59:59"], "datetime64[ns]")
NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]

# Columns of which pyarrow makes what is expected of ours.
COLUMNS = {
    **{kind: np.array([3, 0, 7], kind) for kind in NUMBERS},
    "whole ends": np.array([-(2**63), 2**63 - 1]),
    "large": np.array([2**64 - 1], "u8"),
    "nan": np.array([1.5, np.nan, -np.inf]),
    "narrow nan": np.array([1.5, np.nan], "f2"),
    "bool": np.array([True, False] * 9),
    "strided": np.arange(20)[::3],
    "texts": np.array(TEXTS, object),
    "str": pd.Series(["b", None, "a"]),
    "nothing": np.array([None, np.nan, pd.NA], object),
    "no rows": np.array([], object),
    "objects: bool": np.array([True, None, False], object),
    "objects: int": np.array([1, None, 2**53 + 1], object),
    "objects: float": np.array([1, 2.5, np.nan], object),
    "objects: date": np.array(DAYS, object),
    "categories": pd.Categorical(["b", None, "a", "b"], ["b", "a", "unused"]),
    "ordered": pd.Categorical(["low", "high"], ["low", "high"], ordered=True),
    "categories: int": pd.Categorical([7, 3, None]),
    "categories: float": pd.Categorical([0.5, 3, None]),
    "categories: bool": pd.Categorical([True, None]),
    "categories: many": pd.Categorical([f"c{i}" for i in range(200)]),
    "categories: times": pd.Categorical(TIMES),
    "Int8": pd.array([1, None, -3], "Int8"),
    "UInt64": pd.array([2**64 - 1, None], "UInt64"),
    "Float32": pd.array([1.5, None], "Float32"),
    "boolean": pd.array([True, None, False], "boolean"),
    "boolean, all there": pd.array([True, False], "boolean"),
    "string": pd.array(["b", None, "a"], pd.StringDtype("python")),
    "string of pyarrow": pd.array(["b", None, "a"], pd.StringDtype("pyarrow")),
    **{f"times: {unit}": TIMES.astype(f"datetime64[{unit}]") for unit in ("s", "ms", "us", "ns")},
    "zone": pd.Series(TIMES).dt.tz_localize("Europe/Berlin"),
    "UTC": pd.Series(TIMES).dt.tz_localize("UTC"),
    "durations": np.array([3, "NaT", -5], "timedelta64[ms]"),
    "arrow: int": pd.array([1, None, 3], pd.ArrowDtype(pa.int16())),
    "arrow: large text": pd.array(["b", None], pd.ArrowDtype(pa.large_string())),
    "arrow: lists": pd.array([[1, 2], None], pd.ArrowDtype(pa.list_(pa.int8()))),
}


def frame_of(values) -> pd.DataFrame:
    is_of_objects = isinstance(values, np.ndarray) and values.dtype.kind == "O"
    column = pd.Series(values, dtype=object if is_of_objects else None)
    return pd.DataFrame({"x": column.set_axis([f"n{i}" for i in range(len(column))])})


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_of_pandas_is_what_pyarrow_makes_of_it(kind):
    frame = frame_of(COLUMNS[kind])
    made = pa.table(table_of(frame))
    made.validate(full=True)
    expected = pa.array(frame["x"], from_pandas=True)
    if isinstance(expected, pa.ChunkedArray):
        expected = expected.combine_chunks()
    assert made.column_names == ["_index", "x"]
    assert made["_index"].to_pylist() == list(frame.index)
    assert made["x"].type == expected.type and len(made) == len(expected)
    # Python's NaN is not equal to itself, and these are missing.
    assert made["x"].to_pylist() == expected.to_pylist()
    assert made["x"].null_count == expected.null_count
    again = table_of(frame)
    assert again.equals(table_of(frame.copy())) and again.equals(Table(made))
    assert table_of(frame, index=None).column_names == ["x"]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (np.array([1, 2], ">i4"), pa.array([1, 2], pa.int32())),
        (pd.array([1, 0], pd.SparseDtype("int64")), pa.array([1, 0])),
        (pd.Categorical([None, None]), pa.array([None] * 2, pa.dictionary(pa.int8(), pa.string()))),
        (np.array([None, "a", pd.NaT], object), pa.array([None, "a", None])),
        (
            np.array([datetime.datetime(2020, 1, 1), None], object),
            pa.array(pd.to_datetime([datetime.datetime(2020, 1, 1), None])),
        ),
        (np.array([datetime.timedelta(1), None], object),
         pa.array(pd.to_timedelta([datetime.timedelta(1), None]))),
        (pd.to_datetime(["2020-01-01T00:00:00+01:00"]).as_unit("ns"),
         pa.array([1577833200 * 10**9], pa.timestamp("ns", "+01:00"))),
    ],
)  # fmt: skip
def test_a_column_that_pyarrow_makes_otherwise_or_refuses(values, wanted):
    made = pa.table(table_of(frame_of(values)))["x"].combine_chunks()
    assert made.equals(wanted)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.array(["a", 1], object), "mixed types: int, str"),
        (np.array([True, 1], object), "mixed types: bool, int"),
        (np.array([2**70], object), "mixed types: int"),
        (np.array([2**53 + 1, 0.5], object), "mixed types: float, int"),
        (np.array([{"a": 1}, None], object), "mixed types: dict"),
        (pd.Series([[1], [2, 3]]), "mixed types: list"),
        (np.array([b"a"], object), "mixed types: bytes"),
        (np.array([decimal.Decimal(1)], object), "mixed types: Decimal"),
        (pd.cut([1, 2, 3], 2), "mixed types: Interval"),
        (pd.Categorical(["a", 1]), "mixed types: int, str"),
        (pd.period_range("2020", periods=2, freq="D"), "mixed types: Period"),
        (np.array([1j]), "complex128"),
        (np.array([1], "longdouble"), "float128"),
        (np.array(["a\ud800"], object), "UTF-8 cannot hold"),
    ],
)
def test_a_column_of_anything_else_is_named(values, said):
    frame = frame_of(values)
    with pytest.raises(UnsupportedError, match=f"^column 'x' holds .*{said}"):
        table_of(frame)
    adata = anndata.AnnData(np.ones((len(frame), 2), np.float32))
    adata.obs["x"] = frame["x"].set_axis(adata.obs_names)
    with pytest.raises(UnsupportedError, match=f"^column 'x' holds .*{said}"):
        cf.open(adata)


class Batch:
    """What other libraries have, with __arrow_c_array__ alone."""

    def __init__(self, array):
        self._array = array

    def __arrow_c_array__(self, requested_schema=None):
        return self._array.__arrow_c_array__(requested_schema)


class Stream(Batch):
    def __arrow_c_stream__(self, requested_schema=None):
        return self._array.__arrow_c_stream__(requested_schema)


CODED = pa.DictionaryArray.from_arrays
ARRAYS = {
    **{str(kind): pa.array([5, None, 7, 0, 9], kind) for kind in (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
        pa.uint64(), pa.float32(), pa.float64(), pa.date32(),
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
        pa.timestamp("us", "UTC"), pa.timestamp("ns", "America/New_York"),
    )},
    "half": pa.array(np.array([1, 2, np.nan, 4, 5], "f2"), from_pandas=True),
    "bool": pa.array([True, None, False, True, True]),
    "date64": pa.array([datetime.date(2020, 1, 1), None, *[datetime.date(1969, 1, 2)] * 3],
                       pa.date64()),
    "all there": pa.array([1, 2, 3, 4, 5]),
    "true": pa.array([True] * 5),
    "fraction": pa.array([1.5, None, np.nan, 2, 3]),
    "null": pa.nulls(5),
    **{str(kind): pa.array(["a", None, "", "\u00e9" * 20, "a"], kind)
       for kind in (pa.string(), pa.large_string(), pa.string_view())},
    "coded": CODED(pa.array([1, None, 0, 1, 1]), pa.array(["x", "y", "unused"])),
    "coded in bytes": CODED(pa.array([1, None, 0, 1, 1], pa.int8()),
                            pa.array(["x", "y"], pa.large_string())),
    "coded without sign": CODED(pa.array([1, None, 0, 1, 1], pa.uint8()), pa.array([7, 5])),
    "ordered": CODED(pa.array([1, 0, 0, 1, 1], pa.int16()), pa.array([0.5, 2.5]), ordered=True),
    "coded bools": CODED(pa.array([1, 0, None, 1, 1], pa.int32()), pa.array([True, False])),
}  # fmt: skip


def cut(array: pa.Array, how: str) -> pa.ChunkedArray:
    pieces = {
        "whole": [array],
        "empty": [array[:0]],
        "sliced": [array[1:4]],
        "chunked": [array[:2], array[2:2], array[3:], array[1:4]],
        "no chunk": [],
        "no null": [array[2:]],
    }
    return pa.chunked_array(pieces[how], array.type)


@pytest.mark.parametrize("how", ["whole", "empty", "sliced", "chunked", "no chunk", "no null"])
def test_pandas_gets_what_pyarrow_gives_it(how):
    table = pa.table({name: cut(array, how) for name, array in ARRAYS.items()})
    if len(table) == 0:  # pyarrow passes tables without rows on without their categories
        table = table.drop_columns(
            [name for name in ARRAYS if "coded" in name or name == "ordered"]
        )
    ours = Table(table)
    assert ours.column_names == table.column_names and ours.num_rows == len(ours) == len(table)
    pd.testing.assert_frame_equal(ours.to_pandas(), table.to_pandas())
    again = pa.table(ours)
    for name in table.column_names:
        if name != "fraction":  # has a NaN, which pyarrow holds to be another each time
            assert again[name].equals(table[name]), name
        column = ours[name]
        assert (column.name, len(column)) == (name, len(table))
        assert column.is_categorical == pa.types.is_dictionary(table[name].type)
    assert ours.equals(Table(table)) and (len(table) == 0 or not ours.equals(Table(table[1:])))


def test_categories_stay_where_there_are_no_rows():
    batch = pa.record_batch({"x": ARRAYS["ordered"][:0], "n": ARRAYS["all there"][:0]})
    for given in (Table(Batch(batch)), Table(pa.table(Table(Batch(batch))).combine_chunks())):
        made = pa.table(given)["x"]
        assert made.type == ARRAYS["ordered"].type and len(made) == 0
    made = Table(Batch(batch))["x"]
    assert made.categories.values.tolist() == [0.5, 2.5] and made.ordered
    assert pa.table(Table(Batch(batch)))["x"].chunk(0).dictionary.to_pylist() == [0.5, 2.5]
    pd.testing.assert_frame_equal(Table(Batch(batch)).to_pandas(), batch.to_pandas())


def test_dictionaries_of_each_piece_are_one():
    pieces = [
        pa.array(["b", "a", None]).dictionary_encode(),
        pa.array(["c", "a"]).dictionary_encode(),
    ]
    table = pa.table({"x": pa.chunked_array(pieces)})
    column = Table(table)["x"]
    assert column.is_categorical and not column.ordered
    assert column.codes.tolist() == [0, 1, -1, 2, 1]
    assert column.categories.values.tolist() == ["b", "a", "c"]
    pd.testing.assert_frame_equal(Table(table).to_pandas(), table.to_pandas())


def test_values_lie_beside_what_is_missing():
    table = Table(pa.table({"n": [1, None, 3], "t": ["a", None, "b"], "all": [1, 2, 3]}))
    assert table["n"].is_missing.tolist() == [False, True, False]
    assert table["n"].values.dtype == np.int64 and table["n"].values[[0, 2]].tolist() == [1, 3]
    assert table["t"].values.tolist() == ["a", None, "b"] and table["t"].type == "string"
    assert table["all"].is_missing is None
    with pytest.raises(ValueError, match="read-only"):
        table["all"].values[0] = 5
    with pytest.raises(NoSuchKeyError, match="no column 'al'; did you mean 'all'"):
        table["al"]
    with pytest.raises(InvalidArgumentError, match="column 'all' is not categorical"):
        table["all"].codes  # noqa: B018


def test_moments_keep_their_offset():
    moments = pa.array([0, None, 3600], pa.timestamp("s", "+02:00"))
    made = Table(pa.table({"x": moments})).to_pandas()["x"]
    assert made[2] == pd.Timestamp(3600, unit="s", tz="UTC") and made.isna().tolist()[1]
    assert made[0].isoformat() == "1970-01-01T02:00:00+02:00"
    assert pa.table(table_of(pd.DataFrame({"x": made})))["x"].combine_chunks().equals(moments)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1], None]), pa.array([{"a": 1}, None]), pa.array([decimal.Decimal("1.5"), None]),
        pa.array([datetime.time(1), None]), pa.array([b"a", None]),
    ],
)  # fmt: skip
def test_a_type_that_numpy_has_not_is_named(array):
    table = Table(pa.table({"fine": [1, 2], "odd": array}))
    for look in (lambda: table["odd"].values, table.to_pandas):
        with pytest.raises(UnsupportedError) as error:
            look()
        assert "column 'odd'" in str(error.value) and str(array.type) in str(error.value)
    assert table["fine"].values.tolist() == [1, 2]
    assert pa.table(table)["odd"].to_pylist() == array.to_pylist()


def test_tables_of_any_library_are_taken():
    batch = pa.record_batch({"x": [1, None], "kind": pa.array(["a", "b"]).dictionary_encode()})
    whole = pa.table(batch)
    for given in (batch, Batch(batch), Stream(whole), whole, Table(whole)):
        assert pa.table(Table(given)).equals(whole)
    with pytest.raises(InvalidArgumentError):
        Table(Batch(pa.array([1, 2])))
    for given in ({"x": [1]}, None, 3, "x.parquet"):
        with pytest.raises(InvalidTypeError, match=r"^an Arrow table is an object that has[^\n]*$"):
            Table(given)
    with pytest.raises(InvalidArgumentError, match="'x' has 2 values"):
        Table.of([Table(batch)["x"]], 3)


def test_obs_of_collections_and_batches_are_tables(tmp_path):
    adata = make_anndata(30)
    adata.obs["stage"] = pd.Categorical(["late"] * 30, ["early", "late"], ordered=True)
    adata.obs.loc[adata.obs_names[:4], "depth"] = np.nan
    adata.obs["none"] = pd.Categorical([None] * 30)
    adata.write_h5ad(tmp_path / "a.h5ad")
    names = list(adata.obs)
    for given in (adata, tmp_path / "a.h5ad"):
        cells = cf.open(given, obs=names)
        for made in (pa.table(cells.obs), pa.table(cells.read(slice(None)).obs)):
            assert made.column_names == names
            assert made["cell_type"].null_count == 1 and made["none"].null_count == 30
            assert made["depth"].null_count == 4
            assert made["stage"].type.ordered and not made["donor"].type.ordered
            kind = made["stage"].combine_chunks()
            assert kind.dictionary.to_pylist() == ["early", "late"]
            for name in names[:-1]:
                known = adata.obs[name].astype(object).where(adata.obs[name].notna(), None)
                assert made[name].to_pylist() == known.tolist(), name
        assert cells.obs_table(0, 3, 5).to_pandas()["_index"].tolist() == list(adata.obs_names[3:5])
        assert isinstance(cells.var_table(), Table)
        one = cells.read([9]).obs
        assert one.keys() == names and one.get("depth") is not None and one.get("no", 3) == 3
        assert [(name, list(values)) for name, values in one.items()] == list(
            zip(names, map(list, one.values()), strict=True)
        )
        # polars looks for a Mapping first, and would read the codes of one.
        assert not isinstance(one, Mapping)


def test_the_fingerprint_is_of_all_of_obs():
    def opened(values):
        frame = frame_of(values)
        adata = anndata.AnnData(np.ones((len(frame), 2), np.float32))
        adata.obs["x"] = frame["x"].array
        return cf.open(adata)

    lists = [list(range(300)), [1], None]
    changed = [[*range(100), -1, *range(101, 300)], [1], None]
    kind = pd.ArrowDtype(pa.list_(pa.int64()))
    for one, other in [
        ([1, 2, 3], [1, 2, 4]), ([1.5, np.nan], [1.5, 2.5]), (["a", "b"], ["a", "c"]),
        (["a", None], ["a", "None"]), (["a", None], ["a", ""]), ([True, False], [False, True]),
        (pd.Categorical(["a", "b"]), pd.Categorical(["b", "a"])),
        (pd.Categorical(["a"], ["a", "b"]), pd.Categorical(["a"], ["a", "c"])),
        (pd.Categorical(["a"], ["a"]), pd.Categorical(["a"], ["a"], ordered=True)),
        (pd.array([0, None], "Int64"), pd.array([None, 0], "Int64")),
        (pd.array([0, 1], "Int32"), pd.array([0, 1], "Int64")),
        (pd.array(lists, kind), pd.array(changed, kind)),
        (pd.array([decimal.Decimal("1.5")], pd.ArrowDtype(pa.decimal128(4, 2))),
         pd.array([decimal.Decimal("1.25")], pd.ArrowDtype(pa.decimal128(4, 2)))),
    ]:  # fmt: skip
        cells = opened(one)
        assert cells.fingerprint == opened(one).fingerprint != opened(other).fingerprint, one
        data = pickle.dumps(cells)
        assert pickle.loads(data).fingerprint == cells.fingerprint
        cells._origin.adata.obs["x"] = frame_of(other)["x"].array
        with pytest.raises(CorruptDataError, match="changed"):
            pickle.loads(pickle.dumps(cells))
    # What lies under a missing value is nobody's.
    under = pd.arrays.IntegerArray(np.array([1, 77]), np.array([False, True]))
    assert opened(pd.array([1, None], "Int64")).fingerprint == opened(under).fingerprint


# In a process that has no pyarrow.
WITHOUT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import pathlib
import anndata, numpy as np, pandas as pd
from small_atlas import make_anndata
import cellfeed as cf

folder = pathlib.Path(sys.argv[1])
n = 40
adata = make_anndata(n)
adata.write_h5ad(folder / "a.h5ad")
obs, times = adata.obs, np.arange(n).astype("datetime64[ns]")
obs["int"], obs["uint"], obs["float"] = np.arange(n), np.arange(n, dtype="u1"), np.arange(n) / 2
obs["half"], obs["bool"] = np.arange(n, dtype="f2"), np.arange(n) % 2 == 0
obs["text"] = np.array([None, "a", np.nan, "b"] * 10, dtype=object)
obs["string"] = pd.array([None, "a"] * 20, pd.StringDtype("python"))
obs["Int64"], obs["UInt8"] = pd.array([1, None] * 20, "Int64"), pd.array([1, None] * 20, "UInt8")
obs["Float64"], obs["boolean"] = pd.array([1.5, None] * 20, "Float64"), pd.array([True, None] * 20)
obs["number"] = pd.Categorical([1, None, 3, 1] * 10)
obs["ordered"] = pd.Categorical(["lo", "hi"] * 20, ["lo", "hi"], ordered=True)
obs["time"], obs["wait"] = times, times - times[3]
adata.var["length"] = np.arange(adata.n_vars)
odd = ["half", "time", "wait"]  # no columns of batches
columns = [name for name in obs if name not in odd]
"""
WITHOUT_USE = """
def same(got, wanted):
    got, wanted = got[columns], wanted[columns]
    for name in columns:
        one, other = got[name].astype(object), wanted[name].astype(object)
        assert (one.isna() == other.isna()).all(), name
        assert (one[one.notna()].astype(str) == other[other.notna()].astype(str)).all() or \\
            (one.dropna() == other.dropna()).all(), name

whole = cf.open(adata, obs=columns)
table = whole.obs_table().to_pandas()
assert list(table["_index"]) == list(obs.index) and list(table) == ["_index", *obs]
assert (table["time"].to_numpy() == times).all() and table["half"].dtype == "float16"
same(table.set_index("_index"), obs)
stored = ["cell_type", "depth"]
file = cf.open(folder / "a.h5ad", obs=stored)
for cells, names in ((file, stored), (whole, columns)):
    frame = cells.obs[names]
    assert list(frame["cell_type"].cat.categories) == list(obs["cell_type"].cat.categories)
    assert (frame["cell_type"].cat.codes == obs["cell_type"].cat.codes).all()
    assert (frame["depth"] == obs["depth"]).all() and list(cells.obs_names) == list(obs.index)
    assert list(cells.var["symbol"]) == list(adata.var["symbol"])
    assert cells.var_table().to_pandas()["symbol"].tolist() == list(adata.var["symbol"])
    assert cells.gene_aliases("symbol")["gene1"] == "S1"
    for batch in cf.Loader(cells, cf.BlockShuffling(4), batch_size=16, obs=names):
        assert (batch.x.toarray() == adata.X[batch.index].toarray()).all()
        assert (batch.obs["depth"] == obs["depth"].to_numpy()[batch.index]).all()
        assert batch.obs.to_pandas().shape == (len(batch), len(names))
    some = cells.filter("cell_type == 'B cell' and depth > 0")
    wanted = (obs["cell_type"] == "B cell") & (obs["depth"] > 0)
    assert list(some.obs_names) == list(obs.index[wanted])
assert file[:5].to_anndata().obs["depth"].tolist() == obs["depth"].tolist()[:5]
same(whole.obs[columns], obs)
assert whole.obs["ordered"].cat.ordered and list(whole.categories("number")) == [1, 3]
del adata.obs["time"], adata.obs["wait"], adata.obs["half"]
cf.convert_to_shards(cf.open(adata), folder / "shards", progress=False)
shards = cf.open(folder / "shards", obs=columns)
same(shards.obs[columns], obs)
same(shards.obs_table().to_pandas().set_index("_index"), obs)
assert shards.var["length"].tolist() == list(range(adata.n_vars))
cf.export_h5ad(folder / "shards", folder / "b.h5ad", progress=False)
assert anndata.read_h5ad(folder / "b.h5ad").obs["depth"].tolist() == obs["depth"].tolist()
whole = cf.open(adata)
query = cf.census.axis_query(whole)
for use in (query.obs_joinids, query.obs, lambda: next(query.X("raw").tables())):
    try:
        use()
    except ModuleNotFoundError as error:
        print(error)
some = cf.census.get_anndata(
    whole, obs_value_filter="depth > 0", var_value_filter="symbol == 'S3' or length < 2"
)
assert some.n_obs == (obs["depth"] > 0).sum() and list(some.var["length"]) == [0, 1, 3]
assert "pyarrow" not in sys.modules
"""


def test_the_package_needs_no_pyarrow(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT + WITHOUT_USE, str(tmp_path)],
        capture_output=True, text=True, timeout=300, cwd=pathlib.Path(__file__).parent,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    line = "pyarrow is not installed: pip install 'cellfeed[arrow]'"
    assert run.stdout.splitlines() == [line] * 3
