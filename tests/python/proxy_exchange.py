"""One request and its answer on their way through the fault proxy, spoiled as a rule says.

Not thread-safe: an exchange belongs to the thread of its connection.
"""

import dataclasses
import re
import select
import socket
import threading
import time
from collections.abc import Iterator

from fault_rules import Fault, error_answer
from http_wire import REASONS, Head, Wire
from proxy_record import Seen

# What a link may send at once after it was idle: a shorter one would count the sleeps' overshoot.
BURST_S = 0.002
PAGE = b"<!DOCTYPE html><html><body><h1>Sign in to this network</h1></body></html>"
TRICKLE_STEP_S = 0.02
CUT_SHORT = ("reset_in_body", "truncate", "stall")


class Link:
    """A clock that all bodies of one direction share, ahead by what is still on the way.

    Thread-safe.
    """

    def __init__(self, bytes_per_second: float | None):
        self._rate, self._free_at, self._lock = bytes_per_second, 0.0, threading.Lock()

    def carry(self, size: int) -> None:
        if self._rate is None:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - BURST_S) + size / self._rate
            wait = self._free_at - now
        if wait > 0:
            time.sleep(wait)


@dataclasses.dataclass
class Way:
    """What all exchanges of a proxy go by."""

    latency_s: float
    up: Link
    down: Link
    closing: threading.Event


class HangUpError(Exception):
    """The connection ends here, by FIN or, where `reset`, by RST."""

    def __init__(self, *, reset: bool):
        super().__init__()
        self.reset = reset


class Upstream:
    """The connection to the server behind, made when first asked for and made anew when stale."""

    def __init__(self, address: tuple[str, int]):
        self._address, self._wire = address, None

    def wire(self) -> Wire:
        if self._wire and select.select([self._wire.socket], [], [], 0)[0]:
            self.close()
        if self._wire is None:
            self._wire = Wire(socket.create_connection(self._address))
        return self._wire

    def close(self) -> None:
        if self._wire:
            self._wire.socket.close()
        self._wire = None


class Exchange:
    def __init__(
        self,
        way: Way,
        client: Wire,
        upstream: Upstream,
        request: Head,
        seen: Seen,
        fault: Fault | None,
        are_over: threading.Event,
    ):
        self._way, self._client, self._upstream = way, client, upstream
        self._request, self._seen, self._fault = request, seen, fault
        self._kind = fault.kind if fault else ""
        self._are_over = are_over  # the rules that the fault is of

    def run(self) -> bool:
        """Whether the connection is of use for another request."""
        time.sleep(self._way.latency_s)
        if self._kind == "reset":
            raise HangUpError(reset=True)
        if self._kind == "delay":
            self._way.closing.wait(self._fault.seconds)
        if self._request.get("Expect"):
            self._request.remove("Expect")
            self._client.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._kind == "status":
            return self._answer_itself(
                self._fault.status, *error_answer(self._request, self._fault.status)
            )
        if self._kind == "html":
            return self._answer_itself(200, [("Content-Type", "text/html")], PAGE)
        if self._kind == "other_etag" and self._request.get("If-Match"):
            return self._answer_itself(412, *error_answer(self._request, 412))
        if self._kind == "whole_body":
            self._request.remove("Range")
            self._request.remove("x-ms-range")
        return self._pass_on()

    def _answer_itself(self, status: int, headers: list[tuple[str, str]], body: bytes) -> bool:
        for piece in self._client.message_body(self._request, is_response=False):
            self._way.up.carry(len(piece))
        headers = [*headers, ("Content-Length", str(len(body)))]
        if self._seen.method == "HEAD":  # no client is to parse a body that is not there
            headers, body = [pair for pair in headers if pair[0] != "Content-Type"], b""
        if self._fault.retry_after is not None:
            headers.append(("Retry-After", f"{self._fault.retry_after:g}"))
        head = Head(f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}", headers)
        self._seen.status, self._seen.body_bytes = status, len(body)
        self._client.socket.sendall(head.encode() + body)
        return True

    def _pass_on(self) -> bool:
        try:
            wire, answer = self._ask()
        except OSError as error:
            self._upstream.close()
            raise ConnectionError(f"the server behind the proxy: {error}") from error
        if self._kind == "hold":
            self._seen.is_held = True
            self._are_over.wait()
        if self._kind in ("hold", "lost_answer"):
            self._upstream.close()
            raise HangUpError(reset=True)
        time.sleep(self._way.latency_s)
        has_body = self._seen.method != "HEAD" and answer.status not in (204, 304)
        ends_by_close = has_body and answer.body_bytes() is None and not answer.is_chunked
        stays = not ends_by_close and self._request.get("Connection").lower() != "close"
        behind_stays = not ends_by_close and answer.get("Connection").lower() != "close"
        pieces = wire.message_body(answer, is_response=True) if has_body else iter(())
        pieces = self._spoil(answer, pieces)
        answer.first_line = answer.first_line.replace("HTTP/1.0", "HTTP/1.1", 1)
        answer.replace("Connection", "keep-alive" if stays else "close")
        self._seen.status = answer.status
        self._client.socket.sendall(answer.encode())
        self._send_body(pieces, answer)
        if not behind_stays:
            self._upstream.close()
        return stays

    def _ask(self) -> tuple[Wire, Head]:
        wire = self._upstream.wire()
        pieces = self._client.message_body(self._request, is_response=False)
        wire.socket.sendall(self._request.encode())
        for piece in pieces:
            self._way.up.carry(len(piece))
            wire.socket.sendall(_framed(piece, self._request))
        if self._request.is_chunked:
            wire.socket.sendall(b"0\r\n\r\n")
        while answer := wire.read_head():
            if answer.status >= 200:
                return wire, answer
        raise ConnectionError("closed without an answer")

    def _spoil(self, answer: Head, pieces: Iterator[memoryview]) -> Iterator[memoryview]:
        """The body to send in place of `pieces`; changes `answer` accordingly."""
        fault, kind = self._fault, self._kind
        if kind == "other_etag":
            answer.replace("ETag", '"another-object"')
        if self._seen.method == "HEAD" or answer.status != 206:
            return pieces
        first, last, size = _content_range(answer)
        if kind == "other_range":
            says = f"bytes {first + fault.shift}-{last + fault.shift}/{size}"
            answer.replace("Content-Range", says)
        if kind in ("other_range", "shifted_bytes"):
            body = b"".join(map(bytes, pieces))
            at = fault.shift % max(1, len(body))
            return iter([memoryview(body[at:] + body[:at])])
        if kind == "short_range":
            kept = b"".join(map(bytes, pieces))[: fault.stop_at(last + 1 - first)]
            answer.replace("Content-Range", f"bytes {first}-{first + len(kept) - 1}/{size}")
            answer.replace("Content-Length", str(len(kept)))
            return iter([memoryview(kept)])
        return pieces

    def _send_body(self, pieces: Iterator[memoryview], answer: Head) -> None:
        left = None
        if self._kind in CUT_SHORT and self._seen.method != "HEAD":
            left = self._fault.stop_at(answer.body_bytes())
        for piece in pieces:
            if left is not None and len(piece) >= left:
                self._send(piece[:left], answer)
                self._end_early()
            left = None if left is None else left - len(piece)
            if self._kind == "trickle":
                self._trickle(piece, answer)
            else:
                self._send(piece, answer)
        if answer.is_chunked:
            self._client.socket.sendall(b"0\r\n\r\n")

    def _send(self, piece: memoryview, answer: Head) -> None:
        self._way.down.carry(len(piece))
        self._seen.body_bytes += len(piece)  # before the client can know of them
        self._client.socket.sendall(_framed(piece, answer))

    def _trickle(self, piece: memoryview, answer: Head) -> None:
        step = max(1, int(self._fault.bytes_per_second * TRICKLE_STEP_S))
        for at in range(0, len(piece), step):
            if self._way.closing.wait(step / self._fault.bytes_per_second):
                raise HangUpError(reset=True)
            self._send(piece[at : at + step], answer)

    def _end_early(self) -> None:
        if self._kind == "stall":
            # The client's own end of the connection becomes readable when it gives up.
            while not self._way.closing.is_set():
                if select.select([self._client.socket], [], [], 0.1)[0]:
                    break
        self._upstream.close()
        raise HangUpError(reset=self._kind != "truncate")


def _framed(piece: memoryview, head: Head) -> memoryview | bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if head.is_chunked else piece


def _content_range(answer: Head) -> tuple[int, int, str]:
    match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", answer.get("Content-Range"))
    if match is None:
        raise ConnectionError(f"206 with the Content-Range {answer.get('Content-Range')!r}")
    return int(match[1]), int(match[2]), match[3]
