"""Over TLS, in programs of their own: which library loads first decides whose OpenSSL is called."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("boto3")

from bucket_servers import azure_environment, gcs_environment, s3_environment
from file_server import FileServer
from store_clients import SERVERS, requested_store
from test_cloud import write_cells
from tls_proxy import subject_hash, tls_proxy, write_certificate

VARIABLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
ENVIRONMENTS = {"s3": s3_environment, "gs": gcs_environment, "az": azure_environment}
READ = """
import cellfeed as cf, sys
remote, local = (cf.open(path) for path in sys.argv[1:3])
assert (remote[:].X != local[:].X).nnz == 0
print(remote.n_obs)
"""


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "30")
    write_certificate(tmp_path / "certificate.pem")
    return tmp_path / "certificate.pem"


def run_python(code, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        capture_output=True, text=True, timeout=120, env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done


@pytest.mark.parametrize(
    "first",
    [
        "",
        "import pyarrow.dataset, pyarrow.fs, pyarrow.parquet",
        "import h5py, ssl, urllib.request",
        pytest.param("import h5py, ssl, torch, urllib.request", marks=pytest.mark.slow),
    ],
)
def test_a_server_of_files(certificate, tmp_path, first):
    write_cells(tmp_path / "a.h5ad")
    parquet = """
import io, pyarrow, pyarrow.parquet
sink = io.BytesIO()
pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2]}), sink)
table = pyarrow.parquet.read_table(io.BytesIO(sink.getvalue()), use_threads=False)
print(table["a"].to_pylist())
"""
    with FileServer(tmp_path) as server:
        address = server.url.removeprefix("http://")
        with tls_proxy(address, certificate) as proxy:
            done = run_python(
                first + READ + parquet,
                f"https://{proxy}/a.h5ad",
                tmp_path / "a.h5ad",
                SSL_CERT_FILE=str(certificate),
            )
    assert done.stdout.split("\n")[1:] == ["[1, 2]", ""], done.stderr


@pytest.mark.slow
def test_certificates_in_a_folder(certificate, tmp_path):
    write_cells(tmp_path / "a.h5ad")
    folder = tmp_path / "trusted"
    folder.mkdir()
    # By its subject's hash, as OpenSSL looks for it.
    (folder / f"{subject_hash(certificate)}.0").write_bytes(certificate.read_bytes())
    with FileServer(tmp_path) as server:
        address = server.url.removeprefix("http://")
        with tls_proxy(address, certificate) as proxy:
            url = f"https://{proxy}/a.h5ad"
            done = run_python(READ, url, tmp_path / "a.h5ad", REQUESTS_CA_BUNDLE=str(folder))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("store", SERVERS, indirect=True)
def test_buckets(certificate, store, tmp_path):
    write_cells(tmp_path / "a.h5ad")
    store.put("a.h5ad", tmp_path / "a.h5ad")
    write = "cf.convert_to_shards(sys.argv[2], sys.argv[3], shard_size=200)\n"
    write += "assert (cf.open(sys.argv[3])[:].X != local[:].X).nnz == 0\n"
    # Google's emulator names itself, without TLS, where it takes uploads.
    write = "" if store.scheme == "gs" else write
    with tls_proxy(store.proxy.address, certificate) as proxy:
        environment = ENVIRONMENTS[store.scheme](f"https://{proxy}")
        done = run_python(
            READ + write,
            store.url("a.h5ad"),
            tmp_path / "a.h5ad",
            store.url("shards"),
            AWS_CA_BUNDLE=str(certificate),
            **environment,
        )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def store(request, monkeypatch):
    with requested_store(request, monkeypatch) as store:
        yield store


@pytest.mark.slow
def test_a_server_that_proves_nothing_is_not_read(certificate, tmp_path):
    write_cells(tmp_path / "a.h5ad")
    (tmp_path / "other").mkdir()
    write_certificate(tmp_path / "other/certificate.pem")
    with FileServer(tmp_path) as server:
        address = server.url.removeprefix("http://")
        with tls_proxy(address, certificate) as proxy:
            for environment, hint in (
                ({}, "SSL_CERT_FILE may name a file of certificates to trust"),
                ({"CURL_CA_BUNDLE": str(tmp_path / "other/certificate.pem")}, "CURL_CA_BUNDLE="),
                ({"SSL_CERT_FILE": str(tmp_path / "absent.pem")}, "absent.pem"),
            ):
                url = f"https://{proxy}/a.h5ad"
                done = run_python(READ, url, tmp_path / "a.h5ad", **environment)
                last = done.stderr.strip().split("\n")[-1]
                assert last.startswith(f"cellfeed.errors.InputOutputError: {url}: "), done.stderr
                assert hint in last
