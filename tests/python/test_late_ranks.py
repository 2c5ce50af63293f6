"""Data sets made before the process group: ranks are found out when an iteration begins."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import cellfeed as cf
from cellfeed.data.distributed import DistributedShardSampler
from cellfeed.errors import InvalidArgumentError

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("late_ranks_program.py")
N = 101


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    path = tmp_path_factory.mktemp("atlas") / "a.h5ad"
    x = scipy.sparse.random(N, 10, density=0.3, format="csr", dtype=np.float32, random_state=0)
    obs = pd.DataFrame(
        {"kind": pd.Categorical(np.resize(["B", "T"], N))}, index=[f"c{i}" for i in range(N)]
    )
    genes = pd.DataFrame(index=[f"g{i}" for i in range(10)])
    anndata.AnnData(x, obs=obs, var=genes).write_h5ad(path, compression="gzip")
    return path


@pytest.fixture(scope="module", params=["spawn", "fork"])
def ranks(request, atlas, tmp_path_factory):
    """What each of two ranks wrote."""
    folder = tmp_path_factory.mktemp(request.param)
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")},
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), request.param, str(atlas), str(folder)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"rank{r}.json").read_text()) for r in range(2)]


@pytest.mark.parametrize(
    ("case", "n"),
    [
        ("Loader", N),
        ("Loader, asked for its length", N),
        ("Loader in workers", N),
        ("scDataset", N - 1),
        ("scDataset over cells", N),
        ("scDataset in workers", N - 1),
    ],
)
def test_two_ranks_see_each_cell_once(ranks, case, n):
    orders = []
    for epoch in range(2):
        batches = [rank[case]["epochs"][epoch] for rank in ranks]
        assert [len(b) for b in batches] == [rank[case]["length"] for rank in ranks]
        rows = [row for rank in batches for batch in rank for row in batch]
        assert sorted(rows) == list(range(n)), f"epoch {epoch}"
        orders.append(rows)
    assert orders[0] != orders[1], "the next epoch has another order"


def test_workers_of_late_groups_do_not_guess_the_seed(ranks):
    for rank in ranks:
        assert "pass seed=" in rank["scDataset in workers, without a seed"]["error"]


# One process, whose environment tells of ranks ----------------------------------------------------


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)

    def become(rank, world_size):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world_size))

    return become


def test_ranks_are_those_of_now(atlas, environment):
    cells = cf.open(atlas)

    def make(kind, **options):
        return kind(cells, cf.BlockShuffling(4), 8, seed=0, fetch_factor=2, **options)

    early = [make(cf.Loader), make(cf.scDataset)]
    assert [(made.rank, made.world_size, len(made)) for made in early] == [(0, 1, 13)] * 2
    environment(1, 2)
    given = [rows.tolist() for rows in make(cf.Loader, rank=1, world_size=2).plan()]
    for made in early:
        assert (made.rank, made.world_size, len(made)) == (1, 2, 7)
        assert [rows.tolist() for rows in made.plan()] == given
        assert [batch.index.tolist() for batch in made] == given


def test_a_sampler_of_shards_has_the_ranks_of_now(environment):
    class Shards:
        shard_offsets = (0, 4, 9)

    sampler = DistributedShardSampler(Shards())
    assert (sampler.num_replicas, len(sampler)) == (1, 9)
    rows = []
    for rank in range(2):
        environment(rank, 2)
        assert (sampler.rank, sampler.num_replicas, len(sampler)) == (rank, 2, 5)
        sampler.set_epoch(0)
        rows += sampler
    assert set(rows) == set(range(9)) and len(rows) == 10


def test_a_sampler_of_draws_has_the_ranks_of_now(environment):
    sampler = cf.WeightedCellSampler(list("aab"), total_size=10, seed=1)
    alone = list(sampler)
    ranks = []
    for rank in range(2):
        environment(rank, 2)
        assert (sampler.rank, sampler.num_replicas, len(sampler)) == (rank, 2, 5)
        sampler.set_epoch(0)
        ranks.append(list(sampler))
    assert [row for pair in zip(*ranks, strict=True) for row in pair] == alone


@pytest.mark.parametrize("steps", [1, 13])
def test_ranks_that_change_during_an_epoch_are_an_error(atlas, environment, steps):
    for made in (
        cf.Loader(cf.open(atlas), cf.BlockShuffling(4), 8),
        cf.scDataset(np.arange(N), cf.BlockShuffling(4), 8, seed=0),
    ):
        environment(0, 1)
        iterator = iter(made)
        for _ in range(steps):
            next(iterator)
        environment(1, 2)
        with pytest.raises(InvalidArgumentError, match=r"rank 0 of 1, which now is rank 1 of 2"):
            next(iterator)


def test_what_depends_on_ranks_comes_late(atlas, environment):
    cells = cf.open(atlas)
    auto = cf.Loader(cells, cf.BlockShuffling(4), 8)
    strict = cf.Loader(cells, cf.BlockShuffling(4), 8, remainder="error")
    tuned = cf.Loader(cells, cf.BlockShuffling(4), 8, tune="kind")
    assert auto.partition == "interleave"
    environment(0, 2)
    assert auto.partition == "group", "the atlas is chunked"
    with pytest.raises(InvalidArgumentError, match="do not divide over world_size 2"):
        len(strict)
    with pytest.raises(InvalidArgumentError, match="do not divide over world_size 2"):
        next(iter(strict))
    with pytest.raises(InvalidArgumentError, match="disagree on the order"):
        next(iter(tuned))


def test_a_rank_without_its_world_is_refused(environment, monkeypatch):
    environment(0, 2)
    with monkeypatch.context() as without:
        without.delenv("WORLD_SIZE")
        with pytest.raises(InvalidArgumentError, match=r"^RANK=0 .*WORLD_SIZE is not"):
            len(cf.scDataset(np.arange(9), cf.Streaming(), 2))
        cf.scDataset(np.arange(9), cf.Streaming(), 2, rank=0, world_size=1)
    # As in the processes that Lightning starts, until they have their group.
    monkeypatch.delenv("RANK")
    assert len(cf.scDataset(np.arange(9), cf.Streaming(), 2)) == 5


def test_a_bad_environment_is_named(environment):
    for rank, world_size in (("x", 2), (2, 2), (-1, 2), (0, 0)):
        environment(rank, world_size)
        with pytest.raises(InvalidArgumentError, match="RANK and WORLD_SIZE"):
            cf.scDataset(np.arange(9), cf.Streaming(), 2)
