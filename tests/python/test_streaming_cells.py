"""StreamingCellDataset: each cell once an epoch, whatever workers, ranks and states there are."""

import json
import pickle
from collections import Counter

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from small_atlas import make_anndata
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import cellfeed as cf
from cellfeed.data.dataset import CellDataset
from cellfeed.data.gene_selection import collate_cells
from cellfeed.data.streaming import StreamingCellDataset
from cellfeed.data.vocab import GeneVocab

N = 1201  # no multiple of a batch, a worker or a rank


@pytest.fixture(scope="module")
def adata():
    x = scipy.sparse.random(N, 40, 0.3, format="csr", dtype=np.float32, random_state=2)
    x.data = np.ceil(x.data * 9)
    obs = pd.DataFrame(
        {"kind": pd.Categorical(np.resize(["a", "b", "c"], N)), "number": np.arange(N)},
        index=[f"cell {i}" for i in range(N)],
    )
    return anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=[f"G{i}" for i in range(40)]))


@pytest.fixture(scope="module")
def path(adata, tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "atlas.h5ad"
    adata.write_h5ad(path)
    return path


def stream(path, **options):
    return StreamingCellDataset(path, obs_keys=["number"], **options)


def number_of(cell):
    return cell["metadata"]["number"]


def numbers(cells):
    return [number_of(cell) for cell in cells]


def test_cells_are_those_of_the_file(path, adata):
    vocab = GeneVocab.from_genes([f"G{i}" for i in range(39, 9, -1)])
    dataset = StreamingCellDataset(
        h5ad_path=path, gene_vocab=vocab, chunk_size=100, shuffle_buffer_size=50,
        obs_keys=["number", "kind"],
    )  # fmt: skip
    seen = 0
    for cell in dataset:
        number = number_of(cell)
        row = adata.X[[number]]
        wanted = {f"G{gene}": v for gene, v in zip(row.indices, row.data, strict=True)}
        found = dict(zip(vocab.decode(cell.gene_ids), cell.expression.tolist(), strict=True))
        assert found == {gene: v for gene, v in wanted.items() if gene in vocab.genes}
        assert cell["metadata"]["kind"] == adata.obs["kind"].iloc[number]
        assert isinstance(cell.expression, torch.Tensor) and cell.n_genes == len(found)
        assert cell["is_padding"] is False
        seen += 1
    assert seen == N


def test_shuffled_within_the_buffer_and_anew_each_epoch(path):
    dataset = stream(path, chunk_size=64, shuffle_buffer_size=100)
    epochs = [numbers(dataset) for _ in range(3)]
    for order in epochs:
        assert sorted(order) == list(range(N)) and order != sorted(order)
        for begin in range(0, N, 100):
            end = min(begin + 100, N)
            assert sorted(order[begin:end]) == list(range(begin, end))
    assert epochs[0] != epochs[1] != epochs[2]
    assert numbers(stream(path, chunk_size=64, shuffle_buffer_size=100)) == epochs[0]
    assert numbers(stream(path, shuffle_buffer_size=100, epoch=2)) == epochs[2]
    assert numbers(stream(path, shuffle_buffer_size=100, seed=1)) != epochs[0]
    dataset.set_epoch(1)
    assert numbers(dataset) == epochs[1]


def test_without_a_buffer_the_order_of_the_files(path):
    assert numbers(stream(path, chunk_size=7, shuffle_buffer_size=0)) == list(range(N))


@pytest.mark.parametrize(
    ("batch_size", "workers"),
    [
        (50, 0), (None, 0), (50, 2),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((50, 1), (None, 1), (None, 2))),
    ],
)  # fmt: skip
def test_workers_divide_the_cells(path, workers, batch_size):
    dataset = stream(path, chunk_size=128, shuffle_buffer_size=300)
    context = {"multiprocessing_context": "fork"} if workers else {}
    loader = DataLoader(
        dataset, batch_size=batch_size, num_workers=workers, persistent_workers=workers > 0,
        **context,
    )  # fmt: skip
    epochs = []
    for _ in range(2):
        cells = [m for batch in loader for m in (batch["metadata"] if batch_size else [batch])]
        epochs.append([m["number"] if batch_size else number_of(m) for m in cells])
    assert [sorted(order) for order in epochs] == [list(range(N))] * 2
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_divide_the_cells_and_get_as_many(path, world_size):
    def cells_of(remainder):
        options = {"world_size": world_size, "remainder": remainder, "shuffle_buffer_size": 200}
        return [list(stream(path, rank=rank, **options)) for rank in range(world_size)]

    padded = cells_of("pad")
    assert {len(cells) for cells in padded} == {-(-N // world_size)}
    real = [number_of(c) for cells in padded for c in cells if not c["is_padding"]]
    assert sorted(real) == list(range(N))
    dropped = cells_of("drop")
    assert {len(cells) for cells in dropped} == {N // world_size}
    assert max(Counter(n for cells in dropped for n in numbers(cells)).values()) == 1
    if N % world_size:
        with pytest.raises(cf.errors.InvalidArgumentError, match="remainder"):
            cells_of("error")


@pytest.mark.slow
def test_ranks_and_workers(path):
    seen = []
    for rank in range(2):
        dataset = stream(path, chunk_size=100, rank=rank, world_size=2)
        loader = DataLoader(
            dataset, batch_size=64, num_workers=2, collate_fn=collate_cells,
            multiprocessing_context="spawn",
        )  # fmt: skip
        for batch in loader:
            assert batch["is_padding"].shape == batch["n_genes"].shape
            kept = zip(batch["metadata"], batch["is_padding"].tolist(), strict=True)
            seen += [metadata["number"] for metadata, is_padding in kept if not is_padding]
    assert sorted(seen) == list(range(N))


@pytest.mark.parametrize("n_before", [0, 1, 63, 64, 65, 700, N - 1, N])
def test_a_state_continues_at_the_cell(path, n_before):
    options = {"chunk_size": 64, "shuffle_buffer_size": 150}
    dataset = stream(path, **options)
    whole = [numbers(dataset) for _ in range(2)]
    dataset.set_epoch(0)
    cells = iter(dataset)
    before = [number_of(next(cells)) for _ in range(n_before)]
    state = json.loads(json.dumps(dataset.state_dict()))

    again = stream(path, **options)
    again.load_state_dict(state)
    assert again.state_dict() == state
    left = numbers(again)
    assert before + left == whole[0]
    assert numbers(again) == whole[1]


@pytest.mark.parametrize("sets_epoch", [False, True])
@pytest.mark.parametrize("workers", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_a_loaded_state_continues_at_the_cell_whatever_workers(path, workers, sets_epoch):
    """One of them has the batch that was begun, and the next epochs are whole."""
    cells = iter(dataset := stream(path, chunk_size=64, shuffle_buffer_size=200))
    seen = numbers(next(cells) for _ in range(333))
    state = json.loads(json.dumps(dataset.state_dict()))
    dataset = stream(path, chunk_size=64, shuffle_buffer_size=200)
    dataset.load_state_dict(state)
    if sets_epoch:
        dataset.set_epoch(dataset.epoch)  # as Lightning does
    loader = DataLoader(dataset, batch_size=None, num_workers=workers)
    assert sorted(seen + numbers(loader)) == list(range(N))
    for _ in range(2):
        assert sorted(numbers(loader)) == list(range(N))


def test_the_state_after_an_epoch_is_that_of_the_next(path):
    dataset = stream(path)
    first, state = numbers(dataset), dataset.state_dict()
    again = stream(path)
    again.load_state_dict(state)
    assert numbers(again) == numbers(dataset) != first


@pytest.mark.parametrize("is_older_first", [True, False])
def test_states_are_of_the_iteration_that_began_last(path, is_older_first):
    dataset = stream(path, chunk_size=64)
    one, other = iter(dataset), iter(dataset)
    older, newer = (one, other) if is_older_first else (other, one)
    next(older)
    taken = []
    for _ in range(200):
        taken.append(number_of(next(newer)))
        next(older)
    again = stream(path, chunk_size=64)
    again.load_state_dict(dataset.state_dict())
    assert sorted(taken + numbers(again)) == list(range(N))


@pytest.mark.filterwarnings("ignore:.*set_vital")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader_continues(path, workers):
    def loader():
        dataset = stream(path, chunk_size=100, shuffle_buffer_size=100)
        return StatefulDataLoader(
            dataset, batch_size=30, num_workers=workers, collate_fn=collate_cells
        )

    def read(batches):
        return [[m["number"] for m in batch["metadata"]] for batch in batches]

    whole = read(loader())
    interrupted = loader()
    batches = iter(interrupted)
    before = read(next(batches) for _ in range(7))
    state = interrupted.state_dict()
    again = loader()
    again.load_state_dict(state)
    assert before + read(again) == whole


def test_workers_alone_do_not_know_a_state(path):
    dataset = stream(path)
    for _ in DataLoader(dataset, batch_size=100, num_workers=1):
        pass
    with pytest.raises(cf.errors.InvalidArgumentError, match="StatefulDataLoader"):
        dataset.state_dict()


def test_states_of_others_are_refused(path):
    dataset = stream(path, rank=0, world_size=2)
    cells = iter(dataset)
    next(cells)
    state = dataset.state_dict()
    with pytest.raises(cf.errors.InvalidArgumentError, match="2 ranks, and there are 1 now"):
        stream(path).load_state_dict(state)
    with pytest.raises(cf.errors.InvalidArgumentError, match="seed"):
        stream(path, rank=0, world_size=2, seed=5).load_state_dict(state)
    for wrong in (None, {}, {"loader": {}, "n_cells": 1}, state["loader"]):
        with pytest.raises(cf.errors.InvalidArgumentError, match="not a state"):
            dataset.load_state_dict(wrong)
    for n_cells in (-1, 10**9, "1"):
        with pytest.raises(cf.errors.CellfeedError, match="n_cells"):
            dataset.load_state_dict({**state, "n_cells": n_cells})


def test_copies_begin_anew(path):
    dataset = stream(path)
    cells = iter(dataset)
    next(cells)
    copy = pickle.loads(pickle.dumps(dataset))
    assert sorted(numbers(copy)) == list(range(N))


def test_shards_and_several_files(path, adata, tmp_path):
    cf.convert_to_shards(path, tmp_path / "shards", shard_size=500)
    assert sorted(numbers(stream(tmp_path / "shards"))) == list(range(N))
    adata[:10].write_h5ad(tmp_path / "a.h5ad")
    adata[10:30].write_h5ad(tmp_path / "b.h5ad")
    assert numbers(stream(str(tmp_path / "*.h5ad"), shuffle_buffer_size=0)) == list(range(30))
    files = StreamingCellDataset(paths=[tmp_path / "a.h5ad", tmp_path / "b.h5ad"])
    assert len(list(files)) == 30


def test_preprocessing_runs(path, adata):
    dataset = StreamingCellDataset(
        path, preprocessing=[cf.NormalizeTotal(100.0), cf.Log1p()], shuffle_buffer_size=0
    )
    row = adata.X[0].data
    wanted = np.log1p(row * (100.0 / row.sum()))
    np.testing.assert_allclose(next(iter(dataset)).expression.numpy(), wanted, rtol=1e-6)
    doubled = StreamingCellDataset(path, preprocessing=lambda v: v * 2, shuffle_buffer_size=0)
    np.testing.assert_array_equal(next(iter(doubled)).expression.numpy(), row * 2)
    broken = StreamingCellDataset(path, preprocessing=lambda v: v[:1], shuffle_buffer_size=0)
    with pytest.raises(cf.errors.InvalidArgumentError, match="for cell 0"):
        next(iter(broken))


def test_it_is_iterable_and_nothing_else(path):
    dataset = stream(path)
    assert isinstance(dataset, torch.utils.data.IterableDataset)
    with pytest.raises(TypeError):
        dataset[42]
    with pytest.raises(TypeError):
        len(dataset)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give files"),
        ({"h5ad_path": "a.h5ad", "paths": "b.h5ad"}, "not as both"),
        ({"h5ad_path": "nowhere.h5ad"}, "nowhere.h5ad"),
        ({"h5ad_path": "", "chunk_size": 0}, "chunk_size"),
        ({"h5ad_path": "", "shuffle_buffer_size": -1}, "shuffle_buffer_size"),
        ({"h5ad_path": "", "gene_vocab": ["A"]}, "gene_vocab"),
    ],
)
def test_what_is_wrong_is_named(arguments, message):
    with pytest.raises(cf.errors.CellfeedError, match=message):
        StreamingCellDataset(**arguments)


def test_columns_that_are_not_there(path):
    with pytest.raises(cf.errors.NoSuchKeyError, match="nonsense"):
        StreamingCellDataset(path, obs_keys=["nonsense"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers_come_as_they_are_stored_by_every_path(tmp_path, value):
    """The rule of docs/guide.md: refused where totals are made, else as the file holds them."""
    adata = make_anndata()
    adata.X.data[5] = value
    path = tmp_path / "odd.h5ad"
    adata.write_h5ad(path)
    vocab = GeneVocab.from_adata(path)
    stored = adata.X.data.tolist()

    def values_of(transforms):
        cells = {
            "stream": StreamingCellDataset(path, shuffle_buffer_size=0, preprocessing=transforms),
            "cells": CellDataset(path, vocab, preprocessing=transforms),
        }
        found = {}
        for name, dataset in cells.items():
            rows = dataset if name == "stream" else map(dataset.__getitem__, range(len(dataset)))
            found[name] = [v for cell in rows for v in np.asarray(cell["expression"]).tolist()]
        loader = cf.Loader(cf.open(path), cf.Streaming(), 7, transforms=transforms or ())
        found["loader"] = [v for batch in loader for v in batch.data.tolist()]
        return found

    for name, found in values_of(None).items():
        np.testing.assert_array_equal(found, stored, err_msg=name)
    for name, found in values_of([cf.Log1p()]).items():
        np.testing.assert_allclose(found, np.log1p(stored), rtol=1e-6, err_msg=name)
    for make in (StreamingCellDataset, lambda path, **how: CellDataset(path, vocab, **how)):
        with pytest.raises(cf.errors.InvalidArgumentError, match="cell 0; remove NaN"):
            dataset = make(path, preprocessing=[cf.NormalizeTotal(1e4)])
            list(dataset) if make is StreamingCellDataset else dataset[0]
