"""What test_ranks_agree.py starts: two ranks of one group, rank 1 always after rank 0.

``ranks_agree_program.py <folder>``: rank r makes each case of what lies in ``<folder>/<r>``, and
writes ``<folder>/rank<r>.json``: by case the rows that it read, or the error.
"""

import itertools
import json
import os
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.data.distributed import DistributedShardSampler
from cellfeed.data.sampling import WeightedCellSampler


class Shards:
    def __init__(self, *offsets):
        self.shard_offsets = np.array(offsets)


def loader(path, strategy=None, **options):
    options = {"batch_size": 8, "fetch_factor": 2, "seed": 0} | options
    return cf.Loader(cf.open(path), strategy or cf.BlockShuffling(4), **options)


def only_on_rank_0(path, rank):
    if rank == 0:
        loader(path, cf.Streaming(), rank=0, world_size=1)
    return loader(path, cf.Streaming())


def resumed(path, loads=True, **changed):
    """At the third of five batches of an epoch, where the state is loaded."""
    made = loader(path, rank=0, world_size=1)
    for _ in made:
        pass
    reading = iter(made)
    next(reading), next(reading)
    again = loader(path)
    if loads:
        again.load_state_dict({**made.state_dict(), **changed})
    return again


def looked_at_and_set_once(path, rank):
    made = loader(path)
    if rank == 0:
        next(iter(made))
    made.set_epoch(0)
    for n in (None, 3, 2):
        yield from itertools.islice(made, n)


def all_but_the_end(path, rank):
    """One rank asks for one more than there are, the other does not."""
    made = loader(path)
    for _ in range(2):
        yield from made if rank else itertools.islice(made, len(made))


def with_workers(path, rank, **options):
    """In processes that are forked, as they are under torchrun, and stay."""
    made = DataLoader(
        loader(path), batch_size=None, num_workers=2, multiprocessing_context="fork", **options
    )
    for _ in range(3):
        yield from itertools.islice(made, 2)


def resumed_with_workers(path, rank):
    made = DataLoader(resumed(path), batch_size=None, num_workers=1, multiprocessing_context="fork")
    for _ in range(3):
        yield from made


def epochs_of(path, n, rank, *, looks=False, sets=False, stops_at=None):
    """The batches of n epochs; with looks, rank 0 looks at a batch before, alone."""
    made = loader(path)
    if looks and rank == 0:
        next(iter(made))
    for epoch in range(n):
        if sets:
            made.set_epoch(epoch)
        yield from itertools.islice(made, stops_at)


CASES = {
    "resumed": lambda path, rank: resumed(f"{path}/a.h5ad"),
    "resumed on one": lambda path, rank: resumed(f"{path}/a.h5ad", loads=rank == 0),
    "resumed on the other": lambda path, rank: resumed(f"{path}/a.h5ad", loads=rank == 1),
    "resumed in another partition": lambda path, rank: resumed(
        f"{path}/a.h5ad", partition=("interleave", "group")[rank]
    ),
    "resumed with other windows": lambda path, rank: resumed(
        f"{path}/a.h5ad", order_fetch_samples=(16, 32)[rank]
    ),
    "looked at on rank 0": lambda path, rank: epochs_of(f"{path}/a.h5ad", 3, rank, looks=True),
    "looked at and set once": lambda path, rank: looked_at_and_set_once(f"{path}/a.h5ad", rank),
    "all but the end": lambda path, rank: all_but_the_end(f"{path}/a.h5ad", rank),
    "workers": lambda path, rank: with_workers(f"{path}/a.h5ad", rank),
    "workers that stay": lambda path, rank: with_workers(
        f"{path}/a.h5ad", rank, persistent_workers=True
    ),
    "resumed with workers": lambda path, rank: resumed_with_workers(f"{path}/a.h5ad", rank),
    "epochs": lambda path, rank: epochs_of(f"{path}/a.h5ad", 3, rank),
    "two batches of each": lambda path, rank: epochs_of(f"{path}/a.h5ad", 3, rank, stops_at=2),
    "looked at, epochs set": lambda path, rank: epochs_of(
        f"{path}/a.h5ad", 3, rank, looks=True, sets=True
    ),
    "stopped anywhere": lambda path, rank: epochs_of(f"{path}/a.h5ad", 3, rank, stops_at=1 + rank),
    "stopped anywhere, epochs set": lambda path, rank: epochs_of(
        f"{path}/a.h5ad", 3, rank, sets=True, stops_at=1 + rank
    ),
    "same": lambda path, rank: loader(f"{path}/a.h5ad"),
    "same elsewhere": lambda path, rank: loader([f"{path}/a.h5ad", f"{path}/b.h5ad"]),
    "one file more": lambda path, rank: loader(f"{path}/*.h5ad"),
    "another order of files": lambda path, rank: loader(
        [f"{path}/{name}.h5ad" for name in ("ab" if rank else "ba")]
    ),
    "another seed": lambda path, rank: loader(f"{path}/a.h5ad", seed=rank),
    "another batch size": lambda path, rank: loader(f"{path}/a.h5ad", batch_size=8 + rank),
    "other weights": lambda path, rank: loader(
        f"{path}/a.h5ad", cf.BlockWeightedSampling(weights=1.0 + rank * np.arange(40))
    ),
    "ranks of its own": lambda path, rank: loader(f"{path}/*.h5ad", rank=0, world_size=1),
    "one more on rank 0": lambda path, rank: only_on_rank_0(f"{path}/a.h5ad", rank),
    "scDataset": lambda path, rank: cf.scDataset(
        np.arange(40 + rank), cf.BlockShuffling(4), 8, 2, seed=0
    ),
    "scDataset over cells": lambda path, rank: cf.scDataset(
        cf.open(f"{path}/*.h5ad"), cf.BlockShuffling(4), 8, 2, seed=0
    ),
    "in workers": lambda path, rank: DataLoader(
        loader(f"{path}/*.h5ad"), batch_size=None, num_workers=1
    ),
    "shards": lambda path, rank: DistributedShardSampler(Shards(0, 10, 20 + rank, 40)),
    "same shards": lambda path, rank: DistributedShardSampler(Shards(0, 10, 20, 40)),
    "draws": lambda path, rank: WeightedCellSampler(["a", "b"] * 20 + ["b"] * rank),
}


def rows_of(batch):
    return batch if isinstance(batch, int) else np.asarray(getattr(batch, "index", batch)).tolist()


def outcome(make, path, rank):
    try:
        return {"rows": [rows_of(batch) for batch in make(path, rank)]}
    except cf.errors.CellfeedError as error:
        return {"error": str(error)}


def in_a_child(make, path, rank):
    """The group of a process that was forked is its parent's."""
    if (child := os.fork()) == 0:
        made = outcome(make, path, rank)
        os._exit(0 if "rows" in made else 1)
    return {"status": os.waitpid(child, 0)[1]}


def run_rank(rank, folder):
    torch.set_num_threads(1)
    early = loader(f"{folder}/{rank}/*.h5ad")  # of one rank still
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    path, out = f"{folder}/{rank}", {}
    for turn in range(2):
        if turn == rank:
            for name, make in CASES.items():
                out[name] = outcome(make, path, rank)
            for case in ("before the group", "once more"):
                out[case] = outcome(lambda *_: early, path, rank)
            out["forked"] = in_a_child(CASES["one file more"], path, rank)
        dist.barrier()
    ended = loader(f"{path}/a.h5ad")
    list(ended)
    dist.barrier()
    dist.destroy_process_group()
    out["after the group"] = outcome(lambda *_: ended, path, rank)
    with open(os.path.join(folder, f"rank{rank}.json"), "w") as file:
        json.dump(out, file)


if __name__ == "__main__":
    torch.multiprocessing.start_processes(
        run_rank, args=(sys.argv[1],), nprocs=2, start_method="spawn"
    )
