"""Servers that refuse HEAD, as those do that a file's address sends on to, signed for GET alone."""

import os

import pytest
from file_server import FileServer, age
from loopback_server import LoopbackServer, QuietHandler
from test_cloud import assert_cells, write_cells

import cellfeed as cf
from cellfeed.errors import CorruptDataError, NotFoundError, UnsupportedError

REFUSALS = (400, 403, 405, 501)


def write_old(path, **options):
    adata = write_cells(path, **options)
    age(path)
    return adata


@pytest.mark.parametrize("status", REFUSALS)
def test_a_file_whose_head_is_refused_is_the_file(tmp_path, status):
    adata = write_old(tmp_path / "a.h5ad", compression="gzip")
    with FileServer(tmp_path, refuses_head=status) as server:
        assert_cells(cf.open(f"{server.url}/a.h5ad"), adata)
        with pytest.raises(NotFoundError, match=r"absent\.h5ad: there is no such file"):
            cf.open(f"{server.url}/absent.h5ad")


def test_a_server_that_sends_on_to_one_that_refuses_head(tmp_path):
    adata = write_old(tmp_path / "a.h5ad")
    with (
        FileServer(tmp_path, refuses_head=403) as there,
        FileServer(tmp_path, redirect_to=there.url) as here,
    ):
        assert_cells(cf.open(f"{here.url}/a.h5ad"), adata)


def test_the_version_is_that_of_the_answer_with_its_first_byte(tmp_path):
    write_old(tmp_path / "a.h5ad")
    with FileServer(tmp_path, refuses_head=405) as server:
        cells = cf.open(f"{server.url}/a.h5ad")
        write_old(tmp_path / "b.h5ad", seed=1)
        os.replace(tmp_path / "b.h5ad", tmp_path / "a.h5ad")
        with pytest.raises(CorruptDataError, match="written again since it was opened"):
            cells[[3, 400]].X  # noqa: B018


@pytest.mark.parametrize("mode", ["files", "blocks", "rows"])
def test_what_is_kept_of_it_is_of_its_version(tmp_path, mode):
    kept = {"cache": mode, "cache_dir": tmp_path / "cache"}
    (tmp_path / "served").mkdir()
    with FileServer(tmp_path / "served", refuses_head=403) as server:
        for seed in range(2):
            adata = write_old(tmp_path / "b.h5ad", seed=seed)
            os.replace(tmp_path / "b.h5ad", tmp_path / "served" / "a.h5ad")
            for _ in range(2):
                assert_cells(cf.open(f"{server.url}/a.h5ad", **kept), adata)
        cf.set_storage_options(server.url, {})


@pytest.mark.parametrize("length", ["said", "chunked", "unsaid"])
def test_one_that_sends_whole_files_only_is_named(tmp_path, length):
    write_old(tmp_path / "a.h5ad")
    server = FileServer(tmp_path, refuses_head=405, ranges=False, length=length)
    with server, pytest.raises(UnsupportedError, match=r"a\.h5ad: .*whole files only"):
        cf.open(f"{server.url}/a.h5ad")


@pytest.mark.parametrize("length", ["chunked", "unsaid"])
def test_a_head_that_tells_no_size_is_no_end(tmp_path, length):
    adata = write_old(tmp_path / "a.h5ad")
    with FileServer(tmp_path, length=length) as server:
        assert_cells(cf.open(f"{server.url}/a.h5ad"), adata)


def test_a_page_in_place_of_a_file_is_named(tmp_path):
    server = FileServer(tmp_path, refuses_head=403, page=True)
    with server, pytest.raises(CorruptDataError, match="HTML page"):
        cf.open(f"{server.url}/a.h5ad")


class _Handler(QuietHandler):
    def do_HEAD(self) -> None:
        self.server.owner.asked.append("HEAD")
        self._send(405, {}, b"")

    def do_GET(self) -> None:
        self.server.owner.asked.append(self.headers.get("Range"))
        self._send(*self.server.owner.answer)

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class OneAnswer(LoopbackServer):
    """One answer to every GET; HEAD is not known."""

    handler = _Handler

    def __init__(self, status: int, headers: dict[str, str], body: bytes):
        self.answer, self.asked = (status, headers, body), []
        super().__init__()
        self.path = f"{self.url}/a.h5ad"


DENIED = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"


@pytest.mark.parametrize(
    ("status", "headers", "body", "error", "message"),
    [
        (403, {}, DENIED, OSError, r"does not give it: HTTP 403 \(AccessDenied: Request has expi"),
        (206, {"Content-Range": "bytes 0-0/*"}, b"x", UnsupportedError, "how large it is"),
        (206, {"Content-Range": "bytes 5-5/99"}, b"x", UnsupportedError, "how large it is"),
        (206, {}, b"x", UnsupportedError, "how large it is"),
        (416, {"Content-Range": "bytes */9"}, b"", UnsupportedError, "how large it is"),
        (416, {"Content-Range": "bytes */0", "ETag": '"0"'}, b"", CorruptDataError, "a.h5ad"),
        (200, {"ETag": '"0"'}, b"", CorruptDataError, "a.h5ad"),
    ],
    ids=["refused", "size unknown", "other byte", "no range", "416", "empty", "empty as a whole"],
)
def test_answers_that_are_of_no_use_are_named(status, headers, body, error, message):
    with OneAnswer(status, headers, body) as server:
        with pytest.raises(error, match=message) as refused:
            cf.open(server.path)
        assert "a.h5ad" in str(refused.value)
        assert server.asked[:2] == ["HEAD", "bytes=0-0"]
