"""Rows of one object of a bucket that several processes keep at once."""

import os
import signal
import subprocess
import sys
import time

import anndata
import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("boto3")

from packed_program import PROGRAM, kept_rows

import cellfeed as cf

N_CELLS, N_GENES = 20_000, 100
PATH = "s3://atlas/a.h5ad"


def write_version(bucket, folder, seed):
    x = scipy.sparse.random(N_CELLS, N_GENES, 0.3, format="csr", dtype="float32", random_state=seed)
    x.data = np.ceil(x.data * 9 + seed)
    local = folder / f"{seed}.h5ad"
    anndata.AnnData(x).write_h5ad(local, compression="gzip")
    bucket.upload_file(str(local), "atlas", "a.h5ad")
    return local


class Program:
    """Reads what `path` names through the cache, and prints a line a batch."""

    def __init__(self, path, cache, folder):
        self.out = folder / f"{len(list(folder.glob('*.out')))}.out"
        with self.out.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, path, cache],
                stdout=out, stderr=subprocess.PIPE, text=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    def wait_for_a_batch(self):
        while self.process.poll() is None and self.out.stat().st_size == 0:
            time.sleep(0.001)

    def end(self) -> tuple[str, str]:
        """What it printed and its errors; those are empty where it ended well."""
        errors = self.process.communicate(timeout=300)[1]
        assert self.process.returncode == 0 or errors
        return self.out.read_text(), errors if self.process.returncode else ""


def lines_of(local, folder):
    """What a program prints that has the file for itself."""
    lines, errors = Program(local, folder / f"alone-{local.name}", folder).end()
    assert not errors
    return lines


def assert_holds(cells, local):
    x = anndata.read_h5ad(local).X
    seen = []
    for batch in cf.Loader(cells, cf.BlockShuffling(8), 256, seed=3):
        assert (batch.to_scipy() != x[np.asarray(batch.index)]).nnz == 0
        seen.extend(batch.index)
    assert sorted(seen) == list(range(N_CELLS))


def test_processes_share_it_and_one_may_be_killed(bucket, tmp_path):
    local = write_version(bucket, tmp_path, 1)
    wanted = lines_of(local, tmp_path)
    cache = tmp_path / "cache"
    first, *others = [Program(PATH, cache, tmp_path) for _ in range(4)]
    first.wait_for_a_batch()
    first.process.kill()
    first.process.communicate()
    for program in others:
        assert program.end() == (wanted, "")
    assert_holds(cf.open(PATH, cache_mode="packed", cache_dir=cache), local)
    assert kept_rows(cache) == N_CELLS


def test_processes_of_two_versions_of_it_have_each_their_own(bucket, tmp_path):
    old = write_version(bucket, tmp_path, 1)
    cache = tmp_path / "cache"
    early = [Program(PATH, cache, tmp_path) for _ in range(2)]
    for program in early:
        program.wait_for_a_batch()
        program.process.send_signal(signal.SIGSTOP)
    new = write_version(bucket, tmp_path, 2)
    late = [Program(PATH, cache, tmp_path) for _ in range(2)]
    late[0].wait_for_a_batch()
    for program in early:
        program.process.send_signal(signal.SIGCONT)
    for program in late:
        assert program.end() == (lines_of(new, tmp_path), "")
    wanted = lines_of(old, tmp_path).strip()
    for program in early:
        lines, errors = program.end()
        batches, _, warning = lines.partition("CacheWarning")
        assert wanted.startswith(batches.strip())
        if errors:
            assert "CorruptDataError" in errors and "a.h5ad" in errors
        else:
            assert batches.strip() == wanted
            assert not warning or "are no longer kept" in warning
    assert_holds(cf.open(PATH, cache_mode="packed", cache_dir=cache), new)
