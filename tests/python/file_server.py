"""A web server of a folder on loopback, with the good and bad manners of servers of files.

    with FileServer(folder) as server:
        ...                                   # GET and HEAD of f"{server.url}/name.h5ad"

HEAD (or a refusal of it), ranges (one, with a suffix form), ETag, Last-Modified, If-Match,
If-None-Match, If-Range.
Thread-safe: a thread for every connection; what it serves is read anew for every request.
"""

import email.utils
import os
import pathlib
import re
import time
import urllib.parse

from loopback_server import LoopbackServer, QuietHandler

PIECE_BYTES = 1 << 20


def age(path, hours=1):
    """Set the time of a file back. cellfeed waits before it opens a file of this very second."""
    then = time.time() - 3600 * hours
    os.utime(path, (then, then))


def asked_range(text: str, size: int) -> tuple[int, int] | None:
    """The half open range that a Range header means; None for none or one that servers ignore."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", text)
    if match is None or match[0] == "bytes=-":
        return None
    if not match[1]:
        return max(0, size - int(match[2])), size
    return int(match[1]), min(size, int(match[2]) + 1) if match[2] else size


class _Handler(QuietHandler):
    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        files = self.server.owner
        name = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        path = (files.folder / name).resolve()
        if files.redirect_to:
            self._answer(302, [("Location", files.redirect_to + self.path)], b"")
        elif self.command == "HEAD" and files.refuses_head:
            self._answer(files.refuses_head, [], b"")
        elif files.page:
            self._answer(
                200, [("Content-Type", "text/html")], b"<!DOCTYPE html><html>Sign in</html>"
            )
        elif not path.is_relative_to(files.folder) or not path.is_file():
            page = b"<!DOCTYPE html><html><h1>404 Not Found</h1></html>"
            self._answer(404, [("Content-Type", "text/html")], page)
        else:
            with open(path, "rb") as file:
                self._answer_file(files, file)

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self._send_head(status, [*headers, ("Content-Length", str(len(body)))])
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_head(self, status: int, headers: list[tuple[str, str]]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def _answer_file(self, files: "FileServer", file) -> None:
        facts = os.fstat(file.fileno())
        size, etag = facts.st_size, f'"{facts.st_mtime_ns:x}-{facts.st_ino:x}"'
        headers = [
            ("ETag", etag), ("Last-Modified", email.utils.formatdate(facts.st_mtime, usegmt=True)),
            ("Content-Type", "application/octet-stream"),
            ("Accept-Ranges", "bytes" if files.ranges else "none"),
        ]  # fmt: skip
        if self.headers.get("If-Match", etag) not in (etag, "*"):
            return self._answer(412, headers, b"")
        if self.headers.get("If-None-Match") == etag:
            return self._send_head(304, headers)
        wanted = None
        if files.ranges and self.headers.get("If-Range", etag) == etag:
            wanted = asked_range(self.headers.get("Range", ""), size)
        if wanted and wanted[0] >= min(size, wanted[1]):
            return self._answer(416, [*headers, ("Content-Range", f"bytes */{size}")], b"")
        begin, end = wanted or (0, size)
        if wanted:
            headers.append(("Content-Range", f"bytes {begin}-{end - 1}/{size}"))
        if files.length == "said":
            headers.append(("Content-Length", str(end - begin)))
        elif files.length == "chunked":
            headers.append(("Transfer-Encoding", "chunked"))
        else:
            headers.append(("Connection", "close"))
        self._send_head(206 if wanted else 200, headers)
        if self.command != "HEAD":
            self._send_bytes(file, begin, end, chunked=files.length == "chunked")
        return None

    def _send_bytes(self, file, begin: int, end: int, *, chunked: bool) -> None:
        file.seek(begin)
        while piece := file.read(min(PIECE_BYTES, end - begin)):
            begin += len(piece)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")


class FileServer(LoopbackServer):
    """Serves `folder`.

    `ranges=False`: all of the file whatever was asked for. `length`: "said" in Content-Length,
    "chunked", or "unsaid" (the connection ends with the file). `redirect_to`: the address of
    another server, to which every request is sent on. `page`: a page of HTML, status 200, in
    place of every file. `refuses_head`: the status that answers every HEAD.
    """

    handler = _Handler

    def __init__(
        self,
        folder: pathlib.Path | str,
        *,
        ranges: bool = True,
        length: str = "said",
        redirect_to: str = "",
        page: bool = False,
        refuses_head: int = 0,
    ):
        self.folder, self.ranges, self.length = pathlib.Path(folder).resolve(), ranges, length
        self.redirect_to, self.page, self.refuses_head = redirect_to, page, refuses_head
        super().__init__()
