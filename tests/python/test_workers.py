"""Worker processes of a DataLoader: the stream of batches is that of no workers at all."""

import itertools
import multiprocessing
import pickle

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed._iteration.epochs import EpochCounter, Position
from cellfeed._iteration.worker import Worker
from cellfeed.errors import InvalidArgumentError

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
N = 150


def make_dataset(**options):
    return cf.scDataset(np.arange(N), cf.BlockShuffling(4), 8, 3, seed=1, **options)


def stream(loader):
    return [batch.tolist() for batch in loader]


@pytest.fixture(scope="module")
def epochs():
    """Rows of the batches of six epochs."""
    dataset = make_dataset()
    return [[rows.tolist() for rows in dataset.plan(epoch)] for epoch in range(6)]


OF_EACH_KIND = [
    ("fork", 1, False), ("fork", 3, True), ("spawn", 1, True), ("forkserver", 1, True),
]  # fmt: skip
MORE = [("fork", 1, True), ("fork", 3, False), ("spawn", 3, False), ("forkserver", 3, False)]


@pytest.mark.parametrize(
    ("start", "num_workers", "persistent"),
    [*OF_EACH_KIND, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)],
)
def test_workers_do_not_change_the_batches(epochs, start, num_workers, persistent):
    context = multiprocessing.get_context(start)
    if start == "forkserver":
        context.set_forkserver_preload(["torch"])  # imported once
    loader = DataLoader(
        make_dataset(),
        batch_size=None,
        num_workers=num_workers,
        multiprocessing_context=context,
        persistent_workers=persistent,
    )
    for epoch in range(2):
        assert stream(loader) == epochs[epoch]


@pytest.mark.slow
def test_workers_on_ranks(epochs):
    for partition, rank in itertools.product(["interleave", "group"], range(2)):
        options = {"rank": rank, "world_size": 2, "partition": partition}
        expected = make_dataset(**options)
        loader = DataLoader(make_dataset(**options), batch_size=None, num_workers=2)
        for epoch in range(2):
            assert stream(loader) == [rows.tolist() for rows in expected.plan(epoch)]


@pytest.mark.slow
def test_every_kind_of_iteration_advances_one_count(epochs):
    dataset = make_dataset()
    plain = DataLoader(dataset, batch_size=None)
    fresh = DataLoader(dataset, batch_size=None, num_workers=2)
    kept = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    for epoch, loader in enumerate([plain, fresh, kept, dataset, kept, fresh]):
        assert stream(loader) == epochs[epoch]
    assert dataset.epoch == 6


def test_set_epoch_reaches_workers(epochs):
    dataset = make_dataset()
    kept = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    for epoch in (3, 1, 1):
        dataset.set_epoch(epoch)
        assert stream(kept) == epochs[epoch]
    assert stream(kept) == epochs[2]


@pytest.mark.slow
def test_abandoned_epochs_count_once(epochs):
    dataset = make_dataset()
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    for epoch in range(3):
        iterator = iter(loader)
        assert next(iterator).tolist() == epochs[epoch][0]
        del iterator
    assert stream(loader) == epochs[3]


@pytest.mark.slow
def test_a_generator_seeded_alike_each_epoch(epochs):
    """Torch then numbers the workers of every epoch alike."""
    dataset = make_dataset()
    for epoch in range(3):
        torch.manual_seed(0)
        loader = DataLoader(dataset, batch_size=None, num_workers=2)
        assert stream(loader) == epochs[epoch]


@pytest.mark.slow
def test_two_loaders_side_by_side(epochs):
    dataset = make_dataset()
    one, two = (iter(DataLoader(dataset, batch_size=None, num_workers=2)) for _ in range(2))
    got = sorted([stream(one), stream(two)])
    assert got == sorted(epochs[:2])


def write_atlas(path):
    random = np.random.default_rng(0)
    x = scipy.sparse.csr_matrix(random.poisson(0.4, size=(N, 20)).astype(np.float32))
    obs = pd.DataFrame(
        {"kind": pd.Categorical(np.resize(["B", "T"], N))}, index=[f"c{i}" for i in range(N)]
    )
    anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=[f"g{i}" for i in range(20)])).write_h5ad(
        path
    )
    return path


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_batches_of_our_collection_come_from_workers(tmp_path, epochs, start):
    cells = cf.open(write_atlas(tmp_path / "a.h5ad"), obs=["kind"])
    expected = list(cf.scDataset(cells, cf.BlockShuffling(4), 8, 3, seed=1))
    dataset = cf.scDataset(cells, cf.BlockShuffling(4), 8, 3, seed=1)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=start)
    for batch, alone, rows in zip(loader, expected, epochs[0], strict=True):
        assert batch.index.tolist() == rows
        np.testing.assert_array_equal(batch.to_numpy(), alone.to_numpy())
        assert batch.obs.labels("kind").tolist() == alone.obs.labels("kind").tolist()
        assert list(batch.var_names) == list(alone.var_names)
        assert batch.to_torch().shape == (len(rows), 20)


@pytest.mark.slow
def test_a_loader_is_an_iterable_data_set(tmp_path, epochs):
    cells = cf.open(write_atlas(tmp_path / "a.h5ad"))
    loader = cf.Loader(cells, cf.BlockShuffling(4), 8, fetch_factor=3, seed=1)
    for num_workers, epoch in ((0, 0), (2, 1), (0, 2)):
        batches = DataLoader(loader, batch_size=None, num_workers=num_workers)
        assert [batch.index.tolist() for batch in batches] == epochs[epoch]


def test_errors_of_a_worker_reach_the_consumer():
    class Faulty:
        def __len__(self):
            return 10

        def __getitem__(self, rows):
            raise OSError("disk gone")

    dataset = cf.scDataset(Faulty(), cf.Streaming(), 2, seed=0)
    with pytest.raises(cf.errors.CollectionError, match="disk gone"):
        list(DataLoader(dataset, batch_size=None, num_workers=1))


# The count itself --------------------------------------------------------------------------------


def worker(index, count=2, token=(1 << 62) + 5):
    return Worker(index, count, token)


@pytest.mark.slow
def test_workers_of_one_iteration_share_an_epoch():
    count = EpochCounter(4)
    assert [count.start(worker(i), 0)[0] for i in (1, 0)] == [4, 4]
    assert [count.start(worker(i), 1)[0] for i in (0, 1)] == [5, 5], "persistent workers"
    assert [count.start(worker(i), 0)[0] for i in (0, 1)] == [6, 6], "the same token again"
    other = (1 << 62) + 9
    assert [count.start(worker(i, token=other), 0)[0] for i in (0, 1)] == [7, 7]
    assert count.start(Worker(), 0)[0] == 8
    many = [count.start(Worker(i, 1000, other + 1), 0)[0] for i in range(1000)]
    assert set(many) == {9}


@pytest.mark.slow
def test_only_one_iteration_resumes():
    position = Position(5, 3, 12, 2, 4, 1, 1)
    count = EpochCounter()
    count.set(3, position)
    assert count.pending() == position
    assert [count.start(worker(i), 0) for i in (0, 1)] == [(3, position), (3, position)]
    assert count.pending() is None
    assert [count.start(worker(i), 1) for i in (0, 1)] == [(4, None), (4, None)]
    count.set(3, position)
    assert count.start(worker(0), 2) == (3, position)
    count.set(2, position)
    with pytest.raises(InvalidArgumentError, match="while worker processes"):
        count.start(worker(1), 2)


@pytest.mark.slow
def test_forked_copies_count_on_their_own():
    """Those of ranks; the workers of each rank share its count."""
    dataset = make_dataset(epoch=1)
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()

    def run():
        loader = DataLoader(dataset, batch_size=None, num_workers=2)
        queue.put([stream(dataset), stream(loader), stream(dataset)])

    ranks = [fork.Process(target=run) for _ in range(2)]
    for rank in ranks:
        rank.start()
    dataset.set_epoch(5)
    expected = [[rows.tolist() for rows in dataset.plan(epoch)] for epoch in (1, 2, 3)]
    assert [queue.get(timeout=60) for _ in ranks] == [expected, expected]
    for rank in ranks:
        rank.join()
    assert dataset.epoch == 5


@pytest.mark.slow
def test_copies_count_on_their_own():
    dataset = make_dataset()
    next(iter(dataset))
    twin = pickle.loads(pickle.dumps(dataset))
    assert (dataset.epoch, twin.epoch) == (1, 1)
    next(iter(twin))
    assert (dataset.epoch, twin.epoch) == (1, 2)
