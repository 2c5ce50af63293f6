"""Configuration files, by the program and by Python."""

import json
import os
import pathlib
import re
import subprocess

import anndata
import jsonschema
import numpy as np
import pytest
import yaml
from program import PROGRAM, run
from test_cli_files import make_atlas

import cellfeed as cf
from cellfeed.data.vocab import GeneVocab
from cellfeed.errors import (
    CellfeedError,
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
)

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def write(path, text):
    path.write_text(text)
    return path


def leaves(schema, prefix=""):
    for name, part in schema["properties"].items():
        if "properties" in part:
            yield from leaves(part, f"{prefix}{name}.")
        else:
            yield prefix + name, part


def test_the_schema_is_a_schema_and_knows_every_setting(tmp_path):
    schema = cf.Config.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema == json.loads(run("config", "--schema"))
    config = cf.Config.load(write(tmp_path / "a.yaml", "data: {source: local}"))
    assert [name for name, _ in leaves(schema)] == list(config)
    for name, part in leaves(schema):
        assert config[name] == part.get("default"), name


@pytest.mark.parametrize(
    "text",
    ["data: {sorce: local}", "data: {streaming: 'yes'}", "training: {batch_size: 0}", "data: 1",
     "training: {batch_size: 1.5}", "data: {source: remote}", "data: {paths: []}", "bath: 1",
     "data: {preprocessing: {target_sum: 0}}", "data: {vocab: {path: ''}}"],
)  # fmt: skip
def test_what_the_schema_refuses_is_refused(text, tmp_path):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), cf.Config.schema())
    with pytest.raises(InvalidArgumentError, match=r"a\.yaml: line 1, column \d+: "):
        cf.Config.load(write(tmp_path / "a.yaml", text))


def test_sections_and_settings_are_attributes_and_keys(tmp_path):
    text = "data: {paths: [x.h5ad]}\ntraining: {sampling: {strategy: weighted, label_key: kind}}\n"
    config = cf.Config.load(write(tmp_path / "a.yaml", text))
    assert config.training.sampling.label_key == "kind" == config["training.sampling.label_key"]
    assert config["training"]["sampling"]["strategy"] == "weighted"
    assert config.data.paths == ["x.h5ad"] and config.data.vocab.path is None
    assert config.training.batch_size == 64 and config.data.preprocessing.target_sum == 1e4
    sampling = {"training.sampling.strategy", "training.sampling.label_key"}
    assert config.given == {"data.paths", *sampling}
    config.data.paths.append("y")
    assert config.data.paths == ["x.h5ad"]
    with pytest.raises(AttributeError, match=r"'training.batch_sise'; did you mean .batch_size"):
        config.training.batch_sise  # noqa: B018
    with pytest.raises(KeyError, match="did you mean"):
        config["training.batch_sise"]
    assert config.show() == run("config", tmp_path / "a.yaml", "--show")
    assert dict(config.training.sampling) == {
        "strategy": "weighted", "label_key": "kind", "curriculum_warmup_epochs": 0,
    }  # fmt: skip


def test_what_is_shown_is_read_again_as_the_same(tmp_path):
    text = "data: {paths: ['a b', \"c:\\u00e9\"], streaming: true, preprocessing: {}}\n"
    config = cf.Config.load(write(tmp_path / "a.yaml", text))
    again = cf.Config.load(write(tmp_path / "b.yaml", config.show()))
    assert dict(again) == dict(config)
    assert yaml.safe_load(config.show())["data"]["paths"] == ["a b", "c:é"]
    jsonschema.validate(yaml.safe_load(config.show()), cf.Config.schema())


def test_json_says_value_unit_and_why_a_setting_has_no_effect(tmp_path):
    write(tmp_path / "a.yaml", "training: {batch_size: 32}")
    found = json.loads(run("config", tmp_path / "a.yaml", "--json"))["settings"]
    assert found["training.batch_size"] == {
        "value": 32, "unit": "cells", "is_given": True, "unused": "",
    }  # fmt: skip
    assert found["data.streaming_chunk_size"]["unused"] == "data.streaming is false"


def test_files_that_are_none(tmp_path):
    with pytest.raises(NotFoundError):
        cf.Config.load(tmp_path / "missing.yaml")
    with pytest.raises(CellfeedError):
        cf.Config.load(tmp_path)
    with pytest.raises(CorruptDataError, match="1048576"):
        cf.Config.load(write(tmp_path / "large.yaml", " " * (1 << 20) + "\n"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CellfeedError, match="not a regular file"):
        cf.Config.load(tmp_path / "pipe")
    with pytest.raises(TypeError):
        cf.Config.load(3)
    (tmp_path / "latin.yaml").write_bytes("data: {paths: [é]}".encode("latin-1"))
    with pytest.raises(InvalidArgumentError, match="line 1, column 16: byte 0xe9 is not UTF-8"):
        cf.Config.load(tmp_path / "latin.yaml")


def test_anchors_that_would_fill_the_memory_are_refused(tmp_path):
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40)
    )
    with pytest.raises(InvalidArgumentError, match="line 1, column"):
        cf.Config.load(write(tmp_path / "bomb.yaml", bomb))


def test_mistakes_of_the_command_line(tmp_path):
    assert "FILE is required" in run("config", code=2)
    assert "excludes" in run("config", write(tmp_path / "a", "data: {}"), "--schema", code=2)
    assert "cannot open" in run("config", tmp_path / "missing", code=1)
    error = run("config", write(tmp_path / "b", "data:\n  streming: true\n"), code=1)
    assert "line 2, column 3: data has no setting 'streming'; did you mean 'streaming'?" in error


@pytest.fixture
def atlas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_atlas(tmp_path / "a.h5ad", n_cells=300, seed=1)
    make_atlas(tmp_path / "b.h5ad", n_cells=200, seed=2)
    return tmp_path


def read_shards(path="shards"):
    subprocess.run(
        [PROGRAM, "export", path, "--output", "back.h5ad", "--overwrite", "--quiet"],
        check=True, capture_output=True,
    )  # fmt: skip
    return anndata.read_h5ad("back.h5ad")


def test_shard_takes_files_and_genes_from_the_configuration(atlas):
    write(atlas / "c.yaml", "data: {paths: [b.h5ad, a.h5ad], vocab: {n_genes: 50}}")
    run("shard", "--config", "c.yaml", "--output-dir", "shards", "--shard-size", 100)
    vocab = GeneVocab.from_adata(["b.h5ad", "a.h5ad"], n_genes=50)
    assert len(vocab.genes) == 50
    expected = anndata.concat(
        [anndata.read_h5ad(name)[:, vocab.genes] for name in ("b.h5ad", "a.h5ad")]
    )
    found = read_shards()
    assert list(found.var_names) == vocab.genes
    np.testing.assert_array_equal(found.X.toarray(), expected.X.toarray())


def test_shard_takes_a_vocabulary_from_a_file(atlas):
    names = list(anndata.read_h5ad("a.h5ad").var_names)
    GeneVocab({names[7]: 9, names[3]: 4, "unheard of": 5, names[90]: 100}).save("vocab.json")
    write(atlas / "c.yaml", "data: {paths: a.h5ad, vocab: {path: vocab.json}}")
    run("shard", "--config", "c.yaml", "--output-dir", "shards")
    assert list(read_shards().var_names) == [names[3], "unheard of", names[7], names[90]]
    write(atlas / "vocab.json", json.dumps([names[5], names[2], names[5]]))
    run("shard", "--config", "c.yaml", "--output-dir", "shards", "--overwrite")
    assert list(read_shards().var_names) == [names[5], names[2]]


@pytest.mark.parametrize(
    "content", ["3", "[", "{}", "[]", '{"A": 3}', '{"A": 4, "B": 4}', '{"A": 4.5}', "[1]"]
)
def test_a_file_that_is_no_vocabulary(content, atlas):
    write(atlas / "vocab.json", content)
    write(atlas / "c.yaml", "data: {paths: a.h5ad, vocab: {path: vocab.json}}")
    error = run("shard", "--config", "c.yaml", "--output-dir", "shards", code=1)
    assert "vocab.json: not a gene vocabulary" in error
    assert not (atlas / "shards").exists()


def test_inputs_of_the_command_line_come_before_those_of_the_configuration(atlas):
    write(atlas / "c.yaml", "data: {paths: [missing.h5ad]}")
    run("shard", "a.h5ad", "--config", "c.yaml", "--output-dir", "shards")
    assert read_shards().n_obs == 300
    error = run("shard", "--config", "c.yaml", "--output-dir", "others", code=1)
    assert "missing.h5ad" in error


def test_what_shard_cannot_do_it_refuses_by_name(atlas):
    def refused(text):
        write(atlas / "c.yaml", text)
        error = run("shard", "--config", "c.yaml", "--output-dir", "shards", code=1)
        assert not (atlas / "shards").exists()
        return error

    assert "no file system is known" in refused("data: {paths: ftp://b/a.h5ad}")
    assert "names no files to shard; give data.paths" in refused("data: {source: local}")
    assert "INPUT is required" in run("shard", "--output-dir", "shards", code=2)


def test_the_page_lists_every_setting_with_its_default():
    rows = re.findall(r"^\| `([a-z_.]+)` \| (.*?) \| (.*?) \| (.*?) \|$",
                      (DOCS / "configuration.md").read_text(), re.MULTILINE)  # fmt: skip
    documented = {name: default.strip("`") for name, default, _, _ in rows}
    schema = dict(leaves(cf.Config.schema()))
    assert list(documented) == list(schema)
    for name, default in documented.items():
        expected = schema[name].get("default", "")
        assert yaml.safe_load(default or "''") == expected, name
