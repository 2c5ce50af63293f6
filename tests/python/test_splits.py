"""Splits by group, beside brute force; columns that name groups; cells that are chosen twice."""

import itertools
import time

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import examples

import cellfeed as cf
from cellfeed._cells.splitting import deal_cells, deal_groups
from cellfeed.errors import InvalidArgumentError, InvalidTypeError


def dealt(sizes, shares, seed=0, labels=None):
    """Part of each group, and cells of each part."""
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    parts = deal_groups(np.array(shares) / sum(shares), groups, labels, seed)
    assert len(parts) == len(groups)
    pairs = np.unique(np.stack([groups, parts]), axis=1)
    assert pairs.shape[1] == len(sizes), "a group is on two sides"
    return pairs[1], np.bincount(parts, minlength=len(shares))


def least_deviation(sizes, shares):
    """Of all ways that leave no part empty: the smallest that the largest deviation can be."""
    wanted = np.array(shares) / sum(shares) * sum(sizes)
    ways = np.array(list(itertools.product(range(len(shares)), repeat=len(sizes))))
    is_of = ways[:, :, None] == np.arange(len(shares))
    held = (is_of * np.array(sizes)[None, :, None]).sum(axis=1)
    return np.abs(held - wanted).max(axis=1)[is_of.any(axis=1).all(axis=1)].min()


def deviation(held, shares):
    return np.abs(held - np.array(shares) / sum(shares) * held.sum()).max()


@pytest.mark.parametrize(
    ("sizes", "shares", "best"),
    [
        ([10] * 5, [0.8, 0.1, 0.1], [30, 10, 10]),
        ([5, 4], [0.9, 0.1], [5, 4]),
        ([10] * 8, [0.8, 0.1, 0.1], [60, 10, 10]),
        ([3, 3, 2, 2, 2], [0.5, 0.5], [6, 6]),
    ],
)
def test_few_groups_come_as_near_to_their_shares_as_they_can(sizes, shares, best):
    for seed in range(5):
        assert dealt(sizes, shares, seed)[1].tolist() == best


def test_three_groups_fill_three_parts_with_the_large_share_on_top():
    assert sorted(dealt([34, 34, 32], [0.8, 0.1, 0.1])[1].tolist()) == [32, 34, 34]
    assert dealt([34, 34, 32], [0.8, 0.1, 0.1])[1][0] == 34


@examples(150)
@given(data=st.data())
def test_few_groups_are_dealt_as_well_as_by_brute_force(data):
    most = data.draw(st.sampled_from([4, 50, 1000]))
    sizes = data.draw(st.lists(st.integers(1, most), min_size=1, max_size=7))
    n_parts = data.draw(st.integers(1, min(len(sizes), 4)))
    shares = data.draw(
        st.one_of(
            st.just([1] * n_parts),
            st.lists(st.integers(1, 100), min_size=n_parts, max_size=n_parts),
        )
    )
    parts, held = dealt(sizes, shares, data.draw(st.integers(0, 9)))
    assert set(parts) == set(range(n_parts)) and held.sum() == sum(sizes)
    best = least_deviation(sizes, shares)
    assert deviation(held, shares) <= max(best, 1) + 1e-5


@pytest.mark.parametrize("n_parts", [5, *(pytest.param(n, marks=pytest.mark.slow) for n in (6, 7))])
def test_seven_groups_in_many_parts_are_searched_to_the_end(n_parts):
    random = np.random.default_rng(n_parts)
    for seed in range(8 - n_parts):
        sizes, shares = random.integers(1, 999, 7), random.integers(1, 30, n_parts)
        best = least_deviation(sizes, shares)
        assert deviation(dealt(sizes, shares, seed)[1], shares) <= max(best, 1) + 1e-5


def test_many_groups_are_dealt_to_one_cell_and_soon():
    sizes = np.maximum(np.random.default_rng(0).lognormal(3, 1, 100_000), 1).astype(int)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    shares = np.array([0.8, 0.1, 0.1])
    begin = time.process_time()
    parts = deal_groups(shares, groups, None, 0)
    taken = time.process_time() - begin
    held = np.bincount(parts)
    assert deviation(held, shares) < 1
    assert taken < 10, "seconds; about half a one on a machine that does nothing else"
    # Large groups are everywhere, not in the large part alone.
    means = [sizes[np.unique(groups[parts == part])].mean() for part in range(3)]
    assert max(means) < 1.3 * min(means)


def test_a_seed_is_one_division_and_another_seed_another():
    sizes = np.arange(1, 60)
    first, again, other = (dealt(sizes, [3, 1], seed)[0].tolist() for seed in (0, 0, 1))
    assert first == again != other
    held_out = [set(np.flatnonzero(dealt([7] * 9, [2, 1], seed)[0])) for seed in range(20)]
    assert set().union(*held_out) == set(range(9))


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=3, max_size=9),
    share=st.sampled_from([0.001, 0.1, 0.3]), seed=st.integers(0, 5),
)  # fmt: skip
def test_no_part_is_empty_where_labels_are_stratified(sizes, share, seed):
    labels = np.random.default_rng(seed).integers(-1, 3, sum(sizes))
    parts, held = dealt(sizes, [1 - 2 * share, share, share], seed, labels)
    assert set(parts) == {0, 1, 2} and held.sum() == sum(sizes)


@settings(max_examples=100, deadline=None)
@given(
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    weights=st.lists(st.integers(1, 9), min_size=2, max_size=6), seed=st.integers(0, 50),
)  # fmt: skip
def test_each_label_is_right_to_one_cell(counts, weights, seed):
    """And cells are carried over from label to label, so that parts are about right too."""
    labels = np.repeat(np.arange(len(counts)), counts)
    shares = np.array(weights) / sum(weights)
    parts = deal_cells(shares, labels, len(labels), seed)
    for label, count in enumerate(counts):
        held = np.bincount(parts[labels == label], minlength=len(shares))
        assert held.sum() == count and (abs(held - shares * count) < 1).all()
    of_all = np.bincount(parts, minlength=len(shares))
    assert (abs(of_all - shares * len(labels)) < 2).all()


# ---- columns that name groups


def write(path, **columns):
    n = len(next(iter(columns.values())))
    obs = pd.DataFrame(columns, index=[f"{path.stem}-{i}" for i in range(n)])
    x = scipy.sparse.random(n, 4, 0.5, "csr", np.float32, random_state=0)
    anndata.AnnData(x, obs, pd.DataFrame(index=list("abcd"))).write_h5ad(path)
    return path


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    path = tmp_path_factory.mktemp("numbered") / "all.h5ad"
    donor = np.arange(60) % 6
    return write(
        path, donor=donor * 10 - 20, large=2**62 + donor, small=donor.astype("uint8"),
        flag=donor % 2 == 0, score=donor.astype(float),
    )  # fmt: skip


@pytest.mark.parametrize("by", ["donor", "large", "small", "flag"])
@pytest.mark.parametrize("stratify", [None, "flag", "small"])
def test_integers_and_booleans_name_groups(numbered, by, stratify):
    cells = cf.open(numbered)
    parts = cells.split({"a": 0.5, "b": 0.5}, by=by, stratify=stratify)
    a, b = (set(part.obs_values(by).tolist()) for part in parts.values())
    assert not a & b and a | b == set(cells.obs_values(by).tolist())
    assert sum(map(len, parts.values())) == 60
    for train, test in cells.folds(2, by=by, stratify=stratify):
        assert not set(train.obs_values(by).tolist()) & set(test.obs_values(by).tolist())


def test_integers_and_booleans_are_strata(numbered):
    cells = cf.open(numbered)
    for part in cells.split({"a": 0.5, "b": 0.5}, stratify="donor").values():
        assert np.unique(part.obs_values("donor"), return_counts=True)[1].tolist() == [5] * 6
    for part in cells.split({"a": 0.5, "b": 0.5}, stratify="flag").values():
        assert part.obs_values("flag").sum() == 15


@pytest.mark.parametrize("argument", ["by", "stratify"])
def test_floats_name_no_groups(numbered, argument):
    with pytest.raises(InvalidTypeError, match=f"{argument} must be .*'score' holds float64"):
        cf.open(numbered).split({"a": 0.5, "b": 0.5}, **{argument: "score"})


@pytest.mark.parametrize("column", ["donor", "flag", "nullable"])
def test_cells_of_a_file_without_the_column_are_left_out_as_the_error_says(tmp_path, column):
    donor = np.arange(20) % 4
    has = write(
        tmp_path / "has.h5ad", donor=donor, flag=donor > 1,
        nullable=pd.array(np.where(donor == 3, None, donor), dtype="Int64"),
    )  # fmt: skip
    cells = cf.open([has, write(tmp_path / "lacks.h5ad", other=np.arange(7))])
    n_missing = 12 if column == "nullable" else 7
    with pytest.raises(InvalidArgumentError, match=f"{n_missing} cells have no label") as caught:
        cells.split({"a": 0.5, "b": 0.5}, by=column)
    where = str(caught.value).split("cells.filter(")[1].rsplit(")", 1)[0].strip("'\"")
    known = cells.filter(where)
    assert len(known) == 27 - n_missing
    parts = known.split({"a": 0.5, "b": 0.5}, by=column)
    a, b = (set(part.obs_values(column).tolist()) for part in parts.values())
    assert not a & b and a and b
    # As of labels, those that are missing are a stratum of their own.
    for part in cells.split({"a": 0.5, "b": 0.5}, stratify=column).values():
        assert abs(np.isnan(part.obs_values(column)).sum() - n_missing / 2) <= 1


# ---- cells that are chosen several times


def names_of(parts):
    return [set(part.obs_names) for part in parts]


@pytest.mark.parametrize("by", [None, "donor"])
@pytest.mark.parametrize("stratify", [None, "flag"])
def test_no_cell_is_on_two_sides_however_often_it_was_chosen(numbered, by, stratify):
    rows = np.random.default_rng(0).integers(0, 60, 500)
    for chosen in (
        cf.open(numbered).filter(rows), cf.open(numbered)[rows], cf.open(numbered)[rows][:, ["b"]],
    ):  # fmt: skip
        parts = chosen.split({"a": 0.7, "b": 0.3}, by=by, stratify=stratify)
        a, b = names_of(parts.values())
        assert not a & b and len(a | b) == len(np.unique(rows))
        assert sum(map(len, parts.values())) == 500
        if by is None and stratify is None:
            assert abs(len(parts["a"]) - 350) <= 5
        for train, test in chosen.folds(4, by=by, stratify=stratify):
            assert not set(train.obs_names) & set(test.obs_names)
            assert len(train) + len(test) == 500


def test_one_cell_chosen_ten_times_cannot_fill_two_parts(numbered):
    chosen = cf.open(numbered)[[0] * 10]
    with pytest.raises(InvalidArgumentError, match="chosen several times is of one part"):
        chosen.split({"a": 0.5, "b": 0.5})
    with pytest.raises(InvalidArgumentError, match="chosen several times is of one part"):
        chosen.folds(2)


@settings(max_examples=100, deadline=None)
@given(
    times=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    share=st.floats(0.05, 0.95), seed=st.integers(0, 5),
)  # fmt: skip
def test_repeated_cells_come_near_to_the_shares(times, share, seed):
    cells = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(times)), times))
    parts = deal_cells(np.array([share, 1 - share]), None, len(cells), seed, cells)
    assert np.unique(np.stack([cells, parts]), axis=1).shape[1] == len(times)
    assert abs((parts == 0).sum() - share * len(cells)) <= max(times)


@pytest.mark.parametrize("argument", ["by", "stratify"])
def test_parts_do_not_depend_on_the_order_of_categories(tmp_path, argument):
    labels = [f"d{i // 2}" for i in range(40)]
    order = sorted(set(labels))
    parts = []
    for categories in (order, order[::-1], ["a", *order[5:], *order[:5]]):
        obs = pd.DataFrame(
            {"donor": pd.Categorical(labels, categories=categories)},
            index=[f"c{i}" for i in range(40)],
        )
        anndata.AnnData(np.ones((40, 2), np.float32), obs=obs).write_h5ad(tmp_path / "a.h5ad")
        cells = cf.open(tmp_path / "a.h5ad")
        parts.append(cells.split({"a": 0.5, "b": 0.5}, **{argument: "donor"})["b"].obs_names)
    for other in parts[1:]:
        np.testing.assert_array_equal(other, parts[0])
