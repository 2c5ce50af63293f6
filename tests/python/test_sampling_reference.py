"""The engine's orders and plans equal those of the plain-Python reference, through the Python
face."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellfeed as cf

reference = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).with_name("sampling_reference.py")))
)
LABELS = [-1 if i % 9 == 8 else i * i % 4 for i in range(50)]
TEXTS = [None if label < 0 else "abcd"[label] for label in LABELS]
WEIGHTS = [0.0 if i % 5 == 4 else 1.0 + i % 7 for i in range(50)]
ROWS = [40, 3, 3, 17, 49, 8, 0, 21, 22, 23, 30]

CASES = [
    (cf.Streaming(), lambda **k: reference.Streaming(range(50), **k)),
    (cf.Streaming(shuffle=True), lambda **k: reference.Streaming(range(50), True, **k)),
    (
        cf.Streaming(ROWS, shuffle_buffer=6),
        lambda **k: reference.Streaming(ROWS, shuffle_buffer=6, **k),
    ),
    (cf.BlockShuffling(8), lambda **k: reference.BlockShuffling(range(50), 8, **k)),
    (cf.BlockShuffling(1), lambda **k: reference.BlockShuffling(range(50), 1, **k)),
    (cf.BlockShuffling(4, ROWS), lambda **k: reference.BlockShuffling(ROWS, 4, **k)),
    (
        cf.BlockShuffling(8, drop_last=True),
        lambda **k: reference.BlockShuffling(range(50), 8, True, **k),
    ),
    (
        cf.WholeShards(3, [0, 4, 24, 24, 31, 50]),
        lambda **k: reference.WholeShards([4, 20, 0, 7, 19], 3, **k),
    ),
    (
        cf.BlockWeightedSampling(8, weights=WEIGHTS),
        lambda **k: reference.BlockWeightedSampling(WEIGHTS, 8, **k),
    ),
    (
        cf.BlockWeightedSampling(1, weights=WEIGHTS, total_size=70),
        lambda **k: reference.BlockWeightedSampling(WEIGHTS, 1, 70, **k),
    ),
    (
        cf.BlockWeightedSampling(4, None, WEIGHTS, 35, replace=False, sampling_size=15),
        lambda **k: reference.BlockWeightedSampling(WEIGHTS, 4, 35, False, 15, **k),
    ),
    (
        cf.ClassBalancedSampling(TEXTS, 4, smoothing=0.5),
        lambda **k: reference.ClassBalancedSampling(LABELS, 4, smoothing=0.5, **k),
    ),
    (
        cf.ClassBalancedSampling(TEXTS, 1),
        lambda **k: reference.ClassBalancedSampling(LABELS, 1, **k),
    ),
    (
        cf.WeightedCellSampler(TEXTS, curriculum_warmup_epochs=5),
        lambda **k: reference.WeightedCellSampler(LABELS, True, 5, **k),
    ),
    (
        cf.WeightedCellSampler(TEXTS, False, curriculum_warmup_epochs=5),
        lambda **k: reference.WeightedCellSampler(LABELS, False, 5, **k),
    ),
    (cf.GroupSampling(labels=TEXTS), lambda **k: reference.GroupSampling(LABELS, **k)),
    (
        cf.GroupSampling(labels=TEXTS, drop_last=True),
        lambda **k: reference.GroupSampling(LABELS, True, **k),
    ),
]


@pytest.mark.parametrize("partition", ["interleave", "group"])
@pytest.mark.parametrize(
    ("strategy", "expected"),
    CASES,
    ids=lambda case: "reference" if callable(case) else repr(case)[:60],
)
@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 9),
    world_size=st.integers(1, 5),
    batch_size=st.integers(1, 7),
    fetch_factor=st.integers(1, 4),
)
def test_batches_equal_the_reference(
    strategy, expected, partition, seed, epoch, world_size, batch_size, fetch_factor
):
    step = world_size * batch_size
    is_group = partition == "group"
    if strategy.bind(range(50)).length(epoch, step) == 0:
        return  # GroupSampling(drop_last=True): no group fills a batch
    fetch = (batch_size if is_group else step) * fetch_factor
    for rank in range(world_size):
        dataset = cf.scDataset(
            np.arange(50),
            strategy,
            batch_size,
            fetch_factor,
            rank=rank,
            world_size=world_size,
            seed=seed,
            partition=partition,
        )
        got = [batch.tolist() for batch in dataset.plan(epoch)]
        order = expected(seed=seed, epoch=epoch, step_samples=step, fetch_samples=fetch)
        length = strategy.bind(range(50)).length(epoch, step)
        plan = reference.plan(
            order,
            length,
            batch_size=batch_size,
            fetch_factor=fetch_factor,
            rank=rank,
            world_size=world_size,
            group=is_group,
        )
        assert got == [[row for row, _ in batch] for batch in plan]


SIZES = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 3))


@pytest.mark.parametrize("partition", ["interleave", "group"])
@settings(max_examples=60)
@given(first_run=SIZES, now=SIZES, progress=st.floats(0, 0.99), n=st.integers(1, 90))
def test_what_a_resumed_run_deals_equals_the_reference(partition, first_run, now, progress, n):
    def data_set(world_size, batch_size, fetch_factor, rank):
        return cf.scDataset(
            np.arange(n), cf.BlockShuffling(4), batch_size, fetch_factor, rank=rank,
            world_size=world_size, seed=7, partition=partition, epoch=2,
        )  # fmt: skip

    before = data_set(*first_run, rank=0)
    iterator = iter(before)
    for _ in range(int(progress * len(before))):
        next(iterator)
    state = before.state_dict()
    is_group = partition == "group"
    old_world_size, old_size, factor = first_run
    step = old_world_size * old_size
    order = reference.BlockShuffling(
        range(n), 4, seed=7, epoch=2, step_samples=step,
        fetch_samples=(old_size if is_group else step) * factor,
    )  # fmt: skip
    if state["consumed"] == 0:
        return  # nothing is resumed: the sizes of now count
    world_size, batch_size, fetch_factor = now
    for rank in range(world_size):
        resumed = data_set(*now, rank=rank)
        resumed.load_state_dict(state)
        expected = reference.plan(
            order, n, batch_size=batch_size, fetch_factor=fetch_factor, rank=rank,
            world_size=world_size, group=is_group, consumed=state["consumed"], first_run=first_run,
        )  # fmt: skip
        assert [b.tolist() for b in resumed.plan()] == [[row for row, _ in b] for b in expected]
