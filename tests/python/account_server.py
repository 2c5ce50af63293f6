"""Servers of access tokens on loopback, as Google and Microsoft run them; they keep what was asked.

with AccountServer() as server:
    server.answer = (400, {"error": "invalid_grant", "error_description": "gone"})
"""

import http.server
import json
import threading
import urllib.parse


class AccountServer:
    def __init__(self):
        self.asked: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
        """Method, path, headers, and the values of the form or of the query."""
        self.answer: tuple[int, dict] | None = None
        self.expires_in: int | str = 3600
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> "AccountServer":
        return self

    def __exit__(self, *_) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_) -> None:
        pass

    def _call(self) -> None:
        owner: AccountServer = self.server.owner
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        url = urllib.parse.urlsplit(self.path)
        form = dict(urllib.parse.parse_qsl(body or url.query))
        owner.asked.append((self.command, url.path, dict(self.headers.items()), form))
        token = {"access_token": f"token-{len(owner.asked)}", "expires_in": owner.expires_in}
        status, content = owner.answer or (200, token)
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = _call  # noqa: N815
