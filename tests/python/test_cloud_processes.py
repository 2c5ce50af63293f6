"""Writers that are killed, children of forks, and links that fail, with cells in buckets."""

import os
import pickle
import re
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("boto3")

from test_cloud import PASSING, assert_cells, write_cells

import cellfeed as cf

pytestmark = pytest.mark.slow


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, timeout=60, env=os.environ | environment,
    )  # fmt: skip


@pytest.mark.parametrize("what", ["pass", "cells[:9].X", "next(iter(loader))", "del batches"])
def test_a_forked_child_ends_as_it_says_while_its_parent_reads(bucket, tmp_path, what):
    write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    done = run_python(f"""
import cellfeed as cf, os, sys
cells = cf.open("s3://atlas/a.h5ad")
loader = cf.Loader(cells, cf.BlockShuffling(1), 16)
batches = iter(loader)
next(batches)
children = []
for _ in range(4):
    children.append(os.fork())
    if children[-1] == 0:
        {what}
        sys.exit(7)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
print(1 + sum(1 for _ in batches))
""")
    assert done.stdout == "[7, 7, 7, 7]\n32\n", done.stderr


def test_the_lock_of_a_killed_writer_is_taken_by_one_of_several(proxied, bucket, tmp_path):
    from fault_rules import Fault

    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    # The writer waits here until it is killed, at its next look at the progress.
    proxied.set_faults(Fault(kind="hold", method="PUT", path="shard_000002"))
    done = run_python(
        """
import cellfeed as cf, os, signal
def stop(*_):
    os.kill(os.getpid(), signal.SIGKILL)
cf.convert_to_shards("s3://atlas/a.h5ad", "s3://atlas/shards", shard_size=100, progress=stop)
""",
        CELLFEED_CLOUD_DEADLINE="100",
    )
    assert done.returncode == -9, done.stderr
    proxied.set_faults()
    proxied.wait_until_idle()
    keys = [each["Key"] for each in bucket.list_objects_v2(Bucket="atlas")["Contents"]]
    assert "shards/.lock.held" in keys
    command = [sys.executable, "-m", "cellfeed", "shard", "s3://atlas/a.h5ad", "--resume"]
    command += ["--output-dir", "s3://atlas/shards", "--shard-size", "100", "--quiet"]
    every = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [each.communicate()[1] for each in every]
    assert 0 in [each.returncode for each in every], said
    assert_cells(cf.open("s3://atlas/shards"), adata)
    keys = [each["Key"] for each in bucket.list_objects_v2(Bucket="atlas")["Contents"]]
    assert "shards/.lock.held" not in keys


def test_a_second_ctrl_c_does_not_wait_for_a_server_that_is_silent(
    proxied, bucket, tmp_path, monkeypatch
):
    from fault_rules import Fault

    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "600")
    adata = write_cells(tmp_path / "a.h5ad")
    proxied.set_faults(Fault(kind="hold", method="PUT", path="shard_000002"))
    command = [sys.executable, "-m", "cellfeed", "shard", str(tmp_path / "a.h5ad")]
    command += ["--output-dir", "s3://atlas/shards", "--shard-size", "100"]
    program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            if program.poll() is not None or any(each.fault for each in proxied.seen):
                break
            time.sleep(0.1)
        # Two that come together are one.
        while program.poll() is None:
            program.send_signal(signal.SIGINT)
            time.sleep(0.1)
        assert program.returncode == 130, program.stderr.read()
    finally:
        program.kill()
        program.communicate()
    proxied.set_faults()
    done = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_cells(cf.open("s3://atlas/shards"), adata)


@pytest.mark.parametrize("path", ["s3://atlas/a.h5ad", "s3://atlas/shards"])
@pytest.mark.parametrize("block", [1, 16])
def test_with_one_failure_in_three_an_epoch_is_right(
    proxied, bucket, tmp_path, monkeypatch, path, block
):
    from fault_rules import Fault

    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "40")
    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    share = 0.3 / len(PASSING)
    faults = [Fault(**fault, share=share, seed=seed) for seed, fault in enumerate(PASSING)]
    proxied.set_faults(*faults)
    cf.convert_to_shards(tmp_path / "a.h5ad", "s3://atlas/shards", shard_size=50)
    assert_cells(cf.open(path), adata, cf.BlockShuffling(block))
    assert sum(bool(each.fault) for each in proxied.seen) > 3


@pytest.mark.parametrize("key", [r"\.lock\.held", r"shard_000000\.cells", "metadata.json"])
def test_an_object_whose_answer_was_lost_is_that_of_its_writer(proxied, tmp_path, key):
    from fault_rules import Fault

    adata = write_cells(tmp_path / "a.h5ad")
    proxied.set_faults(Fault(kind="lost_answer", method="PUT", path=key, nth=(1,)))
    cf.convert_to_shards(tmp_path / "a.h5ad", "s3://atlas/shards")
    puts = [each for each in proxied.seen if each.method == "PUT" and re.search(key, each.path)]
    assert len(puts) > 1 and puts[0].fault
    assert_cells(cf.open("s3://atlas/shards"), adata)


def test_several_processes_write_the_shards_of_a_bucket(bucket, s3, tmp_path, monkeypatch):
    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    cf.convert_to_shards("s3://atlas/a.h5ad", tmp_path / "alone", shard_size=100)
    # Where the bucket is, other processes are told; who they are, they find out.
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.chdir(tmp_path)
    cf.set_storage_options("s3://atlas", {"endpoint_url": s3.url})
    with cf.cluster.plan_shards("s3://atlas/a.h5ad", "s3://atlas/out", shard_size=100) as plan:
        assert (plan.path, plan.n_shards) == ("s3://atlas/out", 5)
        (tmp_path / "plan").write_bytes(pickle.dumps(plan))
        code = """
import cellfeed as cf, pathlib, pickle
plan = pickle.loads(pathlib.Path("plan").read_bytes())
written = [cf.cluster.write_shards(plan, shards) for shards in ([0, 1], [2, 3, 4], [1])]
pathlib.Path("written").write_bytes(pickle.dumps(written))
"""
        done = run_python(code)
        assert done.returncode == 0, done.stderr
        written = pickle.loads((tmp_path / "written").read_bytes())
        cf.cluster.finish_shards(plan, written[:2])
    assert_cells(cf.open("s3://atlas/out"), adata)
    for path in (tmp_path / "alone").glob("*.cells"):
        stored = bucket.get_object(Bucket="atlas", Key=f"out/{path.name}")["Body"].read()
        assert stored == path.read_bytes()
    assert not (tmp_path / "s3:").exists()
    cf.set_storage_options("s3://atlas", {})


def test_threads_of_python_run_while_a_plan_gives_its_folder_back(proxied, bucket, tmp_path):
    """Here such threads are the link to the bucket, and nobody else removes the lock."""
    write_cells(tmp_path / "a.h5ad")
    plan = cf.cluster.plan_shards(tmp_path / "a.h5ad", "s3://atlas/out", shard_size=100)
    listed = bucket.list_objects_v2(Bucket="atlas", Prefix="out/.lock.held")
    assert listed["KeyCount"] == 1
    plan.close()
    listed = bucket.list_objects_v2(Bucket="atlas", Prefix="out/.lock.held")
    assert listed["KeyCount"] == 0


def test_a_full_disk_under_what_is_to_be_uploaded_is_named(bucket, tmp_path):
    write_cells(tmp_path / "a.h5ad")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=20k", "tmpfs", disk]
    if subprocess.run(mounting, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    code = f'import cellfeed as cf; cf.export_h5ad("{tmp_path}/a.h5ad", "s3://atlas/x.h5ad")'
    try:
        done = run_python(code, TMPDIR=str(disk))
        assert done.returncode == 1
        assert f"{disk}" in done.stderr and "TMPDIR" in done.stderr, done.stderr
        assert "free some space" in done.stderr
        assert not list(disk.iterdir())
    finally:
        subprocess.run(["umount", disk], check=True)
    assert bucket.list_objects_v2(Bucket="atlas")["KeyCount"] == 0
