"""What test_ddp.py starts: groups of processes over gloo, forked from one that has torch.

``ddp_program.py <folder>`` starts groups of 2, 3 and 4, and reads by every strategy;
``ddp_program.py <folder> <strategy>...`` starts one of 2, reads by these alone and trains nothing.

Each rank writes ``<world size>/rank<r>.json``: the rows of every batch of two epochs, by case, with
two worker processes; and the gradients of a few steps of data-parallel training.
"""

import json
import multiprocessing
import os
import sys
import warnings

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import cellfeed as cf

LABELS = ["a", "b", "b", "c"]
SIZES = (1, 3, 100)  # fewer samples than ranks too
BATCH_SIZE, FETCH_FACTOR = 6, 2


def strategies(n):
    labels = np.resize(LABELS, n)
    return {
        "Streaming": cf.Streaming(),
        "BlockShuffling": cf.BlockShuffling(4),
        "BlockWeightedSampling": cf.BlockWeightedSampling(4, weights=1.0 + np.arange(n)),
        "ClassBalancedSampling": cf.ClassBalancedSampling(labels, 4, smoothing=0.1),
        "WeightedCellSampler": cf.WeightedCellSampler(labels, curriculum_warmup_epochs=2),
        "GroupSampling": cf.GroupSampling(labels=labels),
    }


def features(n=96):
    random = np.random.default_rng(0)
    return random.normal(size=(n, 5)).astype(np.float32)


def make_training_set(batch_size, **options):
    # The same number of samples a step, whatever the number of ranks.
    return cf.scDataset(features(), cf.BlockShuffling(4), batch_size, 2, seed=3, **options)


def train(model, loader, steps):
    """Gradients of each step; the model is never updated, so that steps stay comparable."""
    gradients = []
    for _, batch in zip(range(steps), loader, strict=False):
        model.zero_grad()
        loss = (model(batch) ** 2).mean()
        loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]).tolist())
    return gradients


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def run_rank(folder, rank, world_size, names=()):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size)}
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/group", rank=rank, world_size=world_size
    )
    rows = {}
    for n in SIZES:
        for name in names or strategies(n):
            strategy = strategies(n)[name]
            # The seed is drawn by rank 0 and broadcast.
            dataset = cf.scDataset(np.arange(n), strategy, BATCH_SIZE, FETCH_FACTOR)
            assert (dataset.rank, dataset.world_size) == (rank, world_size)
            num_workers = 2 if n == SIZES[-1] else 0
            loader = DataLoader(dataset, batch_size=None, num_workers=num_workers)
            epochs = [[batch.tolist() for batch in loader] for _ in range(2)]
            rows[f"{name} {n}"] = {"seed": dataset.seed, "epochs": epochs}
    found = {"rows": rows}
    if not names:
        training_set = make_training_set(24 // world_size)
        loader = DataLoader(training_set, batch_size=None, num_workers=2)
        found["gradients"] = train(DistributedDataParallel(make_model()), loader, steps=4)
    with open(os.path.join(folder, f"rank{rank}.json"), "w") as file:
        json.dump(found, file)
    dist.destroy_process_group()


def main(folder, *names):
    torch.set_num_threads(1)
    fork = multiprocessing.get_context("fork")
    for world_size in (2,) if names else (2, 3, 4):
        place = os.path.join(folder, str(world_size))
        os.mkdir(place)
        ranks = [
            fork.Process(target=run_rank, args=(place, rank, world_size, names))
            for rank in range(world_size)
        ]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        if any(rank.exitcode for rank in ranks):
            sys.exit(f"{world_size} ranks ended with {[rank.exitcode for rank in ranks]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
