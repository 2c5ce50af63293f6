"""The calls of Azure Blob Storage that clients of a flat namespace make, kept in memory.

    with AzureServer() as server:
        uri = f"abfs://{ACCOUNT}@{server.address}/container/key?enable_tls=false"

Containers, blobs (whole, or of blocks that a list commits), ranges, listing by page and delimiter,
metadata, leases in name only, If-Match and If-None-Match. Signatures by the account's key are
checked; tokens and shared access signatures are not.
Thread-safe: a thread for every connection, one lock over what is stored.
"""

import base64
import dataclasses
import email.utils
import hashlib
import hmac
import itertools
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ET
from xml.sax.saxutils import escape

from file_server import asked_range
from loopback_server import LoopbackServer, QuietHandler

ACCOUNT = "loopbackaccount"
# The form of a key, and what a test searches for where no key may be.
KEY = base64.b64encode(b"loopback azure secret".ljust(64, b"!")).decode()

# What clients insist on in the answers about a container and about a blob.
CONTAINER_FACTS = {
    "x-ms-lease-status": "unlocked", "x-ms-lease-state": "available",
    "x-ms-has-immutability-policy": "false", "x-ms-has-legal-hold": "false",
    "x-ms-default-encryption-scope": "$account-encryption-key",
    "x-ms-deny-encryption-scope-override": "false",
    "x-ms-immutable-storage-with-versioning-enabled": "false",
}  # fmt: skip
BLOB_FACTS = {
    "x-ms-blob-type": "BlockBlob", "x-ms-lease-status": "unlocked", "x-ms-lease-state": "available",
    "x-ms-server-encrypted": "true", "x-ms-access-tier": "Hot",
    "x-ms-access-tier-inferred": "true", "Accept-Ranges": "bytes",
}  # fmt: skip
WRITTEN = {"x-ms-request-server-encrypted": "true"}
# What a signature is of besides x-ms-*, one a line.
SIGNED_BY_PLACE = (
    "content-encoding", "content-language", "content-length", "content-md5", "content-type", "date",
    "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range",
)  # fmt: skip


@dataclasses.dataclass
class Blob:
    content: bytes
    metadata: dict[str, str]
    content_type: str
    etag: str
    changed: float
    blocks: list[str] = dataclasses.field(default_factory=list)
    content_md5: str = ""
    copied_from: str = ""


class Answer(Exception):  # noqa: N818
    """An answer that ends the call; most are errors, by the names that Azure gives them."""

    def __init__(self, status: int, code: str = "", headers: dict | None = None, body: bytes = b""):
        super().__init__(code)
        self.status, self.headers, self.body = status, dict(headers or {}), body
        if code:
            self.headers |= {"x-ms-error-code": code, "Content-Type": "application/xml"}
            text = (
                f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
            )
            self.body = text.encode()


class _Handler(QuietHandler):
    def _call(self) -> None:
        self._body = self.read_body()
        url = urllib.parse.urlsplit(self.path)
        self._query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        _account, _, rest = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        self._container, _, self._name = rest.partition("/")
        try:
            self._check_signature(url.path)
            with self.server.owner.lock:
                self._route()
        except Answer as answer:
            self._send(answer)

    do_GET = do_HEAD = do_PUT = do_DELETE = _call

    def _check_signature(self, path: str) -> None:
        """As "Authorize with Shared Key" has it, from the request as it came."""
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        if kind != "SharedKey":
            return
        named = {name.lower(): value for name, value in self.headers.items()}
        if named.get("content-length") == "0":
            del named["content-length"]
        lines = [self.command, *(named.get(name, "") for name in SIGNED_BY_PLACE)]
        lines[6] = "" if "x-ms-date" in named else lines[6]
        lines += [f"{name}:{named[name]}" for name in sorted(named) if name.startswith("x-ms-")]
        lines += [f"/{ACCOUNT}{path}"]
        lines += [f"{name.lower()}:{value}" for name, value in sorted(self._query.items())]
        text = "\n".join(lines).encode()
        digest = hmac.digest(base64.b64decode(KEY), text, "sha256")
        if given != f"{ACCOUNT}:{base64.b64encode(digest).decode()}":
            raise Answer(403, "AuthenticationFailed")

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        headers = {"x-ms-request-id": "1", "x-ms-version": "2021-12-02", **answer.headers}
        if self.command == "HEAD" and "x-ms-error-code" in headers:
            del headers["Content-Type"]  # clients would parse the body that is not there
        if answer.status not in (204, 304):
            headers.setdefault("Content-Length", str(len(answer.body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _route(self) -> None:
        subject = "container" if not self._name else "blob"
        if self._query.get("action") == "getAccessControl":
            self._known()
            raise Answer(400, "HierarchicalNamespaceNotEnabled")
        if not self._container:
            raise Answer(200, headers={"Content-Type": "application/xml"}, body=self._containers())
        work = self._query.get("comp") or {"HEAD": "get"}.get(self.command, self.command.lower())
        work += "_ask" if self.command == "GET" and work == "blocklist" else ""
        method = getattr(self, f"_{subject}_{work}", None)
        if method is None:
            raise Answer(400, "UnsupportedQueryParameter")
        method()

    # Containers.

    def _known(self) -> dict[str, Blob]:
        if self._container not in self.server.owner.containers:
            raise Answer(404, "ContainerNotFound")
        return self.server.owner.containers[self._container]

    def _containers(self) -> bytes:
        each = "".join(
            f"<Container><Name>{escape(name)}</Name><Properties>{_times(time.time(), '0x1')}"
            "<LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState>"
            "</Properties></Container>"
            for name in sorted(self.server.owner.containers)
        )
        return _page(f"<Containers>{each}</Containers><NextMarker/>")

    def _container_put(self) -> None:
        if self._container in self.server.owner.containers:
            raise Answer(409, "ContainerAlreadyExists")
        self.server.owner.containers[self._container] = {}
        raise Answer(201, headers=_version('"0x1"', time.time()))

    def _container_get(self) -> None:
        self._known()
        raise Answer(200, headers=CONTAINER_FACTS | _version('"0x1"', time.time()))

    def _container_delete(self) -> None:
        self._known()
        del self.server.owner.containers[self._container]
        raise Answer(202)

    def _container_list(self) -> None:
        prefix, delimiter = self._query.get("prefix", ""), self._query.get("delimiter", "")
        limit, marker = int(self._query.get("maxresults", 5000)), self._query.get("marker", "")
        entries: dict[str, Blob | None] = {}
        for name, blob in sorted(self._known().items()):
            if name.startswith(prefix):
                head, found, _ = name[len(prefix) :].partition(delimiter or "\0")
                entries |= {prefix + head + delimiter: None} if found else {name: blob}
        left = [each for each in sorted(entries) if each >= marker]
        body = "".join(_listed(name, entries[name]) for name in left[:limit])
        following = escape(left[limit]) if len(left) > limit else ""
        page = _page(f"<Blobs>{body}</Blobs><NextMarker>{following}</NextMarker>")
        raise Answer(200, headers={"Content-Type": "application/xml"}, body=page)

    # Blobs.

    def _found(self) -> Blob:
        blob = self._known().get(self._name)
        if blob is None:
            raise Answer(404, "BlobNotFound")
        return blob

    def _check_conditions(self) -> None:
        old = self._known().get(self._name)
        etag = old.etag if old else None
        if "If-Match" in self.headers and self.headers["If-Match"] not in (
            etag,
            "*" if old else "",
        ):
            raise Answer(412, "ConditionNotMet")
        unwanted = self.headers.get("If-None-Match")
        if old and unwanted in (etag, "*"):
            raise Answer(*((409, "BlobAlreadyExists") if self.command == "PUT" else (304, "")))

    def _store(self, content: bytes, blocks: list[str] = (), copied_from: str = "") -> None:
        self._check_conditions()
        kind = self.headers.get("x-ms-blob-content-type", "application/octet-stream")
        blob = self.server.owner.make_blob(content, self._metadata(), kind)
        blob.blocks, blob.copied_from = list(blocks), copied_from
        self._known()[self._name] = blob
        status, headers = (202, _copy(blob)) if copied_from else (201, WRITTEN)
        raise Answer(status, headers=headers | _version(blob.etag, blob.changed))

    def _metadata(self) -> dict[str, str]:
        pairs = self.headers.items()
        return {key[10:]: text for key, text in pairs if key.lower().startswith("x-ms-meta-")}

    def _blob_put(self) -> None:
        source = self.headers.get("x-ms-copy-source")
        if source:
            path = urllib.parse.unquote(urllib.parse.urlsplit(source).path).lstrip("/")
            _, container, name = path.split("/", 2)
            copied = self.server.owner.containers.get(container, {}).get(name)
            if copied is None:
                raise Answer(404, "CannotVerifyCopySource")
            self._store(copied.content, copied_from=source)
        self._store(self._body)

    def _blob_block(self) -> None:
        self._known()
        staged = self.server.owner.staged.setdefault((self._container, self._name), {})
        staged[self._query["blockid"]] = self._body
        raise Answer(201, headers=WRITTEN)

    def _blob_blocklist(self) -> None:
        names = [each.text for each in ET.fromstring(self._body)]
        staged = self.server.owner.staged.get((self._container, self._name), {})
        if any(name not in staged for name in names):
            raise Answer(400, "InvalidBlockList")
        self._store(b"".join(staged[name] for name in names), names)

    def _blob_blocklist_ask(self) -> None:
        staged = self.server.owner.staged.get((self._container, self._name), {})
        listed = "".join(
            f"<Block><Name>{name}</Name><Size>{len(staged[name])}</Size></Block>"
            for name in self._found().blocks
        )
        text = f"<BlockList><CommittedBlocks>{listed}</CommittedBlocks></BlockList>"
        blob = self._found()
        headers = {"Content-Type": "application/xml"} | _version(blob.etag, blob.changed)
        headers["x-ms-blob-content-length"] = str(len(blob.content))
        raise Answer(200, headers=headers, body=text.encode())

    def _blob_get(self) -> None:
        blob = self._found()
        self._check_conditions()
        size = len(blob.content)
        asked = self.headers.get("x-ms-range") or self.headers.get("Range") or ""
        wanted = asked_range(asked, size)
        if wanted and wanted[0] >= min(size, wanted[1]):
            raise Answer(416, "InvalidRange", {"Content-Range": f"bytes */{size}"})
        begin, end = wanted or (0, size)
        headers = BLOB_FACTS | _version(blob.etag, blob.changed)
        headers["x-ms-creation-time"] = email.utils.formatdate(blob.changed, usegmt=True)
        headers |= _copy(blob) if blob.copied_from else {}
        headers["Content-Type"] = blob.content_type
        headers |= {f"x-ms-meta-{key}": value for key, value in blob.metadata.items()}
        headers["Content-Length"] = str(end - begin)
        headers["x-ms-blob-content-md5" if wanted else "Content-MD5"] = blob.content_md5
        if wanted:
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        raise Answer(206 if wanted else 200, headers=headers, body=blob.content[begin:end])

    def _blob_delete(self) -> None:
        self._found()
        self._check_conditions()
        del self._known()[self._name]
        raise Answer(202, headers={"x-ms-delete-type-permanent": "true"})

    def _blob_metadata(self) -> None:
        blob = self._found()
        blob.metadata = self._metadata()
        raise Answer(200, headers=WRITTEN | _version(blob.etag, blob.changed))

    def _blob_lease(self) -> None:
        blob = self._found()
        name = (
            self.headers.get("x-ms-proposed-lease-id") or self.headers.get("x-ms-lease-id") or "1"
        )
        status = 201 if self.headers.get("x-ms-lease-action") == "acquire" else 200
        raise Answer(status, headers={"x-ms-lease-id": name} | _version(blob.etag, blob.changed))


def _version(etag: str, changed: float) -> dict[str, str]:
    return {"ETag": etag, "Last-Modified": email.utils.formatdate(changed, usegmt=True)}


def _copy(blob: Blob) -> dict[str, str]:
    size = len(blob.content)
    return {
        "x-ms-copy-id": "1", "x-ms-copy-status": "success", "x-ms-copy-source": blob.copied_from,
        "x-ms-copy-progress": f"{size}/{size}",
        "x-ms-copy-completion-time": email.utils.formatdate(blob.changed, usegmt=True),
    }  # fmt: skip


def _times(changed: float, etag: str) -> str:
    when = email.utils.formatdate(changed, usegmt=True)
    etag = etag.strip('"')
    times = f"<Creation-Time>{when}</Creation-Time><Last-Modified>{when}</Last-Modified>"
    return f"{times}<Etag>{etag}</Etag>"


def _page(text: str) -> bytes:
    begin = '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://loopback/">'
    return f"{begin}{text}</EnumerationResults>".encode()


def _listed(name: str, blob: Blob | None) -> str:
    if blob is None:
        return f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>"
    pairs = blob.metadata.items()
    metadata = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in pairs)
    return (
        f"<Blob><Name>{escape(name)}</Name><Properties>{_times(blob.changed, blob.etag)}"
        f"<Content-Length>{len(blob.content)}</Content-Length>"
        f"<Content-Type>{escape(blob.content_type)}</Content-Type><BlobType>BlockBlob</BlobType>"
        "<AccessTier>Hot</AccessTier><AccessTierInferred>true</AccessTierInferred>"
        "<LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState>"
        f"<ServerEncrypted>true</ServerEncrypted></Properties><Metadata>{metadata}</Metadata></Blob>"
    )


class AzureServer(LoopbackServer):
    handler = _Handler

    def __init__(self):
        self.containers: dict[str, dict[str, Blob]] = {}
        self.staged: dict[tuple[str, str], dict[str, bytes]] = {}
        """Blocks that no list has committed, by container and blob."""
        self.lock, self.numbers = threading.RLock(), itertools.count(1)
        super().__init__()

    def make_blob(self, content: bytes, metadata: dict[str, str], content_type: str) -> Blob:
        etag = f'"0x{next(self.numbers):016X}"'
        md5 = base64.b64encode(hashlib.md5(content).digest()).decode()
        return Blob(content, metadata, content_type, etag, time.time(), content_md5=md5)


def main() -> None:
    with AzureServer() as server:
        print(server.address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
