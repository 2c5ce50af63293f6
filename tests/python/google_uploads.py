"""Uploads that resume, as Google documents them ("Perform resumable uploads"), kept in memory.

fake-gcs-server takes a piece that is sent again for the next one, and cannot be asked how far an
upload has come; this does no more than a client needs that writes one large object.
"""

import json
import re
import urllib.parse

from file_server import asked_range
from loopback_server import LoopbackServer, QuietHandler


class _Handler(QuietHandler):
    def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _url(self) -> tuple[str, dict[str, str]]:
        url = urllib.parse.urlsplit(self.path)
        name = urllib.parse.unquote(url.path.partition("/o/")[2])
        return name, dict(urllib.parse.parse_qsl(url.query))

    def do_POST(self) -> None:
        self.read_body()
        _, query = self._url()
        store = self.server.owner
        session = f"s{len(store.sessions)}"
        store.sessions[session] = (query["name"], bytearray())
        self._send(200, Location=f"http://{self.headers['Host']}/upload/x?upload_id={session}")

    def do_PUT(self) -> None:
        body = self.read_body()
        store = self.server.owner
        name, kept = store.sessions[self._url()[1]["upload_id"]]
        begin, total = re.fullmatch(
            r"bytes (?:(\d+)-\d+|\*)/(\d+)", self.headers["Content-Range"]
        ).groups()
        if begin is not None and name not in store.objects:
            if int(begin) > len(kept):
                return self._send(503)
            kept += body[len(kept) - int(begin) :]
        if len(kept) == int(total):
            store.objects[name] = bytes(kept)
            return self._send(200, b"{}")
        headers = {"Range": f"bytes=0-{len(kept) - 1}"} if kept else {}
        return self._send(308, **headers)

    def do_GET(self) -> None:
        name, query = self._url()
        content = self.server.owner.objects.get(name)
        if not name:
            return self._send(200, b"{}")
        if content is None:
            return self._send(404, b'{"error": {"message": "No such object"}}')
        if query.get("alt") != "media":
            size = str(len(content))
            return self._send(200, json.dumps({"size": size, "generation": "1"}).encode())
        begin, end = asked_range(self.headers.get("Range", ""), len(content)) or (0, len(content))
        where = f"bytes {begin}-{end - 1}/{len(content)}"
        return self._send(206, content[begin:end], Content_Range=where, X_Goog_Generation="1")


class GoogleUploads(LoopbackServer):
    handler = _Handler

    def __init__(self):
        self.objects: dict[str, bytes] = {}
        self.sessions: dict[str, tuple[str, bytearray]] = {}
        super().__init__()
