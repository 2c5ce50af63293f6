"""Buckets on loopback, and clients of them that are not ours: pyarrow's, and for Google urllib.

with loopback_store("gs", server, monkeypatch) as store:
    store.put("x/a.h5ad", path)
    cellfeed.open(store.url("x/a.h5ad"))
"""

import contextlib
import dataclasses
import itertools
import json
import pathlib
import urllib.parse
import urllib.request

import pyarrow.fs
import pytest
from azure_server import KEY
from bucket_servers import (
    azure_environment,
    azure_options,
    gcs_environment,
    s3_environment,
)
from fault_proxy import FaultProxy

ENVIRONMENTS = {"s3": s3_environment, "gs": gcs_environment, "az": azure_environment}
NUMBERS = itertools.count(1)


class ArrowClient:
    def __init__(self, files: pyarrow.fs.FileSystem, bucket: str):
        self._files, self._bucket = files, bucket
        files.create_dir(bucket)

    def put(self, key: str, content: bytes) -> None:
        with self._files.open_output_stream(f"{self._bucket}/{key}") as stream:
            stream.write(content)

    def get(self, key: str) -> bytes:
        with self._files.open_input_stream(f"{self._bucket}/{key}") as stream:
            return stream.read()

    def names(self) -> list[str]:
        selected = pyarrow.fs.FileSelector(self._bucket, recursive=True)
        every = [each for each in self._files.get_file_info(selected) if each.is_file]
        return sorted(each.path.removeprefix(f"{self._bucket}/") for each in every)

    def remove(self, key: str) -> None:
        self._files.delete_file(f"{self._bucket}/{key}")


class GoogleClient:
    """The JSON API by hand: pyarrow's client of it holds the GIL."""

    def __init__(self, url: str, bucket: str):
        self._url, self._bucket = url, bucket
        self._ask("POST", "/storage/v1/b", json.dumps({"name": bucket}).encode())

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        kind = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(self._url + path, body, kind, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def _object(self, key: str) -> str:
        return f"/storage/v1/b/{self._bucket}/o/{urllib.parse.quote(key, safe='')}"

    def put(self, key: str, content: bytes) -> None:
        query = urllib.parse.urlencode({"uploadType": "media", "name": key})
        self._ask("POST", f"/upload/storage/v1/b/{self._bucket}/o?{query}", content)

    def get(self, key: str) -> bytes:
        return self._ask("GET", self._object(key) + "?alt=media")

    def names(self) -> list[str]:
        listed = json.loads(self._ask("GET", f"/storage/v1/b/{self._bucket}/o"))
        return sorted(each["name"] for each in listed.get("items", []))

    def remove(self, key: str) -> None:
        self._ask("DELETE", self._object(key))


@dataclasses.dataclass
class LoopbackStore:
    scheme: str
    bucket: str
    client: ArrowClient | GoogleClient
    """Goes past the proxy."""
    proxy: FaultProxy
    """What cellfeed finds by the environment."""
    secret: str

    def url(self, key: str) -> str:
        return f"{self.scheme}://{self.bucket}/{key}"

    def put(self, key: str, source: pathlib.Path) -> None:
        self.client.put(key, source.read_bytes())

    def get(self, key: str) -> bytes:
        return self.client.get(key)

    def names(self) -> list[str]:
        return self.client.names()

    def remove(self, key: str) -> None:
        self.client.remove(key)


def client_of(scheme: str, server, bucket: str) -> ArrowClient | GoogleClient:
    """REQUIRES: the environment is that of the server."""
    if scheme == "gs":
        return GoogleClient(server.url, bucket)
    if scheme == "az":
        return ArrowClient(pyarrow.fs.AzureFileSystem(**azure_options(server.address)), bucket)
    files, _ = pyarrow.fs.FileSystem.from_uri("s3://bucket?allow_bucket_creation=true")
    return ArrowClient(files, bucket)


@contextlib.contextmanager
def loopback_store(scheme: str, server, monkeypatch):
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = f"cells{next(NUMBERS)}"
    client = client_of(scheme, server, bucket)
    with FaultProxy(server.address) as proxy:
        for name, value in ENVIRONMENTS[scheme](proxy.url).items():
            monkeypatch.setenv(name, value)
        # More than a loaded machine stalls; what lasts for good asks for less.
        monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "60")
        secret = {"s3": server.environment.get("AWS_SECRET_ACCESS_KEY"), "az": KEY}.get(scheme)
        yield LoopbackStore(scheme, bucket, client, proxy, secret or "no secret there")


# Of each scheme, the fixture of its server.
SERVERS = {"s3": "s3", "gs": "gcs", "az": "azure"}


def requested_store(request, monkeypatch):
    """The store of the scheme that is a fixture's parameter."""
    if request.param == "s3":
        pytest.importorskip("boto3")
    server = request.getfixturevalue(SERVERS[request.param])
    return loopback_store(request.param, server, monkeypatch)
