"""The order of files, rows, categories and genes changes no cell: compared by name, everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

import cellfeed as cf
from cellfeed.data.dataset import CellDataset, ShardedCellDataset
from cellfeed.data.memmap_store import MemoryMappedStore
from cellfeed.data.vocab import GeneVocab

GENES = [f"g{i}" for i in range(8)]
KINDS = ["T", "B", "NK", "mono"]


@dataclass
class Atlas:
    """Files in some order, and what each cell holds, by name."""

    paths: list[str]
    counts: dict[str, dict[str, int]]  # cell -> gene -> count, of the genes that are not 0
    kinds: dict[str, str | None]
    depths: dict[str, float]


@st.composite
def shuffled(draw, n_files=3):
    """For each file: its genes, its cells and its categories, each in an order of its own."""
    files = []
    for f in range(n_files):
        kept = draw(st.lists(st.sampled_from(GENES), unique=True, min_size=3, max_size=8))
        cells = draw(st.permutations([f"{f}_{i}" for i in range(6)]))
        kinds = draw(st.permutations(KINDS))
        files.append((draw(st.permutations(kept)), cells, kinds))
    return draw(st.permutations(files))


def kind_of(cell: str) -> str | None:
    place = sum(map(ord, cell))
    return None if place % 7 == 0 else KINDS[place % 4]


def count_of(cell: str, gene: str) -> int:
    value = (int(cell[0]) * 31 + int(cell[2:]) * 7 + int(gene[1:]) * 5) % 11
    return value if value > 3 else 0


def make_atlas(folder, files) -> Atlas:
    atlas = Atlas([], {}, {}, {})
    for f, (genes, cells, kinds) in enumerate(files):
        counts = np.array([[count_of(c, g) for g in genes] for c in cells], dtype=np.float32)
        obs = pd.DataFrame(
            {
                "kind": pd.Categorical([kind_of(c) for c in cells], categories=kinds),
                "depth": np.array([int(c[2:]) * 1.5 for c in cells]),
                "cell": list(cells),
            },
            index=list(cells),
        )
        adata = anndata.AnnData(
            scipy.sparse.csr_matrix(counts), obs=obs, var=pd.DataFrame(index=list(genes))
        )
        path = folder / f"{f}.h5ad"
        adata.write_h5ad(path)
        atlas.paths.append(str(path))
        for i, cell in enumerate(cells):
            row = zip(genes, counts[i].astype(int).tolist(), strict=True)
            atlas.counts[cell] = {gene: count for gene, count in row if count}
            atlas.kinds[cell] = kind_of(cell)
            atlas.depths[cell] = int(cell[2:]) * 1.5
    return atlas


def content(batch: cf.Batch) -> dict[str, dict[str, int]]:
    names = batch.obs.labels("cell")
    x = batch.to_numpy()
    return {
        names[i]: {batch.var_names[j]: int(x[i, j]) for j in np.flatnonzero(x[i])}
        for i in range(len(batch))
    }


OBS = ["cell", "kind", "depth"]


def assert_same(atlas: Atlas, cells: cf.CellCollection) -> None:
    batch = cells.read(slice(None), obs=OBS)
    assert content(batch) == atlas.counts
    names = batch.obs.labels("cell")
    assert dict(zip(names, batch.obs.labels("kind"), strict=True)) == atlas.kinds
    assert dict(zip(names, batch.obs["depth"], strict=True)) == atlas.depths


several = examples(12)


@examples(5)
@given(files=shuffled(), seed=st.integers(0, 99))
def test_files_shards_and_exports_hold_the_same_cells(tmp_path_factory, files, seed):
    folder = tmp_path_factory.mktemp("order")
    atlas = make_atlas(folder, files)
    assert_same(atlas, cf.open(atlas.paths, join="outer"))
    wanted = [GENES[i] for i in np.random.default_rng(seed).permutation(8)]
    assert_same(atlas, cf.open(atlas.paths, genes=wanted, missing_genes="zero"))
    for name, options in {
        "plain": {}, "mean": {"gene_order": "mean"}, "shuffled": {"shuffle": True, "seed": seed},
        "both": {"shuffle": True, "gene_order": "mean"}, "dense": {"layout": "dense"},
    }.items():  # fmt: skip
        shards = cf.convert_to_shards(
            cf.open(atlas.paths, join="outer"), folder / name, shard_size=5, **options
        )
        assert_same(atlas, cf.open(shards))
        assert_same(atlas, cf.open(shards, genes=wanted, missing_genes="zero"))
        again = cf.convert_to_shards(
            cf.open(shards, missing_genes="zero", genes=wanted), folder / f"{name}2"
        )
        assert_same(atlas, cf.open(again))
        cf.export_h5ad(shards, folder / f"{name}.h5ad")
        assert_same(atlas, cf.open(folder / f"{name}.h5ad"))
        back = anndata.read_h5ad(folder / f"{name}.h5ad")
        assert list(back.obs_names) == list(back.obs["cell"])
        origins = cf.open(shards).obs_table(0).to_pandas()
        for cell, path, row in zip(
            origins["cell"], origins["_source_file"], origins["_source_row"], strict=True
        ):
            assert anndata.read_h5ad(path, backed="r").obs_names[row] == cell


@several
@given(files=shuffled())
def test_strategies_keep_labels_weights_and_indices_with_their_cells(tmp_path_factory, files):
    atlas = make_atlas(tmp_path_factory.mktemp("order"), files)
    cells = cf.open(atlas.paths, join="outer", obs=OBS)
    names = np.array(cells.read(slice(None), obs=OBS).obs.labels("cell"))
    heavy = {name for name in names if int(name[2:]) % 3 == 0}
    weights = np.array([float(name in heavy) for name in names])
    labels = [atlas.kinds[name] for name in names]
    labelled = {name for name in names if atlas.kinds[name] is not None}
    some = np.random.default_rng(len(heavy)).permutation(len(names))[:11]  # not sorted
    some = np.concatenate([some[weights[some] > 0], some[weights[some] == 0]])
    chosen = set(names[some])

    def drawn(strategy, batch_size=4):
        for batch in cf.Loader(cells, strategy, batch_size, rank=0, world_size=1, seed=1):
            found = content(batch)
            assert all(atlas.counts[name] == row for name, row in found.items())
            yield list(batch.obs.labels("cell")), batch

    def all_drawn(strategy):
        return {name for batch, _ in drawn(strategy) for name in batch}

    assert all_drawn(cf.BlockWeightedSampling(2, weights=weights, total_size=200)) == heavy
    if chosen & heavy:
        for w in (weights, weights[some]):
            got = all_drawn(cf.BlockWeightedSampling(2, indices=some, weights=w, total_size=200))
            assert got <= chosen & heavy
    assert all_drawn(cf.Streaming(indices=some)) == chosen
    assert all_drawn(cf.BlockShuffling(3, indices=np.isin(np.arange(len(names)), some))) == chosen
    for strategy in (cf.GroupSampling("kind"), cf.GroupSampling(labels=labels)):
        seen = set()
        for batch, _ in drawn(strategy, 3):
            assert len({atlas.kinds[name] for name in batch}) == 1
            seen.update(batch)
        assert seen == labelled
    inside = [labels[i] for i in some]
    for strategy in (
        cf.ClassBalancedSampling(label_key="kind", block_size=1, total_size=400),
        cf.ClassBalancedSampling(labels, block_size=1, total_size=400),
    ):
        counts = pd.Series([atlas.kinds[n] for b, _ in drawn(strategy) for n in b]).value_counts()
        there = {kind for kind in labels if kind is not None}
        assert set(counts.index) == there
        assert counts.min() > 400 / len(there) / 2
    for given_labels in (labels, inside):
        if any(label is not None for label in inside):
            strategy = cf.ClassBalancedSampling(given_labels, indices=some, total_size=100)
            assert all_drawn(strategy) <= chosen & labelled


@several
@given(files=shuffled(), data=st.data())
def test_selected_genes_and_library_sizes_stay_with_their_cells(tmp_path_factory, files, data):
    atlas = make_atlas(tmp_path_factory.mktemp("order"), files)
    cells = cf.open(atlas.paths, join="outer", obs=OBS)
    genes = data.draw(st.lists(st.sampled_from(list(cells.var_names)), unique=True, min_size=1))
    batch = cells.read(
        slice(None), obs=OBS, transforms=[cf.NormalizeTotal(100.0), cf.SelectGenes(genes)],
        output="dense",
    )  # fmt: skip
    assert list(batch.var_names) == genes
    for i, name in enumerate(batch.obs.labels("cell")):
        total = sum(atlas.counts[name].values())
        expected = [atlas.counts[name].get(gene, 0) * 100 / total if total else 0 for gene in genes]
        np.testing.assert_allclose(batch.x[i], expected, rtol=1e-6)


@several
@given(files=shuffled(), data=st.data())
def test_single_cells_have_the_numbers_of_their_genes(tmp_path_factory, files, data):
    folder = tmp_path_factory.mktemp("order")
    atlas = make_atlas(folder, files)
    vocab = GeneVocab.from_genes(data.draw(st.permutations([*GENES, "absent"])))
    shards = cf.convert_to_shards(
        cf.open(atlas.paths, join="outer"), folder / "s", gene_order="mean"
    )
    store = MemoryMappedStore(shards)
    for cells in (
        CellDataset(atlas.paths, vocab, obs_keys=OBS),
        ShardedCellDataset(store, vocab),
        ShardedCellDataset(store),
        store,
    ):
        found = {}
        for i in range(len(cells)):
            cell = cells[i]
            genes = cells.gene_vocab.decode(cell.gene_indices)
            found[cell.metadata["cell"]] = dict(
                zip(genes, np.asarray(cell.expression).astype(int).tolist(), strict=True)
            )
            kind = atlas.kinds[cell.metadata["cell"]]
            assert cell.metadata["kind"] == (kind or "unknown")
        assert found == atlas.counts


@pytest.mark.parametrize("shuffle", [False, True])
def test_cells_of_shards_and_of_files_both_say_where_they_come_from(tmp_path, shuffle):
    files = [(GENES, [f"{f}_{i}" for i in range(6)], KINDS) for f in range(3)]
    atlas = make_atlas(tmp_path, files)
    first = cf.convert_to_shards(atlas.paths[:1], tmp_path / "first")
    for k, inputs in enumerate(([first, *atlas.paths[1:]], [*atlas.paths[1:], first])):
        both = cf.open(cf.convert_to_shards(inputs, tmp_path / str(k), shuffle=shuffle))
        assert_same(atlas, both)
        table = both.obs_table(0).to_pandas()
        for cell, path, row in zip(
            table["cell"], table["_source_file"], table["_source_row"], strict=True
        ):
            assert anndata.read_h5ad(path, backed="r").obs_names[row] == cell


def test_preprocessing_of_a_store_stays_with_other_faces_of_it(tmp_path):
    atlas = make_atlas(tmp_path, [(GENES, [f"0_{i}" for i in range(6)], KINDS)])
    shards = cf.convert_to_shards(atlas.paths, tmp_path / "s")
    store = MemoryMappedStore(shards, preprocessing=cf.Log1p())
    vocab = GeneVocab.from_genes(GENES[::-1])
    for cells in (store, store.with_vocab(vocab), ShardedCellDataset(store),
                  ShardedCellDataset(store, vocab)):  # fmt: skip
        counts = atlas.counts[cells[3].metadata["cell"]]
        expected = sorted(np.log1p(list(counts.values())))
        np.testing.assert_allclose(sorted(np.asarray(cells[3].expression)), expected, rtol=1e-6)
