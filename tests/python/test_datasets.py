"""Stores and datasets of single cells, alone and in a torch DataLoader."""

import copy
import pickle

import numpy as np
import pytest
import torch
from real_files import matrix_of, read_anndata
from torch.utils.data import DataLoader, Subset

import cellfeed as cf
from cellfeed.data.dataset import CellDataset, ShardedCellDataset
from cellfeed.data.gene_selection import collate_cells
from cellfeed.data.memmap_store import MemoryMappedStore
from cellfeed.data.sharding import convert_to_shards
from cellfeed.data.vocab import GeneVocab
from cellfeed.errors import InvalidArgumentError, InvalidTypeError


@pytest.fixture(scope="module")
def path(shared_data):
    return shared_data / "anndata/scp1884.h5ad"


@pytest.fixture(scope="module")
def adata(path):
    adata = read_anndata(path)
    adata.X = matrix_of(adata, "X")
    return adata


@pytest.fixture(scope="module")
def shards(path, tmp_path_factory):
    return convert_to_shards(path, tmp_path_factory.mktemp("s") / "shards", shard_size=300)


@pytest.fixture(scope="module")
def vocab(path):
    return GeneVocab.from_adata(path, n_genes=3000)


def expected_cell(adata, vocab, row):
    """Gene numbers and values of a cell, computed from anndata."""
    matrix = adata.X[row]
    numbers = vocab.encode(adata.var_names[matrix.indices])
    is_known = numbers != vocab.unk_token_id
    order = np.argsort(numbers[is_known])
    return numbers[is_known][order], matrix.data[is_known][order]


def assert_same_cell(cell, adata, vocab, row):
    numbers, values = expected_cell(adata, vocab, row)
    np.testing.assert_array_equal(np.asarray(cell["gene_indices"]), numbers)
    np.testing.assert_array_equal(np.asarray(cell["expression"]), values)
    assert cell["n_genes"] == len(values)


def test_the_store(shards, adata):
    store = MemoryMappedStore(shard_dir=shards)
    assert (len(store), store.shape, store.n_shards) == (1020, adata.shape, 4)
    assert store.shard_offsets == [0, 300, 600, 900, 1020]
    assert store.shard_sizes == [300, 300, 300, 120]
    assert list(store.var_names) == list(adata.var_names)
    everything = GeneVocab.from_genes(adata.var_names)
    for row in (0, 299, 300, 1019):
        assert_same_cell(store[row], adata, everything, row)
        values, genes, metadata = store.get_cell(row)
        assert values.dtype == np.float32 and genes.dtype == np.int64
        np.testing.assert_array_equal(genes, store[row].gene_ids)
        assert metadata["Celltype"] == adata.obs["Celltype"].iloc[row]
        assert set(metadata) == set(adata.obs.columns)
    assert list(store.labels("Celltype")) == list(adata.obs["Celltype"])
    assert [cell.n_genes for cell in store.get_cells([5, 2])] == [
        store[5].n_genes,
        store[2].n_genes,
    ]
    assert sum(1 for _ in store) == 1020
    for row in (1020, -1021):
        with pytest.raises(IndexError, match="1020"):
            store[row]
    with pytest.raises(IndexError):
        store.get_cell(-1)
    with pytest.raises(TypeError, match="row must be an integer"):
        store["a"]


def test_a_store_needs_shards(path, tmp_path):
    with pytest.raises(ValueError, match="convert_to_shards"):
        MemoryMappedStore(path)
    with pytest.raises(FileNotFoundError):
        MemoryMappedStore(tmp_path / "none")


@pytest.mark.parametrize("make", ["h5ad", "anndata", "shards", "store", "store with other vocab"])
def test_cells_equal_anndata(path, adata, shards, vocab, make):
    if make == "h5ad":
        dataset = CellDataset(path, vocab, obs_keys=["Celltype"])
    elif make == "anndata":
        dataset = CellDataset(adata, vocab, obs_keys=["Celltype"])
    elif make == "shards":
        dataset = ShardedCellDataset(shards, gene_vocab=vocab, obs_keys=["Celltype"])
    elif make == "store":
        store = MemoryMappedStore(shards, gene_vocab=vocab)
        dataset = ShardedCellDataset(store=store, obs_keys=["Celltype"])
    else:
        dataset = ShardedCellDataset(store=MemoryMappedStore(shards), gene_vocab=vocab)
    assert len(dataset) == 1020
    rows = np.random.default_rng(0).integers(1020, size=50)
    for row in rows:
        cell = dataset[row]
        assert isinstance(cell["expression"], torch.Tensor)
        assert cell.gene_ids is cell["gene_indices"] and cell.expression is cell["expression"]
        assert_same_cell(cell, adata, vocab, row)
        assert cell.metadata["Celltype"] == adata.obs["Celltype"].iloc[row]
    for row, cell in zip(rows, dataset.__getitems__(list(rows)), strict=True):
        assert_same_cell(cell, adata, vocab, row)
    assert list(dataset.labels("Celltype")) == list(adata.obs["Celltype"])
    with pytest.raises(IndexError):
        dataset[1020]


def test_preprocessing_uses_the_full_library_size(path, adata, vocab):
    dataset = CellDataset(path, vocab, preprocessing=[cf.NormalizeTotal(1e4), cf.Log1p()])
    for row in (3, 77):
        _, values = expected_cell(adata, vocab, row)
        expected = np.log1p(values.astype(float) * 1e4 / adata.X[row].sum())
        np.testing.assert_allclose(dataset[row].expression, expected, rtol=3e-7)
    doubled = CellDataset(path, vocab, preprocessing=lambda values: values * 2)
    np.testing.assert_array_equal(doubled[3].expression, CellDataset(path, vocab)[3].expression * 2)
    with pytest.raises(ValueError, match="number of values"):
        CellDataset(path, vocab, preprocessing=lambda values: values[:1])[3]


def test_a_vocabulary_of_other_genes_is_refused(path):
    with pytest.raises(KeyError, match="none of the 2 genes"):
        CellDataset(path, GeneVocab.from_genes(["ENSG1", "ENSG2"]))


def collect(dataset, **options):
    torch.manual_seed(0)
    batches = list(DataLoader(dataset, batch_size=64, shuffle=True, **options))
    return [batch["gene_indices"] for batch in batches], [batch["expression"] for batch in batches]


@pytest.mark.parametrize(
    ("sampler", "error", "message"),
    [
        (np.arange(300) % 2 == 0, InvalidTypeError, "row must be"),
        ([1, True], InvalidTypeError, "row must be"),
        ([1.0, 2.0], InvalidTypeError, "row must be"),
        (["1", "2"], InvalidTypeError, "row must be"),
        (np.array([2**64 - 1], np.uint64), InvalidArgumentError, "row must be"),
    ],
)
def test_samplers_give_row_numbers(path, shards, vocab, sampler, error, message):
    for dataset in (CellDataset(path), ShardedCellDataset(shards, gene_vocab=vocab)):
        with pytest.raises(error, match=message):
            list(DataLoader(dataset, sampler=sampler, batch_size=2, collate_fn=list))


def test_samplers_may_give_numbers_of_any_kind(path):
    numbers = [np.int64(1), 2, np.uint64(3), torch.tensor(4), -1]
    dataset = CellDataset(path)
    given = next(iter(DataLoader(dataset, sampler=numbers, batch_size=5, collate_fn=list)))
    for cell, row in zip(given, [1, 2, 3, 4, -1], strict=True):
        assert torch.equal(cell.expression, dataset[row].expression)
        assert torch.equal(cell.gene_indices, dataset[row].gene_indices)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_give_what_the_main_process_gives(shards, path, vocab, context):
    datasets = [ShardedCellDataset(shards, vocab)]
    if context == "fork":  # spawned processes are slow to start
        datasets.append(CellDataset(path, vocab))
    for dataset in datasets:
        dataset[0]  # threads run before the fork
        alone = collect(dataset)
        workers = collect(dataset, num_workers=2, multiprocessing_context=context, timeout=120)
        for with_workers, without in zip(workers, alone, strict=True):
            assert len(with_workers) == 16
            assert all(torch.equal(a, b) for a, b in zip(with_workers, without, strict=True))


def test_a_data_loader_pads_with_and_without_collate_cells(shards, vocab):
    dataset = Subset(ShardedCellDataset(shards, vocab), [5, 2, 9])
    for options in ({}, {"collate_fn": collate_cells}):
        (batch,) = DataLoader(dataset, batch_size=3, **options)
        cells = [dataset[i] for i in range(3)]
        longest = max(cell.n_genes for cell in cells)
        assert batch["expression"].shape == batch["gene_indices"].shape == (3, longest)
        for i, cell in enumerate(cells):
            n = cell.n_genes
            assert torch.equal(batch["expression"][i, :n], cell.expression)
            assert torch.equal(batch["gene_indices"][i, :n], cell.gene_ids)
            assert batch["attention_mask"][i].tolist() == [1] * n + [0] * (longest - n)
            assert not batch["gene_indices"][i, n:].any() and not batch["expression"][i, n:].any()
        assert batch["n_genes"].tolist() == [cell.n_genes for cell in cells]
        assert batch["metadata"] == [cell.metadata for cell in cells]


def test_datasets_stores_and_cells_survive_copies(shards, path, adata, vocab):
    for thing in (
        ShardedCellDataset(shards, vocab),
        CellDataset(path, vocab),
        CellDataset(adata, vocab),
        MemoryMappedStore(shards, vocab),
    ):
        for duplicate in (pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing)):
            assert_same_cell(duplicate[17], adata, vocab, 17)
    cell = pickle.loads(pickle.dumps(CellDataset(path, vocab)[3]))
    assert cell.n_genes == len(cell.gene_ids)
    with pytest.raises(AttributeError, match="expression"):
        cell.tokens  # noqa: B018


def test_cells_without_counts_and_explicit_zeros(tmp_path):
    import anndata
    import scipy.sparse

    x = scipy.sparse.csr_matrix(
        (np.array([0, 2, 0], np.float32), [0, 2, 1], [0, 2, 2, 3]), shape=(3, 4)
    )
    anndata.AnnData(x).write_h5ad(tmp_path / "a.h5ad")
    dataset = CellDataset(tmp_path / "a.h5ad")
    assert [cell.n_genes for cell in dataset.__getitems__([0, 1, 2])] == [1, 0, 0]
    assert dataset[0].gene_ids.tolist() == [6] and dataset[0].expression.tolist() == [2]
    batch = collate_cells([dataset[1], dataset[2]])
    assert batch["expression"].shape == (2, 0)
