"""A wrong argument is named on one line, with what was given, what is allowed, what is near."""

import os
import pathlib
import subprocess
import sys

import h5py
import pytest
from small_atlas import make_anndata, write_atlas

import cellfeed as cf
from cellfeed import errors


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messages")
    write_atlas(folder)
    (folder / "text.parquet").write_bytes(b"PAR1 and so on PAR1")
    (folder / "store.zarr").mkdir()
    (folder / "store.zarr" / "zarr.json").write_text("{}")
    make_anndata().write_h5ad(folder / "no_x.h5ad")
    with h5py.File(folder / "no_x.h5ad", "r+") as file:
        del file["X"]
    cf.convert_to_shards(folder / "atlas_0.h5ad", folder / "shards")
    return folder


@pytest.fixture(scope="module")
def cells(folder):
    return cf.open(folder / "atlas_0.h5ad")


def message_of(call, kind=errors.CellfeedError) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, errors.CellfeedError), repr(caught.value)
    message = str(caught.value)
    assert "\n" not in message and "incompatible function arguments" not in message
    return message


LOADER = [
    ({"output": None}, TypeError, ["output", '"csr", "dense" or "tokens"', "None"]),
    ({"output": "dens"}, ValueError, ["output", "'dens'", 'did you mean "dense"?']),
    ({"dtype": "floot"}, ValueError, ["dtype", "'floot'", '"int64"', 'did you mean "float32"?']),
    ({"dtype": "float16"}, ValueError, ["dtype", "'float16'", '"float32"']),
    ({"dtype": None}, TypeError, ["dtype", "None", '"float32"']),
    ({"transforms": cf.Log1p()}, TypeError, ["transforms must be a list", "transforms=[Log1p("]),
    ({"transforms": [cf.Log1p]}, TypeError, ["transforms", "class Log1p", "write Log1p("]),
    ({"transforms": [len]}, TypeError, ["transforms", "len", "collate_fn"]),
    ({"obs": 3}, TypeError, ["obs", "list of names", "3"]),
    ({"obs": [3]}, TypeError, ["obs", "str", "3"]),
    ({"obs": "cell_typ"}, KeyError, ["'cell_typ'", "did you mean 'cell_type'?", "donor, depth"]),
    ({"partition": "grp"}, ValueError, ["partition", '"auto", "interleave" or "group"', "'grp'"]),
    ({"remainder": "padd"}, ValueError, ["remainder", "'padd'", 'did you mean "pad"?']),
    ({"casting": None}, TypeError, ["casting", "None", '"exact"']),
    ({"batch_size": 1e3}, TypeError, ["batch_size", "1000.0", "write 1000"]),
    ({"batch_size": 0}, ValueError, ["batch_size", "at least 1", "0"]),
    ({"threads": "all"}, TypeError, ["threads", "integer", "'all'"]),
    ({"memory_budget": "2 gigs"}, ValueError, ["memory_budget", "'2 gigs'", '"2GB"', "GiB"]),
    ({"memory_budget": None}, TypeError, ["memory_budget", "None"]),
    ({"drop_last": "no"}, TypeError, ["drop_last", "True or False", "'no'"]),
    ({"tune": 3}, TypeError, ["tune", "3"]),
    ({"seed": "x"}, TypeError, ["seed", "'x'"]),
]


@pytest.mark.parametrize(("arguments", "kind", "words"), LOADER, ids=lambda value: str(value)[:40])
def test_loader(cells, arguments, kind, words):
    message = message_of(lambda: cf.Loader(cells, cf.Streaming(), **arguments), kind)
    for word in words:
        assert word in message


STRATEGIES = [
    (lambda: cf.BlockShuffling, ["the class BlockShuffling", "write BlockShuffling("]),
    (lambda: "block", ["strategy", "'block'", "BlockShuffling("]),
    (lambda: 64, ["strategy", "64", "Streaming("]),
]


@pytest.mark.parametrize(("make", "words"), STRATEGIES)
def test_a_strategy_is_an_object(cells, make, words):
    for take in (cf.Loader, cf.scDataset):
        message = message_of(lambda take=take: take(cells, make(), 16), TypeError)
        for word in words:
            assert word in message


SETTINGS = [
    (lambda: cf.ClassBalancedSampling(label_key="a", smoothing="x"), ["smoothing", "'x'"]),
    (lambda: cf.ClassBalancedSampling(label_key="a", smoothing=-1), ["smoothing", "-1"]),
    (lambda: cf.BlockShuffling(block_size=8.0), ["block_size", "8.0", "write 8"]),
    (lambda: cf.BlockShuffling(drop_last="x"), ["drop_last", "'x'"]),
    (lambda: cf.Log1p(base="x"), ["base", "'x'"]),
    (lambda: cf.Log1p(base=0), ["base", "0"]),
    (lambda: cf.NormalizeTotal(None), ["target_sum", "None"]),
    (lambda: cf.SelectGenes([1]), ["genes", "1"]),
]


@pytest.mark.parametrize(("make", "words"), SETTINGS)
def test_settings_of_strategies_and_transforms(make, words):
    message = message_of(make)
    for word in words:
        assert word in message


OPEN = [
    ("ftp://host/a.h5ad", {}, NotImplementedError, ["ftp://host/a.h5ad", "known: local", "s3://"]),
    ("ftp://x.org/a.h5ad", {}, NotImplementedError, ["https://", "no file system", "copy"]),
    ("text.parquet", {}, OSError, ["text.parquet", "Parquet file size"]),
    ("store.zarr", {}, NotImplementedError, ["store.zarr", "zarr_format", "zarr.json"]),
    ("atals_0.h5ad", {}, FileNotFoundError, ["atals_0.h5ad", "did you mean 'atlas_0.h5ad'?"]),
    ("no_x.h5ad", {}, KeyError, ["no_x.h5ad", "no X", "layers/counts", "layer=None"]),
    ("atlas_0.h5ad", {"layer": "count"}, KeyError, ["'count'", "did you mean 'counts'?", "X, "]),
    ("atlas_0.h5ad", {"layer": 3}, TypeError, ["layer", "3"]),
    ("no_x.h5ad", {"layer": "none"}, KeyError, ["no_x.h5ad", "layers/none", "layers/counts"]),
    ("atlas_0.h5ad", {"obs": "donr"}, KeyError, ["'donr'", "did you mean 'donor'?", "cell_type"]),
    ("atlas_0.h5ad", {"obs": 3}, TypeError, ["obs", "3"]),
    ("atlas_0.h5ad", {"join": "iner"}, ValueError, ["join", "'iner'", 'did you mean "inner"?']),
    ("atlas_0.h5ad", {"access": "mapp"}, ValueError, ["access", "'mapp'", 'did you mean "map"?']),
    ("atlas_0.h5ad", {"make_unique": 1}, TypeError, ["make_unique", "1"]),
    (3, {}, TypeError, ["paths", "3"]),
    (["atlas_0.h5ad", 3], {}, TypeError, ["paths", "3"]),
    ("", {}, FileNotFoundError, ["paths", "''"]),
    ("a\0b", {}, ValueError, ["paths"]),
]


@pytest.mark.parametrize(("path", "arguments", "kind", "words"), OPEN)
def test_open(folder, monkeypatch, path, arguments, kind, words):
    monkeypatch.chdir(folder)
    message = message_of(lambda: cf.open(path, **arguments), kind)
    for word in words:
        assert word in message


def test_names_of_an_anndata_in_memory():
    message = message_of(lambda: cf.open(make_anndata(), layer="count"), KeyError)
    assert "did you mean 'counts'?" in message


FILES = [
    (lambda f: cf.simulate(f / "atlas_0.h5ad", 1e3, f / "o.h5ad"), ["n_cells", "write 1000"]),
    (lambda f: cf.simulate(f / "atlas_0.h5ad", 0, f / "o.h5ad"), ["n_cells", "at least 1", "0"]),
    (lambda f: cf.simulate(f / "atlas_0.h5ad", "10k", f / "o.h5ad"), ["n_cells", "'10k'"]),
    (
        lambda f: cf.simulate(f / "atlas_0.h5ad", 5, f / "o.h5ad", order="rnadom"),
        ["order", "'rnadom'", "did you mean 'random'?", "cell_type"],
    ),
    (
        lambda f: cf.simulate(f / "atlas_0.h5ad", 5, f / "o.h5ad", compression="lz4"),
        ["compression", '"none" or "gzip"', "'lz4'"],
    ),
    (
        lambda f: cf.simulate(f / "atlas_0.h5ad", 5, f / "none" / "o.h5ad"),
        ["none/o.h5ad: ", "there is no folder", "make it first"],
    ),
    (
        lambda f: cf.export_h5ad(f / "shards", f / "none" / "o.h5ad"),
        ["none/o.h5ad: ", "there is no folder", "make it first"],
    ),
    (lambda f: cf.export_h5ad(3, f / "o.h5ad"), ["cells", "3"]),
    (
        lambda f: cf.convert_to_shards(f / "atlas_0.h5ad", f / "shards"),
        ["shards: holds finished shards", "overwrite=True"],
    ),
    (
        lambda f: cf.convert_to_shards(f / "atlas_0.h5ad", f / "new", shard_size=1e5),
        ["shard_size", "100000.0", "write 100000"],
    ),
    (
        lambda f: cf.convert_to_shards(f / "atlas_0.h5ad", f / "new", layout="pack"),
        ["layout", "'pack'", 'did you mean "packed"?'],
    ),
    (lambda f: cf.info(3), ["path", "3"]),
    (lambda f: cf.info(f / "atlas_0.h5ad", layer=None), ["layer", "None"]),
]


@pytest.mark.parametrize(("call", "words"), FILES)
def test_whole_files(folder, call, words):
    message = message_of(lambda: call(folder))
    for word in words:
        assert word in message
    assert ".tmp-" not in message and "HDF5" not in message
    assert not (folder / "o.h5ad").exists() and not (folder / "new").exists()


def test_an_unfinished_conversion_is_continued_in_words_of_python(folder, tmp_path):
    target = tmp_path / "half"

    def stop(phase, done, total, rate):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cf.convert_to_shards(folder / "atlas_0.h5ad", target, shard_size=1, progress=stop)
    if not (target / "shard_metadata.json").exists():
        message = message_of(lambda: cf.convert_to_shards(folder / "atlas_0.h5ad", target))
        assert "resume=True" in message and "overwrite=True" in message
        assert "--" not in message


def test_a_folder_that_may_not_be_written_to(folder, tmp_path):
    tmp_path.chmod(0o555)
    # Root may write everywhere but to what the kernel shows.
    target = pathlib.Path("/proc") if os.geteuid() == 0 else tmp_path
    message = message_of(lambda: cf.simulate(folder / "atlas_0.h5ad", 5, target / "o.h5ad"))
    assert "no file can be made in" in message and ".tmp-" not in message


def test_a_path_that_is_not_utf8_is_read(folder, tmp_path):
    path = os.path.join(tmp_path, os.fsdecode(b"\xff\xfe.h5ad"))
    make_anndata().write_h5ad(tmp_path / "plain.h5ad")
    os.rename(tmp_path / "plain.h5ad", path)
    cells = cf.open(path)
    assert cells.files[0]["path"] == path
    assert len(cells[:]) == 60
    assert cf.info(path)["n_cells"] == 60
    message = message_of(lambda: cf.convert_to_shards(path, tmp_path / "shards"), ValueError)
    assert "UTF-8" in message and "rename" in message
    cf.convert_to_shards(folder / "atlas_0.h5ad", os.path.join(tmp_path, os.fsdecode(b"\xfe")))


def test_a_mistyped_name_of_the_module():
    with pytest.raises(AttributeError, match="BlockShufling") as caught:
        cf.BlockShufling  # noqa: B018
    assert 'did you mean "BlockShuffling"?' in str(caught.value)


PROGRAM = [
    (["simulate", "--like", "atlas_0.h5ad", "--output", "o.h5ad", "--cells", "0"], 2, ["'0'"]),
    (
        ["simulate", "--like", "atlas_0.h5ad", "--output", "o.h5ad", "--cells", "10k"],
        2,
        ["--cells", "whole number of at least 1", "'10k'", "10000"],
    ),
    (
        ["shard", "atlas_0.h5ad", "--output-dir", "new", "--shard-size", "1e5"],
        2,
        ["--shard-size", "'1e5'", "100000"],
    ),
    (["shrad", "atlas_0.h5ad"], 2, ["'shrad'", "did you mean 'shard'?", "simulate"]),
    (["shard", "atlas_0.h5ad", "--outptu-dir", "new"], 2, ["did you mean --output-dir?"]),
    (["export", "shards", "--output", "none/o.h5ad"], 1, ["none/o.h5ad", "no folder 'none'"]),
    (["info", "ftp://host/a.h5ad"], 1, ["ftp://host/a.h5ad", "known: local", "s3://"]),
    (["plan", "atlas_0.h5ad", "--label", "cell_typ"], 1, ["did you mean 'cell_type'?"]),
    (["shard", "atlas_0.h5ad", "--output-dir", "shards"], 1, ["--overwrite"]),
    (["export", "shards", "--output", "atlas_0.h5ad"], 1, [": atlas_0.h5ad: exists already"]),
    (["verify", "nosuch"], 1, [": nosuch: there is no such directory"]),
    (["verify", "."], 1, ["not a shard directory"]),
]


@pytest.mark.parametrize(("arguments", "code", "words"), PROGRAM)
def test_program(folder, arguments, code, words):
    run = subprocess.run(
        [sys.executable, "-m", "cellfeed", *arguments],
        cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert run.returncode == code
    assert run.stdout == "" and run.stderr.startswith("cellfeed: error: ")
    assert run.stderr.count("\n") == 1 and "e+" not in run.stderr and len(run.stderr) < 300
    for word in words:
        assert word in run.stderr
