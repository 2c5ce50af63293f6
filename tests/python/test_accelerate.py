"""Hugging Face's Accelerate on two and three processes: all cells, or an error on every rank."""

import json
import pathlib
import subprocess
import sys
from collections import Counter

import pytest
from small_atlas import write_atlas

pytest.importorskip("accelerate")

HERE = pathlib.Path(__file__).parent
N_CELLS = 101
HINT = "prepare a cellfeed.Loader or scDataset without a DataLoader"


READ = ["loader", "scDataset", "rank given"]
REFUSED = [
    "loader in a DataLoader", "scDataset in a DataLoader", "spawned workers", "sampler",
]  # fmt: skip


def start(n_ranks, folder, *cases, program="accelerate_program.py"):
    (path,) = write_atlas(folder, n_cells=N_CELLS)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone",
         f"--nproc-per-node={n_ranks}", HERE / program, path, folder, *cases],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("n_ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_every_cell_is_read_or_a_named_error(tmp_path, n_ranks):
    done = start(n_ranks, tmp_path, *READ, *REFUSED)
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"rank{r}.json").read_text()) for r in range(n_ranks)]
    for case in READ:
        counts = Counter(row for rank in ranks for batch in rank[case]["rows"] for row in batch)
        assert sorted(counts) == list(range(N_CELLS)), case
        # Ranks are filled up to equally many cells; Accelerate fills up whole batches.
        assert counts.total() - N_CELLS < n_ranks * (8 if case == "rank given" else 1), case
    for rank in ranks:
        assert rank["skipped"]["rows"] == rank["loader"]["rows"][1:]  # nothing splits these
    for case in REFUSED:
        for rank in ranks:
            assert HINT in rank[case]["error"], case


@pytest.mark.slow
def test_an_error_of_a_forked_worker_comes_on_rank_0(tmp_path):
    done = start(2, tmp_path, "forked workers")
    assert done.returncode != 0  # of rank 1, which waits for rank 0
    assert HINT in json.loads((tmp_path / "rank0.json").read_text())["forked workers"]["error"]


@pytest.mark.slow
@pytest.mark.parametrize("n_ranks", [2, 3])
def test_a_trainer_of_transformers_reads_every_cell_in_each_epoch(tmp_path, n_ranks):
    pytest.importorskip("transformers")
    done = start(n_ranks, tmp_path, program="trainer_program.py")
    assert done.returncode == 0, done.stderr
    ranks = [json.loads((tmp_path / f"rank{r}.json").read_text()) for r in range(n_ranks)]
    for epoch in range(2):
        n = len(ranks[0]) // 2
        batches = [batch for rank in ranks for batch in rank[epoch * n : (epoch + 1) * n]]
        rows = [row for batch in batches for row in batch]
        assert set(rows) == set(range(N_CELLS))
        assert len(rows) - N_CELLS < n_ranks
