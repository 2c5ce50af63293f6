"""`gene_mask`: which genes of a joined axis each cell's file has, against the files' own var."""

import multiprocessing
import pickle

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from real_files import assert_same_csr, read_anndata
from small_atlas import make_anndata
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed._batch_source import BatchSource

GENES = {"a": slice(0, 8), "b": slice(4, 12), "c": slice(0, 8)}
N = 20


@pytest.fixture(scope="module")
def parts():
    return {
        name: make_anndata(N, seed=seed)[:, genes].copy()
        for seed, (name, genes) in enumerate(GENES.items())
    }


@pytest.fixture(scope="module")
def paths(parts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mask")
    for name, part in parts.items():
        part.write_h5ad(folder / f"{name}.h5ad")
    cf.convert_to_shards(folder / "c.h5ad", folder / "c_shards", shard_size=8)
    return [folder / "a.h5ad", folder / "b.h5ad", folder / "c_shards"]


def known(parts, genes) -> np.ndarray:
    """What pandas says of each file and gene, cells x genes."""
    return np.concatenate(
        [np.tile(np.isin(np.asarray(genes), p.var_names), (N, 1)) for p in parts.values()]
    )


AXES = [
    {"join": "outer"},
    {"join": "inner"},
    {"genes": ["gene9", "gene0", "nowhere", "gene5"], "missing_genes": "zero"},
]


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: next(iter(axis.values())).__str__())
@pytest.mark.parametrize("output", ["csr", "dense"])
def test_the_mask_is_what_the_files_have(parts, paths, axis, output):
    cells = cf.open(paths, **axis)
    expected = known(parts, cells.var_names)
    rows = np.random.default_rng(0).permutation(len(cells))
    batch = cells.read(rows, output=output)
    assert batch.gene_mask.dtype == bool
    np.testing.assert_array_equal(batch.gene_mask, expected[rows])
    # A value is where the gene is known, nowhere else.
    assert not batch.to_numpy()[~batch.gene_mask].any()
    firsts, _ = cells.locate(np.arange(len(cells)))
    np.testing.assert_array_equal(cells.gene_mask[firsts], expected)
    np.testing.assert_array_equal(batch[[3, 1]].gene_mask, expected[rows[[3, 1]]])


def test_genes_selected_by_a_transform_have_their_own_mask(parts, paths):
    cells = cf.open(paths, join="outer")
    genes = ["gene11", "gene0", "gene6"]
    batch = cells.read([0, 25, 45], transforms=[cf.SelectGenes(genes)])
    np.testing.assert_array_equal(batch.gene_mask, known(parts, genes)[[0, 25, 45]])


def test_padding_selections_and_ranks_have_the_mask_of_their_cells(parts, paths):
    cells = cf.open(paths, join="outer")
    some = cells.filter(np.arange(len(cells))[::-3])
    expected = known(parts, cells.var_names)[::-3]
    loader = cf.Loader(some, cf.BlockShuffling(2), 4, rank=1, world_size=3, seed=1)
    padded = 0
    for batch in loader:
        np.testing.assert_array_equal(batch.gene_mask, expected[batch.index])
        padded += batch.is_padding.sum()
    assert len(some) % 3 or padded


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_batches_of_workers_have_their_mask(parts, paths, method):
    cells = cf.open(paths, join="outer").filter("cell_type is not missing")
    rows = np.flatnonzero(np.concatenate([p.obs["cell_type"].notna() for p in parts.values()]))
    expected = known(parts, cells.var_names)[rows]
    loader = cf.Loader(cells, cf.BlockShuffling(4), 8, seed=2)
    context = multiprocessing.get_context(method)
    for batch in DataLoader(
        loader, batch_size=None, num_workers=2, multiprocessing_context=context
    ):
        np.testing.assert_array_equal(batch.gene_mask, expected[batch.index])


def test_a_batch_takes_its_mask_along(parts, paths):
    cells = cf.open(paths, join="outer")
    batch = cells.read([1, 21, 41, 22])
    state = pickle.dumps(batch)
    part = pickle.dumps(batch[[2, 1]])
    BatchSource._alive.pop(batch._source.key)
    copy = pickle.loads(state)
    np.testing.assert_array_equal(copy.gene_mask, batch.gene_mask)
    np.testing.assert_array_equal(pickle.loads(part).gene_mask, batch.gene_mask[[2, 1]])
    again = pickle.loads(pickle.dumps(copy[1:3]))
    np.testing.assert_array_equal(again.gene_mask, batch.gene_mask[1:3])


def test_a_mask_goes_along_to_a_device(paths):
    batch = cf.open(paths, join="outer").read([1, 21])
    mask = batch.to("cpu").gene_mask
    assert mask.dtype is torch.bool and mask.tolist() == batch.gene_mask.tolist()


def test_one_file_and_files_of_one_axis_have_all_genes(parts, paths):
    assert cf.open(paths[0])[:3].gene_mask.all()
    assert cf.open(parts["a"])[:3].gene_mask.all()
    assert cf.open([paths[0], paths[2]]).gene_mask.all()


@pytest.mark.parametrize(
    ("join", "n_genes"),
    [pytest.param("inner", 13207, marks=pytest.mark.slow), ("outer", 28483)],
)
def test_files_joined_are_what_anndata_joins(shared_data, made_data, join, n_genes):
    files = sorted((shared_data / "anndata").glob("derived_mix_*.h5ad"))
    adatas = [read_anndata(file) for file in files]
    cells = cf.open(files, join=join)
    whole = anndata.concat(adatas, join=join, fill_value=0, index_unique="-")
    assert len(files) == 3 and cells.n_vars == whole.n_vars
    assert shared_data == made_data or cells.n_vars == n_genes
    batch = cells.read(slice(None), dtype="float64", obs=cells.obs_keys())
    matrix = scipy.sparse.csr_matrix(whole.X)[:, whole.var_names.get_indexer(cells.var_names)]
    matrix.sort_indices()
    assert_same_csr(batch.x, matrix.astype(np.float64))
    genes = pd.Index(cells.var_names)
    known = [np.tile(genes.isin(a.var_names), (a.n_obs, 1)) for a in adatas]
    np.testing.assert_array_equal(batch.gene_mask, np.concatenate(known))
    assert batch.gene_mask.all() == (join == "inner")
    labels = pd.concat([adata.obs for adata in adatas])
    assert sorted(batch.obs) == sorted(labels)
    for name, values in batch.obs.to_pandas().items():
        found, expected = list(values), list(labels[name])
        assert [v for v in found if v == v] == [v for v in expected if v == v]
        assert [v == v for v in found] == [v == v for v in expected]
