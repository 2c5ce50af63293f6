"""`cells.filter`, `split` and `folds`: against pandas, and that a selection is a collection."""

import pickle

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, InvalidTypeError, NoSuchKeyError, OutOfRangeError

N = [300, 0, 500]


def make_obs(n: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    obs = pd.DataFrame(
        {
            "tissue": pd.Categorical(random.choice(["lung", "liver", "lymph node"], n)),
            "stage": pd.Categorical(
                random.choice(["early", "mid", "late"], n), ["early", "mid", "late"], ordered=True
            ),
            "donor": pd.Categorical(random.choice([f"d{i}" for i in range(12)], n)),
            "cluster": pd.Categorical(random.integers(0, 4, n), categories=[0, 1, 2, 3]),
            "n_counts": random.integers(0, 1000, n),
            "score": np.where(random.random(n) < 0.2, np.nan, random.normal(size=n).round(1)),
            "is doublet": random.random(n) < 0.3,
            "good": random.random(n) < 0.5,
        },
        index=[f"{seed}-{i}" for i in range(n)],
    )
    obs.loc[obs.index[random.random(n) < 0.1], "tissue"] = np.nan
    return obs


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    frames = [make_obs(n, i) for i, n in enumerate(N) if n]
    whole = pd.concat(frames)
    for name in ("tissue", "donor"):
        whole[name] = whole[name].astype("category")
    return whole


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    genes = pd.DataFrame(index=[f"g{i}" for i in range(20)])
    for i, n in enumerate(N):
        x = scipy.sparse.random(n, 20, 0.3, "csr", np.float32, random_state=i)
        obs = make_obs(n, i) if n else make_obs(5, i)[:0]
        anndata.AnnData(x, obs=obs, var=genes).write_h5ad(folder / f"{i}.h5ad")
    return sorted(folder.glob("*.h5ad"))


@pytest.fixture(scope="module")
def cells(paths):
    return cf.open(paths)


EXPRESSIONS = [
    "tissue == 'lung'",
    'tissue != "lung"',
    "n_counts > 500",
    "500 < n_counts",
    "100 <= n_counts <= 700",
    "tissue == 'lung' and n_counts > 500",
    "tissue == 'lung' or not (n_counts > 500 and score < 0)",
    "(tissue == 'lung') & (n_counts > 500) | (cluster == 2)",
    "~(tissue == 'lung')",
    "tissue in ['lung', 'lymph node']",
    "tissue not in ('lung', 'liver')",
    "score > -0.5",
    "not score > -0.5",
    "score != 0.1",
    "stage >= 'mid'",
    "'mid' > stage",
    "cluster in [1, 3]",
    "good",
    "not good and `is doublet`",
    "`is doublet` == False",
    "good == True",
    "n_counts in [1, 2, 3, 500]",
    "n_counts <= 1e2 or\n n_counts == 200",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_mean_what_pandas_makes_of_them(cells, frame, text):
    some = cells.filter(text)
    expected = frame.query(text.replace("\n", ""))
    assert list(some.obs_names) == list(expected.index)
    assert 0 < len(some) < len(cells)


def test_missing_values_are_named(cells, frame):
    assert len(cells.filter("tissue is missing")) == frame["tissue"].isna().sum()
    assert len(cells.filter("tissue is not missing")) == frame["tissue"].notna().sum()
    assert len(cells.filter("score is missing")) == frame["score"].isna().sum()
    some = cells.filter("tissue in ['lung', None]")
    assert len(some) == (frame["tissue"].isna() | (frame["tissue"] == "lung")).sum()
    assert len(cells.filter('attr("is doublet") == True')) == frame["is doublet"].sum()


conditions = st.sampled_from(
    [
        "tissue == 'lung'", "tissue != 'liver'", "n_counts >= 300", "score < 0.5", "good",
        "cluster != 1", "stage < 'late'", "donor in ['d1', 'd2', 'd3']", "score != 0.5",
    ]
)  # fmt: skip
expressions = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join).map("({})".format),
        inner.map("not ({})".format),
    ),
    max_leaves=8,
)


LARGE_NUMBERS = {
    "unsigned": np.array([2**63 + 1, 2**63 + 2, 2**63, 5, 2**64 - 1], np.uint64),
    "signed": np.array([2**53 + 1, 2**53, 2**53 + 2, -(2**63), 2**63 - 1], np.int64),
}


@pytest.fixture(scope="module")
def large_numbers(tmp_path_factory):
    obs = pd.DataFrame(LARGE_NUMBERS, index=list("abcde"))
    for name in LARGE_NUMBERS:
        obs[f"{name}_labels"] = pd.Categorical(obs[name])
    path = tmp_path_factory.mktemp("large") / "large.h5ad"
    anndata.AnnData(np.ones((5, 1), np.float32), obs=obs).write_h5ad(path)
    return cf.open(path)


@pytest.mark.parametrize("name", LARGE_NUMBERS)
def test_large_whole_numbers_are_not_rounded(large_numbers, name):
    values = LARGE_NUMBERS[name].tolist()
    for place, value in enumerate(values):
        wheres = [f"{name} == {value}", {name: value}, {name: [value]}, f"{name} in [{value}]"]
        wheres += [f"{name}_labels == {value}", {f"{name}_labels": np.array([value])}]
        for where in wheres:
            assert large_numbers.filter(where).locate()[1].tolist() == [place], where
        for sign, holds in (
            ("!=", [v != value for v in values]), ("<=", [v <= value for v in values]),
            (">=", [v >= value for v in values]),
        ):  # fmt: skip
            found = large_numbers.filter(f"{name} {sign} {value}").locate()[1]
            assert found.tolist() == np.flatnonzero(holds).tolist(), (sign, value)


@pytest.mark.parametrize("value", [2**64, 10**400, -(2**63) - 1, -(10**400), 2.0**53 + 4])
@pytest.mark.parametrize("name", LARGE_NUMBERS)
def test_numbers_that_no_cell_has_are_of_none(large_numbers, name, value):
    with pytest.raises(InvalidArgumentError, match="leaves none"):
        large_numbers.filter({name: value})


@pytest.mark.parametrize("text", ["18446744073709551616", "-9223372036854775809", "1e30", "-1e30"])
@pytest.mark.parametrize("name", LARGE_NUMBERS)
def test_numbers_beyond_all_are_compared(large_numbers, name, text):
    is_below = text.startswith("-")
    assert len(large_numbers.filter(f"{name} {'>' if is_below else '<'} {text}")) == 5
    assert len(large_numbers.filter(f"{name} != {text}")) == 5


def test_a_float_is_no_label_beside_it(large_numbers):
    some = large_numbers.filter("signed == 9007199254740993")
    with pytest.raises(InvalidArgumentError, match="no label"):
        cf.open(some[:].to_anndata()).filter({"signed_labels": 2.0**53 + 4})
    assert large_numbers.filter({"signed_labels": 2.0**53}).locate()[1].tolist() == [1]


def test_signs_of_the_least_number(large_numbers):
    for text in ("-9223372036854775808", "- - -9223372036854775808"):
        assert large_numbers.filter(f"signed == {text}").locate()[1].tolist() == [3]
    assert large_numbers.filter("unsigned == --9223372036854775808").locate()[1].tolist() == [2]


@settings(max_examples=60)
@given(text=expressions)
def test_random_expressions_are_those_of_pandas(cells, frame, text):
    expected = list(frame.query(text).index)
    if expected:
        assert list(cells.filter(text).obs_names) == expected
    else:
        with pytest.raises(InvalidArgumentError, match="none of the 800"):
            cells.filter(text)


WRONG = [
    ("", InvalidArgumentError, "empty"),
    ("   ", InvalidArgumentError, "empty"),
    ("tissue = 'lung'", InvalidArgumentError, "character"),
    ("tissue == 'lung' and", InvalidArgumentError, "character"),
    ("(n_counts > 500", InvalidArgumentError, r"'\)' is missing \(at character 16"),
    ("tissue in ('lung', 'liver'", InvalidArgumentError, r"'\)' is missing"),
    ("tisue == 'lung'", NoSuchKeyError, "tissue"),
    ("tissue == 'lnug'", InvalidArgumentError, "did you mean 'lung'"),
    ("tissue == lung", InvalidArgumentError, "quotes"),
    ("tissue == 3", InvalidTypeError, "no label 3"),
    ("cluster == '1'", InvalidTypeError, "no label '1'"),
    ("cluster == 4", InvalidArgumentError, "no label 4"),
    ("cluster == True", InvalidTypeError, "no label True"),
    ("n_counts == 'many'", InvalidTypeError, "n_counts"),
    ("tissue < 'lung'", InvalidTypeError, "no order"),
    ("n_counts", InvalidArgumentError, "no condition"),
    ("n_counts + 1 > 3", InvalidArgumentError, "character 1 "),
    ("good and n_counts == 3 & score > 1", InvalidArgumentError, "and, or"),
    ("tissue in 'lung'", InvalidArgumentError, "list"),
    ("tissue is None", InvalidArgumentError, "missing"),
    ("tissue == None", InvalidArgumentError, "is missing"),
    ("tissue == float('nan')", InvalidArgumentError, "no value"),
    ("len(tissue) == 3", InvalidArgumentError, "no functions"),
    ("__import__('os').system('false')", InvalidArgumentError, "no condition"),
    ("n_counts > 2 if good else n_counts", InvalidArgumentError, "no condition"),
    ("(" * 500 + "good" + ")" * 500, InvalidArgumentError, "."),
    ("not " * 5000 + "good", InvalidArgumentError, "."),
    ("good\0", InvalidArgumentError, "."),
    ("n_counts > 10000", InvalidArgumentError, "none of the 800"),
    (f"n_counts == {2**70}", InvalidArgumentError, "none of the 800"),
    ({"tissue": "lnug"}, InvalidArgumentError, "lung"),
    ({"nothing": 1}, NoSuchKeyError, "nothing"),
    ({}, InvalidArgumentError, "names no obs column"),
    ([], InvalidArgumentError, "none of the 800"),
    ([800], OutOfRangeError, "800"),
    (np.ones(3, bool), OutOfRangeError, "mask"),
    (1.5, InvalidTypeError, "rows"),
    (None, InvalidTypeError, "rows"),
]


@pytest.mark.parametrize(("where", "error", "words"), WRONG)
def test_what_is_no_filter_is_refused(cells, where, error, words):
    with pytest.raises(error, match=words) as caught:
        cells.filter(where)
    assert len(str(caught.value)) < 6000


def test_an_error_names_the_place_in_the_text(cells):
    text = "`is doublet` == True and `is doublet` == True and tisue == 'lung'"
    with pytest.raises(NoSuchKeyError, match=f"at character {text.index('tisue') + 1} "):
        cells.filter(text)
    with pytest.raises(InvalidArgumentError, match="at character 24 "):
        cells.filter("good and\n n_counts == (1 + 2)")


@pytest.mark.parametrize("where", ["n_counts > 5", {"n_counts": 5}, [1, 2]])
def test_closed_cells_say_so(paths, where):
    cells = cf.open(paths)
    cells.close()
    with pytest.raises(InvalidArgumentError, match="is closed"):
        cells.filter(where)


def test_an_open_collection_is_not_opened_again(cells):
    for take in (cf.open, cf.MappedCollection):
        with pytest.raises(InvalidTypeError, match="open"):
            take(cells.filter("good"))


def test_a_strategy_that_served_all_cells_serves_some(cells):
    strategy = cf.ClassBalancedSampling("tissue")
    cf.Loader(cells, strategy, 16)
    some = cells.filter("tissue == 'lung'")
    drawn = np.concatenate([batch.index for batch in cf.Loader(some, strategy, 16)])
    assert drawn.max() < len(some)


def test_one_unknown_label_of_several_is_said(cells, frame):
    with pytest.warns(UserWarning, match="lnug"):
        some = cells.filter("tissue in ['lung', 'lnug']")
    assert len(some) == (frame["tissue"] == "lung").sum()


def rows_of(batch):
    return batch.x.toarray()


@pytest.mark.parametrize(
    "where",
    [
        "tissue == 'lung'", {"tissue": ["lung", np.nan], "good": True}, slice(290, 320),
        [799, 0, 299, 300, 300], np.arange(800)[::-3],
    ],
)  # fmt: skip
def test_a_selection_is_a_collection_of_its_own(cells, frame, where):
    some = cells.filter(where)
    chosen = pd.Series(range(800), index=cells.obs_names)[list(some.obs_names)].to_numpy()
    whole, own = (
        cells.read(chosen, obs=["tissue", "n_counts"]),
        some.read(slice(None), obs=["tissue", "n_counts"]),
    )
    np.testing.assert_array_equal(rows_of(own), rows_of(whole))
    assert own.obs.to_pandas().equals(whole.obs.to_pandas())
    np.testing.assert_array_equal(some.obs_values("donor"), cells.obs_values("donor", chosen))
    assert some.categories("tissue") == cells.categories("tissue")
    assert some.shape == (len(chosen), 20) and some.encoders == cells.encoders
    loader = cf.Loader(some, cf.BlockShuffling(8), batch_size=32, obs=["tissue"], seed=1)
    seen = np.concatenate([batch.index for batch in loader])
    assert sorted(seen) == list(range(len(some)))
    for batch in loader:
        np.testing.assert_array_equal(rows_of(batch), rows_of(cells.read(chosen[batch.index])))
        np.testing.assert_array_equal(
            batch.obs["tissue"], cells.obs_values("tissue", chosen[batch.index])
        )
    again = pickle.loads(pickle.dumps(some))
    assert list(again.obs_names) == list(some.obs_names)
    assert again.fingerprint == some.fingerprint != cells.fingerprint
    fewer = some.filter([len(some) - 1, 0])
    assert list(fewer.obs_names) == [some.obs_names[-1], some.obs_names[0]]
    assert list(pickle.loads(pickle.dumps(fewer)).obs_names) == list(fewer.obs_names)


def test_cells_are_found_in_their_files(cells, paths):
    some = cells.filter("n_counts > 200").filter("good")
    batch = next(iter(cf.Loader(some, cf.BlockShuffling(4), 50, seed=1)))
    files, rows = some.locate(batch.index)
    names = [anndata.read_h5ad(path).obs_names for path in paths]
    assert [names[f][r] for f, r in zip(files, rows, strict=True)] == list(batch.obs_names)
    assert [len(part) for part in cells.locate()] == [800, 800]
    with pytest.raises(OutOfRangeError):
        some.locate([len(some)])


def test_a_state_of_other_cells_is_refused(cells):
    def loader(where):
        return cf.Loader(cells.filter(where), cf.BlockShuffling(4), batch_size=8, seed=0)

    first = loader("tissue == 'lung'")
    next(iter(first))
    state = first.state_dict()
    loader("tissue == 'lung'").load_state_dict(state)
    with pytest.raises(cf.errors.CellfeedError):
        loader("tissue == 'liver'").load_state_dict(state)


def test_label_strategies_and_workers_take_a_selection(cells):
    from torch.utils.data import DataLoader

    some = cells.filter("tissue in ['lung', 'liver']")
    loader = cf.Loader(some, cf.ClassBalancedSampling("tissue"), batch_size=64, obs=["tissue"])
    codes = np.concatenate(
        [batch.obs["tissue"] for batch in DataLoader(loader, batch_size=None, num_workers=2)]
    )
    labels = {some.categories("tissue")[code] for code in np.unique(codes)}
    assert labels == {"lung", "liver"}


def test_normalising_by_kept_totals_knows_the_cell(paths, tmp_path):
    cf.convert_to_shards(cf.open(paths, genes=["g3", "g7"]), tmp_path / "few", shard_size=100)
    shards = cf.open(tmp_path / "few")
    transforms = [cf.NormalizeTotal(100.0, force=True)]
    rows = [750, 3, 420, 299, 300]
    expected = shards.read(rows, transforms=transforms).x.toarray()
    got = shards.filter(rows).read(slice(None), transforms=transforms).x.toarray()
    np.testing.assert_array_equal(got, expected)
    assert got.any()


# ---- split


def test_a_split_has_every_cell_once_and_its_shares(cells):
    shares = {"train": 0.8, "val": 0.1, "test": 0.1}
    parts = cells.split(shares, seed=3)
    assert list(parts) == list(shares)
    names = [name for part in parts.values() for name in part.obs_names]
    assert sorted(names) == sorted(cells.obs_names)
    assert [len(part) for part in parts.values()] == [640, 80, 80]
    again = cells.split(shares, seed=3)
    other = cells.split(shares, seed=4)
    for name in shares:
        assert list(again[name].obs_names) == list(parts[name].obs_names)
        assert list(other[name].obs_names) != list(parts[name].obs_names)


def test_a_stratified_split_is_right_to_one_cell_of_each_label(cells):
    shares = {"a": 0.6, "b": 0.3, "c": 0.1}
    parts = cells.split(shares, stratify="tissue")
    codes = cells.obs_values("tissue")
    for name, share in shares.items():
        own = parts[name].obs_values("tissue")
        for code in np.unique(codes):
            assert abs((own == code).sum() - share * (codes == code).sum()) <= 1
        assert abs(len(own) - share * 800) <= 1


def test_no_group_is_on_two_sides(cells):
    for stratify in (None, "tissue"):
        parts = cells.split({"train": 0.7, "test": 0.3}, by="donor", stratify=stratify, seed=1)
        train, test = (set(parts[name].obs_values("donor")) for name in ("train", "test"))
        assert not train & test and len(train | test) == 12
        assert abs(len(parts["test"]) / 800 - 0.3) < 0.08
    shares = [np.mean(parts[name].obs_values("tissue") == 1) for name in ("train", "test")]
    assert abs(shares[0] - shares[1]) < 0.1


def test_folds_are_each_others_complement(cells):
    folds = cells.folds(5, by="donor")
    seen = []
    for train, test in folds:
        assert len(train) + len(test) == 800
        assert not set(train.obs_values("donor")) & set(test.obs_values("donor"))
        seen += list(test.obs_names)
    assert sorted(seen) == sorted(cells.obs_names)
    assert [len(test) for _, test in cells.folds(4)] == [200] * 4


def test_a_split_is_random_in_its_cells():
    """Neighbours are independent: the number of runs is that of random parts."""
    from cellfeed._cells.splitting import deal_cells

    n = 200_000
    parts = deal_cells(np.array([0.5, 0.5]), None, n, 0)
    runs = 1 + np.count_nonzero(np.diff(parts))
    assert abs(runs - n / 2) < 5 * (n / 4) ** 0.5
    assert parts.sum() == n / 2


BAD_SPLITS = [
    (dict(shares={"a": 0.5, "b": 0.6}), InvalidArgumentError, "sum to 1"),
    (dict(shares={"a": 1.5, "b": -0.5}), InvalidArgumentError, "above 0"),
    (dict(shares={}), InvalidTypeError, "dict"),
    (dict(shares=[0.5, 0.5]), InvalidTypeError, "dict"),
    (dict(shares={"a": "half", "b": 0.5}), InvalidTypeError, "number"),
    (dict(shares={"a": 0.9999, "b": 0.0001}), InvalidArgumentError, "'b' would have no cell"),
    (dict(shares={"a": 0.5, "b": 0.5}, by="tissue"), InvalidArgumentError, "is not missing"),
    (dict(shares={"a": 0.5, "b": 0.5}, by="dnoor"), NoSuchKeyError, "donor"),
    (dict(shares={"a": 0.5, "b": 0.5}, by="score"), InvalidTypeError, "labels"),
    (dict(shares={"a": 0.5, "b": 0.5}, stratify="score"), InvalidTypeError, "labels"),
    (dict(shares={str(i): 1 / 13 for i in range(13)}, by="donor"), InvalidArgumentError, "groups"),
    (dict(shares={"a": 0.5, "b": 0.5}, seed=-1), InvalidArgumentError, "seed"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "error", "words"), BAD_SPLITS)
def test_splits_that_cannot_be_are_refused(cells, options, error, words):
    options = dict(options)
    with pytest.raises(error, match=words):
        cells.split(options.pop("shares"), **options)


def test_the_parts_message_of_missing_groups_works_as_written(cells):
    known = cells.filter("`tissue` is not missing")
    assert set(known.split({"a": 0.6, "b": 0.4}, by="tissue")) == {"a", "b"}
    with pytest.raises(InvalidArgumentError):
        cells.folds(1)
