"""Files that are shortened or written over while they are open: named errors, no dead process."""

import itertools
import pathlib
import shutil

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from child_program import run_quietly
from tiers import fast

import cellfeed as cf

N_CELLS, N_GENES = 5_000, 300


@pytest.fixture(scope="module")
def adata():
    random = np.random.default_rng(0)
    x = scipy.sparse.random(N_CELLS, N_GENES, 0.5, format="csr", dtype=np.float32, rng=random)
    x.data = np.ceil(x.data * 100)
    names = [f"c{i}" for i in range(N_CELLS)]
    labels = pd.Categorical([f"t{i % 7}" for i in range(N_CELLS)])
    numbers = np.arange(1.0, N_CELLS + 1)
    obs = pd.DataFrame({"label": labels, "number": numbers, "text": names}, index=names)
    return anndata.AnnData(x, obs=obs)


@pytest.fixture(scope="module")
def originals(adata, tmp_path_factory):
    """A folder a kind; of shards their counts lie in one file."""
    root = tmp_path_factory.mktemp("originals")
    for kind in ("plain", "gzip", "dense"):
        (root / kind).mkdir()
        made = anndata.AnnData(adata.X.toarray(), obs=adata.obs) if kind == "dense" else adata
        made.write_h5ad(root / kind / "a.h5ad", compression="gzip" if kind == "gzip" else None)
    cf.convert_to_shards(root / "plain" / "a.h5ad", root / "shards")
    return root


# Python's faulthandler and torch's workers take SIGBUS for themselves.
READ = """
import faulthandler, os, sys
import cellfeed.opening
import cellfeed as cf
path, opened, how, workers, verify = sys.argv[1:]
cellfeed.opening.CACHE_BYTES = 0
cells = cf.open(opened, verify=verify)
truth = cells.read(slice(None)).to_numpy()
loader = cf.Loader(cells, cf.BlockShuffling(1), batch_size=32, memory_budget="32MB", threads=2)
if workers == "1":
    from torch.utils.data import DataLoader
    loader = DataLoader(loader, batch_size=None, num_workers=1)
faulthandler.enable(file=open(os.devnull, "w"))
found = []
try:
    for epoch in range(3):
        for i, batch in enumerate(loader):
            if (batch.to_numpy() != truth[batch.index]).any():
                print("wrong values")
            if (epoch, i) == (0, 3):
                if how == "shorten":
                    os.truncate(path, os.path.getsize(path) // 10)
                else:
                    with open(path, "r+b") as file:
                        file.truncate(0)
                        file.write(bytes(1 << 16))
except cf.errors.CellfeedError as error:
    assert path in str(error), error
    print("named")
"""


LOSSES = [
    *((kind, how, 0, "always") for kind in ("plain", "gzip", "dense", "shards")
      for how in ("shorten", "overwrite")),
    ("shards", "shorten", 0, "never"),
    ("shards", "overwrite", 1, "never"),
    ("plain", "shorten", 1, "always"),
]  # fmt: skip
# Each kind of file once, and shards, which are mapped, in every way.
FAST = {
    ("plain", "shorten", 0, "always"), ("gzip", "overwrite", 0, "always"),
    ("dense", "shorten", 0, "always"), ("shards", "overwrite", 0, "always"),
    ("shards", "shorten", 0, "never"), ("shards", "overwrite", 1, "never"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "how", "workers", "verify"),
    fast(FAST, LOSSES),
)
def test_a_file_that_loses_its_bytes_is_named(originals, tmp_path, kind, how, workers, verify):
    folder = pathlib.Path(shutil.copytree(originals / kind, tmp_path / kind))
    path = next(folder.glob("*.cells" if kind == "shards" else "*.h5ad"))
    opened = folder if kind == "shards" else path
    assert run_quietly(READ, path, opened, how, workers, verify) == "named\n"


# Obs of shards: values are gathered from the mapped .arrow file, texts decoded from Parquet.
READ_OBS = """
import os, sys
import numpy as np
import cellfeed.opening
import cellfeed as cf
path, opened, verify, how = sys.argv[1:]
cells = cf.open(opened, verify=verify)
table = cells.obs_table()
truth = table.to_pandas()
labels = np.array(cells.categories("label"))
assert (labels[cells.obs_values("label")] == truth["label"].astype(str)).all()
size = os.path.getsize(path)
if how == "tail":  # the rest of its last page is still mapped, and zeros
    os.truncate(path, size // 2 // 4096 * 4096 + 100)
elif how == "most":
    os.truncate(path, 5000)
else:
    os.utime(path, (1, 1))
def read():
    loader = cf.Loader(cells, cf.BlockShuffling(1), 64, obs=["label", "number"])
    for batch in loader:
        assert (labels[batch["label"]] == truth["label"].to_numpy()[batch.index]).all(), "wrong"
        assert (batch["number"] == truth["number"].to_numpy()[batch.index]).all(), "wrong"
def gather():
    for begin in range(0, len(cells), 100):
        rows = np.arange(begin, min(begin + 100, len(cells)))
        assert (cells.obs_values("number", rows) == truth["number"].to_numpy()[rows]).all(), "wrong"
def tabulate():
    for begin in range(0, len(cells), 1000):
        found = cells.obs_table(0, begin, begin + 1000).to_pandas()
        assert found.equals(truth[begin : begin + 1000].reset_index(drop=True)), "wrong"
named = 0
for use in (read, gather, tabulate):
    try:
        use()
    except cf.errors.CellfeedError as error:
        assert path in str(error), error
        named += 1
assert table.to_pandas().equals(truth), "what was read before changed"
print("named", named)
"""


OBS_FAST = {
    ("arrow", "tail", "always"), ("arrow", "most", "never"), ("arrow", "touched", "always"),
    ("parquet", "tail", "never"), ("parquet", "most", "always"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "how", "verify"),
    fast(
        OBS_FAST,
        itertools.product(("arrow", "parquet"), ("tail", "most", "touched"), ("always", "never")),
    ),
)
def test_obs_of_a_shard_that_loses_its_bytes_is_named(originals, tmp_path, kind, how, verify):
    folder = pathlib.Path(shutil.copytree(originals / "shards", tmp_path / "shards"))
    path = next(folder.glob(f"shard_*.{kind}"))
    said = run_quietly(READ_OBS, path, folder, verify, how)
    assert said == f"named {3 if kind == 'arrow' else 1}\n"


# Bytes behind the end of a file, in its last page, read as zeros without a signal.
READ_TAIL = """
import os, sys
import numpy as np
import cellfeed.opening
import cellfeed as cf
path, opened = sys.argv[1:]
cells = cf.open(opened, verify="never")
truth = cells.read(slice(None)).to_numpy()
os.truncate(path, os.path.getsize(path) // 2 // 4096 * 4096 + 100)
named = 0
for row in range(0, len(cells), 7):
    try:
        assert (cells.read([row]).to_numpy() == truth[row]).all(), "wrong"
    except cf.errors.CellfeedError as error:
        assert path in str(error), error
        named += 1
print("named" if named else "nothing was said")
"""


@pytest.mark.parametrize("layout", ["packed", "dense"])
def test_the_last_page_of_a_shortened_shard_is_not_read_as_zeros(originals, tmp_path, layout):
    folder = tmp_path / "shards"
    cf.convert_to_shards(originals / "plain" / "a.h5ad", folder, layout=layout)
    path = next(folder.glob("*.cells" if layout == "packed" else "*.npy"))
    assert run_quietly(READ_TAIL, path, folder) == "named\n"
