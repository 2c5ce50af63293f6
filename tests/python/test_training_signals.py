"""SIGTERM while several ranks train: all of them end, at once, with one line."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from held_program import wait_until
from training_atlas import write_atlas, write_config

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("cellfeed")
ENDED = "cellfeed: error: interrupted"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    write_atlas("atlas.h5ad")
    write_config("run.yaml", training={"num_epochs": 5000, "batch_size": 8, "num_devices": 2})


@contextlib.contextmanager
def started():
    """The first rank, which starts the other, and what it has said on stderr so far."""
    with open("said", "w") as said:
        child = subprocess.Popen(
            [PROGRAM, "train", "--config", "run.yaml"], stdout=subprocess.DEVNULL, stderr=said
        )
    ranks = []
    try:
        wait_until(lambda: ranks_of(child), child)
        ranks = ranks_of(child)
        yield child, ranks
    finally:
        for process in [*ranks, child]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def ranks_of(child):
    return [
        process
        for process in psutil.Process(child.pid).children(recursive=True)
        if process.environ().get("LOCAL_RANK") == "1"
    ]


def require_end(child, ranks):
    assert child.wait(60) == 128 + signal.SIGTERM, Path("said").read_text()
    _, alive = psutil.wait_procs(ranks, timeout=30)
    assert alive == []
    lines = Path("said").read_text().splitlines()
    assert [line for line in lines if not line.startswith(("epoch ", ENDED))] == []
    assert lines[-1] == ENDED and lines.count(ENDED) == 1


@pytest.mark.parametrize("seconds", [0, 0.7, 2.5])
def test_while_ranks_start_none_is_left_behind(seconds):
    with started() as (child, ranks):
        time.sleep(seconds)
        child.send_signal(signal.SIGTERM)
        require_end(child, ranks)


@pytest.mark.parametrize(
    ("asked", "seconds"), [("first", 0.1), ("first", 0.77), ("second", 0.33), ("both", 0.5)]
)
def test_in_the_middle_of_epochs_no_rank_waits_for_another(asked, seconds):
    with started() as (child, ranks):
        wait_until(lambda: "epoch 2 of" in Path("said").read_text(), child)
        time.sleep(seconds)
        if asked != "second":
            child.send_signal(signal.SIGTERM)
        if asked != "first":
            os.kill(ranks[0].pid, signal.SIGTERM)
        require_end(child, ranks)
