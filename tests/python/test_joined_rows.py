"""Sparse rows of joined files against anndata.concat: every way in which columns move."""

from graphlib import TopologicalSorter
from itertools import pairwise, product

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from tiers import fast

import cellfeed as cf
from cellfeed.conversion import convert_to_shards

CELLS = 300
GENES = 4000

ORDERS = ("sorted", "shuffled")
STORED = ("int32", "int64", "unsorted", "gzip", "shards")


def stored_rows(random: np.random.Generator, stored: str) -> scipy.sparse.csr_matrix:
    """Whole numbers; rows of no entry, of one and of all genes among them."""
    x = scipy.sparse.random(CELLS, GENES, 0.2, "csr", np.float32, random)
    x.data = np.ceil(x.data * 9)
    x = x.tolil()
    x[3] = 0
    x[4] = 0
    x[4, GENES - 1] = 5
    x[5] = np.arange(1, GENES + 1)
    x = x.tocsr()
    if stored == "unsorted":
        for begin, end in zip(x.indptr, x.indptr[1:], strict=False):
            x.indices[begin:end] = x.indices[begin:end][::-1].copy()
        doubled = x.indices[x.indptr[5] : x.indptr[6]]
        doubled[:10] = doubled[10:20]
        x.has_sorted_indices = False
    if stored == "int64":
        x.indices, x.indptr = x.indices.astype(np.int64), x.indptr.astype(np.int64)
    return x


# The orders of genes and the kinds of file that the fast tests read, and how they read them.
FILES = [
    ("sorted", "int32"), ("sorted", "gzip"), ("sorted", "unsorted"), ("shuffled", "int64"),
    ("shuffled", "shards"), ("shuffled", "int32"),
]  # fmt: skip
READS = [("outer", 1, 7), ("outer", 64, 900), ("inner", 1, 900), ("inner", 64, 7)]


def case_of(files):
    return pytest.param(files, id="-".join(files), marks=[pytest.mark.slow] * (files not in FILES))


@pytest.fixture(scope="module", params=map(case_of, product(ORDERS, STORED)))
def files(request, tmp_path_factory):
    """Three files, of which each has genes of its own; and what they hold."""
    order, stored = request.param
    folder = tmp_path_factory.mktemp("joined")
    paths, adatas = [], []
    for number in range(3):
        random = np.random.default_rng(number)
        names = [f"g{g:05d}-{number}" if g % 7 == 0 else f"g{g:05d}" for g in range(GENES)]
        if order == "shuffled":
            random.shuffle(names)
        x = stored_rows(random, stored)
        cells = np.arange(CELLS) + number * CELLS
        obs = pd.DataFrame({"row": cells}, index=cells.astype(str))
        adata = anndata.AnnData(x, obs, pd.DataFrame(index=names))
        paths.append(folder / f"{number}.h5ad")
        adata.write_h5ad(paths[-1], compression="gzip" if stored == "gzip" else None)
        if stored == "shards":
            convert_to_shards(paths[-1], folder / str(number))
            paths[-1] = folder / str(number)
        adata.X = x.copy()
        adata.X.sum_duplicates()
        adatas.append(adata)
    return paths, adatas


@pytest.mark.parametrize(
    ("join", "block", "batch_size"),  # in the caches, and past them
    fast(READS, product(["outer", "inner"], [1, 64], [7, 900])),
)
def test_joined_rows_are_those_of_anndata(files, join, block, batch_size):
    paths, adatas = files
    cells = cf.open(paths, join=join, obs=["row"])
    whole = anndata.concat(adatas, join=join, fill_value=0)[:, cells.var_names].X
    rows, parts = [], []
    for batch in cf.Loader(cells, cf.BlockShuffling(block), batch_size):
        rows.append(batch.obs["row"])
        parts.append(batch.to_scipy())
    got, expected = scipy.sparse.vstack(parts, "csr"), whole.tocsr()[np.concatenate(rows)]
    expected.sort_indices()
    assert sorted(np.concatenate(rows)) == list(range(3 * CELLS))
    np.testing.assert_array_equal(got.indptr, expected.indptr)
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.data, expected.data)


def test_a_union_in_the_order_of_the_files_has_the_rows_of_anndata(tmp_path):
    """The recipe of docs/guide.md: no file's genes change their order in the union."""
    adatas, union = [], TopologicalSorter()
    for number in range(3):
        order = np.random.default_rng(7).permutation(GENES)  # of one genome
        names = [f"g{g:05d}-{number}" if g % 7 == 0 else f"g{g:05d}" for g in order]
        x = stored_rows(np.random.default_rng(number), "int32")[:, number:]
        obs = pd.DataFrame(index=[f"{number}-{row}" for row in range(CELLS)])
        adatas.append(anndata.AnnData(x, obs, pd.DataFrame(index=names[number:])))
        adatas[-1].write_h5ad(tmp_path / f"{number}.h5ad")
        for gene, next_gene in pairwise(adatas[-1].var_names):
            union.add(next_gene, gene)
    genes = list(union.static_order())
    cells = cf.open(sorted(tmp_path.glob("*.h5ad")), genes=genes)
    expected = anndata.concat(adatas, join="outer", fill_value=0)
    assert set(genes) == set(expected.var_names)
    for adata in adatas:
        assert (np.diff(pd.Index(genes).get_indexer(adata.var_names)) > 0).all()
    got = cells.read(range(len(cells))).to_scipy()
    np.testing.assert_array_equal(got.toarray(), expected[:, genes].X.toarray())
