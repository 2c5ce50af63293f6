"""Values and scores that are no numbers: named errors before or at the step, and whole reports."""

import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from program import run
from training_atlas import write_atlas, write_config

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError
from cellfeed.training import _checks, load, train
from cellfeed.training._program import _text
from cellfeed.training._report import _plain, write_report

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*isinstance\\(treespec.*:FutureWarning", "ignore:.*weights_only.*"
)
LAST = Path("runs/run/checkpoints/last.ckpt")


@pytest.fixture
def atlas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    return write_atlas("atlas.h5ad")


def parts(atlas, n_val=60):
    atlas.obs["part"] = np.where(np.arange(atlas.n_obs) < n_val, "val", "train")
    return {"preprocessing": None, "split": {"column": "part", "val": None}}


def quietly():
    return train("run.yaml", progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_named_with_their_cell_and_gene(atlas, value):
    data = parts(atlas)
    at = atlas.X.indptr[100]
    atlas.X.data[at] = value
    gene = atlas.var_names[atlas.X.indices[at]]
    atlas.write_h5ad("atlas.h5ad")
    write_config(data=data)
    with pytest.raises(
        InvalidArgumentError, match=rf"{value:g}, .*cell 100 of atlas\.h5ad, .*'{gene}'"
    ):
        quietly()
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [(lambda x: -x, "scaled"), (lambda x: np.log1p(x) + 5, "normalised or log-transformed")],
    ids=["negative", "fraction"],
)
def test_values_that_are_no_counts_are_named_with_their_file(atlas, change, said):
    other = atlas.copy()
    at = other.X.indptr[17]
    other.X.data[at] = change(other.X.data[at])
    other.obs_names = [f"other{n}" for n in range(other.n_obs)]
    other.write_h5ad("other.h5ad")
    write_config(data={"paths": ["atlas.h5ad", "other.h5ad"], "split": {"val": 0}})
    place = rf"other\.h5ad.* cell 17, gene '{other.var_names[other.X.indices[at]]}' holds .*"
    with pytest.raises(InvalidArgumentError, match=place + said):
        quietly()


def test_a_loss_that_is_no_number_ends_training_at_its_step(atlas, monkeypatch):
    # One cell that the look at some of them misses.
    monkeypatch.setattr(_checks, "_CELLS_LOOKED_AT", 2)
    data = parts(atlas)
    atlas.X.data[atlas.X.indptr[100]] = np.nan
    atlas.write_h5ad("atlas.h5ad")
    write_config(data=data, training={"checkpoint_every_n_steps": 1})
    with pytest.raises(InvalidArgumentError, match=r"the loss of step \d+ is nan.*NaN") as error:
        quietly()
    step = int(str(error.value).split("step ")[1].split()[0])
    if step > 1:  # what is there is of the step before, and whole
        kept = torch.load(LAST, weights_only=True)
        assert kept["global_step"] == step - 1
        assert all(torch.isfinite(value).all() for value in kept["state_dict"].values())
    else:
        assert not LAST.exists()


@pytest.mark.slow
def test_a_validation_loss_that_is_no_number_is_named(atlas, monkeypatch):
    monkeypatch.setattr(_checks, "_CELLS_LOOKED_AT", 2)
    data = parts(atlas)
    atlas.X.data[atlas.X.indptr[30]] = np.inf
    atlas.write_h5ad("atlas.h5ad")
    write_config(data=data)
    with pytest.raises(InvalidArgumentError, match=r"label_loss of the validation cells is nan"):
        quietly()


@pytest.mark.slow
@pytest.mark.parametrize("part", ["val", "test"])
def test_a_part_without_labels_is_named_before_the_first_step(atlas, part):
    data = parts(atlas)
    atlas.obs["part"] = atlas.obs["part"].replace("val", part)
    kind = atlas.obs["kind"].astype(object)
    kind.iloc[:60] = None
    atlas.obs["kind"] = pd.Categorical(kind)
    atlas.write_h5ad("atlas.h5ad")
    write_config(data=data)
    with pytest.raises(InvalidArgumentError, match=rf"none of the 60 cells of the part '{part}'"):
        quietly()
    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_label_that_no_training_cell_has_is_a_warning_that_names_it(atlas):
    data = parts(atlas)
    kind = atlas.obs["kind"].astype(str)
    kind.iloc[60:] = kind.iloc[60:].replace("NK", "B")
    atlas.obs["kind"] = pd.Categorical(kind)
    atlas.write_h5ad("atlas.h5ad")
    write_config(data=data, training={"num_epochs": 1})
    n = int((kind == "NK").sum())
    assert n > 0
    said = rf"no training cell has the label 'NK' of obs column 'kind', which {n} cells of .*'val'"
    with pytest.warns(UserWarning, match=said):
        report = quietly()
    assert report["scores"]["val"]["recall"][report["classes"].index("NK")] == 0


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_label_is_said_of_a_cell_whose_values_are_no_numbers(atlas, monkeypatch, value):
    write_config(data={"preprocessing": None}, training={"num_epochs": 1})
    quietly()
    monkeypatch.setattr(_checks, "_CELLS_LOOKED_AT", 2)
    atlas.X.data[atlas.X.indptr[100]] = value
    atlas.write_h5ad("odd.h5ad")
    for use in (load(LAST).predict, load(LAST).embed):
        with pytest.raises(InvalidArgumentError, match=r"no numbers of cell 100 \(1 such cells"):
            use("odd.h5ad", batch_size=64)


@pytest.mark.slow
def test_a_file_without_cells_is_named(atlas):
    atlas[:0].write_h5ad("empty.h5ad")
    write_config(training={"num_epochs": 1})
    quietly()
    for use in (load(LAST).predict, load(LAST).embed):
        for force in (False, True):
            with pytest.raises(InvalidArgumentError, match=r"empty\.h5ad: has no cells"):
                use("empty.h5ad", force=force)
            assert use(["empty.h5ad", "atlas.h5ad"], force=force).n_obs == atlas.n_obs
    said = run("predict", LAST, "empty.h5ad", "--output", "out.h5ad", code=1)
    assert said == "cellfeed: error: empty.h5ad: has no cells\n" and not Path("out.h5ad").exists()
    write_config(data={"paths": ["empty.h5ad"]})
    with pytest.raises(InvalidArgumentError, match=r"empty\.h5ad: has no cells"):
        train("run.yaml", name="again", progress=False)


@pytest.mark.slow
def test_a_report_has_null_for_what_is_no_number(atlas, tmp_path):
    write_config(training={"num_epochs": 1})
    report = quietly()
    report["history"][0]["train_loss"] = float("nan")
    report["history"][-1]["val_macro_f1"] = float("inf")
    report["scores"]["val"]["macro_f1"] = float("nan")
    plain = _plain(report)
    write_report(tmp_path, plain)
    read = json.loads((tmp_path / "report.json").read_text(), parse_constant=pytest.fail)
    assert read["history"][0]["train_loss"] is None and read["scores"]["val"]["macro_f1"] is None
    assert "nan" not in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_a_score_of_the_test_part_that_is_no_number_loses_no_report(atlas, monkeypatch):
    monkeypatch.setattr(_checks, "_CELLS_LOOKED_AT", 2)
    data = parts(atlas)
    atlas.obs.loc[atlas.obs_names[:20], "part"] = "test"
    atlas.X.data[atlas.X.indptr[10]] = np.nan
    atlas.write_h5ad("atlas.h5ad")
    write_config(data=data, training={"num_epochs": 1})
    report = quietly()
    assert report["scores"]["test"]["loss"] is None
    assert json.loads(Path("runs/run/report.json").read_text()) == report
    assert "test: loss that is no number" in _text(report)


@pytest.mark.slow
def test_a_data_module_prints(atlas):
    data = cf.training.CellDataModule("atlas.h5ad", 16, split={"train": 0.75, "val": 0.25})
    assert str(data) == "CellDataModule(not set up; batch_size=16)"
    data.setup()
    assert str(data) == repr(data) == "CellDataModule(train: 180, val: 60; batch_size=16)"
