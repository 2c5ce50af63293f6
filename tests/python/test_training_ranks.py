"""Training on several real processes: torchrun, two agents, killed ranks, shared parameters."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from attack import SHIM
from held_program import held
from loopback_server import free_port
from training_atlas import torchrun, weights_of, write_atlas, write_config

from cellfeed.training import load, train

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("cellfeed")
# Float32 sums in another order: some 2**-24 of values near 1, over 36 steps.
ROUNDING = 2e-5
PLAIN = {"dropout": 0.0}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A folder with an atlas and ``runs/one``: one process, batches of 16."""
    folder = tmp_path_factory.mktemp("alone")
    with contextlib.chdir(folder):
        torch.set_num_threads(1)
        write_atlas("atlas.h5ad")
        train(write_config("one.yaml", model=PLAIN), progress=False)
    return folder


@pytest.fixture(autouse=True)
def folder(alone, tmp_path, monkeypatch):
    """A copy of it to work in."""
    shutil.copytree(alone, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # gloo looks for an interface; tests use none but this.
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")


def weights(name):
    return weights_of(f"runs/{name}/checkpoints/last.ckpt")


def require_close(name, other, tolerance=ROUNDING):
    one, two = weights(name), weights(other)
    assert one.keys() == two.keys()
    for key, value in one.items():
        torch.testing.assert_close(value, two[key], rtol=tolerance, atol=tolerance, msg=key)


def require_equal(name, other):
    one, two = weights(name), weights(other)
    assert all(torch.equal(value, two[key]) for key, value in one.items())


def test_two_ranks_are_one_process_with_the_same_global_batch():
    write_config("two.yaml", model=PLAIN, training={"batch_size": 8})
    done = torchrun("--config", "two.yaml", "--json", "--quiet")
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["world_size"] == 2 and report["steps"] == 36
    require_close("one", "two")
    single = json.loads(Path("runs/one/report.json").read_text())
    assert report["scores"]["val"]["confusion"] == single["scores"]["val"]["confusion"]
    assert report["scores"]["val"]["loss"] == pytest.approx(single["scores"]["val"]["loss"], 1e-4)


def test_lightning_starts_the_ranks_where_torchrun_does_not():
    write_config("two.yaml", training={"num_epochs": 1, "batch_size": 8, "num_devices": 2})
    command = [PROGRAM, "train", "--config", "two.yaml", "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["world_size"] == 2 and report["steps"] == 12


def test_two_nodes_are_two_agents():
    write_config("two.yaml", model=PLAIN, training={"batch_size": 8})
    port = free_port()
    agents = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node_rank={rank}",
             "--nproc_per_node=1", "--master_addr=127.0.0.1", f"--master_port={port}",
             "--no-python", PROGRAM, "train", "--config", "two.yaml", "--quiet"],
            stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    for agent in agents:
        _, errors = agent.communicate(timeout=300)
        assert agent.returncode == 0, errors[-3000:]
    require_close("one", "two")


FULL_SHARD = {"enabled": True, "sharding_strategy": "FULL_SHARD"}


@pytest.mark.skipif(not SHIM.exists(), reason="the fault shim is not built")
@pytest.mark.parametrize("changes", [{}, {"fsdp": FULL_SHARD}], ids=["ddp", "fsdp"])
def test_a_killed_rank_ends_the_run_and_auto_goes_on_bit_for_bit(changes):
    write_config("run.yaml", model=PLAIN, training={**changes, "batch_size": 8})
    torchrun("--config", "run.yaml", "--name", "whole", "--quiet")
    require_close("one", "whole")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2",
               "--no-python", PROGRAM, "train", "--config", "run.yaml", "--quiet"]  # fmt: skip
    last = Path("runs/run/checkpoints/last.ckpt")
    with held(command, "rename:2", f"/{last.name}", stderr=subprocess.DEVNULL) as (agent, let_go):
        assert last.exists()
        ranks = psutil.Process(agent.pid).children()
        (victim,) = [rank for rank in ranks if rank.environ()["RANK"] == "1"]
        victim.kill()
        let_go()
        assert agent.wait(timeout=100) != 0
    assert 0 < torch.load(last, weights_only=True)["global_step"] < 36
    torchrun("--config", "run.yaml", "--resume", "auto", "--quiet")
    require_equal("whole", "run")
    assert load("runs/run/checkpoints/best.ckpt").predict("atlas.h5ad").n_obs == 240


def test_torchrun_and_the_configuration_must_agree():
    write_config("run.yaml", training={"num_devices": 4})
    done = torchrun("--config", "run.yaml", check=False)
    assert done.returncode != 0 and "num_devices is 4, and torchrun started 2" in done.stderr


@pytest.mark.parametrize(
    "fsdp",
    [{"sharding_strategy": "NO_SHARD"},
     {"sharding_strategy": "SHARD_GRAD_OP", "cpu_offload": True}],
    ids=["whole", "offloaded"],
)  # fmt: skip
def test_parameters_shared_out_otherwise_are_trained_alike(fsdp):
    changes = {"batch_size": 8, "fsdp": {"enabled": True, **fsdp}}
    write_config("run.yaml", model=PLAIN, training=changes)
    torchrun("--config", "run.yaml", "--quiet")
    require_close("one", "run")
