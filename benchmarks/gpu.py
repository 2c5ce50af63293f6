"""How much of a model's own rate on a GPU is left when its cells come from files.

python benchmarks/gpu.py [--cells N] [--genes N] [--seconds S] [--device cuda] [--graph]

The model is the autoencoder of scVI's size (one hidden layer of 128, a bottleneck of 10) over all
genes; a step is forward, backward and Adam. What it could do is the rate of steps over one batch
that lies on the device already; with --graph as one CUDA graph, so that the GPU is its limit and
not the launches of its kernels. Each loader is measured twice in each round: alone, up to rows of
float32 on the device, and with the model behind it. True random order. AnnLoader reads the backed
file; so does a DataLoader of whole batches, their rows sorted, with 4 processes.
"""

import argparse
import itertools
import pathlib
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator

import anndata
import numpy as np
import torch
from random_counts import random_counts

import cellfeed as cf

PER_CELL = 1_000
Batches = Iterator[torch.Tensor]


def write_file(path: pathlib.Path, n_cells: int, n_genes: int) -> None:
    counts = random_counts(0, n_cells, n_genes, min(PER_CELL, n_genes // 2))
    anndata.AnnData(counts).write_h5ad(path)


class Autoencoder(torch.nn.Module):
    def __init__(self, n_genes: int) -> None:
        super().__init__()
        sizes = (n_genes, 128, 10, 128)
        layers: list[torch.nn.Module] = []
        for n_in, n_out in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(n_in, n_out), torch.nn.BatchNorm1d(n_out), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], n_genes))

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.poisson_nll_loss(self.layers(torch.log1p(x)), x)


class Trainer:
    def __init__(self, n_genes: int, device: str, **options: bool) -> None:
        torch.manual_seed(0)
        self._model = Autoencoder(n_genes).to(device)
        self._optimizer = torch.optim.Adam(self._model.parameters(), **options)

    def step(self, x: torch.Tensor) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        self._model.loss(x).backward()
        self._optimizer.step()


class GraphTrainer:
    """The same step as one CUDA graph."""

    def __init__(self, example: torch.Tensor) -> None:
        self._x = example.clone()
        trainer = Trainer(example.shape[1], "cuda", capturable=True, fused=True)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                trainer.step(self._x)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            trainer.step(self._x)

    def step(self, x: torch.Tensor) -> None:
        self._x.copy_(x)
        self._graph.replay()


def loader_batches(
    data: object, batch_size: int, device: str, output: str, pin_memory: bool = True
) -> Batches:
    """Rows on the device. CSR goes there as it is, a tenth of the bytes, and is spread there."""
    cells = cf.open(data)
    for epoch in itertools.count():
        loader = cf.Loader(
            cells, cf.BlockShuffling(1), batch_size, seed=epoch, drop_last=True,
            output=output, pin_memory=pin_memory and device != "cpu",
        )  # fmt: skip
        for batch in loader:
            yield batch.to(device, non_blocking=True).to_torch(dense=True)


class BackedRows(torch.utils.data.Dataset):
    """A batch of a backed file by its row numbers; h5py reads ascending ones much faster."""

    def __init__(self, path: pathlib.Path) -> None:
        self._adata = anndata.read_h5ad(path, backed="r")

    def __len__(self) -> int:
        return self._adata.n_obs

    def __getitem__(self, rows: list[int]) -> torch.Tensor:
        return torch.from_numpy(self._adata.X[np.sort(rows)].toarray())


def backed_batches(path: pathlib.Path, batch_size: int, device: str, workers: int) -> Batches:
    rows = BackedRows(path)
    order = torch.utils.data.RandomSampler(rows)
    loader = torch.utils.data.DataLoader(
        rows, batch_size=None, num_workers=workers, pin_memory=device != "cpu",
        sampler=torch.utils.data.BatchSampler(order, batch_size, drop_last=True),
    )  # fmt: skip
    while True:
        for x in loader:
            yield x.to(device, non_blocking=True)


def ann_loader_batches(path: pathlib.Path, batch_size: int, device: str) -> Batches:
    from anndata.experimental import AnnLoader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        adata = anndata.read_h5ad(path, backed="r")
        loader = AnnLoader(adata, batch_size=batch_size, shuffle=True, drop_last=True)
    while True:
        for batch in loader:
            yield torch.as_tensor(batch.X).to(device)


def cells_per_second(
    batches: Batches, use: Callable[[torch.Tensor], object], seconds: float, device: str
) -> float:
    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    for _ in range(3):
        use(next(batches))
    wait()
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        x = next(batches)
        use(x)
        n += len(x)
    wait()
    return n / (time.perf_counter() - start)


def measure(folder: pathlib.Path, options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    path, shards = folder / "cells.h5ad", folder / "shards"
    write_file(path, options.cells, options.genes)
    cf.convert_to_shards(path, shards)
    n, device = options.batch_size, options.device
    sources: dict[str, Callable[[], Batches]] = {
        "shards, csr": lambda: loader_batches(shards, n, device, "csr"),
        "shards, csr, not page-locked": lambda: loader_batches(shards, n, device, "csr", False),
        "shards, dense": lambda: loader_batches(shards, n, device, "dense"),
        ".h5ad, csr": lambda: loader_batches(path, n, device, "csr"),
        "AnnLoader": lambda: ann_loader_batches(path, n, device),
        "DataLoader, 4 processes": lambda: backed_batches(path, n, device, 4),
    }
    on_device = next(sources["shards, dense"]())
    trainer = GraphTrainer(on_device) if options.graph else Trainer(options.genes, device)
    rates: dict[str, dict[str, list[float]]] = {
        name: {"alone": [], "with the model": [], "share": []} for name in sources
    }
    rates["the model"] = {"with the model": []}
    for _ in range(options.rounds):
        bound = cells_per_second(itertools.repeat(on_device), trainer.step, options.seconds, device)
        rates["the model"]["with the model"].append(bound)
        for name, source in sources.items():
            for which, use in (("alone", torch.Tensor.size), ("with the model", trainer.step)):
                rates[name][which].append(cells_per_second(source(), use, options.seconds, device))
            rates[name]["share"].append(rates[name]["with the model"][-1] / bound)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--graph", action="store_true")
    options = parser.parse_args()
    if options.graph and not options.device.startswith("cuda"):
        parser.error("--graph needs a GPU")
    with tempfile.TemporaryDirectory() as folder:
        rates = measure(pathlib.Path(folder), options)
    name = torch.cuda.get_device_name() if options.device != "cpu" else "the CPU"
    print(f"{options.cells} cells x {options.genes} genes, batches of {options.batch_size}, {name}")
    for source, found in rates.items():
        line = f"{source:28}"
        for which, each in found.items():
            digits = ".3f" if which == "share" else ",.0f"
            line += f" {which} {statistics.median(each):{digits}}"
        print(line)


if __name__ == "__main__":
    main()
