"""The object stores on loopback, written and read by pyarrow's own file systems."""

import random

import pyarrow.fs
import pytest
from bucket_servers import s3_environment
from fault_proxy import FaultProxy
from fault_rules import Fault

CONTENT = random.Random(7).randbytes(100_000)


@pytest.fixture
def s3_proxy(s3, monkeypatch):
    with FaultProxy(s3.address) as proxy:
        for name, value in s3_environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        yield proxy


def make_bucket(name):
    uri = f"s3://{name}?allow_bucket_creation=true&allow_bucket_deletion=true"
    system, _ = pyarrow.fs.FileSystem.from_uri(uri)
    system.create_dir(name)
    with system.open_output_stream(f"{name}/atlas/cells.h5ad") as stream:
        stream.write(CONTENT)
    return system


def test_s3_is_found_by_the_environment_alone(s3_proxy):
    system = make_bucket("found")
    s3_proxy.reset()
    file = system.open_input_file("found/atlas/cells.h5ad")
    assert file.size() == len(CONTENT)
    assert file.read_at(300, 5000) == CONTENT[5000:5300]
    assert file.read_at(300, 90_000) == CONTENT[90_000:90_300]
    assert s3_proxy.counts() == {
        "HEAD /found/atlas/cells.h5ad": 1,
        "GET /found/atlas/cells.h5ad": 2,
    }
    listed = system.get_file_info(pyarrow.fs.FileSelector("found/atlas"))
    assert [(each.path, each.size) for each in listed] == [("found/atlas/cells.h5ad", len(CONTENT))]
    said = s3_proxy.said()
    assert "loopback-key-id" in said and "loopback-secret-key" not in said


def test_s3_through_faults(s3_proxy):
    file = make_bucket("faults").open_input_file("faults/atlas/cells.h5ad")
    for kind in "reset", "reset_in_body", "truncate":
        s3_proxy.set_faults(Fault(kind=kind, method="GET", nth=(1,)))
        s3_proxy.reset()
        assert file.read_at(300, 5000) == CONTENT[5000:5300]
        assert s3_proxy.count("GET") == 2
    s3_proxy.set_faults(Fault(kind="status", status=403, method="GET"))
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        file.read_at(300, 5000)
