"""Rows of `cf.MappedCollection`: sparse ones against dense ones and anndata; lists of rows."""

import pickle

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, default_collate

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError

GENES = [["b", "a", "c", "e"], ["c", "a", "d"], ["a", "z", "c", "b"]]
CELLS = 6


def make_adata(number: int) -> anndata.AnnData:
    random = np.random.default_rng(number)
    counts = random.poisson(1.0, (CELLS, len(GENES[number]))).astype(np.float32)
    counts[2] = 0
    x = scipy.sparse.csr_matrix(counts)
    obs = pd.DataFrame(
        {"kind": pd.Categorical(random.choice(["T", "B"], CELLS))},
        index=[f"{number}-{i}" for i in range(CELLS)],
    )
    adata = anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=GENES[number]))
    adata.layers["twice"] = (x * 2).astype(np.float64)
    adata.obsm["X_pca"] = random.normal(size=(CELLS, 3)).astype(np.float32)
    return adata


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for number in range(3):
        make_adata(number).write_h5ad(folder / f"{number}.h5ad")
    return sorted(folder.glob("*.h5ad"))


OPTIONS = dict(layers_keys=["X", "twice"], obsm_keys="X_pca", obs_keys="kind", join="outer")


@pytest.fixture(scope="module")
def sparse(paths):
    return cf.MappedCollection(paths, output="csr", **OPTIONS)


@pytest.fixture(scope="module")
def dense(paths):
    return cf.MappedCollection(paths, **OPTIONS)


def same_rows(mine, other):
    assert list(mine) == list(other)
    for key, value in mine.items():
        if key in ("X", "twice"):
            assert type(value) is scipy.sparse.csr_matrix
            assert value.has_canonical_format and (np.diff(value.indices) > 0).all()
            assert value.dtype == other[key].dtype and value.shape == (1, len(other[key]))
            value.check_format(full_check=True)
            value = value.toarray()[0]
        np.testing.assert_array_equal(value, other[key])


@pytest.mark.parametrize("join", ["inner", "outer", None])
def test_sparse_rows_are_the_dense_ones(paths, join):
    options = {**OPTIONS, "join": join}
    ours = cf.MappedCollection(paths, output="csr", **options)
    theirs = cf.MappedCollection(paths, **options)
    order = [17, 0, 8, 8, 2, 13]
    for i in range(len(ours)):
        same_rows(ours[i], theirs[i])
    for mine, other in zip(ours.__getitems__(order), theirs.__getitems__(order), strict=True):
        same_rows(mine, other)


def test_sparse_batches_are_anndata_concat(paths, sparse):
    whole = anndata.concat([anndata.read_h5ad(path) for path in paths], join="outer", fill_value=0)
    whole = whole[:, list(sparse.var_joint)]
    (batch,) = DataLoader(sparse, batch_size=len(sparse))
    for key, expected in (("X", whole.X), ("twice", whole.layers["twice"])):
        tensor = batch[key]
        assert tensor.layout is torch.sparse_csr and tensor.shape == whole.shape
        np.testing.assert_array_equal(tensor.to_dense().numpy(), expected.toarray())
        assert len(tensor.values()) == expected.nnz
    assert batch["X"].dtype == torch.float32 and batch["twice"].dtype == torch.float64
    np.testing.assert_array_equal(batch["obsm_X_pca"], whole.obsm["X_pca"])


def densified(batches):
    return [
        {
            key: value.to_dense()
            if isinstance(value, torch.Tensor) and value.is_sparse_csr
            else value
            for key, value in batch.items()
        }
        for batch in batches
    ]


def same_batches(ours, theirs):
    for mine, other in zip(densified(ours), theirs, strict=True):
        assert list(mine) == list(other)
        for key, value in mine.items():
            torch.testing.assert_close(value, other[key], rtol=0, atol=0)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("part", [lambda ds: ds, lambda ds: Subset(ds, [3, 17, 0, 9, 4, 4, 1])])
def test_sparse_and_dense_loaders_agree(sparse, dense, workers, part):
    ours, theirs = (
        DataLoader(part(ds), batch_size=4, num_workers=workers) for ds in (sparse, dense)
    )
    same_batches(ours, theirs)


def test_rows_that_were_read_apart_are_collated_too(sparse, dense):
    ours, theirs = (DataLoader(ConcatDataset([ds, ds]), batch_size=5) for ds in (sparse, dense))
    batches = list(ours)
    assert all(batch["X"].layout is torch.sparse_csr for batch in batches)
    same_batches(batches, theirs)


def test_rows_that_were_changed_are_collated_as_they_are(sparse):
    for change in (
        lambda rows: rows[1].update(kind=7),
        lambda rows: rows[1].__setitem__("X", rows[1]["X"] * 10),
    ):
        rows = sparse.__getitems__([0, 1, 3])
        change(rows)
        batch = default_collate(rows)
        expected = [row["X"].toarray()[0] for row in rows]
        np.testing.assert_array_equal(batch["X"].to_dense().numpy(), expected)
        assert batch["kind"].tolist() == [row["kind"] for row in rows]
    kept = sparse.__getitems__([0, 1, 3])
    kept[2]["new"] = 1
    assert [("new" in row) for row in kept] == [False, False, True] and kept[2]["new"] == 1


def test_a_batch_is_a_sequence_of_dicts(dense):
    rows = dense.__getitems__([5, 2, 9])
    assert len(rows) == 3 and rows[0] is rows[0] and rows[-1] is rows[2]
    assert [row["kind"] for row in rows] == [row["kind"] for row in rows[:]]
    assert rows[1:] == [rows[1], rows[2]] and isinstance(rows[0], dict)
    with pytest.raises(IndexError):
        rows[3]
    copy = pickle.loads(pickle.dumps(rows))
    assert type(copy) is list and type(copy[0]) is dict
    np.testing.assert_array_equal(copy[2]["X"], rows[2]["X"])
    np.testing.assert_array_equal(dense[9]["X"], rows[2]["X"])


def test_a_row_may_be_changed_without_its_batch_knowing(sparse):
    first, second = sparse.__getitems__([0, 0])
    first["X"].indptr[1] = 0
    assert second["X"].nnz > 0 and sparse[0]["X"].nnz == second["X"].nnz


def test_one_row_and_empty_rows(sparse):
    (batch,) = DataLoader(Subset(sparse, [2]), batch_size=1)
    assert batch["X"].shape == (1, sparse.n_vars) and len(batch["X"].values()) == 0
    assert sparse[2]["X"].nnz == 0 and sparse[2]["X"].sum() == 0


def test_a_pickled_collection_keeps_its_output(sparse):
    copy = pickle.loads(pickle.dumps(sparse))
    assert copy.output == "csr"
    same_rows(
        copy[4], {k: v.toarray()[0] if k in ("X", "twice") else v for k, v in sparse[4].items()}
    )


@pytest.mark.parametrize("wrong", ["tokens", "CSR", None, 1, True])
def test_other_outputs_are_refused(paths, wrong):
    with pytest.raises((InvalidArgumentError, cf.errors.InvalidTypeError), match="output"):
        cf.MappedCollection(paths, output=wrong)
