"""A file that is made of others never takes the place of one of them."""

import shutil

import anndata
import numpy as np
import pytest
from program import PROGRAM, completed

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError

MESSAGE = "is an input, and would be overwritten; choose another output"


@pytest.fixture
def atlas(shared_data, tmp_path):
    path = tmp_path / "atlas.h5ad"
    shutil.copy(shared_data / "anndata/scp1884.h5ad", path)
    return path


CALLS = {
    "export": lambda path, out: cf.export_h5ad(path, out, overwrite=True),
    "export of two": lambda path, out: cf.export_h5ad(
        [path.parent / "other.h5ad", path], out, overwrite=True
    ),
    "export of a view": lambda path, out: cf.export_h5ad(cf.open(path)[:20], out, overwrite=True),
    "preprocess": lambda path, out: cf.preprocess(path, out, n_top_genes=100, overwrite=True),
    "simulate": lambda path, out: cf.simulate(path, 10, out, overwrite=True),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", ["as it is", "by a link", "by a folder"])
def test_outputs_that_are_inputs_are_refused(atlas, call, name):
    shutil.copy(atlas, atlas.parent / "other.h5ad")
    before, output = atlas.read_bytes(), atlas
    if name == "by a link":
        output = atlas.parent / "link.h5ad"
        output.symlink_to(atlas)
    if name == "by a folder":
        (atlas.parent / "below").mkdir()
        output = atlas.parent / "below" / ".." / "atlas.h5ad"
    with pytest.raises(InvalidArgumentError, match=MESSAGE):
        CALLS[call](atlas, output)
    assert atlas.read_bytes() == before
    assert {path.name for path in atlas.parent.iterdir()} <= {
        "atlas.h5ad", "other.h5ad", "link.h5ad", "below",
    }  # fmt: skip


@pytest.mark.skipif(not PROGRAM, reason="the cellfeed program is not installed beside this Python")
@pytest.mark.parametrize(
    "arguments",
    [
        ["preprocess", "--input", "{}", "--output", "{}", "--hvg", "100"],
        ["export", "{}", "--output", "{}"],
        ["simulate", "--like", "{}", "--cells", "10", "--output", "{}"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_program_refuses_them_too(atlas, arguments):
    before = atlas.read_bytes()
    done = completed(*(each.format(atlas) for each in arguments), "--overwrite", code=1)
    assert MESSAGE in done.stderr
    assert atlas.read_bytes() == before


def test_inputs_that_give_no_cell_are_kept_too(tmp_path):
    for name in "ab":
        adata = anndata.AnnData(np.eye(30, 6, dtype="float32"))
        adata.obs["t"] = name
        adata.obs_names = [f"{name}{i}" for i in range(30)]
        adata.write_h5ad(tmp_path / f"{name}.h5ad")
    paths, b = [tmp_path / "a.h5ad", tmp_path / "b.h5ad"], tmp_path / "b.h5ad"
    cf.convert_to_shards(b, tmp_path / "sb")
    before = b.read_bytes()
    with pytest.raises(InvalidArgumentError, match=MESSAGE):
        cf.export_h5ad(cf.open(paths, obs=["t"])[:30], b, overwrite=True)
    if PROGRAM:
        chosen = ("--filter", "t == 'a'", "--overwrite")
        for verb in ("export", "preprocess"):
            said = completed(verb, *paths, *chosen, "--output", b, code=1).stderr
            assert MESSAGE in said
        inputs = (paths[0], tmp_path / "sb")
        for verb, option in (("shard", "--output-dir"), ("preprocess", "--output")):
            said = completed(verb, *inputs, *chosen, option, tmp_path / "sb", code=1).stderr
            assert "an input lies in the target directory" in said
    assert b.read_bytes() == before and len(cf.open(tmp_path / "sb")) == 30


def test_another_file_is_overwritten(atlas):
    other = atlas.parent / "other.h5ad"
    shutil.copy(atlas, other)
    cf.export_h5ad(cf.open(atlas)[:20], other, overwrite=True)
    assert len(cf.open(other)) == 20
