"""What lies where a file is to be written, and what of the cells is written."""

import os
import socket

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from program import run

import cellfeed as cf
from cellfeed.errors import AlreadyExistsError, InvalidArgumentError


@pytest.fixture
def source(tmp_path):
    obs = pd.DataFrame(
        {"_source_file": list("abc"), "_source_row": [5, 6, 7], "kind": [1, 2, 3]},
        index=list("xyz"),
    )
    cells = anndata.AnnData(scipy.sparse.csr_matrix(np.eye(3, dtype="float32")), obs=obs)
    cells.var_names = list("ghi")
    cells.write_h5ad(tmp_path / "a.h5ad")
    return tmp_path / "a.h5ad"


@pytest.fixture
def plain(source):
    """The same without columns that sharding adds."""
    cells = anndata.read_h5ad(source)
    cells.obs = cells.obs[["kind"]]
    cells.write_h5ad(source)
    return source


def export(source, output):
    cf.export_h5ad(source, output, overwrite=True)


def preprocess(source, output):
    cf.preprocess(source, output, n_top_genes=None, overwrite=True)


def simulate(source, output):
    cf.simulate(source, 10, output, overwrite=True)


WRITERS = [export, preprocess, simulate]


@pytest.mark.parametrize("write", WRITERS)
def test_only_regular_files_are_overwritten(source, tmp_path, write):
    os.mkfifo(tmp_path / "pipe.h5ad")
    (tmp_path / "folder.h5ad").mkdir()
    (tmp_path / "lost.h5ad").symlink_to("nowhere.h5ad")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.h5ad"))
        for name, message in (
            ("pipe.h5ad", "no regular file"),
            ("socket.h5ad", "no regular file"),
            ("folder.h5ad", "is a directory"),
            ("lost.h5ad", "leads nowhere"),
        ):
            before = (tmp_path / name).lstat()
            with pytest.raises(AlreadyExistsError, match=message):
                write(source, tmp_path / name)
            assert (tmp_path / name).lstat().st_ino == before.st_ino


@pytest.mark.parametrize("write", WRITERS)
def test_a_link_stays_and_its_file_is_overwritten(source, tmp_path, write):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/b.h5ad").write_bytes(b"old")
    (tmp_path / "link.h5ad").symlink_to("real/b.h5ad")
    write(source, tmp_path / "link.h5ad")
    assert (tmp_path / "link.h5ad").is_symlink()
    assert anndata.read_h5ad(tmp_path / "real/b.h5ad").n_vars == 3
    assert sorted(path.name for path in (tmp_path / "real").iterdir()) == ["b.h5ad"]


@pytest.mark.parametrize("write", [export, preprocess])
def test_columns_that_sharding_did_not_add_are_kept(source, tmp_path, write):
    write(source, tmp_path / "b.h5ad")
    written = anndata.read_h5ad(tmp_path / "b.h5ad").obs
    assert list(written["_source_file"]) == list("abc")
    assert list(written["_source_row"]) == [5, 6, 7]
    cells = anndata.read_h5ad(source)
    del cells.obs["_source_file"], cells.obs["_source_row"]
    cells.write_h5ad(tmp_path / "c.h5ad")
    cf.convert_to_shards(tmp_path / "c.h5ad", tmp_path / "shards")
    write(tmp_path / "shards", tmp_path / "d.h5ad")
    assert list(anndata.read_h5ad(tmp_path / "d.h5ad").obs) == ["kind"]
    write([tmp_path / "shards", source], tmp_path / "e.h5ad")
    with pytest.warns(UserWarning, match="names are not unique"):
        both = anndata.read_h5ad(tmp_path / "e.h5ad").obs
    assert list(both["_source_row"].astype(object).fillna("-")) == ["-", "-", "-", 5, 6, 7]
    cells.obs_names = list("uvw")
    cells.write_h5ad(tmp_path / "other.h5ad")
    write([tmp_path / "shards", tmp_path / "other.h5ad"], tmp_path / "f.h5ad")
    assert list(anndata.read_h5ad(tmp_path / "f.h5ad").obs) == ["kind"]


def test_every_writer_gives_a_result_that_is_a_path(plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = [
        cf.export_h5ad(plain, "copy.h5ad"),
        cf.preprocess(plain, "b.h5ad"),
        cf.convert_to_shards(plain, "shards"),
        cf.simulate(plain, 3, "c.h5ad"),
    ]
    for result in made:
        assert (result.n_cells, result.n_genes) == cf.open(result).shape == (3, 3)
        assert result.bytes > 0 and result.seconds >= 0
    several = cf.simulate(plain, 4, "d.h5ad", n_files=2)
    assert len(cf.open(several.files, make_unique=True)) == several.n_cells == 4
    with pytest.raises(InvalidArgumentError, match=r"give result\.files"):
        cf.open(several)


@pytest.mark.parametrize("name", ["x.parquet", "x.zarr", "x", "h5ad", "x.h5ad.gz"])
def test_a_file_has_the_name_of_its_format(plain, tmp_path, name):
    for write in (cf.export_h5ad, lambda path, output: cf.simulate(path, 3, output)):
        with pytest.raises(InvalidArgumentError, match=r"a name that ends in \.h5ad"):
            write(plain, tmp_path / name)
    said = run("export", plain, "--output", tmp_path / name, code=1)
    assert "a name that ends in .h5ad" in said
    if "." in name:
        for write in (cf.convert_to_shards, cf.preprocess):
            with pytest.raises(InvalidArgumentError, match="is the suffix of another format"):
                write(plain, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5ad"]
