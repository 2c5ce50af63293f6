"""``cellfeed train`` on one device: what is learned, written, resumed and refused."""

import csv
import json
import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
import torch
from program import run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from training_atlas import weights_of, write_atlas, write_config

import cellfeed as cf
from cellfeed.data.vocab import GeneVocab
from cellfeed.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
    NotFoundError,
    UnsupportedError,
)
from cellfeed.training import load, train
from cellfeed.training._checkpoints import Checkpoints
from cellfeed.training._module import rate_factor

CHECKPOINT = "runs/run/checkpoints/last.ckpt"
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*isinstance\\(treespec.*:FutureWarning", "ignore:.*weights_only.*"
)


@pytest.fixture
def atlas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    return write_atlas("atlas.h5ad")


def quietly(*arguments, **options):
    return train(*arguments, progress=False, **options)


def test_a_classifier_learns_and_its_scores_are_those_of_sklearn(atlas):
    write_config()
    report = quietly("run.yaml")
    scores = report["scores"]["val"]
    assert scores["macro_f1"] > 0.9 and report["steps"] == 3 * 12

    model = load(CHECKPOINT)
    data = cf.training.CellDataModule.from_config("run.yaml", output="dense")
    data.setup()
    val = model.predict(data.parts["val"])
    truth = np.asarray(val.obs["kind"].astype(str))
    said = np.asarray(val.obs["predicted_kind"].astype(str))
    names = ["B", "NK", "T"]
    expected = sklearn.metrics.confusion_matrix(truth, said, labels=names)
    np.testing.assert_array_equal(scores["confusion"], expected)
    assert scores["macro_f1"] == pytest.approx(
        sklearn.metrics.f1_score(truth, said, average="macro")
    )
    precision, recall, f1, n = sklearn.metrics.precision_recall_fscore_support(
        truth, said, labels=names
    )
    for name, values in (("precision", precision), ("recall", recall), ("f1", f1)):
        np.testing.assert_allclose(scores[name], values)
    assert scores["n_cells"] == n.sum() == report["n_cells"]["val"]


def test_the_folder_of_a_run_holds_metrics_and_a_report_without_network(atlas):
    write_config(data={"split": {"test": 0.1}})
    report = quietly("run.yaml", name="first")
    folder = Path("runs/first")
    assert json.loads((folder / "report.json").read_text()) == report
    page = (folder / "report.html").read_text()
    assert not re.search(r"https?:|<script|<link|src=", page)
    assert "Confusion matrix" in page and "<polyline" in page and "val_macro_f1" in page
    assert set(report["scores"]) == {"val", "test"}
    with open(folder / "metrics.csv") as file:
        rows = list(csv.DictReader(file))
    per_epoch = report["steps"] // 3
    steps = {*range(2, report["steps"] + 1, 2), per_epoch, 2 * per_epoch, 3 * per_epoch}
    assert [int(row["step"]) for row in rows] == sorted(steps)
    assert all(0 <= float(row["wait_share"]) <= 1 for row in rows)
    assert all(float(row["cells_per_second"]) > 0 for row in rows)
    assert {p.name for p in (folder / "checkpoints").iterdir()} == {"last.ckpt", "best.ckpt"}
    # Entropy of true random order, from a batch of a known make-up.
    loader = report["loader"]
    assert loader["label_entropy_bits"] == pytest.approx(
        loader["label_entropy_bits_at_random"], abs=0.1
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"accumulate_grad_batches": 2}, {"precision": "bf16-mixed"},
     {"sampling": {"strategy": "weighted", "label_key": "kind", "curriculum_warmup_epochs": 2}}],
    ids=["plain", "accumulated", "bf16", "weighted"],
)  # fmt: skip
def test_a_checkpoint_within_an_epoch_continues_bit_for_bit(atlas, monkeypatch, changes):
    write_config(training=changes)
    save = Checkpoints._save

    def save_and_keep(self, trainer, path):
        save(self, trainer, path)
        shutil.copy(path, f"{trainer.global_step}.{path.name}")

    monkeypatch.setattr(Checkpoints, "_save", save_and_keep)
    whole = quietly("run.yaml", name="whole")
    within = "15.last.ckpt" if "accumulate_grad_batches" not in changes else "9.last.ckpt"
    kept = torch.load(within, weights_only=True)
    assert kept["epoch"] == 1  # of 0, 1, 2
    resumed = quietly("run.yaml", name="resumed", resume=within)
    expected, found = (
        weights_of(f"runs/{name}/checkpoints/last.ckpt") for name in ("whole", "resumed")
    )
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(value, found[name]), name
    assert resumed["scores"] == whole["scores"]
    rows = [
        [{k: row[k] for k in row if k not in ("cells_per_second", "wait_share")} for row in rows]
        for rows in (whole["history"], resumed["history"])
    ]
    assert rows[0] == rows[1]


def test_resume_auto_begins_and_goes_on_and_ends(atlas):
    write_config(training={"num_epochs": 1})
    assert quietly("run.yaml", resume="auto")["epochs"] == 1
    with pytest.raises(AlreadyExistsError, match='resume="auto"'):
        quietly("run.yaml")
    write_config(training={"num_epochs": 2})
    report = quietly("run.yaml", resume="auto")
    assert report["epochs"] == 2 and len(report["history"]) == 12
    again = quietly("run.yaml", resume="auto")
    assert again["steps"] == report["steps"] and again["scores"] == report["scores"]


def test_early_stopping_and_the_schedule(atlas):
    write_config(training={"learning_rate": 1e-9, "num_epochs": 50, "early_stopping_patience": 2,
                           "warmup_ratio": 0})  # fmt: skip
    report = quietly("run.yaml")
    assert 3 <= report["epochs"] < 50
    factors = [rate_factor(step, 4, 20) for step in range(21)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0] and factors[4] == 1 and factors[20] == 0
    assert factors[12] == pytest.approx(0.5) and factors[4:] == sorted(factors[4:], reverse=True)


def test_vectors_and_labels_have_the_order_of_the_cells(atlas):
    write_config()
    quietly("run.yaml")
    model = load(CHECKPOINT)
    # By hand, from the weights.
    weights = {k.removeprefix("network."): v.numpy() for k, v in weights_of(CHECKPOINT).items()}
    x = atlas.X.toarray()
    x = np.log1p(x * (1e4 / x.sum(axis=1, keepdims=True)))
    for k in range(2):
        x = x @ weights[f"encoder.blocks.{k}.0.weight"].T + weights[f"encoder.blocks.{k}.0.bias"]
        x = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()
    logits = x @ weights["label_head.weight"].T + weights["label_head.bias"]
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    cells = cf.open("atlas.h5ad")
    order = np.random.default_rng(1).permutation(240)[:100]
    for given, rows in ((cells, np.arange(240)), (cells.filter(order), order),
                        ("atlas.h5ad", np.arange(240)), (atlas, np.arange(240))):  # fmt: skip
        made = model.embed(given, batch_size=32)
        np.testing.assert_allclose(made.obsm["X_cellfeed"], x[rows], rtol=1e-4, atol=1e-4)
        assert list(made.obs_names) == list(atlas.obs_names[rows])
        said = model.predict(given, batch_size=7).obs
        assert said["predicted_kind"].tolist() == [model.classes[k] for k in logits[rows].argmax(1)]
        np.testing.assert_allclose(said["predicted_kind_probability"], shares[rows].max(1),
                                   rtol=1e-4)  # fmt: skip
        assert said["donor"].tolist() == atlas.obs["donor"].iloc[rows].tolist()

    # Genes in another order, and one too many.
    wide = np.hstack([atlas.X.toarray(), np.zeros((240, 1), dtype=np.float32)])[:, ::-1].copy()
    var = pd.DataFrame(index=[*atlas.var_names, "extra"][::-1])
    other = anndata.AnnData(wide, obs=atlas.obs, var=var)
    np.testing.assert_allclose(model.embed(other).obsm["X_cellfeed"], x, rtol=1e-4, atol=1e-4)
    opened = cf.open(other)
    np.testing.assert_allclose(model.embed(opened).obsm["X_cellfeed"], x, rtol=1e-4, atol=1e-4)
    with pytest.raises(
        InvalidArgumentError, match=r"2 genes of the model are not .*genes=model.vo"
    ):
        model.embed(cells[:, 2:])


def test_a_model_refuses_values_of_another_kind(atlas):
    write_config()
    quietly("run.yaml")
    model = load(CHECKPOINT)
    logs = atlas.copy()
    logs.X.data = np.log1p(logs.X.data)
    with pytest.raises(InvalidArgumentError, match="look normalised or log-transformed"):
        model.embed(logs)
    assert model.embed(logs, force=True).n_obs == 240
    logs.write_h5ad("logs.h5ad")
    write_config("logs.yaml", data={"paths": ["logs.h5ad"], "preprocessing": None})
    quietly("logs.yaml")
    with pytest.raises(InvalidArgumentError, match=r"trained on fractions, .* hold counts"):
        load("runs/logs/checkpoints/best.ckpt").predict("atlas.h5ad")
    atlas.var_names = [f"Mouse{n}" for n in range(38)] + ["gene1", "gene2"]
    with pytest.raises(InvalidArgumentError, match="another species"), pytest.warns():
        model.embed(atlas)


def change_values(change):
    def made(adata):
        adata.X.data = change(adata.X.data).astype(np.float32)

    return made


BAD = {
    "missing file": ({"data": {"paths": ["no.h5ad"]}}, None, NotFoundError, "no.h5ad"),
    "negative counts": ({}, change_values(lambda x: -x), InvalidArgumentError, "scaled"),
    "logarithms": ({}, change_values(np.log1p), InvalidArgumentError, "look normalised"),
    "label column absent": (
        {"training": {"label_key": "kindd"}}, None, NoSuchKeyError, "did you mean 'kind'"),
    "one class": ({"training": {"label_key": "one"}}, None, InvalidArgumentError, "'same'"),
    "numbers as labels": ({"training": {"label_key": "age"}}, None, InvalidTypeError, "'age'"),
    "no labels": ({"training": {"label_key": None}}, None, InvalidArgumentError, "label_key"),
    "max_length 0": ({"tokenizer": {"max_length": 0}}, None, InvalidArgumentError, "max_length"),
    "wrong type": ({"training": {"num_epochs": "3"}}, None, InvalidArgumentError, "num_epochs"),
    "stopping by nothing": (
        {"data": {"split": {"val": 0}}, "training": {"early_stopping_patience": 1}}, None,
        InvalidArgumentError, "data.split.val"),
    "groups": ({"data": {"split": {"by": "one"}}}, None, InvalidArgumentError, "too few"),
    "genes of batches": (
        {"data": {"gene_selection": {"strategy": "most_expressed", "n_genes": 5}}}, None,
        UnsupportedError, "gene_selection"),
    "length of a class token": (
        {"model": {"architecture": "transformer_encoder"}, "tokenizer": {"max_length": 1}}, None,
        InvalidArgumentError, "max_length"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_before_the_first_step(atlas, case):
    changes, change, kind, message = BAD[case]
    if change is not None:
        change(atlas)
        atlas.write_h5ad("atlas.h5ad")
    write_config(**changes)
    with pytest.raises(kind, match=message):
        quietly("run.yaml")
    assert not Path("runs").exists()


def test_more_bad_input_is_named_before_the_first_step(atlas):
    write_config(data={"split": {"val": 0.5}})
    write_atlas("atlas.h5ad", n_cells=4, seed=3)
    with pytest.raises(InvalidArgumentError, match="2 cells to train on, and 3 devices"):
        quietly("run.yaml", num_devices=3)
    write_atlas("atlas.h5ad")
    GeneVocab.from_genes([*(f"Mouse{n}" for n in range(98)), "gene1", "gene2"]).save("mouse.json")
    write_config("mouse.yaml", data={"vocab": {"path": "mouse.json"}})
    with pytest.raises(InvalidArgumentError, match="another species"), pytest.warns():
        quietly("mouse.yaml")
    with pytest.raises(InvalidArgumentError, match="that of a folder"):
        quietly("run.yaml", name="../elsewhere")
    with pytest.raises(NotFoundError, match="no such checkpoint"):
        quietly("run.yaml", resume="no.ckpt")
    assert not Path("runs").exists()


def test_a_checkpoint_of_another_data_set_or_model_is_refused(atlas):
    write_config(training={"num_epochs": 1})
    quietly("run.yaml")
    kept = Path(CHECKPOINT).read_bytes()
    write_config("other.yaml", model={"d_model": 8})
    with pytest.raises(InvalidArgumentError, match="another model: its d_model is 16"):
        quietly("other.yaml", resume=CHECKPOINT)
    write_atlas("atlas.h5ad", seed=7)
    with pytest.raises(InvalidArgumentError, match="another data set"):
        quietly("run.yaml", resume="auto")
    write_atlas("atlas.h5ad", n_genes=50)
    with pytest.raises(InvalidArgumentError, match="another data set: its genes"):
        quietly("run.yaml", resume="auto")
    write_atlas("atlas.h5ad")
    for damaged in (kept[:-200], kept[:200], b"", b"not a checkpoint", pickle.dumps({"a": 1})):
        Path(CHECKPOINT).write_bytes(damaged)
        for use in (lambda: quietly("run.yaml", resume="auto"), lambda: load(CHECKPOINT)):
            with pytest.raises(CorruptDataError, match=r"last\.ckpt: is damaged or cut") as refused:
                use()
            assert "weights_only" not in str(refused.value)


def test_no_flipped_bit_of_a_checkpoint_reaches_a_model(atlas):
    write_config(training={"num_epochs": 1})
    quietly("run.yaml")
    whole, expected = Path(CHECKPOINT).read_bytes(), weights_of(CHECKPOINT)
    random, refused = np.random.default_rng(0), 0
    for at in random.integers(0, len(whole), 120):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << random.integers(0, 8)
        Path("damaged.ckpt").write_bytes(damaged)
        try:
            model = load("damaged.ckpt")
        except CorruptDataError as error:
            refused += 1
            assert str(error).startswith("damaged.ckpt: is damaged")
            continue
        for name, value in model.network.state_dict().items():  # it was a byte of the padding
            assert torch.equal(value, expected[f"network.{name}"])
    assert 40 < refused < 120


class Hostile:
    def __reduce__(self):
        return os.system, ("touch was_run",)


def test_a_hostile_checkpoint_is_not_run(atlas):
    for content in (Hostile(), {"cellfeed": Hostile()}, {"state_dict": {}}, [1]):
        torch.save(content, "bad.ckpt")
        with pytest.raises(CorruptDataError, match=r"bad\.ckpt"):
            load("bad.ckpt")
    assert not Path("was_run").exists()


def test_the_parts_have_no_donor_in_common(atlas):
    write_config(data={"split": {"val": 0.3, "test": 0.2, "by": "donor"}})
    data = cf.training.CellDataModule.from_config("run.yaml")
    data.setup()
    donors = [set(part.obs_values("donor").tolist()) for part in data.parts.values()]
    assert len(donors) == 3 and sum(map(len, donors)) == len(set.union(*donors)) == 6


@pytest.mark.slow
def test_the_command_trains_embeds_and_predicts(atlas):
    write_config(training={"num_epochs": 1})
    report = json.loads(run("train", "--config", "run.yaml", "--json", "--quiet"))
    assert report["epochs"] == 1 and Path("runs/run/report.html").is_file()
    said = run("embed", CHECKPOINT, "atlas.h5ad", "--output", "e.h5ad", "--json", "--quiet")
    assert json.loads(said)["cells"] == 240
    assert anndata.read_h5ad("e.h5ad").obsm["X_cellfeed"].shape == (240, 16)
    run("predict", CHECKPOINT, "atlas.h5ad", "--output", "e.h5ad", "--overwrite", "--quiet")
    assert "predicted_kind" in anndata.read_h5ad("e.h5ad").obs
    before = Path("atlas.h5ad").read_bytes()
    for given in ("atlas.h5ad", "at*.h5ad"):
        said = run("embed", CHECKPOINT, given, "--output", "atlas.h5ad", "--overwrite", code=1)
        assert "atlas.h5ad: is an input, and would be overwritten" in said
    assert Path("atlas.h5ad").read_bytes() == before
    assert "no.yaml" in run("train", "--config", "no.yaml", code=1)
    assert "--config" in run("train", code=2)
    assert "num-devices" in run("train", "--config", "run.yaml", "--num-devices", 0, code=2)


@pytest.mark.slow
def test_without_lightning_the_message_says_what_to_install(atlas):
    code = (
        "import sys; sys.modules['lightning'] = None; sys.argv = ['x', 'train', '--config', 'y']\n"
        "from cellfeed._program import run_python_verb; run_python_verb()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install 'cellfeed[train]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_tensorboard_has_the_rows_of_the_table(atlas):
    write_config(training={"tensorboard": True, "num_epochs": 2}, data={"split": {"test": 0.1}})
    report = quietly("run.yaml")
    events = EventAccumulator("runs/run/tensorboard")
    events.Reload()
    with open("runs/run/metrics.csv") as file:
        rows = list(csv.DictReader(file))
    for name in rows[0].keys() - {"epoch", "step"}:
        expected = [(int(r["step"]), float(r[name])) for r in rows if r[name]]
        found = [(event.step, event.value) for event in events.Scalars(name)]
        assert [step for step, _ in found] == [step for step, _ in expected], name
        np.testing.assert_allclose(
            [value for _, value in found], [value for _, value in expected], rtol=1e-6
        )
    (score,) = events.Scalars("test_macro_f1")
    assert score.value == pytest.approx(report["scores"]["test"]["macro_f1"])


@pytest.mark.slow
def test_tensorboard_is_optional_and_its_lack_is_named(atlas):
    write_config(training={"tensorboard": True, "num_epochs": 1})
    code = (
        "import sys; sys.modules.update(tensorboard=None, tensorboardX=None)\n"
        "import cellfeed as cf; cf.training.train('run.yaml', progress=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install tensorboard" in done.stderr
    assert not Path("runs/run/metrics.csv").exists()


TRANSFORMER = {
    "architecture": "transformer_encoder", "d_model": 16, "n_layers": 1, "n_heads": 2,
}  # fmt: skip
STRATEGIES = ("rank_value", "binned", "continuous")


def transformer(strategy, objective="auto", **training):
    label = {"label_key": "kind"} if objective != "masked_genes" else {"label_key": None}
    selection = {"strategy": "most_expressed", "n_genes": 30}
    return write_config(
        model=TRANSFORMER,
        tokenizer={"strategy": strategy, "max_length": 32},
        data={"gene_selection": selection},
        training={"objective": objective, **label, **training},
    )


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_transformer_learns_labels_from_tokens(atlas, strategy):
    report = quietly(transformer(strategy, "classification", num_epochs=6))
    assert report["scores"]["val"]["macro_f1"] > 0.8 and "hidden" not in report["scores"]["val"]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_transformer_learns_what_is_hidden(atlas, strategy):
    report = quietly(transformer(strategy, "masked_genes", num_epochs=4))
    first, *_, last = [row["val_loss"] for row in report["history"] if "val_loss" in row]
    assert last < first and "confusion" not in report["scores"]["val"]
    model = load(CHECKPOINT)
    vectors = model.embed("atlas.h5ad", batch_size=50).obsm["X_cellfeed"]
    assert vectors.shape == (240, 16) and np.isfinite(vectors).all()
    with pytest.raises(InvalidArgumentError, match="without labels"):
        model.predict("atlas.h5ad")


def test_hidden_tokens_and_labels_are_learned_together_and_resumed_bit_for_bit(atlas, monkeypatch):
    config = transformer("rank_value", "both")
    save = Checkpoints._save

    def save_and_keep(self, trainer, path):
        save(self, trainer, path)
        shutil.copy(path, f"{trainer.global_step}.{path.name}")

    monkeypatch.setattr(Checkpoints, "_save", save_and_keep)
    whole = quietly(config, name="whole")
    assert {"label_loss", "hidden_loss", "macro_f1"} <= whole["scores"]["val"].keys()
    resumed = quietly(config, name="resumed", resume="15.last.ckpt")
    expected, found = (
        weights_of(f"runs/{name}/checkpoints/last.ckpt") for name in ("whole", "resumed")
    )
    assert all(torch.equal(value, found[name]) for name, value in expected.items())
    assert resumed["scores"] == whole["scores"]


@pytest.mark.parametrize("selection", ["all", "most_expressed", "random_expressed"])
def test_vectors_of_a_transformer_do_not_depend_on_the_batch(atlas, selection):
    config = transformer("rank_value", "classification", num_epochs=1)
    text = json.loads(Path(config).read_text())
    text["data"]["gene_selection"] = {"strategy": selection, "n_genes": 15}
    if selection == "all":
        del text["data"]["gene_selection"]
    Path(config).write_text(json.dumps(text))
    report = quietly(config)
    model = load(CHECKPOINT)
    together = model.embed("atlas.h5ad", batch_size=240).obsm["X_cellfeed"]
    some = cf.open("atlas.h5ad").filter([7, 3])
    for batch_size in (1, 2):
        alone = model.embed(some, batch_size=batch_size).obsm["X_cellfeed"]
        np.testing.assert_allclose(alone, together[[7, 3]], rtol=1e-4, atol=1e-5)
    labels = [model.predict("atlas.h5ad", batch_size=n).obs["predicted_kind"] for n in (240, 7)]
    assert labels[0].tolist() == labels[1].tolist()
    # The scores of validation are those of such labels.
    data = cf.training.CellDataModule(["atlas.h5ad"], split={"train": 0.75, "val": 0.25})
    data.setup()
    said = model.predict(data.parts["val"], batch_size=50).obs
    right = (said["predicted_kind"].astype(str) == said["kind"].astype(str)).mean()
    assert report["scores"]["val"]["accuracy"] == pytest.approx(right)


def test_the_genes_kept_for_other_cells_are_those_most_expressed_in_training(atlas):
    transformer("rank_value", "classification", num_epochs=1)
    quietly("run.yaml")
    model = load(CHECKPOINT)
    data = cf.training.CellDataModule(["atlas.h5ad"], split={"train": 0.75, "val": 0.25})
    data.setup()
    cells = atlas[data.parts["train"].obs.df.index].X.toarray()
    sums = np.log1p(cells * (1e4 / cells.sum(axis=1, keepdims=True))).sum(axis=0)
    assert model.specification.kept_genes == list(atlas.var_names[np.argsort(-sums)[:30]])
