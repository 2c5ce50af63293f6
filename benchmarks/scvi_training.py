"""Training SCVI out of core beside scvi-tools' own loaders: cells per second, loading and training.

usage: python benchmarks/scvi_training.py [--like FILE] [--cells N] [--genes N,N] [--batch N,N]

Loading is one epoch of the batches that a model takes, dense float32, on the CPU. Training is one
epoch of SCVI with its defaults. Both are of the second epoch, files in the page cache. annbatch is
measured where it and scvi-tools 1.5 are installed.
"""

from __future__ import annotations

import argparse
import logging
import pathlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import anndata
import numpy as np
import scvi

import cellfeed as cf
import cellfeed.scvi

REAL = pathlib.Path(__file__).parents[2] / "shared" / "data" / "anndata" / "scp1884.h5ad"
KEY = "batch_of_cells"


def make_files(like: pathlib.Path, folder: pathlib.Path, n_cells: int, n_genes: int) -> None:
    """`a.h5ad` and `shards` with that many cells and genes, and a batch key of four labels."""
    cf.simulate(like, n_cells, folder / "all.h5ad", progress=False)
    adata = anndata.read_h5ad(folder / "all.h5ad")
    detected = np.asarray((adata.X > 0).sum(axis=0)).ravel()
    adata = adata[:, np.sort(np.argsort(-detected)[:n_genes])].copy()
    adata.obs[KEY] = np.array(["a", "b", "c", "d"])[np.arange(n_cells) % 4]
    adata.obs[KEY] = adata.obs[KEY].astype("category")
    adata.write_h5ad(folder / "a.h5ad")
    cf.convert_to_shards(folder / "a.h5ad", folder / "shards", progress=False)


Source = tuple[scvi.model.SCVI, Callable[[], Iterable[Any]], dict[str, Any]]


def in_memory(folder: pathlib.Path, batch_size: int) -> Source:
    """scvi-tools' AnnDataLoader."""
    adata = anndata.read_h5ad(folder / "a.h5ad")
    scvi.model.SCVI.setup_anndata(adata, batch_key=KEY)
    model = scvi.model.SCVI(adata)
    loader = model._make_data_loader(adata, batch_size=batch_size, shuffle=True)
    return model, lambda: loader, {"train_size": 1.0, "batch_size": batch_size}


def ours(name: str) -> Callable[[pathlib.Path, int], Source]:
    """cellfeed's data module over a file or shards."""

    def make(folder: pathlib.Path, batch_size: int) -> Source:
        data = cf.scvi.CellDataModule(
            folder / name, batch_key=KEY, train_size=1.0, batch_size=batch_size
        )
        model = scvi.model.SCVI(registry=data.registry)
        loader = data.train_dataloader()
        return model, lambda: loader, {"datamodule": data}

    return make


def annbatch(folder: pathlib.Path, batch_size: int) -> Source:
    """scvi-tools' way out of core since 1.5, with its defaults; its store is written first."""
    data = scvi.model.SCVI.setup_annbatch(
        collection_path=str(folder / "annbatch.zarr"),
        paths=[str(folder / "a.h5ad")],
        batch_key=KEY,
        batch_size=batch_size,
        shuffle=True,
    )
    model = scvi.model.SCVI(registry=data.registry)

    def batches() -> Iterable[Any]:
        for batch in data.train_dataloader():
            yield data.on_before_batch_transfer(batch, 0)

    return model, batches, {"datamodule": data, "train_size": 1.0}


def measure(source: Source, n_cells: int) -> tuple[float, float]:
    """Cells per second of loading and of training, each of a second epoch."""
    model, batches, arguments = source
    for _ in range(2):
        begin = time.perf_counter()
        n_seen = sum(len(batch["X"]) for batch in batches())
        loading = time.perf_counter() - begin
    assert n_seen > n_cells * 0.95, n_seen
    quiet = {"enable_progress_bar": False, "accelerator": "cpu", "max_epochs": 1}
    for _ in range(2):
        begin = time.perf_counter()
        model.train(**arguments, **quiet)
        training = time.perf_counter() - begin
    return n_cells / loading, n_cells / training


def main() -> None:
    """Measure all, and print a table for each number of genes and batch size."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.INFO)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--like", type=pathlib.Path, default=REAL)
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--genes", default="2000,18000")
    parser.add_argument("--batch", default="128,1024")
    given = parser.parse_args()
    sources = {
        "AnnDataLoader, in memory": in_memory,
        "cellfeed, .h5ad": ours("a.h5ad"),
        "cellfeed, shards": ours("shards"),
    }
    if hasattr(scvi.model.SCVI, "setup_annbatch"):
        sources["annbatch"] = annbatch
    for n_genes in map(int, given.genes.split(",")):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            make_files(given.like, folder, given.cells, n_genes)
            for batch_size in map(int, given.batch.split(",")):
                print(f"\n{n_genes:,} genes, batches of {batch_size}, scvi-tools", scvi.__version__)
                print("| source | loading, cells/s | ratio | training, cells/s | ratio |")
                print("|---|---|---|---|---|")
                base: tuple[float, float] | None = None
                for source, make in sources.items():
                    rates = measure(make(folder, batch_size), given.cells)
                    base = base or rates
                    parts = [f"{r:,.0f} | {r / b:.2f}" for r, b in zip(rates, base, strict=True)]
                    print(f"| {source} | {' | '.join(parts)} |", flush=True)


if __name__ == "__main__":
    main()
