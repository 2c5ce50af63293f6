"""Genes asked for that the data lacks are said, never silently zero."""

import pickle
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
from obs_rule import write_file

import cellfeed as cf
from cellfeed.data.dataset import CellDataset
from cellfeed.data.sharding import convert_to_shards
from cellfeed.data.vocab import GeneVocab
from cellfeed.errors import InvalidArgumentError, InvalidTypeError, MissingGenesWarning

SYMBOLS = ["TP53", "CD4", "CD8A", "Actb"]
IDS = ["ENSG00000141510.18", "ENSG00000010610", "ENSG00000153563", "ENSG00000075624"]


@pytest.fixture
def path(tmp_path):
    return write_file(tmp_path / "symbols.h5ad", pd.DataFrame(index=list("abc")), SYMBOLS)


@pytest.fixture
def ids_path(tmp_path):
    return write_file(tmp_path / "ids.h5ad", pd.DataFrame(index=list("abc")), IDS)


def ways(path, folder):
    """Ways to ask one file for genes."""
    yield lambda genes, **more: cf.open(path, genes=genes, **more)
    yield lambda genes, **more: cf.open(anndata.read_h5ad(path), genes=genes, **more)
    shards = cf.convert_to_shards(path, folder / "shards")
    yield lambda genes, **more: cf.open(shards, genes=genes, **more)
    yield lambda genes, **more: cf.open(
        convert_to_shards(cf.open(path, genes=genes), folder / "by_vocab", overwrite=True, **more)
    )


def test_no_gene_found_is_an_error_that_says_why(path, ids_path, tmp_path):
    for said, file, genes in [
        ("has symbols", path, ["ENSG1", *IDS]),
        ("has Ensembl ids", ids_path, SYMBOLS),
        ("case", path, ["tp53", "ACTB", "cd4"]),
        ("version", ids_path, ["ENSG00000141510", "ENSG00000010610.3"]),
        ("such as 'TP53'", path, ["nothing like it"]),
    ]:
        folder = tmp_path / said.replace(" ", "_").replace("'", "")
        folder.mkdir()
        for ask in ways(file, folder):
            for policy in ("warn", "zero", "error"):
                with pytest.raises(KeyError, match=f"none of the {len(genes)} genes.*{said}"):
                    ask(genes, missing_genes=policy)


def test_some_missing_is_one_warning_with_count_and_examples(path, tmp_path):
    genes = ["CD4", *(f"absent{i}" for i in range(7)), "TP53", "actb"]
    for ask in ways(path, tmp_path):
        with pytest.warns(MissingGenesWarning) as caught:
            cells = ask(genes)
        (warning,) = (each for each in caught if each.category is MissingGenesWarning)
        assert warning.filename == __file__
        text = str(warning.message)
        assert "8 of the 10 genes" in text and "'absent0'" in text and "'actb' is 'Actb'" in text
        np.testing.assert_array_equal(cells[:].to_numpy()[:, [0, 8]], [[2, 1], [12, 11], [22, 21]])
        assert cells[:].to_numpy()[:, [1, 2, 3, 4, 5, 6, 7, 9]].sum() == 0


def test_missing_genes_are_listed_and_the_warning_is_a_choice(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cells = cf.open(path, genes=["x", "CD4", "y"], missing_genes="zero")
    assert cells.missing_genes == ["x", "y"]
    assert cf.open(path).missing_genes == []
    assert cf.open(path, genes=["CD4"]).missing_genes == []
    with pytest.raises(KeyError, match="2 of the 3 genes") as caught:
        cf.open(path, genes=["x", "CD4", "y"], missing_genes="error")
    assert "as 0" not in str(caught.value)
    with pytest.warns(MissingGenesWarning, match="lacks reads as 0"):
        cf.open(path, genes=["x", "CD4", "y"])
    with pytest.raises(InvalidArgumentError, match='"warn", "zero" or "error"'):
        cf.open(path, genes=["CD4"], missing_genes="ignore")


def test_a_copy_by_pickle_does_not_warn_again(path):
    with pytest.warns(MissingGenesWarning):
        cells = cf.open(path, genes=["x", "CD4"])
    copy = pickle.loads(pickle.dumps(cells))
    assert copy.missing_genes == ["x"] and copy.fingerprint == cells.fingerprint


def test_a_file_without_any_of_the_genes_is_said(path, ids_path):
    with pytest.warns(MissingGenesWarning, match=r"1 of 2 files have none.*ids\.h5ad"):
        cells = cf.open([path, ids_path], genes=["CD4", "TP53"])
    assert cells.missing_genes == []
    with pytest.raises(KeyError, match=r"ids\.h5ad"):
        cf.open([path, ids_path], genes=["CD4"], missing_genes="error")
    with pytest.warns(MissingGenesWarning, match=r"empty cells.*ids\.h5ad"):
        CellDataset([path, ids_path], GeneVocab.from_genes(["CD4", "absent"]))


def test_a_str_is_one_gene(path):
    assert list(cf.open(path, genes="CD4").var_names) == ["CD4"]
    with pytest.raises(KeyError, match="'A1BG'"):
        cf.open(path, genes="A1BG")
    loader = cf.Loader(cf.open(path), cf.Streaming(), 3, transforms=[cf.SelectGenes("CD4")])
    np.testing.assert_array_equal(next(iter(loader)).to_numpy(), [[2], [12], [22]])


@pytest.mark.parametrize("make", [set, frozenset, lambda g: dict.fromkeys(g).keys(), dict.fromkeys])
def test_what_has_no_order_is_refused(path, tmp_path, make):
    genes = make(["CD4", "TP53"])
    for act in (
        lambda: cf.open(path, genes=genes),
        lambda: cf.SelectGenes(genes),
        lambda: convert_to_shards(cf.open(path, genes=genes), tmp_path / "s"),
        lambda: GeneVocab.from_genes(genes),
    ):
        with pytest.raises(InvalidTypeError, match="sorted"):
            act()


def test_anything_with_an_order_is_taken(path):
    for genes in (
        ["CD4", "TP53"], ("CD4", "TP53"), iter(["CD4", "TP53"]), (g for g in ["CD4", "TP53"]),
        np.array(["CD4", "TP53"]), pd.Index(["CD4", "TP53"]), pd.Series(["CD4", "TP53"]),
        GeneVocab.from_genes(["CD4", "TP53"]),
    ):  # fmt: skip
        assert list(cf.open(path, genes=genes).var_names) == ["CD4", "TP53"]


@pytest.mark.parametrize(
    ("genes", "error", "said"),
    [
        ([], InvalidArgumentError, "empty"),
        (["CD4", "TP53", "CD4"], InvalidArgumentError, "'CD4' twice"),
        (["CD4", 7], InvalidTypeError, "7"),
        (3, InvalidTypeError, "3"),
        (b"CD4", InvalidTypeError, "CD4"),
    ],
)
def test_lists_that_cannot_work(path, genes, error, said):
    with pytest.raises(error, match=said):
        cf.open(path, genes=genes)
    with pytest.raises(error, match=said):
        cf.SelectGenes(genes)


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_genes_and_join_are_not_given_together(path, join):
    with pytest.raises(InvalidArgumentError, match="give one"):
        cf.open(path, genes=["CD4"], join=join)


def test_select_genes_says_why_names_are_not_there(path):
    for genes, said in [(IDS, "symbols"), (["CD4", "tp53"], "'tp53' is 'TP53'")]:
        with pytest.raises(KeyError, match=said):
            cf.Loader(cf.open(path), cf.Streaming(), 3, transforms=[cf.SelectGenes(genes)])


def test_a_vocabulary_of_other_genes_is_refused(path):
    with pytest.raises(KeyError, match="has symbols"):
        CellDataset(path, GeneVocab.from_genes(IDS))
    with pytest.raises(KeyError, match="has symbols"):
        GeneVocab.from_genes(IDS).get_alignment_indices(SYMBOLS)


def test_an_outer_join_of_ids_with_symbols_is_said(path, ids_path, tmp_path):
    for paths in ([path, ids_path], [ids_path, path]):
        with pytest.warns(MissingGenesWarning, match=r"ids\.h5ad has Ensembl ids.*symbols"):
            cf.open(paths, join="outer")
        with pytest.warns(MissingGenesWarning, match="share no gene"):
            convert_to_shards(cf.open(paths, join="outer"), tmp_path / "s", overwrite=True)
        with pytest.raises(KeyError, match="share no gene"):
            cf.open(paths, join="outer", missing_genes="error")
    other = write_file(tmp_path / "b.h5ad", pd.DataFrame(index=list("de")), ["CD4", "x"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cf.open([path, other], join="outer")
        cf.open([ids_path, path], join="outer", missing_genes="zero")
