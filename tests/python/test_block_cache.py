"""Blocks that are kept of objects: the bytes of the bucket, asked for once, whatever happens."""

import json
import os
import pathlib
import pickle
import subprocess
import sys
import warnings

import anndata
import attack
import file_server
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from file_server import FileServer, age
from program import completed as run

import cellfeed as cf
from cellfeed.errors import CacheWarning, CorruptDataError, InvalidArgumentError

BLOCK_BYTES = 1 << 20
N_CELLS, N_GENES = 2_000, 600


def write_cells(path, seed=0, **options):
    """Some 5 MB: five blocks; the matrix."""
    x = np.random.default_rng(seed).random((N_CELLS, N_GENES), np.float32)
    adata = anndata.AnnData(x)
    adata.obs["kind"] = pd.Categorical(np.array(["a", "b", "c"])[np.arange(N_CELLS) % 3])
    write_old(adata, path, **options)
    return x


def write_old(adata, path, **options):
    adata.write_h5ad(path, **options)
    age(path)


def dense(batch):
    x = batch.x
    return x.toarray() if scipy.sparse.issparse(x) else np.asarray(x)


def assert_cells(cells, x, strategy=None):
    seen = []
    for batch in cf.Loader(cells, strategy or cf.BlockShuffling(8), 64, seed=1):
        np.testing.assert_array_equal(dense(batch), x[np.asarray(batch.index)])
        seen.extend(batch.index)
    assert sorted(seen) == list(range(len(x)))


class Served:
    """A folder on a server that notes every range it sends."""

    def __init__(self, folder, url, sent):
        self.folder, self.url, self.sent = folder, url, sent

    def take_sent(self):
        """Each range once: one that is slow is asked for a second time."""
        taken = list(dict.fromkeys(self.sent))
        self.sent.clear()
        return taken


@pytest.fixture
def served(tmp_path, monkeypatch):
    folder = tmp_path / "served"
    folder.mkdir()
    sent = []
    send = file_server._Handler._send_bytes

    def noted(self, file, begin, end, **options):
        sent.append((pathlib.Path(file.name).name, begin, end))
        send(self, file, begin, end, **options)

    monkeypatch.setattr(file_server._Handler, "_send_bytes", noted)
    with FileServer(folder) as server:
        yield Served(folder, server.url, sent)
        cf.set_storage_options(server.url, {})


def block_file(cache):
    (file,) = cache.glob("blocks-*")
    return file


def ask(*arguments, code=0):
    return json.loads(run("cache", *arguments, "--json", code=code).stdout)


@pytest.mark.parametrize(
    ("compression", "access"),
    [
        (None, "auto"), ("gzip", "map"),
        pytest.param(None, "map", marks=pytest.mark.slow),
        pytest.param("gzip", "auto", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_the_second_epoch_asks_for_nothing(served, tmp_path, compression, access):
    x = write_cells(served.folder / "a.h5ad", compression=compression)
    cache = tmp_path / "cache"
    cells = cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=cache, access=access)
    assert_cells(cells, x)
    sent = served.take_sent()
    size = (served.folder / "a.h5ad").stat().st_size
    assert sum(end - begin for _, begin, end in sent) <= size
    assert all(begin % BLOCK_BYTES == 0 for _, begin, _ in sent)
    assert_cells(cells, x, cf.BlockShuffling(1))
    assert_cells(pickle.loads(pickle.dumps(cells)), x)
    assert_cells(cf.open(f"{served.url}/a.h5ad"), x, cf.Streaming())
    assert served.take_sent() == []
    assert ask("verify", cache)["ok"]


def test_what_was_not_read_is_not_fetched(served, tmp_path):
    x = write_cells(served.folder / "a.h5ad")
    cells = cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=tmp_path / "cache")
    assert 0 < len(served.take_sent()) < 8
    np.testing.assert_array_equal(dense(cells.read([900, 901, 905])), x[[900, 901, 905]])
    assert sum(end - begin for _, begin, end in served.take_sent()) <= 2 * BLOCK_BYTES
    (entry,) = ask("list", tmp_path / "cache")["entries"]
    assert entry["kind"] == "blocks" and entry["what"] == f"{served.url}/a.h5ad"
    assert entry["bytes"] < (served.folder / "a.h5ad").stat().st_size


def test_who_opens_a_file_twice_asks_for_it_once(served, tmp_path):
    x = write_cells(served.folder / "a.h5ad")
    url = f"{served.url}/a.h5ad"
    first = cf.open(url, cache="blocks", cache_dir=tmp_path / "cache")
    np.testing.assert_array_equal(dense(first.read(slice(None))), x)
    served.take_sent()
    np.testing.assert_array_equal(dense(cf.open(url).read(slice(None))), x)
    assert served.take_sent() == []


def test_matrices_of_one_file_ask_for_a_block_once(served, tmp_path):
    x = np.random.default_rng(0).random((N_CELLS, N_GENES), np.float32)
    adata = anndata.AnnData(x, layers={"more": x + 1, "most": x + 2}, obsm={"pca": x[:, :7]})
    write_old(adata, served.folder / "a.h5ad")
    before = cf._core.fetch_counts()
    cells = cf.open(
        f"{served.url}/a.h5ad", layers=["more", "most"], obsm=["pca"],
        cache="blocks", cache_dir=tmp_path / "cache",
    )  # fmt: skip
    for batch in cf.Loader(cells, cf.BlockShuffling(8), 64, seed=1):
        np.testing.assert_array_equal(dense(batch), x[np.asarray(batch.index)])
        more = batch.layers["more"]
        more = more.toarray() if scipy.sparse.issparse(more) else np.asarray(more)
        np.testing.assert_array_equal(more, x[np.asarray(batch.index)] + 1)
    after = cf._core.fetch_counts()
    n_sent = len(served.sent)
    sent = served.take_sent()
    blocks = [
        b for _, begin, end in sent for b in range(begin // BLOCK_BYTES, -(-end // BLOCK_BYTES))
    ]
    assert 10 < len(set(blocks)) == len(blocks)
    assert n_sent - len(sent) <= sum(after[way] - before[way] for way in ("doubled", "again"))


def upload(bucket, path, key):
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        below = "" if path.is_file() else f"/{file.relative_to(path)}"
        bucket.upload_file(str(file), "atlas", key + below)


def make(kind, folder):
    x = write_cells(folder / "a.h5ad", compression="gzip" if kind == "gzip" else None)
    path = folder / "a.h5ad"
    if kind in ("packed", "dense"):
        path = folder / "shards"
        cf.convert_to_shards(folder / "a.h5ad", path, shard_size=900, layout=kind)
    elif kind == "zarr":
        path = folder / "a.zarr"
        anndata.AnnData(x).write_zarr(path, chunks=(500, N_GENES))
    elif kind == "parquet":
        path = folder / "a.parquet"
        frame = pd.DataFrame(x, columns=[f"g{i}" for i in range(N_GENES)])
        frame.to_parquet(path, row_group_size=300)
    return path, x


@pytest.mark.filterwarnings("ignore:.*zarr:UserWarning")
@pytest.mark.parametrize(
    "kind",
    ["h5ad", pytest.param("gzip", marks=pytest.mark.slow), "packed", "dense", "zarr", "parquet"],
)
def test_every_format_is_what_it_is_on_a_disk(proxied, bucket, tmp_path, kind):
    path, x = make(kind, tmp_path)
    upload(bucket, path, path.name)
    options = {"cache_dir": tmp_path / "cache", "cache": "blocks"}
    try:
        cells = cf.open(f"s3://atlas/{path.name}", storage_options=options)
        local = cf.open(path)
        assert list(cells.var_names) == list(local.var_names)
        np.testing.assert_array_equal(dense(cells.read(slice(None))), x)
        assert_cells(cells, x)
        n_gets = proxied.count("GET")
        assert_cells(cells, x)
        assert proxied.count("GET") == n_gets
        before = sum(each.method == "GET" and "Range" in str(each) for each in proxied.seen)
        assert_cells(cf.open(f"s3://atlas/{path.name}"), x)
        assert sum(each.method == "GET" and "Range" in str(each) for each in proxied.seen) == before
    finally:
        cf.set_storage_options("s3://atlas", {})


def test_series_are_read_through_blocks(bucket, tmp_path):
    from test_series_cloud import put_prices

    from cellfeed.series import SeriesDataset, build_series

    _, folder, _ = put_prices(bucket, tmp_path)
    build_series(folder, tmp_path / "out", entity="e", time="t", horizon=3)
    upload(bucket, tmp_path / "out", "out")
    options = {"cache_dir": tmp_path / "cache", "cache": "blocks"}
    try:
        cf.set_storage_options("s3://atlas", options)
        ours = SeriesDataset("s3://atlas/out", window=20)
        theirs = SeriesDataset(tmp_path / "out", window=20)
        for numbers in (slice(None), [5, 3, 200]):
            for a, b in zip(ours.arrays(numbers), theirs.arrays(numbers), strict=True):
                np.testing.assert_array_equal(a, b)
        assert list((tmp_path / "cache").glob("blocks-*"))
    finally:
        cf.set_storage_options("s3://atlas", {})


def test_an_object_that_is_replaced_is_an_error_until_it_is_opened_again(bucket, tmp_path):
    x = write_cells(tmp_path / "a.h5ad")
    upload(bucket, tmp_path / "a.h5ad", "a.h5ad")
    options = {"cache_dir": tmp_path / "cache", "cache": "blocks"}
    try:
        cells = cf.open("s3://atlas/a.h5ad", storage_options=options)
        np.testing.assert_array_equal(dense(cells.read([0, 1])), x[:2])
        other = write_cells(tmp_path / "b.h5ad", seed=1)
        upload(bucket, tmp_path / "b.h5ad", "a.h5ad")
        np.testing.assert_array_equal(dense(cells.read([0, 1])), x[:2])  # these are kept
        with pytest.raises(CorruptDataError, match=r"a\.h5ad: .*written again since"):
            assert_cells(cells, x)
        assert_cells(cf.open("s3://atlas/a.h5ad"), other)
        assert len(list((tmp_path / "cache").glob("blocks-*"))) == 1
    finally:
        cf.set_storage_options("s3://atlas", {})


EPOCH = """
import sys, warnings, cellfeed as cf
cells = cf.open(sys.argv[1], cache="blocks", cache_dir=sys.argv[2])
total = 0.0
for batch in cf.Loader(cells, cf.BlockShuffling(8), 64, seed=int(sys.argv[3])):
    total += float(batch.x.sum(dtype="float64"))
print(total)
"""


def start(served, cache, seed=0, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", EPOCH, f"{served.url}/a.h5ad", str(cache), str(seed)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | environment,
    )  # fmt: skip


def total_of(child):
    out, error = child.communicate(timeout=120)
    assert child.returncode == 0, error
    return float(out), error


def test_two_processes_fill_one_cache(served, tmp_path):
    x = write_cells(served.folder / "a.h5ad")
    both = [start(served, tmp_path / "cache", seed) for seed in (0, 1)]
    for child in both:
        assert total_of(child)[0] == pytest.approx(x.sum(dtype="float64"))
    served.take_sent()
    cells = cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=tmp_path / "cache")
    assert_cells(cells, x)
    assert served.take_sent() == []
    assert ask("verify", tmp_path / "cache")["ok"]


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_no_wrong_byte(served, tmp_path):
    x = write_cells(served.folder / "a.h5ad")
    cache = tmp_path / "cache"
    for calls in range(1, 8):
        for call in ("pwrite", "fsync", "ftruncate"):
            child = start(
                served, cache, LD_PRELOAD=str(attack.SHIM), FAULT_UNDER="blocks-",
                FAULT=f"{call}:{calls}:{'kill' if calls % 2 else 'died'}",
            )  # fmt: skip
            child.communicate(timeout=120)
            if child.returncode == 0:  # it makes fewer such calls
                continue
            assert child.returncode == -9
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                cells = cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=cache)
                np.testing.assert_array_equal(dense(cells.read(slice(None))), x)
                cells.close()
            assert ask("verify", cache)["ok"]
            ask("clear", cache)
            assert not list(cache.glob("blocks-*"))


@pytest.mark.parametrize(
    "fault", [pytest.param("pwrite:2:ENOSPC", marks=pytest.mark.slow), "pwrite:4:EIO",
              "fsync:2:ENOSPC", "pwrite:0:EINTR", "pwrite:0:short"],
)  # fmt: skip
def test_a_full_disk_ends_keeping_and_not_reading(served, tmp_path, fault):
    x = write_cells(served.folder / "a.h5ad")
    cache = tmp_path / "cache"
    child = start(
        served, cache, LD_PRELOAD=str(attack.SHIM), FAULT_UNDER="blocks-", FAULT=fault
    )  # fmt: skip
    total, error = total_of(child)
    assert total == pytest.approx(x.sum(dtype="float64"))
    is_harmless = fault.endswith(("EINTR", "short"))
    assert ("CacheWarning" in error and "is not kept" in error) == (not is_harmless), error
    assert_cells(cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=cache), x)
    assert ask("verify", cache)["ok"]


def test_a_disk_that_is_full_when_an_object_is_opened_is_an_error(served, tmp_path):
    write_cells(served.folder / "a.h5ad")
    child = start(
        served, tmp_path / "cache", LD_PRELOAD=str(attack.SHIM), FAULT_UNDER="blocks-",
        FAULT="pwrite:1:ENOSPC",
    )  # fmt: skip
    error = child.communicate(timeout=120)[1]
    assert child.returncode == 1 and "blocks-" in error and "No space left" in error, error
    assert not list((tmp_path / "cache").glob("*"))


def test_a_flipped_bit_is_found_said_and_read_again(served, tmp_path):
    x = write_cells(served.folder / "a.h5ad")
    cache = tmp_path / "cache"
    cells = cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=cache)
    assert_cells(cells, x)
    cells.close()
    file = block_file(cache)
    with open(file, "r+b") as damaged:
        damaged.seek(file.stat().st_size - 3 * BLOCK_BYTES)
        byte = damaged.read(1)
        damaged.seek(-1, os.SEEK_CUR)
        damaged.write(bytes([byte[0] ^ 0x10]))
    (damage,) = ask("verify", cache, code=1)["damages"]
    assert damage["path"] == str(file) and "block " in damage["what"]
    served.take_sent()
    cells = cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=cache)
    with pytest.warns(CacheWarning, match="blocks are damaged"):
        assert_cells(cells, x)
    assert len(served.take_sent()) == 1
    assert ask("verify", cache)["ok"]


def test_blocks_and_copies_share_what_the_folder_may_hold(served, tmp_path):
    for i, name in enumerate("abc"):
        write_cells(served.folder / f"{name}.h5ad", i)
    cache = tmp_path / "cache"
    size = (served.folder / "a.h5ad").stat().st_size
    options = {"cache_dir": cache, "cache": "blocks", "cache_bytes": int(2.5 * size)}
    cf.set_storage_options(served.url, options)
    for name in "ab":
        cells = cf.open(f"{served.url}/{name}.h5ad")
        cells.read(slice(None))
        cells.close()
    (of_a,) = cache.glob("blocks-*-a.h5ad")
    age(of_a, 3)
    cf.set_storage_options(served.url, options | {"cache": "files"})
    cf.open(f"{served.url}/c.h5ad").close()
    listed = ask("list", cache)
    assert [(e["kind"], e["what"][-6:]) for e in listed["entries"]] == [
        ("blocks", "b.h5ad"), ("copy", "c.h5ad"),
    ]  # fmt: skip
    assert listed["bytes"] <= 2.5 * size
    assert "blocks" in run("cache", "list", cache).stdout
    assert len(ask("clear", cache, "--max-bytes", size + 10)["entries"]) == 1
    assert ask("clear", cache)["left_bytes"] == 0
    assert ask("list", cache)["entries"] == []


def test_a_limit_ends_keeping_and_says_so(served, tmp_path):
    x = write_cells(served.folder / "a.h5ad")
    cache = tmp_path / "cache"
    options = {"cache_dir": cache, "cache": "blocks", "cache_bytes": "3MiB"}
    with pytest.warns(CacheWarning, match=r"is not kept in .*cache_bytes"):
        cells = cf.open(f"{served.url}/a.h5ad", storage_options=options)
        assert_cells(cells, x)
    assert_cells(cells, x)
    assert BLOCK_BYTES < ask("list", cache)["bytes"] < 3 * BLOCK_BYTES + 4096
    with pytest.raises(OSError, match="cache_bytes"):
        cf.open(f"{served.url}/a.h5ad", storage_options=options | {"cache_bytes": 1000})


def test_the_smallest_objects(served, tmp_path):
    small = anndata.AnnData(scipy.sparse.csr_matrix(np.eye(3, dtype=np.float32)))
    write_old(small, served.folder / "a.h5ad")
    (served.folder / "empty.h5ad").touch()
    age(served.folder / "empty.h5ad")
    cache = tmp_path / "cache"
    cells = cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=cache)
    np.testing.assert_array_equal(dense(cells.read([2, 0])), np.eye(3)[[2, 0]])
    served.take_sent()
    np.testing.assert_array_equal(dense(cf.open(f"{served.url}/a.h5ad").read([1])), np.eye(3)[[1]])
    assert served.take_sent() == []
    with pytest.raises(cf.errors.CellfeedError, match=r"empty\.h5ad"):
        cf.open(f"{served.url}/empty.h5ad")


@pytest.mark.parametrize("size", [BLOCK_BYTES, 2 * BLOCK_BYTES, BLOCK_BYTES + 1, BLOCK_BYTES - 1])
def test_objects_that_end_where_a_block_does(served, tmp_path, size):
    """Padded behind what an .h5ad file needs: HDF5 does not mind."""
    x = np.random.default_rng(0).random((50, 40), np.float32)
    anndata.AnnData(x).write_h5ad(served.folder / "a.h5ad")
    with open(served.folder / "a.h5ad", "ab") as file:
        file.write(b"\0" * (size - file.tell()))
    age(served.folder / "a.h5ad")
    for _ in range(2):
        cells = cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=tmp_path / "cache")
        np.testing.assert_array_equal(dense(cells.read(slice(None))), x)
        cells.close()
    assert served.take_sent() and ask("verify", tmp_path / "cache")["ok"]


def test_folders_that_cannot_hold_blocks_are_named(served, tmp_path):
    x = write_cells(served.folder / "a.h5ad")
    url = f"{served.url}/a.h5ad"
    (tmp_path / "file").touch()
    with pytest.raises(cf.errors.CellfeedError, match="file"):
        cf.open(url, cache="blocks", cache_dir=tmp_path / "file")
    with pytest.raises(InvalidArgumentError, match="local disk"):
        cf.open(url, cache="blocks", cache_dir="s3://atlas/cache")
    cache = tmp_path / "cache"
    cf.open(url, cache="blocks", cache_dir=cache).close()
    if os.geteuid() == 0:
        return  # who may write anywhere sees no folder that may only be read
    block_file(cache).chmod(0o444)
    cache.chmod(0o555)
    try:
        with pytest.warns(CacheWarning, match="may only be read"):
            assert_cells(cf.open(url), x)
    finally:
        cache.chmod(0o755)


@pytest.mark.parametrize("mode", ["block", "BLOCKS", "", "rows"])
def test_modes_that_there_are_not(served, tmp_path, mode):
    options = {"cache_dir": tmp_path, "cache": mode}
    with pytest.raises(InvalidArgumentError, match=r"cache must be files .*or blocks"):
        cf.set_storage_options(served.url, options)


def test_modes_that_are_no_texts(served, tmp_path):
    for mode in (3, None, ["blocks"]):
        with pytest.raises(cf.errors.InvalidTypeError, match="cache"):
            cf.set_storage_options(served.url, {"cache_dir": tmp_path, "cache": mode})
    for mode in (3, "block", True):
        with pytest.raises(cf.errors.CellfeedError, match="cache must be"):
            cf.open(f"{served.url}/a.h5ad", cache=mode, cache_dir=tmp_path)
    with pytest.raises(cf.errors.InvalidTypeError, match="storage_options must be a mapping"):
        cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=tmp_path, storage_options=3)
    with pytest.raises(InvalidArgumentError, match="cache_dir is None"):
        cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=None)
    write_cells(tmp_path / "a.h5ad")
    with pytest.raises(InvalidArgumentError, match="buckets and servers"):
        cf.open(tmp_path / "a.h5ad", cache="blocks", cache_dir=tmp_path / "cache")


def test_the_environment_names_the_folder(served, tmp_path, monkeypatch):
    x = write_cells(served.folder / "a.h5ad")
    for name in ("CELLFEED_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidArgumentError, match="CELLFEED_CACHE"):
        cf.open(f"{served.url}/a.h5ad", cache="blocks")
    monkeypatch.setenv("CELLFEED_CACHE", str(tmp_path / "cache"))
    assert_cells(cf.open(f"{served.url}/a.h5ad", cache="blocks"), x)
    assert ask("list")["entries"][0]["kind"] == "blocks"
    cf.set_storage_options(served.url, {"cache": "files"})
    assert_cells(cf.open(f"{served.url}/a.h5ad"), x)
    assert sorted(e["kind"] for e in ask("list")["entries"]) == ["blocks", "copy"]


def test_a_configuration_keeps_blocks(served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = write_cells(served.folder / "a.h5ad")
    (tmp_path / "run.yaml").write_text(
        f"data: {{paths: {served.url}/a.h5ad, cloud: {{cache_dir: cache, cache: blocks, "
        "cache_bytes: 1GB}}\n"
    )
    run("shard", "--config", "run.yaml", "--output-dir", "out")
    np.testing.assert_array_equal(dense(cf.open("out").read(slice(None))), x)
    assert [e["kind"] for e in ask("list", tmp_path / "cache")["entries"]] == ["blocks"]
    served.take_sent()
    module = cf.training.CellDataModule.from_config("run.yaml", split={"train": 1.0})
    module.setup()
    for _ in module.train_dataloader():
        pass
    assert served.take_sent() == []
    (tmp_path / "run.yaml").write_text("data: {paths: a.h5ad, cloud: {cache: blocks}}\n")
    assert "needs data.cloud.cache_dir" in run("config", "run.yaml", code=1).stderr


def test_workers_that_are_forked_keep_what_they_read(served, tmp_path):
    import torch

    x = write_cells(served.folder / "a.h5ad")
    cells = cf.open(f"{served.url}/a.h5ad", cache="blocks", cache_dir=tmp_path / "cache")
    loader = cf.Loader(cells, cf.BlockShuffling(8), 64, seed=1)
    data_loader = torch.utils.data.DataLoader(
        loader, batch_size=None, num_workers=2, multiprocessing_context="fork"
    )
    total = sum(float(dense(batch).sum(dtype="float64")) for batch in data_loader)
    assert total == pytest.approx(x.sum(dtype="float64"))
    served.take_sent()
    assert_cells(cf.open(f"{served.url}/a.h5ad"), x)
    assert served.take_sent() == []
