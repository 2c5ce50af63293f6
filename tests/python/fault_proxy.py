"""A proxy on loopback in front of an HTTP server: a long and narrow link, or one that fails.

    with FaultProxy("127.0.0.1:5000", latency_s=0.03, bytes_per_second=200e6) as proxy:
        proxy.set_faults(Fault(kind="status", status=503, retry_after=1, method="GET", nth=(1, 2)))
        ...                                    # the client talks to proxy.url
        assert proxy.count("GET") == 3

A connection pays one round trip when it is made, a request `latency_s` on its way and its answer as
much; all bodies together share `bytes_per_second`, each way. `ProxyProcess` (proxy_process.py) is
the same in a process of its own.

Thread-safe: a thread of its own for every connection; `set_faults` and `reset` at any time.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator

from fault_rules import Fault, FaultRules
from http_wire import Head, Wire
from proxy_exchange import Exchange, HangUpError, Link, Upstream, Way
from proxy_record import Record, Seen


class FaultProxy(Record):
    def __init__(
        self,
        upstream: str,
        *,
        latency_s: float = 0.0,
        bytes_per_second: float | None = None,
        faults: Iterable[Fault] = (),
    ):
        host, _, port = upstream.removeprefix("http://").rstrip("/").partition(":")
        self._upstream, self._lock = (host, int(port)), threading.Lock()
        up, down = Link(bytes_per_second), Link(bytes_per_second)
        self._way = Way(latency_s, up, down, threading.Event())
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._rules = FaultRules(list(faults))
        self.reset()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = f"http://{self.address}"
        self._start(self._accept)

    def __enter__(self) -> "FaultProxy":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends every connection, stalled ones too, and waits for their threads."""
        self._way.closing.set()
        self.set_faults()
        with self._lock:
            sockets = [self._listener, *self._sockets]
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)
        self._listener.close()

    # What tests ask.

    def set_faults(self, *faults: Fault) -> None:
        """These rules and no others from now on; their counts begin at 0."""
        with self._lock:
            self._rules.are_over.set()
            self._rules = FaultRules(list(faults))

    def reset(self) -> None:
        """Forgets the requests seen so far."""
        with self._lock:
            self.seen: list[Seen] = []
            self.most_under_way = self.connections = 0

    def wait_until_idle(self, seconds: float = 60) -> None:
        """Until no request is under way: what a client sent before it was killed arrives late."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self._lock:
                if self._under_way == 0:
                    return
            time.sleep(0.01)
        raise TimeoutError(f"{self._under_way} requests are under way after {seconds} s")

    # What the threads do.

    def _start(self, work, *arguments) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def _accept(self) -> None:
        while not self._way.closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    @contextlib.contextmanager
    def _kept(self, connection: socket.socket) -> Iterator[Wire]:
        with self._lock:
            self._sockets.add(connection)
        try:
            yield Wire(connection)
        finally:
            with self._lock:
                self._sockets.discard(connection)
            connection.close()

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            number = self.connections
        upstream = Upstream(self._upstream)
        with self._kept(client) as wire, contextlib.closing(upstream):
            time.sleep(2 * self._way.latency_s)
            try:
                while (head := wire.read_head()) and not self._way.closing.is_set():
                    if not self._exchange(wire, upstream, head, number):
                        return
            except HangUpError as end:
                if end.reset:
                    linger = struct.pack("ii", 1, 0)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            except OSError:
                pass  # the client or the server has gone: the client sees its connection end

    def _exchange(self, wire: Wire, upstream: Upstream, head: Head, connection: int) -> bool:
        method, path, _ = head.first_line.split(" ", 2)
        seen = Seen(method, path, list(head.headers), time.monotonic(), connection)
        with self._lock:
            self.seen.append(seen)
            self._under_way += 1
            self.most_under_way = max(self.most_under_way, self._under_way)
            rules = self._rules
            fault = rules.choose(method, path)
        seen.fault = fault.kind if fault else ""
        try:
            if fault and fault.kind == "meet":
                self._meet(fault, rules.have_met)
            return Exchange(self._way, wire, upstream, head, seen, fault, rules.are_over).run()
        finally:
            seen.seconds = time.monotonic() - seen.began
            with self._lock:
                self._under_way -= 1

    def _meet(self, fault: Fault, have_met: threading.Event) -> None:
        if self.most_under_way >= fault.meeting or not have_met.wait(60):
            have_met.set()
