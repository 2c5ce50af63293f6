"""What type checkers see: read by tools/check_types.py, never run."""

from typing import Any, assert_type

import numpy as np
import torch
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed import Batch, Loader
from cellfeed.batch import TensorBatch
from cellfeed.collection import CellView
from cellfeed.data import CellDataset, DistributedShardSampler, GeneVocab, collate_cells
from cellfeed.series import SeriesBatch, SeriesDataset, SeriesLoader
from cellfeed.token_batch import TokenBatch

cells = cf.open("atlas/*.h5ad", join="outer", obs="cell_type", access="map")
strategy = cf.BlockShuffling(64)

# The batches of a dense loader hold arrays; collate_fn decides what is yielded.
dense = Loader(cells, strategy, 1024, output="dense", dtype="float64", transforms=[cf.Log1p()])
assert_type(dense, Loader[Batch[np.ndarray]])
for batch in dense:
    assert_type(batch, Batch[np.ndarray])
    assert_type(batch.x, np.ndarray)
    assert_type(batch["X"], np.ndarray)
    assert_type(batch[:3], Batch[np.ndarray])
    assert_type(batch.to("cuda", non_blocking=True), TensorBatch)
    assert_type(batch.to("cuda")["cell_type"], torch.Tensor)
sparse = Loader(
    cells, strategy, remainder="drop", partition="group", casting="exact", rank=0, world_size=1
)
for some in (*sparse, *Loader("a.h5ad", batch_size=64, shuffle=True)):
    assert_type(some.to_torch(), torch.Tensor)


def to_pair(batch: Batch[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    return batch.to_torch(), torch.from_numpy(batch["cell_type"])


pairs = Loader(cells, strategy, collate_fn=to_pair)
assert_type(pairs, Loader[tuple[torch.Tensor, torch.Tensor]])
for _x, y in pairs:
    assert_type(y, torch.Tensor)

# A loader is a data set of torch.
assert_type(DataLoader(dense, batch_size=None), DataLoader[Batch[np.ndarray]])
DataLoader(cf.scDataset(cells, strategy, 64), batch_size=None, num_workers=2)
assert_type(cf.scDataset(cells, strategy, 64, output="dense"), cf.scDataset[Batch[np.ndarray]])
assert_type(cf.scDataset([1, 2], strategy, 2, batch_transform=len), cf.scDataset[int])
assert_type(cf.scDataset(np.zeros((9, 3)), strategy, 2, with_padding=True), cf.scDataset[Any])
assert_type(cells.read([1, 2], output="dense", obs="donor"), Batch[np.ndarray])

# What is asked of a collection and of batches, by name and by number.
assert_type(cells[:100, ["TP53"]], CellView)
assert_type(cells.filter({"donor": ["D1", "D2"]})[np.arange(3)].batch["donor"], np.ndarray)
assert_type(cells.files[0]["n_cells"], int)
assert_type(dense.stats()["wait_seconds"], float)
for batch in dense:
    assert_type(batch.layers["spliced"], np.ndarray)
    assert_type(batch.obs["donor"], np.ndarray)
    assert_type(batch.to().obs["donor"], torch.Tensor)
tokens = Loader(cells, strategy, output="tokens", tokens=cf.RankTokens(GeneVocab.from_genes(["A"])))
assert_type(tokens, Loader[TokenBatch])
mapped = cf.MappedCollection("atlas.h5ad", obs_keys="donor", join="auto", obs_filter={"age": 3})
assert_type(mapped.get_merged_labels("donor"), np.ndarray)
DataLoader(mapped, batch_size=8)

# Windows of series: what X is, and what a transform makes of it.
windows = SeriesDataset("series", window=60, dtype="float64")
assert_type(windows[0], tuple[torch.Tensor, torch.Tensor])
assert_type(SeriesDataset("series", future="hour")[0][0], dict[str, torch.Tensor])
assert_type(SeriesDataset("series", transform=lambda x, y: y), SeriesDataset[torch.Tensor])
assert_type(SeriesLoader(windows, strategy), SeriesLoader[SeriesBatch])

# Training.
report = cf.training.train("train.yaml", progress=False)
assert_type(report["n_genes"], int)
assert_type(cf.training.load("best.ckpt").classes, list[str | bool | int | float])

# The names of the specification, as samplers and data sets of torch.
vocab = GeneVocab.from_genes(["A1BG"])
assert_type(vocab, GeneVocab)
cell_data = CellDataset("atlas.h5ad", vocab)
DataLoader(cell_data, batch_size=8, sampler=cf.WeightedCellSampler(["a", "b"]))
DataLoader(cell_data, sampler=DistributedShardSampler(cell_data), collate_fn=collate_cells)
assert_type(cf.convert_to_shards("a.h5ad", "shards", progress=False).n_cells, int)

# Mistyped words are errors; a checker says so where one of these is none.
Loader(cells, strategy, output="dens")  # type: ignore
Loader(cells, strategy, dtype="floot")  # type: ignore
Loader(cells, strategy, remainder="padd")  # type: ignore
Loader(cells, strategy, casting="exct")  # type: ignore
Loader(cells, strategy, partition="grp")  # type: ignore
Loader(cells, strategy, batchsize=3)  # type: ignore
Loader(cells, cf.BlockShuffling)  # type: ignore
cf.scDataset(cells, strategy, 64, remainder="padd")  # type: ignore
cf.open("a.h5ad", missing_genes="wrn")  # type: ignore
cf.open("a.h5ad", join="iner")  # type: ignore
cf.open("a.h5ad", categories=["T"])  # type: ignore
cf.training.load(3)  # type: ignore
cf.open("a.h5ad", access="mapp")  # type: ignore
