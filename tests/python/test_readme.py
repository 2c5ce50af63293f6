"""The Python of the README runs as it stands there, in order, in a folder that holds an atlas."""

import pathlib
import re

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

README = pathlib.Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def write_atlas_file(path: pathlib.Path, n_cells: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    counts = random.poisson(0.3, size=(n_cells, 40)).astype(np.float32)
    obs = pd.DataFrame(
        {"cell_type": pd.Categorical(random.choice(["B cell", "T cell"], size=n_cells))},
        index=[f"{path.stem}-{row}" for row in range(n_cells)],
    )
    var = pd.DataFrame(index=[f"gene{column}" for column in range(40)])
    adata = anndata.AnnData(scipy.sparse.csr_matrix(counts), obs=obs, var=var)
    adata.layers["spliced"] = scipy.sparse.csr_matrix(counts // 2)
    adata.obsm["X_pca"] = random.normal(size=(n_cells, 10)).astype(np.float32)
    adata.write_h5ad(path)


@pytest.fixture
def atlas(tmp_path, monkeypatch):
    """A working directory with ``atlas/one.h5ad`` and ``atlas/two.h5ad``."""
    (tmp_path / "atlas").mkdir()
    write_atlas_file(tmp_path / "atlas" / "one.h5ad", 1500, seed=1)
    write_atlas_file(tmp_path / "atlas" / "two.h5ad", 700, seed=2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_python_block_runs(atlas):
    text = README.read_text()
    blocks = [(match[1], text.count("\n", 0, match.start()) + 1) for match in BLOCK.finditer(text)]
    assert len(blocks) >= 3
    names: dict = {}
    for code, line in blocks:
        # Lines of a traceback are then lines of the README.
        exec(compile("\n" * line + code, str(README), "exec"), names)
    assert len(names["cells"]) == 2200
    assert (atlas / "shards" / "shard_metadata.json").is_file()
