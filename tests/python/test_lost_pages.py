"""Files that are shortened or written over while they are open: named errors, no dead process."""

import pathlib
import shutil

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from child_program import run_quietly

import cellfeed as cf

N_CELLS, N_GENES = 20_000, 300


@pytest.fixture(scope="module")
def adata():
    random = np.random.default_rng(0)
    x = scipy.sparse.random(N_CELLS, N_GENES, 0.5, format="csr", dtype=np.float32, rng=random)
    x.data = np.ceil(x.data * 100)
    obs = pd.DataFrame(index=[f"c{i}" for i in range(N_CELLS)])
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
import cellfeed as cf
path, opened, how, workers, verify = sys.argv[1:]
cells = cf.open(opened, verify=verify, cache=0)
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
                        file.write(bytes(1 << 20))
except cf.CellfeedError as error:
    assert path in str(error), error
    print("named")
"""


@pytest.mark.parametrize(
    ("kind", "how", "workers", "verify"),
    [
        *((kind, how, 0, "always") for kind in ("plain", "gzip", "dense", "shards")
          for how in ("shorten", "overwrite")),
        ("shards", "shorten", 0, "never"),
        ("shards", "overwrite", 1, "never"),
        ("plain", "shorten", 1, "always"),
    ],
)  # fmt: skip
def test_a_file_that_loses_its_bytes_is_named(originals, tmp_path, kind, how, workers, verify):
    folder = pathlib.Path(shutil.copytree(originals / kind, tmp_path / kind))
    path = next(folder.glob("*.cells" if kind == "shards" else "*.h5ad"))
    opened = folder if kind == "shards" else path
    assert run_quietly(READ, path, opened, how, workers, verify) == "named\n"
