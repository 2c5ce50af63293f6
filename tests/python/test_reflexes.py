"""What people write out of habit from PyTorch and AnnData works, or says what to write instead."""

import inspect

import anndata
import numpy as np
import pytest
import scipy.sparse

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, InvalidTypeError


@pytest.fixture(params=[None, "gzip"])
def path(request, tmp_path):
    x = scipy.sparse.random(300, 9, 0.5, "csr", dtype=np.float32, random_state=0)
    adata = anndata.AnnData(x)
    adata.obs["kind"] = np.where(np.arange(300) % 3 == 0, "a", "b")
    adata.write_h5ad(tmp_path / "a.h5ad", compression=request.param)
    return tmp_path / "a.h5ad"


def order_of(loader):
    return np.concatenate([batch.index for batch in loader])


def test_a_loader_opens_files_and_shuffles(path):
    in_order = cf.Loader(path, batch_size=64)
    assert order_of(in_order).tolist() == list(range(300))
    assert order_of(cf.Loader([path], batch_size=64, shuffle=False)).tolist() == list(range(300))
    shuffled = cf.Loader(str(path), batch_size=64, shuffle=True, seed=3)
    first, second = order_of(shuffled), order_of(shuffled)
    assert sorted(first) == sorted(second) == list(range(300))
    assert not np.array_equal(first, second)
    blocks = 64 if cf.open(path)._core.is_chunked else 1
    same = cf.Loader(cf.open(path), cf.BlockShuffling(blocks), batch_size=64, seed=3)
    assert np.array_equal(order_of(same), first)
    adata = anndata.read_h5ad(path)
    for batch in cf.Loader(adata, batch_size=64, shuffle=True, obs="kind"):
        assert (adata.X[batch.index] != batch.X).nnz == 0
        assert batch.X is batch.x


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"num_workers": 4}, InvalidTypeError, "no argument 'num_workers'.*threads="),
        ({"collate": print}, InvalidTypeError, "no argument 'collate'.*collate_fn="),
        ({"obs_keys": ["kind"]}, InvalidTypeError, "no argument 'obs_keys'.*obs="),
        ({"sampler": None}, InvalidTypeError, "no argument 'sampler'.*strategy="),
        ({"prefetch_factor": 2}, InvalidTypeError, "fetch_factor="),
        ({"batchsize": 2}, InvalidTypeError, "no argument 'batchsize'; did you mean .batch_size"),
        ({"shuffle": 1}, InvalidTypeError, "shuffle must be True or False"),
        (
            {"shuffle": True, "strategy": cf.Streaming()},
            InvalidArgumentError,
            "shuffle and strategy both say the order",
        ),
        ({"strategy": 256}, InvalidTypeError, "strategy must be one of"),
    ],
)
def test_arguments_of_other_loaders_are_answered(path, arguments, kind, words):
    with pytest.raises(kind, match=words):
        cf.Loader(path, **arguments)


def test_a_batch_is_no_tuple(path):
    loader = cf.Loader(path, batch_size=50, obs="kind")
    with pytest.raises(InvalidTypeError, match="collate_fn=lambda batch"):
        for x, y in loader:
            print(x, y)
    pairs = cf.Loader(
        path, batch_size=50, obs="kind", collate_fn=lambda batch: (batch.x, batch["kind"])
    )
    assert sum(x.shape[0] == len(y) == 50 for x, y in pairs) == 6


def test_notebooks_show_the_arguments():
    shown = inspect.signature(cf.Loader)
    assert list(shown.parameters)[:4] == ["cells", "strategy", "batch_size", "shuffle"]
    assert "unknown" not in shown.parameters and shown.parameters["batch_size"].default == 1024
