"""Choosing genes batch by batch."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.data.dataset import CellDataset
from cellfeed.data.gene_selection import GeneSelectionCollator, collate_cells


@pytest.fixture(scope="module")
def dataset(shared_data):
    return CellDataset(shared_data / "anndata/zheng68k_165.h5ad")


def genes_in(batch):
    return set(batch["gene_indices"][batch["attention_mask"] == 1].tolist())


def test_the_most_expressed_genes_of_the_batch_stay(dataset, shared_data):
    rows = [3, 99, 40, 7]
    batch = GeneSelectionCollator(strategy="most_expressed", n_genes=50)([dataset[r] for r in rows])
    counts = cf.open(shared_data / "anndata/zheng68k_165.h5ad")[rows].to_numpy()
    sums = counts.sum(axis=0)
    kept = np.array(sorted(genes_in(batch))) - 4
    assert len(kept) == 50 and sums[kept].min() >= np.delete(sums, kept).max()
    for i in range(4):
        n = int(batch["n_genes"][i])
        genes = batch["gene_indices"][i, :n].numpy() - 4
        np.testing.assert_array_equal(genes, kept[counts[i, kept] > 0])
        np.testing.assert_array_equal(batch["expression"][i, :n], counts[i, genes])


def test_random_genes_are_expressed_ones_and_differ(dataset):
    cells = [dataset[row] for row in (3, 99, 40)]
    expressed = genes_in(collate_cells(cells))
    torch.manual_seed(0)
    collate = GeneSelectionCollator(strategy="random_expressed", n_genes=100)
    first, second = genes_in(collate(cells)), genes_in(collate(cells))
    assert len(first) == len(second) == 100 and first != second
    assert first | second <= expressed
    torch.manual_seed(0)
    assert genes_in(collate(cells)) == first


def test_all_and_more_than_there_are_keep_everything(dataset):
    cells = [dataset[row] for row in (3, 99)]
    everything = genes_in(collate_cells(cells))
    assert genes_in(GeneSelectionCollator()(cells)) == everything
    for strategy in ("most_expressed", "random_expressed"):
        assert (
            genes_in(GeneSelectionCollator(strategy=strategy, n_genes=10**6)(cells)) == everything
        )
    assert len(cells[0]["gene_indices"]) == cells[0]["n_genes"]  # the cells are as they were


def test_in_a_data_loader_with_a_tokenizer_and_masking(dataset):
    collate = GeneSelectionCollator(
        lambda cells: [cell.n_genes for cell in cells],
        lambda batch: max(batch),
        "most_expressed",
        20,
    )
    assert list(DataLoader(dataset, batch_size=100, collate_fn=collate)) == [20, 20]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"strategy": "best"}, ValueError),
        ({"strategy": "most_expressed"}, ValueError),
        ({"strategy": "most_expressed", "n_genes": 0}, ValueError),
        ({"strategy": "random_expressed", "n_genes": 2.5}, TypeError),
    ],
)
def test_wrong_arguments(arguments, kind):
    with pytest.raises(kind, match=r"strategy|n_genes"):
        GeneSelectionCollator(**arguments)
