"""Strategies: labels found by key, samplers of map-style data sets, shards dealt to ranks, bad
input."""

import collections
import copy
import inspect
import pickle

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import cellfeed as cf
from cellfeed.data import DistributedShardSampler, WeightedCellSampler
from cellfeed.data.sampling import extract_labels_from_dataset
from cellfeed.errors import (
    CellfeedError,
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
    OutOfRangeError,
)

KINDS = np.array(["B", "T", "T", "NK"] * 25, dtype=object)


def make_strategies(n=100):
    labels = np.resize(["a", "b", "b", "c"], n)
    return [
        cf.Streaming(),
        cf.Streaming(shuffle=True),
        cf.BlockShuffling(4),
        cf.BlockShuffling(1),
        cf.BlockWeightedSampling(4, weights=1.0 + np.arange(n)),
        cf.ClassBalancedSampling(labels, 4),
        cf.WeightedCellSampler(labels, curriculum_warmup_epochs=2),
        cf.GroupSampling(labels=labels),
    ]


@given(
    n=st.integers(1, 200),
    world_size=st.integers(1, 6),
    batch_size=st.integers(1, 40),
    fetch_factor=st.integers(1, 5),
    which=st.integers(0, 7),
    partition=st.sampled_from(["interleave", "group"]),
    remainder=st.sampled_from(["pad", "drop"]),
    seed=st.integers(0, 1000),
)
def test_ranks_share_the_order_exactly(
    n, world_size, batch_size, fetch_factor, which, partition, remainder, seed
):
    strategy = make_strategies(n)[which]
    if remainder == "drop" and strategy.get_len(range(n)) < world_size:
        return
    ranks = [
        [
            batch.tolist()
            for batch in cf.scDataset(
                np.arange(n), strategy, batch_size, fetch_factor, rank=rank,
                world_size=world_size, seed=seed, partition=partition, remainder=remainder,
            )
        ]
        for rank in range(world_size)
    ]  # fmt: skip
    sizes = [[len(batch) for batch in batches] for batches in ranks]
    assert all(s == sizes[0] for s in sizes), "equal numbers and sizes of batches"
    assert all(size == batch_size for size in sizes[0][:-1])
    seen = collections.Counter(row for batches in ranks for batch in batches for row in batch)
    step, group = world_size * batch_size, partition == "group"
    order = strategy.bind(range(n))
    length = order.length(0, step)
    fetch = (batch_size if group else step) * fetch_factor
    rows = order.order(seed, 0, 0, length, 1, step, fetch)
    rows = np.where(rows < 0, ~rows, rows).tolist()
    if remainder == "pad":
        extra = -length % world_size
        expected = collections.Counter(rows + [rows[i % length] for i in range(extra)])
    else:
        expected = collections.Counter(rows[: length - length % world_size])
    assert seen == expected


@given(n=st.integers(1, 300), world_size=st.integers(1, 6), total=st.integers(1, 60))
def test_a_step_holds_the_same_samples_on_any_number_of_ranks(n, world_size, total):
    """W * b kept: the samples of a step do not depend on W."""
    strategy = cf.BlockShuffling(4)
    alone = cf.scDataset(range(n), strategy, world_size * total, 2, seed=5)
    ranks = [
        list(
            cf.scDataset(range(n), strategy, total, 2, rank=r, world_size=world_size, seed=5).plan()
        )
        for r in range(world_size)
    ]
    steps = list(alone.plan())
    assert len(steps) == len(ranks[0]) > 0
    for step, rows in enumerate(steps):
        together = sorted(row for batches in ranks for row in batches[step].tolist())
        if step < len(steps) - 1:
            assert together == sorted(rows.tolist())
        else:  # ranks are padded with repeats to equal lengths
            assert set(rows.tolist()) <= set(together)
            assert len(together) - len(rows) < world_size


# Where labels are looked up ----------------------------------------------------------------------


class HuggingFaceLike:
    """What a Hugging Face data set offers: column names, columns by name, dicts of lists by
    rows."""

    column_names = ("kind",)

    def __len__(self):
        return len(KINDS)

    def __getitem__(self, key):
        return KINDS.tolist() if key == "kind" else {"kind": KINDS[key].tolist()}


def make_adata(n=100, n_genes=6):
    x = scipy.sparse.random(n, n_genes, density=0.5, format="csr", dtype=np.float32, random_state=0)
    obs = pd.DataFrame({"kind": pd.Categorical(KINDS[:n])}, index=[f"c{i}" for i in range(n)])
    return anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=[f"g{i}" for i in range(n_genes)]))


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    path = tmp_path_factory.mktemp("atlas") / "a.h5ad"
    make_adata().write_h5ad(path)
    return path


def collections_with_labels(atlas):
    from anndata.experimental import AnnCollection

    adata = make_adata()
    halves = AnnCollection([adata[:50].copy(), adata[50:].copy()], join_vars="inner")
    return {
        "cellfeed": cf.open(atlas),
        "AnnData": adata,
        "backed": anndata.read_h5ad(atlas, backed="r"),
        "AnnCollection": halves,
        "pandas": pd.DataFrame({"kind": KINDS}),
        "MultiIndexable": cf.MultiIndexable(X=np.zeros((100, 2)), kind=KINDS),
        "dict": {"X": np.zeros((100, 2)), "kind": KINDS},
        "Hugging Face": HuggingFaceLike(),
    }


@pytest.mark.filterwarnings("ignore")
def test_label_keys_are_found_in_every_collection(atlas):
    given_labels = cf.ClassBalancedSampling(KINDS, 4).get_indices(range(100), seed=3)
    group_rows = cf.GroupSampling(labels=KINDS).get_indices(range(100), seed=3)
    for name, collection in collections_with_labels(atlas).items():
        for by_key in (
            cf.ClassBalancedSampling(label_key="kind", block_size=4),
            cf.ClassBalancedSampling("kind", 4),
        ):
            np.testing.assert_array_equal(
                by_key.get_indices(collection, seed=3), given_labels, name
            )
        np.testing.assert_array_equal(
            cf.GroupSampling("kind").get_indices(collection, seed=3), group_rows, name
        )
        with pytest.raises(NoSuchKeyError, match="nonsense"):
            cf.GroupSampling("nonsense").bind(collection)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b", "a"],
        ["a", float("nan"), "b", "a"],
        pd.Series(["a", None, "b", "a"]),
        pd.Categorical(["a", None, "b", "a"]),
        pd.array(["a", None, "b", "a"], dtype="string"),
        [1.5, float("nan"), 2.5, 1.5],
        pd.array([1, None, 2, 1], dtype="Int64"),
        pd.array([2**60, None, 2**60 + 1, 2**60], dtype="Int64"),
        np.ma.array(["a", "a", "b", "a"], mask=[0, 1, 0, 0]),
        np.ma.array([1, 1, 2, 1], mask=[0, 1, 0, 0]),
    ],
    ids=lambda labels: type(labels).__name__,
)
def test_missing_labels_are_never_drawn(labels):
    drawn = cf.ClassBalancedSampling(labels, 1, total_size=200).get_indices(range(4), seed=0)
    assert set(drawn.tolist()) == {0, 2, 3}
    assert abs((drawn == 2).mean() - 0.5) < 0.15


@pytest.mark.parametrize("other", [0.5, float("nan"), 5])
def test_large_numbers_of_a_list_are_labels_of_their_own(other):
    """numpy makes floats of such lists."""
    large = 2**63 + 1 if other == 5 else 2**53
    labels = [large, large + 1, other, large]
    drawn = cf.ClassBalancedSampling(labels, 1, total_size=3000)
    counts = np.bincount(drawn.get_indices(range(4), seed=0), minlength=4)
    classes = 2 + (other == other)
    assert abs(counts[1] - 3000 / classes) < 150 and abs(counts[0] + counts[3] - counts[1]) < 300


@pytest.mark.parametrize("labels", [[0, 1, -1, 1], np.array([-1, 2]), [-1.0, 0.0]])
@pytest.mark.parametrize("make", [cf.ClassBalancedSampling, cf.GroupSampling])
def test_codes_of_missing_labels_are_no_class(labels, make):
    with pytest.raises(InvalidArgumentError, match="None or NaN"):
        make(labels=labels)


@pytest.mark.parametrize(
    "make",
    [
        lambda: cf.BlockWeightedSampling(weights=np.ma.array([1.0, 1, 1, 1], mask=[1, 0, 0, 0])),
        lambda: cf.BlockWeightedSampling(weights=np.array([1, 1, 1, 1 + 1j])),
        lambda: cf.GroupSampling(labels=np.array([{}, "b", "c", "d"], dtype=object)),
    ],
    ids=["masked weights", "complex weights", "labels that cannot be compared"],
)
def test_weights_and_labels_that_only_some_could_be_read_of_are_refused(make):
    with pytest.raises(InvalidTypeError, match=r"weights|labels"):
        make().get_len(range(4))


def test_signatures_are_those_of_scdataset():
    def names(kind):
        return [p for p in inspect.signature(kind).parameters if p != "self"]

    assert names(cf.Streaming)[:2] == ["indices", "shuffle"]
    assert names(cf.BlockShuffling) == ["block_size", "indices", "drop_last"]
    assert names(cf.BlockWeightedSampling) == [
        "block_size", "indices", "weights", "total_size", "replace", "sampling_size",
    ]  # fmt: skip
    assert names(cf.ClassBalancedSampling)[:6] == [
        "labels", "block_size", "indices", "total_size", "replace", "sampling_size",
    ]  # fmt: skip


# Samplers of map-style data sets -----------------------------------------------------------------


def test_weighted_cell_sampler_is_a_sampler():
    labels = ["common"] * 900 + ["rare"] * 100
    sampler = WeightedCellSampler(labels, seed=7, curriculum_warmup_epochs=4)
    assert len(sampler) == 1000
    assert sampler.class_weights == {"common": 1000 / 900, "rare": 10.0}
    shares = []
    for _ in range(5):
        rows = list(sampler)
        assert len(rows) == 1000
        assert all(type(row) is int for row in rows[:3])
        shares.append(np.mean(np.array(rows) >= 900))
    # 0.1 to 0.5 over four epochs; five standard deviations of 1000 draws.
    for epoch, share in enumerate(shares):
        a = min(1, epoch / 4)
        p = (1 - a) * 0.1 + a * 0.5
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / 1000)
    sampler.set_epoch(2)
    again = list(sampler)
    sampler.set_epoch(2)
    assert list(sampler) == again != list(sampler)


def test_weighted_cell_sampler_deals_to_replicas():
    labels = ["a"] * 10 + ["b"] * 5
    alone = list(WeightedCellSampler(labels, seed=1))
    ranks = [list(WeightedCellSampler(labels, seed=1, num_replicas=4, rank=r)) for r in range(4)]
    assert {len(rank) for rank in ranks} == {4}
    assert [rank[i] for i in range(4) for rank in ranks] == [*alone, alone[0]]
    once = list(WeightedCellSampler(labels, replacement=False))
    assert sorted(once) == list(range(15))


def test_label_key_alone_is_no_sampler():
    with pytest.raises(InvalidArgumentError, match="pass labels"):
        len(WeightedCellSampler(label_key="kind"))


def test_labels_of_map_style_data_sets():
    class Items:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return {"metadata": {"cell_type": "abc"[i]} if i < 2 else {}}

    class Subset:
        dataset, indices = Items(), [2, 0]

    assert extract_labels_from_dataset(Items()) == ["a", "b", "unknown"]
    assert extract_labels_from_dataset(Subset()) == ["unknown", "a"]


class Shards:
    def __init__(self, sizes):
        self.shard_offsets = np.concatenate([[0], np.cumsum(sizes)])


@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=9).filter(lambda s: sum(s) > 0),
    world_size=st.integers(1, 6),
    shuffle=st.booleans(),
    epoch=st.integers(0, 3),
    drop_last=st.booleans(),
)
def test_shard_sampler_gives_equal_counts_and_every_cell(
    sizes, world_size, shuffle, epoch, drop_last
):
    n, ranks = sum(sizes), []
    for rank in range(world_size):
        sampler = DistributedShardSampler(
            Shards(sizes), num_replicas=world_size, rank=rank, shuffle=shuffle, seed=3,
            drop_last=drop_last,
        )  # fmt: skip
        sampler.set_epoch(epoch)
        ranks.append(list(sampler))
        assert len(ranks[-1]) == len(sampler)
    assert len({len(rank) for rank in ranks}) == 1
    seen = collections.Counter(row for rank in ranks for row in rank)
    if drop_last:
        assert sum(seen.values()) == n - n % world_size
        assert max(seen.values(), default=1) == 1
    else:
        assert set(seen) == set(range(n))
        assert sum(seen.values()) == n + -n % world_size


def test_shard_sampler_deals_whole_shards_in_turn():
    class Dataset:
        store = Shards([10] * 12)

    ranks = [DistributedShardSampler(Dataset(), 3, r, shuffle=False) for r in range(3)]
    assert [rank.shards() for rank in ranks] == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    assert list(ranks[1])[:12] == [*range(10, 20), 40, 41]
    first, second = (list(s) for s in [DistributedShardSampler(Dataset(), 3, 0)] * 2)
    assert first != second, "each iteration is another epoch"
    shards = [row // 10 for row in first]
    assert [len(set(shards[i : i + 10])) for i in range(0, 40, 10)] == [1, 1, 1, 1]


def test_shard_sampler_needs_offsets():
    with pytest.raises(InvalidTypeError, match="shard_offsets"):
        DistributedShardSampler([1, 2, 3], 1, 0)
    with pytest.raises(InvalidArgumentError, match="rank 3 of 3"):
        DistributedShardSampler(Shards([2]), 3, 3)


# Bad input ---------------------------------------------------------------------------------------

BAD = [
    (lambda: cf.BlockShuffling(0), InvalidArgumentError, "block_size"),
    (lambda: cf.BlockShuffling(2.5), InvalidTypeError, "block_size"),
    (lambda: cf.BlockShuffling(True), InvalidTypeError, "block_size"),
    (lambda: cf.BlockShuffling(8, [0, 100]), OutOfRangeError, "100"),
    (lambda: cf.BlockShuffling(8, [-1]), OutOfRangeError, "-1"),
    (lambda: cf.BlockShuffling(8, []), InvalidArgumentError, "empty|no "),
    (lambda: cf.BlockShuffling(8, [0.5]), InvalidTypeError, "integers"),
    (lambda: cf.BlockShuffling(8, [[0, 1]]), InvalidArgumentError, "one-dimensional"),
    (lambda: cf.BlockShuffling(8, [True] * 99), InvalidArgumentError, "mask"),
    (lambda: cf.Streaming([False] * 100), InvalidArgumentError, "empty|no "),
    (lambda: cf.Streaming(shuffle_buffer=-1), InvalidArgumentError, "shuffle_buffer"),
    (lambda: cf.BlockWeightedSampling(weights=[1.0] * 99), InvalidArgumentError, "99"),
    (lambda: cf.BlockWeightedSampling(weights=[0.0] * 100), InvalidArgumentError, "zero"),
    (lambda: cf.BlockWeightedSampling(weights=[-1.0] + [1.0] * 99), InvalidArgumentError, "-1"),
    (lambda: cf.BlockWeightedSampling(weights=[np.nan] + [1.0] * 99), InvalidArgumentError, "nan"),
    (lambda: cf.BlockWeightedSampling(weights=[np.inf] + [1.0] * 99), InvalidArgumentError, "inf"),
    (lambda: cf.BlockWeightedSampling(weights=["x"] * 100), InvalidTypeError, "numbers"),
    (lambda: cf.BlockWeightedSampling(weights=np.ones((10, 10))), InvalidArgumentError, "dim"),
    (lambda: cf.BlockWeightedSampling(np.ones(100)), InvalidTypeError, "block_size"),
    (lambda: cf.BlockWeightedSampling(total_size=0), InvalidArgumentError, "total_size"),
    (
        lambda: cf.BlockWeightedSampling(replace=False, sampling_size=101),
        InvalidArgumentError,
        "sampling_size",
    ),
    (lambda: cf.ClassBalancedSampling(), InvalidArgumentError, "label_key"),
    (lambda: cf.ClassBalancedSampling(["a"], label_key="b"), InvalidArgumentError, "either"),
    (lambda: cf.ClassBalancedSampling(["a"] * 99), InvalidArgumentError, "99"),
    (lambda: cf.ClassBalancedSampling([None] * 100), InvalidArgumentError, "label"),
    (lambda: cf.ClassBalancedSampling([]), InvalidArgumentError, "non-empty"),
    (lambda: cf.ClassBalancedSampling(7), InvalidTypeError, "one value a sample"),
    (lambda: cf.ClassBalancedSampling(KINDS, smoothing=-1), InvalidArgumentError, "smoothing"),
    (lambda: cf.ClassBalancedSampling(KINDS, smoothing=np.nan), InvalidArgumentError, "smoothing"),
    (lambda: cf.ClassBalancedSampling(label_key="x"), NoSuchKeyError, "label_key|x"),
    (lambda: cf.WeightedCellSampler([]), InvalidArgumentError, "non-empty"),
    (
        lambda: cf.WeightedCellSampler(KINDS, curriculum_warmup_epochs=-1),
        InvalidArgumentError,
        "warmup",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD)
def test_bad_input_is_refused_before_any_reading(make, error, message):
    class Unread:
        def __len__(self):
            return 100

        def __getitem__(self, rows):
            raise AssertionError("read")

    with pytest.raises(error, match=message) as caught:
        cf.scDataset(Unread(), make(), 8, seed=0)
    assert isinstance(caught.value, CellfeedError)


def test_strategies_are_picklable_and_copies_are_equal():
    for strategy in make_strategies():
        for twin in (pickle.loads(pickle.dumps(strategy)), copy.deepcopy(strategy)):
            assert twin.bind(range(100)).fingerprint == strategy.bind(range(100)).fingerprint


# As strategies of a Loader ------------------------------------------------------------------------


def test_labels_are_looked_up_anew_where_obs_may_change():
    adata = anndata.AnnData(
        np.zeros((6, 1), np.float32),
        obs=pd.DataFrame({"kind": list("aabbcc")}, index=list("123456")),
    )
    strategy = cf.ClassBalancedSampling(label_key="kind", block_size=1)
    before = strategy.bind(adata).fingerprint
    dataset = cf.scDataset(adata, strategy, 2, seed=0)
    adata.obs["kind"] = list("abbbbb")
    assert strategy.bind(adata).fingerprint != before
    adata.obs["kind"] = [None] * 5 + ["x"]
    assert set(strategy.get_indices(adata, seed=0).tolist()) == {5}
    with pytest.raises(InvalidArgumentError, match="have changed since the data set was made"):
        pickle.loads(pickle.dumps(dataset))


def test_weights_that_change_do_not_change_a_copy_silently():
    weights = np.arange(1.0, 7.0)
    dataset = cf.scDataset(np.arange(6), cf.BlockWeightedSampling(1, weights=weights), 2, seed=0)
    weights[0] = 100.0
    with pytest.raises(InvalidArgumentError, match="have changed since the data set was made"):
        copy.deepcopy(dataset)


def test_repeats_of_indices_are_samples_of_their_own():
    indices = [4, 1, 1, 0, 4, 4]
    for labels in (list("aabbc"), list("aabbcc")):
        strategy = cf.ClassBalancedSampling(labels, 1, indices, replace=False)
        assert sorted(strategy.get_indices(np.arange(5), seed=3).tolist()) == sorted(indices)


def test_every_strategy_drives_a_loader(atlas):
    cells = cf.open(atlas, obs=["kind"])
    strategies = [
        *make_strategies(),
        cf.ClassBalancedSampling(label_key="kind", smoothing=0.1),
        cf.WeightedCellSampler(label_key="kind", curriculum_warmup_epochs=1),
        cf.GroupSampling("kind"),
    ]
    for strategy in strategies:
        loader = cf.Loader(cells, strategy, 16, seed=2)
        for epoch in range(2):
            planned = list(loader.plan(epoch))
            batches = list(loader)
            assert [b.index.tolist() for b in batches] == [rows.tolist() for rows in planned]
            for batch in batches:
                assert batch.obs.labels("kind").tolist() == KINDS[batch.index].tolist()


def test_group_sampling_marks_what_fills_up(atlas):
    loader = cf.Loader(cf.open(atlas, obs=["kind"]), cf.GroupSampling("kind"), 16, seed=2)
    seen = collections.Counter()
    for batch in loader:
        assert len(set(batch.obs["kind"].tolist())) == 1
        assert len(batch) == 16
        seen.update(batch.index[~batch.is_padding].tolist())
    assert seen == collections.Counter(range(100))


def test_padding_is_marked_on_every_rank(atlas):
    cells = cf.open(atlas)
    seen = collections.Counter()
    for partition in ("interleave", "group"):
        for rank in range(7):
            loader = cf.Loader(
                cells, cf.BlockShuffling(4), 6, rank=rank, world_size=7, partition=partition
            )
            for batch in loader:
                seen.update(batch.index[~batch.is_padding].tolist())
    assert seen == collections.Counter({row: 2 for row in range(100)})
