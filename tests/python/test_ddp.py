"""Groups of real processes (gloo): every strategy, worker processes, and a training step of DDP."""

import collections
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cellfeed as cf

PROGRAM = Path(__file__).with_name("ddp_program.py")


FEW = ["Streaming", "BlockShuffling", "GroupSampling"]


def start(folder, *names):
    """Groups of ranks that read by these strategies, or by every one; returns the folder."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), *names],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def written(folder, world_size):
    """What each rank of a group wrote."""
    files = [folder / str(world_size) / f"rank{rank}.json" for rank in range(world_size)]
    return [json.loads(file.read_text()) for file in files]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What every rank of every group wrote."""
    return start(tmp_path_factory.mktemp("ranks"))


@pytest.fixture(params=[2, 3, 4], ids=lambda w: f"{w} ranks")
def group(request, folder):
    return written(folder, request.param)


@pytest.fixture(scope="module")
def program():
    return runpy.run_path(str(PROGRAM))


def assert_dealt_exactly(group, program, names):
    world_size = len(group)
    for n in program["SIZES"]:
        for name in names:
            strategy = program["strategies"](n)[name]
            ranks = [rank["rows"][f"{name} {n}"] for rank in group]
            assert len({rank["seed"] for rank in ranks}) == 1, "one seed for all"
            for epoch in range(2):
                batches = [rank["epochs"][epoch] for rank in ranks]
                sizes = [[len(b) for b in rank] for rank in batches]
                assert all(s == sizes[0] for s in sizes), f"{name} {n}: {sizes}"
                order = strategy.bind(range(n))
                step = world_size * program["BATCH_SIZE"]
                length = order.length(epoch, step)
                rows = order.order(
                    ranks[0]["seed"], epoch, 0, length, 1, step, step * program["FETCH_FACTOR"]
                )
                rows = np.where(rows < 0, ~rows, rows).tolist()
                rows += [rows[i % length] for i in range(-length % world_size)]
                seen = collections.Counter(row for rank in batches for b in rank for row in b)
                assert seen == collections.Counter(rows), f"{name} {n} epoch {epoch}"
                # Rank r takes positions r, r + W, ... of the order.
                assert [row for b in batches[1] for row in b] == rows[1::world_size]


def test_some_strategies_are_dealt_exactly_to_two_ranks(tmp_path, program):
    assert_dealt_exactly(written(start(tmp_path, *FEW), 2), program, FEW)


@pytest.mark.slow
def test_every_strategy_is_dealt_exactly(group, program):
    assert_dealt_exactly(group, program, program["strategies"](1))


@pytest.mark.slow
def test_epochs_differ(group):
    for rank in group:
        first, second = rank["rows"]["BlockShuffling 100"]["epochs"]
        assert first != second


@pytest.mark.slow
def test_gradients_equal_those_of_one_process(group, program):
    loader = program["make_training_set"](24, rank=0, world_size=1)
    import torch

    batches = [torch.from_numpy(batch) for batch in loader]
    alone = program["train"](program["make_model"](), batches, steps=4)
    assert len(alone) == 4
    for rank in group:
        np.testing.assert_allclose(rank["gradients"], alone, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_group_sampling_keeps_ranks_in_one_group(group, program):
    labels = np.resize(program["LABELS"], 100)
    steps = zip(*(rank["rows"]["GroupSampling 100"]["epochs"][0] for rank in group), strict=True)
    for step in steps:
        assert len({labels[row] for batch in step for row in batch}) == 1


def test_manual_ranks_need_no_group():
    rows = [
        np.concatenate(
            list(cf.scDataset(np.arange(9), cf.Streaming(), 2, rank=r, world_size=2))
        ).tolist()
        for r in range(2)
    ]
    assert rows == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 0]]
