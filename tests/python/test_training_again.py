"""Runs that end, go on and are asked for again; models that are used otherwise than trained."""

import csv
import errno
import logging
import os
import shutil
from pathlib import Path

import anndata
import numpy as np
import pytest
import scanpy
import torch
from training_atlas import merged, weights_of, write_atlas, write_config

import cellfeed as cf
from cellfeed.errors import AlreadyExistsError, InvalidArgumentError
from cellfeed.training import CellDataModule, load, train
from cellfeed.training._run_folder import RunFolder
from cellfeed.training._whole_file import whole_file

BEST, LAST = (f"runs/run/checkpoints/{name}.ckpt" for name in ("best", "last"))
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:.*isinstance\\(treespec.*:FutureWarning", "ignore:.*weights_only.*"
    ),
]
TOKENS = {
    "model": {"architecture": "transformer_encoder", "d_model": 8, "n_layers": 1, "n_heads": 2},
    "tokenizer": {"strategy": "rank_value", "max_length": 8},
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    write_atlas("atlas.h5ad")


def run(changes=None, resume=None, name="run", **training):
    write_config("run.yaml", **merged(changes or {}, {"training": training}))
    return train("run.yaml", name=name, resume=resume, progress=False)


def epochs_of(path="runs/run/metrics.csv"):
    with open(path, newline="") as file:
        return [int(row["epoch"]) for row in csv.DictReader(file) if row["val_loss"]]


def test_a_test_takes_no_epoch_out_of_the_history():
    # A rate at which the best epoch is one of the first.
    report = run({"data": {"split": {"test": 0.1}}}, num_epochs=6, learning_rate=0.5)
    losses = [row["val_loss"] for row in report["history"] if "val_loss" in row]
    assert int(np.argmin(losses)) < 5 and len(losses) == 6
    assert epochs_of() == list(range(6))


def test_scores_are_of_the_best_epoch():
    settings = {"num_epochs": 6, "learning_rate": 0.5}
    report = run({"data": {"split": {"test": 0.1}}}, **settings)
    losses = [row["val_loss"] for row in report["history"] if "val_loss" in row]
    assert losses[-1] > min(losses)
    assert report["scores"]["val"]["loss"] == pytest.approx(min(losses))
    for part in ("val", "test"):
        cells = CellDataModule("atlas.h5ad", split={"train": 0.65, "val": 0.25, "test": 0.1})
        cells.setup()
        said = load(BEST).predict(cells.parts[part]).obs
        right = (said["predicted_kind"].astype(str) == said["kind"].astype(str)).mean()
        assert report["scores"][part]["accuracy"] == pytest.approx(right)
    # So it is of a run that is asked for again.
    again = run({"data": {"split": {"test": 0.1}}}, resume="auto", **settings)
    assert again["scores"] == report["scores"] and epochs_of() == list(range(6))


def test_a_run_that_stopped_early_is_over():
    early = {"num_epochs": 30, "learning_rate": 0.5, "early_stopping_patience": 1}
    first = run(**early)
    weights, epochs = weights_of(LAST), epochs_of()
    assert first["epochs"] < 30
    for _ in range(2):
        again = run(resume="auto", **early)
        assert again["epochs"] == first["epochs"] and epochs_of() == epochs
        assert all(torch.equal(value, weights[name]) for name, value in weights_of(LAST).items())
        assert again["scores"]["val"]["loss"] == pytest.approx(first["scores"]["val"]["loss"])


def test_fewer_epochs_than_were_done_are_named():
    run(num_epochs=2)
    with pytest.raises(InvalidArgumentError, match=r"has done 2 epochs, and .*num_epochs is 1"):
        run(resume="auto", num_epochs=1)
    assert run(resume="auto", num_epochs=2)["epochs"] == 2


def test_a_run_goes_on_in_another_folder_with_a_best_of_its_own():
    split = {"data": {"split": {"test": 0.1}}}
    run(split, num_epochs=3)
    shutil.copy(BEST, "first.ckpt")
    # Too small a rate to become better.
    report = run(split, resume="first.ckpt", name="other", num_epochs=5, learning_rate=1e-12)
    assert report["epochs"] == 5 and set(report["scores"]) == {"val", "test"}
    assert Path("runs/other/checkpoints/best.ckpt").is_file()
    # One that is over brings no best weights along: the last are tested, and are kept.
    shutil.copy("runs/other/checkpoints/last.ckpt", "last.ckpt")
    over = run(split, resume="last.ckpt", name="over", num_epochs=5, learning_rate=1e-12)
    assert set(over["scores"]) == {"val", "test"}
    again = run(split, resume="auto", name="over", num_epochs=5, learning_rate=1e-12)
    assert again["steps"] == over["steps"]
    # Nor does it go on among what is another run's.
    with pytest.raises(AlreadyExistsError, match="runs/run holds a run"):
        run(split, resume="last.ckpt", num_epochs=6)


def test_epochs_that_were_begun_count():
    def stop():
        raise RuntimeError("killed")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError, match="killed"):
        # 12 steps an epoch, and a checkpoint of the 27th.
        patch.setattr("cellfeed.training._history.History.on_train_batch_end", after(27, stop))
        run(num_epochs=4)
    with pytest.raises(InvalidArgumentError, match="has done 2 epochs and begun another"):
        run(resume="auto", num_epochs=2)
    assert run(resume="auto", num_epochs=3)["epochs"] == 3


def after(step, call):
    def hook(self, trainer, *_):
        if trainer.global_step > step:
            call()

    return hook


def test_a_run_that_another_process_trained_meanwhile_is_not_begun_again(monkeypatch):
    from cellfeed.training import _training

    specified = _training._specified

    def slowly(*arguments):
        monkeypatch.setattr(_training, "_specified", specified)
        run(resume="auto", num_epochs=2)
        return specified(*arguments)

    monkeypatch.setattr(_training, "_specified", slowly)
    with pytest.raises(AlreadyExistsError, match="another process trained this run meanwhile"):
        run(resume="auto", num_epochs=1)
    assert epochs_of() == [0, 1]


def test_two_processes_do_not_train_one_run():
    run(num_epochs=1)
    with (
        RunFolder("runs", "run").held("auto", Path(LAST)),
        pytest.raises(AlreadyExistsError, match=r"runs/run: a process \(\d+\) trains this run"),
    ):
        run(resume="auto", num_epochs=2)
    assert run(resume="auto", num_epochs=2)["epochs"] == 2


def test_the_lock_is_no_reason_to_fail(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        assert run(num_epochs=1)["epochs"] == 1
    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", refuse)
        with pytest.warns(UserWarning, match=r"runs/run/\.lock: cannot be locked"):
            assert run(resume="auto", num_epochs=2)["epochs"] == 2
    lock = Path("runs/run/.lock")
    lock.chmod(0o444)
    opened = os.open

    def of_another_user(path, flags, *more, **options):
        if Path(path).name == ".lock" and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", of_another_user)
    assert run(resume="auto", num_epochs=3)["epochs"] == 3


def test_ctrl_c_in_the_middle_of_a_write_is_no_full_disk(tmp_path):
    def write():
        with whole_file(tmp_path / "file"):
            try:
                raise KeyboardInterrupt
            finally:
                raise RuntimeError("unexpected pos 64 vs 0")  # as torch ends its archive

    with pytest.raises(KeyboardInterrupt):
        write()
    assert not list(tmp_path.glob(".file*"))


@pytest.mark.parametrize("precision", ["bf16-true", "64-true"])
@pytest.mark.parametrize("tokens", [None, "continuous", "binned"])
def test_whole_models_of_another_precision(precision, tokens):
    changes = merged(TOKENS, {"tokenizer": {"strategy": tokens}}) if tokens else {}
    report = run(changes, num_epochs=1, precision=precision)
    assert np.isfinite(report["scores"]["val"]["loss"])
    assert len(load(BEST).predict("atlas.h5ad")) == 240


@pytest.mark.filterwarnings("ignore::cellfeed.errors.MissingGenesWarning")
@pytest.mark.parametrize("strategy", ["rank_value", "binned", "continuous"])
def test_tokens_of_an_open_collection_are_those_of_its_files(strategy):
    run(merged(TOKENS, {"tokenizer": {"strategy": strategy}}), num_epochs=2)
    model = load(BEST)
    cells = anndata.read_h5ad("atlas.h5ad")
    others = np.random.default_rng(1).permutation(40)[:37]  # another order, and three are absent
    more = anndata.AnnData(cells.X[:, :2], obs=cells.obs)
    more.var_names = ["other0", "other1"]
    anndata.concat([cells[:, others], more], axis=1, merge="first").write_h5ad("others.h5ad")
    vectors = model.embed("others.h5ad").obsm["X_cellfeed"]
    np.testing.assert_array_equal(model.embed(cf.open("others.h5ad")).obsm["X_cellfeed"], vectors)


def test_values_that_scanpy_processed_are_taken_as_they_are_where_it_is_forced():
    run(num_epochs=1)
    model = load(BEST)
    cells = anndata.read_h5ad("atlas.h5ad")
    scanpy.pp.normalize_total(cells, target_sum=1e4)
    scanpy.pp.log1p(cells)
    cells.write_h5ad("processed.h5ad")
    with pytest.raises(InvalidArgumentError, match="Give it raw counts; or force it"):
        model.predict("processed.h5ad")
    forced = model.embed("processed.h5ad", force=True).obsm["X_cellfeed"]
    np.testing.assert_allclose(forced, model.embed("atlas.h5ad").obsm["X_cellfeed"], atol=1e-5)


def test_a_bad_value_is_named_by_its_file_and_row():
    second = write_atlas("second.h5ad", n_cells=3000, seed=1)
    dense = second.X.toarray()
    dense[2501] = 0
    dense[2501, 7] = np.nan
    anndata.AnnData(dense, obs=second.obs, var=second.var).write_h5ad("second.h5ad")
    cells = cf.open(["atlas.h5ad", "second.h5ad"])
    part = cells[np.arange(len(cells) - 1, 100, -2)]
    assert 240 + 2501 in np.arange(len(cells) - 1, 100, -2)
    loader = cf.Loader(part, cf.BlockShuffling(), 64, transforms=[cf.NormalizeTotal()])
    with pytest.raises(InvalidArgumentError, match=r"second\.h5ad: row 2501: NormalizeTotal needs"):
        list(loader)
    tokens = cf.RankTokens(cf.data.GeneVocab.from_genes(list(cells.var_names)), max_length=8)
    with pytest.raises(InvalidArgumentError, match=r"second\.h5ad: row 2501: tokens are made of"):
        list(cf.Loader(part, cf.BlockShuffling(), 64, output="tokens", tokens=tokens))


def test_a_data_module_goes_on_with_its_parts_alone(tmp_path):
    from lightning.pytorch import LightningModule, Trainer

    class Model(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(40, 1)

        def training_step(self, batch, _):
            return self.layer(batch["X"]).mean()

        def validation_step(self, batch, _):
            self.log("val_loss", self.layer(batch["X"]).mean(), batch_size=len(batch))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def data(seed):
        return CellDataModule(
            "atlas.h5ad", batch_size=16, split={"train": 0.7, "val": 0.3}, split_seed=seed,
            output="dense",
        )  # fmt: skip

    def trainer(epochs):
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
        return Trainer(
            max_epochs=epochs, accelerator="cpu", default_root_dir=tmp_path,
            enable_checkpointing=False, **quiet,
        )  # fmt: skip

    one = trainer(1)
    one.fit(Model(), datamodule=data(0))
    one.save_checkpoint("end.ckpt")
    trainer(2).fit(Model(), datamodule=data(0), ckpt_path="end.ckpt", weights_only=True)
    with pytest.raises(InvalidArgumentError, match="divides the cells otherwise: it was trained"):
        trainer(2).fit(Model(), datamodule=data(1), ckpt_path="end.ckpt", weights_only=True)
    trainer(2).validate(Model(), datamodule=data(1), ckpt_path="end.ckpt", weights_only=True)


def test_devices_columns_and_names_that_do_not_fit_are_named():
    run(num_epochs=1)
    for device in ("cuda", "nowhere"):
        if device == "cuda" and torch.cuda.is_available():
            continue
        with pytest.raises(InvalidArgumentError, match="device: .*" + device):
            load(BEST, device)
    model = load(BEST)
    predicted = model.predict("atlas.h5ad").obs["predicted_kind"]
    cells = anndata.read_h5ad("atlas.h5ad")
    cells.obs["predicted_kind"] = "x"
    cells.write_h5ad("again.h5ad")
    with pytest.warns(UserWarning, match="obs column 'predicted_kind' already"):
        again = model.predict("again.h5ad").obs["predicted_kind"]
    assert again.tolist() == predicted.tolist()
