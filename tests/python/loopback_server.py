"""What the small servers of the tests stand on: they begin, say where they are, and end in one way.

class Clock(LoopbackServer):
    handler = ClockHandler                     # a QuietHandler; its self.server.owner is the Clock

with Clock() as server:
    urllib.request.urlopen(server.url)

Thread-safe: a thread for every connection.
"""

import http.server
import pathlib
import random
import socket
import sys
import threading
from typing import Self


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address) -> None:
        """A client that hangs up is no error of the server; all else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class QuietHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def log_message(self, *_) -> None:
        pass

    def handle_expect_100(self) -> bool:
        """A client waits for this line: it may not stay in the buffer."""
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))


class LoopbackServer:
    """Serves from its making on; what a server keeps is set before `super().__init__()`."""

    handler: type[QuietHandler]

    def __init__(self):
        self._server = QuietServer(("127.0.0.1", 0), self.handler)
        self._server.owner = self
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def free_port() -> int:
    """A port for a server that must be told one: none that the system gives to others meanwhile."""
    given = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    for port in random.SystemRandom().sample(range(10_000, int(given.split()[0])), 100):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise RuntimeError("a hundred ports are all in use")
