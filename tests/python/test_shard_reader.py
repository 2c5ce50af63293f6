"""The independent reader sees in a converted directory what anndata sees in the sources."""

import pathlib
import runpy

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from cellfeed.data.sharding import convert_to_shards

ShardDirectory = runpy.run_path(str(pathlib.Path(__file__).with_name("shard_reader.py")))[
    "ShardDirectory"
]


def _expect_same_cells(shards, adata, first_cell=0, step=1):
    matrix = sp.csr_matrix(adata.X)
    matrix.sort_indices()
    for cell in range(0, adata.n_obs, step):
        indices, values = shards.row(first_cell + cell)
        begin, end = matrix.indptr[cell : cell + 2]
        np.testing.assert_array_equal(indices, matrix.indices[begin:end])
        np.testing.assert_array_equal(values, matrix.data[begin:end])
        assert values.dtype == matrix.dtype


def _expect_same_obs(shards, adata, source, first_cell=0):
    for cell in range(adata.n_obs):
        obs = shards.obs(first_cell + cell)
        assert obs["_index"] == adata.obs_names[cell]
        assert obs["_source_file"].endswith(source)
        assert obs["_source_row"] == cell
        for name in adata.obs.columns:
            expected = adata.obs[name].iloc[cell]
            missing = pd.isna(expected)
            assert obs[name] is None or not missing or np.isnan(obs[name]), name
            assert missing or obs[name] == expected, name
        for name, value in shards.fixed_obs(first_cell + cell).items():
            assert value == obs[name] or value != value, name


def _make_adata(dtype, n_cells=150, n_genes=90, seed=0):
    random = np.random.default_rng(seed)
    counts = random.poisson(0.3, (n_cells, n_genes)) * random.integers(1, 40, (n_cells, n_genes))
    counts[::11] = 0
    matrix = sp.csr_matrix(counts.astype(dtype))
    obs = pd.DataFrame(
        {
            "type": pd.Categorical.from_codes(
                random.integers(-1, 3, n_cells), ["T cell", "B cell", "mast cell", "unused"]
            ),
            "donor": random.choice(["a", "b", "é"], n_cells),
            "depth": random.integers(0, 1 << 40, n_cells),
            "score": np.where(random.random(n_cells) < 0.2, np.nan, random.random(n_cells)),
            "passed": random.random(n_cells) < 0.5,
            "flag": pd.array(random.choice([True, False, None], n_cells), dtype="boolean"),
        },
        index=[f"cell-{i}" for i in range(n_cells)],
    )
    return anndata.AnnData(matrix, obs, pd.DataFrame(index=[f"g{i}" for i in range(n_genes)]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint16", "int8"])
def test_every_dtype_comes_back(tmp_path, dtype):
    adata = _make_adata(dtype)
    adata.write_h5ad(tmp_path / "source.h5ad")
    convert_to_shards(tmp_path / "source.h5ad", tmp_path / "shards", shard_size=60)
    shards = ShardDirectory(tmp_path / "shards")
    assert len(shards) == adata.n_obs
    assert shards.genes["_index"].to_pylist() == list(adata.var_names)
    _expect_same_cells(shards, adata)
    _expect_same_obs(shards, adata, "source.h5ad")


def test_log_values_come_back_bit_by_bit(tmp_path):
    adata = _make_adata("float32")
    adata.X.data = np.log1p(adata.X.data / np.float32(3))
    adata.write_h5ad(tmp_path / "source.h5ad")
    convert_to_shards(tmp_path / "source.h5ad", tmp_path / "shards")
    _expect_same_cells(ShardDirectory(tmp_path / "shards"), adata)


def test_dense_shards_open_in_numpy(tmp_path):
    adata = _make_adata("float32")
    adata.write_h5ad(tmp_path / "source.h5ad")
    convert_to_shards(tmp_path / "source.h5ad", tmp_path / "shards", shard_size=100, layout="dense")
    second = np.load(tmp_path / "shards" / "shard_000001.npy", mmap_mode="r")
    np.testing.assert_array_equal(second, adata.X[100:].toarray())
    _expect_same_cells(ShardDirectory(tmp_path / "shards"), adata)


def test_mean_order_renumbers_genes_and_says_how(tmp_path):
    adata = _make_adata("float32")
    adata.write_h5ad(tmp_path / "source.h5ad")
    convert_to_shards(tmp_path / "source.h5ad", tmp_path / "shards", gene_order="mean")
    shards = ShardDirectory(tmp_path / "shards")
    order = shards.genes["_original_position"].to_numpy()
    sums = np.asarray(adata.X.astype("float64").sum(axis=0)).ravel()
    assert np.all(np.diff(sums[order]) <= 0)
    _expect_same_cells(shards, adata[:, order])


def test_real_counts_come_back(tmp_path, shared_data):
    source = shared_data / "anndata" / "scp1884.h5ad"
    convert_to_shards(source, tmp_path / "shards", shard_size=400)
    shards = ShardDirectory(tmp_path / "shards")
    adata = anndata.read_h5ad(source)
    _expect_same_cells(shards, adata, step=7)
    bits = 8 * sum(shard["matrix"]["bytes"] for shard in shards.manifest["shards"])
    assert bits / shards.manifest["nnz"] <= 9.5
