"""Columns of obs from elsewhere: matched to cells as pandas does, and used like those of files."""

import json
import pickle
import subprocess
import sys

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, InvalidTypeError, NoSuchKeyError

N = (60, 45)


def adata_of(n, seed):
    rng = np.random.default_rng(seed)
    obs = pd.DataFrame(
        {
            "donor": pd.Categorical(rng.choice(["d1", "d2", "d3"], n)),
            "lane": rng.integers(1, 4, n),
        },
        index=[f"c{seed}_{i}" for i in range(n)],
    )
    x = scipy.sparse.random(n, 12, 0.4, "csr", dtype=np.float32, rng=rng)
    return anndata.AnnData(x, obs, pd.DataFrame(index=[f"g{i}" for i in range(12)]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("obs")
    for seed, n in enumerate(N):
        adata_of(n, seed).write_h5ad(folder / f"{seed}.h5ad", compression="gzip")
    return folder


@pytest.fixture(params=["files", "shards", "memory", "some"])
def cells(request, folder, tmp_path):
    if request.param == "memory":
        return cf.open([adata_of(n, seed) for seed, n in enumerate(N)])
    opened = cf.open(f"{folder}/*.h5ad")
    if request.param == "shards":
        cf.convert_to_shards(opened, tmp_path / "shards", shard_size=40)
        return cf.open(tmp_path / "shards")
    if request.param == "some":
        return opened.filter(np.random.default_rng(3).permutation(sum(N))[:70])
    return opened


def table_for(cells, seed=7):
    """Rows for most cells and some others, in another order; every kind of column."""
    rng = np.random.default_rng(seed)
    names = rng.permutation([*cells.obs_names[5:], "nobody", "noone"])
    n = len(names)
    return pd.DataFrame(
        {
            "kind": pd.Categorical(rng.choice(["T", "B", "NK"], n), categories=["T", "NK", "B"]),
            "text": rng.choice(["x", "y"], n).astype(object),
            "count": rng.integers(0, 9, n),
            "big": rng.integers(2**40, 2**41, n),
            "whole": np.arange(n, dtype=np.int32),
            "score": rng.normal(size=n),
            "is_good": rng.random(n) < 0.5,
        },
        index=names,
    )


def test_columns_are_those_that_pandas_joins(cells):
    table = table_for(cells)
    added = cells.with_obs(table)
    expected = pd.DataFrame(index=list(cells.obs_names)).join(table)
    assert added.obs_keys() == [*cells.obs_keys(), *table.columns]
    assert added.categories("kind") == ["T", "NK", "B"]
    for name in table.columns:
        got, want = added.obs[name].to_numpy(dtype=object), expected[name].to_numpy(dtype=object)
        is_missing = pd.isna(want)
        assert np.array_equal(pd.isna(got), is_missing), name
        assert (got[~is_missing] == want[~is_missing]).all(), name
    assert list(added.obs["donor"]) == list(cells.obs["donor"])
    for other in (pickle.loads(pickle.dumps(added)), added[:], added[::-1][::-1]):
        assert other.obs["kind"].tolist() == added.obs["kind"].tolist()
    assert added.fingerprint != cells.fingerprint
    assert pickle.loads(pickle.dumps(added)).fingerprint == added.fingerprint
    assert cells.with_obs(table[["kind"]]).fingerprint != added.fingerprint
    with pytest.raises(NoSuchKeyError):
        cells.obs_column("kind")


def test_batches_filters_splits_and_strategies_take_them(cells):
    added = cells.with_obs(table_for(cells))
    kinds = added.obs["kind"].astype(object).to_numpy()
    loader = cf.Loader(added, cf.BlockShuffling(1), batch_size=16, obs=["kind", "donor", "count"])
    for batch in loader:
        got = [None if code < 0 else added.categories("kind")[code] for code in batch.obs["kind"]]
        assert got == [None if pd.isna(kind) else kind for kind in kinds[batch.index]]
        assert (batch.x != cells.read(batch.index).x).nnz == 0
    chosen = added.filter("kind == 'NK' and count > 2")
    wanted = (kinds == "NK") & (added.obs["count"].to_numpy() > 2)
    assert list(chosen.obs_names) == list(np.array(added.obs_names)[wanted])
    known = added.filter("kind is not missing")
    parts = known.split({"a": 0.5, "b": 0.5}, stratify="kind", seed=1)
    assert sorted(len(part) for part in parts.values()) == [len(known) // 2, (len(known) + 1) // 2]
    order = cf.ClassBalancedSampling(label_key="kind").get_indices(known, seed=0)
    assert set(np.unique(known.obs_values("kind")[order])) == {0, 1, 2}


def test_shards_and_exports_have_them(cells, tmp_path):
    table = table_for(cells)
    added = cells.with_obs(table)
    cf.convert_to_shards(added, tmp_path / "made")
    cf.convert_to_shards(added.filter("kind == 'T'"), tmp_path / "some", shuffle=True, seed=1)
    cf.export_h5ad(added, tmp_path / "out.h5ad")
    back = cf.open(tmp_path / "made")
    written = anndata.read_h5ad(tmp_path / "out.h5ad")
    for name in ("kind", "score", "count"):
        want = added.obs[name].to_numpy(dtype=object)
        for got in (back.obs[name], written.obs[name]):
            values = got.to_numpy(dtype=object)
            assert np.array_equal(pd.isna(values), pd.isna(want))
            assert (values[~pd.isna(want)] == want[~pd.isna(want)]).all()
    assert (back.read(slice(None)).x != cells.read(slice(None)).x).nnz == 0
    some = cf.open(tmp_path / "some")
    assert set(some.obs["kind"]) == {"T"}
    expected = dict(zip(added.obs_names, added.obs["score"], strict=True))
    assert all(
        np.isclose(score, expected[name])
        for name, score in zip(some.obs_names, some.obs["score"], strict=True)
    )


def test_by_a_column_of_obs(cells):
    donors = pd.DataFrame({"donor": ["d3", "d1", "d9"], "age": [30, 10, 90], "sex": list("fmf")})
    for table in (donors, donors.set_index("donor"), pa.table(donors)):
        added = cells.with_obs(table, on="donor")
        by_donor = {"d1": (10, "m"), "d3": (30, "f")}
        for donor, age, sex in zip(
            added.obs["donor"], added.obs["age"], added.obs["sex"], strict=True
        ):
            assert (age, sex) == by_donor[donor] if donor in by_donor else pd.isna([age, sex]).all()
    lanes = pd.Series([7, 8, 9], index=pd.Index([3, 2, 1], name="lane"), name="chip")
    added = cells.with_obs(lanes, on="lane", how="exact")
    assert (added.obs["chip"] == 10 - added.obs["lane"]).all()
    assert added.obs_column("chip").stored_dtype == "int64"


def test_tables_of_other_libraries_and_files(cells, tmp_path):
    table = table_for(cells)[["kind", "score"]].astype({"kind": str})
    expected = cells.with_obs(table)
    table.to_csv(tmp_path / "labels.csv")
    table.to_csv(tmp_path / "labels.tsv", sep="\t")
    named = pa.table({"obs_names": table.index.tolist(), "kind": table["kind"].tolist(),
                      "score": table["score"].to_numpy()})  # fmt: skip
    for other in (tmp_path / "labels.csv", str(tmp_path / "labels.tsv"), named):
        added = cells.with_obs(other)
        assert added.obs["kind"].astype(object).equals(expected.obs["kind"].astype(object))
        np.testing.assert_allclose(added.obs["score"], expected.obs["score"])


def test_tables_over_tables(cells):
    first = cells.with_obs(pd.Series(1.5, index=cells.obs_names, name="one"))
    second = first[::2].with_obs(pd.Series("b", index=first[::2].obs_names, name="two"))
    assert second.obs_keys() == [*cells.obs_keys(), "one", "two"]
    assert (second.obs["one"] == 1.5).all() and (second.obs["two"] == "b").all()
    assert len(second) == len(cells[::2])


@pytest.mark.parametrize(
    ("make", "arguments", "kind", "words"),
    [
        (lambda t: t.rename(columns={"kind": "donor"}), {}, InvalidArgumentError, "already"),
        (lambda t: pd.concat([t, t[:3]]), {}, InvalidArgumentError, "several rows for 3 cells"),
        (lambda t: t.set_axis([f"n{i}" for i in range(len(t))]), {}, InvalidArgumentError, "none"),
        (lambda t: t.reset_index(drop=True), {}, InvalidArgumentError, "obs_names"),
        (lambda t: t[[]], {}, InvalidArgumentError, "no columns"),
        (lambda t: t, {"how": "exact"}, InvalidArgumentError, "no row for 5 cells"),
        (lambda t: t, {"how": "inner"}, InvalidArgumentError, "how must be"),
        (lambda t: t, {"on": "nix"}, NoSuchKeyError, "nix"),
        (lambda t: t.to_dict(), {}, InvalidTypeError, "DataFrame"),
        (
            lambda t: pd.Series([1], index=pd.Index([1], name="donor"), name="a"),
            {"on": "donor"},
            InvalidTypeError,
            "text",
        ),
        (lambda t: t.iloc[:0], {}, InvalidArgumentError, "no rows"),
        (lambda t: pd.concat([t, t[["kind"]]], axis=1), {}, InvalidArgumentError, "'kind' twice"),
        (lambda t: t, {"on": "donor"}, InvalidArgumentError, "none of the values of 'donor'"),
        (
            lambda t: t.reset_index(drop=True),
            {"on": "donor"},
            InvalidArgumentError,
            "the table has no column 'donor'; it has: kind",
        ),
        (
            lambda t: pd.DataFrame({"a": [1, 2]}, index=[3, 1]),
            {"on": "donor"},
            InvalidArgumentError,
            "the table has no column 'donor'",
        ),
        (lambda t: t.rename(columns={"kind": 1, "text": "1"}), {}, InvalidArgumentError, "twice"),
        (lambda t: t.set_index(["kind", "text"]), {}, InvalidArgumentError, "several levels"),
        (lambda t: "none.csv", {}, cf.errors.NotFoundError, "none.csv: there is no such file"),
        (lambda t: t.assign(kind=[["list"]] * len(t)), {}, cf.errors.CellfeedError, "kind"),
    ],
)
def test_wrong_tables_are_named(folder, make, arguments, kind, words):
    cells = cf.open(f"{folder}/*.h5ad")
    with pytest.raises(kind, match=words):
        cells.with_obs(make(table_for(cells)), **arguments)


def test_exact_refuses_a_row_too_many(folder):
    cells = cf.open(f"{folder}/*.h5ad")
    table = pd.Series(1, index=[*cells.obs_names, "nobody"], name="a")
    with pytest.raises(InvalidArgumentError, match=r"1 rows of the table .* 'nobody'"):
        cells.with_obs(table, how="exact")
    assert (cells.with_obs(table[:-1], how="exact").obs["a"] == 1).all()


def test_names_that_several_cells_share_are_ambiguous(tmp_path):
    for name in ("a", "b"):
        adata_of(20, 0).write_h5ad(tmp_path / f"{name}.h5ad")
    cells = cf.open(f"{tmp_path}/*.h5ad")
    table = pd.Series(1, index=["c0_3"], name="a")
    with pytest.raises(InvalidArgumentError, match=r"2 cells .* share their name .* 'c0_3'"):
        cells.with_obs(table)
    assert cells.with_obs(pd.Series([1], ["d1"], name="a"), on="donor").obs["a"].max() == 1


def test_workers_and_other_processes_have_them(folder, tmp_path):
    cells = cf.open(f"{folder}/*.h5ad")
    added = cells.with_obs(table_for(cells))
    (tmp_path / "cells.pickle").write_bytes(pickle.dumps(added))
    code = (
        "import pickle, sys, json; cells = pickle.load(open(sys.argv[1], 'rb'));"
        "print(json.dumps([cells.fingerprint, cells.obs_values('count').tolist()]))"
    )
    command = [sys.executable, "-c", code, tmp_path / "cells.pickle"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    fingerprint, counts = json.loads(done.stdout)
    assert fingerprint == added.fingerprint
    np.testing.assert_array_equal(np.array(counts), added.obs_values("count"))


def test_arrays_are_taken_where_columns_are(cells):
    codes = cells.obs_values("donor")
    donors = cells.obs["donor"]
    for by in (codes, donors.tolist(), donors, pd.Categorical(donors)):
        parts = cells.split({"a": 0.6, "b": 0.4}, by=by, seed=1)
        same = cells.split({"a": 0.6, "b": 0.4}, by="donor", seed=1)
        assert [list(p.obs_names) for p in parts.values()] == [
            list(p.obs_names) for p in same.values()
        ]
    kinds = donors.cat.set_categories(["d3", "d1", "d2"])  # the order of categories is no matter
    assert list(cells.split({"a": 0.6, "b": 0.4}, by=kinds, seed=1)["a"].obs_names) == list(
        same["a"].obs_names
    )
    with pytest.raises(InvalidArgumentError, match="several labels for a cell"):
        cells[[0, 0, 1, 2]].split({"a": 0.5, "b": 0.5}, by=["x", "y", "x", "y"])
    parts = cells.split({"a": 0.5, "b": 0.5}, stratify=codes, seed=2)
    same = cells.split({"a": 0.5, "b": 0.5}, stratify="donor", seed=2)
    assert list(parts["a"].obs_names) == list(same["a"].obs_names)
    by_key = cf.GroupSampling("donor").get_indices(cells, seed=0)
    assert np.array_equal(cf.GroupSampling(codes).get_indices(cells, seed=0), by_key)
    for wrong, kind, words in (
        (codes[1:], InvalidArgumentError, "a label for each of the"),
        (np.linspace(0, 1, len(cells)), InvalidTypeError, "not floats"),
        (donors.iloc[::-1], InvalidArgumentError, "by"),
        ([None, *codes[1:]], InvalidArgumentError, "1 cells have no label in the labels of by="),
    ):
        with pytest.raises(kind, match=words):
            cells.split({"a": 0.5, "b": 0.5}, by=wrong)


def test_numbers_keep_their_type_and_large_ones_are_not_rounded(folder):
    cells = cf.open(f"{folder}/*.h5ad")
    large = pd.DataFrame({"big": [2**53 + 1], "flag": [True]}, index=cells.obs_names[:1])
    with pytest.raises(cf.errors.CellfeedError, match="cannot hold exactly"):
        cells.with_obs(large).obs_values("big")
    some = cells.filter(np.arange(40, 70))
    whole = pd.DataFrame(
        {"big": 2**53 + np.arange(30), "flag": np.arange(30) % 2 == 0}, index=some.obs_names
    )
    added = some.with_obs(whole, how="exact")
    assert added.obs_values("big").dtype == np.int64 and added.obs_values("flag").dtype == np.bool_
    assert added.obs_values("big").tolist() == whole["big"].tolist()
    assert added.obs_values("flag").tolist() == whole["flag"].tolist()


def test_cells_that_are_not_selected_have_no_values(folder):
    cells = cf.open(f"{folder}/*.h5ad").filter([2, 0])
    added = cells.with_obs(pd.DataFrame({"mine": ["x", "y"], "n": [1, 2]}, index=cells.obs_names))
    table = added.obs_table(0).to_pandas()
    assert table["mine"].isna().tolist() == [False, True, False] + [True] * 57
    assert table["n"].iloc[[0, 2]].tolist() == [2, 1] and table["n"].isna().sum() == 58
    assert added.obs_values("n").tolist() == [1, 2] and added.obs_values("n").dtype == np.int64


def test_a_cell_that_is_chosen_twice_is_one_cell(folder):
    cells = cf.open(f"{folder}/*.h5ad")[[3, 3, 70, 3]]
    added = cells.with_obs(pd.Series(["x", "y"], index=list(cells.obs_names[1:3]), name="mine"))
    assert added.obs["mine"].tolist() == ["x", "x", "y", "x"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "", "a.csv: pandas reads no CSV"),
        ("a.csv", "name,kind\n", "no rows"),
        ("a.csv", b"name,kind\nc0_1,\xe9\n", "a.csv: pandas reads no CSV"),
        ("a.csv", "name\nc0_1\n", "no columns"),
        ("a.csv", 'name,kind\n"c0_1,x\n', "a.csv: pandas reads no CSV"),
    ],
)
def test_files_that_are_no_tables_are_named(folder, tmp_path, name, text, words):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidArgumentError, match=words):
        cf.open(f"{folder}/*.h5ad").with_obs(tmp_path / name)


def test_names_in_csv_files_are_text(tmp_path):
    adata = adata_of(20, 0)
    adata.obs_names = [f"{i:03}" for i in range(20)]
    adata.obs["pid"] = pd.Categorical([f"{i % 4:03}" for i in range(20)])
    adata.write_h5ad(tmp_path / "a.h5ad")
    cells = cf.open(tmp_path / "a.h5ad")
    (tmp_path / "cells.csv").write_text("name,age\n007,7\n003,3.25\n")
    added = cells.with_obs(tmp_path / "cells.csv")
    assert added.obs["age"].iloc[[7, 3]].tolist() == [7, 3.25]
    (tmp_path / "donors.csv").write_text("age,pid\n50,000\n51,001\n52,002\n53,003\n")
    by_donor = cells.with_obs(tmp_path / "donors.csv", on="pid", how="exact")
    assert by_donor.obs["age"].tolist() == [50 + i % 4 for i in range(20)]
    (tmp_path / "lanes.tsv").write_text("lane\tchip\n1\ta\n2\tb\n3\tc\n")
    by_lane = cells.with_obs(tmp_path / "lanes.tsv", on="lane")
    assert by_lane.obs["chip"].tolist() == ["_abc"[lane] for lane in adata.obs["lane"]]
