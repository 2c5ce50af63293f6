"""Ranks whose files, orders or settings differ are told so, and never read by different plans."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import anndata
import numpy as np
import pytest
import scipy.sparse

pytestmark = pytest.mark.slow

PROGRAM = pathlib.Path(__file__).with_name("ranks_agree_program.py")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What the two ranks say: the folder of rank 1 has a file more, as if one had just come."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("ranks")
    for rank in range(2):
        (folder / f"{rank}").mkdir()
    for seed, name in enumerate("abc"):
        x = scipy.sparse.random(40, 7, 0.5, format="csr", rng=np.random.default_rng(seed))
        made = anndata.AnnData(x.astype("float32"))
        made.obs_names = [f"{name}{i}" for i in range(40)]
        made.write_h5ad(folder / "1" / f"{name}.h5ad")
        if name != "c":
            shutil.copy(folder / "1" / f"{name}.h5ad", folder / "0")
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")},
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), str(folder)],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"rank{r}.json").read_text()) for r in range(2)]


def told(ranks, case, how):
    """What rank 1 was told, which rank 0, the first, was not."""
    assert "rows" in ranks[0][case], ranks[0][case]
    said = ranks[1][case]["error"]
    assert f"rank 1 of 2 would {how} than rank 0: " in said
    return said


@pytest.mark.parametrize(
    ("case", "here", "there"),
    [
        ("one file more", "samples is 120", "there 80"),
        ("another order of files", "collection is ", "there "),
        ("another seed", "seed is 1", "there 0"),
        ("another batch size", "batch_size is 9", "there 8"),
        ("other weights", "order is ", "there "),
        ("scDataset", "samples is 41", "there 40"),
        ("scDataset over cells", "samples is 120", "there 80"),
        ("in workers", "samples is 120", "there 80"),
        ("before the group", "samples is 120", "there 80"),
        ("once more", "samples is 120", "there 80"),
        ("shards", "shard_offsets is ", "there "),
        ("draws", "samples is 41", "there 40"),
    ],
)
def test_ranks_that_would_read_by_other_plans_are_told(ranks, case, here, there):
    said = told(ranks, case, "read by another plan")
    assert here in said and there in said, said
    assert "list the files once" in said


@pytest.mark.parametrize(
    ("case", "n"),
    [("same", 40), ("same elsewhere", 80), ("one more on rank 0", 40), ("same shards", 40)],
)
def test_ranks_that_read_the_same_share_it(ranks, case, n):
    rows = [row for rank in ranks for batch in rank[case]["rows"] for row in np.atleast_1d(batch)]
    assert sorted(rows) == list(range(n))


@pytest.mark.parametrize(
    ("case", "here", "there"),
    [
        ("resumed on one", "is none", "there that of epoch 1 after 16 samples"),
        ("resumed on the other", "is that of epoch 1 after 16 samples", "there none"),
        ("resumed in another partition", "partition 'group'", "partition 'interleave'"),
        ("resumed with other windows", "32 read together", "16 read together"),
    ],
)
def test_ranks_that_would_begin_elsewhere_are_told(ranks, case, here, there):
    said = told(ranks, case, "begin elsewhere")
    assert here in said and there in said, said
    assert "All ranks must load one state" in said


def test_ranks_that_resume_together_share_what_is_left(ranks):
    rows = [row for rank in ranks for batch in rank["resumed"]["rows"] for row in batch]
    assert len(set(rows)) == len(rows) == 24


def test_a_rank_that_is_an_epoch_ahead_is_told(ranks):
    said = told(ranks, "looked at on rank 0", "read another epoch")
    assert "of the epoch before it has read all batches, and rank 0 1 batch. " in said


@pytest.mark.parametrize("case", ["epochs", "looked at, epochs set"])
def test_ranks_of_one_epoch_share_it(ranks, case):
    n = len(ranks[0][case]["rows"]) // 3
    for epoch in range(3):
        batches = [rank[case]["rows"][epoch * n : (epoch + 1) * n] for rank in ranks]
        assert sorted(row for part in batches for batch in part for row in batch) == list(range(40))


@pytest.mark.parametrize(
    "case",
    [
        "two batches of each", "stopped anywhere", "stopped anywhere, epochs set",
        "looked at and set once", "all but the end", "workers", "workers that stay",
        "resumed with workers", "after the group",
    ],
)  # fmt: skip
def test_ranks_of_one_plan_are_not_told_of_any_other(ranks, case):
    assert all("rows" in rank[case] for rank in ranks), [rank[case] for rank in ranks]


def test_ranks_that_were_passed_may_have_files_of_their_own(ranks):
    for rank, n in zip(ranks, (80, 120), strict=True):
        rows = [row for batch in rank["ranks of its own"]["rows"] for row in batch]
        assert sorted(rows) == list(range(n))


def test_a_child_does_not_ask_in_the_name_of_its_parent(ranks):
    """What it sent would come between its parent's messages."""
    assert [rank["forked"]["status"] for rank in ranks] == [0, 0]
