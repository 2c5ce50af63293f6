"""Messages of HTTP/1.1 on a blocking socket, as the proxy and the servers of the tests read them.

Not thread-safe: a connection belongs to one thread.
"""

import socket
from collections.abc import Iterator

PIECE_BYTES = 1 << 18
LARGEST_HEAD = 1 << 16
# Reasons are for people; the clients under test read the number.
REASONS = {
    200: "OK", 206: "Partial Content", 302: "Found", 400: "Bad Request", 403: "Forbidden",
    404: "Not Found", 412: "Precondition Failed", 416: "Range Not Satisfiable",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


class Head:
    """The first line and the headers of a message; names compare without case."""

    def __init__(self, first_line: str, headers: list[tuple[str, str]]):
        self.first_line, self.headers = first_line, headers

    @classmethod
    def parse(cls, text: bytes) -> "Head":
        first, *lines = text.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return cls(first, [(name, value.strip()) for name, _, value in pairs])

    def get(self, name: str, default: str = "") -> str:
        name = name.lower()
        return next((value for key, value in self.headers if key.lower() == name), default)

    def remove(self, name: str) -> None:
        self.headers = [pair for pair in self.headers if pair[0].lower() != name.lower()]

    def replace(self, name: str, value: str) -> None:
        self.remove(name)
        self.headers.append((name, value))

    def encode(self) -> bytes:
        lines = [self.first_line, *(f"{name}: {value}" for name, value in self.headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    @property
    def is_chunked(self) -> bool:
        return self.get("Transfer-Encoding").lower() == "chunked"

    @property
    def status(self) -> int:
        return int(self.first_line.split(" ", 2)[1])

    def body_bytes(self) -> int | None:
        """What Content-Length says; None where the message does not say it."""
        text = self.get("Content-Length")
        return int(text) if text else None


class Wire:
    """One connection: reads heads and bodies through one buffer that is used again and again."""

    def __init__(self, connection: socket.socket):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self._view = memoryview(bytearray(PIECE_BYTES))
        self._begin = self._end = 0

    def _fill(self) -> bool:
        self._begin, self._end = 0, self.socket.recv_into(self._view)
        return self._end > 0

    def read_until(self, mark: bytes) -> bytes:
        """Bytes up to and with `mark`; fewer where the peer closed before it."""
        text = b""
        while self._begin < self._end or self._fill():
            old = len(text)
            text += bytes(self._view[self._begin : self._end])
            at = text.find(mark, max(0, old - len(mark)))
            if at >= 0:
                self._begin += at + len(mark) - old
                return text[: at + len(mark)]
            self._begin = self._end
            if len(text) > LARGEST_HEAD:
                raise ConnectionError(f"no {mark!r} in the first {LARGEST_HEAD} bytes")
        return text

    def read_head(self) -> Head | None:
        """The next message; None where the peer has closed."""
        text = self.read_until(b"\r\n\r\n")
        return Head.parse(text) if text.endswith(b"\r\n\r\n") else None

    def body(self, length: int | None) -> Iterator[memoryview]:
        """Pieces of the next `length` bytes (None: up to the end), each valid until the next."""
        while length is None or length > 0:
            if self._begin == self._end and not self._fill():
                if length is None:
                    return
                raise ConnectionError(f"the peer closed with {length} bytes of a body to come")
            end = self._end if length is None else min(self._end, self._begin + length)
            piece, self._begin = self._view[self._begin : end], end
            if length is not None:
                length -= len(piece)
            yield piece

    def chunked_body(self) -> Iterator[memoryview]:
        while size := int(self.read_until(b"\r\n").split(b";")[0], 16):
            yield from self.body(size)
            self.read_until(b"\r\n")
        while self.read_until(b"\r\n") not in (b"\r\n", b""):
            pass  # trailers

    def message_body(self, head: Head, *, is_response: bool) -> Iterator[memoryview]:
        """What follows `head`; without a length a request has none, a response ends by closing."""
        if head.is_chunked:
            return self.chunked_body()
        length = head.body_bytes()
        return self.body(0 if length is None and not is_response else length)
