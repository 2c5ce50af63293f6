"""Parquet tables of cells give what pyarrow and scipy make of them, or a named error."""

import itertools
import json
import pickle
import subprocess

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from conftest import REAL_DATA
from program import PROGRAM
from small_atlas import write_atlas
from tiers import fast

import cellfeed as cf

N_CELLS, N_GENES = 97, 41
GENES = [f"gene{i}" for i in range(N_GENES)]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def counts(dtype="float32", seed=1) -> scipy.sparse.csr_matrix:
    random = np.random.default_rng(seed)
    x = random.poisson(0.7, (N_CELLS, N_GENES))
    x[[0, 13, 96]] = 0
    x[5, 7] = 100
    return scipy.sparse.csr_matrix(x.astype(dtype) if dtype != "float16" else x.astype("float32"))


def lists(x, ids=None, list_type=pa.list_, gene_type=None, value_type=None) -> dict:
    """Genes and values of each row, from the last to the first."""
    ids = np.arange(x.shape[1]) if ids is None else np.asarray(ids)
    bounds = list(zip(x.indptr, x.indptr[1:], strict=False))
    genes = [ids[x.indices[a:b][::-1]].tolist() for a, b in bounds]
    values = [x.data[a:b][::-1].astype(value_type).tolist() for a, b in bounds]
    if gene_type is None:
        gene_type = pa.int64() if ids.dtype.kind in "iu" else pa.string()
    if value_type == "float16":
        values = [[np.float16(value) for value in row] for row in values]
    return {
        "genes": pa.array(genes, list_type(gene_type)),
        "values": pa.array(values, list_type(pa.from_numpy_dtype(value_type or x.dtype))),
    }


def write(path, columns, **options):
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, path, **options)
    return path


def gene_table(path, names=GENES, **columns):
    return write(path, {"name": names, **columns})


def dense_of(cells, dtype="float64") -> np.ndarray:
    return cells.read(slice(None), dtype=dtype).x.toarray()


def assert_matrix(cells, x) -> None:
    dtype = "float64" if x.dtype.kind == "f" else "int64"
    got = cells.read(slice(None), dtype=dtype).x
    wanted = scipy.sparse.csr_matrix(x.astype(dtype))
    wanted.sort_indices()
    np.testing.assert_array_equal(got.indptr, wanted.indptr)
    np.testing.assert_array_equal(got.indices, wanted.indices)
    np.testing.assert_array_equal(got.data, wanted.data)
    rows = np.random.default_rng(0).integers(0, len(cells), 300)
    np.testing.assert_array_equal(cells.read(rows, dtype=dtype).x.toarray(), x.toarray()[rows])


# ---- Lists.


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_values_of_every_type_in_lists(tmp_path, dtype):
    x = counts()
    path = write(tmp_path / "a.parquet", lists(x, value_type=dtype), row_group_size=20)
    cells = cf.open(path, var=gene_table(tmp_path / "var.parquet"))
    assert_matrix(cells, x.astype("float32" if dtype == "float16" else dtype))
    assert cells.files[0]["dtype"] == ("float32" if dtype == "float16" else dtype)


@pytest.mark.parametrize("gene_type", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()])
@pytest.mark.parametrize("list_type", [pa.list_, pa.large_list])
def test_ids_of_every_type_in_lists(tmp_path, gene_type, list_type):
    x = counts()
    columns = lists(x, list_type=list_type, gene_type=gene_type)
    path = write(tmp_path / "a.parquet", columns, row_group_size=30)
    assert_matrix(cf.open(path, var=gene_table(tmp_path / "var.parquet")), x)


WRITTEN = {
    "snappy": {},
    "zstd": {"data_page_version": "2.0"},
    "gzip": {"use_dictionary": False, "write_statistics": False},
    "none": {"data_page_size": 64, "write_page_index": True},
    "brotli": {"write_page_checksum": True, "version": "1.0"},
}


@pytest.mark.parametrize(
    ("compression", "row_group_size"),
    fast(
        [("snappy", 1000), ("zstd", 7), ("gzip", 50), ("none", 1), ("none", 50), ("brotli", 7)],
        itertools.product(WRITTEN, [1, 7, 50, 1000]),
    ),
)
def test_however_it_is_written(tmp_path, compression, row_group_size):
    x, options = counts(), {"compression": compression, **WRITTEN[compression]}
    path = write(tmp_path / "a.parquet", lists(x), row_group_size=row_group_size, **options)
    assert_matrix(cf.open(path, var=gene_table(tmp_path / "var.parquet")), x)
    wide = pd.DataFrame(x.toarray(), columns=GENES)
    path = write(
        tmp_path / "b.parquet", pa.Table.from_pandas(wide), row_group_size=row_group_size, **options
    )
    assert_matrix(cf.open(path), x)


def test_ids_without_a_table_are_numbers_up_to_the_largest(tmp_path):
    x = counts()
    largest = x.indices.max()
    for statistics in [True, False]:
        path = write(tmp_path / "a.parquet", lists(x), write_statistics=statistics)
        cells = cf.open(path)
        assert list(cells.var_names) == [str(i) for i in range(largest + 1)]
        assert_matrix(cells, x[:, : largest + 1])


def test_names_in_lists_are_the_genes_that_occur(tmp_path):
    x = counts()
    path = write(tmp_path / "a.parquet", lists(x, GENES), row_group_size=11)
    cells = cf.open(path)
    names = sorted({GENES[i] for i in x.indices})
    assert list(cells.var_names) == names
    assert_matrix(cells, x[:, [GENES.index(name) for name in names]])
    assert_matrix(cf.open(path, var=gene_table(tmp_path / "var.parquet")), x)
    coded = lists(x, GENES)
    coded["genes"] = pa.ListArray.from_arrays(
        coded["genes"].offsets, coded["genes"].values.dictionary_encode()
    )
    assert_matrix(cf.open(write(path, coded), genes=GENES), x)


def test_a_table_as_tahoe_has_it(tmp_path):
    """Ids begin at 3; each row begins with a mark: a token that no gene has, and -2."""
    x = counts()
    ids = np.random.default_rng(3).permutation(N_GENES) + 3
    columns = lists(x, ids)
    columns["genes"] = pa.array([[1, *row] for row in columns["genes"].to_pylist()])
    columns["expressions"] = pa.array(
        [[-2.0, *row] for row in columns.pop("values").to_pylist()], pa.list_(pa.float32())
    )
    columns["drug"] = pa.array([f"drug{i % 3}" for i in range(N_CELLS)]).dictionary_encode()
    columns["plate"] = [f"plate{i % 2}" for i in range(N_CELLS)]
    path = write(tmp_path / "a.parquet", columns, row_group_size=10)
    symbols = [f"S{i}" for i in range(N_GENES)]
    var = write(
        tmp_path / "gene_metadata.parquet",
        {"gene_symbol": symbols, "ensembl_id": GENES, "token_id": ids},
    )
    cells = cf.open(path, var=var, obs=["drug", "plate"])
    assert list(cells.var_names) == symbols
    assert_matrix(cells, x)
    assert cells.categories("drug") == ["drug0", "drug1", "drug2"]
    assert list(cells.var["ensembl_id"]) == GENES
    assert list(cf.open(path, var=var, var_key="ensembl_id").var_names) == GENES
    with pytest.raises(
        cf.errors.InvalidArgumentError, match=r"row \d+ begins with a negative value"
    ):
        dense_of(cf.open(path))


def test_marks_are_nothing_else(tmp_path):
    var = gene_table(tmp_path / "var.parquet", ["A", "B"])
    good = {"genes": [[9, 1]], "values": [[-1.0, 2.0]]}
    assert dense_of(cf.open(write(tmp_path / "a.parquet", good), var=var)).tolist() == [[0, 2]]
    gene = {"genes": [[1, 0]], "values": [[-1.0, 2.0]]}
    assert dense_of(cf.open(write(tmp_path / "a.parquet", gene), var=var)).tolist() == [[2, -1]]
    for genes, values in [([1, 9], [2.0, -1.0]), ([9, 1], [1.0, 2.0]), ([-1], [3.0])]:
        path = write(tmp_path / "a.parquet", {"genes": [genes], "values": [values]})
        with pytest.raises(cf.errors.CorruptDataError, match=r"a.parquet: row 0: '-?\d+'.*'genes'"):
            dense_of(cf.open(path, var=var))


def test_repeated_genes_of_a_row_are_summed(tmp_path):
    path = write(tmp_path / "a.parquet", {"genes": [[2, 0, 2], []], "values": [[1, 5, 10], []]})
    assert dense_of(cf.open(path)).tolist() == [[5, 0, 11], [0, 0, 0]]


def test_columns_are_named(tmp_path):
    x = counts()
    columns = lists(x)
    renamed = {"g": columns["genes"], "v": columns["values"], "w": columns["values"]}
    path = write(tmp_path / "a.parquet", renamed)
    with pytest.raises(cf.errors.InvalidArgumentError, match=r"genes_column and values_column"):
        cf.open(path)
    var = gene_table(tmp_path / "var.parquet")
    with pytest.warns(cf.errors.LeftOutWarning, match=r"w \(list"):
        assert_matrix(cf.open(path, genes_column="g", values_column="v", var=var), x)
    with pytest.raises(cf.errors.NoSuchKeyError, match=r"'gg'.*did you mean 'g'"):
        cf.open(path, genes_column="gg", values_column="v")
    with pytest.raises(cf.errors.InvalidArgumentError, match="values_column"):
        cf.open(path, genes_column="g")
    both = write(tmp_path / "b.parquet", {**columns, "counts": columns["values"]})
    with pytest.raises(cf.errors.InvalidArgumentError, match="values, counts; say which"):
        cf.open(both)
    with pytest.warns(cf.errors.LeftOutWarning, match=r"values \(list"):
        assert_matrix(cf.open(both, values_column="counts", var=var), x)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"genes": [[1], None], "values": [[1.0], [2.0]]}, "row 1: the list is missing.*'genes'"),
        ({"genes": [[1], [0]], "values": [[1.0], None]}, "row 1: the list is missing.*'values'"),
        ({"genes": [[1], [0, None]], "values": [[1.0], [2.0, 3.0]]}, "row 1: entry 1 is missing"),
        ({"genes": [[1], [0]], "values": [[5], [None]]}, "row 1: entry 0 is missing.*'values'"),
        ({"genes": [[1], [None]], "values": [[5.0], [-1.0]]}, "row 1: entry 0 is missing"),
        ({"genes": [[1, 2], [0]], "values": [[1.0], [2.0]]}, "row 0: the lists differ in length"),
        ({"genes": [[1], [-4]], "values": [[1.0], [2.0]]}, "row 1: '-4' in column 'genes'"),
    ],
)
def test_lists_that_do_not_say_what_a_cell_has(tmp_path, columns, message):
    path = write(tmp_path / "a.parquet", columns, row_group_size=1)
    with pytest.raises(cf.errors.CorruptDataError, match=message):
        dense_of(cf.open(path))


def test_not_a_number_stays_and_is_no_gap(tmp_path):
    path = write(
        tmp_path / "a.parquet",
        {"genes": [[0, 1, 2]], "values": pa.array([[float("nan"), float("inf"), None]])},
    )
    np.testing.assert_array_equal(dense_of(cf.open(path)), [[np.nan, np.inf, np.nan]])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"name": ["A", "B"], "length": [1, 2]}, "known names are token_id"),
        ({"name": ["A", "B"], "token_id": [1, 1]}, "two genes have the id 1"),
        ({"name": ["A", "B"], "token_id": [1, -1]}, "must be from 0"),
        ({"name": ["A", None]}, "a gene has no name: row 1"),
        ({"name": ["A", "B"], "token_id": [1, 2], "id": [3, 4]}, "several columns may hold"),
    ],
)
def test_tables_of_genes_that_do_not_tell_ids(tmp_path, columns, message):
    path = write(tmp_path / "a.parquet", {"genes": [[0]], "values": [[1.0]]})
    var = write(tmp_path / "var.parquet", columns)
    with pytest.raises(cf.errors.CellfeedError, match=message) as caught:
        cf.open(path, var=var)
    assert "var.parquet" in str(caught.value)


# ---- Wide tables.


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_values_of_every_type_in_wide_tables(tmp_path, dtype):
    x = counts()
    table = pd.DataFrame(x.toarray().astype(dtype), columns=GENES)
    cells = cf.open(write(tmp_path / "a.parquet", pa.Table.from_pandas(table), row_group_size=20))
    assert_matrix(cells, x.astype("float32" if dtype == "float16" else dtype))
    batch = next(iter(cf.Loader(cells, cf.Streaming(), 97, output="dense")))
    np.testing.assert_array_equal(batch.x, x.toarray())


@pytest.mark.filterwarnings("ignore:.*of other types than the rest.*")
def test_types_of_columns_become_one_that_holds_all(tmp_path):
    table = pd.DataFrame(
        {
            "a": np.array([1, 255], "uint8"), "b": np.array([-7, 2**31 - 1], "int32"),
            "c": np.array([0.5, np.nan], "float32"), "d": np.array([1, 2], "float16"),
        }
    )  # fmt: skip
    cells = cf.open(write(tmp_path / "a.parquet", pa.Table.from_pandas(table)))
    assert cells.files[0]["dtype"] == "float64"
    np.testing.assert_array_equal(dense_of(cells), table.astype("float64").to_numpy())
    big = pa.table({"a": pa.array([2**53 + 1]), "b": pa.array([0.5])})
    with pytest.raises(cf.errors.CellfeedError, match=r"'a'.*row 0.*9007199254740993"):
        dense_of(cf.open(write(tmp_path / "b.parquet", big)))


def test_missing_numbers_are_nan_or_an_error(tmp_path):
    cells = cf.open(write(tmp_path / "a.parquet", {"a": [1.0, None], "b": [None, 2.0]}))
    np.testing.assert_array_equal(dense_of(cells), [[1, np.nan], [np.nan, 2]])
    cells = cf.open(write(tmp_path / "b.parquet", {"a": [1, 2, None], "b": [3, 4, 5]}))
    with pytest.raises(cf.errors.UnsupportedError, match=r"missing in column 'a'.*row 2"):
        dense_of(cells)


def test_what_of_a_wide_table_is_obs(tmp_path):
    frame = pd.DataFrame(
        {
            "age": [30, 40, 50], "A": [1.0, 0, 2], "kind": ["x", "y", "x"], "B": [0.0, 3, 0],
            "ok": [True, False, True], "type": pd.Categorical(["p", "q", "p"], ["q", "p", "r"]),
        },
        index=pd.Index(["c1", "c2", "c3"], name="barcode"),
    )  # fmt: skip
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    with pytest.warns(cf.errors.LeftOutWarning, match="1 of the 3 .* rest, double.* \\(age"):
        cells = cf.open(path)
    assert list(cells.var_names) == ["age", "A", "B"]
    assert cells.obs_keys() == ["kind", "ok", "type"]
    assert list(cells.obs_names) == ["c1", "c2", "c3"]
    with pytest.raises(cf.errors.InvalidArgumentError, match="'age' is read as a gene"):
        cells.obs_column("age")
    by_default = cells.fingerprint
    cells = cf.open(path, obs=["age", "type"])
    assert list(cells.var_names) == ["A", "B"]
    batch = cells.read([2, 0])
    assert batch.obs["age"].tolist() == [50, 30]
    assert cells.categories("type") == ["q", "p", "r"]
    assert pickle.loads(pickle.dumps(cells)).fingerprint == cells.fingerprint
    assert by_default != cells.fingerprint
    alone = cf.open(path, layer=None, obs=["A", "kind"])
    assert alone.obs_keys() == list(frame.columns)
    assert alone.read([1]).obs["A"].tolist() == [0]


@pytest.mark.parametrize("index", [pd.RangeIndex(10, 40, 10), pd.Index([7, 5, 9]), None])
def test_cells_are_named_as_pandas_names_them(tmp_path, index):
    frame = pd.DataFrame({"A": [1.0, 2, 3]}, index=index)
    frame.to_parquet(tmp_path / "a.parquet")
    read = pd.read_parquet(tmp_path / "a.parquet")
    cells = cf.open(tmp_path / "a.parquet")
    assert list(cells.obs_names) == [str(name) for name in read.index]
    assert list(cells.var_names) == ["A"]


def test_genes_of_one_name(tmp_path):
    arrays = [pa.array([1.0, 2.0]), pa.array([3.0, 4.0])]
    path = write(tmp_path / "a.parquet", pa.Table.from_arrays(arrays, ["A", "A"]))
    with pytest.raises(cf.errors.InvalidArgumentError, match="make_unique"):
        cf.open(path)
    cells = cf.open(path, make_unique=True)
    assert list(cells.var_names) == ["A", "A-1"]
    assert dense_of(cells).tolist() == [[1, 3], [2, 4]]


def test_an_index_of_times_is_a_series(tmp_path):
    times = pd.date_range("2024-01-01", periods=3)
    pd.DataFrame({"price": [1.0, 2, 3]}, index=times).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(cf.errors.UnsupportedError, match="build_series"):
        cf.open(tmp_path / "a.parquet")


def test_levels_of_an_index_are_no_genes(tmp_path):
    frame = pd.DataFrame({"A": [1.0, 2], "a": [1, 2], "b": [3, 4]}).set_index(["a", "b"])
    frame.to_parquet(tmp_path / "a.parquet")
    cells = cf.open(tmp_path / "a.parquet")
    assert list(cells.var_names) == ["A"]
    assert cells.obs_keys() == ["a", "b"]


# ---- obs.


def obs_frame(n=N_CELLS) -> pd.DataFrame:
    random = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "kind": pd.Categorical.from_codes(random.integers(-1, 3, n), ["T", "B", "NK"]),
            "stage": pd.Categorical.from_codes(
                random.integers(0, 2, n), ["late", "early", "never"], ordered=True
            ),
            "donor": [f"d{i % 5}" for i in range(n)], "flag": random.random(n) < 0.5,
            "small": random.integers(-5, 5, n).astype("int8"), "depth": random.random(n),
            "half": random.random(n).astype("float16"), "n": random.integers(0, 2**40, n),
            "maybe": pd.array(np.where(np.arange(n) % 7 == 0, None, np.arange(n)), "Int64"),
            "text": np.where(np.arange(n) % 5 == 0, None, "é"),
        },
        index=[f"cell{i}" for i in range(n)],
    )  # fmt: skip


@pytest.mark.parametrize("row_group_size", [1, 10, 1000])
def test_obs_of_every_type(tmp_path, row_group_size):
    frame = obs_frame()
    table = pa.Table.from_pandas(frame)
    for name, column in lists(counts()).items():
        table = table.append_column(name, column)
    path = write(tmp_path / "a.parquet", table, row_group_size=row_group_size)
    cells = cf.open(path, obs=list(frame.columns))
    got, wanted = pa.table(cells.obs_table()), pq.read_table(path)
    assert got.column_names == ["_index", *frame.columns]
    assert got["_index"].to_pylist() == list(frame.index)
    for name in frame.columns:
        assert got[name].to_pylist() == wanted[name].to_pylist(), name
    for name in ["kind", "stage"]:
        assert cells.categories(name) == list(frame[name].cat.categories)
        codes = cells.read(slice(None)).obs[name]
        np.testing.assert_array_equal(codes, frame[name].cat.codes)
    assert cells.obs_column("stage").ordered
    assert cells.categories("donor") == sorted(frame["donor"].unique())
    assert len(cells.filter("donor == 'd3' and n > 5")) == (frame["donor"] == "d3").sum()


def test_labels_whose_row_groups_know_others(tmp_path):
    """Each piece was written with the labels of its own."""
    pieces = [pd.Categorical(labels) for labels in (["b", "a"], ["c", "a"], ["d", "b"])]
    x = counts()[:6]
    path = tmp_path / "a.parquet"
    writer = None
    for i, piece in enumerate(pieces):
        table = pa.table({**lists(x[2 * i : 2 * i + 2]), "kind": pa.array(piece)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()
    cells = cf.open(path, obs=["kind"])
    assert cells.categories("kind") == ["a", "b", "c", "d"]
    codes = cells.read(slice(None)).obs["kind"]
    assert [cells.categories("kind")[code] for code in codes] == ["b", "a", "c", "a", "d", "b"]
    cf.convert_to_shards(cells, tmp_path / "shards")
    shards = cf.open(tmp_path / "shards", obs=["kind"])
    assert pa.table(shards.obs_table())["kind"].to_pylist() == ["b", "a", "c", "a", "d", "b"]


def test_columns_that_obs_cannot_have_are_left_out_with_a_word(tmp_path):
    columns = lists(counts())
    columns["when"] = pa.array([1] * N_CELLS, pa.timestamp("us"))
    columns["box"] = pa.array([{"a": 1}] * N_CELLS)
    path = write(tmp_path / "a.parquet", columns)
    with pytest.warns(cf.errors.LeftOutWarning, match=r"when \(timestamp.*box \(struct"):
        cells = cf.open(path)
    assert cells.obs_keys() == []
    with pytest.raises(cf.errors.UnsupportedError, match="'when' cannot be one of obs"):
        cells.obs_column("when")


# ---- Several files, shards, the program.


def test_several_files_are_joined(tmp_path):
    x = counts("int32")
    for i, (begin, end) in enumerate([(0, 40), (40, 41), (41, 97)]):
        columns = lists(x[begin:end], GENES)
        columns["kind"] = pa.array([f"k{i}"] * (end - begin)).dictionary_encode()
        write(tmp_path / f"{i}.parquet", columns, row_group_size=[9, 1, 100][i])
    files = str(tmp_path / "*.parquet")
    with pytest.raises(cf.errors.CellfeedError, match="join"):
        cf.open(files)
    outer = cf.open(files, join="outer", obs=["kind"])
    present = sorted({GENES[i] for i in x.indices})
    assert sorted(outer.var_names) == present
    order = [GENES.index(name) for name in outer.var_names]
    assert_matrix(outer, x[:, order])
    assert outer.categories("kind") == ["k0", "k1", "k2"]
    inner = cf.open(files, join="inner")
    shared = set.intersection(*(
        {GENES[i] for i in x[a:b].indices} for a, b in [(0, 40), (40, 41), (41, 97)]
    ))  # fmt: skip
    assert set(inner.var_names) == shared
    assert_matrix(inner, x[:, [GENES.index(name) for name in inner.var_names]])
    assert_matrix(cf.open(files, genes=GENES), x)


@pytest.mark.parametrize("kind", ["lists", "wide"])
def test_shards_of_a_table(tmp_path, kind):
    x, frame = counts("int32"), obs_frame()
    path, var = tmp_path / "a.parquet", gene_table(tmp_path / "var.parquet")
    flags = (
        ["--var", str(var)] if kind == "lists" else ["--obs-columns", "small,depth,half,n,maybe"]
    )
    table = pa.Table.from_pandas(frame)
    if kind == "lists":
        for name, column in lists(x).items():
            table = table.append_column(name, column)
    else:
        for j, name in enumerate(GENES):
            table = table.append_column(name, pa.array(x[:, j].toarray().ravel()))
    write(path, table, row_group_size=25)
    out = tmp_path / "shards"
    subprocess.run([PROGRAM, "shard", path, "--output-dir", out, *flags], check=True)
    shards = cf.open(out, obs=list(frame.columns))
    assert list(shards.var_names) == GENES
    assert_matrix(shards, x)
    got = pa.table(shards.obs_table())
    wanted = pq.read_table(path)
    for name in frame.columns:
        assert got[name].to_pylist() == wanted[name].to_pylist(), name
    info = subprocess.run(
        [PROGRAM, "info", "--json", path, *flags], check=True, capture_output=True, text=True
    )
    said = json.loads(info.stdout)
    assert (said["format"], said["n_cells"], said["n_genes"]) == ("parquet", N_CELLS, N_GENES)
    assert said["columns"].startswith(kind)
    assert [column["name"] for column in said["obs"]] == list(frame.columns)


@pytest.mark.parametrize("verb", ["info", "plan", "shard", "export", "preprocess", "simulate"])
def test_a_column_named_as_obs_has_to_be_there(tmp_path, verb):
    path, out = write(tmp_path / "a.parquet", {"A": [1.0], "age": [3]}), tmp_path / "out.h5ad"
    outputs = {
        "shard": ["--output-dir", tmp_path / "shards"],
        "export": ["--output", out],
        "preprocess": ["--output", out],
        "simulate": ["--output", out, "--cells", "1"],
    }
    cells = ["--like", path] if verb == "simulate" else [path]
    run = subprocess.run(
        [PROGRAM, verb, *cells, "--obs-columns", "aeg", *outputs.get(verb, [])],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert "no column 'aeg'" in run.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]


def test_a_conversion_without_a_cache(tmp_path, monkeypatch):
    x = scipy.sparse.random(4000, 500, 0.05, "csr", dtype=np.float32, random_state=1)
    path = write(tmp_path / "a.parquet", lists(x), row_group_size=1000)
    monkeypatch.setattr("cellfeed.opening.CACHE_BYTES", 0)
    cells = cf.open(path)
    cf.convert_to_shards(cells, tmp_path / "shards")
    got = cf.open(tmp_path / "shards").read(slice(0, 4000)).x
    assert (got != x[:, : got.shape[1]]).nnz == 0


# ---- Bad input.


def test_empty_files_and_files_without_rows(tmp_path):
    (tmp_path / "empty.parquet").touch()
    with pytest.raises(cf.errors.CorruptDataError, match=r"empty.parquet: is an empty file"):
        cf.open(tmp_path / "empty.parquet")
    cells = cf.open(write(tmp_path / "a.parquet", lists(counts()[:0])))
    assert len(cells) == 0
    cells = cf.open(write(tmp_path / "b.parquet", {"A": pa.array([], pa.float32())}))
    assert (len(cells), list(cells.var_names)) == (0, ["A"])


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ({"kind": ["a"], "ok": [True]}, "InvalidArgumentError", "no columns that could be genes"),
        (
            {"time": pa.array([1], pa.timestamp("ns")), "price": [1.0]},
            "UnsupportedError", "build_series",
        ),
        ({"input_ids": [[1, 2]], "length": [2]}, "UnsupportedError", "tokens without values"),
        ({"genes": [[1, 2]], "length": [2]}, "InvalidArgumentError", "values_column"),
        ({"genes": [[1.5]], "values": [[1.0]]}, "InvalidArgumentError", "lists of gene ids"),
        ({"genes": [[1]], "values": [["a"]]}, "InvalidArgumentError", "values_column"),
        ({"X": [[0.5, 0.0]], "label": [3]}, "UnsupportedError", "'X' holds lists.*Merlin"),
        (
            {"X": pa.array([[1, 0]], pa.list_(pa.int32(), 2)), "age": [3.5], "kind": ["a"]},
            "UnsupportedError", "'X' holds lists.*Merlin",
        ),
    ],
)  # fmt: skip
def test_tables_that_are_none_of_cells(tmp_path, columns, kind, message):
    path = write(tmp_path / "a.parquet", columns)
    with pytest.raises(getattr(cf.errors, kind), match=message) as caught:
        cf.open(path)
    assert str(path) in str(caught.value)


def test_options_of_tables_are_for_tables(tmp_path):
    (path,) = write_atlas(tmp_path)
    for option in ["genes_column", "values_column", "var"]:
        with pytest.raises(cf.errors.InvalidArgumentError, match=f"{option} is for Parquet"):
            cf.open(path, **{option: "x"})
    with pytest.raises(cf.errors.NoSuchKeyError, match="no layer 'counts'"):
        cf.open(write(tmp_path / "a.parquet", {"A": [1.0]}), layer="counts")


def test_cut_and_damaged_files(tmp_path):
    x = counts()
    columns = {**lists(x), "kind": [f"k{i}" for i in range(N_CELLS)]}
    path = write(tmp_path / "a.parquet", columns, row_group_size=30, write_page_checksum=True)
    whole = path.read_bytes()
    wanted = dense_of(cf.open(path, obs=["kind"]))
    random = np.random.default_rng(0)
    for cut in [0, 3, 8, 11, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(cf.errors.CellfeedError, match=r"a\.parquet"):
            cf.open(path)
    n_errors = 0
    for at in random.integers(4, len(whole), 150):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << random.integers(8)
        path.unlink()
        path.write_bytes(damaged)
        try:
            cells = cf.open(path, obs=["kind"])
            got = dense_of(cells)
        except cf.errors.CellfeedError as error:
            assert "a.parquet" in str(error)
            n_errors += 1
            continue
        if at < len(whole) - 2000 and got.shape == wanted.shape:  # pages have checksums
            np.testing.assert_array_equal(got, wanted)
    assert n_errors > 50


def real_files(folder: str) -> list:
    return sorted((REAL_DATA / folder).rglob("*.parquet")) if REAL_DATA.is_dir() else []


@pytest.mark.filterwarnings("ignore::cellfeed.errors.LeftOutWarning")
@pytest.mark.parametrize("path", real_files("odd"), ids=lambda path: path.name)
def test_odd_files_are_read_or_refused_by_name(path):
    try:
        cells = cf.open(path)
        got = dense_of(cells)
    except cf.errors.CellfeedError as error:
        assert path.name in str(error)
        return
    wanted = pq.read_table(path, columns=list(cells.var_names))  # others may be damaged
    numeric = [wanted[name].to_numpy() for name in cells.var_names]
    np.testing.assert_array_equal(got, np.stack(numeric, axis=1))


@pytest.mark.parametrize("path", real_files("tokens"), ids=lambda path: path.name)
def test_tokens_without_values_are_refused(path):
    with pytest.raises(cf.errors.UnsupportedError, match="'input_ids' holds tokens without values"):
        cf.open(path)
    assert len(cf.open(path, layer=None)) == 500


@pytest.mark.parametrize("path", real_files("series/crypto_ticks"), ids=lambda path: path.name)
def test_a_series_is_refused(path):
    with pytest.raises(cf.errors.UnsupportedError, match="build_series"):
        cf.open(path)


def test_tables_in_a_bucket(bucket, tmp_path):
    x = counts()
    path = write(tmp_path / "a.parquet", lists(x), row_group_size=30)
    var = gene_table(tmp_path / "var.parquet")
    for file in [path, var]:
        bucket.upload_file(str(file), "atlas", file.name)
    assert_matrix(cf.open("s3://atlas/a.parquet", var="s3://atlas/var.parquet"), x)


def test_genes_of_another_type_than_most_are_named(tmp_path):
    table = {"A": [0.0, 1.0], "B": [2.0, 0.0], "n_counts": [2, 1], "kind": ["x", "y"]}
    pd.DataFrame(table).to_parquet(tmp_path / "a.parquet")
    with pytest.warns(cf.errors.LeftOutWarning, match=r"1 of the 3 .* \(n_counts \(int64\)\)"):
        assert list(cf.open(tmp_path / "a.parquet").var_names) == ["A", "B", "n_counts"]
    assert list(cf.open(tmp_path / "a.parquet", obs=["n_counts"]).var_names) == ["A", "B"]


def test_a_column_whose_name_is_no_utf8_is_named(tmp_path):
    table = pa.table({"g0": [1.0, 2.0], "caf\u00e9": [3.0, 4.0]})
    pq.write_table(table, tmp_path / "a.parquet", store_schema=False)
    written = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(written.replace("\u00e9".encode(), b"\xff\xff"))
    with pytest.raises(cf.errors.CorruptDataError, match="name of column 2 is not UTF-8"):
        cf.open(tmp_path / "a.parquet")
