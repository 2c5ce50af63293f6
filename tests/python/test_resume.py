"""Resuming: the remaining batches are exactly those that were not consumed."""

import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from held_program import wait_until
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, InvalidTypeError

N = 60
LABELS = np.resize(["a", "b", "b", "c"], N)
STRATEGIES = [
    cf.Streaming(),
    cf.Streaming(shuffle=True),
    cf.BlockShuffling(4),
    cf.BlockShuffling(1),
    cf.BlockWeightedSampling(4, weights=1.0 + np.arange(N)),
    cf.BlockWeightedSampling(4, weights=1.0 + np.arange(N), replace=False, sampling_size=20),
    cf.ClassBalancedSampling(LABELS, 4),
    cf.WeightedCellSampler(LABELS, curriculum_warmup_epochs=2),
    cf.GroupSampling(labels=LABELS),
]
PROGRAM = Path(__file__).with_name("resume_program.py")


def make(strategy, batch_size=7, seed=1, n=N, **options):
    return cf.scDataset(np.arange(n), strategy, batch_size, 2, seed=seed, **options)


def stream(batches):
    return [np.asarray(batch).tolist() for batch in batches]


def state_after(dataset, steps):
    iterator = iter(dataset)
    for _ in range(steps):
        next(iterator)
    # Through text, as a checkpoint stores it.
    return json.loads(json.dumps(dataset.state_dict()))


@pytest.mark.parametrize("partition", ["interleave", "group"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_every_step_of_an_epoch(strategy, partition):
    options = {"rank": 1, "world_size": 2, "partition": partition}
    whole = make(strategy, **options)
    first, second = stream(whole), stream(whole)
    for steps in range(len(first) + 1):
        resumed = make(strategy, **options)
        resumed.load_state_dict(state_after(make(strategy, **options), steps))
        assert (len(resumed), resumed.n_batches_left) == (len(first), len(first) - steps)
        assert stream(resumed.plan()) == first[steps:]
        assert stream(resumed) == first[steps:]
        assert stream(resumed) == second, "and then the next epoch"


def test_what_is_left_of_an_epoch():
    dataset = make(cf.BlockShuffling(4))
    assert (len(dataset), dataset.n_batches_left) == (9, 9)
    left = []
    for _ in dataset:
        assert len(dataset) == 9
        left.append(dataset.n_batches_left)
    assert left == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert dataset.n_batches_left == 9, "of the next epoch"


@pytest.mark.parametrize("steps", [0, 3, 9])
def test_setting_the_epoch_of_a_loaded_state_keeps_it(steps):
    """The loop that PyTorch's users know: set_epoch(e) before each epoch."""
    expected = [stream(make(cf.BlockShuffling(4)).plan(epoch)) for epoch in range(4)]
    dataset = make(cf.BlockShuffling(4), epoch=2)
    state = state_after(dataset, steps)
    resumed = make(cf.BlockShuffling(4))
    resumed.load_state_dict(state)
    got = []
    for epoch in (2, 3):
        resumed.set_epoch(epoch)
        got.append(stream(resumed))
    assert got == [expected[2][steps:], expected[3]]
    resumed.load_state_dict(state)
    resumed.set_epoch(0)
    assert stream(resumed) == expected[0], "another epoch drops the state"
    resumed.set_epoch(2)
    assert stream(resumed) == expected[2], "for good"


def test_what_a_state_leaves_must_divide_where_asked_to():
    state = state_after(make(cf.BlockShuffling(4)), 2)
    strict = make(cf.BlockShuffling(4), rank=0, world_size=4, remainder="error")
    with pytest.raises(InvalidArgumentError, match="46 samples do not divide over world_size 4"):
        strict.load_state_dict(state)
    assert strict.n_batches_left == len(strict), "nothing was loaded"


def test_a_finished_epoch_continues_with_the_next():
    dataset = make(cf.BlockShuffling(4))
    stream(dataset)
    resumed = make(cf.BlockShuffling(4))
    resumed.load_state_dict(dataset.state_dict())
    assert resumed.epoch == 1
    assert stream(resumed) == stream(dataset)


def test_states_of_resumed_runs():
    """Saved, resumed, saved again before and after a step."""
    expected = stream(make(cf.BlockShuffling(4)))
    dataset = make(cf.BlockShuffling(4))
    dataset.load_state_dict(state_after(make(cf.BlockShuffling(4)), 2))
    untouched = dataset.state_dict()
    twin = make(cf.BlockShuffling(4))
    twin.load_state_dict(untouched)
    assert stream(twin) == expected[2:]
    twin.load_state_dict(state_after(dataset, 3))
    assert stream(twin) == expected[5:]


def test_abandoned_iterators_do_not_disturb():
    dataset = make(cf.BlockShuffling(4))
    old = iter(dataset)
    next(old)
    new = iter(dataset)
    next(new)
    state = dataset.state_dict()
    assert (state["epoch"], state["consumed"]) == (1, 7)
    next(old)
    assert dataset.state_dict() == state, "the iteration that began last counts"
    dataset.set_epoch(5)
    assert (dataset.state_dict()["epoch"], dataset.state_dict()["consumed"]) == (5, 0)


@given(
    n=st.integers(1, 300),
    old_size=st.integers(1, 5),
    new_size=st.integers(1, 5),
    batch_size=st.integers(1, 9),
    new_batch_size=st.integers(1, 9),
    progress=st.floats(0, 1),
    partition=st.sampled_from(["interleave", "group"]),
)
def test_another_world_size(n, old_size, new_size, batch_size, new_batch_size, progress, partition):
    strategy = cf.BlockShuffling(4)

    def ranks_of(size, batch):
        options = {"n": n, "world_size": size, "partition": partition}
        return [make(strategy, batch, rank=r, **options) for r in range(size)]

    old = ranks_of(old_size, batch_size)
    steps = round(progress * len(old[0]))
    plans = [stream(rank.plan()) for rank in old]
    states = [state_after(rank, steps) for rank in old]
    assert all(state == states[0] for state in states), "one state for all ranks"
    new = ranks_of(new_size, new_batch_size)
    for rank in new:
        rank.load_state_dict(states[0])
    rest = [stream(rank) for rank in new]
    assert len({tuple(map(len, batches)) for batches in rest}) == 1
    consumed = [row for plan in plans for batch in plan[:steps] for row in batch]
    remaining = [row for batches in rest for batch in batches for row in batch]
    assert set(consumed) | set(remaining) == set(range(n))
    left = n - len(set(consumed))
    if steps == len(old[0]):
        assert remaining == []
    else:
        assert len(remaining) == left + -left % new_size, "nothing twice but what pads"
        assert len(set(remaining) - set(consumed)) == left


@pytest.mark.parametrize("partition", ["interleave", "group"])
@given(
    old=st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 3, 4, 6, 8])),
    new=st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 3, 4, 6, 8])),
    steps=st.integers(1, 4),
)
def test_batches_of_one_group_stay_so_or_are_refused(partition, old, new, steps):
    strategy = cf.GroupSampling(labels=LABELS)

    def ranks_of(size, batch_size):
        options = {"world_size": size, "partition": partition}
        return [make(strategy, batch_size, rank=rank, **options) for rank in range(size)]

    old_ranks = ranks_of(*old)
    steps = min(steps, len(old_ranks[0]))
    plans = [stream(rank.plan()) for rank in old_ranks]
    state = state_after(old_ranks[0], steps)
    ranks = ranks_of(*new)
    try:
        for rank in ranks:
            rank.load_state_dict(state)
    except InvalidArgumentError as error:
        assert "one group" in str(error) and "world_size" in str(error)
        assert old != new, "the run itself continues"
        if partition == "interleave":
            assert (old[0] * old[1]) % (new[0] * new[1]) or (state["consumed"] % (new[0] * new[1]))
        return
    rest = [stream(rank) for rank in ranks]
    for rank in rest:
        for batch in rank:
            assert len(set(LABELS[batch])) == 1
    consumed = [row for plan in plans for batch in plan[:steps] for row in batch]
    remaining = [row for rank in rest for batch in rank for row in batch]
    assert set(consumed) | set(remaining) == set(range(N))
    whole = [row for plan in plans for batch in plan for row in batch]
    assert sorted(consumed + remaining) == sorted(whole), "padding included"


def test_groups_of_smaller_steps_are_continued():
    """Two ranks of 4, then one of 4, then two of 2: each of its steps lies in one of the old."""
    strategy = cf.GroupSampling(labels=LABELS)
    first = [make(strategy, 4, rank=rank, world_size=2) for rank in range(2)]
    whole = [row for rank in first for batch in stream(rank.plan()) for row in batch]
    second = make(strategy, 4)
    second.load_state_dict(state_after(first[0], 2))
    assert len(second) == -(-len(whole) // 4)
    state = state_after(second, 3)
    third = [make(strategy, 2, rank=rank, world_size=2) for rank in range(2)]
    rest = []
    for rank in third:
        rank.load_state_dict(state)
        rest += stream(rank)
    assert all(len(set(LABELS[batch])) == 1 for batch in rest)
    assert sum(map(len, rest)) == len(whole) - 2 * 8 - 3 * 4


class Virtual:
    def __len__(self):
        return 10**10

    def __getitem__(self, rows):
        return rows


def test_random_steps_of_ten_billion_samples_in_no_time():
    whole = cf.scDataset(Virtual(), cf.BlockShuffling(64), 1024, seed=1, rank=2, world_size=4)
    n_batches = len(whole)
    plan = whole._schedule.make_plan(0)
    state = state_after(whole, 1)
    began = time.process_time()
    for step in np.random.default_rng(0).integers(0, n_batches - 1, size=20).tolist():
        state["consumed"] = step * 4096
        resumed = cf.scDataset(Virtual(), cf.BlockShuffling(64), 1024, seed=1, rank=2, world_size=4)
        resumed.load_state_dict(state)
        assert next(resumed.plan()).tolist() == plan.batch(step)[0].tolist()
        assert (len(resumed), resumed.n_batches_left) == (n_batches, n_batches - step)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": N - 1}, "another collection"),
        ({"strategy": cf.BlockShuffling(5)}, "another sampling strategy"),
        ({"strategy": cf.Streaming()}, "another sampling strategy"),
        ({"seed": 2}, "seed 1, not 2"),
        ({"partition": "group"}, "partition 'interleave', not 'group'"),
    ],
)
def test_states_of_other_runs_are_refused(change, message):
    state = state_after(make(cf.BlockShuffling(4)), 2)
    dataset = make(**{"strategy": cf.BlockShuffling(4), **change})
    with pytest.raises(InvalidArgumentError, match=message):
        dataset.load_state_dict(state)


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda state: None, "state"),
        (lambda state: {}, "state"),
        (lambda state: {**state, "version": 99}, "99"),
        (lambda state: {k: v for k, v in state.items() if k != "epoch"}, "epoch"),
        (lambda state: {**state, "consumed": -1}, "consumed.*-1"),
        (lambda state: {**state, "version": True}, "state"),
        (lambda state: {**state, "version": [10**5000]}, "huge"),
        (lambda state: {**state, "worker": {}}, "worker"),
        (lambda state: {**state, "worker": 3}, "worker"),
        (
            lambda state: {
                **state, "worker": {"index": 0, "count": 1, "next_batch": 0, "step_samples": 7}
            },
            "worker 0 of 1",
        ),
        *(
            (lambda state, key=key, value=value: {**state, key: value}, key)
            for key in (
                "seed", "epoch", "consumed", "order_step_samples", "order_fetch_samples",
                "order_batch_size", "partition",
            )
            for value in (
                -1, 2**63, 10**5000, True, 1.0, float("nan"), "1", None, [1], {"a": [1]},
            )
        ),
        (lambda state: {**state, "consumed": N + 1}, f"consumed {N + 1} samples"),
        (lambda state: {**state, "collection": [1]}, "another collection"),
        (lambda state: {**state, "strategy": 10**5000}, "another sampling strategy"),
    ],
)  # fmt: skip
def test_spoilt_states_are_refused(spoil, word):
    dataset = make(cf.BlockShuffling(4), seed=None)
    before = dataset.state_dict()
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=word):
        dataset.load_state_dict(spoil(state_after(dataset, 2)))
    dataset.set_epoch(0)
    assert dataset.state_dict() == before


def test_a_drawn_seed_comes_back_with_the_state():
    dataset = make(cf.BlockShuffling(4), seed=None)
    state = state_after(dataset, 2)
    resumed = make(cf.BlockShuffling(4), seed=None)
    resumed.load_state_dict(state)
    assert resumed.seed == dataset.seed
    dataset.set_epoch(0)
    assert stream(resumed) == stream(dataset)[2:]


# Worker processes --------------------------------------------------------------------------------


def test_the_parent_of_workers_does_not_guess():
    dataset = make(cf.BlockShuffling(4))
    next(iter(DataLoader(dataset, batch_size=None, num_workers=2)))
    with pytest.raises(InvalidArgumentError, match="StatefulDataLoader"):
        dataset.state_dict()
    dataset.set_epoch(3)
    assert dataset.state_dict()["epoch"] == 3


def test_a_state_loaded_in_the_parent_reaches_workers_once():
    expected = make(cf.BlockShuffling(4))
    first, second = stream(expected), stream(expected)
    for persistent in (False, True):
        dataset = make(cf.BlockShuffling(4))
        dataset.load_state_dict(state_after(make(cf.BlockShuffling(4)), 3))
        loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=persistent)
        assert stream(loader) == first[3:]
        assert stream(loader) == second


def test_a_state_loaded_in_the_parent_reaches_workers_that_run():
    first, second, third = (stream(make(cf.BlockShuffling(4)).plan(epoch)) for epoch in range(3))
    dataset = make(cf.BlockShuffling(4), seed=None)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    stream(loader)
    dataset.load_state_dict(state_after(make(cf.BlockShuffling(4)), 3))
    dataset.set_epoch(0)
    assert dataset.n_batches_left == 6
    assert [stream(loader) for _ in range(3)] == [first[3:], second, third]


@pytest.mark.filterwarnings("ignore:.*set_vital")
@pytest.mark.parametrize(
    ("num_workers", "after"),
    [(0, (0, 1, 4, 9)), (2, (0, 4)), pytest.param(2, (1, 9), marks=pytest.mark.slow)],
)
def test_stateful_data_loader(num_workers, after):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def loader():
        return stateful(make(cf.BlockShuffling(4)), batch_size=None, num_workers=num_workers)

    reference = make(cf.BlockShuffling(4))
    first, second, third = stream(reference), stream(reference), stream(reference)
    assert len(first) == 9
    for steps in after:
        before = loader()
        iterator = iter(before)
        assert stream(next(iterator) for _ in range(steps)) == first[:steps]
        resumed = loader()
        resumed.load_state_dict(before.state_dict())
        assert stream(resumed) == first[steps:]
        assert stream(resumed) == second
    finished = loader()
    stream(finished)
    resumed = loader()
    resumed.load_state_dict(finished.state_dict())
    assert stream(resumed) == second
    assert stream(resumed) == third


@pytest.mark.filterwarnings("ignore:.*set_vital")
def test_persistent_stateful_workers():
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    epochs = [stream(make(cf.BlockShuffling(4)).plan(epoch)) for epoch in range(4)]

    def loader():
        dataset = make(cf.BlockShuffling(4))
        return stateful(dataset, batch_size=None, num_workers=2, persistent_workers=True)

    for steps in (0, 3):
        before = loader()
        assert stream(before) == epochs[0]
        iterator = iter(before)
        assert stream(next(iterator) for _ in range(steps)) == epochs[1][:steps]
        resumed = loader()
        resumed.load_state_dict(before.state_dict())
        assert stream(resumed) == epochs[1][steps:]
        assert stream(resumed) == epochs[2]
        assert stream(resumed) == epochs[3]


# Processes that are killed -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    path = tmp_path_factory.mktemp("atlas") / "a.h5ad"
    x = scipy.sparse.random(200, 10, density=0.3, format="csr", dtype=np.float32, random_state=0)
    names = pd.DataFrame(index=[f"c{i}" for i in range(200)])
    genes = pd.DataFrame(index=[f"g{i}" for i in range(10)])
    anndata.AnnData(x, obs=names, var=genes).write_h5ad(path)
    return path


def test_a_killed_process_is_continued_by_another(atlas, tmp_path):
    log = tmp_path / "log"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(atlas), str(log)], env=environment
    )
    try:
        wait_until(lambda: log.exists() and log.read_text().count("\n") >= 9, process)
    finally:
        process.kill()
        process.wait()
    lines = [json.loads(line) for line in log.read_text().splitlines(True) if line.endswith("\n")]
    assert len(lines) >= 9
    make_loader = runpy.run_path(str(PROGRAM))["make_loader"]
    resumed = make_loader(atlas)
    resumed.load_state_dict(lines[-1]["state"])
    rows = [line["rows"] for line in lines]
    rows += [batch.index.tolist() for _ in range(2) for batch in resumed]
    whole = make_loader(atlas)
    assert rows == [batch.index.tolist() for _ in range(2) for batch in whole]


def test_a_loader_refuses_another_collection(atlas, tmp_path):
    make_loader = runpy.run_path(str(PROGRAM))["make_loader"]
    loader = make_loader(atlas)
    next(iter(loader))
    other = tmp_path / "b.h5ad"
    adata = anndata.read_h5ad(atlas)
    adata[:150].copy().write_h5ad(other)
    with pytest.raises(InvalidArgumentError, match="another collection"):
        make_loader(other).load_state_dict(loader.state_dict())
    with pytest.raises(InvalidArgumentError, match="seed"):
        make_loader(atlas, seed=6).load_state_dict(loader.state_dict())


def test_every_step_of_a_loader_and_from_four_ranks_to_three(atlas):
    cells = cf.open(atlas)

    def loaders(world_size, epoch=None):
        return [
            cf.Loader(
                cells, cf.BlockShuffling(4), 6, fetch_factor=3, seed=5, rank=rank,
                world_size=world_size, epoch=epoch,
            )
            for rank in range(world_size)
        ]  # fmt: skip

    plans = [stream(rank.plan()) for rank in loaders(4)]
    for steps in range(len(plans[0]) + 1):
        old = loaders(4)
        iterators = [iter(rank) for rank in old]
        consumed = {
            row for it in iterators for _ in range(steps) for row in next(it).index.tolist()
        }
        state = json.loads(json.dumps(old[3].state_dict()))
        same, other = loaders(4, epoch=7), loaders(3, epoch=7)
        for rank in [*same, *other]:
            rank.load_state_dict(state)
        for rank, plan in zip(same, plans, strict=True):
            assert [b.index.tolist() for b in rank] == plan[steps:]
        rest = [b.index[~b.is_padding].tolist() for rank in other for b in rank]
        rows = [row for batch in rest for row in batch]
        assert sorted(rows) == sorted(set(range(200)) - consumed)
