"""The memory budget bounds what the process really holds: peak resident memory of children."""

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from child_program import run_quietly

pytestmark = pytest.mark.slow

SLACK_MB = 200
CHUNK = 1_000_000  # entries: 8 MB of values, and as much again while they are unshuffled
ROW = 2_000


@pytest.fixture(scope="module")
def large_chunks(tmp_path_factory):
    """12,000 cells of 2,000 non-zeros in 24 large compressed chunks."""
    path = tmp_path_factory.mktemp("chunks") / "large.h5ad"
    n_cells = 24 * CHUNK // ROW
    small = anndata.AnnData(scipy.sparse.csr_matrix((n_cells, 4 * ROW), dtype=np.float64))
    small.write_h5ad(path)
    indices = np.tile(np.arange(0, 4 * ROW, 4, dtype=np.int32), n_cells)
    values = np.repeat(np.arange(1, n_cells + 1, dtype=np.float64), ROW)
    how = {"chunks": (CHUNK,), "compression": "gzip", "compression_opts": 1, "shuffle": True}
    with h5py.File(path, "r+") as file:
        for name, data in (("indices", indices), ("data", values)):
            del file["X"][name]
            file["X"].create_dataset(name, data=data, **how)
        file["X/indptr"][...] = np.arange(n_cells + 1) * ROW
    return path


@pytest.fixture(scope="module")
def many_categories(tmp_path_factory):
    """300,000 cells, each with a label of its own."""
    path = tmp_path_factory.mktemp("labels") / "labels.h5ad"
    n_cells = 300_000
    matrix = scipy.sparse.csr_matrix(
        (np.ones(n_cells, np.float32), np.arange(n_cells) % 50, np.arange(n_cells + 1)),
        (n_cells, 50),
    )
    labels = pd.Categorical([f"clone {i:06}" for i in range(n_cells)])
    obs = pd.DataFrame({"clone": labels}, index=np.arange(n_cells).astype(str))
    anndata.AnnData(matrix, obs=obs).write_h5ad(path)
    return path


PEAK = """
import sys
import cellfeed as cf
path, budget, threads, n_loaders, obs, block, batch = sys.argv[1:]
def peak(reset=False):
    if reset:
        open("/proc/self/clear_refs", "w").write("5")
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) / 1000
cells = cf.open(path, obs=[obs] if obs else [])
next(iter(cf.Loader(cells, cf.Streaming(), 2, memory_budget="32MB", threads=1)))
before = peak(reset=True)
loaders = [
    cf.Loader(cells, cf.BlockShuffling(int(block)), int(batch), memory_budget=f"{budget}MB",
              threads=int(threads), seed=k)
    for k in range(int(n_loaders))
]
n = 0
for batches in zip(*loaders):
    n += len(batches[0])
    del batches
counted = max(loader.stats()["peak_bytes"] for loader in loaders) / 1e6
print(n, peak() - before, counted)
"""


def peak_mb(path, *, budget, threads, loaders=1, obs="", block=4, batch=512):
    """Cells, megabytes over what the process held with its files open, and megabytes counted."""
    out = run_quietly(PEAK, path, budget, threads, loaders, obs, block, batch, timeout=500)
    n, peak, counted = out.split()
    return int(n), float(peak), float(counted)


@pytest.mark.parametrize("threads", [1, 32])
def test_large_chunks(large_chunks, threads):
    n, peak, counted = peak_mb(large_chunks, budget=40, threads=threads)
    assert n == 12_000
    assert peak < 40 + SLACK_MB
    assert counted < 40 + SLACK_MB


def test_several_loaders_at_once(large_chunks):
    n, peak, _ = peak_mb(large_chunks, budget=50, threads=8, loaders=3)
    assert n == 12_000
    assert peak < 3 * 50 + SLACK_MB


def test_many_categories(many_categories):
    n, peak, _ = peak_mb(many_categories, budget=40, threads=16, obs="clone", block=64, batch=4096)
    assert n == 300_000
    assert peak < 40 + SLACK_MB
