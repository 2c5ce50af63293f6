"""Where predictions go: regular files alone, through links, whole; and how the verbs end."""

import argparse
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import anndata
import attack
import pytest
from held_program import held
from program import run
from training_atlas import trained_in

from cellfeed.errors import InputOutputError, InvalidArgumentError
from cellfeed.training import _program, train
from cellfeed.training._run_folder import RunFolder
from cellfeed.training._whole_file import whole_file

PROGRAM = Path(sys.executable).with_name("cellfeed")
LAST = "runs/run/checkpoints/last.ckpt"
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*isinstance\\(treespec.*:FutureWarning", "ignore:.*weights_only.*"
)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with trained_in(tmp_path_factory.mktemp("trained")) as folder:
        yield folder


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out.h5ad"


def predict(output, checkpoint=LAST):
    """What the verb does, in this process."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        return _program._apply(
            argparse.Namespace(
                verb="predict", checkpoint=checkpoint, inputs=["atlas.h5ad"], output=str(output),
                batch_size=64, device="cpu", force=False, overwrite=True, quiet=True,
            )
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGTERM, before)


def is_whole(path):
    return anndata.read_h5ad(path).n_obs == 240


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, make_socket])
@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_no_regular_file_is_refused_before_any_work(tmp_path, monkeypatch, make, is_link):
    monkeypatch.chdir(tmp_path)
    make("out.h5ad")
    kind = os.stat("out.h5ad").st_mode
    given = "out.h5ad"
    if is_link:
        given = "link.h5ad"
        os.symlink("out.h5ad", given)
    with pytest.raises(InputOutputError, match=rf"{given}: is not a regular file"):
        predict(given, checkpoint="not_looked_at.ckpt")
    assert os.stat("out.h5ad").st_mode == kind


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_and_the_file_it_leads_to_is_written(tmp_path, output, is_there):
    (tmp_path / "far").mkdir()
    target = tmp_path / "far/target.h5ad"
    if is_there:
        target.write_bytes(b"before")
    output.symlink_to("far/target.h5ad")
    predict(output)
    assert output.is_symlink() and not target.is_symlink() and is_whole(target)
    assert {path.name for path in tmp_path.rglob("*")} == {"far", "target.h5ad", "out.h5ad"}


def test_links_in_a_circle_are_named(tmp_path, output):
    output.symlink_to(output.name)
    with pytest.raises(InputOutputError, match=r"out\.h5ad: cannot be written: Too many levels"):
        predict(output, checkpoint="not_looked_at.ckpt")


def test_of_two_writers_of_one_output_the_last_wins_whole(tmp_path, output, monkeypatch):
    write = anndata.AnnData.write_h5ad

    def write_after_another(self, path):
        monkeypatch.setattr(anndata.AnnData, "write_h5ad", write)
        write(self, path)
        predict(output)

    monkeypatch.setattr(anndata.AnnData, "write_h5ad", write_after_another)
    predict(output)
    assert is_whole(output) and os.listdir(tmp_path) == ["out.h5ad"]


def test_a_writer_that_fails_leaves_the_part_of_the_other(tmp_path):
    path = tmp_path / f"{'ä' * 120}.h5ad"  # no room for a longer name
    with whole_file(path, has_rivals=True) as mine:
        mine.write_text("mine")
        with pytest.raises(ZeroDivisionError), whole_file(path, has_rivals=True) as other:
            other.write_text("other")
            raise ZeroDivisionError
        assert not other.exists() and mine.name.startswith(".") and mine.suffix == ".part"
    assert path.read_text() == "mine" and list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_parts_of_killed_writers_go_and_those_of_others_stay(tmp_path):
    path = tmp_path / "[a].h5ad"
    code = "from cellfeed.training._whole_file import whole_file; import os, pathlib, sys\n"
    code += "with whole_file(pathlib.Path(sys.argv[1]), has_rivals=True) as part:\n"
    code += "    part.write_text('half')\n    os.kill(os.getpid(), 9)"
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code, path]).returncode == -signal.SIGKILL
        assert len(os.listdir(tmp_path)) == 1
    with whole_file(path, has_rivals=True) as mine:
        mine.write_text("mine")
        with whole_file(path, has_rivals=True) as other:
            assert mine.exists()
            other.write_text("other")
    assert path.read_text() == "mine" and os.listdir(tmp_path) == [path.name]


def test_a_folder_that_is_not_there_is_named_at_once(tmp_path):
    with pytest.raises(InputOutputError, match=r"there is no folder '.*absent'; make it first"):
        predict(tmp_path / "absent/out.h5ad", checkpoint="not_looked_at.ckpt")
    with pytest.raises(InvalidArgumentError, match="is a folder"):
        predict(f"{tmp_path}/", checkpoint="not_looked_at.ckpt")


def test_the_mode_of_an_output_is_that_of_any_new_file(tmp_path, output):
    predict(output)
    (tmp_path / "any").touch()
    assert output.stat().st_mode == (tmp_path / "any").stat().st_mode


def embed(output, **options):
    return subprocess.Popen(
        [PROGRAM, "embed", LAST, "atlas.h5ad", "--output", output, "--quiet"],
        stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


@pytest.mark.slow  # each program imports torch and lightning anew
def test_a_result_that_cannot_be_said_is_one_line(tmp_path, output):
    (tmp_path / "stdout").touch()
    with open(tmp_path / "stdout") as unwritable:
        child = embed(output, stdout=unwritable)
        errors = child.communicate(timeout=200)[1]
    assert errors == ("cellfeed: error: cannot write the result to stdout: Bad file descriptor\n")
    assert child.returncode == 1 and is_whole(output)


@pytest.mark.slow
def test_a_reader_that_is_gone_ends_the_program_quietly(output):
    child = embed(output, stdout=subprocess.PIPE)
    child.stdout.close()
    child.stdout = None
    assert child.communicate(timeout=200)[1] == ""
    assert child.returncode == -signal.SIGPIPE and is_whole(output)


@pytest.mark.slow
@pytest.mark.skipif(not attack.SHIM.exists(), reason="the fault shim is not built")
def test_sigterm_while_the_output_is_written_leaves_no_part(tmp_path, output):
    command = [PROGRAM, "embed", LAST, "atlas.h5ad", "--output", output, "--quiet"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with held(command, "rename:1", f"/{output.name}", **pipes) as (child, let_go):
        assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
        child.send_signal(signal.SIGTERM)
        let_go()
        said = child.communicate(timeout=100)
    assert (child.returncode, *said) == (143, "", "cellfeed: error: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] in ([], [output.name])


def test_names_that_no_folder_can_have_are_named(tmp_path):
    for name in ("x" * 300, "ä" * 150):
        for resume in (None, "auto"):
            with pytest.raises(InvalidArgumentError, match=r"name has 300 bytes, .* 255 at most"):
                train("run.yaml", name=name, resume=resume, runs_dir=tmp_path, progress=False)
    with pytest.raises(InvalidArgumentError, match="name must be that of a folder in runs, not ''"):
        train("run.yaml", name="", runs_dir=tmp_path, progress=False)
    with pytest.raises(InputOutputError, match="File name too long"):
        RunFolder(tmp_path / ("y" * 300), "run").resolve("auto")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_program_names_them_in_one_line():
    said = run("train", "--config", "run.yaml", "--name", "", "--quiet", code=1)
    assert "name must be that of a folder" in said
    said = run("train", "--config", "run.yaml", "--name", "x" * 300, "--quiet", code=1)
    assert "name has 300 bytes" in said and said.count("\n") == 1
