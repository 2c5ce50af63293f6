"""Files of buckets and servers that were cached whole are read where there is no network."""

import json
import pickle
import subprocess
import sys

import pytest
from file_server import FileServer
from test_cloud import assert_cells, write_cells
from zarr_files import write_store

import cellfeed as cf
from cellfeed.errors import CellfeedError, CorruptDataError, NotFoundError, UnsupportedError

pytest.importorskip("boto3")
CLOSED = "http://127.0.0.1:9"  # nothing listens there: who asks the store fails


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CELLFEED_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    cf.set_storage_options("s3://atlas", {})


def run(*arguments, code=0):
    command = [sys.executable, "-m", "cellfeed", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return done


def go_offline(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", CLOSED)
    monkeypatch.setenv("CELLFEED_OFFLINE", "1")


def store_folder(bucket, folder, key):
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            bucket.upload_file(str(file), "atlas", f"{key}/{file.relative_to(folder)}")


def test_everything_that_was_fetched_is_read_without_a_network(
    bucket, cache, tmp_path, monkeypatch
):
    adata = write_cells(tmp_path / "a.h5ad", compression="gzip")
    write_cells(tmp_path / "b.h5ad", seed=2)
    write_store(adata, tmp_path / "a.zarr", 3)
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "shards", shard_size=200)
    for name in ("a.h5ad", "b.h5ad"):
        bucket.upload_file(str(tmp_path / name), "atlas", f"files/{name}")
    for name in ("a.zarr", "shards"):
        store_folder(bucket, tmp_path / name, name)
    paths = ["s3://atlas/files/*.h5ad", "s3://atlas/a.zarr/", "s3://atlas/shards"]
    fetched = json.loads(run("cache", "fetch", *paths, "--json").stdout)
    assert fetched["path"] == str(cache)
    n_files = 2 + sum(
        file.is_file() for name in ("a.zarr", "shards") for file in (tmp_path / name).rglob("*")
    )
    assert fetched["files"] == n_files
    assert n_files == sum("listing" not in note.name for note in cache.glob(".*.json"))
    assert fetched["bytes"] > (tmp_path / "a.h5ad").stat().st_size
    run("cache", "verify")
    online = [cf.open(path).fingerprint for path in ("s3://atlas/files/a.h5ad", *paths[1:])]

    go_offline(monkeypatch)
    for path, fingerprint in zip(("s3://atlas/files/a.h5ad", *paths[1:]), online, strict=True):
        cells = cf.open(path)
        assert cells.fingerprint == fingerprint
        assert_cells(cells, adata)
        assert_cells(pickle.loads(pickle.dumps(cells)), adata)
    assert len(cf.open(paths[0])) == 2 * len(adata)
    assert json.loads(run("info", paths[2], "--json").stdout)["n_cells"] == len(adata)
    run("shard", "s3://atlas/files/a.h5ad", "--output-dir", tmp_path / "made")
    assert_cells(cf.open(tmp_path / "made"), adata)


def test_what_is_not_cached_is_a_named_error(bucket, cache, tmp_path, monkeypatch):
    adata = write_cells(tmp_path / "a.h5ad")
    for name in ("a.h5ad", "b.h5ad"):
        bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", name)
    cf.open("s3://atlas/a.h5ad", cache="blocks")[:5].X  # noqa: B018  # some blocks of it
    monkeypatch.setenv("AWS_ENDPOINT_URL", CLOSED)
    words = f"offline: only files that are cached whole in {cache} are read; `cellfeed cache fetch`"
    for path in ("s3://atlas/a.h5ad", "s3://atlas/none/*.h5ad", "s3://other/shards"):
        with pytest.raises(NotFoundError) as missing:
            cf.open(path, offline=True)
        assert words in str(missing.value) and path in str(missing.value)
    monkeypatch.setenv("CELLFEED_OFFLINE", "1")
    assert words in run("info", "s3://atlas/b.h5ad", code=1).stderr
    with pytest.raises(UnsupportedError, match="nothing is written there while it is offline"):
        cf.convert_to_shards(cf.open(tmp_path / "a.h5ad"), "s3://atlas/made")
    with pytest.raises(CellfeedError, match="CELLFEED_OFFLINE must be true or false"):
        monkeypatch.setenv("CELLFEED_OFFLINE", "perhaps")
        cf.open("s3://atlas/c.h5ad", storage_options={})
    assert_cells(cf.open(tmp_path / "a.h5ad"), adata)


def test_a_server_is_read_from_its_copies_until_it_is_asked_again(cache, tmp_path):
    (tmp_path / "served").mkdir()
    first = write_cells(tmp_path / "served" / "a.h5ad")
    with FileServer(tmp_path / "served") as server:
        url = f"{server.url}/a.h5ad"
        run("cache", "fetch", url)
        assert_cells(cf.open(url, offline=True), first)
        second = write_cells(tmp_path / "served" / "a.h5ad", seed=5)
        assert_cells(cf.open(url, offline=True), first)
        assert_cells(cf.open(url, offline=False), second)
        run("cache", "fetch", url)
        assert_cells(cf.open(url, offline=True), second)
        assert len(json.loads(run("cache", "list", "--json").stdout)["entries"]) == 1
        cf.set_storage_options(url, {})


def test_a_damaged_copy_is_an_error_and_never_other_values(cache, tmp_path):
    (tmp_path / "served").mkdir()
    write_cells(tmp_path / "served" / "a.h5ad")
    with FileServer(tmp_path / "served") as server:
        url = f"{server.url}/a.h5ad"
        run("cache", "fetch", url)
    (copy,) = (path for path in cache.iterdir() if path.name.endswith("-a.h5ad"))
    held = copy.read_bytes()
    for damaged, words in {
        held[:-1]: "bytes where",
        held[:-1] + bytes([held[-1] ^ 1]): "the checksum is",
    }.items():
        copy.write_bytes(damaged)
        with pytest.raises(CorruptDataError, match=f"is damaged .*{words}.*cache fetch"):
            cf.open(url, offline=True)
    copy.write_bytes(held)
    assert len(cf.open(url, offline=True)) == 500
    cf.set_storage_options(url, {})


def test_a_folder_that_is_named_caches_files(tmp_path):
    (tmp_path / "served").mkdir()
    adata = write_cells(tmp_path / "served" / "a.h5ad")
    with FileServer(tmp_path / "served") as server:
        url = f"{server.url}/a.h5ad"
        assert_cells(cf.open(url, cache_dir=tmp_path / "mine"), adata)
        assert [path for path in (tmp_path / "mine").iterdir() if path.name.endswith("-a.h5ad")]
        cf.set_storage_options(url, {})
    assert_cells(cf.open(url, cache_dir=tmp_path / "mine", offline=True), adata)
    cf.set_storage_options(url, {})


def test_fetch_refuses_what_it_cannot_fetch(bucket, cache, tmp_path):
    write_cells(tmp_path / "a.h5ad")
    assert "a.h5ad: is a local path" in run("cache", "fetch", tmp_path / "a.h5ad", code=1).stderr
    assert "s3://atlas/none" in run("cache", "fetch", "s3://atlas/none", code=1).stderr
    assert "required" in run("cache", "fetch", code=2).stderr
    assert not cache.exists() or not list(cache.iterdir())
    with pytest.raises(cf.errors.InvalidTypeError, match="offline must be True or False"):
        cf.open("s3://atlas/a.h5ad", offline="yes")


def test_a_program_caches_the_inputs_that_it_reads(bucket, tmp_path, monkeypatch):
    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    cache = ("--cache-dir", tmp_path / "mine")
    run("shard", "s3://atlas/a.h5ad", "--output-dir", tmp_path / "one", *cache)
    go_offline(monkeypatch)
    run("shard", "s3://atlas/a.h5ad", "--output-dir", tmp_path / "two", *cache)
    for name in ("one", "two"):
        assert_cells(cf.open(tmp_path / name), adata)


def test_a_chunk_that_is_not_cached_is_an_error_and_not_zeros(bucket, cache, tmp_path, monkeypatch):
    adata = write_cells(tmp_path / "a.h5ad")
    adata.X = adata.X.toarray() + 1
    write_store(adata, tmp_path / "a.zarr", 3)
    store_folder(bucket, tmp_path / "a.zarr", "a.zarr")
    cf.open("s3://atlas/a.zarr", cache="files")[:3].X  # noqa: B018  # some of its chunks
    with pytest.raises(CellfeedError, match=r"files of this folder are cached .* cache fetch"):
        cf.open("s3://atlas/a.zarr", offline=True)
    run("cache", "fetch", "s3://atlas/a.zarr")
    cells = cf.open("s3://atlas/a.zarr", offline=True)
    assert (cells.read(slice(None)).to_numpy() == adata.X).all()
    notes = {json.loads(n.read_text()).get("of"): n for n in cache.glob(".*.json")}
    chunk = next(note for of, note in notes.items() if of.startswith("s3://atlas/a.zarr/X/c/"))
    (cache / chunk.name[1:].removesuffix(".json")).unlink()
    chunk.unlink()
    with pytest.raises(CellfeedError, match=r"is not cached .* cache fetch"):
        cf.open("s3://atlas/a.zarr", offline=True).read(slice(None))
    cf.set_storage_options("s3://atlas", {})
    run("cache", "fetch", "s3://atlas/a.zarr")
    go_offline(monkeypatch)
    again = cf.open("s3://atlas/a.zarr").read(slice(None))
    assert (again.to_numpy() == adata.X).all()
    run("cache", "clear")
    assert not list(cache.glob(".listing-*"))


def test_a_glob_of_which_a_file_is_not_cached_is_an_error(bucket, cache, tmp_path, monkeypatch):
    write_cells(tmp_path / "a.h5ad")
    for name in ("a", "b"):
        bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", f"raw/{name}.h5ad")
    run("cache", "fetch", "s3://atlas/raw/a.h5ad")
    go_offline(monkeypatch)
    assert len(cf.open("s3://atlas/raw/a.h5ad")) == 500
    with pytest.raises(CellfeedError, match="files of this folder are cached"):
        cf.open("s3://atlas/raw/*.h5ad")
