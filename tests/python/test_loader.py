"""Batches of the loader: the right cells, the right values, whatever the format and threads."""

import gc

import anndata
import numpy as np
import pandas as pd
import psutil
import pytest
import scanpy
import scipy.sparse
import torch
from real_files import assert_same_csr, matrix_of, read_anndata

import cellfeed as cf


@pytest.fixture(scope="module")
def sources(shared_data, tmp_path_factory):
    """scp1884 as it is (gzip), as plain .h5ad, as packed and as dense shards."""
    folder = tmp_path_factory.mktemp("sources")
    path = shared_data / "anndata/scp1884.h5ad"
    read_anndata(path).write_h5ad(folder / "plain.h5ad")
    cf.convert_to_shards(path, folder / "packed", shard_size=300)
    cf.convert_to_shards(path, folder / "dense", shard_size=300, layout="dense")
    return {"gzip": path, **{name: folder / name for name in ("plain.h5ad", "packed", "dense")}}


@pytest.fixture(scope="module")
def expected(sources):
    return matrix_of(read_anndata(sources["gzip"]), "X")


KINDS = ["gzip", "plain.h5ad", "packed", "dense"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_size", [1, 64])
def test_an_epoch_has_every_cell_once_with_its_own_values(sources, expected, kind, block_size):
    cells = cf.open(sources[kind], obs=["Celltype", "n_counts"])
    loader = cf.Loader(cells, cf.BlockShuffling(block_size), batch_size=100, seed=3)
    adata = read_anndata(sources["gzip"])
    assert len(loader) == 11
    planned, seen = list(loader.plan()), []
    for batch in loader:
        assert_same_csr(batch.x, expected[batch.index])
        assert list(batch.obs.labels("Celltype")) == list(adata.obs["Celltype"].iloc[batch.index])
        np.testing.assert_array_equal(
            batch.obs["n_counts"], adata.obs["n_counts"].to_numpy()[batch.index]
        )
        seen.append(batch.index)
    assert [list(rows) for rows in planned] == [list(rows) for rows in seen]
    everything = np.concatenate(seen)
    assert sorted(everything) == list(range(1020))
    assert list(everything) != list(range(1020))


def test_format_threads_and_budget_change_nothing(sources):
    reference = None
    for kind in KINDS:
        for threads, budget in [(1, "2GB"), (4, "32MB")]:
            loader = cf.Loader(
                cf.open(sources[kind]),
                cf.BlockShuffling(4, indices=range(250, 650)),  # of three shards
                batch_size=128,
                seed=1,
                threads=threads,
                memory_budget=budget,
                output="dense",
                transforms=[cf.NormalizeTotal(), cf.Log1p()],
            )
            batches = [(batch.index.copy(), batch.x.copy()) for batch in loader]
            reference = reference or batches
            for (rows, x), (reference_rows, reference_x) in zip(batches, reference, strict=True):
                np.testing.assert_array_equal(rows, reference_rows)
                np.testing.assert_array_equal(x, reference_x)


def test_epochs_differ_and_set_epoch_brings_one_back(sources):
    loader = cf.Loader(cf.open(sources["packed"]), cf.BlockShuffling(1), batch_size=1020, seed=5)
    first, second = (next(iter(loader)).index.copy() for _ in range(2))
    assert list(first) != list(second) and sorted(first) == sorted(second)
    loader.set_epoch(0)
    np.testing.assert_array_equal(next(iter(loader)).index, first)
    again = cf.Loader(cf.open(sources["gzip"]), cf.BlockShuffling(1), batch_size=1020, seed=5)
    np.testing.assert_array_equal(next(iter(again)).index, first)


@pytest.mark.parametrize("output", ["csr", "dense"])
@pytest.mark.parametrize("target_sum", [1e4, 7.5])
def test_normalize_and_log1p_equal_scanpy(sources, output, target_sum):
    rows = np.arange(0, 1020, 5)
    adata = read_anndata(sources["gzip"])[rows].copy()
    adata.X = adata.X.astype(np.float64)
    scanpy.pp.normalize_total(adata, target_sum=target_sum)
    scanpy.pp.log1p(adata)
    transforms = [cf.NormalizeTotal(target_sum), cf.Log1p()]
    for kind in ("gzip", "packed"):
        cells = cf.open(sources[kind])
        x = cells.read(rows, output=output, transforms=transforms).to_numpy()
        np.testing.assert_allclose(x, adata.X.toarray(), rtol=3e-7)
        log2 = cells.read(slice(0, 9), transforms=[cf.Log1p(base=2)]).to_numpy()
        np.testing.assert_allclose(log2, np.log2(1 + cells[:9].to_numpy().astype(float)), rtol=3e-7)


def test_the_library_size_is_that_of_all_genes(sources, shared_data):
    adata = read_anndata(sources["gzip"])
    scanpy.pp.normalize_total(adata, target_sum=1e4)
    genes = list(adata.var_names[[700, 30, 2]])
    kept = adata[:, genes].X.toarray()
    cells = cf.open(sources["packed"])
    x = cells.read(
        slice(None), transforms=[cf.NormalizeTotal(1e4), cf.SelectGenes(genes)]
    ).to_numpy()
    np.testing.assert_allclose(x, kept, rtol=3e-7)
    # Also where a fixed axis or an inner join drops genes when the files are opened.
    x = cf.open(sources["packed"], genes=genes).read(
        slice(None), transforms=[cf.NormalizeTotal(1e4)]
    )
    np.testing.assert_allclose(x.to_numpy(), kept, rtol=3e-7)
    paths = [
        shared_data / f"anndata/derived_mix_{name}.h5ad" for name in ("sc_celseq2", "sc_dropseq")
    ]
    first = read_anndata(paths[0])
    scanpy.pp.normalize_total(first, target_sum=1e4)
    joined = cf.open(paths, join="inner")
    x = joined.read(slice(0, first.n_obs), transforms=[cf.NormalizeTotal(1e4)]).to_numpy()
    np.testing.assert_allclose(x, first[:, joined.var_names].X.toarray(), rtol=3e-7)


def test_genes_that_are_not_there_are_named_when_the_loader_is_made(sources):
    cells = cf.open(sources["packed"])
    with pytest.raises(KeyError, match="Xyz1"):
        cf.Loader(cells, cf.Streaming(), transforms=[cf.SelectGenes(["Xyz1"])])
    with pytest.raises(KeyError, match="no_column") as caught:
        cf.Loader(cells, cf.Streaming(), obs=["no_column"])
    assert "Celltype" in str(caught.value)  # what there is


def test_batches_outlive_the_loader_and_are_not_overwritten(sources, expected):
    order = cf.BlockShuffling(1, indices=range(0, 1020, 3))
    loader = cf.Loader(cf.open(sources["packed"]), order, batch_size=100)
    kept = [(batch.index, batch.x, batch.to_torch()) for batch in loader]
    del loader
    gc.collect()
    for rows, x, tensor in kept:
        assert_same_csr(x, expected[rows])
        np.testing.assert_array_equal(tensor.to_dense().numpy(), expected[rows].toarray())


def test_tensors_share_the_memory_of_the_batch(sources):
    cells = cf.open(sources["packed"])
    batch = cells[:5]
    assert batch.to_torch().values().data_ptr() == batch.data.ctypes.data
    dense = cells.read(slice(0, 5), output="dense")
    tensor = dense.to_torch()
    assert tensor.data_ptr() == dense.x.ctypes.data and tensor.dtype == torch.float32


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_every_dtype(sources, expected, dtype):
    batch = cf.open(sources["packed"]).read(slice(None), dtype=dtype)
    assert batch.x.dtype == dtype
    assert_same_csr(batch.x, expected.astype(dtype))


def test_a_value_that_does_not_fit_is_refused_unless_asked(tmp_path):
    x = scipy.sparse.csr_matrix(np.array([[0, 1.5], [2, 0]]))
    anndata.AnnData(x).write_h5ad(tmp_path / "a.h5ad")
    cells = cf.open(tmp_path / "a.h5ad")
    with pytest.raises(cf.errors.PrecisionError, match=r"a\.h5ad.*1\.5"):
        cells.read([1, 0], dtype="int32")
    anndata.AnnData(x / 3).write_h5ad(tmp_path / "b.h5ad")
    cells = cf.open(tmp_path / "b.h5ad")
    with pytest.raises(ValueError, match="float64"):  # what to ask for instead
        cells.read([1], casting="exact")
    np.testing.assert_allclose(cells.read([1]).to_numpy(), (x[1] / 3).toarray(), rtol=1e-7)


def test_small_odd_and_large_batches(sources):
    cells = cf.open(sources["packed"])
    for batch_size, drop_last, sizes in [
        (1020, False, [1020]),
        (5000, False, [1020]),
        (1000, False, [1000, 20]),
        (1000, True, [1000]),
        (7, False, [7] * 145 + [5]),
    ]:
        loader = cf.Loader(cells, cf.Streaming(), batch_size, drop_last=drop_last)
        assert [len(batch) for batch in loader] == sizes


def test_indices_and_masks_restrict_the_epoch(sources):
    cells = cf.open(sources["packed"])
    mask = cells.obs_values("Celltype") == 3
    for indices in (mask, np.flatnonzero(mask), list(np.flatnonzero(mask))):
        loader = cf.Loader(cells, cf.BlockShuffling(1, indices=indices), batch_size=10)
        rows = np.concatenate([batch.index for batch in loader])
        np.testing.assert_array_equal(np.sort(rows), np.flatnonzero(mask))


def test_wrong_arguments_are_named(sources):
    cells = cf.open(sources["packed"])
    for arguments, word in [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"output": "tensor"}, "output"),
        ({"dtype": "float16"}, "dtype|float16"),
        ({"memory_budget": "lots"}, "memory_budget"),
        ({"memory_budget": 0}, "memory_budget"),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"world_size": 2}, "rank"),
        ({"remainder": "wrap"}, "remainder"),
        ({"partition": "stripes"}, "partition"),
        ({"seed": -1}, "seed"),
        ({"transforms": [np.log1p]}, "transform"),
        ({"casting": "unsafe"}, "casting"),
    ]:
        with pytest.raises(cf.errors.CellfeedError, match=word):
            cf.Loader(cells, cf.Streaming(), **arguments)
    with pytest.raises(TypeError, match="strategy"):
        cf.Loader(cells, "shuffle")
    with pytest.raises(TypeError, match=r"cellfeed\.open"):
        cf.Loader(3, cf.Streaming())


def test_stats_count_what_was_done(sources, expected):
    loader = cf.Loader(cf.open(sources["packed"]), cf.Streaming(), batch_size=100)
    for _ in loader:
        pass
    stats = loader.stats()
    assert (stats["cells"], stats["batches"], stats["nnz"]) == (1020, 11, expected.nnz)
    assert stats["bytes_read"] >= stats["bytes_used"] > 0


@pytest.mark.slow
def test_memory_stays_under_the_budget(tmp_path):
    random = scipy.sparse.random(40_000, 2_000, density=0.1, format="csr", dtype=np.float32, rng=0)
    random.data[:] = np.ceil(random.data * 50)
    anndata.AnnData(random, obs=pd.DataFrame(index=map(str, range(40_000)))).write_h5ad(
        tmp_path / "a.h5ad"
    )
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "s")
    del random
    process, budget = psutil.Process(), 50_000_000
    for path in (tmp_path / "s", tmp_path / "a.h5ad"):
        cells = cf.open(path)
        loader = cf.Loader(
            cells, cf.BlockShuffling(1), 256, output="dense", memory_budget=budget, fetch_factor=64
        )
        gc.collect()
        before = process.memory_info()
        peak = 0
        for k, _ in enumerate(loader):
            if k % 8 == 0:
                now = process.memory_info()
                # Pages of mapped files are the system's to take back.
                peak = max(peak, (now.rss - now.shared) - (before.rss - before.shared))
        assert loader.stats()["peak_bytes"] <= budget
        assert peak <= budget + 200_000_000
