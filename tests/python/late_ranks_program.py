"""What test_late_ranks.py starts: data sets made first, ranks started with them, groups at last.

``late_ranks_program.py <spawn | fork> <atlas> <folder>`` starts two ranks; each writes
``<folder>/rank<r>.json``: by case the rows of the batches of two epochs that are no padding.
"""

import json
import os
import sys
import warnings

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.utils.data import DataLoader

import cellfeed as cf

WORLD_SIZE, N = 2, 101


def rows_of(batch):
    return (
        batch.index[~batch.is_padding].tolist() if isinstance(batch, cf.Batch) else batch.tolist()
    )


def make_cases(atlas, start):
    """Name -> an iterable of batches; none was iterated before."""
    warnings.filterwarnings("ignore", message="This DataLoader will create")

    def loader():
        return cf.Loader(cf.open(atlas), cf.BlockShuffling(4), 8, fetch_factor=2)

    def data_set(**options):
        options = {"remainder": "drop", **options}
        return cf.scDataset(np.arange(N - 1), cf.BlockShuffling(4), 8, 2, **options)

    asked = loader()
    assert len(asked) == -(-N // 8), "one rank now"
    return {
        "Loader": loader(),
        "Loader, asked for its length": asked,
        "Loader in workers": DataLoader(
            loader(), batch_size=None, num_workers=2 if start == "fork" else 1,
            persistent_workers=True, multiprocessing_context=start,
        ),
        "scDataset": data_set(),
        "scDataset over cells": cf.scDataset(cf.open(atlas), cf.BlockShuffling(4), 8, 2),
        "scDataset in workers": DataLoader(data_set(seed=4), batch_size=None, num_workers=2),
        "scDataset in workers, without a seed": DataLoader(
            data_set(), batch_size=None, num_workers=1
        ),
    }  # fmt: skip


def run_rank(rank, cases, folder):
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/group", rank=rank, world_size=WORLD_SIZE
    )
    out = {}
    for name, batches in cases.items():
        try:
            length = len(batches)
            epochs = [[rows_of(batch) for batch in batches] for _ in range(2)]
            out[name] = {"length": length, "epochs": epochs}
        except cf.errors.CellfeedError as error:
            out[name] = {"error": str(error)}
    with open(os.path.join(folder, f"rank{rank}.json"), "w") as file:
        json.dump(out, file)
    dist.barrier()
    dist.destroy_process_group()


def main(start, atlas, folder):
    cases = make_cases(atlas, start)
    torch.multiprocessing.start_processes(
        run_rank, args=(cases, folder), nprocs=WORLD_SIZE, start_method=start
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
