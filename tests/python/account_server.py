"""Servers of access tokens on loopback, as Google and Microsoft run them; they keep what was asked.

with AccountServer() as server:
    server.answer = (400, {"error": "invalid_grant", "error_description": "gone"})
"""

import json
import urllib.parse

from loopback_server import LoopbackServer, QuietHandler


class _Handler(QuietHandler):
    def _call(self) -> None:
        owner = self.server.owner
        body = self.read_body().decode()
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

    do_GET = do_POST = _call


class AccountServer(LoopbackServer):
    handler = _Handler

    def __init__(self):
        self.asked: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
        """Method, path, headers, and the values of the form or of the query."""
        self.answer: tuple[int, dict] | None = None
        self.expires_in: int | str = 3600
        super().__init__()
