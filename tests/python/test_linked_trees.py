"""Shards and series whose files are links, as caches keep them that hold each content once."""

import hashlib
import os
import pathlib

import numpy as np
import pandas as pd
import pytest
from small_atlas import write_atlas

import cellfeed as cf
from cellfeed.data.sharding import validate_shard_dir
from cellfeed.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
)
from cellfeed.series import SeriesDataset, append_series, build_series, verify_series


def linked(path: pathlib.Path) -> pathlib.Path:
    """The directory once more: snapshots/REV/name -> ../../blobs/HASH."""
    blobs, snapshot = path.parent / "hub/blobs", path.parent / "hub/snapshots" / path.name
    blobs.mkdir(parents=True, exist_ok=True)
    snapshot.mkdir(parents=True)
    for file in path.iterdir():
        if file.name.startswith("."):
            continue
        content = file.read_bytes()
        blob = blobs / hashlib.sha256(content).hexdigest()
        blob.write_bytes(content)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    return snapshot


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def shards(tmp_path):
    (tmp_path / "h5ad").mkdir()
    path = tmp_path / "shards"
    cf.convert_to_shards(
        cf.open(write_atlas(tmp_path / "h5ad"), layers=["counts"]), path, shard_size=25
    )
    return path


@pytest.fixture
def series(tmp_path):
    frame = pd.DataFrame({"t": range(50), "a": np.arange(50.0), "b": np.arange(50.0) % 7})
    frame.to_parquet(tmp_path / "rows.parquet")
    build_series(tmp_path / "rows.parquet", tmp_path / "series", time="t")
    return tmp_path / "series"


def test_shards_are_read_through_links(shards):
    snapshot = linked(shards)
    cells, plain = cf.open(snapshot, layers=["counts"]), cf.open(shards, layers=["counts"])
    assert cells.fingerprint == plain.fingerprint
    found, expected = cells.read(slice(None)), plain.read(slice(None))
    for read in (lambda b: b.x, lambda b: b.layers["counts"]):
        np.testing.assert_array_equal(read(found).toarray(), read(expected).toarray())
    assert validate_shard_dir(snapshot)


def test_series_are_read_through_links(series):
    snapshot = linked(series)
    found, expected = SeriesDataset(snapshot, 5, 2), SeriesDataset(series, 5, 2)
    for ours, theirs in zip(found.arrays(slice(None)), expected.arrays(slice(None)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert verify_series(snapshot)


def test_nothing_is_written_through_links(shards, series, tmp_path):
    of_shards, of_series = linked(shards), linked(series)
    blobs = tmp_path / "hub/blobs"
    before = contents(blobs)
    with pytest.raises(AlreadyExistsError):
        cf.convert_to_shards(tmp_path / "h5ad/atlas_0.h5ad", of_shards)
    with pytest.raises(AlreadyExistsError, match="finished series"):
        build_series(tmp_path / "rows.parquet", of_series, time="t")
    more = write_atlas(tmp_path / "h5ad", 2)[1]
    with pytest.raises(InvalidArgumentError, match=r"is a link.*put a copy of the file there"):
        cf.append_to_shards(more, of_shards)
    assert len(cf.open(of_shards)) == len(cf.open(shards)) and validate_shard_dir(of_shards)
    frame = pd.DataFrame({"t": range(50, 60), "a": np.zeros(10), "b": np.zeros(10)})
    frame.to_parquet(tmp_path / "more.parquet")
    with pytest.raises(InvalidArgumentError, match=r"is a link.*put a copy of the file there"):
        append_series(tmp_path / "more.parquet", of_series)
    assert contents(blobs) == before
    assert len(SeriesDataset(of_series, 5)) == 45 and verify_series(of_series)


def test_a_manifest_that_is_a_link_to_nothing_is_named(shards):
    snapshot = linked(shards)
    (snapshot / "shard_metadata.json").resolve().unlink()
    with pytest.raises(NotFoundError, match=r"shard_metadata.json: is a link, and there is noth"):
        cf.open(snapshot)


def test_what_links_lead_to_is_named(shards, series):
    for snapshot, name, read in [
        (linked(shards), "shard_000001.arrow", lambda path: cf.open(path).obs_values("donor")),
        (linked(series), "time.mmap", lambda path: SeriesDataset(path, 5)),
    ]:
        blob = (snapshot / name).resolve()
        content = blob.read_bytes()
        blob.write_bytes(content[:-8])
        with pytest.raises(CorruptDataError, match=f"a link to {blob}"):
            read(snapshot)
        blob.unlink()
        with pytest.raises(NotFoundError, match=f"missing.*a link to {blob}"):
            read(snapshot)
