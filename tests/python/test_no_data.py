"""Files that hold no data but what tells people where it is: pointers of Git LFS, pages of HTML."""

import pytest

import cellfeed as cf
from cellfeed.errors import CorruptDataError
from cellfeed.series import build_series

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
CONTENTS = {
    "Git LFS": (POINTER, "a Git LFS pointer, not the data; run `git lfs pull`"),
    "HTML": (b"<!DOCTYPE html><html><h1>Sign in</h1></html>", "an HTML page, not the data"),
    "HTML in capitals": (b"\xef\xbb\xbf<HTML>" + b" " * 300, "an HTML page, not the data"),
}
NAMES = ["a.h5ad", "a.h5", "a.parquet", "a.zarr.zip", "a", "mtx/matrix.mtx", "a.zarr/zarr.json"]
TABLES = ["a.csv", "a.parquet", "a.feather", "a.csv.gz", "a"]


def _open_all(root, name):
    cf.open(f"{root}/{name.split('/')[0]}")


def _lists_of(name):
    return ["mtx/barcodes.tsv", "mtx/features.tsv"] if name.startswith("mtx/") else []


@pytest.mark.parametrize("what", CONTENTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_no_data(tmp_path, name, what):
    content, said = CONTENTS[what]
    for each in [name, *_lists_of(name)]:
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_bytes(content)
    with pytest.raises(CorruptDataError, match=f"{name}: this is {said}"):
        _open_all(tmp_path, name)


@pytest.mark.parametrize("what", CONTENTS)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_a_series_is_no_data(tmp_path, name, what):
    content, said = CONTENTS[what]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorruptDataError, match=f"{name}: this is {said}"):
        build_series(tmp_path / name, tmp_path / "series")
    assert not (tmp_path / "series").exists()


@pytest.mark.parametrize("what", CONTENTS)
def test_an_object_is_no_data(bucket, tmp_path, what):
    content, said = CONTENTS[what]
    for name in NAMES:
        for each in [name, *_lists_of(name)]:
            bucket.put_object(Bucket="atlas", Key=each, Body=content)
    for name in NAMES:
        with pytest.raises(CorruptDataError, match=f"s3://atlas/{name}: this is {said}"):
            _open_all("s3://atlas", name)
    for name in TABLES:
        bucket.put_object(Bucket="atlas", Key=name, Body=content)
        with pytest.raises(CorruptDataError, match=f"s3://atlas/{name}: this is {said}"):
            build_series(f"s3://atlas/{name}", tmp_path / "series")
