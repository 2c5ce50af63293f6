"""What test_accelerate.py starts with torchrun: data sets that Accelerate prepares.

``accelerate_program.py <file> <folder> <case>...`` writes ``<folder>/rank<r>.json``: by case the
rows of all batches of this rank, or the error.
"""

import json
import pathlib
import sys

import numpy as np
from accelerate import Accelerator
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.data.sampling import WeightedCellSampler
from cellfeed.errors import InvalidArgumentError


def loader(cells, **options):
    return cf.Loader(cells, cf.BlockShuffling(4), batch_size=8, seed=0, **options)


def dataset(cells):
    return cf.scDataset(cells, cf.BlockShuffling(4), 8, seed=0)


def with_worker(cells, method):
    return DataLoader(loader(cells), batch_size=None, num_workers=1, multiprocessing_context=method)


CASES = {
    "loader": loader,
    "scDataset": dataset,
    "loader in a DataLoader": lambda cells: DataLoader(loader(cells), batch_size=None),
    "scDataset in a DataLoader": lambda cells: DataLoader(dataset(cells), batch_size=None),
    "forked workers": lambda cells: with_worker(cells, "fork"),
    "spawned workers": lambda cells: with_worker(cells, "spawn"),
    "sampler": lambda cells: DataLoader(
        range(cells.n_obs), batch_size=8, sampler=WeightedCellSampler(np.arange(cells.n_obs) % 3)
    ),
    # Accelerate splits what is not split yet.
    "rank given": lambda cells: DataLoader(
        loader(cells, rank=0, world_size=1, collate_fn=rows_of), batch_size=None
    ),
}


def rows_of(batch):
    return batch.index


def rows(batch):
    return np.asarray(batch.index if hasattr(batch, "obs") else batch).tolist()


def after_the_first(accelerator, cells):
    batches = DataLoader(loader(cells, collate_fn=rows_of), batch_size=None)
    return [rows(batch) for batch in accelerator.skip_first_batches(batches, 1)]


def main():
    path, folder, *cases = sys.argv[1:]
    accelerator = Accelerator(cpu=True)
    found = {}
    for case in cases:
        try:
            prepared = accelerator.prepare(CASES[case](cf.open(path)))
            found[case] = {"rows": [rows(batch) for batch in prepared]}
        except InvalidArgumentError as error:
            found[case] = {"error": str(error)}
    found["skipped"] = {"rows": after_the_first(accelerator, cf.open(path))}
    name = f"rank{accelerator.process_index}.json"
    (pathlib.Path(folder) / name).write_text(json.dumps(found))
    accelerator.end_training()


if __name__ == "__main__":
    main()
