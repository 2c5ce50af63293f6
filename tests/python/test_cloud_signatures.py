"""Requests to S3 are signed as Amazon's own library signs them."""

import datetime

import anndata
import pytest
import scipy.sparse
from loopback_server import LoopbackServer, QuietHandler

import cellfeed as cf

auth = pytest.importorskip("botocore.auth")
awsrequest = pytest.importorskip("botocore.awsrequest")
credentials = pytest.importorskip("botocore.credentials")
KEY, SECRET, REGION = "AKIDEXAMPLE", "sEcret/key+x", "eu-west-1"


class _Handler(QuietHandler):
    """Computes each signature again, from the request as it came; an empty bucket otherwise."""

    def answer(self):
        body = self.read_body()
        said = self.headers["Authorization"].split(" ", 1)[1]
        parts = dict(part.strip().split("=", 1) for part in said.split(","))
        names = parts["SignedHeaders"].split(";")
        request = awsrequest.AWSRequest(
            self.command,
            f"http://{self.headers['Host']}{self.path}",
            data=body,
            headers={name: self.headers[name] for name in names},
        )
        request.context["timestamp"] = self.headers["x-amz-date"]
        signer = auth.S3SigV4Auth(credentials.Credentials(KEY, SECRET), "s3", REGION)
        text = signer.string_to_sign(request, signer.canonical_request(request))
        sent = datetime.datetime.strptime(self.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
        age = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) - sent
        good = signer.signature(text, request) == parts["Signature"] and abs(age.seconds) < 60
        good &= {name.lower() for name in self.headers if name.startswith("x-amz-")} <= set(names)
        has_token = "x-amz-security-token" in names
        self.server.owner.seen.append((self.command, self.path, good, has_token, len(body)))
        self.server.owner.headers |= set(names)
        listing = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        content = listing if "list-type" in self.path else b""
        status = 404 if self.command == "HEAD" else 200
        is_there = self.path == "/buck/there.h5ad"
        if is_there:
            content, status = b"12345", 200 if self.command == "HEAD" else 206
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if is_there:
            self.send_header("ETag", '"one"')
            self.send_header("Content-Range", "bytes 0-4/5")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_HEAD = do_DELETE = answer


class Checker(LoopbackServer):
    handler = _Handler

    def __init__(self):
        self.seen = []
        self.headers = set()
        super().__init__()


@pytest.mark.parametrize("token", ["", "some/token+=="])
def test_signatures(tmp_path, monkeypatch, token):
    server = Checker()
    environment = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": token,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": server.url,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    anndata.AnnData(scipy.sparse.eye(5, format="csr", dtype="f4")).write_h5ad(tmp_path / "a.h5ad")
    with server:
        for path in ("s3://buck/a b/c+d é~x&y=z.h5ad", "s3://buck/x*.h5ad"):
            with pytest.raises(cf.errors.NotFoundError):
                cf.open(path)
        with pytest.raises(cf.errors.CorruptDataError, match="no HDF5 signature"):
            cf.open("s3://buck/there.h5ad", cache="files", cache_dir=tmp_path / "cache")
        assert "x-amz-checksum-mode" in server.headers
        with pytest.raises(
            cf.errors.CellfeedError
        ):  # nothing of what is written is there afterwards
            cf.convert_to_shards(tmp_path / "a.h5ad", "s3://buck/out é")
    assert all(good and bool(token) == has_token for _, _, good, has_token, _ in server.seen)
    assert {command for command, *_ in server.seen} >= {"HEAD", "GET", "PUT"}
