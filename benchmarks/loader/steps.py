"""Where a step of training goes: waiting for data, forward, backward (figure 5 of the benchmark).

python benchmarks/loader/steps.py [--cells N] [--genes N] [--steps N] [--width N] [--batch-size N]

A network of 25 million parameters over dense cells, and a small transformer over ranked genes, are
trained on batches of cellfeed's Loader (true random order), of MappedCollection in a DataLoader
(lamindb's where it is installed, and cellfeed's own), and of tensors that are in memory as a
whole. Seconds of a step and their shares, medians over steps; the first ones are not counted.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import anndata
import numpy as np
import pandas as pd
import scipy.sparse
import torch
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.data import GeneVocab

try:
    from lamindb.core import MappedCollection as LaminMappedCollection
except ImportError:
    LaminMappedCollection = None

LABEL = "cell_type"
N_CLASSES = 20
MAX_LENGTH = 256
WARM_UP = 2
Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


def write_cells(folder: pathlib.Path, n_cells: int, n_genes: int) -> pathlib.Path:
    random = np.random.default_rng(0)
    x = scipy.sparse.random(n_cells, n_genes, 0.1, format="csr", dtype=np.float32, rng=random)
    x.data = random.geometric(0.4, x.nnz).astype(np.float32)
    labels = pd.Categorical([f"type {i}" for i in random.integers(0, N_CLASSES, n_cells)])
    obs = pd.DataFrame({LABEL: labels}, index=[f"cell{i}" for i in range(n_cells)])
    var = pd.DataFrame(index=[f"gene{i}" for i in range(n_genes)])
    anndata.AnnData(x, obs=obs, var=var).write_h5ad(folder / "cells.h5ad")
    return folder / "cells.h5ad"


class Mlp(torch.nn.Module):
    def __init__(self, n_genes: int, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_genes, width), torch.nn.ReLU(),
            torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, N_CLASSES),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Transformer(torch.nn.Module):
    def __init__(self, n_genes: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(n_genes + 4, 128, padding_idx=0)
        layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(128, N_CLASSES)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.layers(self.embedding(ids), src_key_padding_mask=ids == 0)
        return self.head(hidden[:, 0])


def ranked(x: torch.Tensor) -> torch.Tensor:
    """Dense cells as tokens, as a collate function of torch makes them."""
    values, places = torch.topk(x, MAX_LENGTH - 1, dim=1)
    ids = torch.where(values > 0, places + 4, 0)
    return torch.cat([torch.full((len(x), 1), 3), ids], dim=1)


def of_loader(path: pathlib.Path, batch_size: int, *, as_tokens: bool) -> Batches:
    cells = cf.open(path)
    options: dict[str, Any] = {"obs": [LABEL], "seed": 0}
    if as_tokens:
        tokens = cf.RankTokens(GeneVocab.from_genes(cells.var_names), MAX_LENGTH)
        loader = cf.Loader(
            cells, cf.BlockShuffling(1), batch_size, output="tokens", tokens=tokens, **options
        )
    else:
        loader = cf.Loader(cells, cf.BlockShuffling(1), batch_size, output="dense", **options)
    for _ in itertools.count():
        for batch in loader:
            x = batch.input_ids if as_tokens else batch.x
            yield (
                torch.as_tensor(x).long() if as_tokens else torch.as_tensor(x),
                torch.as_tensor(batch.obs[LABEL]).long(),
            )


def of_collection(collection: Any, batch_size: int, *, as_tokens: bool) -> Batches:
    batches = DataLoader(collection, batch_size=batch_size, shuffle=True, num_workers=0)
    for _ in itertools.count():
        for batch in batches:
            x = torch.as_tensor(batch["X"], dtype=torch.float32)
            yield ranked(x) if as_tokens else x, torch.as_tensor(batch[LABEL]).long()


def of_memory(path: pathlib.Path, batch_size: int, *, as_tokens: bool) -> Batches:
    adata = anndata.read_h5ad(path)
    x = torch.from_numpy(adata.X.toarray())
    y = torch.from_numpy(adata.obs[LABEL].cat.codes.to_numpy().astype(np.int64))
    x = ranked(x) if as_tokens else x
    for _ in itertools.count():
        for rows in torch.randperm(len(x)).split(batch_size):
            yield x[rows], y[rows]


def timed(model: torch.nn.Module, batches: Batches, n_steps: int) -> dict[str, float]:
    """Median seconds of each part of a step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    parts: dict[str, list[float]] = {"load": [], "forward": [], "backward": []}
    for step in range(n_steps + WARM_UP):
        times = [time.perf_counter()]
        x, y = next(batches)
        times.append(time.perf_counter())
        loss = torch.nn.functional.cross_entropy(model(x), y)
        times.append(time.perf_counter())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter())
        if step >= WARM_UP:
            for part, begin, end in zip(parts.values(), times[:-1], times[1:], strict=True):
                part.append(end - begin)
    return {name: statistics.median(seconds) for name, seconds in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--genes", type=int, default=2_000)
    parser.add_argument("--width", type=int, default=4_096, help="of the network's layers")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=128, help="an eighth of it for tokens")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = write_cells(pathlib.Path(folder), options.cells, options.genes)
        makers: dict[str, Callable[..., Batches]] = {
            "cellfeed": lambda size, **how: of_loader(path, size, **how),
            "cellfeed MappedCollection": lambda size, **how: of_collection(
                cf.MappedCollection([path], obs_keys=[LABEL]), size, **how
            ),
            "tensors in memory": lambda size, **how: of_memory(path, size, **how),
        }
        if LaminMappedCollection is None:
            print("lamindb is not installed: left out")
        else:
            makers["lamindb MappedCollection"] = lambda size, **how: of_collection(
                LaminMappedCollection([path], obs_keys=[LABEL]), size, **how
            )
        models: dict[str, Callable[[], torch.nn.Module]] = {
            "MLP": lambda: Mlp(options.genes, options.width),
            "transformer": lambda: Transformer(options.genes),
        }
        sizes = {"MLP": options.batch_size, "transformer": max(1, options.batch_size // 8)}
        for name, make in models.items():
            size = sum(p.numel() for p in make().parameters()) / 1e6
            for source, batches in makers.items():
                torch.manual_seed(0)
                as_tokens = name == "transformer"
                found = timed(make(), batches(sizes[name], as_tokens=as_tokens), options.steps)
                step = sum(found.values())
                shares = ", ".join(f"{part} {s / step:.1%}" for part, s in found.items())
                print(
                    f"{name} ({size:.1f} M) {source:26s} {1000 * step:7.1f} ms a step: {shares}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
