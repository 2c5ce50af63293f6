"""nginx as an S3, read by pyarrow's own file system."""

import random

import pyarrow.fs
import pytest
from nginx_server import find_nginx, nginx_server

pytestmark = pytest.mark.slow

CONTENT = random.Random(7).randbytes(100_000)


@pytest.fixture
def system(tmp_path, monkeypatch):
    if not find_nginx():
        pytest.skip("nginx is not installed")
    for name in "atlas/a 1+2.h5ad", "atlas/b.h5ad", "atlas/more/c.h5ad", "d.h5ad":
        path = tmp_path / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
    with nginx_server(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield pyarrow.fs.FileSystem.from_uri("s3://bucket/")[0]


def test_objects_are_read_by_range(system):
    file = system.open_input_file("bucket/atlas/a 1+2.h5ad")
    assert (file.size(), "ETag" in file.metadata()) == (len(CONTENT), True)
    assert file.read_at(300, 99_900) == CONTENT[99_900:]
    assert file.read_at(300, 5000) == CONTENT[5000:5300]
    with pytest.raises(FileNotFoundError):
        system.open_input_file("bucket/none")


def test_objects_are_listed(system):
    def listed(**options):
        found = system.get_file_info(pyarrow.fs.FileSelector("bucket/atlas", **options))
        return {each.path.removeprefix("bucket/atlas/"): each.size for each in found}

    files = {"a 1+2.h5ad": 100_000, "b.h5ad": 100_000}
    assert listed() == {**files, "more": None}
    assert listed(recursive=True) == {**files, "more": None, "more/c.h5ad": 100_000}
    kinds = system.get_file_info(["bucket/atlas", "bucket/d.h5ad", "bucket/none", "none/none"])
    assert [each.type.name for each in kinds] == ["Directory", "File", "NotFound", "NotFound"]
