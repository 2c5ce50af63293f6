"""CSC matrices give what the same matrix by rows gives, and hostile ones a named error."""

from __future__ import annotations

import itertools

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from program import run
from tiers import examples

import cellfeed as cf

DTYPES = ["float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]


def random_matrix(seed: int, shape: tuple[int, int], density: float, dtype: str) -> sp.csc_matrix:
    """Whole numbers that every dtype holds."""
    rng = np.random.default_rng(seed)
    n = int(shape[0] * shape[1] * density)
    cells = rng.choice(shape[0] * shape[1], n, replace=False) if n else np.empty(0, int)
    values = rng.integers(0, 100, n).astype(dtype)
    rows, columns = np.unravel_index(cells, shape)
    return sp.csc_matrix((values, (rows, columns)), shape=shape, dtype=dtype)


def write_both(folder, x, obs=None, **storage):
    """The same AnnData by columns and by rows."""
    if obs is None:
        obs = pd.DataFrame(index=[f"c{i}" for i in range(x.shape[0])])
    var = pd.DataFrame(index=[f"g{i}" for i in range(x.shape[1])])
    for name, matrix in (("csc", x.tocsc()), ("csr", x.tocsr())):
        anndata.AnnData(matrix, obs, var).write_h5ad(folder / f"{name}.h5ad", **storage)


def shuffle_rows_of_columns(path, rng):
    """The same matrix; the row indices of a column in any order."""
    with h5py.File(path, "r+") as file:
        indptr, x = file["X/indptr"][:], file["X"]
        order = np.concatenate(
            [a + rng.permutation(b - a) for a, b in itertools.pairwise(indptr)]
            or [np.empty(0, int)]
        ).astype(int)
        for name in ("data", "indices"):
            x[name][...] = x[name][:][order]


def sharded(source, into):
    cf.convert_to_shards(source, into)
    return anndata.read_h5ad(cf.export_h5ad(into, into.with_suffix(".h5ad")))


@examples(25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_cells=st.integers(1, 60),
    n_genes=st.integers(1, 40),
    density=st.floats(0, 1),
    dtype=st.sampled_from(DTYPES),
    compression=st.sampled_from([None, "gzip", "lzf"]),
    unsorted=st.booleans(),
)
def test_shards_of_csc_hold_what_the_csr_file_holds(
    tmp_path_factory, seed, n_cells, n_genes, density, dtype, compression, unsorted
):
    tmp_path = tmp_path_factory.mktemp("csc")
    x = random_matrix(seed, (n_cells, n_genes), density, dtype)
    write_both(tmp_path, x, compression=compression)
    if unsorted:
        shuffle_rows_of_columns(tmp_path / "csc.h5ad", np.random.default_rng(seed))
    got = sharded(tmp_path / "csc.h5ad", tmp_path / "shards")
    assert got.X.dtype == x.dtype
    assert (x.tocsr() != got.X).nnz == 0
    assert got.X.nnz == x.nnz
    assert got.X.has_sorted_indices
    assert list(got.obs_names) == [f"c{i}" for i in range(n_cells)]
    assert list(got.var_names) == [f"g{i}" for i in range(n_genes)]


def test_duplicates_are_summed_and_nan_and_zeros_are_kept(tmp_path):
    x = sp.csc_matrix((3, 2), dtype=np.float32)
    write_both(tmp_path, x)
    with h5py.File(tmp_path / "csc.h5ad", "r+") as file:
        group = file["X"]
        for name, values in {
            "data": np.float32([1, 2, np.nan, 0]),
            "indices": np.int32([2, 2, 0, 1]),
            "indptr": np.int32([0, 3, 4]),
        }.items():
            del group[name]
            group[name] = values
    got = sharded(tmp_path / "csc.h5ad", tmp_path / "shards").X
    assert got.nnz == 3
    np.testing.assert_array_equal(got.toarray(), np.float32([[np.nan, 0], [0, 0], [3, 0]]))


HOSTILE = {
    "a row that is not there": ("indices", lambda a: np.where(np.arange(a.size) == 3, 5, a)),
    "a negative row": ("indices", lambda a: np.where(np.arange(a.size) == 3, -1, a)),
    "an indptr that decreases": ("indptr", lambda a: a[[0, 2, 1, 3]]),
    "an indptr beyond the entries": ("indptr", lambda a: np.append(a[:-1], a[-1] + 9)),
    "an indptr of another length": ("indptr", lambda a: a[:-1]),
    "fewer entries than values": ("indices", lambda a: a[:-1]),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_columns_are_a_named_error_and_leave_nothing(tmp_path, what):
    write_both(tmp_path, sp.csc_matrix(np.arange(15, dtype=np.float32).reshape(5, 3)))
    name, change = HOSTILE[what]
    with h5py.File(tmp_path / "csc.h5ad", "r+") as file:
        values = change(file["X"][name][:])
        del file["X"][name]
        file["X"][name] = values
    message = run("shard", tmp_path / "csc.h5ad", "--output-dir", tmp_path / "s", code=1)
    assert "csc.h5ad" in message
    assert name in message
    assert message.count("\n") == 1


def test_every_way_of_converting_takes_csc_among_csr(tmp_path):
    x = random_matrix(1, (300, 50), 0.2, "float32")
    write_both(tmp_path, x)
    inputs = [tmp_path / "csc.h5ad", tmp_path / "csr.h5ad"]
    for options in (["--gene-order", "mean"], ["--shuffle"], ["--shard-size", "70"]):
        into = tmp_path / "_".join(options).strip("-")
        run("shard", *inputs, "--output-dir", into, "--quiet", *options)
        cells = cf.open(into)
        assert len(cells) == 600
        run("export", into, "--output", tmp_path / "e.h5ad", "--overwrite", "--quiet")
        with h5py.File(tmp_path / "e.h5ad") as file:
            got = anndata.io.read_elem(file["X"])
        if options == ["--shuffle"]:
            total = np.sort(np.asarray(got.sum(1)).ravel())
            assert (total == np.sort(np.asarray(sp.vstack([x, x]).sum(1)).ravel())).all()
        else:
            assert (sp.vstack([x, x]).tocsr() != got).nnz == 0
    run("simulate", "--like", inputs[0], "--cells", "500", "--output", tmp_path / "sim.h5ad",
        "--quiet")  # fmt: skip
    assert anndata.read_h5ad(tmp_path / "sim.h5ad").shape == (500, 50)
