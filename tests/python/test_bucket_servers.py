"""The object stores on loopback, written and read by pyarrow's own file systems.

What the file systems do about faults is fixed here as well: the cloud layer is built on it.
"""

import datetime
import itertools
import random

import pyarrow.fs
import pytest
from bucket_servers import azure_options, gcs_environment, s3_environment
from fault_proxy import FaultProxy
from fault_rules import Fault
from proxy_process import ProxyProcess
from tiers import fast

CONTENT = random.Random(7).randbytes(100_000)
OBJECT = "atlas/cells 1+2.h5ad"
NUMBERS = itertools.count(1)


@pytest.fixture
def s3_store(s3, monkeypatch):
    with FaultProxy(s3.address) as proxy:
        for name, value in s3_environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        uri = "s3://bucket?allow_bucket_creation=true"
        yield proxy, pyarrow.fs.FileSystem.from_uri(uri)[0]


@pytest.fixture
def gcs_store(gcs, monkeypatch):
    with ProxyProcess(gcs.address) as proxy:
        for name, value in gcs_environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        limit = datetime.timedelta(seconds=5)
        options = {"project_id": "loopback", "retry_time_limit": limit}
        yield proxy, pyarrow.fs.GcsFileSystem(anonymous=True, **options)


@pytest.fixture
def azure_store(azure):
    with FaultProxy(azure.address) as proxy:
        yield proxy, pyarrow.fs.AzureFileSystem(**azure_options(proxy.address))


@pytest.fixture(params=["s3", "gcs", "azure"])
def store(request):
    """A proxy, a file system behind it and a bucket of its own with one object."""
    proxy, system = request.getfixturevalue(f"{request.param}_store")
    bucket = f"bucket{next(NUMBERS)}"
    system.create_dir(bucket)
    write(system, f"{bucket}/{OBJECT}", CONTENT)
    proxy.reset()
    return proxy, system, bucket


def write(system, path, content):
    with system.open_output_stream(path) as stream:
        stream.write(content)


def test_what_was_written_is_read_by_range(store):
    proxy, system, bucket = store
    file = system.open_input_file(f"{bucket}/{OBJECT}")
    assert file.size() == len(CONTENT)
    assert {"ETag", "etag"} & file.metadata().keys()
    for begin in 0, 5000, 99_900:
        assert file.read_at(300, begin) == CONTENT[begin : begin + 300]
    ranged = [each for each in proxy.seen if each.status == 206]
    assert [each.body_bytes for each in ranged] == [300, 300, 100]
    assert proxy.said().count("loopback-secret") == 0


def test_what_was_written_is_listed(store):
    _, system, bucket = store
    write(system, f"{bucket}/atlas/more/donors.h5ad", b"x" * 10)
    listed = system.get_file_info(pyarrow.fs.FileSelector(f"{bucket}/atlas", recursive=True))
    sizes = {each.path: each.size for each in listed if each.is_file}
    assert sizes == {f"{bucket}/{OBJECT}": len(CONTENT), f"{bucket}/atlas/more/donors.h5ad": 10}
    kinds = system.get_file_info([f"{bucket}/atlas", f"{bucket}/{OBJECT}", f"{bucket}/none"])
    assert [each.type.name for each in kinds] == ["Directory", "File", "NotFound"]


@pytest.mark.parametrize(
    "store", [pytest.param("s3", marks=pytest.mark.slow), "gcs", "azure"], indirect=True
)
def test_large_objects_are_written_in_parts(store):
    proxy, system, bucket = store
    content = random.Random(8).randbytes(21 << 20)
    write(system, f"{bucket}/large", content)
    assert sum(each.method in ("PUT", "POST") for each in proxy.seen) >= 3
    with system.open_input_stream(f"{bucket}/large") as stream:
        assert stream.read() == content


def test_what_is_missing_is_not_found(store):
    _, system, bucket = store
    with pytest.raises(FileNotFoundError):
        system.open_input_file(f"{bucket}/none")
    with pytest.raises(FileNotFoundError):
        system.open_input_file("nobucket/none")


FAULTS = list(
    itertools.product(("s3", "gcs", "azure"), ("reset", "reset_in_body", "truncate", "status"))
)
# This client waits longest before it asks again.
SLOW = {("gcs", "truncate"), ("gcs", "status")}


@pytest.mark.parametrize(
    ("store", "kind"),
    fast(set(FAULTS) - SLOW, FAULTS),
    indirect=["store"],
)
def test_clients_ask_again_after_a_fault(store, kind):
    proxy, system, bucket = store
    file = system.open_input_file(f"{bucket}/{OBJECT}")
    file.read_at(1, 0)  # a client of GCS opens a stream of the whole object as well
    proxy.set_faults(Fault(kind=kind, status=503, method="GET", nth=(1,)))
    proxy.reset()
    assert file.read_at(300, 5000) == CONTENT[5000:5300]
    assert [each.fault for each in proxy.seen] == [kind, ""]


def test_no_client_sees_that_a_range_is_another_one(store):
    proxy, system, bucket = store
    file = system.open_input_file(f"{bucket}/{OBJECT}")
    file.read_at(1, 0)
    for kind in "other_range", "shifted_bytes":
        proxy.set_faults(Fault(kind=kind, shift=100))
        wrong = file.read_at(300, 5000)
        assert len(wrong) == 300 and wrong != CONTENT[5000:5300]


def test_only_gcs_notices_an_object_that_was_replaced(store):
    _, system, bucket = store
    file = system.open_input_file(f"{bucket}/{OBJECT}")
    file.read_at(1, 0)
    write(system, f"{bucket}/{OBJECT}", CONTENT[::-1])
    if isinstance(system, pyarrow.fs.GcsFileSystem):
        with pytest.raises(FileNotFoundError):
            file.read_at(300, 5000)
    else:
        assert file.read_at(300, 5000) == CONTENT[::-1][5000:5300]


def test_errors_of_a_sas_of_azure_show_it(azure_store):
    proxy, system = azure_store
    system.create_dir("signed")
    write(system, "signed/cells", CONTENT)
    options = azure_options(proxy.address)
    del options["account_key"]
    signed = pyarrow.fs.AzureFileSystem(**options, sas_token="?sv=1&sig=hush")
    file = signed.open_input_file("signed/cells")
    proxy.set_faults(Fault(kind="status", status=403))
    with pytest.raises(OSError, match="sig=hush"):
        file.read_at(300, 5000)
