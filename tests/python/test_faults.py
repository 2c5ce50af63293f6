"""Writers under attack, the short form: a seeded choice of the faults that `make attack` tries."""

import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading

import attack
import pytest
from mtx_files import random_counts, write_mtx

import cellfeed as cf
from cellfeed.data.vocab import GeneVocab

N_FAULTS = 8
N_KILLS = 6

pytestmark = pytest.mark.skipif(not attack.SHIM.exists(), reason="the fault shim is not built")


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    return attack.write_atlas(tmp_path_factory.mktemp("attack") / "atlas")


@pytest.mark.slow
@pytest.mark.parametrize("name", attack.SCENARIOS)
def test_a_fault_loses_nothing_and_the_next_run_goes_on(atlas, tmp_path, name):
    struck = attack.Attack(attack.SCENARIOS[name], atlas, tmp_path)
    faults = struck.faults()
    for fault in random.Random(name).sample(faults, min(N_FAULTS, len(faults))):
        struck.strike(fault)


@pytest.mark.parametrize(
    "name",
    [pytest.param("overwrite", marks=pytest.mark.slow), "append", "export_over",
     pytest.param("vocabulary", marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_kill_at_what_makes_files_last_leaves_the_old_or_the_new(atlas, tmp_path, name):
    """make attack kills at each unlink, rename, fsync and ftruncate, before and after the call."""
    struck = attack.Attack(attack.SCENARIOS[name], atlas, tmp_path)
    points = struck.kill_points()
    assert points
    for fault in random.Random(name).sample(points, min(N_KILLS, len(points))):
        struck.strike(fault)


@pytest.mark.slow
def test_a_signal_at_every_second_call_changes_nothing(atlas, tmp_path):
    struck = attack.Attack(attack.SCENARIOS["shuffle"], atlas, tmp_path)
    for call in ("open", "write", "pwrite", "fsync", "rename", "unlink", "flock", "mkdir"):
        assert struck.strike(attack.Fault(call, 0, "EINTR", struck.under)) == "right", call


@pytest.mark.slow
def test_a_file_system_without_locks_has_another_way_to_keep_writers_apart(atlas, tmp_path):
    struck = attack.Attack(attack.SCENARIOS["shard"], atlas, tmp_path)
    out = struck.folder / "out"
    no_locks = attack.Fault("flock", 0, "ENOSYS", ".lock")
    attack.run(struck.words, out, attack.Fault("rename", 3, "kill", str(out)))
    (out / ".lock.held").write_text("123456789 elsewhere\n")
    refused = attack.run([*struck.words, "--resume"], out, no_locks)
    assert refused.code == 1 and "process 123456789 on elsewhere" in refused.errors
    (out / ".lock.held").unlink()
    assert attack.run([*struck.words, "--resume"], out, no_locks).code == 0
    assert attack.files_of(out) == struck.after


@pytest.mark.slow
def test_a_vocabulary_is_replaced_whole_or_not_at_all_and_no_planted_link_is_followed(tmp_path):
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("years of work")
    path = tmp_path / "deep" / "er" / "vocab.json"
    vocab = GeneVocab.from_genes(["a", "b"])
    vocab.save(path)
    path.unlink()
    path.symlink_to(thesis)
    # Where a careless writer would put its temporary file.
    for name in (f"{path.name}.{i}.tmp" for i in (1, 2)):
        (path.parent / name).symlink_to(thesis)
    vocab.save(path)
    assert thesis.read_text() == "years of work"
    assert not path.is_symlink()
    assert GeneVocab.from_file(path) == vocab
    program = (
        "import sys\n"
        "from cellfeed.data.vocab import GeneVocab\n"
        "GeneVocab.from_genes(['x'] + ['y']).save(sys.argv[1])"
    )
    for call, n, what in [("fsync", 1, "EIO"), ("rename", 1, "kill"), ("pwrite", 1, "ENOSPC")]:
        killed = subprocess.run(
            [sys.executable, "-c", program, path],
            env={
                **attack.os.environ,
                "LD_PRELOAD": str(attack.SHIM),
                "FAULT": f"{call}:{n}:{what}",
                "FAULT_UNDER": str(path.parent),
            },
            capture_output=True,
            check=False,
        )
        assert killed.returncode != 0, (call, killed.stderr)
        assert GeneVocab.from_file(path) == vocab
    vocab.save(path)
    assert [p.name for p in path.parent.iterdir() if ".tmp-" in p.name] == []


ENDING = """
import sys, threading, cellfeed as cf
started = threading.Event()
def progress(*_):
    started.set()
    if len(sys.argv) > 3:
        while True: pass  # the interpreter ends while this thread runs Python
def work():
    cf.simulate(sys.argv[1], 300_000, sys.argv[2] + "/x.h5ad", threads=1, progress=progress)
threading.Thread(target=work, daemon=True).start()
started.wait(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("in_callback", [False, True])
def test_the_interpreter_ends_quietly_while_a_daemon_thread_writes(atlas, tmp_path, in_callback):
    done = subprocess.run(
        [sys.executable, "-c", ENDING, atlas / "a.h5ad", tmp_path, *["callback"] * in_callback],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    # Nothing, or the whole file where it was done before the end.
    assert [path.name for path in tmp_path.iterdir()] in ([], ["x.h5ad"])


def limited(words, limit, amount, user=None):
    """Run the program under `ulimit`; as another user where root has no limit."""
    script = (
        "import os, resource, sys\n"
        f"resource.setrlimit(resource.{limit}, ({amount}, {amount}))\n"
        + (f"os.setgroups([]); os.setgid({user}); os.setuid({user})\n" if user else "")
        + "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return subprocess.run(
        [sys.executable, "-c", script, attack.PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("n_processes", [1, 2])
def test_no_threads_to_be_had_is_said(atlas, n_processes):
    user = 65534 if attack.os.getuid() == 0 else None
    if user and not attack.os.access(attack.PROGRAM, attack.os.X_OK, effective_ids=True):
        pytest.skip("another user cannot run the program from here")
    done = limited(["verify", atlas / "old_shards"], "RLIMIT_NPROC", n_processes, user)
    if done.returncode in (1, 126) and "Permission denied" in done.stderr:
        pytest.skip("another user cannot run the program from here")
    assert done.returncode == 1, done
    assert "cellfeed: error: " in done.stderr and "thread" in done.stderr, done.stderr


@pytest.mark.slow
def test_too_little_address_space_is_said(atlas, monkeypatch):
    # The loader of libraries tells when the program itself begins: what runs out before then, in
    # the loader or where a library sets itself up, is not ours to say.
    monkeypatch.setenv("LD_DEBUG", "files")
    codes = []
    for megabytes in range(60, 160, 4):
        done = limited(["info", atlas / "a.h5ad"], "RLIMIT_AS", megabytes << 20)
        if f"transferring control: {attack.PROGRAM}" not in done.stderr:
            continue
        codes.append(done.returncode)
        said = [line for line in done.stderr.splitlines() if not re.match(r" *\d+:\t", line)]
        assert done.returncode in (0, 1), (megabytes, done.returncode, said)
        assert done.returncode == 0 or any("cellfeed: error: " in line for line in said), said
    assert {0, 1} <= set(codes), "memory was missing in some runs and enough in others"


def test_conversions_in_threads_of_one_process_do_not_disturb_one_another(atlas, tmp_path):
    failures = []

    def convert(k):
        try:
            cf.convert_to_shards(atlas / "a.h5ad", tmp_path / str(k), shard_size=100)
        except Exception as error:  # handed to the main thread
            failures.append(error)

    threads = [threading.Thread(target=convert, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    made = [attack.files_of(tmp_path / str(k)) for k in range(4)]
    assert all(files == made[0] for files in made)


@pytest.mark.slow
def test_a_lock_that_a_killed_writer_of_rows_left_is_named(tmp_path):
    folder = write_mtx(tmp_path / "cells", random_counts(20, 10))
    words, rows = ["plan", folder, "--cache-dir", tmp_path / "rows"], tmp_path / "rows"
    no_locks = attack.Fault("flock", 0, "ENOSYS", ".lock")
    assert attack.run(words, rows, no_locks).code == 0
    (place,) = rows.iterdir()
    shutil.rmtree(place / "X")
    with subprocess.Popen(["true"]) as dead:
        pass
    here = f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    (place / ".X.lock.held").write_text(f"{dead.pid} {here}\n")
    refused = attack.run(words, rows, no_locks)
    assert refused.code == 1
    for word in (".X.lock.held", f"process {dead.pid}", "remove this file"):
        assert word in refused.errors
    (place / ".X.lock.held").write_text("123456789 elsewhere\n")
    waited = attack.run(words, rows, no_locks)
    assert "waiting for the rows of 'X'" in waited.errors
    assert "process 123456789 on elsewhere" in waited.errors
