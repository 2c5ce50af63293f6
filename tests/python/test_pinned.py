"""Page-locked batches, over a torch that counts what it gives (locking_torch.cc): no GPU is needed.

What torch does with such memory on a GPU is torch's; here it is ordinary memory of torch's.
"""

import ctypes
import gc
import os
import pathlib
import pickle
import shutil
import subprocess

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed._iteration.worker import Worker
from cellfeed._torch import _pinned, _tensors
from cellfeed.data import GeneVocab
from cellfeed.token_batch import TokenBatch

pytestmark = pytest.mark.slow

N, GENES = 300, 40


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler for the test's own torch library")
    path = tmp_path_factory.mktemp("torch") / "liblocking_torch.so"
    source = pathlib.Path(__file__).with_name("locking_torch.cc")
    real = pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    define = f'-DREAL_TORCH="{real}"'
    subprocess.run(
        [compiler, "-std=c++20", "-shared", "-fPIC", define, "-o", path, source, "-ldl"], check=True
    )
    return path


@pytest.fixture
def locking(library, monkeypatch):
    """The library, in the place of torch's."""
    monkeypatch.setattr("cellfeed._torch.find_torch_library", lambda: str(library))
    monkeypatch.setattr(_tensors, "pin", torch.clone)
    counts = ctypes.CDLL(str(library))
    counts.live_tensors.restype = counts.made_tensors.restype = ctypes.c_int64
    gc.collect()
    assert counts.live_tensors() == 0
    yield counts
    counts.refuse(False)
    gc.collect()
    assert counts.live_tensors() == 0, "all that was taken came back"


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    random = np.random.default_rng(3)
    x = scipy.sparse.csr_matrix(random.poisson(0.5, size=(N, GENES)).astype(np.float32))
    obs = pd.DataFrame(
        {"kind": pd.Categorical(np.resize(["B", "T", "NK"], N)), "size": np.arange(N) / 7},
        index=[f"c{i}" for i in range(N)],
    )
    path = tmp_path_factory.mktemp("pinned") / "a.h5ad"
    var = pd.DataFrame(index=[f"g{i}" for i in range(GENES)])
    anndata.AnnData(x, obs=obs, var=var).write_h5ad(path)
    return cf.open(path, obs=["kind", "size"])


def make_loader(cells, output, **options):
    return cf.Loader(cells, cf.BlockShuffling(1), 32, output=output, **options)


@pytest.mark.parametrize("output", ["csr", "dense"])
def test_batches_are_the_same_in_torch_memory(cells, locking, output):
    made = locking.made_tensors()
    loader = make_loader(cells, output, pin_memory=True)
    n = 0
    for batch, plain in zip(loader, make_loader(cells, output), strict=True):
        n += 1
        assert batch.index.tolist() == plain.index.tolist()
        np.testing.assert_array_equal(batch.to_numpy(), plain.to_numpy())
        for column in ("kind", "size"):
            np.testing.assert_array_equal(batch.obs[column], plain.obs[column])
        tensor = batch.to_torch()
        assert tensor.dtype == torch.float32
        values = tensor.values() if output == "csr" else tensor
        assert values.data_ptr() == batch.data.ctypes.data
        np.testing.assert_array_equal(batch.to_torch(dense=True).to_dense(), plain.to_numpy())
        if output == "csr":
            assert tensor.col_indices().data_ptr() == batch.indices.ctypes.data
    assert locking.made_tensors() - made == n * (4 if output == "csr" else 3)


def test_tensors_of_torch_keep_their_memory(cells, locking):
    loader = make_loader(cells, "dense", pin_memory=True)
    tensors, copies = [], []
    for batch in loader:
        tensors.append(batch.to_torch()[3:9])
        copies.append(batch.data[3:9].copy())
        # The allocator knows the storage, so a part of it is tracked as the whole is.
        assert tensors[-1].untyped_storage().data_ptr() == batch.data.ctypes.data
    del batch
    for tensor, copy in zip(tensors, copies, strict=True):
        np.testing.assert_array_equal(tensor, copy)


def storages_of(batch):
    """What torch's tensors of it lie in."""
    if isinstance(batch, TokenBatch):
        tensors = list(batch.to_torch().values())
    else:
        tensor = batch.to_torch()
        is_csr = tensor.layout is torch.sparse_csr
        tensors = [tensor.values(), tensor.col_indices()] if is_csr else [tensor]
    return [StorageWeakRef(tensor.untyped_storage()) for tensor in tensors]


@pytest.mark.parametrize("output", ["csr", "dense", "tokens"])
def test_memory_goes_with_its_last_tensor(cells, locking, output):
    tokens = cf.RankTokens(GeneVocab.from_genes(cells.var_names), max_length=16)
    options = {"tokens": tokens} if output == "tokens" else {}
    storages, kept = [], []
    for batch in make_loader(cells, output, pin_memory=True, **options):
        storages += storages_of(batch)
        kept.append(batch.to_torch())
    del batch
    gc.collect()
    assert not any(storage.expired() for storage in storages)
    kept.clear()
    gc.collect()
    assert all(storage.expired() for storage in storages)


def test_batches_without_non_zeros(tmp_path, locking):
    x = scipy.sparse.csr_matrix((10, GENES), dtype=np.float32)
    anndata.AnnData(x).write_h5ad(tmp_path / "empty.h5ad")
    for batch in make_loader(cf.open(tmp_path / "empty.h5ad"), "csr", pin_memory=True):
        assert batch.to_torch()._nnz() == 0


def test_parts_and_pickles_of_batches_are_ordinary_memory(cells, locking):
    batch = make_loader(cells, "csr", pin_memory=True)._reader.read([5, 1])
    for copy in (batch[[0, 1]], pickle.loads(pickle.dumps(batch))):
        np.testing.assert_array_equal(copy.to_torch().to_dense(), batch.to_numpy())
        assert not copy._core.is_pinned


@pytest.mark.parametrize("output", ["csr", "dense"])
def test_a_refusal_of_torch_is_an_error_that_says_what_to_do(cells, locking, output):
    loader = make_loader(cells, output, pin_memory=True)
    locking.refuse(True)
    with pytest.raises(OSError, match=r"leave pin_memory out.*out of lockable memory"):
        next(iter(loader))
    locking.refuse(False)
    assert len(next(iter(loader))) == 32


def test_workers_are_refused(cells, locking, monkeypatch):
    loader = make_loader(cells, "csr", pin_memory=True)
    assert len(list(DataLoader(loader, batch_size=None))) == len(loader)
    monkeypatch.setattr("cellfeed._reader.this_worker", lambda: Worker(0, 1, 1 << 62))
    for read in (lambda: next(iter(loader)), lambda: loader._reader.read([1])):
        with pytest.raises(ValueError, match="leave pin_memory out"):
            read()


def test_a_forked_child_leaves_them_alone(cells, locking):
    loader = make_loader(cells, "dense", pin_memory=True)
    batch = next(iter(loader))
    gc.collect()
    live = locking.live_tensors()
    child = os.fork()
    if child == 0:
        try:
            loader._reader.read([1])
        except cf.errors.InvalidArgumentError as error:
            has_refused = "forked" in str(error)
        is_same = batch.data.shape == (32, GENES)
        del batch
        os._exit(0 if has_refused and is_same and locking.live_tensors() == live else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine with a GPU")
def test_a_machine_without_gpu_is_told(cells):
    with pytest.raises(ValueError, match=r"install a torch with CUDA.*torch says: "):
        make_loader(cells, "csr", pin_memory=True)


def test_an_old_torch_is_told(cells, monkeypatch):
    monkeypatch.setattr(_pinned, "pin", torch.clone)
    monkeypatch.setattr(torch._C, "_aoti", None)
    with pytest.raises(ValueError, match="newer torch"):
        make_loader(cells, "csr", pin_memory=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("output", ["csr", "dense"])
def test_copies_to_a_gpu_overlap_and_are_right(cells, output):
    expected = [batch.to_numpy() for batch in make_loader(cells, output)]
    on_gpu = []
    for batch in make_loader(cells, output, pin_memory=True):
        tensor = batch.to_torch()
        parts = (tensor.values(), tensor.col_indices()) if output == "csr" else (tensor,)
        assert all(part.is_pinned() for part in (*parts, torch.from_numpy(batch.obs["kind"])))
        torch.cuda._sleep(10_000_000)
        on_gpu.append(tensor.to("cuda", non_blocking=True))
    for got, wanted in zip(on_gpu, expected, strict=True):
        np.testing.assert_array_equal(got.to_dense().cpu(), wanted)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("output", ["csr", "dense"])
def test_a_gpu_that_is_behind_gets_the_batches_that_were_sent(cells, output):
    """Each batch is given up while the copies of it wait, and its memory is used for others."""
    expected = list(make_loader(cells, output, obs=["kind", "size"]))
    loader = make_loader(cells, output, obs=["kind", "size"], pin_memory=True)
    sent = []
    torch.cuda._sleep(2_000_000_000)
    behind = torch.cuda.Event()
    behind.record()
    for batch in loader:
        there = batch.to("cuda", non_blocking=True)
        dense = there.to_torch(dense=True)
        sent.append((dense, there["kind"], there["size"], there.index, there.is_padding))
        del batch, there
    assert not behind.query(), "nothing waited for the GPU"
    for (x, kind, size, index, is_padding), wanted in zip(sent, expected, strict=True):
        np.testing.assert_array_equal(x.cpu(), wanted.to_numpy())
        np.testing.assert_array_equal(kind.cpu(), wanted["kind"])
        np.testing.assert_array_equal(size.cpu(), wanted["size"])
        np.testing.assert_array_equal(index.cpu(), wanted.index)
        assert not is_padding.any()
