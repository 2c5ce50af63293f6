"""What a fault proxy has seen, and what tests ask of it."""

import collections
import dataclasses
import re


@dataclasses.dataclass
class Seen:
    """A request that came to the proxy and what became of it; `status` 0: no answer was sent."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    began: float
    connection: int
    status: int = 0
    body_bytes: int = 0
    fault: str = ""
    seconds: float = 0.0
    is_held: bool = False


class Record:
    """Questions about `seen`, which a proxy in this process or in another one fills."""

    seen: list[Seen]
    most_under_way: int
    """The most requests that had no complete answer yet at one moment."""
    connections: int

    def count(self, method: str = "", path: str = "") -> int:
        """Requests of this method whose path with query has a match of the pattern `path`."""
        return sum(
            1 for each in list(self.seen)
            if method in ("", each.method) and re.search(path, each.path)
        )  # fmt: skip

    def counts(self) -> dict[str, int]:
        """How many requests of each method and path (without its query)."""
        keys = (f"{each.method} {each.path.partition('?')[0]}" for each in list(self.seen))
        return dict(collections.Counter(keys))

    def is_holding(self) -> bool:
        """Whether a server has done what it was asked, and its answer is held back."""
        return any(each.is_held for each in list(self.seen))

    @property
    def bytes_sent(self) -> int:
        return sum(each.body_bytes for each in list(self.seen))

    def said(self) -> str:
        """Every path and header that the client sent, to search for what must not be there."""
        return "\n".join(f"{each.method} {each.path} {each.headers}" for each in list(self.seen))

    def report(self) -> dict:
        """All of it as plain data."""
        return {
            "requests": len(self.seen), "counts": self.counts(), "bytes_sent": self.bytes_sent,
            "most_under_way": self.most_under_way, "connections": self.connections,
        }  # fmt: skip
