"""What test_series_ranks.py starts: two processes over gloo, and a loader of windows in each.

Each rank writes ``rank<r>.json``: numbers of the windows of every batch of two epochs, and a
checksum of what is in them, without workers and with two that are forked or spawned; and the same
of runs that were stopped after each step and went on from their state.
"""

import hashlib
import json
import multiprocessing
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.series import SeriesDataset

BATCH_SIZE = 8


def make_data(path):
    return SeriesDataset(path, 6, 2, target="f1", future="f2")


def make_loader(path, **options):
    return cf.series.SeriesLoader(
        make_data(path), cf.BlockShuffling(1), BATCH_SIZE, seed=5, **options
    )


def told(batch):
    """Numbers of windows, and what is in them."""
    parts = (batch.x, batch.y, batch.future)
    content = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
    return [batch.index.tolist(), batch.is_padding.tolist(), content]


def stopped_after(path, step):
    loader = make_loader(path)
    iterator = iter(loader)
    for _ in range(step):
        next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    iterator.close()
    again = make_loader(path)
    again.load_state_dict(state)
    return [told(batch) for batch in again]


def run_rank(path, folder, rank):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    loader = make_loader(path)
    assert (loader.rank, loader.world_size) == (rank, 2)
    found = {"alone": [[told(batch) for batch in loader] for _ in range(2)]}
    for how in ("fork", "spawn"):
        batches = DataLoader(
            make_loader(path), batch_size=None, num_workers=2, multiprocessing_context=how
        )
        found[how] = [[told(batch) for batch in batches] for _ in range(2)]
    found["stopped"] = [stopped_after(path, step) for step in range(len(loader))]
    with open(os.path.join(folder, f"rank{rank}.json"), "w") as file:
        json.dump(found, file)
    dist.destroy_process_group()


def main(path, folder):
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=run_rank, args=(path, folder, r)) for r in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    if any(rank.exitcode for rank in ranks):
        sys.exit(f"ranks ended with {[rank.exitcode for rank in ranks]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
