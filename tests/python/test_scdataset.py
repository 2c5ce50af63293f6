"""scDataset over collections of every kind: values, hooks, attributes, errors."""

import collections
import os
import pickle
import subprocess
import sys

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch.utils.data import DataLoader, IterableDataset

import cellfeed as cf
from cellfeed.errors import CollectionError, InvalidArgumentError, InvalidTypeError, OutOfRangeError
from cellfeed.transforms import adata_to_mindex, fetch_transform_adata, hf_tahoe_to_tensor

N, GENES = 100, 7
X = np.arange(N * GENES, dtype=np.float32).reshape(N, GENES) % 11
KINDS = np.array(["B", "T", "T", "NK"] * 25, dtype=object)


def make_adata(rows=slice(None)):
    obs = pd.DataFrame({"kind": pd.Categorical(KINDS)}, index=[f"c{i}" for i in range(N)])
    var = pd.DataFrame(index=[f"g{i}" for i in range(GENES)])
    return anndata.AnnData(scipy.sparse.csr_matrix(X), obs=obs, var=var)[rows].copy()


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    path = tmp_path_factory.mktemp("atlas") / "a.h5ad"
    make_adata().write_h5ad(path)
    return path


def dense(batch):
    x = getattr(batch, "X", batch)
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x)


def every_collection(atlas):
    from anndata.experimental import AnnCollection

    return {
        "numpy": X,
        "csr": scipy.sparse.csr_matrix(X),
        "torch": torch.from_numpy(X),
        "pandas": pd.DataFrame(X, index=[f"c{i}" for i in range(N)]),
        "list": list(X),
        "AnnData": make_adata(),
        "backed": anndata.read_h5ad(atlas, backed="r"),
        "AnnCollection": AnnCollection(
            [make_adata(slice(50)), make_adata(slice(50, None))], join_vars="inner"
        ),
    }


@pytest.mark.filterwarnings("ignore")
def test_every_collection_gives_the_planned_rows(atlas):
    for name, collection in every_collection(atlas).items():
        dataset = cf.scDataset(collection, cf.BlockShuffling(4), 8, 3, seed=1)
        planned = list(dataset.plan())
        batches = list(dataset)
        assert len(batches) == len(planned) == 13, name
        for batch, rows in zip(batches, planned, strict=True):
            np.testing.assert_array_equal(dense(batch), X[rows], name)


def test_our_collection_comes_as_batches(atlas):
    cells = cf.open(atlas, obs=["kind"])
    dataset = cf.scDataset(cells, cf.BlockShuffling(4), 8, 3, seed=1)
    for batch, rows in zip(list(dataset), dataset.plan(0), strict=True):
        assert isinstance(batch, cf.Batch)
        np.testing.assert_array_equal(batch.index, rows)
        np.testing.assert_array_equal(batch.x.toarray(), X[rows])
        assert batch.obs.labels("kind").tolist() == KINDS[rows].tolist()


def test_hooks_over_our_collection(atlas):
    cells = cf.open(atlas, obs=["kind"])
    plain = [b.x.toarray() for b in cf.scDataset(cells, cf.BlockShuffling(4), 8, 3, seed=1)]
    by_batch = cf.scDataset(
        cells, cf.BlockShuffling(4), 8, 3, seed=1, batch_transform=lambda b: b.to_numpy() + 1
    )
    by_group = cf.scDataset(
        cells, cf.BlockShuffling(4), 8, 3, seed=1, fetch_transform=lambda b: b.to_numpy() + 1
    )
    cut = cf.scDataset(
        cells, cf.BlockShuffling(4), 8, 3, seed=1,
        batch_callback=lambda group, positions: group[positions].to_numpy() + 1,
    )  # fmt: skip
    raw = cf.scDataset(
        cells, cf.BlockShuffling(4), 8, 3, seed=1,
        fetch_callback=lambda c, rows: c[rows].to_numpy() + 1,
    )  # fmt: skip
    for dataset in (by_batch, by_group, cut, raw):
        got = list(dataset)
        assert len(got) == len(plain)
        for a, b in zip(got, plain, strict=True):
            np.testing.assert_array_equal(a, b + 1)


def test_hooks_run_in_order_over_sorted_unique_rows():
    asked = []

    def fetch(collection, rows):
        asked.append(rows)
        return collection[rows]

    dataset = cf.scDataset(
        X, cf.BlockWeightedSampling(4, total_size=60), 8, 3, seed=1,
        fetch_callback=fetch,
        fetch_transform=lambda group: {"x": group * 2},
        batch_callback=lambda group, positions: group["x"][positions],
        batch_transform=torch.from_numpy,
    )  # fmt: skip
    for batch, rows in zip(list(dataset), dataset.plan(0), strict=True):
        np.testing.assert_array_equal(batch.numpy(), X[rows] * 2)
    assert [len(rows) for rows in asked] == [len(np.unique(rows)) for rows in asked]
    assert all((np.diff(rows) > 0).all() for rows in asked)
    assert len(asked) == 3
    asked.clear()
    dataset.sort_before_fetch = False
    dataset.set_epoch(0)
    for batch, rows in zip(list(dataset), dataset.plan(0), strict=True):
        np.testing.assert_array_equal(batch.numpy(), X[rows] * 2)
    assert [len(rows) for rows in asked] == [24, 24, 12]


def test_attributes():
    dataset = cf.scDataset(X, cf.Streaming(), 8, 3, True, seed=4)
    assert isinstance(dataset, IterableDataset)
    assert dataset.fetch_size == 24
    assert (dataset.rank, dataset.world_size, dataset._base_seed, dataset._epoch) == (0, 1, 4, 0)
    assert (dataset.collection is X, dataset.drop_last, dataset.sort_before_fetch) == (True,) * 3
    assert len(dataset) == len(list(dataset)) == 12
    assert dataset._epoch == 1
    assert len(DataLoader(dataset, batch_size=None)) == 12


def test_epochs_advance_and_can_be_set():
    dataset = cf.scDataset(np.arange(N), cf.BlockShuffling(4), 8, seed=1)
    first, second = ([b.tolist() for b in dataset] for _ in range(2))
    assert first != second
    dataset.set_epoch(0)
    assert [b.tolist() for b in dataset] == first
    next(iter(dataset))  # abandoned
    iter(dataset)  # never advanced: takes no epoch
    assert dataset.epoch == 3 - 1 + 0
    other = cf.scDataset(np.arange(N), cf.BlockShuffling(4), 8, seed=2)
    assert [b.tolist() for b in other] != first


def test_seeds():
    def order(**options):
        return [b.tolist() for b in cf.scDataset(X, cf.BlockShuffling(1), 8, **options).plan()]

    assert order() != order(), "drawn anew"
    # Manual ranks without a process group agree on seed 0.
    assert order(rank=2, world_size=4) == order(rank=2, world_size=4, seed=0)
    for seed, error in (
        (-1, InvalidArgumentError),
        (2**63, InvalidArgumentError),
        ("1", TypeError),
    ):
        with pytest.raises(error, match="seed"):
            order(seed=seed)


def test_rank_of_the_environment(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    dataset = cf.scDataset(X, cf.Streaming(), 8)
    assert (dataset.rank, dataset.world_size) == (1, 3)
    assert np.concatenate(list(dataset.plan())).tolist()[:3] == [1, 4, 7]
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(InvalidArgumentError, match="WORLD_SIZE"):
        cf.scDataset(X, cf.Streaming(), 8)


def test_a_thousand_samples_on_four_ranks_are_250_each():
    for batch_size, fetch_factor in ((64, 16), (1000, 1), (1, 1), (128, 64)):
        for partition in ("interleave", "group"):
            counts = [
                sum(map(len, cf.scDataset(
                    np.arange(1000), cf.BlockShuffling(8), batch_size, fetch_factor, rank=r,
                    world_size=4, seed=0, partition=partition)))
                for r in range(4)
            ]  # fmt: skip
            assert counts == [250] * 4


class Virtual:
    """1e10 rows: any list of samples would not fit."""

    def __len__(self):
        return 10**10

    def __getitem__(self, rows):
        return rows


@pytest.mark.parametrize("strategy", [cf.Streaming(), cf.BlockShuffling(64), cf.BlockShuffling(1)])
def test_ten_billion_samples(strategy):
    dataset = cf.scDataset(Virtual(), strategy, 64, seed=1)
    rows = next(iter(dataset))
    assert rows.shape == (64,)
    np.testing.assert_array_equal(rows, next(dataset.plan(0)))
    assert len(dataset) == -(-(10**10) // 64)


# MultiIndexable and transforms -------------------------------------------------------------------


def test_multi_indexable():
    m = cf.MultiIndexable(X, KINDS, names=["X", "kind"], unstructured={"genes": list("abc")})
    assert (len(m), m.count, m.names, m.unstructured_keys) == (N, 2, ["X", "kind"], ["genes"])
    assert m["X"] is m[0] is X
    assert m[-1] is m["kind"]
    for rows in (slice(2, 9, 3), [5, 1, 1], np.array([7]), np.arange(N) % 9 == 0):
        part = m[rows]
        np.testing.assert_array_equal(part["X"], X[rows])
        np.testing.assert_array_equal(part["kind"], KINDS[rows])
        assert part.unstructured is m.unstructured
    assert m.keys() == ["X", "kind"], "a list, as scDataset's"
    assert m.keys().index("kind") == 1 and m.values()[1] is m["kind"]
    assert next(m.items())[1] is X and [k for k, _ in m.items()] == m.keys()
    assert len(list(m)) == len(m.values()) == 2
    assert "2" not in m
    assert "MultiIndexable(100 samples" in repr(m)
    assert m[np.int64(1)] is m[1] and m[np.int32(-2)] is m[0]
    by_dict, by_place = cf.MultiIndexable({"X": X}), cf.MultiIndexable(X, KINDS)
    assert by_dict.names == ["X"]
    assert by_place.names is None and by_place.keys() == [0, 1]
    assert len(by_place[[1, 2]]) == len(cf.MultiIndexable(s=scipy.sparse.csr_matrix(X))[:2]) == 2
    frame = cf.MultiIndexable(f=pd.DataFrame(X), t=KINDS.tolist())[[3, 1]]
    assert frame["f"].index.tolist() == [3, 1]
    assert frame["t"] == KINDS[[3, 1]].tolist()
    moved = m[[1, 2]].to(torch.float64)
    assert moved["X"].dtype == torch.float64
    assert moved["kind"].tolist() == KINDS[[1, 2]].tolist()
    assert isinstance(by_dict.to("cpu"), torch.Tensor)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: cf.MultiIndexable(), InvalidTypeError, "at least one"),
        (lambda: cf.MultiIndexable(X, y=X), InvalidTypeError, "not both"),
        (lambda: cf.MultiIndexable(X, X[:5], names=["a", "b"]), InvalidArgumentError, "'b' has 5"),
        (lambda: cf.MultiIndexable(X, names=["a", "b"]), InvalidArgumentError, "2 names"),
        (lambda: cf.MultiIndexable(X, X, names=["a", "a"]), InvalidArgumentError, "'a' twice"),
        (lambda: cf.MultiIndexable(3), InvalidTypeError, "no length"),
        (lambda: cf.MultiIndexable(X, unstructured=[1]), InvalidTypeError, "dict"),
        (lambda: cf.MultiIndexable(X=X)["y"], KeyError, "'y'"),
        (lambda: cf.MultiIndexable(X=X)[4], OutOfRangeError, "4"),
    ],
)
def test_multi_indexable_refuses(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.filterwarnings("ignore")
def test_anndata_transforms(atlas):
    for collection in (make_adata(), anndata.read_h5ad(atlas, backed="r")):
        dataset = cf.scDataset(
            collection, cf.BlockShuffling(4), 8, 3, seed=1,
            fetch_callback=lambda d, idx: adata_to_mindex(d[idx], columns=["kind"]),
        )  # fmt: skip
        for batch, rows in zip(list(dataset), dataset.plan(0), strict=True):
            np.testing.assert_array_equal(batch["X"], X[rows])
            assert list(batch["kind"]) == KINDS[rows].tolist()
        dataset = cf.scDataset(
            collection, cf.BlockShuffling(4), 8, 3, seed=1, fetch_transform=fetch_transform_adata
        )
        for batch, rows in zip(list(dataset), dataset.plan(0), strict=True):
            np.testing.assert_array_equal(batch, X[rows])
    with pytest.raises(KeyError, match="nonsense"):
        adata_to_mindex(make_adata(), "nonsense")
    with pytest.raises(InvalidTypeError, match="AnnData"):
        adata_to_mindex(X)


def test_anndata_transforms_take_whatever_answers():
    class Obs:
        def __getitem__(self, name):
            return pd.Series(KINDS[:6], name=name) if name == "kind" else {}[name]

    class Cells:
        X, obs = scipy.sparse.csr_matrix(X[:6]), Obs()

    group = adata_to_mindex(Cells(), columns=["kind"])
    np.testing.assert_array_equal(group["X"], X[:6])
    assert group["kind"].tolist() == KINDS[:6].tolist()
    with pytest.raises(cf.errors.NoSuchKeyError, match="'sort'"):
        adata_to_mindex(Cells(), columns=["sort"])


# Padding -----------------------------------------------------------------------------------------


def unpadded(pairs):
    return collections.Counter(
        row for rows, marks in pairs for row in np.asarray(rows)[~np.asarray(marks)].tolist()
    )


PADDED = {"remainder": "pad", "rank": 2, "world_size": 3}
HOOKS = {
    "none": {},
    "batch_transform": {"batch_transform": lambda batch: batch},
    "fetch_transform": {"fetch_transform": lambda group: group},
    "batch_callback": {"batch_callback": lambda group, positions: group[positions]},
    "fetch_callback": {"fetch_callback": lambda cells, rows: cells[rows]},
    "reversed": {"batch_callback": lambda group, positions: group[positions[::-1]]},
    "part": {"batch_callback": lambda group, positions: group[positions[1:]]},
}


@pytest.mark.parametrize("hooks", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("strategy", [cf.GroupSampling("kind"), cf.BlockShuffling(4)], ids=repr)
def test_padding_is_marked_whatever_hooks_do(atlas, strategy, hooks):
    cells = cf.open(atlas, obs=["kind"])

    def batches(**options):
        return list(cf.scDataset(cells, strategy, 6, 3, seed=2, **PADDED, **options))

    plain = list(cf.Loader(cells, strategy, 6, fetch_factor=3, seed=2, rank=2, world_size=3))
    assert any(batch.is_padding.any() for batch in plain)
    expected = unpadded((batch.index, batch.is_padding) for batch in plain)
    got = batches(**hooks)
    if hooks is HOOKS["part"]:
        assert all(len(batch.is_padding) == len(batch) for batch in got)
        real = unpadded((batch.index, batch.is_padding) for batch in got)
        assert real <= expected
        for part, whole in zip(got, plain, strict=True):
            marked = part.is_padding.sum() + whole.is_padding[0]
            assert marked == whole.is_padding.sum() or whole.index[0] in part.index
        return
    assert unpadded((batch.index, batch.is_padding) for batch in got) == expected
    for batch in got:
        cut = batch[::2]
        assert cut.is_padding.tolist() == batch.is_padding[::2].tolist()
        assert pickle.loads(pickle.dumps(batch)).is_padding.tolist() == batch.is_padding.tolist()
    pairs = batches(with_padding=True, **hooks)
    assert all(type(pair) is tuple for pair in pairs)
    assert unpadded((batch.index, batch.is_padding) for batch, _ in pairs) == expected


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_padding_of_other_collections(num_workers):
    """A pair for any kind of batch; an attribute of MultiIndexable, also where hooks see it."""
    groups = cf.GroupSampling(labels=KINDS)
    rows = np.arange(N)
    pairs = cf.scDataset(rows, groups, 7, 3, seed=0, with_padding=True)
    loader = DataLoader(pairs, batch_size=None, num_workers=num_workers)
    assert unpadded(loader) == collections.Counter(range(N))
    seen = []
    members = cf.MultiIndexable({"row": rows, "kind": KINDS})
    named = cf.scDataset(members, groups, 7, 3, seed=0, batch_transform=_note_padding)
    for batch in DataLoader(named, batch_size=None, num_workers=num_workers):
        assert len(set(batch["kind"].tolist())) == 1
        assert batch.noted == batch.is_padding.sum()
        seen.append((batch["row"], batch.is_padding))
        assert batch[1:].is_padding.tolist() == batch.is_padding[1:].tolist()
    assert unpadded(seen) == collections.Counter(range(N))
    assert members.is_padding is None


def _note_padding(batch):
    batch.noted = batch.is_padding.sum()
    return batch


# Collections that a hook reads -------------------------------------------------------------------


class Unsized:
    """Nothing but a name for data that fetch_callback knows how to read."""


@pytest.mark.parametrize(
    "strategy",
    [
        cf.Streaming([5, 3, 9]),
        cf.BlockShuffling(2, [5, 3, 9]),
        cf.BlockWeightedSampling(1, [5, 3, 9], weights=[1, 2, 3]),
        cf.ClassBalancedSampling(["a", "b", "a"], 1, [5, 3, 9]),
        cf.Streaming([False, False, False, True, False, True, False, False, False, True]),
    ],
    ids=repr,
)
def test_a_collection_without_a_length(strategy):
    dataset = cf.scDataset(Unsized(), strategy, 2, fetch_callback=_rows_of, seed=0)
    assert len(dataset) == 2
    first = [batch.tolist() for batch in dataset]
    assert {row for batch in first for row in batch} <= {3, 5, 9}
    twin = pickle.loads(pickle.dumps(dataset))
    twin.set_epoch(0)
    assert [batch.tolist() for batch in twin] == first
    state = dataset.state_dict()
    dataset.load_state_dict(state)


def _rows_of(collection, rows):
    assert isinstance(collection, Unsized)
    return rows


@pytest.mark.parametrize(
    "options",
    [{}, {"fetch_callback": _rows_of}, {"strategy": cf.Streaming([1])}],
    ids=["nothing", "fetch_callback", "strategy"],
)
def test_a_length_is_needed_where_nothing_tells_it(options):
    with pytest.raises(InvalidTypeError, match="has no length"):
        cf.scDataset(Unsized(), **{"strategy": cf.Streaming(), **options}, batch_size=2)


def test_hugging_face_data_sets():
    datasets = pytest.importorskip("datasets")
    cells = [np.flatnonzero(row) for row in X]
    hf = datasets.Dataset.from_dict(
        {"genes": cells, "expressions": [X[i, c] for i, c in enumerate(cells)], "kind": list(KINDS)}
    )
    dataset = cf.scDataset(
        hf, cf.ClassBalancedSampling(label_key="kind"), 8, 3, seed=1,
        fetch_transform=lambda group: hf_tahoe_to_tensor(group, num_genes=GENES),
    )  # fmt: skip
    for batch, rows in zip(list(dataset), dataset.plan(0), strict=True):
        np.testing.assert_array_equal(batch.numpy(), X[rows])
    plain = cf.scDataset(hf, cf.BlockShuffling(4), 8, 3, seed=1)
    for batch, rows in zip(list(plain), plain.plan(0), strict=True):
        assert list(batch["kind"]) == KINDS[rows].tolist()


def test_tahoe_rows():
    cells = [{"genes": [2, 0], "expressions": [5, 1]}, {"genes": [], "expressions": []}]
    assert hf_tahoe_to_tensor(cells, 3).tolist() == [[1, 0, 5], [0, 0, 0]]
    with pytest.raises(OutOfRangeError, match="cell 0"):
        hf_tahoe_to_tensor(cells, 2)
    with pytest.raises(InvalidTypeError):
        hf_tahoe_to_tensor(3)


# Errors ------------------------------------------------------------------------------------------


class Faulty:
    def __init__(self, fault):
        self.fault = fault

    def __len__(self):
        return N

    def __getitem__(self, rows):
        return self.fault(rows)


def raise_os_error(_):
    raise OSError("disk gone")


def test_faulty_collections_are_named():
    with pytest.raises(CollectionError, match=r"Faulty.*disk gone") as caught:
        list(cf.scDataset(Faulty(raise_os_error), cf.Streaming(), 8, seed=0))
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(CollectionError, match=r"Faulty\[indices\] returned 99 samples for 100"):
        list(cf.scDataset(Faulty(lambda rows: X[rows[1:]]), cf.Streaming(), 8, seed=0))
    with pytest.raises(CollectionError, match="fetch_callback returned 1 samples for 100"):
        list(cf.scDataset(X, cf.Streaming(), 8, seed=0, fetch_callback=lambda c, rows: c[:1]))
    with pytest.raises(CollectionError, match="fetch_transform returned 1 samples for 100"):
        list(cf.scDataset(X, cf.Streaming(), 8, seed=0, fetch_transform=lambda group: group[:1]))
    for hook in ("fetch_callback", "fetch_transform"):
        with pytest.raises(CollectionError, match=f"{hook} returned None"):
            list(cf.scDataset(X, cf.Streaming(), 8, seed=0, **{hook: lambda *_: None}))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"batch_size": 0}, InvalidArgumentError, "batch_size"),
        ({"batch_size": 2.5}, InvalidTypeError, "batch_size"),
        ({"fetch_factor": 0}, InvalidArgumentError, "fetch_factor"),
        ({"rank": 4, "world_size": 4}, InvalidArgumentError, "rank 4 of 4"),
        ({"rank": -1, "world_size": 4}, InvalidArgumentError, "rank"),
        ({"rank": 0, "world_size": 0}, InvalidArgumentError, "world_size"),
        ({"rank": 0}, InvalidArgumentError, "together"),
        ({"strategy": "Streaming"}, InvalidTypeError, "strategy"),
        ({"data_collection": []}, InvalidArgumentError, "no samples"),
        ({"data_collection": iter([1])}, InvalidTypeError, "length"),
        ({"fetch_callback": 3}, InvalidTypeError, "fetch_callback"),
        ({"partition": "odd"}, InvalidArgumentError, "partition"),
        ({"remainder": "odd"}, InvalidArgumentError, "remainder"),
        ({"remainder": "error", "rank": 0, "world_size": 3}, InvalidArgumentError, "100"),
        ({"output": "dense"}, InvalidArgumentError, "output.*ndarray"),
        ({"epoch": -1}, InvalidArgumentError, "epoch"),
    ],
)
def test_bad_arguments(change, error, message):
    arguments = {"data_collection": X, "strategy": cf.Streaming(), "batch_size": 8, "seed": 0}
    with pytest.raises(error, match=message):
        cf.scDataset(**{**arguments, **change})


@pytest.mark.filterwarnings("ignore:Observation names are not unique")
def test_batches_are_cut_and_pickled(atlas):
    for output in ("csr", "dense"):
        loader = cf.Loader(cf.open(atlas, obs=["kind"]), cf.Streaming(), 10, output=output)
        batch = next(iter(loader))
        twin = pickle.loads(pickle.dumps(batch))
        for got, rows in (
            (twin, np.arange(10)),
            (batch[[3, 1, 1]], [3, 1, 1]),
            (batch[2:5], [2, 3, 4]),
            (twin[np.arange(10) > 7], [8, 9]),
        ):
            np.testing.assert_array_equal(got.to_numpy(), X[:10][rows])
            np.testing.assert_array_equal(got.index, np.arange(10)[rows])
            assert got.obs.labels("kind").tolist() == KINDS[:10][rows].tolist()
            assert list(got.var_names) == list(batch.var_names)
            assert got.to_anndata().shape == (len(rows), GENES)
        with pytest.raises(OutOfRangeError):
            batch[[10]]
        with pytest.raises(InvalidTypeError):
            batch[0]


def test_without_torch():
    code = """
import sys
sys.modules["torch"] = None
import cellfeed as cf, numpy as np
dataset = cf.scDataset(np.arange(10), cf.BlockShuffling(2), 4, seed=0)
assert sorted(np.concatenate(list(dataset)).tolist()) == list(range(10))
assert type(dataset).__name__ == "scDataset"
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_arrays_side_by_side_are_no_collection():
    x, y = np.zeros((100, 5)), np.zeros(100)
    for data in (
        (x, y),
        [x, y],
        (x, x),
        [x, scipy.sparse.csr_matrix(x), y],
        (pd.DataFrame(x), y),
        (x, [0] * 100),
    ):
        with pytest.raises(cf.errors.InvalidTypeError, match=r"MultiIndexable\(X, y\)"):
            cf.scDataset(data, cf.BlockShuffling(8), 16)
    # Samples of their own shapes, and as many vectors as there are samples, are one.
    for data in (
        [np.zeros(3), np.zeros(4), np.zeros((2, 2))],
        [np.zeros(5)] * 100,
        (np.zeros((64, 64)),) * 10,
    ):
        assert sum(len(batch) for batch in cf.scDataset(data, cf.Streaming(), 16)) == len(data)


def test_names_of_files_are_no_collection(tmp_path):
    (tmp_path / "a.h5ad").write_text("")
    path = tmp_path / "a.h5ad"
    for data in (str(path), path, [path], [str(path), path], "no such file.h5ad"):
        with pytest.raises(cf.errors.InvalidTypeError, match=r"open files with cellfeed\.open"):
            cf.scDataset(data, cf.BlockShuffling(8), 16)
    files = cf.scDataset([path] * 40, cf.Streaming(), 16, batch_transform=list)
    assert [name for batch in files for name in batch] == [path] * 40
    texts = ["a text", "another"] * 20
    batches = list(cf.scDataset(texts, cf.Streaming(), 16))
    assert [text for batch in batches for text in batch] == texts


def test_map_style_data_sets_are_read_by_their_numbers(tmp_path):
    torch = pytest.importorskip("torch")
    data = torch.utils.data
    values = torch.arange(100)
    tensors = data.TensorDataset(values, values * 2)
    subset = data.Subset(tensors, range(20, 90))
    joined = data.ConcatDataset([tensors, subset])
    batches = list(cf.scDataset(tensors, cf.BlockShuffling(4), 16, seed=1))
    assert sorted(int(a) for x, _ in batches for a in x) == list(range(100))
    assert all(torch.equal(y, 2 * x) for x, y in batches)
    groups = cf.scDataset(
        tensors, cf.Streaming(), 2, 1, fetch_transform=lambda group: {"x": group[0], "y": group[1]}
    )
    assert torch.equal(torch.cat([batch["y"] for batch in groups]), 2 * values)
    for collection, expected in (
        (subset, range(20, 90)),
        (joined, [*range(100), *range(20, 90)]),
    ):
        batches = list(cf.scDataset(collection, cf.BlockShuffling(4), 16, seed=1))
        samples = [sample for batch in batches for sample in batch]
        assert sorted(int(a) for a, _ in samples) == sorted(expected)
        assert all(b == 2 * a for a, b in samples)
    batches = list(cf.scDataset(range(100), cf.BlockShuffling(4), 16, seed=1))
    assert sorted(np.concatenate(batches)) == list(range(100))

    adata = anndata.AnnData(np.arange(300, dtype="float32").reshape(60, 5))
    adata.write_h5ad(tmp_path / "a.h5ad")
    mapped = cf.MappedCollection([tmp_path / "a.h5ad"])
    samples = [s for batch in cf.scDataset(mapped, cf.BlockShuffling(4), 16) for s in batch]
    assert sorted(float(sample["X"][0]) for sample in samples) == list(range(0, 300, 5))


def test_what_takes_one_index_at_a_time_is_told_what_to_do():
    class Single:
        def __len__(self):
            return 40

        def __getitem__(self, i):
            return [10, 20, 30][int(i) % 3]

    with pytest.raises(cf.errors.CollectionError, match=r"fetch_callback=lambda data, rows"):
        list(cf.scDataset(Single(), cf.Streaming(), 8))
    read = cf.scDataset(
        Single(), cf.Streaming(), 8, fetch_callback=lambda data, rows: [data[int(i)] for i in rows]
    )
    assert [value for batch in read for value in batch] == [[10, 20, 30][i % 3] for i in range(40)]
