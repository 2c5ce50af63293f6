"""What is read after a file, an AnnData or a directory was changed behind a collection's back."""

import logging
import pickle
import signal
import subprocess
import sys

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import cellfeed as cf
from cellfeed.conversion import convert_to_shards
from cellfeed.errors import CorruptDataError


def small(n=4, genes=("a", "b", "c")):
    x = np.arange(1, n + 1, dtype=np.float32)[:, None] * np.ones((1, len(genes)), np.float32)
    obs = pd.DataFrame(
        {"num": range(n), "kind": pd.Categorical(["x", "y"] * (n // 2))},
        index=[f"c{i}" for i in range(n)],
    )
    return anndata.AnnData(scipy.sparse.csr_matrix(x), obs, pd.DataFrame(index=list(genes)))


def test_a_file_written_in_place_while_open_is_an_error(tmp_path):
    path = tmp_path / "a.h5ad"
    adata = small()
    adata.write_h5ad(path)
    cells = cf.open(path, obs="num")
    loader = cf.Loader(cells, cf.Streaming(), 4)
    adata[::-1].copy().write_h5ad(path)
    for act in (lambda: next(iter(loader)), lambda: cells[0].x, lambda: cells.obs_table(),
                lambda: cells.obs_column("kind")):  # fmt: skip
        with pytest.raises(CorruptDataError, match="written again since it was opened"):
            act()
    np.testing.assert_array_equal(cf.open(path)[:].to_numpy()[:, 0], [4, 3, 2, 1])


OUTPUTS = {
    "csr": {},
    "of every second gene": {"transforms": [cf.SelectGenes([f"g{i}" for i in range(0, 40, 2)])]},
    "normalised": {"transforms": [cf.NormalizeTotal(), cf.Log1p()]},
    "dense": {"output": "dense"},
    "dense, normalised": {"output": "dense", "transforms": [cf.NormalizeTotal()]},
}


@pytest.mark.parametrize("how", OUTPUTS)
@pytest.mark.parametrize("kind", ["plain", "gzip", "dense", "shards"])
def test_no_batch_of_an_epoch_has_what_was_written_meanwhile(tmp_path, kind, how):
    x = scipy.sparse.random(4000, 40, 0.4, format="csr", random_state=1, dtype=np.float32)
    x.data = np.ceil(x.data * 9)
    var = pd.DataFrame(index=[f"g{i}" for i in range(40)])
    path = tmp_path / "a.h5ad"
    written = anndata.AnnData(x.toarray() if kind == "dense" else x, var=var)
    written.write_h5ad(path, compression="gzip" if kind == "gzip" else None)
    if kind == "shards":
        convert_to_shards(path, tmp_path / "shards")
        path = tmp_path / "shards"
    loader = cf.Loader(cf.open(path), cf.BlockShuffling(), 16, fetch_factor=250, **OUTPUTS[how])
    expected = {}
    for batch in loader:
        expected |= dict(zip(batch.index.tolist(), batch.to_numpy(), strict=True))
    batches = iter(loader)
    next(batches)
    changed = next(path.glob("*.cells")) if kind == "shards" else path
    at = changed.stat().st_size // 2
    if kind == "plain":
        with h5py.File(path) as file:
            values = file["X/data"].id
            at = values.get_chunk_info(values.get_num_chunks() // 2).byte_offset
    with open(changed, "r+b") as file:  # in place
        file.seek(at)
        stored = file.read(8192)
        file.seek(at)
        file.write(bytes(byte ^ (129 if kind == "plain" else 1) for byte in stored))  # negative
    with pytest.raises(CorruptDataError):
        for batch in batches:
            for row, values in zip(batch.index.tolist(), batch.to_numpy(), strict=True):
                np.testing.assert_array_equal(values, expected[row])


def test_a_file_replaced_while_open_is_read_as_it_was(tmp_path):
    path = tmp_path / "a.h5ad"
    small().write_h5ad(path)
    cells = cf.open(path, obs="num")
    small()[::-1].copy().write_h5ad(tmp_path / "b.h5ad")
    (tmp_path / "b.h5ad").replace(path)
    batch = cells[:]
    np.testing.assert_array_equal(batch.to_numpy()[:, 0], [1, 2, 3, 4])
    np.testing.assert_array_equal(batch.obs["num"], range(4))


@pytest.mark.parametrize("change", ["values", "labels", "order of categories", "nothing"])
def test_a_copy_of_an_anndata_that_changed_is_an_error(change):
    adata = small()
    cells = cf.open(adata, obs=["num", "kind"])
    if change == "values":
        adata.X.data[:] += 1
    elif change == "labels":
        adata.obs["num"] = [9, 8, 7, 6]
    elif change == "order of categories":
        adata.obs["kind"] = adata.obs["kind"].cat.reorder_categories(["y", "x"])
    if change == "nothing":
        copy = pickle.loads(pickle.dumps(cells))
        np.testing.assert_array_equal(copy[:].to_numpy(), adata.X.toarray())
        np.testing.assert_array_equal(copy[:].obs["kind"], cells[:].obs["kind"])
    else:
        with pytest.raises(CorruptDataError, match="changed since it was opened"):
            pickle.dumps(cells)


def test_booleans_are_packed(tmp_path):
    x = scipy.sparse.csr_matrix(np.array([[1, 0, 1], [0, 0, 1]], bool))
    anndata.AnnData(x).write_h5ad(tmp_path / "b.h5ad")
    cf.convert_to_shards(tmp_path / "b.h5ad", tmp_path / "s")
    np.testing.assert_array_equal(cf.open(tmp_path / "s")[:].to_numpy(), x.toarray())


def test_genes_that_shards_leave_out_are_said(tmp_path, caplog):
    for name, genes in (("0", "abx"), ("1", "aby")):
        small(genes=tuple(genes)).write_h5ad(tmp_path / f"{name}.h5ad")
    paths = sorted(tmp_path.glob("*.h5ad"))
    with caplog.at_level(logging.INFO):
        inner = cf.convert_to_shards(cf.open(paths, join="inner"), tmp_path / "inner")
    assert inner.n_genes_left_out == 1
    assert "1 genes of a file are left out" in caplog.text
    assert "join='outer'" in caplog.text
    caplog.clear()
    assert (
        cf.convert_to_shards(cf.open(paths, join="outer"), tmp_path / "outer").n_genes_left_out == 0
    )
    assert not caplog.text


@pytest.mark.parametrize("kind", [".cells", ".arrow", ".parquet", "genes.parquet"])
def test_resume_of_finished_shards_sees_an_emptied_file(tmp_path, kind):
    small().write_h5ad(tmp_path / "a.h5ad")
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "s")
    name = kind if kind.startswith("genes") else f"shard_000000{kind}"
    (tmp_path / "s" / name).write_bytes(b"")
    with pytest.raises(CorruptDataError, match=name):
        cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "s", resume=True)


KILLED = """
import os, signal, sys
import cellfeed as cf
def stop(*_):
    if os.path.exists(os.path.join(sys.argv[2], "shard_000002.npy")):
        os.kill(os.getpid(), signal.SIGKILL)
cf.convert_to_shards(sys.argv[1], sys.argv[2], shard_size=200, layout="dense", threads=1,
                     progress=stop)
"""


def test_dense_shards_that_are_finished_are_kept_by_resume(tmp_path):
    genes = 3000
    x = scipy.sparse.random(12_000, genes, 0.01, "csr", np.float32, np.random.default_rng(1))
    var = pd.DataFrame(index=[f"g{i}" for i in range(genes)])
    anndata.AnnData(x, var=var).write_h5ad(tmp_path / "a.h5ad")
    target = tmp_path / "s"
    run = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "a.h5ad", target], check=False)
    assert run.returncode == -signal.SIGKILL
    again = cf.convert_to_shards(
        tmp_path / "a.h5ad", target, shard_size=200, layout="dense", resume=True
    )
    assert again.n_shards_resumed >= 2
    rows = np.arange(0, 12_000, 97)
    np.testing.assert_array_equal(cf.open(target)[rows].to_numpy(), x[rows].toarray())


def test_a_loader_closed_by_another_ends_in_an_error(tmp_path):
    small(400).write_h5ad(tmp_path / "a.h5ad")
    loader = cf.Loader(cf.open(tmp_path / "a.h5ad"), cf.Streaming(), 4)
    batches = iter(loader)
    next(batches)
    loader.close()
    with pytest.raises(cf.errors.InvalidArgumentError, match="closed"):
        list(batches)
