"""What orders of cells do to a classifier: macro-F1, recall of a rare class, diversity and rate.

python benchmarks/science/run.py [--data DIR] [--only NAME] [--seeds N] [--cells N] [--genes N]
       [--steps N] [--json FILE]

Each data set is split by chance, once a seed; a small network is trained on cells that lie in the
order of their labels (as they are, and simulated from the same ones), through each order with the
same number of steps, and tested on cells that it has not seen. Means over the seeds are printed,
with the standard deviation.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import atlases
import numpy as np
import torch
from sklearn.metrics import f1_score, recall_score

import cellfeed as cf

BATCH_SIZE = 64
FETCH_FACTOR = 64  # batches that are read and shuffled together
HIDDEN = 64
WARMUP_EPOCHS = 2
N_TIMED = 3
Order = Callable[[], Any]
ORDERS: dict[str, tuple[Order, int]] = {
    "true random": (lambda: cf.BlockShuffling(1), FETCH_FACTOR),
    "blocks of 16": (lambda: cf.BlockShuffling(16), FETCH_FACTOR),
    "blocks of 64": (lambda: cf.BlockShuffling(64), FETCH_FACTOR),
    "blocks of 256": (lambda: cf.BlockShuffling(256), FETCH_FACTOR),
    "blocks of 64, one batch a group": (lambda: cf.BlockShuffling(64), 1),
    "shuffle buffer of 1,024": (lambda: cf.Streaming(shuffle_buffer=1024), FETCH_FACTOR),
    "streaming": (lambda: cf.Streaming(), FETCH_FACTOR),
    "class-balanced": (
        lambda: cf.ClassBalancedSampling(label_key=atlases.LABEL, block_size=1), FETCH_FACTOR,
    ),
    "curriculum": (
        lambda: cf.WeightedCellSampler(
            label_key=atlases.LABEL, curriculum_warmup_epochs=WARMUP_EPOCHS
        ),
        FETCH_FACTOR,
    ),
}  # fmt: skip


def loader_of(path: pathlib.Path, order: str, seed: int) -> Any:
    make, fetch_factor = ORDERS[order]
    cells = cf.open(path)
    return cf.Loader(
        cells, make(), BATCH_SIZE, output="dense", obs=[atlases.LABEL], seed=seed,
        fetch_factor=fetch_factor, threads=1,
        transforms=[cf.NormalizeTotal(atlases.TARGET_SUM), cf.Log1p()],
    )  # fmt: skip


def trained(loader: Any, n_genes: int, n_classes: int, n_steps: int, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(n_genes, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, n_classes)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    done = 0
    while done < n_steps:
        for batch in loader:
            codes = torch.from_numpy(np.asarray(batch.obs[atlases.LABEL], dtype=np.int64))
            loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(batch.x)), codes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if done == n_steps:
                break
    return model


def rate_of(loader: Any) -> float:
    """Cells a second of processor time, without a model: the best of some epochs."""
    best = math.inf
    for _ in range(N_TIMED + 1):
        begin = time.process_time()
        n_cells = sum(len(batch) for batch in loader)
        best = min(best, (time.process_time() - begin) / n_cells)
    return 1 / best


def figures(
    path: pathlib.Path, atlas: atlases.Atlas, order: str, seed: int, n_steps: int
) -> dict[str, float]:
    loader = loader_of(path, order, seed)
    model = trained(loader, atlas.x.shape[1], len(atlas.classes), n_steps, seed)
    entropy = loader.stats()["label_entropy_bits"][atlases.LABEL]
    with torch.no_grad():
        found = model(torch.from_numpy(atlas.x)).argmax(dim=1).numpy()
    recalls = recall_score(
        atlas.y, found, labels=range(len(atlas.classes)), average=None, zero_division=0
    )
    return {
        "macro_f1": float(f1_score(atlas.y, found, average="macro", zero_division=0)),
        "rare_recall": float(recalls[atlas.rare]),
        "entropy_bits": float(entropy),
        "cells_per_second": rate_of(loader_of(path, order, seed)),
    }


def table(name: str, runs: dict[str, list[dict[str, float]]]) -> str:
    lines = [
        f"### {name}", "",
        "| order | macro-F1 | recall of the rare class | entropy, bits | rate / true random |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    base = statistics.median(run["cells_per_second"] for run in runs["true random"])
    for order, each in runs.items():

        def spread(key: str, each: list[dict[str, float]] = each) -> str:
            values = [run[key] for run in each]
            deviation = statistics.stdev(values) if len(values) > 1 else math.nan
            return f"{statistics.mean(values):.3f} ± {deviation:.3f}"

        rate = statistics.median(run["cells_per_second"] for run in each) / base
        lines.append(
            f"| {order} | {spread('macro_f1')} | {spread('rare_recall')} "
            f"| {spread('entropy_bits')} | {rate:.2f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default="../shared/data/anndata")
    parser.add_argument("--only", choices=list(atlases.REAL), help="one data set")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cells", type=int, default=10_000, help="of a simulated atlas")
    parser.add_argument("--genes", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--json", type=pathlib.Path, help="where every run's figures go")
    options = parser.parse_args()
    torch.set_num_threads(1)
    real = {
        name: atlases.read_counts(options.data / file, column)
        for name, (file, column) in atlases.REAL.items()
        if (options.data / file).exists() and options.only in (None, name)
    }
    runs: Any = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, adata in (real or {"stand-in": atlases.stand_in(1_200)}).items():
        for seed in range(options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                made = pathlib.Path(folder) / name
                atlas = atlases.make(adata, made, seed, options.cells, options.genes)
                for order in ORDERS:
                    for kind, path in (("real", atlas.real), ("simulated", atlas.simulated)):
                        runs[f"{name}, {kind}"][order].append(
                            figures(path, atlas, order, seed, options.steps)
                        )
    for name, each in runs.items():
        print(table(name, each), flush=True)
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
