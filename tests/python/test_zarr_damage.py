"""Zarr stores that are damaged, or hold what is not read, are named errors."""

import itertools
import json
import pathlib
import warnings

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import zarr
from program import run
from tiers import fast
from zarr_files import copy_store, counts, store_again, write_store, zip_store

import cellfeed as cf
from cellfeed.errors import CorruptDataError, LeftOutWarning

N_CELLS, N_GENES = 60, 20


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> pathlib.Path:
    x = scipy.sparse.csr_matrix(counts(N_CELLS, N_GENES))
    obs = pd.DataFrame({"kind": pd.Categorical(["a", "b"] * (N_CELLS // 2))})
    obs.index = [f"c{i}" for i in range(N_CELLS)]
    made = anndata.AnnData(x, obs=obs, layers={"dense": x.toarray()})
    path = tmp_path_factory.mktemp("original") / "a.zarr"
    return store_again(write_store(made, path, 3), chunks=32)


@pytest.fixture
def path(original, tmp_path) -> pathlib.Path:
    return copy_store(original, tmp_path / "a.zarr")


def read_all(path, **options) -> None:
    cells = cf.open(path, **options)
    cells.read(slice(None))
    cells.obs_table()
    cells.var_table()


@pytest.mark.parametrize("key", ["X/data/c/1", "X/indices/c/0", "X/indptr/c/0"])
def test_a_chunk_that_is_cut_or_changed_is_named(path, key):
    whole = (path / key).read_bytes()
    (path / key).write_bytes(whole[:-3])
    with pytest.raises(CorruptDataError, match=key):
        read_all(path)
    (path / key).write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(CorruptDataError, match=key):
        read_all(path)


def test_a_chunk_of_a_sparse_matrix_that_is_missing_is_named(path):
    (path / "X/data/c/1").unlink()
    with pytest.raises(CorruptDataError, match=r"'X/data/c/1'.*write_empty_chunks"):
        read_all(path)


def test_a_chunk_of_a_dense_matrix_that_is_missing_is_its_fill_value(path):
    (path / "layers/dense/c/1/0").unlink()
    expected = zarr.open_group(path, mode="r")["layers/dense"][:]
    assert not expected[32:60, :16].any()
    got = cf.open(path, layer="dense").read(slice(None)).x.toarray()
    np.testing.assert_array_equal(got, expected)


FILLS = (1.0, 7.0, 0.1, -0.1, 65504.0, 6e-8, 6.1e-5, np.inf, -np.inf, np.nan)


HALVES = list(itertools.product((2, 3), FILLS))


# The fast ones take the formats in turn.
@pytest.mark.parametrize(
    ("zarr_format", "fill"),
    fast(HALVES[: len(FILLS) : 2] + HALVES[len(FILLS) + 1 :: 2], HALVES),
)
def test_fill_values_of_halves(tmp_path, fill, zarr_format):
    store = tmp_path / "halves.zarr"
    write_store(anndata.AnnData(np.zeros((40, 6), np.float16)), store, zarr_format)
    group = zarr.open_group(store, mode="r+", use_consolidated=False)
    del group["X"]
    halves = group.create_array(
        "X", shape=(40, 6), chunks=(16, 6), dtype="f2", fill_value=np.float16(fill)
    )
    halves.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
    halves[16:32] = np.arange(96).reshape(16, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as anndata has it, format 3 too
        zarr.consolidate_metadata(store)
    got = cf.open(store).read(slice(None)).x
    got = got.toarray() if hasattr(got, "toarray") else got
    np.testing.assert_array_equal(got, halves[:].astype(np.float32))


def test_a_checksum_that_differs_is_named(path):
    store_again(path, chunks=32, compressors=[zarr.codecs.Crc32cCodec()])
    chunk = path / "X/data/c/0"
    whole = bytearray(chunk.read_bytes())
    whole[5] ^= 1
    chunk.write_bytes(whole)
    with pytest.raises(CorruptDataError, match=r"X/data/c/0.*CRC-32C"):
        read_all(path)


def test_a_damaged_entry_of_a_zip_file_is_named(path):
    zipped = zip_store(path)
    values = (path / "X/data/c/0").read_bytes()
    whole = bytearray(zipped.read_bytes())
    at = whole.find(values)
    whole[at + 4] ^= 16
    zipped.write_bytes(whole)
    with pytest.raises(CorruptDataError, match=r"X/data/c/0.*CRC-32"):
        read_all(zipped)


def test_what_is_no_anndata_says_so(tmp_path):
    zarr.create_array(tmp_path / "array.zarr", shape=(3,), dtype="f4")
    with pytest.raises(NotImplementedError, match="one array, not a group"):
        cf.open(tmp_path / "array.zarr")
    zarr.create_group(tmp_path / "group.zarr")
    with pytest.raises(KeyError, match="zarr store holds no matrix"):
        cf.open(tmp_path / "group.zarr")
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(CorruptDataError, match=r"neither zarr\.json nor \.zgroup"):
        cf.open(tmp_path / "empty.zarr")
    (tmp_path / "text.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(CorruptDataError, match="zip"):
        cf.open(tmp_path / "text.zip")


def test_a_codec_that_is_not_read_is_named(path):
    root = path / "zarr.json"
    described = json.loads(root.read_text())
    codecs = described["consolidated_metadata"]["metadata"]["X/data"]["codecs"]
    codecs[1] = {"name": "numcodecs.bz2", "configuration": {"level": 1}}
    root.write_text(json.dumps(described))
    with pytest.raises(NotImplementedError, match=r"a.zarr.*'X/data'.*'numcodecs.bz2'"):
        cf.open(path)


def test_a_column_of_another_encoding_is_named(path):
    root = path / "zarr.json"
    described = json.loads(root.read_text())
    described["consolidated_metadata"]["metadata"]["obs/kind"]["attributes"]["encoding-type"] = (
        "new"
    )
    root.write_text(json.dumps(described))
    with pytest.warns(LeftOutWarning, match=r"'obs/kind' is 'new'"):
        assert pa.table(cf.open(path).obs_table()).num_columns == 1
    with pytest.raises(NotImplementedError, match=r"'obs/kind' is 'new'"):
        cf.open(path).obs_values("kind")


@pytest.mark.parametrize("name", ["old", "n/old"])
def test_categories_of_anndata_0_7_are_found_beside_the_columns(path, name):
    (path / "zarr.json").write_text(
        json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})
    )  # not consolidated
    obs = zarr.open_group(path / "obs", mode="r+")
    obs.create_array(name, data=np.arange(N_CELLS, dtype="i1") % 3)
    obs.create_array(f"__categories/{name}", data=np.array([10, 20, 30]))
    obs[name].attrs["categories"] = f"__categories/{name}"
    obs.attrs["column-order"] = [*obs.attrs["column-order"], name]
    cells = cf.open(path)
    assert cells.obs[name].tolist() == [10, 20, 30] * (N_CELLS // 3)
    assert cells.obs[name].dtype == "category"


def test_a_column_that_is_listed_twice_is_named(path):
    root = path / "zarr.json"
    described = json.loads(root.read_text())
    attributes = described["consolidated_metadata"]["metadata"]["obs"]["attributes"]
    attributes["column-order"] *= 2
    root.write_text(json.dumps(described))
    name = attributes["column-order"][0]
    with pytest.raises(CorruptDataError, match=f"'obs' lists the column '{name}' twice"):
        cf.open(path)


def test_a_store_that_is_written_to_is_an_error(path, monkeypatch):
    monkeypatch.setattr("cellfeed.opening.CACHE_BYTES", 0)
    cells = cf.open(path)
    cells.read([1, 2])
    store_again(path, chunks=16)
    with pytest.raises(CorruptDataError, match="since"):
        cells.read([1, 2])


def test_the_program_reads_stores(path, tmp_path):
    assert json.loads(run("info", path, "--json"))["n_cells"] == N_CELLS
    run("shard", path, "--output-dir", tmp_path / "shards")
    run("verify", tmp_path / "shards")
    run("export", path, "--output", tmp_path / "b.h5ad")
    expected = anndata.read_zarr(path)
    np.testing.assert_array_equal(
        anndata.read_h5ad(tmp_path / "b.h5ad").X.toarray(), expected.X.toarray()
    )
