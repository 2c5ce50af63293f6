"""`cells.filter` where values are missing: booleans as pandas' nullable ones, and large numbers."""

import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, InvalidTypeError, PrecisionError

LARGE = 2**53 + 1


def make_obs(number: int) -> pd.DataFrame:
    random = np.random.default_rng(number)
    n = 30
    obs = pd.DataFrame(
        {
            "n": random.integers(0, 10, n),
            "is_doublet": random.random(n) < 0.4,
            "good": pd.array(random.choice([True, False, None], n), dtype="boolean"),
            "whole": pd.array(random.choice([LARGE, 7, None], n), dtype="Int64"),
            "barcode": np.arange(n) + LARGE,
            "cluster": pd.Categorical(random.integers(0, 4, n), categories=[0, 1, 2, 3]),
            "batch": pd.Categorical(random.choice(["1", "2", "lung"], n)),
            "seen": pd.Categorical(random.choice([True, False], n), categories=[False, True]),
        },
        index=[f"{number}-{i}" for i in range(n)],
    )
    return obs.drop(columns=["is_doublet", "barcode"]) if number else obs


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    whole = pd.concat([make_obs(number) for number in range(2)])
    return whole.astype({"is_doublet": "boolean", "barcode": "Int64"})


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("missing")
    for number in range(2):
        obs = make_obs(number)
        x = np.ones((len(obs), 3), dtype=np.float32)
        anndata.AnnData(x, obs=obs).write_h5ad(folder / f"{number}.h5ad")
    return sorted(folder.glob("*.h5ad"))


@pytest.fixture(scope="module", params=["files", "in memory"])
def cells(request, paths):
    if request.param == "files":
        return cf.open(paths)
    return cf.open([anndata.read_h5ad(path) for path in paths])


EXPRESSIONS = [
    "is_doublet",
    "not is_doublet",
    "~is_doublet",
    "is_doublet and n > 5",
    "is_doublet or n > 5",
    "n > 5 and not is_doublet",
    "not (is_doublet and n > 5)",
    "not (is_doublet or n > 5)",
    "good and not is_doublet",
    "good or is_doublet",
    "not (good or not is_doublet)",
]


def expected_of(frame, text):
    found = list(frame.query(text, engine="python").index)
    assert 0 < len(found) < len(frame)
    return found


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_booleans_with_missing_ones_are_pandas_nullable_ones(cells, frame, text):
    assert list(cells.filter(text).obs_names) == expected_of(frame, text)


expressions = st.recursive(
    st.sampled_from(["is_doublet", "good", "n > 5", "n != 3"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join).map("({})".format),
        inner.map("not ({})".format),
    ),
    max_leaves=8,
)


@settings(max_examples=60)
@given(text=expressions)
def test_random_ones_are_too(cells, frame, text):
    expected = list(frame.query(text, engine="python").index)
    if expected:
        assert list(cells.filter(text).obs_names) == expected
    else:
        with pytest.raises(InvalidArgumentError, match="none of the 60"):
            cells.filter(text)


def test_every_cell_is_true_false_or_missing(cells, frame):
    for name in ("is_doublet", "good"):
        parts = [cells.filter(t) for t in (name, f"not {name}", f"{name} is missing")]
        names = [list(part.obs_names) for part in parts]
        assert sorted(name for part in names for name in part) == sorted(frame.index)
        assert names[2] == list(frame.index[frame[name].isna()])
        assert names[0] == list(cells.filter(f"{name} == True").obs_names)


@pytest.mark.parametrize("name", ["whole", "barcode"])
def test_large_numbers_may_be_asked_whether_they_are_missing(cells, frame, name):
    missing = frame[name].isna()
    for where, expected in (
        (f"{name} is missing", missing),
        (f"not {name} is not missing", missing),
        (f"{name} is not missing and n > 5", ~missing & (frame["n"] > 5)),
        (f"{name} in [None]", missing),
        ({name: None}, missing),
    ):
        assert list(cells.filter(where).obs_names) == list(frame.index[expected])
    for where in (f"{name} > 3", {name: [7, None]}, f"{name} is missing or {name} == {LARGE}"):
        with pytest.raises(PrecisionError, match=f"{name}.*cannot hold exactly"):
            cells.filter(where)
    with pytest.raises(PrecisionError):
        cells.obs_values(name)


OTHER_KINDS = [
    ("cluster == '1'", r"labels are numbers, and '1' is a text; write 1; there are: 0, 1, 2, 3"),
    ("cluster in ['1', '2']", r"labels are numbers, and '1' is a text; write 1"),
    ("cluster == True", "labels are numbers, and True is a boolean"),
    ("batch == 1", r"labels are texts, and 1 is a number; write '1'; there are: '1', '2', 'lung'"),
    ("batch != 7", "labels are texts, and 7 is a number; there are:"),
    ("seen == 'True'", "labels are booleans, and 'True' is a text; write True"),
    ({"batch": [1, 2]}, "labels are texts, and 1 is a number; write '1'"),
    ("is_doublet == 'yes'", "'is_doublet' holds bool, which is not compared with 'yes'"),
]


@pytest.mark.parametrize(("where", "words"), OTHER_KINDS, ids=str)
def test_labels_are_compared_with_their_own_kind(cells, where, words):
    with pytest.raises(InvalidTypeError, match=words):
        cells.filter(where)


def test_a_label_of_another_kind_among_others_is_said(cells, frame):
    with pytest.warns(UserWarning, match="labels are texts, and 1 is a number; write '1'"):
        some = cells.filter("batch in ['lung', 1]")
    assert list(some.obs_names) == list(frame.index[frame["batch"] == "lung"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(cells.filter("cluster == 1.0")) == (frame["cluster"] == 1).sum()
