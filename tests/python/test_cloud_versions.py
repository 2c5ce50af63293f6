"""What changes under a run is an error, and never kept, however little servers tell of it."""

import email.utils
import os
import threading
import time

import anndata
import numpy as np
import pytest
import scipy.sparse
import zarr
from loopback_server import LoopbackServer, QuietHandler
from zarr_files import write_store

import cellfeed as cf
from cellfeed.errors import CacheWarning, CorruptDataError, UnsupportedError

N_CELLS, N_GENES = 400, 30
OLD, LATER = (
    email.utils.formatdate(time.time() - seconds, usegmt=True) for seconds in (2000, 1000)
)


def adata_of(seed: int) -> anndata.AnnData:
    """Of one size, and with its values in one place, whatever the seed."""
    x = scipy.sparse.random(
        N_CELLS, N_GENES, 0.3, format="csr", dtype="float32", rng=np.random.default_rng(0)
    )
    x.data = np.random.default_rng(seed).integers(1, 9, x.nnz).astype("float32")
    return anndata.AnnData(x)


class _Handler(QuietHandler):
    def do_HEAD(self) -> None:
        self._answer(0, None)

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        if asked is None:
            return self._answer(0, None)
        first, last = map(int, asked.removeprefix("bytes=").split("-"))
        return self._answer(first, last)

    def _answer(self, first: int, last: int | None) -> None:
        served = self.server.owner
        is_head = self.command == "HEAD"
        body = served.body[first : None if last is None else last + 1]
        self.send_response(200 if last is None else 206)
        for name, value in (served.of_head if is_head else served.of_bytes).items():
            self.send_header(name, value)
        if last is not None:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(served.body)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not is_head:
            self.wfile.write(body)


class OneFile(LoopbackServer):
    """One file, and the headers that tell its version; preconditions are not looked at."""

    handler = _Handler

    def __init__(
        self, body: bytes, of_head: dict[str, str], of_bytes: dict[str, str] | None = None
    ):
        self.body, self.of_head, self.of_bytes = body, of_head, of_bytes or of_head
        super().__init__()
        self.path = f"{self.url}/a.h5ad"

    def replace(self, body: bytes, of_all: dict[str, str]) -> None:
        self.body, self.of_head, self.of_bytes = body, of_all, of_all


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> tuple[bytes, bytes]:
    """Files of one length."""
    folder = tmp_path_factory.mktemp("two")
    for seed in (1, 2):
        adata_of(seed).write_h5ad(folder / f"{seed}.h5ad")
    first, second = ((folder / f"{seed}.h5ad").read_bytes() for seed in (1, 2))
    assert len(first) == len(second) and first != second
    return first, second


def assert_holds(cells, seed: int) -> None:
    assert (cells[:].X != adata_of(seed).X).nnz == 0


@pytest.mark.parametrize("mode", ["files", "blocks", "rows"])
def test_a_weak_tag_that_stays_is_no_version(two, tmp_path, mode):
    kept = {"cache": mode, "cache_dir": tmp_path / "cache"}
    with OneFile(two[0], {"ETag": 'W/"same"', "Last-Modified": OLD}) as server:
        assert_holds(cf.open(server.path, **kept), 1)
        server.replace(two[1], {"ETag": 'W/"same"', "Last-Modified": LATER})
        assert_holds(cf.open(server.path, **kept), 2)
        cf.set_storage_options(server.path, {})


def test_a_weak_tag_that_stays_is_no_version_of_what_is_read(two):
    with OneFile(two[0], {"ETag": 'W/"same"', "Last-Modified": OLD}) as server:
        cells = cf.open(server.path)
        server.replace(two[1], {"ETag": 'W/"same"', "Last-Modified": LATER})
        with pytest.raises(CorruptDataError, match="written again since it was opened"):
            cells.read(slice(None))


@pytest.mark.parametrize("told", [{"ETag": '"1"'}, {"Last-Modified": OLD}])
def test_bytes_that_come_without_a_version_are_refused(two, told):
    with OneFile(two[0], told, {"Server": "mean"}) as server:
        with pytest.raises(UnsupportedError, match=r"a\.h5ad.*does not say of which version"):
            cf.open(server.path)
        server.of_bytes = told
        cells = cf.open(server.path)
        server.replace(two[1], {"Server": "mean"})
        with pytest.raises(UnsupportedError, match="does not say of which version"):
            cells.read(slice(None))


@pytest.mark.parametrize("told", [{}, {"ETag": '"of size and time"'}], ids=["time", "tag"])
def test_a_file_of_this_second_is_opened_once_that_is_over(two, told):
    """Written again in it, it would have the same time, and the same tag where nginx makes it."""
    time.sleep(1.1 - time.time() % 1)
    second = int(time.time())
    now = {"Last-Modified": email.utils.formatdate(second, usegmt=True), **told}
    with OneFile(two[0], now) as server:
        cells = cf.open(server.path)
        assert time.time() >= second + 1
        assert_holds(cells, 1)


@pytest.mark.parametrize("mode", ["files", "blocks", "rows"])
@pytest.mark.parametrize("told", [{"Server": "mean"}, {"ETag": 'W/"1"'}], ids=["nothing", "weak"])
def test_what_has_no_version_is_not_kept(two, tmp_path, mode, told):
    with OneFile(two[0], told) as server:
        with pytest.raises(UnsupportedError, match=r"server (tells no version|does not say when)"):
            cf.open(server.path, cache=mode, cache_dir=tmp_path / "cache")
        cf.set_storage_options(server.path, {})


def upload_folder(bucket, folder, key: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            bucket.upload_file(str(path), "atlas", f"{key}/{path.relative_to(folder)}")


def chunked(path, version: int) -> anndata.AnnData:
    made = adata_of(1)
    made.obs["depth"] = np.arange(N_CELLS, dtype="float64")
    write_store(made, path, version)
    group = zarr.open_group(path, mode="r+")
    values = group["X/data"][:]
    del group["X/data"]
    array = group["X"].create_array("data", shape=values.shape, dtype="float32", chunks=(500,))
    array[:] = values
    zarr.consolidate_metadata(path)
    return made


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("key", ["X/data", "obs/depth"])
def test_parts_of_a_zarr_store_that_are_written_after_it_was_opened_are_named(
    tmp_path, version, key
):
    made = chunked(tmp_path / "a.zarr", version)
    cells = cf.open(tmp_path / "a.zarr", obs=["depth"])
    time.sleep(0.02)
    array = zarr.open_group(tmp_path / "a.zarr", mode="r+")[key]
    array[:] = array[:] + 1
    with pytest.raises(CorruptDataError, match=f"{key}.*written to since the store was opened"):
        list(cf.Loader(cells, cf.Streaming(), 100, obs=["depth"]))
    if key == "X/data":
        made.X.data += 1
    assert (cf.open(tmp_path / "a.zarr")[:].X != made.X).nnz == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("key", ["X/data", "obs/depth"])
def test_the_same_of_one_in_a_bucket_once_what_was_learned_of_it_is_old(tmp_path, bucket, key):
    chunked(tmp_path / "a.zarr", 2)
    upload_folder(bucket, tmp_path / "a.zarr", "a.zarr")
    cells = cf.open("s3://atlas/a.zarr", obs=["depth"])
    time.sleep(10.5)  # cloud/recent_objects.cc
    array = zarr.open_group(tmp_path / "a.zarr", mode="r+")[key]
    array[:] = array[:] + 1
    upload_folder(bucket, tmp_path / "a.zarr" / key, f"a.zarr/{key}")
    with pytest.raises(CorruptDataError, match=f"{key}.*written to since the store was opened"):
        list(cf.Loader(cells, cf.Streaming(), 100, obs=["depth"]))


def kept_copy(folder):
    (copy,) = (path for path in folder.iterdir() if not path.name.startswith("."))
    return copy


def test_a_copy_that_was_written_to_is_made_again(two, tmp_path):
    kept = {"cache": "files", "cache_dir": tmp_path}
    with OneFile(two[0], {"ETag": '"1"'}) as server:
        assert_holds(cf.open(server.path, **kept), 1)
        copy = kept_copy(tmp_path)
        time.sleep(0.02)
        copy.write_bytes(two[1])
        with pytest.warns(CacheWarning, match="copied again"):
            cells = cf.open(server.path, **kept)
        assert_holds(cells, 1)
        assert copy.read_bytes() == two[0]
        cf.set_storage_options(server.path, {})


def test_a_copy_whose_time_alone_changed_is_used(two, tmp_path):
    kept = {"cache": "files", "cache_dir": tmp_path}
    with OneFile(two[0], {"ETag": '"1"'}) as server:
        assert_holds(cf.open(server.path, **kept), 1)
        copy = kept_copy(tmp_path)
        os.utime(copy, (1, 1))
        inode = copy.stat().st_ino
        assert_holds(cf.open(server.path, **kept), 1)
        assert copy.stat().st_ino == inode
        cf.set_storage_options(server.path, {})


class _LateHandler(_Handler):
    """The first answer breaks off after a second; the others trickle, as long as somebody waits."""

    def do_GET(self) -> None:
        served = self.server.owner
        if not served.is_late:
            return super().do_GET()
        served.late.append(time.monotonic())
        self.close_connection, is_first = True, len(served.late) == 1
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        self.send_response(206)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(served.body)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        for at in range(first, last + 1):
            self.wfile.write(served.body[at : at + 1])
            self.wfile.flush()
            if served.is_over.wait(1 if is_first else 0.2) or is_first:
                return None
        return None


class LateFile(OneFile):
    handler = _LateHandler

    def __init__(self, body: bytes):
        self.is_late, self.late, self.is_over = False, [], threading.Event()
        super().__init__(body, {"ETag": '"1"'})


def test_a_request_that_was_doubled_has_an_end_too(tmp_path, monkeypatch):
    x = scipy.sparse.random(40_000, 50, 0.3, format="csr", dtype="float32", rng=1)
    anndata.AnnData(x).write_h5ad(tmp_path / "a.h5ad")
    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "2")
    with LateFile((tmp_path / "a.h5ad").read_bytes()) as server:
        cells = cf.open(server.path)
        for row in range(0, 30_000, 200):  # so many tell which answers are late
            cells.read([row])
        server.is_late = True
        begun = time.monotonic()
        with pytest.raises(OSError, match="could not be read"):
            cells.read([39_000])
        assert time.monotonic() - begun < 12
        first, second = server.late[:2]
        assert second - first < 0.9  # beside the first, not after it
        server.is_over.set()
