"""Loaders in torch's DataLoader: whichever came first; a word where batches would be batched."""

import subprocess
import sys

import numpy as np
import pytest
from small_atlas import write_atlas

import cellfeed as cf

BEFORE_TORCH = """
import sys
import cellfeed as cf
loader = cf.Loader(cf.open({path!r}), cf.BlockShuffling(4), 16)
assert "torch" not in sys.modules
import torch
from torch.utils.data import DataLoader, IterableDataset
assert isinstance(loader, IterableDataset)
sizes = [len(batch) for batch in DataLoader(loader, batch_size=None)]
assert sizes == [16, 16, 16, 12], sizes
assert type(loader) is cf.Loader is loader.__class__
assert issubclass(cf.scDataset, IterableDataset) and issubclass(cf.Loader, IterableDataset)
from torch.utils.data.distributed import DistributedSampler
assert issubclass(cf.WeightedCellSampler, DistributedSampler)
"""


def test_the_types_of_arguments_are_all_there():
    """What the overloads of Loader and read take by **options is what the functions take."""
    import inspect

    from cellfeed._keywords import LoaderKeywords, ReadKeywords

    for function, keywords in (
        (cf.Loader.__init__, LoaderKeywords), (cf.CellCollection.read, ReadKeywords),
    ):  # fmt: skip
        given = {"self", "cells", "strategy", "batch_size", "rows", "output", "collate_fn"}
        given |= {"shuffle", "unknown"}
        assert set(inspect.signature(function).parameters) - given == set(keywords.__annotations__)


@pytest.fixture
def path(tmp_path):
    return str(write_atlas(tmp_path)[0])


def test_a_loader_may_be_made_before_torch_is_imported(path):
    run = subprocess.run(
        [sys.executable, "-c", BEFORE_TORCH.format(path=path)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""


@pytest.fixture(scope="module")
def no_wait():
    """A data loader waits 5 s for a worker that failed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.2)
        yield


def to_pair(batch):
    return batch.to_torch(dense=True), batch.index


DATASETS = {
    "Loader": lambda path: cf.Loader(cf.open(path), cf.Streaming(), 16),
    "Loader, collate_fn": lambda path: cf.Loader(
        cf.open(path), cf.Streaming(), 16, collate_fn=to_pair
    ),
    "scDataset": lambda path: cf.scDataset(cf.open(path), cf.Streaming(), 16),
    "scDataset, batch_transform": lambda path: cf.scDataset(
        cf.open(path), cf.Streaming(), 16, batch_transform=to_pair
    ),
    "scDataset over an array": lambda path: cf.scDataset(
        np.arange(60.0).reshape(60, 1), cf.Streaming(), 16
    ),
}


@pytest.mark.filterwarnings("ignore:.*set_vital")
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", ["DataLoader", "StatefulDataLoader"])
@pytest.mark.parametrize("name", DATASETS)
def test_batching_batches_is_refused_with_the_remedy(path, name, kind, workers, no_wait):
    loader = data_loader(kind)
    for options in ({}, {"batch_size": 4}):
        with pytest.raises(cf.errors.InvalidArgumentError, match="use batch_size=None"):
            next(iter(loader(DATASETS[name](path), num_workers=workers, **options)))
    whole = loader(DATASETS[name](path), batch_size=None, num_workers=workers)
    assert len(whole) == len(list(whole)) == 4


def data_loader(kind):
    from torch.utils.data import DataLoader
    from torchdata.stateful_dataloader import StatefulDataLoader

    return {"DataLoader": DataLoader, "StatefulDataLoader": StatefulDataLoader}[kind]


def test_who_collates_batches_by_a_function_of_their_own_may(path):
    from torch.utils.data import DataLoader

    for name in DATASETS:
        pairs = DataLoader(DATASETS[name](path), batch_size=2, collate_fn=list)
        assert [len(pair) for pair in pairs] == [2, 2], name


def test_what_collate_fn_makes_goes_through_a_data_loader(path):
    from torch.utils.data import DataLoader

    loader = cf.Loader(
        cf.open(path, obs="donor"), cf.Streaming(), 16,
        collate_fn=lambda batch: (batch.to_torch(dense=True), batch["donor"].copy()),
    )  # fmt: skip
    x, y = next(iter(DataLoader(loader, batch_size=None)))
    assert x.shape == (16, 12) and y.shape == (16,)
