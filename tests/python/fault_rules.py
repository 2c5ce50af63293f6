"""Which requests the fault proxy spoils, and how: rules that are plain data."""

import dataclasses
import random
import re
import threading

from http_wire import Head

KINDS = {
    "reset": "the connection is reset in place of an answer; the server never sees the request",
    "lost_answer": "the server does what it is asked, then the connection is reset",
    "reset_in_body": "reset after `after_bytes` of the body",
    "status": "an answer of `status` in the provider's own form; with `retry_after` in its header",
    "truncate": "the right Content-Length, a body of `after_bytes`, then the end of the connection",
    "stall": "nothing more after `after_bytes` of the body, until the client gives up",
    "trickle": "the body at `bytes_per_second`",
    "delay": "the answer `seconds` late",
    "hold": "the server does what it is asked; the answer waits for other rules, then a reset",
    "meet": "a request goes on once `meeting` requests are under way, or one has waited a minute",
    "other_range": "206 that says a range `shift` bytes off, and has the bytes of another place",
    "shifted_bytes": "206 that says the range asked for, and has the bytes of another place",
    "short_range": "206 that says and has `after_bytes` only of the range asked for",
    "whole_body": "200 with all of the object where a range was asked for",
    "other_etag": "another ETag; a request that asks for the old one by If-Match gets 412",
    "html": "200 with a page of HTML in place of the object",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """One rule. It counts the requests that `method` and `path` match, and spoils some of them.

    `nth`: which of them (from 1; empty: all); `share`: a part of them, drawn by `seed`.
    `after_bytes`: None is half of the body.
    """

    kind: str
    method: str = ""
    path: str = ""  # a regular expression, searched in the path with its query
    nth: tuple[int, ...] = ()
    share: float = 1.0
    seed: int = 0
    after_bytes: int | None = None
    status: int = 500
    retry_after: float | None = None
    bytes_per_second: float = 1000.0
    seconds: float = 1.0
    meeting: int = 1
    shift: int = 1

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"no fault {self.kind!r}; there are {', '.join(KINDS)}")

    def stop_at(self, body_bytes: int | None) -> int:
        return (body_bytes or 0) // 2 if self.after_bytes is None else self.after_bytes


class FaultRules:
    """The rules of a proxy and how often each has matched. Not thread-safe: the proxy locks."""

    def __init__(self, faults: list[Fault]):
        self._matched = [[fault, 0] for fault in faults]
        self.are_over, self.have_met = threading.Event(), threading.Event()

    def choose(self, method: str, path: str) -> Fault | None:
        """The first rule that spoils this request; every rule that matches counts it."""
        chosen = None
        for entry in self._matched:
            fault, count = entry
            if fault.method not in ("", method) or not re.search(fault.path, path):
                continue
            entry[1] = count + 1
            drawn = random.Random(f"{fault.seed}:{count}").random() < fault.share
            if chosen is None and drawn and (not fault.nth or count + 1 in fault.nth):
                chosen = fault
        return chosen


# What each provider calls an error: (S3, Azure).
CODES = {
    400: ("ExpiredToken", "InvalidInput"),
    403: ("AccessDenied", "AuthenticationFailed"),
    404: ("NoSuchKey", "BlobNotFound"),
    412: ("PreconditionFailed", "ConditionNotMet"),
    429: ("TooManyRequests", "ServerBusy"),
    500: ("InternalError", "InternalError"),
    503: ("SlowDown", "ServerBusy"),
}


def error_answer(request: Head, status: int) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of an error as the provider would say it that `request` is meant for."""
    s3, azure = CODES.get(status, ("InternalError", "InternalError"))
    if request.get("x-ms-version"):
        body = f"<?xml version='1.0'?><Error><Code>{azure}</Code><Message>made</Message></Error>"
        return [("x-ms-error-code", azure), ("Content-Type", "application/xml")], body.encode()
    if "/storage/v1/" in request.first_line or "gcloud-cpp" in request.get("x-goog-api-client"):
        body = f'{{"error": {{"code": {status}, "message": "made by the proxy"}}}}'
        return [("Content-Type", "application/json")], body.encode()
    if request.get("x-amz-date") or request.get("x-amz-user-agent"):
        body = f"<?xml version='1.0'?><Error><Code>{s3}</Code><Message>made</Message></Error>"
        return [("Content-Type", "application/xml")], body.encode()
    return [("Content-Type", "text/plain")], b"made by the proxy\n"
