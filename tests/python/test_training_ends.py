"""Training that ends early: full disk, Ctrl-C, SIGTERM. What is there is whole, and goes on."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import attack
import pytest
import torch
from held_program import held, wait_until
from training_atlas import weights_of, write_atlas, write_config

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("cellfeed")
LAST = Path("runs/run/checkpoints/last.ckpt")
TRAIN = [PROGRAM, "train", "--config", "run.yaml", "--quiet"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with a configuration and the run ``whole``, which nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    write_atlas(folder / "atlas.h5ad")
    write_config(folder / "run.yaml")
    done = subprocess.run(
        [*TRAIN, "--name", "whole"], cwd=folder, env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def folder(whole, tmp_path, monkeypatch):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


OPTIONS = {
    "stdout": subprocess.DEVNULL,
    "stderr": subprocess.PIPE,
    "text": True,
    # Also where these tests run in the background of a shell, which has Ctrl-C ignored.
    "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
}


def start(*more, **variables):
    return subprocess.Popen([*TRAIN, *more], env=environment(**variables), **OPTIONS)


def require_success(child):
    errors = child.communicate(timeout=200)[1]
    assert child.returncode == 0, errors


def require_goes_on():
    """Nothing half-written is there, and the run ends as the undisturbed one does."""
    assert [p.name for p in Path("runs/run").rglob("*") if p.name.endswith(".part")] == []
    if LAST.exists():
        assert torch.load(LAST, weights_only=True)["global_step"] > 0
    require_success(start("--resume", "auto"))
    one, two = weights_of(LAST), weights_of("runs/whole/checkpoints/last.ckpt")
    assert all(torch.equal(value, two[key]) for key, value in one.items())
    one, two = (Path(f"runs/{name}/metrics.csv").read_text() for name in ("run", "whole"))
    assert [line.split(",")[:4] for line in one.splitlines()] == [
        line.split(",")[:4] for line in two.splitlines()
    ]


@pytest.mark.skipif(not attack.SHIM.exists(), reason="the fault shim is not built")
@pytest.mark.parametrize("name", ["last.ckpt", "metrics.csv"])
def test_a_full_disk_is_named_and_the_run_goes_on(tmp_path, name):
    log = tmp_path / "calls"
    shim = {"LD_PRELOAD": str(attack.SHIM), "FAULT_UNDER": f".{name}.part"}
    child = start("--name", "logged", **shim, FAULT_LOG=str(log))
    require_success(child)
    n_writes = log.read_text().split().count("write")
    assert n_writes >= 1
    child = start(**shim, FAULT=f"write:{n_writes // 2 + 1}:ENOSPC")
    errors = child.communicate(timeout=200)[1]
    assert child.returncode == 1, errors
    (line,) = errors.strip().splitlines()
    assert line.startswith("cellfeed: error: ") and f"/{name}: cannot be written" in line
    assert "No space left" in line or "disk full" in line
    require_goes_on()


def require_quiet_end(child, code=130):
    errors = child.communicate(timeout=100)[1]
    assert child.returncode == code, errors
    assert errors.strip() == "cellfeed: error: interrupted"


def test_ctrl_c_during_imports_ends_quietly():
    child = start()
    wait_until(lambda: imports_torch(child.pid), child)
    child.send_signal(signal.SIGINT)
    require_quiet_end(child)


@pytest.mark.skipif(not attack.SHIM.exists(), reason="the fault shim is not built")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_after_a_checkpoint_ends_quietly_and_the_run_goes_on(sent, code):
    with held(TRAIN, "rename:2", f"/{LAST.name}", **OPTIONS, env=environment()) as (child, let_go):
        assert LAST.exists()
        child.send_signal(sent)
        let_go()
        require_quiet_end(child, code)
    require_goes_on()


def imports_torch(pid):
    return "libtorch" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--config", "run.yaml", "--name", "n", "--runs-dir", "s3://atlas/runs"],
        ["embed", str(LAST), "atlas.h5ad", "--output", "s3://atlas/embedded.h5ad"],
    ],
)
def test_what_is_written_to_a_local_disk_alone_is_no_folder_named_s3(arguments):
    done = subprocess.run(
        [PROGRAM, *arguments, "--quiet"], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    assert "must be a path of a local disk, not 's3://atlas/" in done.stderr
    assert not Path("s3:").exists()
