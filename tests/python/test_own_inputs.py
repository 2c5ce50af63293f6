"""A file that is made of others never takes the place of one of them."""

import shutil

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


def test_another_file_is_overwritten(atlas):
    other = atlas.parent / "other.h5ad"
    shutil.copy(atlas, other)
    cf.export_h5ad(cf.open(atlas)[:20], other, overwrite=True)
    assert len(cf.open(other)) == 20
