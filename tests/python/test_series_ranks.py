"""Windows on two real processes (gloo), with worker processes, stopped after every step."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from series_ranks_program import BATCH_SIZE, make_data
from test_series_windows import make_series

import cellfeed as cf

pytestmark = pytest.mark.slow

PROGRAM = pathlib.Path(__file__).with_name("series_ranks_program.py")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The series, and what each rank wrote."""
    folder = tmp_path_factory.mktemp("ranks")
    path, _ = make_series(folder, [70, 31, 44])
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(path), str(folder)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return path, [json.loads((folder / f"rank{r}.json").read_text()) for r in range(2)]


def test_together_they_see_each_window_once(made):
    path, ranks = made
    ds = make_data(path)
    whole = cf.series.SeriesLoader(
        ds, cf.BlockShuffling(1), 2 * BATCH_SIZE, seed=5, rank=0, world_size=1
    )
    for epoch in range(2):
        seen = []
        for step, batch in enumerate(whole):
            shares = [rank["alone"][epoch][step] for rank in ranks]
            rows = [
                row
                for numbers, padding, _ in shares
                for row, is_padding in zip(numbers, padding, strict=True)
                if not is_padding
            ]
            assert sorted(rows) == sorted(batch.index.tolist())
            seen += rows
        assert sorted(seen) == list(range(len(ds)))
    assert ranks[0]["alone"][0] != ranks[0]["alone"][1]


def test_what_is_in_them_is_what_the_data_set_has(made):
    path, ranks = made
    ds = make_data(path)
    import hashlib

    for rank in ranks:
        for numbers, _, content in rank["alone"][1]:
            x, y = ds.arrays(np.array(numbers))
            parts = (x["x"], y, x["future"])
            assert hashlib.sha256(b"".join(p.tobytes() for p in parts)).hexdigest() == content


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_give_the_same_windows(made, how):
    for rank in made[1]:
        assert rank[how] == rank["alone"]


def test_stopped_after_each_step_they_go_on(made):
    for rank in made[1]:
        for step, rest in enumerate(rank["stopped"]):
            assert rest == rank["alone"][0][step:]
