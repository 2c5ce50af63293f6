"""Rows of one object of a bucket that several processes keep at once."""

import contextlib
import subprocess
import sys

import anndata
import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("boto3")

from held_program import held
from packed_program import PROGRAM, kept_rows, run_program
from test_block_cache import assert_cells

import cellfeed as cf

pytestmark = pytest.mark.slow

N_CELLS, N_GENES = 20_000, 100
PATH = "s3://atlas/a.h5ad"
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def write_version(bucket, folder, seed):
    """Its values, and what a program prints that has the file for itself."""
    x = scipy.sparse.random(N_CELLS, N_GENES, 0.3, format="csr", dtype="float32", random_state=seed)
    x.data = np.ceil(x.data * 9 + seed)
    local = folder / f"{seed}.h5ad"
    anndata.AnnData(x).write_h5ad(local, compression="gzip")
    bucket.upload_file(str(local), "atlas", "a.h5ad")
    done = run_program(local, folder / f"alone-{seed}")
    assert done.returncode == 0, done.stderr
    return x.toarray(), done.stdout


def command(cache):
    return [sys.executable, "-c", PROGRAM, PATH, cache]


def start(cache):
    return subprocess.Popen(command(cache), **PIPES)


def printed(program):
    said, errors = program.communicate(timeout=300)
    assert program.returncode == 0, errors
    return said


def test_processes_share_it_and_one_may_be_killed(bucket, tmp_path):
    x, wanted = write_version(bucket, tmp_path, 1)
    cache = tmp_path / "cache"
    with held(command(cache), "pwrite:1", cache, **PIPES) as (first, _):
        others = [start(cache) for _ in range(3)]
        first.kill()
        first.communicate()
        assert [printed(program) for program in others] == [wanted] * 3
    assert_cells(cf.open(PATH, cache="rows", cache_dir=cache), x)
    assert kept_rows(cache) == N_CELLS


def test_processes_of_two_versions_of_it_have_each_their_own(bucket, tmp_path):
    _, wanted = write_version(bucket, tmp_path, 1)
    cache = tmp_path / "cache"
    with contextlib.ExitStack() as stack:
        # One in the midst of writing rows, one that is about to give them their name.
        early = [
            stack.enter_context(held(command(cache), call, cache, **PIPES))
            for call in ("pwrite:1", "rename:1")
        ]
        x, of_new = write_version(bucket, tmp_path, 2)
        late = [start(cache) for _ in range(2)]
        assert [printed(program) for program in late] == [of_new] * 2
        for program, let_go in early:
            let_go()
            said, errors = program.communicate(timeout=300)
            batches, _, warning = said.partition("CacheWarning")
            assert wanted.strip().startswith(batches.strip())
            if program.returncode != 0:
                assert "CorruptDataError" in errors and "a.h5ad" in errors
            else:
                assert batches.strip() == wanted.strip()
                assert not warning or "are no longer kept" in warning
    assert_cells(cf.open(PATH, cache="rows", cache_dir=cache), x)
