"""What workers of a DataLoader cannot hand over is an error: no hang, and no early end."""

import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from small_atlas import make_anndata

import cellfeed as cf

# Batches of 2 MB, into /dev/shm of 1 MB.
PROGRAM = """
import sys
import numpy as np
import torch
from torch.utils.data import DataLoader, Subset
import cellfeed as cf
from cellfeed.data.dataset import CellDataset
from cellfeed.data.gene_selection import GeneSelectionCollator
from cellfeed.data.streaming import StreamingCellDataset

torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 0.2  # seconds, not 5, for a worker that failed
atlas, series = sys.argv[1:]
cells, order, whole = cf.open(atlas), cf.Streaming(), dict(batch_size=None)
windows = cf.series.SeriesDataset(series, 500, 1)
mapped = cf.MappedCollection(atlas, "X", join="outer")

def loader(made):
    return cf.Loader(cells, order, 600, collate_fn=made)

loaders = {
    "MappedCollection": (mapped, {}),
    "MappedCollection, csr": (cf.MappedCollection(atlas, "X", output="csr"), {}),
    "a part of a MappedCollection": (Subset(mapped, range(600)), {}),
    "SeriesDataset": (windows, {}),
    "CellDataset": (CellDataset(atlas), {}),
    "CellDataset, some genes": (CellDataset(atlas), dict(collate_fn=GeneSelectionCollator())),
    "StreamingCellDataset": (StreamingCellDataset(atlas), {}),
    "Loader of tensors": (loader(lambda batch: batch.to_torch(dense=True)), whole),
    "Loader of a dict": (loader(lambda batch: {"x": batch.x.toarray()}), whole),
    "Loader of an object": (loader(lambda batch: [batch.to("cpu")]), whole),
    "Loader of windows": (
        cf.series.SeriesLoader(windows, order, 600, collate_fn=lambda b: b.to("cpu")), whole,
    ),
    "scDataset": (
        cf.scDataset(cells, order, 600, batch_transform=lambda batch: batch.to_torch()), whole
    ),
    "scDataset of an array": (cf.scDataset(np.ones((600, 1000)), order, 600), whole),
    "Loader of what cannot be pickled": (loader(lambda batch: lambda: batch), whole),
}
for name, (dataset, options) in loaders.items():
    batches = DataLoader(dataset, **dict(batch_size=600, num_workers=1, timeout=60) | options)
    try:
        said = f"{sum(1 for batch in batches)} batches"
    except Exception as error:
        said = f"{type(error).__name__} {str(error).splitlines()[-1]}"
    print(f"{name}: {said}")
"""


def test_a_batch_that_shared_memory_cannot_take_is_an_error(tmp_path):
    atlas, series = tmp_path / "atlas.h5ad", tmp_path / "series"
    make_anndata(600, 1000).write_h5ad(atlas)
    frame = pd.DataFrame({"t": np.arange(1000), "a": np.ones(1000), "b": np.arange(1000.0)})
    frame.to_parquet(tmp_path / "rows.parquet")
    cf.series.build_series(tmp_path / "rows.parquet", series, time="t", scaler=None)
    mounted = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"']
    if shutil.which("unshare") is None or subprocess.run([*mounted, "", "true"]).returncode != 0:
        pytest.skip("a small file system can be mounted by root only")
    run = subprocess.run(
        [*mounted, "", sys.executable, "-c", PROGRAM, atlas, series],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    *full, unpicklable = run.stdout.splitlines()
    assert len(full) == 13
    for line in full:
        assert "cellfeed.errors.InputOutputError: a worker process of a DataLoader cannot " in line
        assert "into shared memory" in line and "No space left on device" in line
        assert "/dev/shm larger" in line
    assert "pickle" in unpicklable, unpicklable
