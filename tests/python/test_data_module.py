"""CellDataModule: who is in which part, and what its loaders give."""

import copy
import pickle
from typing import ClassVar

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer
from training_atlas import write_atlas

import cellfeed as cf
from cellfeed.data import CellDataModule

N = 600


@pytest.fixture(scope="module")
def adata():
    rng = np.random.default_rng(0)
    x = scipy.sparse.random(N, 30, 0.3, format="csr", dtype=np.float32, random_state=1)
    x.data = rng.integers(1, 9, x.nnz).astype(np.float32)
    obs = pd.DataFrame(
        {
            "kind": pd.Categorical(rng.choice(["a", "b", "c"], N)),
            "donor": pd.Categorical([f"d{i}" for i in rng.integers(0, 20, N)]),
            "part": pd.Categorical(rng.choice(["Train", "validation", "test", None], N)),
            "number": np.arange(N),
        },
        index=[f"cell {i}" for i in range(N)],
    )
    return anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=[f"G{i}" for i in range(30)]))


@pytest.fixture(scope="module")
def path(adata, tmp_path_factory):
    path = tmp_path_factory.mktemp("module") / "atlas.h5ad"
    adata.write_h5ad(path)
    return path


def numbers(loader):
    return [n for batch in loader for n in batch["number"][~batch.is_padding].tolist()]


def module(data, **options):
    made = CellDataModule(data, obs=["number", "donor"], **options)
    made.setup("fit")
    return made


def test_shares(path):
    data = module(path, split={"train": 0.8, "val": 0.1, "test": 0.1})
    assert isinstance(data, LightningDataModule)
    found = {
        "train": numbers(data.train_dataloader()),
        "val": numbers(data.val_dataloader()),
        "test": numbers(data.test_dataloader()),
    }
    assert {name: len(rows) for name, rows in found.items()} == {
        "train": 480,
        "val": 60,
        "test": 60,
    }
    assert sorted(n for rows in found.values() for n in rows) == list(range(N))
    assert found["train"] != sorted(found["train"]) and found["val"] == sorted(found["val"])
    assert numbers(data.predict_dataloader()) == list(range(N))
    wanted = cf.open(path).split({"train": 0.8, "val": 0.1, "test": 0.1})
    assert found["val"] == wanted["val"].obs_values("number").tolist()
    other = module(path, split={"train": 0.8, "val": 0.1, "test": 0.1}, split_seed=1)
    assert numbers(other.val_dataloader()) != found["val"]


def test_donors_are_of_one_part(path, adata):
    data = module(path, split={"train": 0.7, "val": 0.3}, by="donor")
    of_part = [set(adata.obs["donor"].iloc[numbers(loader)])
               for loader in (data.train_dataloader(), data.val_dataloader())]  # fmt: skip
    assert not of_part[0] & of_part[1] and of_part[0] | of_part[1] == set(adata.obs["donor"])


def test_a_column_says_who_is_where(path, adata):
    data = module(path, split="part")
    for name, loader in (
        ("Train", data.train_dataloader()),
        ("validation", data.val_dataloader()),
        ("test", data.test_dataloader()),
    ):
        assert sorted(numbers(loader)) == np.flatnonzero(adata.obs["part"] == name).tolist()


def test_expressions(path, adata):
    data = module(path, split={"train": "number < 500", "val": "number >= 550"})
    assert sorted(numbers(data.train_dataloader())) == list(range(500))
    assert numbers(data.val_dataloader()) == list(range(550, 600))
    with pytest.raises(cf.errors.InvalidArgumentError, match="10 cells in all"):
        module(path, split={"train": "number < 500", "val": "number >= 490"})


def test_without_a_part(path):
    data = module(path, split={"train": 1.0})
    assert data.val_dataloader() == []
    with pytest.raises(cf.errors.InvalidArgumentError, match="no part 'test'"):
        data.test_dataloader()


@pytest.mark.filterwarnings(
    "ignore:.*no `validation_step`", "ignore:.*returned `None`", "ignore:.*LeafSpec"
)
def test_overfitting_takes_the_same_batches_in_each_epoch(path):
    class Model(LightningModule):
        rows: ClassVar[list] = []

        def training_step(self, batch):
            self.rows.append(batch.index.tolist())

        def configure_optimizers(self):
            return None

    data = CellDataModule(path, batch_size=16, seed=3, split={"train": 1.0})
    Trainer(
        max_epochs=3, overfit_batches=2, accelerator="cpu", logger=False, barebones=True,
    ).fit(Model(), datamodule=data)  # fmt: skip
    first, second = Model.rows[:2]
    assert first != second
    assert Model.rows == [first, second] * 3


def test_options_reach_the_loaders(path, adata):
    data = module(
        path, batch_size=50, output="dense", split={"train": 0.9, "val": 0.1}, drop_last=True,
        transforms=[cf.NormalizeTotal(10.0)], genes=["G3", "G1"], dtype="float64",
        strategy=cf.ClassBalancedSampling("donor", total_size=470), seed=4,
    )  # fmt: skip
    loader = data.train_dataloader()
    assert (len(loader), loader.seed, loader.strategy) == (9, 4, data._strategy)
    batch = next(iter(loader))
    assert batch.x.shape == (50, 2) and batch.x.dtype == np.float64
    assert batch.var_names.tolist() == ["G3", "G1"]
    loader = data.val_dataloader()
    rows, found = numbers(loader), np.concatenate([batch.x for batch in loader])
    assert len(rows) == 60, "validation keeps its last batch"
    counts = adata.X[rows].toarray().astype(np.float64)
    wanted = counts[:, [3, 1]] * (10.0 / counts.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_default_orders(path, adata, tmp_path):
    assert module(path).train_dataloader().strategy.block_size == 1
    adata.write_h5ad(tmp_path / "z.h5ad", compression="gzip")
    assert module(tmp_path / "z.h5ad").train_dataloader().strategy.block_size == 64


def test_collections_and_anndata(path, adata):
    cells = cf.open(path).filter("number < 100")
    assert sorted(numbers(module(cells, split={"train": 1.0}).train_dataloader())) == [*range(100)]
    assert len(numbers(module(adata).train_dataloader())) == 540


def test_copies(path):
    made = CellDataModule(path, obs="number")
    for copied in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        copied.setup()
        assert len(numbers(copied.train_dataloader())) == 540
    made.setup()
    again = pickle.loads(pickle.dumps(made))
    assert numbers(again.train_dataloader()) == numbers(made.train_dataloader())


def test_setup_comes_first(path):
    data = CellDataModule(path)
    for what in (lambda: data.cells, lambda: data.parts, data.train_dataloader):
        with pytest.raises(cf.errors.InvalidArgumentError, match=r"setup\(\) first"):
            what()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": {"train": 0.5, "dev": 0.5}}, "split"),
        ({"split": {"val": 1.0}}, "no part 'train'"),
        ({"split": {}}, "split must be"),
        ({"split": 0.9}, "split must be"),
        ({"split": {"train": 0.9, "val": "number > 3"}}, "mixes"),
        ({"split": {"train": 0.9, "val": 0.3}}, "share"),
        ({"split": "nonsense"}, "nonsense"),
        ({"split": "kind"}, "says 'a'"),
        ({"split": "number"}, "categories"),
        ({"split": "part", "by": "donor"}, "for shares"),
        ({"split": {"train": "number < 5", "val": "number > 5000"}}, "leaves none"),
        ({"split": {"train": "nonsense < 5"}}, "nonsense"),
        ({"by": "nonsense"}, "nonsense"),
        ({"obs": ["nonsense"]}, "nonsense"),
        ({"batch_size": 0}, "batch_size"),
        ({"batchsize": 3}, "batchsize"),
        ({"num_workers": 3}, "num_workers"),
        ({"strategy": "random"}, "strategy"),
    ],
)
def test_what_is_wrong_is_named_before_training(path, options, message):
    with pytest.raises(cf.errors.CellfeedError, match=message):
        CellDataModule(path, **options).setup()


def test_genes_of_a_collection_are_its_own(path):
    with pytest.raises(cf.errors.InvalidArgumentError, match="genes"):
        CellDataModule(cf.open(path), genes=["G1"])


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(30, 3)
        self.seen = {"train": [], "val": [], "test": [], "predict": []}

    def _step(self, batch, part):
        self.seen[part] += batch["number"].tolist()
        logits = self.layer(batch["X"])
        return torch.nn.functional.cross_entropy(logits, batch["donor"] % 3)

    def training_step(self, batch, batch_idx):
        return self._step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self._step(batch, "val")

    def test_step(self, batch, batch_idx):
        self._step(batch, "test")

    def predict_step(self, batch, batch_idx):
        return self._step(batch, "predict")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.filterwarnings("ignore:.*LeafSpec", "ignore:.*does not have many workers")
def test_a_trainer_runs_it(path):
    data = CellDataModule(
        path, split={"train": 0.8, "val": 0.1, "test": 0.1}, obs=["number", "donor"],
        output="dense",
    )  # fmt: skip
    model = Model()
    trainer = Trainer(
        max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu", num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(model, datamodule=data)
    trainer.test(model, datamodule=data, verbose=False)
    trainer.predict(model, datamodule=data)
    train = model.seen["train"]
    assert len(train) == 960 and sorted(train[:480]) == sorted(train[480:])
    assert train[:480] != train[480:]
    rest = [*train[:480], *model.seen["val"][:60], *model.seen["test"]]
    assert sorted(rest) == list(range(N)) and model.seen["predict"] == list(range(N))


def from_yaml(folder, text, **changes):
    (folder / "run.yaml").write_text(text)
    return CellDataModule.from_config(folder / "run.yaml", **changes)


def test_a_configuration_says_it_all(path, adata, tmp_path):
    data = from_yaml(
        tmp_path,
        f"""
        data:
          paths: {path}
          preprocessing: {{normalize: true, target_sum: 50}}
        training:
          batch_size: 40
          sampling: {{strategy: weighted, label_key: kind, curriculum_warmup_epochs: 3}}
        """,
        split={"train": 0.5, "val": 0.5},
        output="dense",
    )
    data.setup()
    loader = data.train_dataloader()
    assert repr(loader.strategy) == "WeightedCellSampler(curriculum_warmup_epochs=3)"
    batch = next(iter(loader))
    assert batch.x.shape == (40, 30) and list(batch.obs) == ["kind"]
    row = adata.X[int(data.parts["train"].obs_values("number")[batch.index[0]])].toarray()[0]
    np.testing.assert_allclose(batch.x[0], np.log1p(row * (50 / row.sum())), rtol=1e-6)


def test_a_configuration_of_shards_and_a_vocabulary(path, tmp_path):
    cf.convert_to_shards(path, tmp_path / "shards")
    cf.data.GeneVocab.from_genes(["G7", "G2"]).save(tmp_path / "genes.json")
    text = f"""
        data:
          shards: {{enabled: true, shard_dir: {tmp_path}/shards}}
          vocab: {{path: {tmp_path}/genes.json}}
        """
    data = from_yaml(tmp_path, text, obs="number")
    data.setup()
    assert data.cells.var_names.tolist() == ["G7", "G2"] and data.batch_size == 64
    values = next(iter(data.val_dataloader()))
    stored = cf.open(path, genes=["G7", "G2"]).read(values["number"])
    assert (values.x != stored.x).nnz == 0, "nothing is normalised unless that is asked for"
    chosen = from_yaml(tmp_path, text.replace(f"path: {tmp_path}/genes.json", "n_genes: 5"))
    chosen.setup()
    wanted = cf.data.GeneVocab.from_adata(tmp_path / "shards", n_genes=5)
    assert chosen.cells.var_names.tolist() == wanted.genes


def test_a_configuration_that_streams(path, tmp_path):
    data = from_yaml(
        tmp_path,
        f"data: {{paths: [{path}], streaming: true, streaming_shuffle_buffer: 30}}",
        split={"train": 1.0},
        obs=["number"],
    )
    data.setup()
    rows = numbers(data.train_dataloader())
    assert rows != sorted(rows)
    assert [sorted(rows[i : i + 30]) for i in range(0, N, 30)] == [
        [*range(i, i + 30)] for i in range(0, N, 30)
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training: {batch_size: 3}", "names no data"),
        ("data: {paths: a.h5ad, gene_selection: {strategy: most_expressed, n_genes: 3}}", "Collat"),
        (
            "data: {paths: a.h5ad, streaming: true}\n"
            "training: {sampling: {strategy: weighted, label_key: kind}}",
            "choose one",
        ),
        ("data: {paths: ftp://host/a.h5ad}", "no file system is known"),
        ("data: {paths: a.h5ad, speed: high}", "speed"),
        ("data: {paths: nowhere.h5ad}", "nowhere.h5ad"),
    ],
)
def test_configurations_that_cannot_be_followed(tmp_path, text, message):
    with pytest.raises(cf.errors.CellfeedError, match=message):
        from_yaml(tmp_path, text).setup()


@pytest.mark.slow
def test_ranks_read_whole_shards_of_their_own(tmp_path):
    write_atlas(tmp_path / "a.h5ad", n_cells=230)
    shards = tmp_path / "shards"
    cf.convert_to_shards(tmp_path / "a.h5ad", shards, shard_size=40, progress=False)
    config = tmp_path / "c.yaml"
    config.write_text(
        f"data: {{shards: {{enabled: true, shard_dir: {shards}}}, split: {{val: 0.1}}}}\n"
        "training: {batch_size: 8}\n"
    )
    seen = []
    for rank in range(2):
        data = CellDataModule.from_config(config, rank=rank, world_size=2)
        data.setup()
        train = data.parts["train"]
        batches = list(data.train_dataloader())
        rows = np.concatenate([batch.index[~batch.is_padding] for batch in batches])
        files = train._core.locate(rows)[0]
        # All but the few that level the ranks.
        assert (files % 2 == rank).mean() > 0.8
        seen += rows.tolist()
        n_batches = len(batches)
    assert sorted(seen) == list(range(len(train))) and n_batches == -(-len(train) // 16)
    alone = CellDataModule.from_config(config)
    alone.setup()
    assert "BlockShuffling" in repr(alone.train_dataloader())
    with pytest.raises(cf.errors.InvalidArgumentError, match="order of their shards"):
        cf.Loader(cf.open(shards).filter([100, 3]), cf.WholeShards(2))
    with pytest.raises(
        cf.errors.InvalidArgumentError, match="must end with the number of samples, 230"
    ):
        cf.Loader(cf.open(shards), cf.WholeShards(2, [0, 10]))
