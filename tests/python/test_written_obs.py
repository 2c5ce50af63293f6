"""Columns of obs that are written: those that were chosen, by every writer and its program."""

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
from program import run
from small_atlas import make_anndata

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, LeftOutWarning, NoSuchKeyError, UnsupportedError


@pytest.fixture
def path(tmp_path):
    """Columns cell_type, donor, depth, and one that cannot be read."""
    cells = make_anndata()
    del cells.layers["counts"]
    cells.write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file["obs/phase"] = np.zeros(60, "c16")
        names = [*file["obs"].attrs["column-order"], "phase"]
        file["obs"].attrs["column-order"] = np.array(names, dtype=h5py.string_dtype())
    return tmp_path / "a.h5ad"


def shards(source, output, **options):
    return cf.convert_to_shards(source, output, **options)


def appended(source, output, **options):
    with pytest.warns(UserWarning):  # the column that is left out; the cells are there twice
        made = cf.convert_to_shards(source, output, **options)
        cf.append_to_shards(source, made, force=True, **options)
    return made


def exported(source, output, **options):
    return cf.export_h5ad(source, f"{output}.h5ad", **options)


def processed(source, output, **options):
    return cf.preprocess(source, f"{output}.h5ad", batch_key="donor", n_top_genes=5, **options)


def texts_of(column: pd.Series) -> list[str]:
    """Values as text, missing ones alike in all releases of pandas."""
    return ["missing" if pd.isna(value) else str(value) for value in column]


@pytest.mark.parametrize("write", [shards, appended, exported, processed])
@pytest.mark.parametrize("given", ["files", "cells"])
def test_chosen_columns_are_written(path, tmp_path, write, given):
    source = path if given == "files" else cf.open(path)[3:50]
    whole = make_anndata().obs if given == "files" else make_anndata().obs[3:50]
    for number, (options, names) in enumerate(
        [
            ({"obs": ["depth", "cell_type"]}, ["cell_type", "depth"]),
            ({"exclude_obs": ["depth", "phase"]}, ["cell_type", "donor"]),
        ]
    ):
        cells = cf.open(write(source, tmp_path / f"{write.__name__}{number}", **options))
        obs = cells.obs.df
        # Shards say where each cell is from.
        assert sorted(name for name in obs if not name.startswith("_source_")) == names
        for name in names:
            found = obs[name][: len(whole)]
            assert texts_of(found) == texts_of(whole[name])


@pytest.mark.parametrize("write", [shards, exported, processed])
def test_columns_that_are_not_there_or_cannot_be_read_are_named(path, tmp_path, write):
    for options, kind, said in [
        ({"obs": ["dept"]}, NoSuchKeyError, r"no obs column 'dept'; did you mean 'depth'"),
        ({"exclude_obs": "dept"}, NoSuchKeyError, r"no obs column 'dept'"),
        ({"obs": ["phase"]}, UnsupportedError, "obs/phase"),
        ({"obs": ["depth"], "exclude_obs": ["donor"]}, InvalidArgumentError, "not both"),
        ({"obs": []}, InvalidArgumentError, "obs is an empty list"),
    ]:
        with pytest.raises(kind, match=said):
            write(path, tmp_path / "out", **options)
    with pytest.warns(LeftOutWarning, match="obs/phase"):
        write(path, tmp_path / "all")


def test_the_program_takes_them_too(path, tmp_path):
    run("shard", path, "--output-dir", tmp_path / "s", "--obs", "depth", "--obs", "donor")
    assert [*cf.open(tmp_path / "s").obs][:2] == ["donor", "depth"]
    run("export", tmp_path / "s", "--output", tmp_path / "b.h5ad", "--exclude-obs", "depth")
    assert list(anndata.read_h5ad(tmp_path / "b.h5ad").obs) == ["donor"]
    said = run(
        "shard", path, "--output-dir", tmp_path / "t", "--obs", "a", "--exclude-obs", "b", code=1
    )
    assert "give one of the two" in said


def test_texts_are_missing_as_pandas_had_it(tmp_path):
    adata = make_anndata(6)
    texts = ["a", None, "b", None, "a", "c"]
    adata.obs["na"] = pd.array(texts, "string")
    adata.obs["nan"] = pd.array(["x"] * 6, "string")
    adata.strings_to_categoricals = lambda *_: None
    path = tmp_path / "a.h5ad"
    with anndata.settings.override(allow_write_nullable_strings=True):
        adata.write_h5ad(path, convert_strings_to_categoricals=False)
    with h5py.File(path, "r+") as file:  # as of pandas' `str`, where the other is its `string`
        file["obs/nan"].attrs["na-value"] = "NaN"
    cf.convert_to_shards(path, tmp_path / "shards")
    for given in (path, tmp_path / "shards"):
        made = cf.export_h5ad(given, tmp_path / f"{given.stem}_out.h5ad")
        with h5py.File(made) as file, h5py.File(path) as source:
            for name in ("na", "nan"):
                got, wanted = (dict(where["obs"][name].attrs) for where in (file, source))
                assert {"na-value": "NA", **got} == {"na-value": "NA", **wanted}, name
        found = cf.open(made).obs_table().to_pandas()["na"]
        assert [None if pd.isna(text) else text for text in found] == texts
