"""Lightning's Trainer: two ranks share each epoch, and checkpoints continue where they stood."""

import itertools
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

PROGRAM = Path(__file__).with_name("lightning_program.py")
N = 101


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    path = tmp_path_factory.mktemp("atlas") / "a.h5ad"
    x = scipy.sparse.random(N, 10, density=0.3, format="csr", dtype=np.float32, random_state=0)
    cells = pd.DataFrame(index=[f"c{i}" for i in range(N)])
    genes = pd.DataFrame(index=[f"g{i}" for i in range(10)])
    anndata.AnnData(x, obs=cells, var=genes).write_h5ad(path, compression="gzip")
    return path


def run(*arguments):
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")},
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_two_ranks_see_each_cell_once(atlas, tmp_path, strategy):
    run("ranks", strategy, atlas, tmp_path)
    for case in ("Loader", "DataLoader"):
        ranks = [json.loads((tmp_path / f"{case}.{r}.json").read_text()) for r in range(2)]
        orders = []
        for epoch in range(2):
            assert [len(rank[epoch]) for rank in ranks] == [7, 7]
            rows = [row for rank in ranks for batch in rank[epoch] for row in batch]
            assert sorted(rows) == list(range(N)), f"{case}, epoch {epoch}"
            orders.append(rows)
        assert orders[0] != orders[1]
    ranks = [json.loads((tmp_path / f"CellDataModule.{r}.json").read_text()) for r in range(2)]
    for epoch in range(2):
        rows = [row for rank in ranks for batch in rank[epoch] for row in batch]
        assert sorted(rows) == list(range(81)), "the training cells"
    for case, epoch in itertools.product(("sampler", "draws"), range(2)):
        ranks = [json.loads((tmp_path / f"{case}.{r}.json").read_text()) for r in range(2)]
        assert [sum(map(len, rank[epoch])) for rank in ranks] == [51, 51], "one repeat"
        assert {row for rank in ranks for batch in rank[epoch] for row in batch} == set(range(N))


@pytest.fixture(scope="module")
def runs(atlas, tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    run("resume", atlas, folder)
    return json.loads((folder / "resume.json").read_text())


CASES = [
    "Loader", "scDataset", "CellDataModule", "DataLoader", "DataLoader, workers",
    "StatefulDataLoader", "StatefulDataLoader, workers",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_checkpoints_continue_with_every_batch_once(runs, name):
    cases = dict(runs[name])
    whole, length = cases.pop("whole"), cases.pop("length")
    assert whole == runs["Loader"]["whole"], "three epochs without a stop"
    for epoch in whole:
        assert len(epoch) == length
        assert sorted(row for batch in epoch for row in batch) == list(range(N))
    assert len(cases) == (1 if name == "DataLoader, workers" else 4)
    for case, (before, after) in cases.items():
        before = before + [[]] * (len(whole) - len(before))
        assert [b + a for b, a in zip(before, after, strict=True)] == whole, case
        assert sum(map(len, before)) > 0, case


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_epochs_of_fewer_batches_than_there_are_go_on_with_the_next(runs, name):
    whole, resumed = runs[f"{name}, limited"]
    assert whole == [epoch[:4] for epoch in runs["Loader"]["whole"]]
    assert resumed == [[], *whole[1:]]


@pytest.mark.slow
def test_workers_that_read_ahead_keep_no_place_within_an_epoch(runs):
    assert "StatefulDataLoader" in runs["refused"]


@pytest.mark.slow
def test_a_checkpoint_within_an_epoch_of_other_batches_is_refused(runs):
    assert "epoch of 13 batches, which now has 7" in runs["larger"]


@pytest.mark.slow
@pytest.mark.parametrize("step", [16, 4])
@pytest.mark.parametrize("kind", ["Loader", "scDataset"])
def test_a_bare_loader_resumed_with_other_batches_is_refused_too(runs, kind, step):
    message = runs[f"{kind}, after 3, {step}"]
    assert "batches of 8 samples over all ranks" in message and f"now {step}" in message
    # Between epochs there is nothing that Lightning could leave out.
    assert runs[f"{kind}, after the last, {step}"] == ""
    assert runs[f"{kind}, at the end, {step}"] == ""


@pytest.mark.slow
def test_validating_a_checkpoint_moves_no_training_data(runs):
    assert runs["validated"] == runs["Loader"]["whole"][1], "the epoch after the one validated"
