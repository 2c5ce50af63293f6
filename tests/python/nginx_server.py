"""nginx over a folder as a web server and as an S3 to read from, for rates; a program of its own.

    with nginx_server(folder) as server:          # folder/bucket/key
        os.environ.update(server.environment)     # s3://bucket/key, or f"{server.url}/bucket/key"

GET and HEAD of objects are nginx's own, as fast as this machine; listings (ListObjectsV2) are made
here, behind it. Signatures are not looked at, and nothing can be written.
"""

import contextlib
import email.utils
import http.server
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from xml.sax.saxutils import escape

from bucket_servers import BucketServer, child_server, s3_environment
from loopback_server import QuietServer, free_port

START_S = 10
CONFIGURATION = """
daemon off;
{user}
pid {scratch}/pid;
worker_processes 1;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  sendfile on;
  tcp_nodelay on;
  keepalive_requests 100000000;
  types {{ }}
  default_type application/octet-stream;
  client_body_temp_path {scratch}/body;
  proxy_temp_path {scratch}/proxy;
  fastcgi_temp_path {scratch}/fastcgi;
  uwsgi_temp_path {scratch}/uwsgi;
  scgi_temp_path {scratch}/scgi;
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    root {folder};
    location / {{
      if ($args ~ "list-type=2") {{ proxy_pass http://127.0.0.1:{listing}; }}
      try_files $uri =404;
    }}
  }}
}}
"""


class NginxIsMissingError(RuntimeError):
    """This machine has no nginx."""


@contextlib.contextmanager
def nginx_server(folder: pathlib.Path | str) -> Iterator[BucketServer]:
    if not find_nginx():
        raise NginxIsMissingError("nginx is not installed; as root: apt-get install nginx-light")
    with child_server([sys.executable, __file__, str(folder)]) as address:
        yield BucketServer(address, s3_environment(f"http://{address}"))


def find_nginx() -> str | None:
    return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def list_objects(folder: pathlib.Path, bucket: str, query: dict[str, str]) -> bytes:
    """The answer of ListObjectsV2 over the files below folder/bucket."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    limit = int(query.get("max-keys", 1000))
    after = query.get("continuation-token") or query.get("start-after", "")
    entries: dict[str, os.stat_result | None] = {}
    for path in (folder / bucket).rglob("*"):
        key = path.relative_to(folder / bucket).as_posix()
        if path.is_file() and key.startswith(prefix):
            head, found, _ = key[len(prefix) :].partition(delimiter or "\0")
            entries[prefix + head + delimiter if found else key] = None if found else path.stat()
    names = [name for name in sorted(entries) if name > after]
    is_cut = len(names) > limit
    listed = "".join(describe(name, entries[name]) for name in names[:limit])
    token = escape(names[limit - 1]) if is_cut else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><MaxKeys>{limit}</MaxKeys>"
        f"<KeyCount>{min(len(names), limit)}</KeyCount>"
        f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>"
        f"<NextContinuationToken>{token}</NextContinuationToken>{listed}"
        "</ListBucketResult>"
    ).encode()


def describe(name: str, facts: os.stat_result | None) -> str:
    if facts is None:
        return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
    changed = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(facts.st_mtime))
    etag = f"&quot;{int(facts.st_mtime):x}-{facts.st_size:x}&quot;"  # as nginx makes it
    return (
        f"<Contents><Key>{escape(name)}</Key><LastModified>{changed}</LastModified>"
        f"<ETag>{etag}</ETag><Size>{facts.st_size}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


class _Listing(http.server.BaseHTTPRequestHandler):
    disable_nagle_algorithm = True

    def log_message(self, *_) -> None:
        pass

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        bucket, query = url.path.strip("/"), dict(urllib.parse.parse_qsl(url.query))
        is_there = (self.server.folder / bucket).is_dir()
        code = b"<?xml version='1.0'?><Error><Code>NoSuchBucket</Code></Error>"
        body = list_objects(self.server.folder, bucket, query) if is_there else code
        self.send_response(200 if is_there else 404)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Date", email.utils.formatdate(usegmt=True))
        self.end_headers()
        self.wfile.write(body)


def wait_for(port: int, child: subprocess.Popen) -> None:
    deadline = time.monotonic() + START_S
    while child.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise RuntimeError(f"nginx does not answer on port {port}; what it said is above")


def main() -> None:
    folder = pathlib.Path(sys.argv[1]).resolve()
    listing = QuietServer(("127.0.0.1", 0), _Listing)
    listing.folder = folder
    threading.Thread(target=listing.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as scratch:
        port = free_port()
        configuration = CONFIGURATION.format(
            user="user root;" if os.geteuid() == 0 else "", scratch=scratch, port=port,
            folder=folder, listing=listing.server_port,
        )  # fmt: skip
        path = pathlib.Path(scratch) / "nginx.conf"
        path.write_text(configuration)
        child = subprocess.Popen([find_nginx(), "-c", str(path), "-e", f"{scratch}/errors"])
        try:
            wait_for(port, child)
            print(f"127.0.0.1:{port}", flush=True)
            sys.stdin.read()
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait()


if __name__ == "__main__":
    main()
