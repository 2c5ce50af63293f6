"""The packed cache over zarr stores that are folders: rows are of the version that was opened.

Its files are looked at before anything is read of them, and each again as it is read: what was
written to in between is never kept, and a store that changed has another place.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import warnings

import anndata
import numcodecs
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from held_program import held
from packed_program import PROGRAM, kept_rows, run_program
from program import completed as run
from user_cache import rows_folder
from zarr_files import arrays_of, copy_store, read_store, store_again, write_store

import cellfeed as cf
from cellfeed.errors import CacheWarning, CorruptDataError

N_CELLS, N_GENES = 1200, 40
pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata")

WAYS = {
    "v2 blosc": {"version": 2},
    "v2 gzip": {"version": 2, "chunks": 500, "compressors": numcodecs.GZip()},
    "v2 slashes": {
        "version": 2, "chunks": 500, "chunk_key_encoding": {"name": "v2", "separator": "/"}
    },
    "v2 not consolidated": {"version": 2, "chunks": 500, "consolidate": False},
    "v3": {"version": 3},
    "v3 gzip": {"version": 3, "chunks": 500, "compressors": zarr.codecs.GzipCodec()},
    "v3 blosc": {"version": 3, "chunks": 500, "compressors": zarr.codecs.BloscCodec()},
    "v3 shards": {"version": 3, "chunks": 100, "shards": 1000},
    "v3 shards not consolidated": {
        "version": 3, "chunks": 100, "shards": 1000, "consolidate": False
    },
}  # fmt: skip


def made(seed: int = 1) -> anndata.AnnData:
    """Of one size, and with its values in one place, whatever the seed."""
    x = sp.random(
        N_CELLS, N_GENES, 0.2, format="csr", dtype="float32", rng=np.random.default_rng(0)
    )
    random = np.random.default_rng(seed)
    x.data = random.integers(1, 9, x.nnz).astype("float32")
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical(random.choice(["T", "B", "NK"], N_CELLS)),
            "score": random.random(N_CELLS),
        },
        index=[f"c{i}" for i in range(N_CELLS)],
    )
    a = anndata.AnnData(x, obs, pd.DataFrame(index=[f"g{i}" for i in range(N_GENES)]))
    a.raw = a
    a.layers["log"] = x.log1p()
    a.obsm["X_pca"] = random.random((N_CELLS, 3))
    return a


def write(path: pathlib.Path, way: str = "v2 slashes", seed: int = 1) -> pathlib.Path:
    options = dict(WAYS[way])
    write_store(made(seed), path, options.pop("version"))
    if "chunks" in options or "consolidate" in options:
        store_again(path, **options)
    return path


@pytest.fixture(scope="module", params=WAYS)
def store(request, tmp_path_factory):
    return write(tmp_path_factory.mktemp("stores") / "a.zarr", request.param)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Of many chunks, not to be changed."""
    return write(tmp_path_factory.mktemp("one") / "a.zarr")


@pytest.fixture(scope="module")
def other(one, tmp_path_factory):
    """The same with other values."""
    path = copy_store(one, tmp_path_factory.mktemp("other") / "a.zarr")
    value_of(path, "X/data")
    return path


def copies_of(path, tmp_path_factory, n):
    """Copies, made n at a time: the cache waits until a store is 2 seconds old.

    Moving the folder of a store leaves its age as it is.
    """
    while True:
        folder = tmp_path_factory.mktemp("copies")
        for number in range(n):
            copy_store(path, folder / str(number))
        yield from folder.iterdir()


@pytest.fixture(scope="module")
def copies(one, other, tmp_path_factory):  # the other one is to be old as well
    return copies_of(one, tmp_path_factory, 10)


@pytest.fixture
def own(copies, tmp_path):
    """A copy of it that may be."""
    return next(copies).rename(tmp_path / "a.zarr")


def open_packed(path, cache, **options):
    return cf.open(path, cache="rows", cache_dir=cache, **options)


def epoch(cells, strategy=None, **options):
    loader = cf.Loader(
        cells, strategy or cf.BlockShuffling(block_size=8), 100, obs=["cell_type", "score"],
        seed=3, **options,
    )  # fmt: skip
    return [
        (np.asarray(batch.index), batch.to_scipy(), dict(batch.obs), dict(batch.layers))
        for batch in loader
    ]


def assert_same(epochs, wanted):
    for (rows, x, obs, layers), (rows_, x_, obs_, layers_) in zip(epochs, wanted, strict=True):
        np.testing.assert_array_equal(rows, rows_)
        for a, b in zip([x, *layers.values()], [x_, *layers_.values()], strict=True):
            assert a.dtype == b.dtype
            for part in ("data", "indices", "indptr"):
                np.testing.assert_array_equal(getattr(a, part), getattr(b, part))
        for name in obs_:
            np.testing.assert_array_equal(np.asarray(obs[name]), np.asarray(obs_[name]))


def versions(cache):
    """Of which rows of X are kept."""
    return sorted(path.name for path in pathlib.Path(cache).glob("*/X.packed-*"))


def chunk_files(store, *arrays):
    """Of arrays of numbers, as they lie on the disk."""
    return [
        path for array in arrays for path in sorted((store / array).rglob("*"))
        if path.is_file() and path.name[0].isdigit()
    ]  # fmt: skip


def replace_in_place(path, change=lambda data: bytes([*data[:-1], data[-1] ^ 1])):
    """By another file of the same size, time and owner, as some copying programs do it."""
    status = path.stat()
    other = path.with_name(path.name + ".new")
    other.write_bytes(change(path.read_bytes()))
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(other, path)


def value_of(store, array, seed=2):
    """Writes values of another seed to one array of the store."""
    values = zarr.open_group(store, mode="r+")[array]
    values[:] = np.random.default_rng(seed).integers(1, 9, values.shape).astype(values.dtype)


@pytest.mark.slow
def test_batches_are_those_of_the_store_and_chunks_are_read_once(store, tmp_path):
    own = copy_store(store, tmp_path / "a.zarr")
    options = {"layers": ["log"]}
    wanted = epoch(cf.open(own, **options))
    cells = open_packed(own, tmp_path / "cache", **options)
    assert_same(epoch(cells), wanted)
    again = open_packed(own, tmp_path / "cache", **options)
    gone = chunk_files(own, "X", "layers")
    assert len(gone) >= 6
    for path in gone:
        path.unlink()
    for kept in (cells, again):
        assert_same(epoch(kept), wanted)
    loader = cf.Loader(again, cf.Streaming(), 100)
    assert sum(len(batch.index) for batch in loader) == N_CELLS
    kept = sorted(
        path.name.split(".packed")[0] for path in (tmp_path / "cache").glob("*/*.packed-*")
    )
    assert kept == ["X", "layers.log"]


@pytest.mark.parametrize("layer", ["X", "raw/X", "log"])
def test_every_matrix_is_kept_and_becomes_shards(one, tmp_path, layer):
    wanted = cf.open(one, layer=layer)
    cells = open_packed(one, tmp_path, layer=layer)
    for _ in range(2):
        assert_same(epoch(cells), epoch(wanted))
    (folder,) = cells.packed_shards()
    shards = cf.open(folder)
    assert_same(epoch(shards), epoch(wanted))
    for name in ("cell_type", "score"):
        np.testing.assert_array_equal(shards.obs[name], wanted.obs[name])
    assert list(shards.var_names) == list(wanted.var_names)
    assert cf.data.validate_shard_dir(folder)


def test_strategies_dense_batches_and_copies_by_pickle(one, tmp_path):
    plain, cells = cf.open(one), open_packed(one, tmp_path)
    for strategy in (cf.Streaming(), cf.ClassBalancedSampling(label_key="cell_type")):
        for kept in (cells, pickle.loads(pickle.dumps(cells))):
            assert_same(epoch(kept, strategy), epoch(plain, strategy))
    loaders = [cf.Loader(c, cf.BlockShuffling(4), 128, output="dense") for c in (plain, cells)]
    for a, b in zip(*loaders, strict=True):
        np.testing.assert_array_equal(a.x, b.x)


def test_the_program_names_lists_verifies_and_clears_them(one, tmp_path):
    cells = open_packed(one, tmp_path)
    epoch(cells)
    cells.packed_shards()
    (entry,) = json.loads(run("cache", "list", tmp_path, "--json").stdout)["entries"]
    assert (entry["kind"], entry["what"]) == ("packed", "X of a.zarr")
    run("cache", "verify", tmp_path)
    run("cache", "clear", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_they_lie_in_that_of_the_user(own):
    cells = cf.open(f"{own}/", cache="rows")
    epoch(cells)
    cells.packed_shards()
    assert versions(rows_folder(own).parent)
    assert [p.name for p in own.parent.iterdir()] == ["a.zarr"]


def write_dense(path, way, seed=1):
    dense = made(seed)
    dense.X = dense.X.toarray()
    options = dict(WAYS[way])
    write_store(dense, path, options.pop("version"))
    if "chunks" in options:
        store_again(path, **options)
    return path, dense.X


@pytest.mark.slow
@pytest.mark.parametrize("way", ["v2 slashes", "v3", "v3 shards"])
def test_dense_ones_are_kept(tmp_path, way):
    store, x = write_dense(tmp_path / "a.zarr", way)
    for seed in (1, 2):
        x = made(seed).X.toarray()
        cells = open_packed(store, tmp_path / "cache", obsm=["X_pca"])
        for _ in range(2):
            for batch in cf.Loader(cells, cf.BlockShuffling(8), 100, output="dense"):
                np.testing.assert_array_equal(batch.x, x[np.asarray(batch.index)])
        folders = [cf.open(folder) for folder in cells.packed_shards()]
        assert sorted(folder.shape for folder in folders) == [(N_CELLS, 3), (N_CELLS, N_GENES)]
        # Another value in each chunk, of one size.
        write_dense(store, way, seed=2)


CHANGES = {
    "a chunk of values": lambda store: value_of(store, "X/data"),
    "a chunk of columns": lambda store: replace_in_place(
        chunk_files(store, "X/indices")[2], lambda data: data
    ),
    "a chunk of one size and time": lambda store: replace_in_place(
        chunk_files(store, "X/data")[1], lambda data: data
    ),
    "two chunks change places": lambda store: swap(*chunk_files(store, "X/data")[:2]),
    "where rows begin": lambda store: replace_in_place(
        chunk_files(store, "X/indptr")[0], lambda data: data
    ),
    "a chunk more": lambda store: shutil.copy(
        chunk_files(store, "X/data")[0], store / "X/data/777"
    ),
    "what is consolidated": lambda store: (store / ".zmetadata").write_text(
        (store / ".zmetadata").read_text() + "\n"
    ),
    "labels": lambda store: value_of(store, "obs/score"),
    "names of genes": lambda store: replace_in_place(
        next(path for path in sorted((store / "var").rglob("0"))), lambda data: data
    ),
}


def swap(a, b):
    for source, target in ((a, a.with_name("x")), (b, a), (a.with_name("x"), b)):
        os.rename(source, target)


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_store_that_changed_between_runs_has_another_place(own, tmp_path, change):
    cache = tmp_path / "cache"
    epoch(open_packed(own, cache))
    before = versions(cache)
    assert kept_rows(cache) == N_CELLS
    change(own)
    assert_same(epoch(open_packed(own, cache)), epoch(cf.open(own)))
    assert versions(cache) != before and len(versions(cache)) == 1
    for cells in (open_packed(own, cache), open_packed(own, cache)):
        assert_same(epoch(cells), epoch(cf.open(own)))


def test_labels_of_shards_are_those_of_the_store(own, tmp_path):
    open_packed(own, tmp_path / "cache").read(np.arange(N_CELLS))
    value_of(own, "obs/score")
    cells = open_packed(own, tmp_path / "cache")
    epoch(cells)
    (folder,) = cells.packed_shards()
    np.testing.assert_array_equal(cf.open(folder).obs["score"], cf.open(own).obs["score"])


def test_other_matrices_of_the_store_may_change(own, tmp_path):
    cache = tmp_path / "cache"
    epoch(open_packed(own, cache))
    before = versions(cache)
    value_of(own, "layers/log/data")
    value_of(own, "obsm/X_pca")
    epoch(open_packed(own, cache))
    assert versions(cache) == before


def test_a_store_that_is_replaced_gives_its_own_rows(own, copies, other, tmp_path):
    cache = tmp_path / "cache"
    epoch(open_packed(own, cache))
    for store in (other, next(copies)):
        shutil.rmtree(own)
        store.rename(own)
        x = open_packed(own, cache).read(np.arange(N_CELLS)).x
        assert (x != read_store(own).X).nnz == 0
    assert (x != made().X).nnz == 0


@pytest.mark.filterwarnings("ignore::cellfeed.errors.CacheWarning")
@pytest.mark.parametrize("array", ["X/data", pytest.param("X/indices", marks=pytest.mark.slow)])
def test_what_is_replaced_once_it_was_looked_at_is_not_kept(own, tmp_path, array):
    """Nothing but the number of the file tells: the rows may be given, and are never kept."""
    cells = open_packed(own, tmp_path / "cache")
    for path in chunk_files(own, array):
        replace_in_place(path, lambda data: data)
    with pytest.warns(CacheWarning, match=rf"'{array}/\d+' changed since it was opened"):
        epoch(cells)
        cells.packed_shards()
    assert kept_rows(tmp_path / "cache") == 0
    assert_same(epoch(open_packed(own, tmp_path / "cache")), epoch(cf.open(own)))


def test_what_was_read_before_it_changed_is_kept_as_it_was(own, tmp_path):
    old = epoch(cf.open(own))
    cells = open_packed(own, tmp_path / "cache")
    assert_same(epoch(cells), old)
    value_of(own, "X/data")
    assert_same(epoch(cells), old)
    assert_same(epoch(open_packed(own, tmp_path / "cache")), epoch(cf.open(own)))


def test_a_chunk_that_goes_under_a_run_is_named(own, tmp_path):
    cells = open_packed(own, tmp_path / "cache")
    path = chunk_files(own, "X/data")[-1]
    data = path.read_bytes()
    path.unlink()
    with pytest.raises(CorruptDataError, match=str(path.relative_to(own))):
        epoch(cells)
    path.write_bytes(data)
    assert_same(epoch(open_packed(own, tmp_path / "cache")), epoch(cf.open(own)))


def open_files(child, part):
    """Of a program, those with this in their path; at least one."""
    found = []
    for link in pathlib.Path(f"/proc/{child.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # another thread has closed it
            if part in (target := os.readlink(link)):
                found.append(pathlib.Path(target))
    assert found
    return found


def write_over(path):
    """The same bytes in place, with the times put back."""
    status, data = path.stat(), path.read_bytes()
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.slow
@pytest.mark.parametrize("change", [lambda path: replace_in_place(path, bytes), write_over],
                         ids=["replaced", "written over"])  # fmt: skip
@pytest.mark.parametrize("call", ["open:1", "open:20", "pread:1", "pread:20", "pread:30"])
def test_what_changes_while_it_is_read_is_not_kept(own, tmp_path, call, change):
    """Held in the midst of reading a chunk of values, of a file that becomes another.

    Where that one is open, no other becomes one: it is seen by who looks again once he has read.
    The first 16 are read to tell the store from others, and once more for their rows.
    """
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", PROGRAM, own, cache]
    with held(command, call, "a.zarr/X/data/", stdout=subprocess.PIPE, text=True) as (
        child,
        let_go,
    ):
        is_open = call.startswith("pread")
        for path in open_files(child, "X/data") if is_open else chunk_files(own, "X/data"):
            change(path)
        let_go()
        said, _ = child.communicate(timeout=120)
    assert child.returncode == 0 and "changed since it was opened" in said
    assert kept_rows(cache) == 0
    assert_same(epoch(open_packed(own, cache)), epoch(cf.open(own)))


CALLS = ["pwrite", "fsync", "rename", "open"]


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("call", CALLS)
def test_what_a_killed_one_left_is_never_believed(one, tmp_path, call, n):
    run_program(one, tmp_path, f"{call}:{n}:kill")
    cells = open_packed(one, tmp_path)
    for _ in range(2):
        assert_same(epoch(cells), epoch(cf.open(one)))
    (folder,) = cells.packed_shards()
    assert_same(epoch(cf.open(folder)), epoch(cf.open(one)))


def test_two_processes_fill_one_cache(one, tmp_path):
    command = [sys.executable, "-c", PROGRAM, one, tmp_path]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [child.communicate(timeout=300)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert said[0] == said[1] and "Warning" not in said[0]
    assert len(versions(tmp_path)) == 1
    assert_same(epoch(open_packed(one, tmp_path)), epoch(cf.open(one)))


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_data_loader_fill_it_together(one, tmp_path, context):
    torch = pytest.importorskip("torch")
    loader = cf.Loader(open_packed(one, tmp_path), cf.BlockShuffling(16), 128, seed=1)
    batches = torch.utils.data.DataLoader(
        loader, batch_size=None, num_workers=2, multiprocessing_context=context
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = np.concatenate([np.asarray(batch.index) for batch in batches])
    assert sorted(rows) == list(range(N_CELLS))
    assert kept_rows(tmp_path) == N_CELLS
    assert_same(epoch(open_packed(one, tmp_path)), epoch(cf.open(one)))


# Buckets.


def upload(bucket, store, *arrays, to: str = "a.zarr") -> None:
    for path in sorted(store.rglob("*")):
        name = str(path.relative_to(store))
        if path.is_file() and (not arrays or name.startswith(arrays)):
            bucket.upload_file(str(path), "atlas", f"{to}/{name}")


GETS = r"a\.zarr/X/(data|indices|indptr)/[\dc]"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["v2 slashes", "v3 shards", "v2 not consolidated"])
def test_stores_in_buckets_are_read_once(bucket, proxied, tmp_path, way):
    store = write(tmp_path / "a.zarr", way)
    upload(bucket, store)
    wanted = epoch(cf.open(store))
    cells = open_packed("s3://atlas/a.zarr", tmp_path / "cache")
    assert_same(epoch(cells), wanted)
    proxied.reset()
    assert_same(epoch(cells), wanted)
    assert proxied.count("GET", GETS) == 0
    again = open_packed("s3://atlas/a.zarr", tmp_path / "cache")
    assert again.fingerprint == cells.fingerprint  # of some chunks of each array
    proxied.reset()
    assert_same(epoch(again), wanted)
    assert proxied.count("GET", GETS) == 0
    (folder,) = again.packed_shards()
    assert_same(epoch(cf.open(folder)), wanted)
    assert (
        json.loads(run("cache", "list", tmp_path / "cache", "--json").stdout)["entries"][0]["what"]
        == "X of a.zarr"
    )


@pytest.mark.slow
@pytest.mark.parametrize("array", ["X/data", "obs/score"])
def test_an_object_that_changed_is_of_another_version(bucket, own, tmp_path, array):
    upload(bucket, own)
    epoch(open_packed("s3://atlas/a.zarr", tmp_path / "cache"))
    before = versions(tmp_path / "cache")
    value_of(own, array)
    upload(bucket, own, array)
    cells = open_packed("s3://atlas/a.zarr", tmp_path / "cache")
    assert_same(epoch(cells), epoch(cf.open(own)))
    assert versions(tmp_path / "cache") != before
    (folder,) = cells.packed_shards()
    assert_same(epoch(cf.open(folder)), epoch(cf.open(own)))


@pytest.mark.slow
def test_objects_that_change_before_they_are_read_are_not_kept(bucket, own, tmp_path):
    """In the second of the opening: no time tells."""
    upload(bucket, own)
    cells = open_packed("s3://atlas/a.zarr", tmp_path / "cache")
    value_of(own, "X/data")
    upload(bucket, own, "X/data")
    with pytest.raises(CorruptDataError, match="X/data"):
        epoch(cells)
    del cells
    assert kept_rows(tmp_path / "cache") == 0
    assert_same(epoch(open_packed("s3://atlas/a.zarr", tmp_path / "cache")), epoch(cf.open(own)))


@pytest.mark.slow
def test_lists_of_many_parts_are_read_to_their_end(bucket, proxied, own, tmp_path):
    group = zarr.open_group(own, mode="r+", use_consolidated=False)
    values = group["X/data"][:]
    del group["X/data"]
    array = group["X"].create_array("data", shape=values.shape, dtype="float32", chunks=(9,))
    array[:] = values
    zarr.consolidate_metadata(own)
    n = len(chunk_files(own, "X/data"))
    assert n > 1000
    upload(bucket, own)
    proxied.reset()
    cells = open_packed("s3://atlas/a.zarr", tmp_path / "cache")
    assert proxied.count("GET", r"list-type=2.*prefix=[^&]*X%2F(&|$)") >= n // 1000 + 1
    cells.read(np.arange(20))
    before = versions(tmp_path / "cache")
    # The last in the order of the list.
    upload(bucket, own, "X/data/999")
    cells = open_packed("s3://atlas/a.zarr", tmp_path / "cache")
    assert versions(tmp_path / "cache") == before, "the same bytes have the same ETag"
    bucket.put_object(Bucket="atlas", Key="a.zarr/X/data/999", Body=b"other")
    open_packed("s3://atlas/a.zarr", tmp_path / "cache")
    assert versions(tmp_path / "cache") != before


def test_killed_by_nobody_it_ends_with_its_rows_written(one, tmp_path):
    """A run that ends at once leaves what it read."""
    code = PROGRAM.split("with warnings")[0] + "cells.read(range(500))"
    done = subprocess.run([sys.executable, "-c", code, one, tmp_path], check=False)
    assert done.returncode not in (-signal.SIGKILL, 1)
    assert kept_rows(tmp_path) == 500


@pytest.mark.slow
def test_the_stores_are_of_the_ways_they_are_called(store):
    group = zarr.open_group(store, mode="r")
    assert {"X/data", "X/indices", "X/indptr"} <= set(arrays_of(group))
