"""Scores are of the model of this run: of its own best weights, of the same masks in every pass."""

import logging
import os
import shutil
from pathlib import Path

import anndata
import numpy as np
import pytest
import torch
from training_atlas import merged, write_atlas, write_config

from cellfeed.errors import InvalidArgumentError
from cellfeed.training import CellDataModule, load, train
from cellfeed.training._checkpoints import Checkpoints

BEST, LAST = (Path(f"runs/run/checkpoints/{name}.ckpt") for name in ("best", "last"))
REPORT = Path("runs/run/report.json")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:.*isinstance\\(treespec.*:FutureWarning", "ignore:.*weights_only.*"
    ),
]
TEST = {"split": {"val": 0.25, "test": 0.25}}
SHARES = {"train": 0.5, "val": 0.25, "test": 0.25}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    return write_atlas("atlas.h5ad")


def run(data=None, resume=None, model=None, tokenizer=None, **training):
    changes = {"data": data or TEST, "training": training}
    changes |= {"model": model or {}, "tokenizer": tokenizer or {}}
    write_config("run.yaml", **changes)
    return train("run.yaml", resume=resume, progress=False)


def accuracy(checkpoint, split=SHARES):
    cells = CellDataModule("atlas.h5ad", split=split)
    cells.setup()
    said = load(checkpoint).predict(cells.parts["test"]).obs
    return (said["predicted_kind"].astype(str) == said["kind"].astype(str)).mean()


def kept_apart(monkeypatch):
    """Copies of all checkpoints of a run, by step."""
    save = Checkpoints._save

    def save_and_keep(self, trainer, path):
        save(self, trainer, path)
        shutil.copy(path, f"{trainer.global_step}.{path.name}")

    monkeypatch.setattr(Checkpoints, "_save", save_and_keep)


def test_a_run_that_begins_afresh_takes_nothing_of_the_one_before():
    # As after a kill between the first best.ckpt and the first last.ckpt.
    run(num_epochs=1, learning_rate=1e-9)
    LAST.unlink()
    report = run({"split": {"val": 0, "test": 0.25}}, resume="auto", num_epochs=8)
    right = accuracy(LAST, {"train": 0.75, "test": 0.25})
    assert report["scores"]["test"]["accuracy"] == pytest.approx(right)
    assert right > 0.8 and not BEST.exists()  # who loads it means this run's


def test_best_weights_of_steps_that_were_lost_are_not_those_of_the_run(monkeypatch):
    # best.ckpt is newer than last.ckpt, and the run goes on otherwise than it did.
    kept_apart(monkeypatch)
    run(num_epochs=2, learning_rate=0.02)
    shutil.copy("8.last.ckpt", LAST)  # of the first epoch
    report = run(resume="auto", num_epochs=2, learning_rate=1e-9)
    losses = [row["val_loss"] for row in report["history"] if "val_loss" in row]
    assert report["scores"]["val"]["loss"] == pytest.approx(losses[-1])
    assert torch.load(BEST, weights_only=True)["global_step"] == report["steps"] == 16
    assert report["scores"]["test"]["accuracy"] == pytest.approx(accuracy(BEST))


def test_a_damaged_best_checkpoint_is_named_and_made_anew():
    run(num_epochs=1)
    BEST.write_bytes(BEST.read_bytes()[:-200])
    with pytest.warns(UserWarning, match=r"best\.ckpt: is damaged"):
        report = run(resume="auto", num_epochs=2)
    assert report["scores"]["test"]["accuracy"] == pytest.approx(accuracy(BEST))


TOKENS = {"architecture": "transformer_encoder", "d_model": 8, "n_layers": 1, "n_heads": 2}


@pytest.mark.parametrize(
    ("tokens", "objective"),
    [
        ("binned", "classification"),
        ("rank_value", "masked_genes"),
        ("binned", "both"),
        (None, None),
    ],
)
def test_every_pass_over_cells_that_are_judged_hides_the_same(tokens, objective):
    chosen = {"model": TOKENS, "tokenizer": {"strategy": tokens, "max_length": 16}}
    settings = {"num_epochs": 3, "objective": objective, **(chosen if tokens else {})}
    settings["learning_rate"] = 0.5  # the best epoch is not the last
    if objective == "masked_genes":
        settings["label_key"] = None
    report = run(**settings)
    losses = [row["val_loss"] for row in report["history"] if "val_loss" in row]
    assert report["scores"]["val"]["loss"] == pytest.approx(min(losses), rel=1e-6)
    before = REPORT.read_text()
    for _ in range(2):
        run(resume="auto", **settings)
        assert REPORT.read_text() == before


def test_passes_of_a_data_module_in_order_are_of_one_epoch():
    run(model=TOKENS, tokenizer={"strategy": "binned", "max_length": 16}, num_epochs=1)
    data = CellDataModule.from_config("run.yaml")
    data.setup()
    specification = load(LAST).specification
    data.feed(specification, 0.3)
    for loader in (data.val_dataloader(), data.test_dataloader(), data.predict_dataloader()):
        first, second = list(loader), list(loader)
        loader.set_epoch(7)
        for one, *others in zip(first, second, list(loader), strict=True):
            for other in others:
                np.testing.assert_array_equal(one.values, other.values)
    training = data.train_dataloader()
    epochs = [next(iter(training)).index.tolist() for _ in range(2)]
    assert epochs[0] != epochs[1]


def test_whole_models_in_float16_train():
    for architecture in ("mlp", "transformer_encoder"):
        shutil.rmtree("runs", ignore_errors=True)
        model = merged(TOKENS, {"architecture": architecture})
        report = run(model=model, precision="16-true", num_epochs=4)
        losses = [row["train_loss"] for row in report["history"]]
        assert np.isfinite(losses).all() and losses[-1] < losses[0]


def test_an_infinite_loss_of_float16_names_the_precision(folder):
    cells = folder.copy()
    cells.X.data[:] = 1e9
    cells.write_h5ad("atlas.h5ad")
    with pytest.raises(InvalidArgumentError, match=r"training\.precision 16-true end at 65,504"):
        run({"preprocessing": None, **TEST}, precision="16-true")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine with a GPU")
def test_mixed_float16_is_refused_on_a_cpu():
    with pytest.raises(InvalidArgumentError, match=r"'16-mixed' is for GPUs.*bf16-mixed or 32-tr"):
        run(precision="16-mixed")
    assert not os.path.exists("runs")


def test_more_devices_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InvalidArgumentError, match=r"2 devices .* PyTorch sees 1: .*num_devices"):
        run(num_devices=2)
    assert not os.path.exists("runs")


def test_cells_without_a_group_are_said_with_a_setting(folder):
    donor = folder.obs["donor"].astype(object)
    donor.iloc[[3, 8]] = None
    folder.obs["donor"] = donor.astype("category")
    folder.write_h5ad("atlas.h5ad")
    assert anndata.read_h5ad("atlas.h5ad").obs["donor"].isna().sum() == 2
    said = r"2 cells, the first of them cell 3, have no label in .*'donor', of data\.split\.by.*"
    with pytest.raises(InvalidArgumentError, match=said + r"data\.split\.column"):
        run({"split": {"val": 0.25, "by": "donor"}})
    # As it says.
    folder.obs["part"] = np.where(folder.obs["donor"] == "d0", "val", "train")
    folder.obs.loc[folder.obs["donor"].isna(), "part"] = None
    folder.write_h5ad("atlas.h5ad")
    report = run({"split": {"column": "part", "val": None}}, num_epochs=1)
    assert sum(report["n_cells"].values()) == 238
