"""Gene vocabularies."""

import json
import os
import pickle
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
from real_files import read_anndata

import cellfeed as cf
from cellfeed.data.vocab import GeneVocab


def test_special_numbers_and_genes_from_four():
    vocab = GeneVocab.from_genes(["TP53", "CD4", "CD8A"])
    assert len(vocab) == 7 and "CD4" in vocab and "<pad>" not in vocab
    assert (vocab.pad_token_id, vocab.unk_token_id) == (0, 1)
    assert (vocab.mask_token_id, vocab.cls_token_id) == (2, 3)
    assert vocab["TP53"] == 4 and vocab.genes == ["TP53", "CD4", "CD8A"]
    ids = vocab.encode(["CD8A", "nothing", "TP53"])
    assert ids.dtype == np.int64 and list(ids) == [6, 1, 4]
    assert vocab.decode([0, 1, 2, 3, 4, 99]) == [
        "<pad>",
        "<unk>",
        "<mask>",
        "<cls>",
        "TP53",
        "<unk>",
    ]
    with pytest.raises(KeyError, match="nothing"):
        vocab["nothing"]


def test_repeated_names_keep_their_first_place(caplog):
    assert GeneVocab.from_genes(["a", "b", "a"]).genes == ["a", "b"]
    assert "1 repeated" in caplog.text


def test_saved_and_read_again(tmp_path):
    vocab = GeneVocab.from_genes(["TP53", "zoë", "<odd>"])
    vocab.save(tmp_path / "new" / "genes.json")
    assert json.loads((tmp_path / "new" / "genes.json").read_text("utf-8")) == {
        "TP53": 4, "zoë": 5, "<odd>": 6
    }  # fmt: skip
    assert GeneVocab.from_file(tmp_path / "new" / "genes.json") == vocab
    assert pickle.loads(pickle.dumps(vocab)) == vocab
    (tmp_path / "list.json").write_text('["b", "a"]')
    assert list(GeneVocab.from_file(tmp_path / "list.json").encode(["a"])) == [5]
    # A file with gaps: every number still has a row in an embedding table of len(vocab).
    (tmp_path / "gaps.json").write_text('{"a": 10, "b": 5}')
    vocab = GeneVocab.from_file(tmp_path / "gaps.json")
    assert vocab.genes == ["b", "a"] and list(vocab.gene_ids) == [5, 10] and len(vocab) == 11


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        ("", OSError, "JSON"),
        ("3", OSError, "int"),
        ('{"a": "x"}', OSError, "vocabulary"),
        ('{"a": 3}', OSError, "<cls>"),
        ('{"a": 4, "b": 4}', OSError, "one number"),
        ('{"<mask>": 9}', OSError, "special"),
        ('{"a": 4.5}', OSError, "an integer"),
        ('{"a": true}', OSError, "an integer"),
        ('{"a": 1e400}', OSError, "float64"),
        ('{"a": 4, "b": 5, "a": 6}', OSError, "'a' is there more than once"),
        ('{"a": NaN}', OSError, "NaN"),
        ('{"a": 9223372036854775807}', OSError, "9223372036854775806"),
        ("[null]", OSError, "a str, not None"),
        ('["a", 3]', OSError, "a str, not 3"),
        ("[" * 100_000, OSError, "deeply"),
    ],
)
def test_a_bad_file_is_named(tmp_path, text, kind, word):
    (tmp_path / "genes.json").write_text(text)
    with pytest.raises(kind, match=word) as caught:
        GeneVocab.from_file(tmp_path / "genes.json")
    assert "genes.json" in str(caught.value)


def test_only_a_regular_file_of_bounded_size_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "latin").write_bytes('["ä"]'.encode("latin-1"))
    for name, word in [("pipe", "regular"), ("zeros", "regular"), (".", "regular"),
                       ("large", "more than"), ("latin", "JSON")]:  # fmt: skip
        with pytest.raises(OSError, match=word) as caught:
            GeneVocab.from_file(tmp_path / name)
        assert isinstance(caught.value, cf.errors.CellfeedError)
    with pytest.raises(cf.errors.InvalidArgumentError, match="NUL byte"):
        GeneVocab.from_file("a\0b")


def test_a_missing_file_and_wrong_arguments(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        GeneVocab.from_file(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError, match=r"none\.h5ad"):
        GeneVocab.from_adata(tmp_path / "none.h5ad")
    with pytest.raises(TypeError, match="list"):
        GeneVocab.from_genes("TP53")
    with pytest.raises(ValueError, match="n_genes"):
        GeneVocab.from_adata(anndata.AnnData(np.ones((2, 3))), n_genes=0)
    with pytest.raises(ValueError, match="detected"):
        GeneVocab.from_adata(anndata.AnnData(np.ones((2, 3))), n_genes=1, by="chance")


def test_from_a_file_and_from_an_anndata_are_the_same(shared_data):
    path = shared_data / "anndata/scp1884.h5ad"
    adata = read_anndata(path)
    assert GeneVocab.from_adata(path).genes == list(adata.var_names)
    assert GeneVocab.from_adata(adata) == GeneVocab.from_adata(path)
    for by in ("detected", "dispersion"):
        vocab = GeneVocab.from_adata(path, n_genes=100, by=by)
        assert len(vocab.genes) == 100
        assert GeneVocab.from_adata(adata, n_genes=100, by=by) == vocab


def test_the_genes_kept_are_those_most_cells_have_in_the_order_of_the_data(shared_data):
    adata = read_anndata(shared_data / "anndata/scp1884.h5ad")
    n_cells = adata.X.getnnz(axis=0)
    vocab = GeneVocab.from_adata(shared_data / "anndata/scp1884.h5ad", n_genes=500)
    kept = adata.var_names.get_indexer(vocab.genes)
    assert np.all(np.diff(kept) > 0)
    assert n_cells[kept].min() >= np.delete(n_cells, kept).max()


def test_several_files_give_the_union(shared_data):
    paths = sorted((shared_data / "anndata").glob("derived_mix_*.h5ad"))
    union = set().union(*(read_anndata(path).var_names for path in paths))
    assert set(GeneVocab.from_adata(paths).genes) == union
    assert GeneVocab.from_adata(shared_data / "anndata/derived_mix_*.h5ad") == GeneVocab.from_adata(
        paths
    )


def test_names_from_a_var_column(shared_data):
    path = shared_data / "anndata/telencephalon_val.h5ad"
    expected = read_anndata(path).var["feature_name"]
    assert GeneVocab.from_adata(path, var_key="feature_name").genes == list(dict.fromkeys(expected))
    with pytest.raises(KeyError, match="feature_name"):
        GeneVocab.from_adata(path, var_key="symbol")


def test_alignment_and_a_collection_with_the_axis_of_the_vocabulary(shared_data):
    path = shared_data / "anndata/scp1884.h5ad"
    vocab = GeneVocab.from_adata(path, n_genes=50)
    assert list(cf.open(path, genes=vocab).var_names) == vocab.genes
    positions, ids = vocab.get_alignment_indices(["x", vocab.genes[7], vocab.genes[1]])
    assert (list(positions), list(ids)) == ([1, 2], [11, 5])


def test_another_name_of_genes_is_that_of_the_gene(tmp_path):
    """Whatever the order of the genes, which need not be that of the first file."""
    x = np.array([[5, 0, 0], [5, 0, 1], [5, 0, 0]], np.float32)
    names = ["z", "b", "a"]
    for name, step in (("one", 1), ("two", -1)):
        var = pd.DataFrame({"symbol": [f"S_{gene}" for gene in names]}, index=names)[::step]
        anndata.AnnData(x[:, ::step], var=var).write_h5ad(tmp_path / f"{name}.h5ad")
    one, both = tmp_path / "one.h5ad", [tmp_path / "one.h5ad", tmp_path / "two.h5ad"]
    for cells in (one, both, cf.open(one)[:, ["a", "b", "z"]], cf.open(one, genes=sorted(names))):
        vocab = GeneVocab.from_adata(cells, "symbol", n_genes=1)
        assert vocab.genes == ["S_z"] == [f"S_{g}" for g in GeneVocab.from_adata(cells, n_genes=1)]
    assert GeneVocab.from_adata(both, "symbol").genes == ["S_a", "S_b", "S_z"]
    var = pd.DataFrame({"symbol": ["S_q"]}, index=["q"])
    anndata.AnnData(x[:, :1], var=var).write_h5ad(tmp_path / "three.h5ad")
    assert "S_q" in GeneVocab.from_adata([one, tmp_path / "three.h5ad"], "symbol").genes
    anndata.AnnData(x[:, :1], var=var[[]]).write_h5ad(tmp_path / "four.h5ad")
    with pytest.raises(ValueError, match="'symbol' has no value for the gene 'q'"):
        GeneVocab.from_adata([one, tmp_path / "four.h5ad"], "symbol")


def test_an_anndata_gives_what_its_file_gives(tmp_path):
    var = pd.DataFrame({"symbol": ["s", "t", "u"]}, index=["a", "a", "c"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata = anndata.AnnData(np.eye(3, dtype=np.float32), var=var)
        raw = pd.DataFrame({"symbol": list("vwxyz")}, index=["c", "b", "a", "x", "y"])
        adata.raw = anndata.AnnData(np.ones((3, 5), np.float32), var=raw)
        adata.layers["l"] = adata.X
        adata.write_h5ad(tmp_path / "a.h5ad")
        for layer in ("X", "raw/X", "l"):
            for key in (None, "symbol"):
                made = GeneVocab.from_adata(adata, key, layer=layer)
                assert made == GeneVocab.from_adata(tmp_path / "a.h5ad", key, layer=layer)
        assert GeneVocab.from_adata(adata, layer="raw/X").genes == ["c", "b", "a", "x", "y"]
        with pytest.raises(KeyError, match="no layer 'm'"):
            GeneVocab.from_adata(adata, layer="m")
