"""The packed cache of dense matrices: the same bits as the file gives, in whatever batches."""

from __future__ import annotations

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from child_program import run_quietly
from zarr_files import write_store

import cellfeed as cf
from cellfeed.data.vocab import GeneVocab

N_CELLS, N_GENES = 700, 45
GENES = [f"g{i}" for i in range(N_GENES)]
FLOATS = ("<f4", "<f8", ">f4")
FORMS = (*FLOATS, "<i4", "<i8", "|u1", "zarr", "parquet")


def make_values(dtype, seed=1):
    """Counts, a row of zeros and a full one; of floats also what only bits tell apart."""
    rng = np.random.default_rng(seed)
    x = rng.poisson(0.4, (N_CELLS, N_GENES)).astype(np.dtype(dtype))
    x[3], x[4] = 0, 7
    if x.dtype.kind == "f":
        x[5:9] = rng.normal(size=(4, N_GENES))
        x[9, :4] = [-0.0, np.inf, -np.inf, np.nan]
        x[10] = -0.0
        bits = x.view(x.dtype.str.replace("f", "u"))
        # A quiet NaN with a payload.
        bits[11, 0] = {4: 0x7FC01234, 8: 0x7FF8000000001234}[x.dtype.itemsize]
    return x


def write(folder, form):
    """A dense matrix in this form, compressed; its path and its values."""
    name = "cells"
    x = make_values(form if form not in ("zarr", "parquet") else "<f4")
    obs = pd.DataFrame({"t": np.arange(N_CELLS) % 3}, index=[f"c{i}" for i in range(N_CELLS)])
    if form == "parquet":
        path = folder / f"{name}.parquet"
        table = {"t": list("abcdefg") * 100} | {g: x[:, i] for i, g in enumerate(GENES)}
        pq.write_table(pa.table(table), path, row_group_size=100)
        return path, x
    adata = anndata.AnnData(x.astype(x.dtype.newbyteorder("=")), obs, pd.DataFrame(index=GENES))
    if form == "zarr":
        path = folder / f"{name}.zarr"
        write_store(adata, path, 2)
        return path, x
    path = folder / f"{name}.h5ad"
    adata.write_h5ad(path)
    with h5py.File(path, "a") as file:
        attributes = dict(file["X"].attrs)
        del file["X"]
        made = file.create_dataset("X", data=x, chunks=(64, 10), compression="gzip", shuffle=True)
        for key, value in attributes.items():
            made.attrs[key] = value
    return path, x


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """All files, written together: the cache waits until a file is 2 seconds old."""
    made = {form: write(tmp_path_factory.mktemp("dense"), form) for form in FORMS}
    made["obsm"] = path, _ = write(tmp_path_factory.mktemp("dense"), "<i4")
    adata = anndata.read_h5ad(path)
    adata.obsm["X_pca"] = np.random.default_rng(2).normal(size=(N_CELLS, 5))
    adata.write_h5ad(path, compression="gzip")
    return made


@pytest.fixture(params=FORMS)
def dense(request, forms):
    """A path of each form, what it holds, and how it is opened."""
    path, x = forms[request.param]
    options = {"obs": ["t"]} if request.param == "parquet" else {}
    return path, x, options


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def assert_same_bits(a, b):
    """Of two batches of one kind."""
    np.testing.assert_array_equal(np.asarray(a.index), np.asarray(b.index))
    if isinstance(getattr(a, "x", None), np.ndarray):
        assert a.x.dtype == b.x.dtype
        np.testing.assert_array_equal(bits(a.x), bits(b.x))
    elif hasattr(a, "input_ids"):
        np.testing.assert_array_equal(a.input_ids, b.input_ids)
    else:
        one, other = a.to_scipy(), b.to_scipy()
        assert one.dtype == other.dtype
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(bits(getattr(one, name)), bits(getattr(other, name)))


BATCHES = {
    "csr": {},
    "dense": {"output": "dense"},
    "dense float64": {"output": "dense", "dtype": "float64"},
    "some genes, dense": {"output": "dense", "transforms": [cf.SelectGenes(["g7", "g2", "g44"])]},
    "some genes": {"transforms": [cf.SelectGenes(["g7", "g2", "g44"])]},
}


@pytest.mark.parametrize("kind", BATCHES)
def test_batches_are_those_of_the_file(dense, tmp_path, kind):
    path, _, options = dense
    batches = {"seed": 3, "casting": "round"} | BATCHES[kind]
    for strategy in (cf.BlockShuffling(4), cf.Streaming()):
        cache = tmp_path / type(strategy).__name__
        plain = list(cf.Loader(cf.open(path, **options), strategy, 64, **batches))
        cells = cf.open(path, cache="rows", cache_dir=cache, **options)
        # Some rows are there before the first epoch, so that most windows mix them with others.
        cells.read(np.arange(0, N_CELLS, 3))
        cells.packed_shards()
        for opened in (
            cells,
            cells,
            cf.open(path, cache="rows", cache_dir=cache, **options),
        ):
            for a, b in zip(cf.Loader(opened, strategy, 64, **batches), plain, strict=True):
                assert_same_bits(a, b)


def test_what_is_kept_first_is_exact_whatever_was_asked_for(dense, tmp_path):
    path, x, options = dense
    genes = {"transforms": [cf.SelectGenes(["g3"])]}
    for k, first in enumerate(
        (
            {"output": "dense"},
            {"output": "dense", **genes},
            {"dtype": "float32"},
            {"dtype": "float64"},
        )
    ):
        cache = tmp_path / str(k)
        cells = cf.open(path, cache="rows", cache_dir=cache, **options)
        for _ in cf.Loader(cells, cf.Streaming(), 64, casting="round", **first):
            pass
        (folder,) = cells.packed_shards()
        cf.data.validate_shard_dir(folder)
        kind = "float64" if x.dtype.itemsize == 8 or x.dtype.kind != "f" else "float32"
        got = cf.open(folder).read(np.arange(N_CELLS), output="dense", dtype=kind)
        np.testing.assert_array_equal(bits(got.x), bits(x.astype(kind)))


def test_default_batches_stay_dense(dense, tmp_path):
    path, x, options = dense
    cells = cf.open(path, cache="rows", cache_dir=tmp_path, **options)
    for _ in range(2):
        values = cells[:].X
        assert isinstance(values, np.ndarray)
        np.testing.assert_array_equal(bits(values), bits(x.astype(values.dtype)))
        cells.packed_shards()


CHANGED = {
    "tokens": {"output": "tokens", "tokens": cf.RankTokens(GeneVocab.from_genes(GENES))},
    "normalized": {"output": "dense", "transforms": [cf.NormalizeTotal(), cf.Log1p()]},
}


@pytest.mark.parametrize("kind", CHANGED)
def test_batches_that_are_changed_on_the_way(forms, tmp_path, kind):
    path, _ = forms["<i4"]
    for _ in range(2):
        opened = cf.open(path), cf.open(path, cache="rows", cache_dir=tmp_path / "cache")
        loaders = [cf.Loader(cells, cf.BlockShuffling(4), 64, **CHANGED[kind]) for cells in opened]
        for a, b in zip(*loaders, strict=True):
            assert_same_bits(a, b)


def test_values_that_do_not_fit_are_named_as_by_the_file(forms, tmp_path):
    path, _ = forms["<f8"]
    cells = cf.open(path, cache="rows", cache_dir=tmp_path / "cache")
    for kept in (False, True):
        for output in ("csr", "dense"):
            said = []
            for opened in (cf.open(path), cells):
                with pytest.raises(cf.errors.PrecisionError) as error:
                    opened.read(np.arange(N_CELLS), output=output, dtype="int32")
                said.append(str(error.value))
            assert said[0] == said[1]
        if not kept:
            cells.read(np.arange(N_CELLS), dtype="float64")
            cells.packed_shards()


def test_damaged_records_are_read_from_the_file(forms, tmp_path):
    path, x = forms["<f4"]
    cache = tmp_path / "cache"
    cells = cf.open(path, cache="rows", cache_dir=cache)
    cells.read(np.arange(0, N_CELLS, 2))
    del cells
    (segment,) = cache.glob("*/*/*.cells")
    data = bytearray(segment.read_bytes())
    for at in range(5000, 10_000, 200):
        data[at] ^= 0x40
    segment.write_bytes(data)
    cells = cf.open(path, cache="rows", cache_dir=cache)
    with pytest.warns(cf.errors.CacheWarning, match="damaged"):
        batches = list(cf.Loader(cells, cf.BlockShuffling(4), 64, output="dense"))
    for batch in batches:
        np.testing.assert_array_equal(bits(batch.x), bits(x[np.asarray(batch.index)]))


def test_arrays_of_obsm_are_kept(forms, tmp_path):
    path, _ = forms["obsm"]
    adata = anndata.read_h5ad(path)
    for _ in range(2):
        cells = cf.open(path, obsm=["X_pca"], cache="rows", cache_dir=tmp_path / "cache")
        for _ in range(2):
            batch = cells.read(np.arange(N_CELLS), casting="round")
            np.testing.assert_array_equal(
                batch.obsm["X_pca"], adata.obsm["X_pca"].astype("float32")
            )
            assert np.array_equal(batch.to_numpy(), adata.X)
        assert len(cells.packed_shards()) == 2


GROWTH = """
import sys, cellfeed as cf
path, cache, output, dtype = sys.argv[1:]
def anonymous():
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines["RssAnon"].split()[0]) / 1000
cells = cf.open(path, cache="16MiB", cache="rows", cache_dir=cache)
options = {"output": output, "dtype": dtype, "memory_budget": "64MB"}
grown = 0
for i, _ in enumerate(cf.Loader(cells, cf.Streaming(), 256, **options)):
    if i == 10:
        before = anonymous()
    grown = max(grown, anonymous() - before) if i > 10 else 0
print(grown)
"""


@pytest.mark.slow
def test_what_is_kept_does_not_stay_in_memory(tmp_path):
    n, values = 50_000, np.random.default_rng(1).normal(size=(1000, 1000)).astype("f4")
    path = tmp_path / "a.h5ad"
    anndata.AnnData(np.tile(values, (n // 1000, 1))).write_h5ad(path)
    with h5py.File(path, "a") as file:
        values, attributes = file["X"][:], dict(file["X"].attrs)
        del file["X"]
        file.create_dataset("X", data=values, chunks=(100, 1000), compression="lzf")
        file["X"].attrs.update(attributes)
    for k, (output, dtype) in enumerate([("dense", "float32"), ("csr", "float64")]):
        arguments = path, tmp_path / f"cache{k}", output, dtype
        assert float(run_quietly(GROWTH, *arguments, timeout=120)) < 100, (output, dtype)
