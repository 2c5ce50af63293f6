"""AnnData in zarr: what anndata and zarr write is read as anndata reads it."""

import itertools
import json
import tempfile
import zipfile
from pathlib import Path

import anndata
import hypothesis.strategies as st
import numcodecs
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import zarr
from anndata_oracle import assert_same_as_anndata, assert_same_matrix, matrices_of
from bucket_servers import s3_environment
from fault_proxy import FaultProxy
from fault_rules import Fault
from hypothesis import given, settings
from test_h5ad_any_anndata import anndatas
from zarr_files import (
    assert_same_obsm,
    copy_store,
    counts,
    forget_consolidated,
    read_store,
    store_again,
    write_store,
    zip_store,
)

import cellfeed as cf

N_CELLS, N_GENES = 83, 31


def frame(prefix: str, n: int) -> pd.DataFrame:
    numbers = np.arange(n)
    texts = [f"text {i} ü" if i % 3 else "" for i in numbers]
    return pd.DataFrame(
        {
            "kind": pd.Categorical.from_codes(numbers % 4 - 1, ["b", "a", "ñ"]),
            "stage": pd.Categorical.from_codes(numbers % 3, [10, 2, 7], ordered=True),
            "text": np.array(texts, dtype=object),
            "count": numbers.astype(np.int32) * 1000,
            "share": numbers / 7,
            "half": (numbers / 4).astype(np.float16),
            "flag": numbers % 2 == 0,
            "maybe": pd.array([None if i % 5 == 0 else i for i in numbers], dtype="Int64"),
            "perhaps": pd.array(
                [None if i % 7 == 0 else i % 2 == 0 for i in numbers], dtype="boolean"
            ),
            "note": pd.array([None if i % 4 == 0 else f"n{i}" for i in numbers], dtype="string"),
        },
        index=[f"{prefix}{i}" for i in numbers],
    )


@pytest.fixture(scope="module")
def adata() -> anndata.AnnData:
    x = counts(N_CELLS, N_GENES)
    x[10:20] = 0
    made = anndata.AnnData(
        scipy.sparse.csr_matrix(x),
        obs=frame("cell", N_CELLS),
        var=frame("gene", N_GENES),
        layers={
            "dense": x.astype(np.int16),
            "double": scipy.sparse.csr_matrix(x.astype(np.float64) / 3),
            "zeros": np.zeros_like(x),
        },
        obsm={
            "X_pca": np.random.default_rng(1).normal(size=(N_CELLS, 5)),
            "sparse": scipy.sparse.csr_matrix(x[:, :4]),
        },
        uns={"numbers": [1, 2, 3]},
    )  # fmt: skip
    made.raw = anndata.AnnData(
        scipy.sparse.csr_matrix(counts(N_CELLS, N_GENES + 9, 2)),
        obs=made.obs[[]],
        var=pd.DataFrame(index=[f"raw{i}" for i in range(N_GENES + 9)]),
    )
    return made


@pytest.fixture(scope="module")
def originals(adata, tmp_path_factory) -> dict:
    """A store with few arrays in each format, and what anndata reads from it.

    zarr spends most of its time here on the number of arrays.
    """
    few = anndata.AnnData(
        adata.X,
        obs=adata.obs[["kind", "text", "count", "half", "maybe", "note"]],
        var=adata.var[[]],
        layers={name: adata.layers[name] for name in ("dense", "double")},
        obsm={"X_pca": adata.obsm["X_pca"]},
    )
    made = {}
    for version in (2, 3):
        path = write_store(few, tmp_path_factory.mktemp("few") / "a.zarr", version)
        made[version] = path, read_store(path)
    return made


@pytest.fixture
def few(originals, tmp_path):
    """A copy of one that may be changed, and what anndata reads of it."""

    def copied(version: int, name: str = "a.zarr"):
        path, again = originals[version]
        return copy_store(path, tmp_path / name), again

    return copied


def assert_same_store(path, again=None) -> None:
    """Every matrix, obs and var; obsm too."""
    again = again or read_store(path)
    for layer, (matrix, var) in matrices_of(again).items():
        assert_same_as_anndata(path, again, layer, matrix, var)
    for name, matrix in again.obsm.items():
        assert_same_obsm(path, name, matrix)


V2_COMPRESSORS = {
    "blosc lz4": numcodecs.Blosc("lz4", shuffle=1),
    "blosc zstd bitshuffle": numcodecs.Blosc("zstd", shuffle=2),
    "blosc none": numcodecs.Blosc("blosclz", shuffle=0),
    "zlib": numcodecs.Zlib(),
    "gzip": numcodecs.GZip(),
    "zstd": numcodecs.Zstd(),
    "lz4": numcodecs.LZ4(),
    "none": None,
}
V3_CODECS = {
    "zstd": [zarr.codecs.ZstdCodec()],
    "zstd with checksum": [zarr.codecs.ZstdCodec(checksum=True)],
    "gzip": [zarr.codecs.GzipCodec()],
    "blosc": [zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle")],
    "zstd crc32c": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()],
    "crc32c gzip": [zarr.codecs.Crc32cCodec(), zarr.codecs.GzipCodec()],
    "crc32c": [zarr.codecs.Crc32cCodec()],
    "none": None,
}


@pytest.mark.parametrize("version", [2, 3])
def test_what_anndata_writes_is_read_as_anndata_reads_it(tmp_path, adata, version):
    path = write_store(adata, tmp_path / "a.zarr", version)
    assert_same_store(path)
    forget_consolidated(path)
    assert_same_store(path)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("chunks", [7, 100])
def test_every_codec_of_both_formats(few, version, chunks):
    """Arrays take the codecs in turn."""
    path, again = few(version)
    codecs = itertools.cycle((V2_COMPRESSORS if version == 2 else V3_CODECS).values())
    assert_same_store(store_again(path, chunks=chunks, compressors=codecs), again)


@pytest.mark.parametrize("codecs", ["zstd", "zstd crc32c", "none"])
@pytest.mark.parametrize("chunks", [pytest.param(4, marks=pytest.mark.slow), 40])
def test_shards_of_format_3(few, codecs, chunks):
    path, again = few(3)
    options = {"chunks": chunks, "shards": 3 * chunks, "compressors": V3_CODECS[codecs]}
    if chunks == 4:  # halved and so still a whole number of chunks
        options["shards"] = 8 * chunks
    else:
        options["shards"] = 4 * chunks
    assert_same_store(store_again(path, **options), again)


def test_an_index_at_the_start_of_shards(few):
    path, again = few(3)
    group = zarr.open_group(path, mode="r+")
    values = group["layers/dense"][...]
    attributes = dict(group["layers/dense"].attrs)
    made = zarr.create(
        store=path / "layers" / "dense", shape=values.shape, chunks=(20, 10), dtype="<i2",
        zarr_format=3, overwrite=True,
        codecs=[zarr.codecs.ShardingCodec(
            chunk_shape=(5, 5), index_location="start",
            codecs=[zarr.codecs.BytesCodec(endian="big"), zarr.codecs.ZstdCodec()],
        )],
    )  # fmt: skip
    made[...] = values
    made.attrs.update(attributes)
    forget_consolidated(path)
    assert (
        json.loads((path / "layers/dense/zarr.json").read_text())["codecs"][0]["name"]
        == "sharding_indexed"
    )
    assert_same_store(path, again)


@pytest.mark.parametrize("compressor", ["zlib", "none"])
def test_a_shuffle_before_the_compressor(few, compressor):
    path, again = few(2)
    options = {"filters": [numcodecs.Shuffle(4)], "compressors": V2_COMPRESSORS[compressor]}
    assert_same_store(store_again(path, chunks=64, **options), again)


def test_keys_with_slashes_in_format_2(few):
    path, again = few(2)
    store_again(path, chunks=9, chunk_key_encoding={"name": "v2", "separator": "/"})
    assert (path / "layers" / "dense" / "0" / "1").is_file()
    assert_same_store(path, again)


def test_keys_as_in_format_2_and_with_dots_in_format_3(few):
    for name, key in (("v2", "0.1"), ("default", "c.0.1")):
        path, again = few(3, f"{name}.zarr")
        store_again(path, chunks=9, chunk_key_encoding={"name": name, "separator": "."})
        assert (path / "layers" / "dense" / key).is_file()
        assert_same_store(path, again)


@pytest.mark.parametrize("version", [2, 3])
def test_numbers_of_the_other_byte_order(few, version):
    path, again = few(version)  # read before: scipy knows no other byte order
    group = zarr.open_group(path, mode="r+")
    for name in ("X/data", "X/indices", "X/indptr", "obs/count", "obs/half"):
        values, attributes = group[name][...], dict(group[name].attrs)
        del group[name]
        dtype = values.dtype.newbyteorder(">")
        made = group.create_array(name, shape=values.shape, dtype=dtype, fill_value=0)
        made[...] = values
        made.attrs.update(attributes)
    forget_consolidated(path)
    assert_same_store(path, again)


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("version", [2, 3])
def test_texts_of_one_length(few, version):
    path, _ = few(version)
    group = zarr.open_group(path, mode="r+")
    texts = np.array([f"ü{i}" for i in range(N_CELLS)], dtype="<U7")
    del group["obs/text"]
    group.create_array("obs/text", shape=texts.shape, dtype=texts.dtype, chunks=(10,))[...] = texts
    forget_consolidated(path)
    assert pa.table(cf.open(path).obs_table())["text"].to_pylist() == texts.tolist()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zipped_stores(few, version, compression):
    path, again = few(version)
    assert_same_store(zip_store(path, compression), again)


def test_a_zipped_store_whose_numbers_are_of_64_bits(few, monkeypatch):
    path, again = few(3)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 5)
    zipped = zip_store(path)
    assert b"PK\x06\x06" in zipped.read_bytes()
    assert_same_store(zipped, again)


@pytest.mark.parametrize("version", [2, 3])
def test_matrices_by_columns_become_rows(tmp_path, adata, version):
    x = scipy.sparse.csc_matrix(counts(N_CELLS, N_GENES))
    made = anndata.AnnData(x, obs=adata.obs[["kind"]], var=adata.var[[]])
    path = write_store(made, tmp_path / "a.zarr", version)
    store_again(path, chunks=50)
    cells = cf.open(path, cache_dir=tmp_path / "rows")
    assert_same_matrix(cells, x)


def test_an_empty_anndata(tmp_path):
    for version in (2, 3):
        made = anndata.AnnData(scipy.sparse.csr_matrix((0, 4), dtype=np.float32))
        path = write_store(made, tmp_path / f"{version}.zarr", version)
        cells = cf.open(path)
        assert len(cells) == 0 and len(cells.var_names) == 4


def test_filters_shards_exports_and_info(tmp_path, adata):
    path = write_store(adata, tmp_path / "a.zarr", 3)
    cells = cf.open(path)
    kept = cells.filter("kind == 'a' and count > 20000")
    wanted = adata[(adata.obs["kind"] == "a") & (adata.obs["count"] > 20000)]
    assert list(kept.obs_names) == list(wanted.obs_names)
    np.testing.assert_array_equal(kept.read(slice(None)).x.toarray(), wanted.X.toarray())
    cf.convert_to_shards(str(path), tmp_path / "shards", shard_size=N_CELLS)
    shards = cf.open(tmp_path / "shards")
    np.testing.assert_array_equal(shards.read(slice(None)).x.toarray(), adata.X.toarray())
    assert (
        pa.table(shards.obs_table())["note"].to_pylist()
        == pa.table(cells.obs_table())["note"].to_pylist()
    )


def test_what_is_consolidated_is_asked_for_nothing_more(few):
    path, again = few(3)
    for part in path.rglob("zarr.json"):
        if part.parent != path:
            part.unlink()
    assert_same_matrix(cf.open(path), again.X)


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_a_store_in_a_bucket(tmp_path, adata, bucket, version):
    path = write_store(adata, tmp_path / "a.zarr", version)
    store_again(path, chunks=20, **({"shards": 80} if version == 3 else {}))
    zip_store(path)
    for part in tmp_path.rglob("*"):
        if part.is_file():
            bucket.upload_file(str(part), "atlas", part.relative_to(tmp_path).as_posix())
    for url in ("s3://atlas/a.zarr", "s3://atlas/a.zarr.zip"):
        cells = cf.open(url, layers=["double"], obsm=["X_pca"])
        assert_same_matrix(cells, adata.X)
        assert list(pa.table(cells.obs_table())["text"].to_pylist()) == list(adata.obs["text"])
        batch = cells.read([5, 2, 80, 2])
        np.testing.assert_array_equal(
            batch.obsm["X_pca"], adata.obsm["X_pca"][[5, 2, 80, 2]].astype(np.float32)
        )


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_columns_of_a_store_in_a_bucket_are_read_side_by_side(
    tmp_path, adata, bucket, s3, monkeypatch, version
):
    for i in range(20):
        adata.obs[f"score{i}"] = np.arange(N_CELLS, dtype=np.float32) + i
    path = write_store(adata, tmp_path / "a.zarr", version)
    for part in path.rglob("*"):
        if part.is_file():
            bucket.upload_file(str(part), "atlas", part.relative_to(tmp_path).as_posix())
    # Read one after the other, they would all wait for the first.
    side_by_side = Fault(kind="meet", meeting=16, path=r"obs/score\d+/")
    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "200")
    with FaultProxy(s3.address) as proxy:
        for name, value in s3_environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        cells = cf.open("s3://atlas/a.zarr")
        proxy.set_faults(side_by_side)
        proxy.reset()
        next(iter(cf.Loader(cells, cf.BlockShuffling(8), 16)))
        assert proxy.most_under_way >= 16
        proxy.set_faults()
        cells = cf.open("s3://atlas/a.zarr")
        proxy.set_faults(side_by_side)
        proxy.reset()
        assert pa.table(cells.obs_table())["score7"].to_pylist() == list(adata.obs["score7"])
        assert proxy.most_under_way >= 16


def test_layers_with_backslashes_are_told_apart_by_their_values(tmp_path):
    loaders = []
    for name, value in ("a", 7), ("b", 8):
        made = anndata.AnnData(np.ones((20, 3), np.float32))
        made.layers["x\\y"] = np.full((20, 3), value, np.float32)
        path = write_store(made, tmp_path / f"{name}.zarr", 3)
        loaders.append(cf.Loader(cf.open(path, layer="x\\y"), cf.BlockShuffling(1), 5))
    with pytest.raises(cf.errors.CellfeedError):
        loaders[1].load_state_dict(loaders[0].state_dict())


@pytest.mark.slow
@given(anndatas(), st.sampled_from([2, 3]), st.booleans())
@settings(max_examples=40)
def test_any_anndata(adata, version, is_zipped):
    with tempfile.TemporaryDirectory() as folder:
        # Else a sparse matrix of zeros that are stored lacks chunks, as one that lost them does.
        with zarr.config.set({"array.write_empty_chunks": True}):
            path = write_store(adata, Path(folder) / "a.zarr", version)
        again = read_store(path)
        path = zip_store(path) if is_zipped else path
        for layer, (matrix, var) in matrices_of(again).items():
            assert_same_as_anndata(path, again, layer, matrix, var)


def test_names_with_backslashes_are_paths(tmp_path):
    made = anndata.AnnData(
        np.ones((2, 1), np.float32), obs=pd.DataFrame({"a\\b": [1, 2]}, index=["c0", "c1"])
    )
    made.layers["x\\y"] = np.full((2, 1), 7, np.float32)
    for version in (2, 3):
        path = write_store(made, tmp_path / f"{version}.zarr", version)
        assert pa.table(cf.open(path).obs_table())["a\\b"].to_pylist() == [1, 2]
        assert cf.open(path, layer="x\\y").read([1]).x.toarray() == [[7]]
