"""Tokens against numpy references written from the papers' rules, for any ranks and threads."""

import pickle
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import token_reference as reference
import torch
from conftest import REAL_DATA
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.data import GeneVocab
from cellfeed.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    MissingGenesWarning,
    NoSuchKeyError,
)

N_CELLS, N_GENES = 103, 60
SEED = 5


def make_counts() -> np.ndarray:
    """Counts with ties, an empty cell, a cell of one gene, and an explicit zero for the file."""
    random = np.random.default_rng(3)
    x = random.poisson(random.gamma(0.6, 3, N_GENES), (N_CELLS, N_GENES)).astype(np.float32)
    x[4] = 0
    x[5] = 0
    x[5, 7] = 3
    x[6] = random.permutation(N_GENES) + 1
    return x


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    return make_counts()


@pytest.fixture(scope="module")
def genes() -> list[str]:
    return [f"gene{column}" for column in range(N_GENES)]


@pytest.fixture(scope="module")
def path(tmp_path_factory, counts, genes) -> str:
    with_zero = counts.copy()
    with_zero[0, np.argmin(counts[0])] = 1000
    x = scipy.sparse.csr_matrix(with_zero)
    x.data[x.data == 1000] = 0  # stored, and 0
    assert x.nnz == np.count_nonzero(counts) + 1
    obs = pd.DataFrame(
        {"kind": pd.Categorical(np.where(np.arange(N_CELLS) % 2, "odd", "even"))},
        index=[f"cell{row}" for row in range(N_CELLS)],
    )
    adata = anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=genes))
    adata.layers["twice"] = x * 2
    adata.obsm["pca"] = np.arange(2 * N_CELLS, dtype=np.float32).reshape(-1, 2)
    file = tmp_path_factory.mktemp("tokens") / "cells.h5ad"
    adata.write_h5ad(file)
    return str(file)


@pytest.fixture(scope="module")
def cells(path):
    return cf.open(path, obs=["kind"])


@pytest.fixture(scope="module")
def vocab(genes) -> GeneVocab:
    """In another order than the file, with gaps, and without some of its genes."""
    order = np.random.default_rng(1).permutation(N_GENES)[: N_GENES - 8]
    return GeneVocab({genes[column]: 4 + 3 * place for place, column in enumerate(order)})


def ids_of(vocab, genes) -> np.ndarray:
    ids = vocab.encode(genes)
    return np.where(ids == vocab.unk_token_id, 0, ids)


def make_loader(cells, tokens, batch_size=16, strategy=None, **options):
    return cf.Loader(
        cells, cf.BlockShuffling(4) if strategy is None else strategy, batch_size,
        output="tokens", tokens=tokens, seed=SEED, **options,
    )  # fmt: skip


def expressed(x, ids, keeps=None):
    is_token = (x > 0) & (ids > 0)
    if keeps is not None:
        is_token &= keeps
    return np.flatnonzero(is_token)


def test_ranks_are_those_of_geneformer_with_ties_in_the_order_of_the_columns(
    cells, counts, genes, vocab
):
    random = np.random.default_rng(2)
    medians = {gene: float(m) for gene, m in zip(genes, random.gamma(2, 1, N_GENES), strict=True)}
    ids = ids_of(vocab, genes)
    for given in (None, medians):
        divisors = np.ones(N_GENES, np.float32)
        if given:
            divisors = np.array([given[gene] for gene in genes], np.float32)
        loader = make_loader(cells, cf.RankTokens(vocab, max_length=21, medians=given))
        n_seen = 0
        for batch in loader:
            assert batch.input_ids.dtype == np.int32 and batch.values.dtype == np.float32
            assert batch.attention_mask.dtype == bool and batch.lengths.dtype == np.int32
            assert batch.labels is None and batch.value_labels is None
            assert batch.shape == (len(batch), batch.lengths.max())
            for i, row in enumerate(batch.index):
                columns = expressed(counts[row], ids)
                of_cell, values = reference.rank(
                    ids[columns], counts[row, columns] / divisors[columns], 20
                )
                n = len(of_cell) + 1
                assert batch.lengths[i] == n
                assert batch.input_ids[i].tolist() == [3, *of_cell] + [0] * (batch.shape[1] - n)
                np.testing.assert_array_equal(batch.values[i, 1:n], values)
                assert not batch.values[i, n:].any() and batch.values[i, 0] == 0
                assert batch.attention_mask[i].tolist() == [j < n for j in range(batch.shape[1])]
                n_seen += 1
        assert n_seen == N_CELLS


@pytest.mark.parametrize("ties", ["spread", "last"])
@pytest.mark.parametrize("truncation", ["smallest", "random"])
def test_bins_are_those_of_scgpt(cells, counts, genes, vocab, ties, truncation):
    ids = ids_of(vocab, genes)
    tokens = cf.BinnedTokens(
        vocab, n_bins=11, max_length=24, ties=ties, truncation=truncation, cls=False
    )
    loader = make_loader(cells, tokens, transforms=[cf.NormalizeTotal(1e3), cf.Log1p()])
    values_of = {
        int(row): x
        for batch in cf.Loader(
            cells, cf.Streaming(), transforms=[cf.NormalizeTotal(1e3), cf.Log1p()], output="dense"
        )
        for row, x in zip(batch.index, batch.x, strict=True)
    }
    n_spread = 0
    for k, batch in enumerate(loader):
        for i, row in enumerate(batch.index):
            x = values_of[int(row)]
            columns = expressed(x, ids)
            _, cutting, key = reference.keys_of(SEED, 0, 16 * k + i)
            made = reference.bins(x[columns], 11, key if ties == "spread" else None)
            n_spread += np.count_nonzero(made != reference.bins(x[columns], 11, None))
            stay = reference.kept(x[columns], 24, cutting if truncation == "random" else None)
            n = batch.lengths[i]
            assert batch.input_ids[i, :n].tolist() == ids[columns][stay].tolist()
            np.testing.assert_array_equal(batch.values[i, :n], made[stay])
    assert (n_spread > 0) == (ties == "spread")


def test_bins_of_equal_values_are_spread_evenly(tmp_path, genes):
    # All values but one are 1: the edges are all 1, but for the last.
    x = np.ones((400, 50), np.float32)
    x[:, 9] = 2
    adata = anndata.AnnData(scipy.sparse.csr_matrix(x), var=pd.DataFrame(index=genes[:50]))
    vocab = GeneVocab.from_genes(genes[:50])
    loader = cf.Loader(
        cf.open(adata), cf.Streaming(), 400, output="tokens",
        tokens=cf.BinnedTokens(vocab, n_bins=9, cls=False),
    )  # fmt: skip
    (batch,) = loader
    edges = np.quantile(x[0], np.linspace(0, 1, 8))
    n_ones = np.count_nonzero(edges == 1)
    of_ones = batch.values[:, np.arange(50) != 9]
    counts = np.bincount(of_ones.astype(int).ravel(), minlength=9)[1 : n_ones + 1]
    assert counts.sum() == of_ones.size
    expected = of_ones.size / n_ones
    assert abs(counts - expected).max() < 5 * np.sqrt(expected)
    assert (batch.values[:, 9] == 8).all()


def test_continuous_values_are_those_of_the_transforms(cells, counts, genes, vocab):
    ids = ids_of(vocab, genes)
    loader = make_loader(cells, cf.ContinuousTokens(vocab, max_length=200, pad="max_length"))
    for batch in loader:
        assert batch.shape == (len(batch), 200)
        for i, row in enumerate(batch.index):
            columns = expressed(counts[row], ids)
            n = len(columns) + 1
            assert batch.input_ids[i, :n].tolist() == [3, *ids[columns]]
            np.testing.assert_array_equal(batch.values[i, 1:n], counts[row, columns])


@pytest.mark.parametrize("predict", ["genes", "values"])
@pytest.mark.parametrize("make", [cf.RankTokens, cf.BinnedTokens, cf.ContinuousTokens])
def test_masking_hides_what_the_reference_chooses(cells, vocab, make, predict):
    tokens = make(vocab, max_length=30)
    masking = cf.Masking(0.3, predict=predict)
    whole = list(make_loader(cells, tokens))
    n_changed = 0
    for k, batch in enumerate(make_loader(cells, tokens, masking=masking)):
        plain = whole[k]
        np.testing.assert_array_equal(batch.attention_mask, plain.attention_mask)
        for i in range(len(batch)):
            n = int(batch.lengths[i]) - 1
            key = reference.keys_of(SEED, 0, 16 * k + i)[0]
            places = reference.chosen(n, 0.3, key) + 1
            ids, values = plain.input_ids[i].copy(), plain.values[i].copy()
            labels = np.full(len(ids), -100)
            if predict == "genes":
                labels[places] = ids[places]
                n_masked, n_random = round(0.8 * len(places)), round(0.1 * len(places))
                ids[places[:n_masked]] = 2
                for j in range(n_masked, n_masked + n_random):
                    low = reference.splitmix64(key, j) & 0xFFFFFFFF
                    ids[places[j]] = vocab.gene_ids[low * len(vocab.gene_ids) >> 32]
                assert batch.value_labels is None
            else:
                targets = np.full(len(ids), np.nan)
                targets[places] = values[places]
                np.testing.assert_array_equal(batch.value_labels[i], targets)
                if make is cf.BinnedTokens:
                    labels[places] = values[places]
                values[places] = -1
            n_changed += np.count_nonzero(ids != plain.input_ids[i])
            np.testing.assert_array_equal(batch.input_ids[i], ids)
            np.testing.assert_array_equal(batch.values[i], values)
            if predict == "values" and make is not cf.BinnedTokens:
                assert batch.labels is None
            else:
                assert batch.labels.dtype == np.int64
                np.testing.assert_array_equal(batch.labels[i], labels)
    assert (n_changed > 0) == (predict == "genes")


def test_what_is_predicted_by_default_goes_with_the_tokens(cells, vocab):
    for make, predicted in ((cf.RankTokens, "genes"), (cf.BinnedTokens, "values")):
        batch = next(iter(make_loader(cells, make(vocab), masking=cf.Masking())))
        assert (batch.value_labels is None) == (predicted == "genes")


def drawing_tokens(vocab):
    return cf.BinnedTokens(vocab, n_bins=7, max_length=15, truncation="random")


def by_position(loader, world_size=1, rank=0, first=0):
    """Position in the order -> what a cell became."""
    cells = {}
    for k, batch in enumerate(loader, first):
        for i in range(len(batch)):
            n = batch.lengths[i]
            at = (k * len(batch) + i) * world_size + rank
            cells[at] = (
                int(batch.index[i]), batch.input_ids[i, :n].tolist(), batch.values[i, :n].tolist(),
                batch.labels[i, :n].tolist(),
            )  # fmt: skip
    return cells


def test_tokens_are_the_same_for_any_threads_ranks_and_formats(path, cells, vocab, tmp_path):
    shards = tmp_path / "shards"
    cf.convert_to_shards(path, shards, shard_size=40, progress=False)
    options = {"masking": cf.Masking(0.4), "remainder": "drop", "drop_last": True}
    expected = by_position(make_loader(cells, drawing_tokens(vocab), 24, **options))
    assert len(expected) == 96
    for threads in (1, 3):
        loader = make_loader(cells, drawing_tokens(vocab), 24, threads=threads, **options)
        assert by_position(loader) == expected
    of_shards = make_loader(cf.open(shards), drawing_tokens(vocab), 24, **options)
    assert by_position(of_shards) == expected
    for world_size in (2, 3):
        found = {}
        for rank in range(world_size):
            loader = make_loader(
                cells, drawing_tokens(vocab), 24 // world_size, rank=rank, world_size=world_size,
                **options,
            )  # fmt: skip
            found |= by_position(loader, world_size, rank)
        assert found == expected


def test_workers_and_a_resumed_run_have_the_same_tokens(cells, vocab):
    def loader():
        return make_loader(
            cells, drawing_tokens(vocab), masking=cf.Masking(), drop_last=True, epoch=2
        )

    expected = by_position(loader())
    workers = DataLoader(loader(), batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert by_position(workers) == expected
    stopped, resumed = loader(), loader()
    iterator = iter(stopped)
    for _ in range(3):
        next(iterator)
    resumed.load_state_dict(stopped.state_dict())
    rest = by_position(resumed, first=3)
    assert rest == {at: cell for at, cell in expected.items() if at >= 48}


def test_epochs_and_seeds_draw_anew(cells, vocab):
    loader = make_loader(
        cells, drawing_tokens(vocab), strategy=cf.Streaming(), masking=cf.Masking()
    )
    first, second = by_position(loader), by_position(loader)
    assert {at: cell[0] for at, cell in first.items()} == {at: c[0] for at, c in second.items()}
    assert sum(first[at] != second[at] for at in first) > N_CELLS // 2


def test_nothing_is_predicted_of_cells_that_fill_up_a_batch(cells, vocab):
    n_padding = 0
    for rank in range(4):
        loader = make_loader(
            cells, cf.BinnedTokens(vocab), masking=cf.Masking(0.5), rank=rank, world_size=4
        )
        for batch in loader:
            for i in np.flatnonzero(batch.is_padding):
                n_padding += 1
                assert batch.lengths[i] > 1
                assert (batch.labels[i] == -100).all() and np.isnan(batch.value_labels[i]).all()
                assert (batch.values[i] != -1).all()
    assert n_padding == 1


@pytest.mark.parametrize("strategy", ["most_expressed", "random_expressed"])
@pytest.mark.parametrize("rank", [0, 1])
def test_genes_of_a_batch_are_those_of_the_reference(cells, counts, genes, vocab, strategy, rank):
    ids = ids_of(vocab, genes)
    tokens = cf.RankTokens(vocab, gene_selection=strategy, n_genes=9)
    loader = make_loader(cells, tokens, rank=rank, world_size=2)
    kept = set()
    for k, batch in enumerate(loader):
        x = counts[batch.index]
        real = x[~batch.is_padding]
        keeps = reference.selected(real, ids, strategy, 9, SEED, 0, 32 * k)
        kept.add(keeps.tobytes())
        for i in range(len(batch)):
            columns = expressed(x[i], ids, keeps)
            of_cell, _ = reference.rank(ids[columns], x[i, columns], 2048)
            assert batch.input_ids[i, : batch.lengths[i]].tolist() == [3, *of_cell]
    assert len(kept) > 1


def test_a_selection_of_genes_saves_what_the_seed_says():
    # 128 cells: 640 k -> 262 k tokens.
    x = np.random.default_rng(0).integers(1, 9, (128, 5000)).astype(np.float32)
    genes = [f"g{column}" for column in range(5000)]
    cells = cf.open(anndata.AnnData(scipy.sparse.csr_matrix(x), var=pd.DataFrame(index=genes)))
    vocab = GeneVocab.from_genes(genes)
    sizes = []
    for selection in ({}, {"gene_selection": "most_expressed", "n_genes": 2048}):
        tokens = cf.ContinuousTokens(vocab, max_length=5000, cls=False, **selection)
        (batch,) = cf.Loader(cells, cf.Streaming(), 128, output="tokens", tokens=tokens)
        sizes.append(batch.input_ids.size)
    assert sizes == [640_000, 262_144]


@pytest.mark.skipif(not REAL_DATA.is_dir(), reason="no real data")
def test_real_cells_are_ranked_as_geneformer_ranked_them():
    """Only the order of tokens is kept of the cells, so counts are made that have that order."""
    file = REAL_DATA / "tokens" / "genecorpus_500_samples.parquet"
    cells = pd.read_parquet(file)["input_ids"].head(50).tolist()
    n = int(max(ids.max() for ids in cells)) + 1
    x = scipy.sparse.lil_matrix((len(cells), n), dtype=np.float32)
    medians = np.random.default_rng(0).gamma(2, 1, n).astype(np.float32) + 0.01
    for i, ids in enumerate(cells):
        x[i, ids] = (len(ids) - np.arange(len(ids))) * medians[ids]
    genes = [f"t{number}" for number in range(n)]
    vocab = GeneVocab({gene: number + 4 for number, gene in enumerate(genes)})
    tokens = cf.RankTokens(vocab, medians=medians, cls=False)
    adata = anndata.AnnData(x.tocsr(), var=pd.DataFrame(index=genes))
    (batch,) = cf.Loader(cf.open(adata), cf.Streaming(), 50, output="tokens", tokens=tokens)
    for i, ids in enumerate(cells):
        assert (batch.input_ids[i, : batch.lengths[i]] - 4).tolist() == ids.tolist()


def test_tensors_share_the_memory_and_obs_come_along(path, vocab):
    cells = cf.open(path, obs=["kind"], layers=["twice"], obsm=["pca"])
    loader = make_loader(cells, cf.BinnedTokens(vocab), masking=cf.Masking())
    batch = next(iter(loader))
    tensors = batch.to_torch()
    assert list(tensors) == [
        "input_ids", "values", "attention_mask", "lengths", "labels", "value_labels",
    ]  # fmt: skip
    dtypes = [torch.int32, torch.float32, torch.bool, torch.int32, torch.int64, torch.float32]
    assert [tensor.dtype for tensor in tensors.values()] == dtypes
    assert tensors["input_ids"].data_ptr() == batch.input_ids.ctypes.data
    moved = batch.to("cpu")
    assert torch.equal(moved.labels, tensors["labels"])
    assert torch.equal(moved["kind"], torch.from_numpy(batch.obs["kind"]))
    assert torch.equal(moved.obs["kind"], moved["kind"])
    assert moved.index.tolist() == batch.index.tolist() and not moved.is_padding.any()
    assert moved.obsm["pca"][:, 0].tolist() == (2 * batch.index).tolist()
    assert batch.layers["twice"].shape == (16, N_GENES)
    assert batch.obs_names[0] == f"cell{batch.index[0]}"
    assert batch.keys() == [*tensors, "kind"] and "labels" in batch and "x" not in batch
    some = batch[[2, 0]]
    np.testing.assert_array_equal(some["input_ids"], batch.input_ids[[2, 0]])
    assert some.index.tolist() == batch.index[[2, 0]].tolist()
    again = pickle.loads(pickle.dumps(batch))
    np.testing.assert_array_equal(again.value_labels, batch.value_labels)
    assert again.layers["twice"].sum() == batch.layers["twice"].sum()
    with pytest.raises(NoSuchKeyError, match="input_ids"):
        batch["input_id"]
    assert "16 cells x" in repr(batch)


def test_memory_of_a_batch_is_its_own_while_it_is_held(cells, vocab):
    loader = make_loader(cells, cf.RankTokens(vocab), 4)
    held = [(batch.input_ids, batch.input_ids.copy(), batch.lengths, batch.lengths.copy())
            for batch in loader]  # fmt: skip
    for ids, ids_then, lengths, lengths_then in held:
        np.testing.assert_array_equal(ids, ids_then)
        np.testing.assert_array_equal(lengths, lengths_then)


def test_genes_on_one_side_only_are_named(cells, genes, vocab):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = make_loader(cells, cf.RankTokens(vocab))
    assert sorted(loader.genes_left_out) == sorted(set(genes) - set(vocab.genes))
    larger = GeneVocab.from_genes([*genes, "X1", "X2"])
    with pytest.warns(MissingGenesWarning, match="lacks 2 of 62 genes.*X1, X2"):
        loader = make_loader(cells, cf.RankTokens(larger))
    assert not len(loader.genes_left_out)
    with pytest.raises(NoSuchKeyError, match="none of the 2 genes of the vocabulary"):
        make_loader(cells, cf.RankTokens(GeneVocab.from_genes(["ENSG00000000003", "ENSG1"])))


def test_columns_that_are_chosen_or_joined_keep_their_numbers(path, genes, vocab, counts):
    ids = ids_of(vocab, genes)
    wanted = [genes[c] for c in (11, 3, 40, 8, 20)]
    for cells, transforms in (
        (cf.open(path), [cf.SelectGenes(wanted)]),
        (cf.open(path, genes=wanted), []),
    ):
        with pytest.warns(MissingGenesWarning):
            loader = make_loader(cells, cf.ContinuousTokens(vocab), transforms=transforms)
        for batch in loader:
            for i, row in enumerate(batch.index):
                columns = [c for c in (11, 3, 40, 8, 20) if counts[row, c] > 0 and ids[c] > 0]
                assert batch.input_ids[i, 1 : batch.lengths[i]].tolist() == ids[columns].tolist()


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_values_that_are_no_expression_are_errors(genes, bad):
    x = np.ones((5, 6), np.float32)
    x[3, 2] = bad
    vocab = GeneVocab.from_genes(genes[:6])
    cells = cf.open(anndata.AnnData(scipy.sparse.csr_matrix(x), var=pd.DataFrame(index=genes[:6])))
    for selection in ({}, {"gene_selection": "most_expressed", "n_genes": 2}):
        tokens = cf.ContinuousTokens(vocab, **selection)
        with pytest.raises(InvalidArgumentError, match="cell 3"):
            list(cf.Loader(cells, cf.Streaming(), 5, output="tokens", tokens=tokens))


def test_arguments_that_cannot_work_are_named(cells, genes, vocab):
    strategy = cf.Streaming()
    for message, make in {
        "max_length is 1000000000, and no cell has more": lambda: make_loader(
            cells, cf.RankTokens(vocab, max_length=10**9, pad="max_length")
        ),
        "max_length must be.* 2": lambda: cf.RankTokens(vocab, max_length=1),
        "max_length": lambda: cf.RankTokens(vocab, max_length=0, cls=False),
        "n_bins": lambda: cf.BinnedTokens(vocab, n_bins=2),
        "ties": lambda: cf.BinnedTokens(vocab, ties="random"),
        "truncation": lambda: cf.ContinuousTokens(vocab, truncation="left"),
        "pad must be": lambda: cf.ContinuousTokens(vocab, pad="right"),
        "gene_selection": lambda: cf.RankTokens(vocab, gene_selection="most"),
        "needs n_genes": lambda: cf.RankTokens(vocab, gene_selection="most_expressed"),
        "n_genes goes with": lambda: cf.RankTokens(vocab, n_genes=5),
        "medians has 1 numbers": lambda: cf.RankTokens(vocab, medians=[1.0]),
        "medians lacks 51 of 52": lambda: cf.RankTokens(vocab, medians={vocab.genes[0]: 1}),
        "medians lacks 52 of 52": lambda: cf.RankTokens(vocab, medians={1: 2.0}),
        "median of gene": lambda: cf.RankTokens(vocab, medians=[0.0] * 52),
        "no genes": lambda: cf.RankTokens(GeneVocab.from_genes([])),
        "tokens are int32": lambda: cf.RankTokens(GeneVocab({"a": 2**31})),
        "fraction": lambda: cf.Masking(0),
        "more than 1 together": lambda: cf.Masking(mask_share=0.8, random_share=0.3),
        "predict": lambda: cf.Masking(predict="labels"),
        "tokens is missing": lambda: cf.Loader(cells, strategy, output="tokens"),
        'tokens goes with output="tokens"': lambda: cf.Loader(
            cells, strategy, tokens=cf.RankTokens(vocab)
        ),
        "masking goes with": lambda: cf.Loader(cells, strategy, masking=cf.Masking()),
        "float32": lambda: make_loader(cells, cf.RankTokens(vocab), dtype="int32"),
    }.items():
        with pytest.raises((InvalidArgumentError, NoSuchKeyError), match=message):
            make()
    for message, make in {
        "vocab must be a GeneVocab": lambda: cf.RankTokens(genes),
        "tokens is .*GeneVocab": lambda: cf.Loader(cells, strategy, output="tokens", tokens=vocab),
        "masking must be": lambda: make_loader(cells, cf.RankTokens(vocab), masking=0.15),
        "medians must be": lambda: cf.RankTokens(vocab, medians="medians.pkl"),
    }.items():
        with pytest.raises(InvalidTypeError, match=message):
            make()


def test_a_vocabulary_in_another_process_makes_the_same_loader(cells, vocab):
    loader = make_loader(cells, drawing_tokens(vocab), masking=cf.Masking())
    assert by_position(pickle.loads(pickle.dumps(loader))) == by_position(loader)
