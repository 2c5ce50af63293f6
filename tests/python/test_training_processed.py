"""One configuration for shards and for training on them: no step twice, none left out."""

import json
import logging
import re
from pathlib import Path

import anndata
import numpy as np
import pytest
import scanpy as sc
import torch
from program import completed, run
from training_atlas import write_atlas, write_config

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, MissingGenesWarning, UnsupportedError
from cellfeed.training import CellDataModule, load, train

CHECKPOINT = "runs/run/checkpoints/last.ckpt"
SHARDS = {"enabled": True, "shard_dir": "shards"}
AS_THEY_ARE = {"normalize": False, "log_transform": False}
STEPS = {"normalize": True, "target_sum": 500, "log_transform": True}
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = pytest.mark.filterwarnings("ignore:.*isinstance\\(treespec.*:FutureWarning")


@pytest.fixture(autouse=True)
def atlas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    return write_atlas("atlas.h5ad")


def sharded(path="run.yaml", steps=STEPS, **changes):
    """Shards of a configuration that names them, and the configuration."""
    data = {"shards": SHARDS, "preprocessing": steps, **changes.pop("data", {})}
    write_config(path, data=data, **changes)
    run("shard", "--config", path, "--output-dir", "shards", "--quiet")
    return path


def by_scanpy(adata, n_top_genes=None):
    out = adata.copy()
    sc.pp.normalize_total(out, target_sum=500)
    sc.pp.log1p(out)
    if n_top_genes is not None:
        sc.pp.highly_variable_genes(out, n_top_genes=n_top_genes)
        out = out[:, out.var["highly_variable"]]
    return out.X.toarray()


@pytest.mark.parametrize("n_top_genes", [pytest.param(None, marks=pytest.mark.slow), 15])
def test_one_configuration_makes_shards_and_trains_on_what_scanpy_makes(atlas, n_top_genes):
    steps = STEPS if n_top_genes is None else {**STEPS, "n_top_genes": n_top_genes}
    path = sharded(steps=steps, training={"num_epochs": 1})
    module = CellDataModule.from_config(path, output="dense")
    module.setup()
    assert module.is_processed
    with module.predict_dataloader() as loader:
        found = np.concatenate([batch.x for batch in loader])
    np.testing.assert_allclose(found, by_scanpy(atlas, n_top_genes), rtol=1e-6)

    done = completed("train", "--config", path)
    genes = f", highly_variable_genes flavor seurat n_top_genes {n_top_genes}"
    said = f"normalize_total 500, log1p{genes if n_top_genes else ''}: done already"
    assert [x for x in done.stderr.splitlines() if "data.preprocessing" in x] == [
        f"data.preprocessing: {said}, as the files record, so skipped"
    ]
    report = json.loads(Path("runs/run/report.json").read_text())
    assert report["preprocessing"].startswith(said)
    assert said in Path("runs/run/report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("trains_on", ["raw", "shards"])
@pytest.mark.parametrize("model", ["mlp", "tokens", "chosen"])
def test_a_model_says_the_same_of_raw_files_and_of_shards(atlas, model, trains_on):
    changes = {"training": {"num_epochs": 1}}
    if model != "mlp":
        changes["model"] = {"architecture": "transformer_encoder", "n_heads": 2}
        changes["tokenizer"] = {"strategy": "continuous", "max_length": 20}
    if model == "chosen":
        changes["data"] = {"gene_selection": {"strategy": "most_expressed", "n_genes": 12}}
    path = sharded(**changes)
    if trains_on == "raw":
        data = {"preprocessing": STEPS, **changes.pop("data", {})}
        write_config(path, data=data, **changes)
    report = train(path, progress=False)
    assert ("skipped" in report["preprocessing"]) == (trains_on == "shards")
    assert ("done here" in report["preprocessing"]) == (trains_on == "raw")
    trained = load(CHECKPOINT)
    cf.preprocess("atlas.h5ad", "done.h5ad", target_sum=500)
    raw = trained.embed("atlas.h5ad")
    for other in ("shards", "done.h5ad", anndata.read_h5ad("done.h5ad")):
        vectors = trained.embed(other).obsm["X_cellfeed"]
        np.testing.assert_allclose(vectors, raw.obsm["X_cellfeed"], rtol=1e-5, atol=1e-6)
        labels = [trained.predict(x).obs["predicted_kind"].tolist() for x in ("atlas.h5ad", other)]
        assert labels[0] == labels[1]
    run("predict", CHECKPOINT, "shards", "--output", "said.h5ad", "--quiet")
    assert anndata.read_h5ad("said.h5ad").obs["predicted_kind"].tolist() == labels[0]


@pytest.mark.slow
def test_genes_that_were_chosen_for_shards_are_found_in_raw_files_with_the_totals_of_all(atlas):
    train(sharded(steps={**STEPS, "n_top_genes": 15}, training={"num_epochs": 2}), progress=False)
    trained = load(CHECKPOINT)
    assert len(trained.vocab.genes) == 15
    vectors = [trained.embed(x).obsm["X_cellfeed"] for x in ("atlas.h5ad", "shards")]
    np.testing.assert_allclose(*vectors, rtol=1e-5, atol=1e-6)
    assert np.ptp(vectors[0], axis=0).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recorded", "said"),
    [({"target_sum": 400}, "normalize_total is 400 in the file and 500"),
     ({"log_transform": False}, "log1p is not recorded in the file and done"),
     ({"normalize": False}, "normalize_total is not recorded in the file and 500"),
     ({"n_top_genes": 9},
      "highly_variable_genes is flavor seurat n_top_genes 9 in the file and not asked for")],
)  # fmt: skip
def test_shards_that_record_other_steps_are_refused_with_what_differs(recorded, said):
    steps = {**STEPS, **recorded}
    if not steps["normalize"]:
        del steps["target_sum"]
    sharded(steps=steps)
    write_config(data={"shards": SHARDS, "preprocessing": STEPS})
    with pytest.raises(InvalidArgumentError, match=f"shards.*already.*{re.escape(said)}"):
        train("run.yaml", progress=False)
    # The same of a model, but for the genes, which it finds by their names.
    write_config(data={"preprocessing": STEPS}, training={"num_epochs": 1})
    train("run.yaml", progress=False)
    if "n_top_genes" in recorded:
        with pytest.warns(MissingGenesWarning, match="of the 40 genes"):
            assert load(CHECKPOINT).predict("shards").n_obs == 240
        return
    with pytest.raises(InvalidArgumentError, match=f"shards.*the model asks.*{re.escape(said)}"):
        load(CHECKPOINT).predict("shards")
    assert load(CHECKPOINT).predict("shards", force=True).n_obs == 240  # as they are


@pytest.mark.slow
@pytest.mark.parametrize("other", [{"n_top_genes": 8}, {"hvg_flavor": "cell_ranger"}])
def test_genes_that_were_chosen_otherwise_are_refused(other):
    sharded(steps={**STEPS, "n_top_genes": 9})
    steps = {**STEPS, "n_top_genes": 9, **other}
    write_config(data={"shards": SHARDS, "preprocessing": steps})
    with pytest.raises(InvalidArgumentError, match="highly_variable_genes is flavor seurat"):
        train("run.yaml", progress=False)


@pytest.mark.slow
def test_an_empty_section_asks_for_its_defaults(atlas):
    """As it does of `cellfeed shard --config`."""
    write_config(data={"preprocessing": {}}, training={"num_epochs": 1})
    assert train("run.yaml", progress=False)["preprocessing"] == (
        "normalize_total 10000, log1p: done here"
    )
    data = CellDataModule.from_config("run.yaml")
    data.setup()
    batch = next(iter(data.train_dataloader()))
    np.testing.assert_allclose(np.expm1(batch.to_numpy()).sum(axis=1), 1e4, rtol=1e-4)


@pytest.mark.slow
def test_raw_files_beside_processed_ones_are_refused(atlas):
    cf.preprocess("atlas.h5ad", "done.h5ad", target_sum=500)
    paths = ["atlas.h5ad", "done.h5ad"]
    write_config(data={"paths": paths, "preprocessing": STEPS})
    said = "atlas.h5ad does not record what data.preprocessing .*done.h5ad.*records that"
    with pytest.raises(InvalidArgumentError, match=said):
        train("run.yaml", progress=False)
    write_config(data={"preprocessing": STEPS}, training={"num_epochs": 1})
    train("run.yaml", progress=False)
    with pytest.raises(InvalidArgumentError, match=r"atlas\.h5ad does not record what the model"):
        load(CHECKPOINT).predict(paths)


@pytest.mark.slow
def test_highly_variable_genes_are_not_found_while_training():
    write_config(data={"preprocessing": {**STEPS, "n_top_genes": 9}})
    with pytest.raises(UnsupportedError, match=r"atlas.h5ad does not record.*cellfeed shard"):
        train("run.yaml", progress=False)
    with pytest.raises(UnsupportedError, match="n_top_genes"):
        CellDataModule.from_config("run.yaml").setup()
    # Nor does the record of a logarithm say that they were.
    cf.preprocess("atlas.h5ad", "done.h5ad", target_sum=500)
    asked = {"normalize": False, "log_transform": False, "n_top_genes": 9}
    write_config(data={"paths": ["done.h5ad"], "preprocessing": asked})
    with pytest.raises(UnsupportedError, match=r"done\.h5ad does not record"):
        train("run.yaml", progress=False)


@pytest.mark.slow
def test_genes_alone_may_be_chosen_of_values_that_are_logarithms_already(atlas):
    cf.preprocess("atlas.h5ad", "done.h5ad", target_sum=500)
    asked = {"normalize": False, "log_transform": False, "n_top_genes": 9}
    path = sharded(steps=asked, data={"paths": ["done.h5ad"]}, training={"num_epochs": 1})
    report = train(path, progress=False)
    assert report["n_genes"] == 9 and "skipped" in report["preprocessing"]


@pytest.mark.slow
def test_a_vocabulary_of_the_configuration_is_that_of_its_shards(atlas):
    vocab = {"n_genes": 20}
    path = sharded(steps={**STEPS, "n_top_genes": 9}, data={"vocab": vocab})
    report = train(path, progress=False)
    assert 9 <= report["n_genes"] == cf.open("shards").n_vars < 20


@pytest.mark.slow
def test_values_taken_as_they_are_are_those_of_training_or_refused(atlas):
    for target_sum in (500, 700):
        cf.preprocess("atlas.h5ad", f"by_{target_sum}", target_sum=target_sum)
    write_config(
        data={"paths": ["by_500"], "preprocessing": AS_THEY_ARE}, training={"num_epochs": 1}
    )
    train("run.yaml", progress=False)
    model = load(CHECKPOINT)
    (own,) = model.embed("by_500").obsm.values()
    said = r"by_700.*records normalize_total 700, log1p, and those of training normalize_total 500"
    with pytest.raises(InvalidArgumentError, match=said):
        model.predict("by_700")
    with pytest.raises(InvalidArgumentError, match="would be mixed"):
        model.embed(["by_500", "by_700"])
    (forced,) = model.embed("by_700", force=True).obsm.values()
    assert not np.array_equal(own, forced)
    # Files that record nothing may be alike.
    unmarked = anndata.AnnData(by_scanpy(atlas), var=atlas.var)
    (alike,) = model.embed(unmarked).obsm.values()
    np.testing.assert_allclose(alike, own, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_files_that_record_different_steps_are_no_training_set(atlas):
    for target_sum in (500, 700):
        cf.preprocess("atlas.h5ad", f"by_{target_sum}.h5ad", target_sum=target_sum)
    for paths in (["by_500.h5ad", "by_700.h5ad"], ["atlas.h5ad", "by_500.h5ad"]):
        write_config(
            data={"paths": paths, "preprocessing": AS_THEY_ARE}, training={"num_epochs": 1}
        )
        said = rf"would be mixed: '{paths[0]}' records .*, and '{paths[1]}' "
        with pytest.raises(InvalidArgumentError, match=said):
            train("run.yaml", progress=False)
