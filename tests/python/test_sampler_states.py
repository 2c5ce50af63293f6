"""Samplers in torchdata's StatefulDataLoader: a broken-off run goes on in its own order."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from tiers import fast

import cellfeed as cf
from cellfeed.data.distributed import DistributedShardSampler
from cellfeed.data.sampling import WeightedCellSampler

torch = pytest.importorskip("torch")
torchdata = pytest.importorskip("torchdata.stateful_dataloader")
pytestmark = pytest.mark.filterwarnings("ignore:.*set_vital")

N = 1020
LABELS = np.array(["a", "b", "c"])[np.arange(N) % 7 % 3]


class Shards:
    shard_offsets = np.minimum(np.arange(0, N + 100, 100), N)


SAMPLERS = {
    "shards": lambda **ranks: DistributedShardSampler(Shards(), seed=4, **ranks),
    "shards in order": lambda **ranks: DistributedShardSampler(Shards(), shuffle=False, **ranks),
    "weighted": lambda **ranks: WeightedCellSampler(LABELS, seed=4, **ranks),
    "curriculum": lambda **ranks: WeightedCellSampler(
        LABELS, replacement=False, seed=4, curriculum_warmup_epochs=3, **ranks
    ),
}


FOUR_AND_WORKERS = [
    *((name, 0) for name in SAMPLERS), ("shards", 2), ("curriculum", 2),
]  # fmt: skip


@pytest.fixture(params=SAMPLERS)
def make(request):
    """A sampler of rank 1 of 2, anew."""
    return lambda **ranks: SAMPLERS[request.param](**({"num_replicas": 2, "rank": 1} | ranks))


def loader_of(sampler, n_workers):
    return torchdata.StatefulDataLoader(
        list(range(N)), batch_size=50, sampler=sampler, num_workers=n_workers
    )


def rows(batches):
    return [row for batch in batches for row in batch.tolist()]


@pytest.mark.parametrize("n_workers", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("n_before", [1, 4, 11])
def test_a_run_goes_on_where_it_was(make, n_workers, n_before):
    sampler = make()
    epochs = [list(sampler) for _ in range(4)]
    loader = loader_of(make(), n_workers)
    assert rows(loader) == epochs[0]
    reading = iter(loader)
    done = [next(reading) for _ in range(n_before)]
    state = json.loads(json.dumps(loader.state_dict(), default=lambda value: value.tolist()))
    if n_workers:  # torchdata's own states hold more than JSON does
        state = loader.state_dict()
    del reading
    again = loader_of(make(), n_workers)
    again.load_state_dict(state)
    assert rows(done) + rows(again) == epochs[1]
    assert [rows(again) for _ in range(2)] == epochs[2:]


def test_a_state_between_epochs_begins_the_next(make):
    sampler = make()
    epochs = [list(sampler) for _ in range(3)]
    loader = loader_of(make(), 0)
    for _ in range(2):
        rows(loader)
    again = loader_of(make(), 0)
    again.load_state_dict(loader.state_dict())
    assert rows(again) == epochs[2]


def test_iterators_that_are_not_advanced_take_no_epoch(make):
    sampler = make()
    first = list(make())
    iter(sampler), iter(sampler)
    assert sampler.epoch == 0
    assert list(sampler) == first
    assert sampler.epoch == 1


def test_epochs_that_are_set_are_those_that_are_read(make):
    sampler, other = make(), make()
    sampler.set_epoch(2)
    epochs = [list(other) for _ in range(4)]
    reading = iter(sampler)
    done = [next(reading) for _ in range(30)]
    again = make()
    going_on = iter(again)
    going_on.load_state_dict(reading.state_dict())
    assert done + list(going_on) == epochs[2]
    assert again.epoch == 3 and list(again) == epochs[3]


@pytest.mark.parametrize(
    ("make", "n_workers"), fast(FOUR_AND_WORKERS, product(SAMPLERS, [0, 2])), indirect=["make"]
)
def test_a_state_before_the_first_sample_is_of_its_epoch(make, n_workers):
    sampler = make()
    epochs = [list(sampler) for _ in range(4)]
    loader = loader_of(make(), n_workers)
    for _ in range(2):
        rows(loader)
    reading = iter(loader)
    state = loader.state_dict()
    del reading
    again = loader_of(make(), n_workers)
    again.load_state_dict(state)
    assert [rows(again) for _ in range(2)] == epochs[2:]


def test_states_of_others_are_refused(make):
    state = iter(make())
    next(state)
    state = state.state_dict()
    for other in (make(num_replicas=3), SAMPLERS["weighted"](num_replicas=2, rank=1)):
        if iter(other).state_dict()["sampler"] == state["sampler"]:
            continue
        with pytest.raises(cf.errors.InvalidArgumentError, match="belongs to a sampler of other"):
            iter(other).load_state_dict(state)
    for wrong in ({}, None, {**state, "version": 99}):
        with pytest.raises(cf.errors.InvalidArgumentError, match="not a state of this version"):
            iter(make()).load_state_dict(wrong)
    for n in (-1, len(make()) + 1, 10**9):
        with pytest.raises(cf.errors.InvalidArgumentError, match="yielded of the state"):
            iter(make()).load_state_dict({**state, "yielded": n})
    over = iter(make())
    over.load_state_dict({**state, "yielded": len(make())})
    assert list(over) == []
    # Of any rank.
    assert list(iter(make(rank=0))) != list(iter(make()))
    other_rank = iter(make(rank=0))
    other_rank.load_state_dict(state)
    assert list(other_rank) == list(make(rank=0))[1:]
