"""`cf.MappedCollection` against anndata and pandas, and against lamindb where it is installed."""

import inspect
import pickle
import re

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from rival_mapped import lamindb_class
from torch.utils.data import DataLoader, Subset, WeightedRandomSampler

import cellfeed as cf
from cellfeed.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
    OutOfRangeError,
)

GENES = [["b", "a", "c", "e"], ["c", "a", "d"], ["a", "z", "c", "b"]]


def make_adata(number: int, genes: list[str], dtype=np.float32) -> anndata.AnnData:
    random = np.random.default_rng(number)
    n = 5 + number
    x = scipy.sparse.csr_matrix(random.poisson(1.0, (n, len(genes))).astype(dtype))
    obs = pd.DataFrame(
        {
            "kind": pd.Categorical(random.choice(["T", "B", "?"], n), ["T", "unused", "B", "?"]),
            "depth": random.integers(0, 4, n),
            "score": random.random(n).round(2),
            "good": random.random(n) < 0.5,
        },
        index=[f"{number}-{i}" for i in range(n)],
    )
    obs.loc[obs.index[1], "kind"] = np.nan
    if number == 1:
        del obs["good"]
    adata = anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=genes))
    adata.layers["twice"] = x * 2
    adata.obsm["X_pca"] = random.normal(size=(n, 3)).astype(np.float32)
    adata.obsm["wide"] = np.zeros((n, len(genes)))
    adata.raw = anndata.AnnData(
        scipy.sparse.hstack([x, x], format="csr"),
        obs=obs[[]],
        var=pd.DataFrame(index=[*genes, *(f"raw_{gene}" for gene in genes)]),
    )
    return adata


@pytest.fixture(scope="module")
def adatas():
    return [make_adata(i, genes) for i, genes in enumerate(GENES)]


@pytest.fixture(scope="module")
def paths(adatas, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    found = []
    for i, adata in enumerate(adatas):
        found.append(folder / f"{i}.h5ad")
        adata.write_h5ad(found[-1], compression="gzip" if i == 2 else None)
    return found


@pytest.fixture(scope="module")
def equal_paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("equal")
    for i in range(2):
        make_adata(i + 10, ["b", "a", "c"], np.int64 if i else np.int32).write_h5ad(
            folder / f"{i}.h5ad"
        )
    return sorted(folder.glob("*.h5ad"))


def concatenated(adatas, join) -> anndata.AnnData:
    return anndata.concat(adatas, join=join, fill_value=0)


@pytest.mark.parametrize("join", ["inner", "outer"])
@pytest.mark.parametrize("key", ["X", "twice"])
def test_rows_are_those_of_anndata_concat(adatas, paths, join, key):
    ours = cf.MappedCollection(paths, layers_keys=key, join=join)
    whole = concatenated(adatas, join)
    expected = whole.to_df(None if key == "X" else key)[list(ours.var_joint)]
    assert ours.shape == expected.shape
    got = np.array([ours[i][key] for i in range(len(ours))])
    np.testing.assert_array_equal(got, expected.to_numpy())
    assert [ours[i]["_store_idx"] for i in range(len(ours))] == [0] * 5 + [1] * 6 + [2] * 7
    assert list(ours[0]) == ["_store_idx", key]


def test_inner_keeps_the_first_files_order_and_outer_sorts(paths, equal_paths):
    assert list(cf.MappedCollection(paths).var_joint) == ["a", "c"]
    outer = cf.MappedCollection(paths, join="outer")
    assert list(outer.var_joint) == ["a", "b", "c", "d", "e", "z"]
    equal = cf.MappedCollection(equal_paths, join="outer")
    assert list(equal.var_joint) == ["b", "a", "c"] and equal.var_indices is None
    for file, places in enumerate(outer.var_indices):
        assert [outer.var_joint[p] for p in places] == GENES[file]
    inner = cf.MappedCollection(paths)
    for file, places in enumerate(inner.var_indices):
        assert [GENES[file][p] for p in places] == ["a", "c"]


def test_auto_joins_what_differs(paths, equal_paths):
    for files in (paths, equal_paths):
        auto, inner = (cf.MappedCollection(files, join=join) for join in ("auto", "inner"))
        assert list(auto.var_joint) == list(inner.var_joint)
        assert auto.join_vars == inner.join_vars == ("inner" if files is paths else None)
        np.testing.assert_array_equal(auto[7]["X"], inner[7]["X"])


def test_without_a_join_rows_have_their_files_genes(adatas, paths):
    ours = cf.MappedCollection(paths, layers_keys=["X", "raw.X"], join=None, obs_keys="kind")
    assert ours.shape == (18, None) and ours.var_joint is None and ours.var_indices is None
    at = 0
    for adata in adatas:
        for row, raw in zip(adata.X.toarray(), adata.raw.X.toarray(), strict=True):
            np.testing.assert_array_equal(ours[at]["X"], row)
            np.testing.assert_array_equal(ours[at]["raw.X"], raw)
            at += 1
    mixed = ours.__getitems__([17, 0, 6])
    assert [len(row["X"]) for row in mixed] == [4, 4, 3]
    joined = cf.MappedCollection(paths, layers_keys=["X", "raw.X"])
    assert [len(joined[i]["raw.X"]) for i in (0, 5, 11)] == [8, 6, 8]
    assert all(len(joined[i]["X"]) == 2 for i in (0, 5, 11))


@pytest.mark.parametrize("join", ["inner", "outer", None])
def test_several_matrices_come_together(adatas, paths, join):
    keys = ["twice", "raw.X", "X"]
    ours = cf.MappedCollection(paths, keys, obsm_keys=["X_pca"], join=join, obs_filter={"depth": 1})
    single = [cf.MappedCollection(paths, key, join=join, obs_filter={"depth": 1}) for key in keys]
    pca = np.vstack([adata.obsm["X_pca"] for adata in adatas])
    pca = pca[np.concatenate([adata.obs["depth"] == 1 for adata in adatas])]
    rows = ours.__getitems__(np.arange(len(ours))[::-1])
    for row, i in zip(rows, range(len(ours) - 1, -1, -1), strict=True):
        assert list(row) == ["_store_idx", *keys, "obsm_X_pca"]
        for key, one in zip(keys, single, strict=True):
            np.testing.assert_array_equal(row[key], one[i][key])
            assert row[key].dtype == one[i][key].dtype
        np.testing.assert_array_equal(row["obsm_X_pca"], pca[i])
        assert row["obsm_X_pca"].dtype == np.float32


def test_dtype_is_the_stored_one_or_the_one_asked_for(paths, equal_paths):
    assert cf.MappedCollection(paths)[0]["X"].dtype == np.float32
    assert cf.MappedCollection(equal_paths)[0]["X"].dtype == np.int64
    assert cf.MappedCollection(equal_paths, dtype="float64")[0]["X"].dtype == np.float64


def test_labels_are_codes_of_the_sorted_union(adatas, paths):
    ours = cf.MappedCollection(paths, obs_keys=["kind", "depth"], unknown_label={"kind": "?"})
    assert ours.encoders["kind"] == {"?": -1, "B": 0, "T": 1, "unused": 2}
    assert ours.encode_labels == ["kind", "depth"]
    whole = pd.concat([adata.obs for adata in adatas])
    encoder = ours.encoders["kind"]
    codes = [encoder[label] if isinstance(label, str) else -1 for label in whole["kind"]]
    assert [ours[i]["kind"] for i in range(18)] == codes
    depths = sorted(set(whole["depth"]))
    assert [ours[i]["depth"] for i in range(18)] == [depths.index(d) for d in whole["depth"]]


def test_labels_as_they_are(adatas, paths):
    ours = cf.MappedCollection(
        paths, obs_keys=["kind", "depth", "score", "good"], encode_labels=["depth"]
    )
    assert list(ours.encoders) == ["depth"]
    whole = pd.concat([adata.obs for adata in adatas])
    for i, (_, row) in enumerate(whole.iterrows()):
        got = ours[i]
        assert got["score"] == row["score"]
        for name in ("kind", "good"):
            assert got[name] == row[name] or (got[name] != got[name] and pd.isna(row[name]))
    assert cf.MappedCollection(paths, obs_keys="kind", encode_labels=False).encode_labels is False


def test_merged_labels_and_categories(adatas, paths):
    ours = cf.MappedCollection(paths, obs_keys="kind")
    whole = pd.concat([adata.obs for adata in adatas])
    labels = ours.get_merged_labels("kind")
    expected = whole["kind"].astype(object).to_numpy()
    assert pd.Series(labels).equals(pd.Series(expected))
    np.testing.assert_array_equal(ours.get_merged_labels("depth"), whole["depth"])
    assert ours.get_merged_categories("kind") == ["?", "B", "T", "unused"]
    assert ours.get_merged_categories("depth") == sorted(set(whole["depth"]))
    assert ours.categories == {"kind": ["?", "B", "T", "unused"]}
    assert list(ours.labels) == ["kind"]
    assert pd.Series(ours.labels["kind"]).equals(pd.Series(expected))
    assert cf.MappedCollection(paths).labels == cf.MappedCollection(paths).categories == {}


@pytest.mark.parametrize("scaler", [None, 1.0, 3])
@pytest.mark.parametrize("keys", ["kind", ["kind", "depth"], ["good"]])
def test_weights_are_those_of_the_counts(adatas, paths, keys, scaler):
    ours = cf.MappedCollection(paths, obs_keys=["kind"])
    whole = pd.concat([adata.obs for adata in adatas])
    names = [keys] if isinstance(keys, str) else keys
    joined = whole[names].astype(object).astype(str).agg("__".join, axis=1)
    if keys == ["good"]:
        joined = joined.replace("0.0", "False").replace("1.0", "True")
    counts = joined.map(joined.value_counts()).to_numpy()
    expected = 1 / counts if scaler is None else scaler / (counts + scaler)
    np.testing.assert_allclose(ours.get_label_weights(keys, scaler=scaler), expected)
    by_name = ours.get_label_weights(keys, scaler=scaler, return_categories=True)
    if keys != ["good"]:
        assert by_name == pytest.approx(dict(zip(joined, expected, strict=True)))


FILTERS = [
    {"kind": "T"},
    {"kind": ["T", "B"], "depth": [0, 1, 2]},
    {"kind": ("T", np.nan)},
    {"good": True},
    {"good": [np.nan]},
    {"score": [np.nan, 0.5], "depth": 1},
]


@pytest.mark.parametrize("wanted", FILTERS[:5])
def test_filters_are_those_of_pandas(adatas, paths, wanted):
    ours = cf.MappedCollection(paths, obs_keys=["kind", "depth"], obs_filter=wanted)
    whole = pd.concat([adata.obs for adata in adatas])
    mask = np.ones(len(whole), dtype=bool)
    for name, values in wanted.items():
        values = list(values) if isinstance(values, (list, tuple)) else [values]
        known = [value for value in values if value == value]
        hit = whole[name].astype(object).isin(known).to_numpy()
        mask &= hit | whole[name].isna().to_numpy() if len(known) < len(values) else hit
    rows = np.flatnonzero(mask)
    assert len(ours) == len(rows) > 0 and ours.filtered
    begins = np.array([0, 5, 11, 18])
    assert ours.n_obs_list == np.histogram(rows, begins)[0].tolist()
    assert [shape[0] for shape in ours.original_shapes] == ours.n_obs_list
    np.testing.assert_array_equal(ours.storage_idx, np.searchsorted(begins, rows, "right") - 1)
    np.testing.assert_array_equal(ours.indices, rows - begins[ours.storage_idx])
    np.testing.assert_array_equal(np.hstack(ours.indices_list), ours.indices)
    whole_collection = cf.MappedCollection(paths, obs_keys=["kind", "depth"])
    for place, row in enumerate(rows):
        for key, value in ours[place].items():
            np.testing.assert_array_equal(value, whole_collection[int(row)][key])
    assert len(ours.get_label_weights("kind")) == len(ours) == len(ours.get_merged_labels("kind"))


def same_batches(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        assert list(mine) == list(other)
        for key, value in mine.items():
            if isinstance(value, torch.Tensor):
                assert value.dtype == other[key].dtype
                torch.testing.assert_close(value, other[key], rtol=0, atol=0)
            else:
                assert value == other[key]


@pytest.mark.parametrize("workers", [0, 2])
def test_default_collation_is_that_of_single_rows(paths, workers):
    ours = cf.MappedCollection(
        paths, layers_keys=["X", "twice"], obs_keys=["kind", "depth"], join="outer", parallel=True
    )

    class OneByOne:
        def __len__(self):
            return len(ours)

        def __getitem__(self, i):
            return ours[i]

    order = np.random.default_rng(0).permutation(18).tolist()
    mine = DataLoader(
        ours, 4, sampler=order, num_workers=workers,
        worker_init_fn=cf.MappedCollection.torch_worker_init_fn,
    )  # fmt: skip
    same_batches(mine, DataLoader(OneByOne(), 4, sampler=order))
    same_batches(DataLoader(Subset(ours, order), 4), DataLoader(Subset(OneByOne(), order), 4))


def test_labels_that_are_numbers_are_collated_as_of_single_rows():
    obs = {
        "whole": [1, 2, 1, None], "real": [0.5, None, 1.5, 0.5], "truth": [True, False, True, True],
        "text": ["b", "a", None, "a"],
    }  # fmt: skip
    columns = {name: pd.Categorical(values) for name, values in obs.items()}
    obs = pd.DataFrame(columns, index=list("abcd"))
    adata = anndata.AnnData(np.ones((4, 2), "float32"), obs=obs)
    ours = cf.MappedCollection(adata, obs_keys=list(obs), encode_labels=False)
    for rows in ([0, 1], [1, 0, 2], [3, 0, 1]):
        batch = next(iter(DataLoader(ours, batch_sampler=[rows])))
        single = torch.utils.data.default_collate([dict(ours[row]) for row in rows])
        for name in obs:
            assert type(batch[name]) is type(single[name]), name
            assert str(batch[name]) == str(single[name])
    # torch refuses what comes first here of single rows.
    missing_first = next(iter(DataLoader(ours, batch_sampler=[[2, 0, 1]])))["text"]
    assert missing_first[1:] == ["b", "a"] and missing_first[0] != missing_first[0]


def test_what_a_collate_function_changes_is_not_lost(paths):
    ours = cf.MappedCollection(paths, obs_keys=["kind"], join="outer")

    def doubled(rows):
        for row in rows:
            row["X"] = row["X"] * 2
            row["kind"] += 10
        return torch.utils.data.default_collate(rows)

    plain = next(iter(DataLoader(ours, 18)))
    changed = next(iter(DataLoader(ours, 18, collate_fn=doubled)))
    torch.testing.assert_close(changed["X"], plain["X"] * 2)
    torch.testing.assert_close(changed["kind"], plain["kind"] + 10)

    def reversed_rows(rows):
        return torch.utils.data.default_collate(rows[::-1])

    back = next(iter(DataLoader(ours, 18, collate_fn=reversed_rows)))
    torch.testing.assert_close(back["X"], plain["X"].flip(0))


def test_text_labels_collate_to_lists(paths):
    ours = cf.MappedCollection(paths, obs_keys=["kind"], encode_labels=False)
    batch = next(iter(DataLoader(ours, 18)))
    labels = ours.get_merged_labels("kind")
    assert pd.Series(batch["kind"], dtype=object).equals(pd.Series(labels))


def test_weighted_sampling_makes_labels_equally_frequent(paths):
    ours = cf.MappedCollection(paths, obs_keys="kind")
    weights = ours.get_label_weights("kind")
    sampler = WeightedRandomSampler(weights, 20_000, generator=torch.Generator().manual_seed(0))
    codes = torch.cat([batch["kind"] for batch in DataLoader(ours, 1000, sampler=sampler)])
    share = torch.bincount(codes + 1) / len(codes)
    n_labels = len(set(map(str, ours.get_merged_labels("kind"))))
    seen = share[share > 0]
    assert len(seen) == n_labels
    # Five standard deviations of a share.
    assert (seen - 1 / n_labels).abs().max() < 5 * (1 / n_labels / 20_000) ** 0.5


def test_shards_and_an_anndata_are_taken(adatas, paths, tmp_path):
    cf.convert_to_shards(cf.open(paths, join="outer"), tmp_path / "shards", shard_size=4)
    shards = cf.MappedCollection(tmp_path / "shards", obs_keys=["kind"])
    direct = cf.MappedCollection(paths, obs_keys=["kind"], join="outer")
    for i in range(18):
        np.testing.assert_array_equal(shards[i]["X"], direct[i]["X"])
        assert shards[i]["kind"] == direct[i]["kind"]
    one = cf.MappedCollection([adatas[0]], layers_keys="twice", obs_keys="kind")
    np.testing.assert_array_equal(one[3]["twice"], adatas[0].layers["twice"][3].toarray()[0])
    several = cf.MappedCollection(adatas, obs_keys=["kind"], join="outer")
    for i in range(18):
        np.testing.assert_array_equal(several[i]["X"], direct[i]["X"])
    with pytest.raises(InvalidTypeError, match="path"):
        cf.MappedCollection([3, adatas[0]])


def test_a_pickled_collection_reads_the_same(paths):
    ours = cf.MappedCollection(paths, obs_keys=["kind"], obs_filter={"kind": "T"})
    copy = pickle.loads(pickle.dumps(ours))
    assert len(copy) == len(ours)
    for i in range(len(ours)):
        np.testing.assert_array_equal(copy[i]["X"], ours[i]["X"])
    row = ours.__getitems__([0])[0]
    assert type(pickle.loads(pickle.dumps(row))) is dict


def test_genes_are_checked(paths):
    ours = cf.MappedCollection(paths)
    assert not ours.check_vars_sorted() and not ours.check_vars_sorted(ascending=False)
    assert ours.check_vars_non_aligned(GENES[1]) == [0, 2]
    assert [list(genes) for genes in ours.var_list] == GENES
    assert ours.n_vars_list == [4, 3, 4]


def test_it_closes(paths):
    with cf.MappedCollection(paths) as ours:
        assert not ours.closed
    assert ours.closed
    with pytest.raises(cf.errors.CellfeedError, match="closed"):
        ours[0]


def test_indices_are_those_of_a_sequence(paths):
    ours = cf.MappedCollection(paths)
    np.testing.assert_array_equal(ours[-1]["X"], ours[17]["X"])
    for wrong in (18, -19):
        with pytest.raises(OutOfRangeError, match="outside"):
            ours[wrong]
    for wrong in ("a", 1.5, None, slice(3)):
        with pytest.raises(InvalidTypeError):
            ours[wrong]
    assert ours.__getitems__([]) == []


WRONG = [
    (dict(join="both"), InvalidArgumentError, "join"),
    (dict(join=["inner"]), InvalidArgumentError, "join"),
    (dict(obs_keys=["kind"], encode_labels=["depth"]), InvalidArgumentError, "encode_labels"),
    (dict(obs_keys=["kind"], unknown_label={"depth": 1}), InvalidArgumentError, "unknown_label"),
    (dict(obs_keys=["knid"]), NoSuchKeyError, "kind"),
    (dict(layers_keys=["twise"]), NoSuchKeyError, "twice"),
    (dict(layers_keys=["X", "X"]), InvalidArgumentError, "twice"),
    (dict(layers_keys=[]), InvalidArgumentError, "layers_keys is empty"),
    (dict(obsm_keys="X_pcb"), NoSuchKeyError, "X_pca"),
    (dict(obsm_keys=["X_pca", "X_pca"]), InvalidArgumentError, "twice"),
    (dict(obsm_keys="wide"), InvalidArgumentError, "1.h5ad.*3 columns, and 4"),
    (dict(obsm_keys="wide", join=None), InvalidArgumentError, "1.h5ad.*3 columns, and 4"),
    (dict(obsm_keys="wide", layers_keys="raw.X"), InvalidArgumentError, "3 columns, and 4"),
    (dict(obs_filter={"kind": "nothing"}), InvalidArgumentError, "nothing"),
    (dict(obs_filter={"knid": "T"}), NoSuchKeyError, "kind"),
    (dict(obs_filter={"depth": "T"}), InvalidTypeError, "depth"),
    (dict(obs_filter={"depth": 100}), InvalidArgumentError, "none of the 18"),
    (dict(obs_filter=("kind", "T")), InvalidTypeError, "dict"),
    (dict(dtype="int32", layers_keys="half"), NoSuchKeyError, "half"),
    (dict(dtype="float16"), InvalidArgumentError, "dtype"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "error", "words"), WRONG)
def test_wrong_arguments_are_refused_before_anything_is_read(paths, options, error, words):
    with pytest.raises(error, match=words):
        cf.MappedCollection(paths, **options)


def test_files_that_share_no_gene_are_refused(tmp_path):
    for i in range(2):
        make_adata(i, [f"{i}a", f"{i}b"]).write_h5ad(tmp_path / f"{i}.h5ad")
    with pytest.raises(InvalidArgumentError, match="outer"):
        cf.MappedCollection(sorted(tmp_path.glob("*.h5ad")))


def test_one_unknown_value_among_several_is_said(paths):
    with pytest.warns(UserWarning, match="nothing"):
        ours = cf.MappedCollection(paths, obs_filter={"kind": ["T", "nothing"]})
    assert len(ours) == len(cf.MappedCollection(paths, obs_filter={"kind": "T"}))


def test_labels_that_join_to_one_name_have_no_names(tmp_path):
    adata = make_adata(0, ["a", "b"])
    adata.obs["one"] = ["x__y", "x", "x", "x", "x"]
    adata.obs["two"] = ["z", "y__z", "z", "z", "z"]
    adata.write_h5ad(tmp_path / "0.h5ad")
    ours = cf.MappedCollection(tmp_path / "0.h5ad")
    with pytest.raises(InvalidArgumentError, match="x__y__z"):
        ours.get_label_weights(["one", "two"], return_categories=True)
    weights = ours.get_label_weights(["one", "two"])
    np.testing.assert_allclose(weights, [1, 1, 1 / 3, 1 / 3, 1 / 3])


@pytest.fixture(scope="module")
def with_nan(tmp_path_factory):
    """Two files in which some labels are the text "nan", and others are missing."""
    folder = tmp_path_factory.mktemp("nan")
    for number, labels in enumerate((["nan", None, "a", "nan"], ["a", None, None, "b"])):
        obs = pd.DataFrame(
            {"kind": pd.Categorical(labels), "side": ["l", "l", "r", "r"]},
            index=[f"{number}-{i}" for i in range(4)],
        )
        anndata.AnnData(np.ones((4, 2), np.float32), obs=obs).write_h5ad(folder / f"{number}.h5ad")
    return sorted(folder.glob("*.h5ad"))


def test_the_label_nan_is_not_a_missing_one(with_nan):
    ours = cf.MappedCollection(with_nan, obs_keys=["kind"])
    labels = ["nan", None, "a", "nan", "a", None, None, "b"]
    assert ours.encoders == {"kind": {"a": 0, "b": 1, "nan": 2}}
    assert [ours[i]["kind"] for i in range(8)] == [2, -1, 0, 2, 0, -1, -1, 1]
    assert [label if label == label else None for label in ours.labels["kind"]] == labels
    for wanted, rows in (({"kind": "nan"}, [0, 3]), ({"kind": np.nan}, [1, 5, 6])):
        some = cf.MappedCollection(with_nan, obs_filter=wanted)
        np.testing.assert_array_equal(some.indices + 4 * some.storage_idx, rows)
    counts = {label: labels.count(label) for label in labels}
    weights = ours.get_label_weights("kind")
    np.testing.assert_allclose(weights, [1 / counts[label] for label in labels])
    np.testing.assert_allclose(
        ours.get_label_weights("kind", 2.0), [2 / (2 + counts[label]) for label in labels]
    )
    sides = ["l", "l", "r", "r"] * 2
    pairs = list(zip(labels, sides, strict=True))
    np.testing.assert_allclose(
        ours.get_label_weights(["kind", "side"]), [1 / pairs.count(pair) for pair in pairs]
    )
    for names in ("kind", ["side", "kind"]):
        with pytest.raises(InvalidArgumentError, match=r"'(l__)?nan'.*beside missing.*without ret"):
            ours.get_label_weights(names, return_categories=True)
    one = cf.MappedCollection(with_nan[1], obs_keys="kind")
    assert one.get_label_weights("kind", return_categories=True) == {"a": 1, "b": 1, "nan": 0.5}


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(), r"no X; name one of its matrices instead: layers/s"),
        (dict(layers_keys="raw.X"), "raw"),
        (dict(layers_keys=["s", "obsm/P"]), r"layers_keys names 'obsm/P': pass obsm_keys=\['P'\]"),
        (dict(layers_keys=["s", "layers/s"]), "layers_keys has 's' twice"),
        (dict(layers_keys="s", obsm_keys=["P", "obsm/P"]), "obsm_keys has 'P' twice"),
        (dict(layers_keys="s", obsm_keys="Q"), "no .*obsm.*Q'"),
        (
            dict(layers_keys="s", dtype="float32"),
            r"pass dtype=\"float64\" or casting=\"same_kind\"",
        ),
        (dict(layers_keys="s", casting="rounded"), "casting must be"),
    ],
    ids=str,
)
def test_messages_name_what_it_takes(tmp_path, in_memory, options, words):
    adata = anndata.AnnData(obs=pd.DataFrame(index=list("abcd")), shape=(4, 3))
    adata.layers["s"] = np.full((4, 3), 2**24 + 1, dtype=np.int64)
    adata.obsm["P"] = np.ones((4, 2))
    data = adata
    if not in_memory:
        data = tmp_path / "a.h5ad"
        adata.write_h5ad(data)
    with pytest.raises(cf.errors.CellfeedError, match=words) as caught:
        cf.MappedCollection(data, **options)
    taken = inspect.signature(cf.MappedCollection).parameters
    for name in re.findall(r"(?<![.\w(])(\w+)=", str(caught.value)):
        # What another function takes is said to be that one's.
        assert name in taken or re.search(rf"cellfeed\.open\([^)]*{name}=", str(caught.value)), name


def test_counts_are_rounded_on_request_as_lamindb_does():
    adata = anndata.AnnData(np.full((4, 3), 2**24 + 1, dtype=np.int64))
    ours = cf.MappedCollection(adata, dtype="float32", casting="same_kind")
    np.testing.assert_array_equal(ours[2]["X"], np.full(3, 2**24, np.float32))
    assert pickle.loads(pickle.dumps(ours))[2]["X"][0] == 2**24


# ---- lamindb itself


@pytest.fixture(scope="module")
def lamin():
    return lamindb_class()


SAME = [
    {},
    dict(join="outer"),
    dict(join=None),
    dict(layers_keys=["X", "twice", "raw.X"], join="outer"),
    dict(obs_keys=["kind", "depth", "score"], encode_labels=False),
    dict(obs_keys=["depth", "score"], encode_labels=["depth"]),
    dict(obsm_keys=["X_pca"], layers_keys="twice", obs_keys="depth", encode_labels=False),
    dict(obsm_keys="X_pca", join=None, layers_keys=["raw.X", "X"], dtype="float64"),
    dict(obs_keys=["depth"], obs_filter={"kind": "T"}, dtype="float64"),
    dict(obs_keys=["depth"], obs_filter={"kind": ("T", "B"), "depth": [0, 1]}),
    dict(obs_keys="kind", unknown_label="?", obs_filter={"kind": ["T", "B", "?"]}),
]  # fmt: skip


@pytest.mark.parametrize("options", SAME)
def test_it_is_as_lamindb_has_it(lamin, paths, options):
    theirs, ours = lamin([str(p) for p in paths], **options), cf.MappedCollection(paths, **options)
    assert len(ours) == len(theirs)
    names = ["shape", "n_obs", "n_vars", "n_obs_list", "layers_keys", "obs_keys", "filtered"]
    for name in [*names, "join_vars", "unknown_label"]:
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.encode_labels == theirs.encode_labels
    assert ours.original_shapes == theirs.original_shapes or theirs.n_vars_list is None
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_array_equal(ours.storage_idx, theirs.storage_idx)
    if theirs.var_joint is not None:
        assert list(ours.var_joint) == list(theirs.var_joint)
        for mine, other in zip(ours.var_indices, theirs.var_indices, strict=True):
            np.testing.assert_array_equal(mine, other)
    if options.get("obs_keys"):
        assert ours.encoders == theirs.encoders
        for key in ours.obs_keys:
            assert ours.get_merged_categories(key) == theirs.get_merged_categories(key)
            assert pd.Series(ours.get_merged_labels(key), dtype=object).equals(
                pd.Series(theirs.get_merged_labels(key), dtype=object)
            )
            np.testing.assert_allclose(
                ours.get_label_weights(key), theirs.get_label_weights(key), rtol=1e-12
            )
            assert ours.get_label_weights(key, 2.0, True) == pytest.approx(
                theirs.get_label_weights(key, 2.0, True)
            )
    for i in range(len(ours)):
        mine, other = ours[i], theirs[i]
        assert list(mine) == list(other)
        for key, value in other.items():
            if key in ("X", "twice", "raw.X"):
                assert mine[key].dtype == value.dtype
            if value is np.nan:  # lamindb gives NaN for a missing label also where it encodes
                assert mine[key] == -1 if key in ours.encoders else mine[key] != mine[key]
            else:
                np.testing.assert_array_equal(mine[key], value)
    assert ours.check_vars_sorted() == theirs.check_vars_sorted()
    assert ours.check_vars_non_aligned(GENES[0]) == theirs.check_vars_non_aligned(GENES[0])
    theirs.close()


@pytest.mark.parametrize("is_encoded", [True, False])
def test_numbers_of_all_64_bits_are_not_rounded(is_encoded):
    numbers = np.array([2**63 + 1, 2**63 + 2, 5, 2**64 - 1, 2**63 + 1], np.uint64)
    adata = anndata.AnnData(
        np.ones((5, 2), "float32"), obs=pd.DataFrame({"n": numbers}, list("abcde"))
    )
    adata.obs["labels"] = pd.Categorical(numbers)
    ours = cf.MappedCollection(adata, obs_keys=["n", "labels"], encode_labels=is_encoded)
    expected = [1, 2, 0, 3, 1] if is_encoded else numbers.tolist()
    assert [row["n"] for row in map(ours.__getitem__, range(5))] == expected
    assert ours.get_merged_labels("n").tolist() == numbers.tolist()
    for options in (dict(batch_size=5), dict(batch_sampler=[[0, 1], [2, 3, 4]])):
        batches = list(DataLoader(ours, **options))
        found = np.concatenate([batch["n"].numpy() for batch in batches])
        assert found.tolist() == expected
    if is_encoded:
        assert [row["labels"] for row in map(ours.__getitem__, range(5))] == expected


def test_files_with_the_same_genes_are_not_joined(lamin, paths):
    for join in ("inner", "outer", None):
        theirs, ours = lamin([str(paths[0])], join=join), cf.MappedCollection(paths[0], join=join)
        assert ours.join_vars is theirs.join_vars is None and ours.var_indices is None
        assert (ours.n_vars, ours.shape) == (theirs.n_vars, theirs.shape)
        theirs.close()


@pytest.mark.parametrize(
    ("options", "twice"),
    [
        (dict(layers_keys=["X", "s"], obs_keys=["s"]), "'s'"),
        (dict(obs_keys=["X"]), "'X'"),
        (dict(obs_keys=["_store_idx"]), "'_store_idx'"),
        (dict(obsm_keys=["P"], obs_keys=["obsm_P"]), "'obsm_P'"),
        (dict(layers_keys=["X", "obsm_P"], obsm_keys=["P"]), "'obsm_P'"),
    ],
)
def test_what_would_stand_in_a_row_twice_is_refused(options, twice):
    adata = anndata.AnnData(np.ones((2, 3), "float32"))
    adata.obs = pd.DataFrame(
        {name: [1, 2] for name in ("s", "X", "_store_idx", "obsm_P")}, index=["a", "b"]
    )
    adata.layers["s"] = adata.layers["obsm_P"] = adata.X * 2
    adata.obsm["P"] = np.ones((2, 4))
    with pytest.raises(InvalidArgumentError, match=f"{twice} twice"):
        cf.MappedCollection(adata, **options)


def test_numbers_of_samplers_are_taken_and_unordered_files_are_not(paths):
    ours = cf.MappedCollection(paths, obs_keys=["depth"])
    for number in (torch.tensor(3), np.array(3), np.int32(3)):
        np.testing.assert_array_equal(ours[number]["X"], ours[3]["X"])
    order = torch.tensor([4, 0])
    found = list(DataLoader(ours, batch_size=None, sampler=order))
    np.testing.assert_array_equal(found[0]["X"], ours[4]["X"])
    for wrong in (torch.tensor(1.0), torch.tensor(True), np.array([1])):
        with pytest.raises(InvalidTypeError, match="idx must be an integer"):
            ours[wrong]
    for opened in (cf.MappedCollection, cf.open):
        with pytest.raises(InvalidTypeError, match="in which order the files"):
            opened(set(paths))
    with pytest.raises(InvalidTypeError, match="unknown_label must be a label"):
        cf.MappedCollection(paths, obs_keys=["kind"], unknown_label=["?"])
