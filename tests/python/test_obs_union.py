"""One union of obs columns: the same through any format and any order of files."""

import itertools

import anndata
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obs_rule import labels_of, united_labels, what_is_read, write_file

import cellfeed as cf


def files_of(folder, columns: list[pd.Series | None]) -> list[str]:
    """One file for each column; None: a file that lacks it."""
    paths = []
    for i, column in enumerate(columns):
        n = 3 if column is None else len(column)
        obs = pd.DataFrame({"other": np.arange(n)}, index=[f"{i}_{k}" for k in range(n)])
        if column is not None:
            obs["x"] = column.to_numpy() if column.dtype.name != "category" else column.array
            if column.dtype.name not in ("category", "object", "str"):
                obs["x"] = column.array
        paths.append(write_file(folder / f"{i}.h5ad", obs))
    return paths


def categorical(values, categories=None, ordered=False) -> pd.Series:
    return pd.Series(pd.Categorical(values, categories, ordered=ordered))


def ways_of(folder, paths):
    """The same cells directly, through shards, and through files exported from them."""
    folder.mkdir(exist_ok=True)
    yield cf.open(paths)
    yield from through_shards(folder, paths)
    yield from through_others(folder, paths)


def through_shards(folder, paths):
    size = size_of_shards(paths)
    yield cf.open(cf.convert_to_shards(paths, folder / "shards", shard_size=size))
    cf.convert_to_shards(folder / "shards", folder / "again", shard_size=size + 1)
    yield cf.open(folder / "again")
    cf.export_h5ad(folder / "shards", folder / "back.h5ad")
    yield cf.open(folder / "back.h5ad")


def through_others(folder, paths):
    size = size_of_shards(paths)
    cf.convert_to_shards(paths[:1], folder / "appended", shard_size=size)
    if paths[1:]:
        cf.append_to_shards(paths[1:], folder / "appended", force=True)
    yield cf.open(folder / "appended")
    cf.export_h5ad(paths, folder / "joined.h5ad")
    yield cf.open(folder / "joined.h5ad")


def size_of_shards(paths):
    return max(2, len(cf.open(paths)) // 4)


LABEL_CASES = {
    "one file keeps pandas' codes": [categorical(["z", "a"], ["z", "m", "a"])],
    "files agree": [categorical(["z"], ["z", "a"]), categorical(["a"], ["z", "a"])],
    "files agree but one lacks it": [
        None, categorical(["z"], ["z", "a"]), categorical(["a"], ["z", "a"]),
    ],
    "files differ": [categorical(["z", "b"], ["z", "b"]), categorical(["a"], ["a"])],
    "files differ in order": [categorical(["z"], ["z", "a"]), categorical(["a"], ["a", "z"])],
    "ordered, first file lacks it": [None, categorical(["lo"], ["lo", "hi"], True)],
    "ordered, last file lacks it": [categorical(["lo"], ["lo", "hi"], True), None],
    "ordered in one file only": [
        categorical(["lo"], ["lo", "hi"], True), categorical(["lo"], ["lo", "hi"]),
    ],
    "orders merge": [
        categorical(["lo", "hi"], ["lo", "hi"], True),
        categorical(["mid", "hi"], ["lo", "mid", "hi"], True),
        categorical(["top"], ["hi", "top"], True),
    ],
    "orders merge with a free label": [
        categorical(["b"], ["b", "z"], True), categorical(["a"], ["a", "z"], True),
    ],
    "orders contradict": [
        categorical(["lo"], ["lo", "hi"], True), categorical(["lo"], ["hi", "lo"], True),
    ],
    "integers": [categorical([10, 2, None]), categorical([10, 3])],
    "negative integers": [categorical([-5, 2]), categorical([2, -10])],
    "one file of integers keeps codes": [categorical([10, 2], [10, 2])],
    "booleans": [categorical([True, False, None]), categorical([True])],
    "floats": [categorical([0.5, 10.0]), categorical([2.5])],
    "text that looks like numbers": [categorical(["10", "2"]), categorical(["3"])],
    "no categories in one file": [categorical([None, None], []), categorical(["b"], ["b", "a"])],
    "plain text": [pd.Series(["z", "b", "z"], dtype=object), pd.Series(["a"], dtype=object)],
    "plain text and categories": [
        pd.Series(["z", "b"], dtype=object), categorical(["q", "a"], ["q", "unused", "a"]),
    ],
    "many categories": [
        categorical([f"c{i}" for i in range(0, 200)]),
        categorical([f"c{i}" for i in range(100, 300)]),
    ],
}  # fmt: skip


# Each order of the files and each way, or every way of each order.
WAYS = ["some", pytest.param("all", marks=pytest.mark.slow)]


def orders_and_ways(folder, columns, ways):
    """Orders of the files, and cells of each order by several ways."""
    paths = files_of(folder, columns)
    orders = list(itertools.permutations(range(len(paths))))
    for number, order in enumerate(orders):
        in_order, into = [paths[i] for i in order], folder / str(number)
        if ways == "all" or len(orders) == 1:
            yield order, ways_of(into, in_order)
            continue
        yield order, [cf.open(in_order)]
        into.mkdir()
        if order == orders[0]:
            yield order, through_shards(into, in_order)
        elif order == orders[-1]:
            yield order, through_others(into, in_order)


@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("name", LABEL_CASES)
def test_labels_are_the_same_through_every_format_and_order_of_files(tmp_path, name, ways):
    columns = LABEL_CASES[name]
    for order, made in orders_and_ways(tmp_path, columns, ways):
        in_order = [columns[i] for i in order]
        names, ordered = united_labels(columns)
        labels = [
            label
            for column in in_order
            for label in ([None] * 3 if column is None else column.astype(object).tolist())
        ]
        labels = [None if pd.isna(label) else label for label in labels]
        for cells in made:
            assert cells.categories("x") == names
            assert [type(c) for c in cells.categories("x")] == [type(c) for c in names]
            assert cells.obs_column("x").ordered == ordered
            assert labels_of(cells, "x") == labels


NUMBER_CASES = {
    "int8 and float32": (["int8", "float32"], "float32"),
    "int32 and float32": (["int32", "float32"], "float64"),
    "uint16, int16, float32": (["uint16", "int16", "float32"], "float32"),
    "uint8 and int8": (["uint8", "int8"], "int16"),
    "uint32 and int8": (["uint32", "int8"], "int64"),
    "uint64 and int64": (["uint64", "int64"], "int64"),
    "uint64 and uint8": (["uint64", "uint8"], "uint64"),
    "float32 alone": (["float32"], "float32"),
    "float32, one lacks it": (["float32", None], "float32"),
    "int64, one lacks it": (["int64", None], "float64"),
    "int8, nullable": (["Int8"], "float64"),
    "int8, nullable and full": (["Int8 full", "int8"], "int8"),
    "int16 and float64": (["int16", "float64"], "float64"),
    "bool": (["bool", "bool"], "bool"),
    "bool, one lacks it": (["bool", None], "float64"),
    "bool, nullable": (["boolean"], "float64"),
}


def numbers(kind: str | None) -> pd.Series | None:
    if kind is None:
        return None
    if kind in ("bool", "boolean"):
        values = [True, False, None] if kind == "boolean" else [True, False]
        return pd.Series(values, dtype=kind)
    if kind.startswith("Int"):
        full = kind.endswith("full")
        return pd.Series([1, 2, 3 if full else None], dtype=kind.split()[0])
    low = 0 if kind.startswith("u") else -100
    values = [low + 0.5, np.nan, 7] if kind.startswith("f") else [low, 5, 100]
    return pd.Series(values, dtype=kind)


@pytest.mark.parametrize("ways", WAYS)
@pytest.mark.parametrize("name", NUMBER_CASES)
def test_numbers_are_the_same_through_every_format_and_order_of_files(tmp_path, name, ways):
    kinds, dtype = NUMBER_CASES[name]
    columns = [numbers(kind) for kind in kinds]
    for order, made in orders_and_ways(tmp_path, columns, ways):
        expected = [
            value
            for i in order
            for value in ([None] * 3 if columns[i] is None else columns[i].astype(object).tolist())
        ]
        expected = [None if pd.isna(value) else value for value in expected]
        for cells in made:
            values = cells.obs_values("x")
            assert values.dtype.name == dtype
            assert [None if v != v else v for v in values.tolist()] == expected


BIG = 2**53 + 1


@pytest.mark.parametrize(
    "columns",
    [
        [pd.Series([BIG, 1], dtype="int64"), None],
        [pd.Series([-BIG, None], dtype="Int64")],
        [pd.Series([2**64 - 1, None], dtype="UInt64")],
    ],
)
def test_a_large_integer_beside_missing_ones_is_refused_not_rounded(tmp_path, columns):
    paths = files_of(tmp_path, columns)
    for cells in (cf.open(paths), cf.open(cf.convert_to_shards(paths, tmp_path / "s"))):
        with pytest.raises(cf.errors.PrecisionError, match=r"'x'.*missing") as caught:
            cells.obs_values("x")
        assert "fill" in str(caught.value)
    # Nothing is lost on the way.
    cf.export_h5ad(tmp_path / "s", tmp_path / "back.h5ad")
    back = anndata.read_h5ad(tmp_path / "back.h5ad").obs["x"]
    expected = [v for c in columns for v in ([None] * 3 if c is None else c.astype(object))]
    assert [None if pd.isna(v) else int(v) for v in back] == [
        None if pd.isna(v) else v for v in expected
    ]


@pytest.mark.parametrize("columns", [[pd.Series([BIG], dtype="int64")],
                                     [pd.Series([BIG, 3], dtype="Int64")]])  # fmt: skip
def test_large_integers_stay_exact_where_none_is_missing(tmp_path, columns):
    for cells in ways_of(tmp_path / "w", files_of(tmp_path, columns)):
        assert cells.obs_values("x").dtype == np.int64 and cells.obs_values("x")[0] == BIG


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([pd.Series([2**63], dtype="uint64"), pd.Series([-1], dtype="int64")], "int64"),
        ([pd.Series([BIG], dtype="int64"), pd.Series([0.5])], "float64"),
        ([pd.Series([True]), pd.Series([1], dtype="int8")], "bool"),
        ([pd.Series([True]), pd.Series([0.5])], "bool"),
        ([categorical(["a"]), pd.Series([1])], "labels"),
        ([pd.Series(["a"], dtype=object), pd.Series([1.5])], "labels"),
        ([categorical([1, 2]), categorical(["a"])], "text"),
        ([categorical([True]), categorical([1])], "bool"),
        ([pd.Series(["a"], dtype=object), categorical([1])], "text"),
    ],
)
def test_what_cannot_be_united_is_refused_naming_column_and_files(tmp_path, columns, said):
    for k, order in enumerate(itertools.permutations(range(2))):
        paths = files_of(tmp_path, columns)
        paths = [paths[i] for i in order]
        for act in (
            lambda p=paths: cf.open(p).obs_values("x"),
            lambda p=paths, k=k: cf.convert_to_shards(p, tmp_path / f"s{k}"),
            lambda p=paths, k=k: cf.export_h5ad(p, tmp_path / f"e{k}.h5ad"),
        ):
            with pytest.raises(cf.errors.CellfeedError, match="'x'") as caught:
                act()
            message = str(caught.value)
            assert said in message
            assert any(path in message for path in paths)
            assert isinstance(caught.value, ValueError)


letters = st.sampled_from("abcde")


@st.composite
def label_columns(draw):
    """Categoricals of some files, some of them ordered, some files without the column."""
    ordered = draw(st.booleans())
    columns: list = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.integers(0, 4)) == 0:
            columns.append(None)
            continue
        names = draw(st.lists(letters, unique=True, max_size=4))
        values = draw(st.lists(st.sampled_from([*names, None]), min_size=1, max_size=4))
        is_ordered = ordered and draw(st.integers(0, 5)) > 0
        columns.append(categorical(values, names, is_ordered))
    return [*columns, categorical(["a"], ["a"], ordered)]


@pytest.mark.slow
@settings(max_examples=40)
@given(columns=label_columns(), data=st.data())
def test_any_categoricals_in_any_order_of_files(tmp_path_factory, columns, data):
    folder = tmp_path_factory.mktemp("any")
    paths = files_of(folder, columns)
    order = data.draw(st.permutations(range(len(paths))))
    names, ordered = united_labels(columns)
    direct = cf.open([paths[i] for i in order])
    assert (direct.categories("x"), direct.obs_column("x").ordered) == (names, ordered)
    labels = [v for i in order for v in ([None] * 3 if columns[i] is None else columns[i])]
    assert labels_of(direct, "x") == [None if pd.isna(v) else v for v in labels]
    shards = cf.convert_to_shards([paths[i] for i in order], folder / "shards", shard_size=3)
    assert what_is_read(cf.open(shards), "x") == what_is_read(direct, "x")
