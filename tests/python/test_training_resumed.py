"""Going on from a checkpoint: the parts, the order and the model must be those of the run."""

import logging
import re
import shutil

import anndata
import numpy as np
import pytest
import torch
from training_atlas import trained_in, write_config

import cellfeed as cf
from cellfeed.errors import CorruptDataError, InvalidArgumentError, UnsupportedError
from cellfeed.training import train

LAST = "runs/run/checkpoints/last.ckpt"
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*isinstance\\(treespec.*:FutureWarning", "ignore:.*weights_only.*"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with an atlas and a run of one epoch."""
    with trained_in(tmp_path_factory.mktemp("trained")) as folder:
        return folder


@pytest.fixture(autouse=True)
def folder(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def go_on(data=None, **training):
    write_config(data=data or {}, training={"num_epochs": 2, **training})
    return train("run.yaml", resume="auto", progress=False)


def rows_of(part, split):
    write_config("parts.yaml", data={"split": split})
    data = cf.training.CellDataModule.from_config("parts.yaml")
    data.setup()
    return set(data.parts[part].obs.df.index)


@pytest.mark.parametrize("split", [{"seed": 7}, {"val": 0.3}, {"test": 0.1}, {"by": "donor"}])
def test_cells_that_were_trained_on_never_become_those_of_validation(split):
    # The fault that is refused: a model judged by what it has learned.
    key, value = next(iter(split.items()))
    leaked = rows_of("train", {}) - rows_of("train", split)
    assert leaked
    message = rf"divides the cells otherwise.*data\.split\.{key} was .* and is {value!r}"
    with pytest.raises(InvalidArgumentError, match=message):
        go_on({"split": split})


@pytest.mark.slow
def test_the_rows_count_and_not_how_they_are_said():
    before = rows_of("val", {})
    assert len(before) == 60
    atlas = anndata.read_h5ad("atlas.h5ad")
    atlas.obs["part"] = np.where(atlas.obs_names.isin(sorted(before)), "val", "train")
    atlas.write_h5ad("atlas.h5ad")
    shutil.rmtree("runs")
    split = {"split": {"column": "part", "val": None}}
    write_config(data=split, training={"num_epochs": 1})
    train("run.yaml", progress=False)
    assert go_on(split)["epochs"] == 2
    atlas.obs.loc[sorted(before)[0], "part"] = "train"
    atlas.write_h5ad("atlas.h5ad")
    with pytest.raises(InvalidArgumentError, match=r"otherwise|another data set"):
        go_on(split, num_epochs=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "changes", "said"),
    [("seed", {"seed": 5}, "was 0 and is 5"),
     ("batch_size", {"batch_size": 32}, "was 16 on 1 ranks and is 32 on 1"),
     ("accumulate_grad_batches", {"accumulate_grad_batches": 3}, "was 1 and is 3"),
     ("sampling.strategy", {"sampling": {"strategy": "weighted", "label_key": "kind"}},
      "was 'random' and is 'weighted'")],
)  # fmt: skip
def test_another_order_of_cells_or_steps_is_refused_by_name(key, changes, said):
    with pytest.raises(InvalidArgumentError, match=re.escape(f"training.{key} {said}")):
        go_on(**changes)
    assert torch.load(LAST, weights_only=True)["epoch"] == 0  # untouched


@pytest.mark.slow
def test_streaming_instead_of_random_order_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"data\.streaming was False and is True"):
        go_on({"streaming": True})


@pytest.mark.slow
def test_rates_and_decay_may_change_and_take_effect():
    go_on(learning_rate=0.002, weight_decay=0.5, warmup_ratio=0.0)
    kept = torch.load(LAST, weights_only=True)
    groups = kept["optimizer_states"][0]["param_groups"]
    assert [group["weight_decay"] for group in groups] == [0.5, 0.0]
    assert 0 < groups[0]["lr"] < 0.002


@pytest.mark.parametrize("part", ["run", "specification"])
@pytest.mark.parametrize("field", ["all", "one", "more"])
def test_a_checkpoint_that_lacks_something_is_damaged(part, field):
    kept = torch.load(LAST, weights_only=True)
    if field == "all":
        del kept["cellfeed"][part]
    elif field == "one":
        kept["cellfeed"][part].popitem()
    else:
        kept["cellfeed"][part]["another"] = 1
    torch.save(kept, LAST)
    with pytest.raises(CorruptDataError, match=r"last\.ckpt: is damaged: it does not hold"):
        go_on()
    if part == "specification":
        with pytest.raises(CorruptDataError, match="does not hold a description of a model"):
            cf.training.load(LAST)


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2, None])
def test_a_checkpoint_of_another_version_is_refused(version):
    kept = torch.load(LAST, weights_only=True)
    kept["cellfeed"]["version"] = version
    torch.save(kept, LAST)
    said = rf"last\.ckpt: a checkpoint of version {version}, and this cellfeed reads version 3"
    for use in (go_on, lambda: cf.training.load(LAST)):
        with pytest.raises(UnsupportedError, match=said):
            use()
