"""The web server of files of the tests, seen by a client that is not cellfeed."""

import http.client
import random

import pytest
from file_server import FileServer

CONTENT = random.Random(7).randbytes(3_000_000)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "atlas").mkdir()
    (tmp_path / "atlas" / "cells 1+2.h5ad").write_bytes(CONTENT)
    return tmp_path


def ask(server, method="GET", path="/atlas/cells%201+2.h5ad", **headers):
    connection = http.client.HTTPConnection(server.address, timeout=10)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=names)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def test_ranges_and_versions(folder):
    with FileServer(folder) as server:
        status, headers, body = ask(server, "HEAD")
        assert (status, headers["Content-Length"], body) == (200, "3000000", b"")
        for asked, begin, end in [
            ("0-0", 0, 1), ("100-199", 100, 200), ("2999990-", 2_999_990, 3_000_000),
            ("-5", 2_999_995, 3_000_000), ("2999990-9999999", 2_999_990, 3_000_000),
        ]:  # fmt: skip
            status, headers, body = ask(server, Range=f"bytes={asked}")
            assert (status, body) == (206, CONTENT[begin:end])
            assert headers["Content-Range"] == f"bytes {begin}-{end - 1}/3000000"
        status, headers, _ = ask(server, Range="bytes=3000000-")
        assert (status, headers["Content-Range"]) == (416, "bytes */3000000")
        etag = headers["ETag"]
        assert ask(server, If_Match=etag)[2] == CONTENT
        assert ask(server, If_None_Match=etag)[0] == 304
        (folder / "atlas" / "cells 1+2.h5ad").write_bytes(b"another")
        assert ask(server, If_Match=etag)[0] == 412
        assert ask(server, Range="bytes=1-2", If_Range=etag)[::2] == (200, b"another")


def test_nothing_outside_of_the_folder_is_served(folder):
    (folder / "secret").write_text("hush")
    with FileServer(folder / "atlas") as server:
        assert ask(server, path="/../secret")[0] == 404
        assert ask(server, path="/%2e%2e/secret")[0] == 404
        status, headers, page = ask(server, path="/none")
        assert (status, headers["Content-Type"]) == (404, "text/html") and b"<html>" in page


def test_servers_with_bad_manners(folder):
    with FileServer(folder, ranges=False) as server:
        status, headers, body = ask(server, Range="bytes=0-9")
        assert (status, headers["Accept-Ranges"], body) == (200, "none", CONTENT)
        with FileServer(folder, redirect_to=server.url) as first:
            status, headers, _ = ask(first)
            assert (status, headers["Location"]) == (302, f"{server.url}/atlas/cells%201+2.h5ad")
    for length in "chunked", "unsaid":
        with FileServer(folder, length=length) as server:
            status, headers, body = ask(server)
            assert (status, headers["Content-Length"], body) == (200, None, CONTENT)
    with FileServer(folder, page=True) as server:
        status, headers, body = ask(server, Range="bytes=0-9")
        assert (status, headers["Content-Type"]) == (200, "text/html") and b"<html>" in body
