"""Label maps: fixed by the caller, saved with a model, the same for other data."""

import json
import pickle
import resource

import numpy as np
import pandas as pd
import pytest
from obs_rule import labels_of, write_file

import cellfeed as cf
from cellfeed.errors import CorruptDataError, InvalidArgumentError, InvalidTypeError

TYPES = ["T", "B", "unknown", "B", None, "NK"]


def make(folder, name="a", **columns):
    obs = pd.DataFrame(
        {key: pd.Categorical(values) for key, values in columns.items()},
        index=[f"{name}{i}" for i in range(len(next(iter(columns.values()))))],
    )
    return write_file(folder / f"{name}.h5ad", obs)


@pytest.fixture
def path(tmp_path):
    return make(tmp_path, kind=TYPES, plate=[3, 1, 2, 3, 1, 2], sick=[True, False] * 3)


def both(path, folder):
    yield path
    yield cf.convert_to_shards(path, folder / "shards", shard_size=2)


def test_categories_fix_the_codes(path, tmp_path):
    for source in both(path, tmp_path):
        names = ["NK", "unknown", "B", "T", "not there"]
        cells = cf.open(source, categories={"kind": names, "plate": [2, 3, 1]})
        assert cells.categories("kind") == names and cells.categories("plate") == [2, 3, 1]
        assert cells.obs_values("kind").tolist() == [3, 2, 1, 2, -1, 0]
        assert labels_of(cells, "kind") == TYPES
        assert cells.obs_values("plate").tolist() == [1, 2, 0, 1, 2, 0]
        assert cells.categories("sick") == [False, True]
        batch = cells.read([5, 0], obs=["kind"])
        assert batch.obs["kind"].tolist() == [0, 3]


def test_a_label_that_the_list_lacks_is_refused_or_unknown(path, tmp_path):
    for source in both(path, tmp_path):
        with pytest.raises(InvalidArgumentError, match=r"2 labels.*'NK', 'unknown'"):
            cf.open(source, obs="kind", categories={"kind": ["T", "B"]})
        cells = cf.open(source, categories={"kind": ["T", "B"]}, unknown_label="unknown")
        assert cells.obs_values("kind").tolist() == [0, 1, -1, 1, -1, -1]


def test_the_unknown_label_is_no_category(path, tmp_path):
    for source in both(path, tmp_path):
        for unknown in ("unknown", {"kind": "unknown"}):
            cells = cf.open(source, unknown_label=unknown)
            assert cells.categories("kind") == ["B", "NK", "T"]
            assert cells.obs_values("kind").tolist() == [2, 0, -1, 0, -1, 1]
            assert cells.categories("plate") == [1, 2, 3]
        cells = cf.open(source, unknown_label={"plate": 2})
        assert cells.obs_values("plate").tolist() == [1, 0, -1, 1, 0, -1]


def test_codes_of_other_data_are_those_of_training(path, tmp_path):
    train = cf.open(path, obs=["kind", "plate", "sick"], unknown_label={"kind": "unknown"})
    encoders = train.encoders
    assert dict(encoders) == {
        "kind": {"B": 0, "NK": 1, "T": 2}, "plate": {1: 0, 2: 1, 3: 2}, "sick": {False: 0, True: 1}
    }  # fmt: skip
    encoders.save(tmp_path / "deep" / "labels.json")
    loaded = cf.Encoders.load(tmp_path / "deep" / "labels.json")
    assert loaded == encoders and [type(k) for k in loaded["sick"]] == [bool, bool]
    assert pickle.loads(pickle.dumps(loaded)) == encoders
    other = make(tmp_path, "b", kind=["T", "NK", "unknown", "new"], plate=[3, 3, 3, 3])
    cells = cf.open(other, obs="kind", categories=loaded)
    assert cells.obs_values("kind").tolist() == [2, 1, -1, -1]
    assert cells.obs_values("plate").tolist() == [2, 2, 2, 2]
    assert cells.encoders == cf.Encoders(
        {"kind": ["B", "NK", "T"], "plate": [1, 2, 3]}, {"kind": "unknown"}
    )
    assert (
        cf.open(other, categories={"kind": dict(loaded)["kind"]}, unknown_label="unknown")[:1]
        is not None
    )
    copy = pickle.loads(pickle.dumps(cells))
    assert copy.obs_values("kind").tolist() == [2, 1, -1, -1]
    assert copy.fingerprint == cells.fingerprint != cf.open(other).fingerprint


def test_encoders_are_of_all_label_columns_where_none_was_named(path):
    assert list(cf.open(path).encoders) == ["kind", "plate", "sick"]
    assert list(cf.open(path, obs="plate").encoders) == ["plate"]


def test_numbers_that_do_not_load_are_no_matter_to_the_encoders_of_labels(tmp_path):
    obs = pd.DataFrame({"kind": list("aab"), "big": pd.array([2**60 + 1, None, 1], dtype="Int64")})
    assert list(cf.open(write_file(tmp_path / "a.h5ad", obs)).encoders) == ["kind"]


def test_an_order_that_the_list_keeps_stays_ordered(tmp_path):
    obs = pd.DataFrame({"dose": pd.Categorical(["lo", "hi"], ["lo", "hi"], ordered=True)})
    path = write_file(tmp_path / "a.h5ad", obs)
    for names, ordered in ([["lo", "mid", "hi"], True], [["hi", "lo"], False]):
        cells = cf.open(path, categories={"dose": names})
        assert cells.obs_column("dose").ordered == ordered


def test_strategies_use_the_fixed_codes(path):
    names = ["T", "NK", "B", "unknown"]
    cells = cf.open(path, obs="kind", categories={"kind": names})
    loader = cf.Loader(cells, cf.GroupSampling("kind"), 2, rank=0, world_size=1)
    for batch in loader:
        assert len(set(batch.obs.labels("kind"))) == 1
        assert [names[c] for c in batch.obs["kind"]] == [TYPES[i] for i in batch.index]


@pytest.mark.parametrize(
    ("categories", "unknown", "error", "said"),
    [
        ({"kind": {"T", "B"}}, None, InvalidTypeError, "list"),
        ({"kind": "T"}, None, InvalidTypeError, "list"),
        ({"kind": ["T", "T"]}, None, InvalidArgumentError, "twice"),
        ({"kind": ["T", 1]}, None, InvalidTypeError, "one type"),
        ({"kind": [None]}, None, InvalidTypeError, "None"),
        ({"kind": [float("nan")]}, None, InvalidTypeError, "nan"),
        ({"kind": [2**70]}, None, InvalidArgumentError, "64 bits"),
        ({"kind": [1, 2]}, None, InvalidArgumentError, "numbers"),
        ({"plate": ["1", "2", "3"]}, None, InvalidArgumentError, "text"),
        ({"kimd": ["T"]}, None, KeyError, "kind"),
        ({"kind": {"T": 0, "B": 2}}, None, InvalidArgumentError, "codes"),
        ({"kind": ["T", "unknown"]}, "unknown", InvalidArgumentError, "stands for -1"),
        (["kind"], None, InvalidTypeError, "dict"),
        (None, {"kimd": "x"}, KeyError, "kind"),
        (None, ["unknown"], InvalidTypeError, "label"),
    ],
)
def test_maps_that_cannot_work(path, categories, unknown, error, said):
    with pytest.raises(error, match=said):
        cf.open(path, categories=categories, unknown_label=unknown).obs_values("kind")
        cf.open(path, categories=categories, unknown_label=unknown).obs_values("plate")


def test_numbers_have_no_categories_to_fix(tmp_path):
    path = write_file(tmp_path / "a.h5ad", pd.DataFrame({"depth": [1.5, 2.5]}))
    with pytest.raises(InvalidArgumentError, match="'depth' holds float64"):
        cf.open(path, obs="depth", categories={"depth": [1.5]})


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", "nonsense", '{"cellfeed_encoders": 2, "columns": {}}',
        '{"cellfeed_encoders": 1}', '{"cellfeed_encoders": 1, "columns": []}',
        '{"cellfeed_encoders": 1, "columns": {"a": []}}',
        '{"cellfeed_encoders": 1, "columns": {"a": {"kind": "text", "labels": [1]}}}',
        '{"cellfeed_encoders": 1, "columns": {"a": {"kind": "text", "labels": ["x", "x"]}}}',
        '{"cellfeed_encoders": 1, "columns": {"a": {"kind": "number", "labels": [NaN]}}}',
        '{"cellfeed_encoders": 1, "columns": {"a": {"kind": "number", "labels": [1e999]}}}',
        '{"cellfeed_encoders": 1, "columns": {"a": {"kind": "integer", "labels": [true]}}}',
        '{"cellfeed_encoders": 1, "columns": {"a": {"kind": ["text"], "labels": []}}}',
        '{"cellfeed_encoders": 1, "columns": '
        '{"a": {"kind": "text", "labels": ["x"], "unknown_label": {}}}}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_a_file_that_holds_no_label_maps_is_refused(tmp_path, content):
    (tmp_path / "labels.json").write_text(content)
    with pytest.raises(CorruptDataError, match=r"labels\.json"):
        cf.Encoders.load(tmp_path / "labels.json")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        cf.Encoders.load(tmp_path / "none.json")


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "labels.json"
    cf.Encoders({"a": ["x"]}).save(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (10, limits[1])
    )  # writing beyond fails, as on a full disk
    try:
        with pytest.raises(OSError, match=r"labels\.json"):
            cf.Encoders({"a": ["y"]}).save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert json.loads(path.read_text())["columns"]["a"]["labels"] == ["x"]
    assert [p.name for p in tmp_path.iterdir()] == ["labels.json"]


def test_labels_of_every_type_survive(tmp_path):
    encoders = cf.Encoders(
        {
            "text": ["ä", "", "1"], "whole": [3, -(2**63), 2**64 - 1], "flag": [True, False],
            "real": np.array([0.1, 1.0, 1e300]), "index": pd.Index(["b", "a"]), "none": [],
        }
    )  # fmt: skip
    encoders.save(tmp_path / "labels.json")
    loaded = cf.Encoders.load(tmp_path / "labels.json")
    assert loaded == encoders
    for name in encoders:
        assert [type(x) for x in loaded.labels(name)] == [type(x) for x in encoders.labels(name)]
