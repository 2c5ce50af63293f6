"""uns and varm of a single input: in shards, and back in what is exported."""

import json
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from real_files import read_anndata

import cellfeed as cf
from cellfeed.data import validate_shard_dir
from cellfeed.errors import LeftOutWarning


def annotated(path, n_cells=40, n_genes=12, **varm):
    """An .h5ad file with uns of every kind that anndata writes, and varm."""
    rng = np.random.default_rng(0)
    x = scipy.sparse.random(n_cells, n_genes, 0.5, format="csr", rng=rng, dtype="float32")
    adata = anndata.AnnData(x)
    adata.obs["type"] = pd.Categorical(rng.choice(["a", "b"], n_cells))
    adata.var["high"] = rng.random(n_genes) > 0.5
    adata.varm["PCs"] = rng.normal(size=(n_genes, 5))
    for name, value in varm.items():
        adata.varm[name] = value
    names = np.rec.fromarrays(
        [np.array(["g1", "g2"], dtype=object), np.array(["g3", "gene four"], dtype=object)],
        dtype=[("a", "O"), ("b", "O")],
    )
    scores = np.rec.fromarrays([[1.5, 2.5], [3.5, 4.5]], dtype=[("a", "f4"), ("b", "f8")])
    adata.uns = {
        "text": "some text, é",
        "number": 3,
        "float": np.float32(2.5),
        "flag": True,
        "texts": np.array(["x", "", "long " * 50], dtype=object),
        "array": rng.normal(size=(3, 4, 2)),
        "empty": np.zeros((0, 3)),
        "half": np.arange(4, dtype="float16"),
        "big endian": np.arange(5, dtype=">i4"),
        "sparse": scipy.sparse.random(30, 30, 0.2, format="csr", rng=rng),
        "frame": pd.DataFrame(
            {"c": pd.Categorical(["u", "v", "u"]), "n": pd.array([1, None, 3], dtype="Int64")},
            index=["r0", "r1", "r2"],
        ),
        "rank_genes_groups": {"names": names, "scores": scores, "params": {"method": "t-test"}},
        "deep": {"er": {"still": np.arange(3)}},
    }
    adata.write_h5ad(path)
    return adata


def assert_same(found, expected, where="uns"):
    if isinstance(expected, dict):
        assert sorted(found) == sorted(expected), where
        for name in expected:
            assert_same(found[name], expected[name], f"{where}/{name}")
    elif isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected)
    elif scipy.sparse.issparse(expected):
        assert (found != expected).nnz == 0, where
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype, where
        assert found.shape == expected.shape, where
        assert found.tolist() == expected.tolist(), where
    else:
        assert found == expected, where


def read(path):
    return anndata.read_h5ad(path)


@pytest.mark.parametrize("how", [{}, {"gene_order": "mean"}, {"shuffle": True}])
def test_shards_give_back_what_anndata_reads_of_the_file(tmp_path, how):
    path = tmp_path / "a.h5ad"
    annotated(path)
    expected = read(path)
    cf.convert_to_shards(path, tmp_path / "shards", shard_size=17, **how)
    assert (tmp_path / "shards" / "annotations.h5").exists()
    cf.export_h5ad(tmp_path / "shards", tmp_path / "b.h5ad")
    found = read(tmp_path / "b.h5ad")
    assert_same(dict(found.uns), dict(expected.uns))
    assert list(found.varm) == ["PCs"]
    np.testing.assert_array_equal(found.varm["PCs"], expected.varm["PCs"])
    assert list(found.var_names) == list(expected.var_names)


def test_a_file_is_exported_with_them_and_shards_of_shards_have_them(tmp_path):
    path = tmp_path / "a.h5ad"
    annotated(path)
    cf.export_h5ad(path, tmp_path / "b.h5ad")
    cf.convert_to_shards(tmp_path / "b.h5ad", tmp_path / "one")
    cf.convert_to_shards(tmp_path / "one", tmp_path / "two", shard_size=11)
    cf.export_h5ad(tmp_path / "two", tmp_path / "c.h5ad")
    expected, found = read(path), read(tmp_path / "c.h5ad")
    assert_same(dict(found.uns), dict(expected.uns))
    np.testing.assert_array_equal(found.varm["PCs"], expected.varm["PCs"])


def test_cells_that_were_chosen_carry_them_and_chosen_genes_have_no_varm(tmp_path):
    path = tmp_path / "a.h5ad"
    annotated(path)
    cells = cf.open(path, obs=["type"])
    cf.export_h5ad(cells.filter("type == 'a'"), tmp_path / "b.h5ad")
    found = read(tmp_path / "b.h5ad")
    assert found.uns["text"] == "some text, é"
    np.testing.assert_array_equal(found.varm["PCs"], read(path).varm["PCs"])
    genes = list(cells.var_names[[3, 1, 2]])
    with pytest.warns(LeftOutWarning, match="varm: other genes"):
        cf.export_h5ad(cells[:, genes], tmp_path / "c.h5ad")
    found = read(tmp_path / "c.h5ad")
    assert found.uns["text"] == "some text, é"
    assert not found.varm
    # As many genes as there are, in another order.
    turned = list(cells.var_names[::-1])
    with pytest.warns(LeftOutWarning, match="varm: other genes"):
        cf.export_h5ad(cells[:, turned], tmp_path / "d.h5ad")
    assert not read(tmp_path / "d.h5ad").varm


def test_the_stored_order_of_genes_has_no_varm(tmp_path):
    annotated(tmp_path / "a.h5ad")
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "mean", gene_order="mean")
    with pytest.warns(LeftOutWarning, match="varm"):
        cf.convert_to_shards(tmp_path / "mean", tmp_path / "again")
    cf.export_h5ad(tmp_path / "again", tmp_path / "b.h5ad")
    assert not read(tmp_path / "b.h5ad").varm


def test_what_says_of_x_that_it_is_logarithms_does_not_follow_a_layer(tmp_path):
    adata = annotated(tmp_path / "a.h5ad")
    adata.layers["counts"] = adata.X.copy()
    adata.uns["log1p"] = {"base": 2.0}
    adata.write_h5ad(tmp_path / "a.h5ad")
    cf.export_h5ad(tmp_path / "a.h5ad", tmp_path / "x.h5ad")
    assert read(tmp_path / "x.h5ad").uns["log1p"] == {"base": 2.0}
    cf.export_h5ad(cf.open(tmp_path / "a.h5ad", layer="counts"), tmp_path / "counts.h5ad")
    assert "log1p" not in read(tmp_path / "counts.h5ad").uns

    cells = cf.open(tmp_path / "a.h5ad", layer="counts")
    cf.export_h5ad(cells, tmp_path / "cells.h5ad")
    cf.convert_to_shards(cells, tmp_path / "shards")
    cf.export_h5ad(tmp_path / "shards", tmp_path / "again.h5ad")
    for name in ("cells.h5ad", "again.h5ad"):
        uns = read(tmp_path / name).uns
        assert "log1p" not in uns
        assert uns["number"] == 3


def test_data_frames_and_sparse_matrices_of_varm(tmp_path):
    path = tmp_path / "a.h5ad"
    names = [str(i) for i in range(12)]
    frame = pd.DataFrame({"q": np.arange(12.0), "t": pd.Categorical(list("abcabcabcabc"))}, names)
    sparse = scipy.sparse.random(12, 3, 0.5, format="csr", rng=np.random.default_rng(0))
    annotated(path, frame=frame, sparse=sparse)
    cf.convert_to_shards(path, tmp_path / "shards")
    cf.export_h5ad(tmp_path / "shards", tmp_path / "b.h5ad")
    found = read(tmp_path / "b.h5ad")
    pd.testing.assert_frame_equal(found.varm["frame"], frame)
    assert (found.varm["sparse"] != sparse).nnz == 0


def test_several_inputs_have_none(tmp_path):
    for name in ("a", "b"):
        annotated(tmp_path / f"{name}.h5ad")
    cf.convert_to_shards([tmp_path / "a.h5ad", tmp_path / "b.h5ad"], tmp_path / "shards")
    manifest = json.loads((tmp_path / "shards" / "shard_metadata.json").read_text())
    assert manifest["annotations"] is None
    assert not (tmp_path / "shards" / "annotations.h5").exists()


def test_links_and_references_and_sharing(tmp_path):
    path = tmp_path / "a.h5ad"
    annotated(path)
    with h5py.File(path, "r+") as file:
        uns = file["uns"]
        uns["soft"] = h5py.SoftLink("/uns/text")
        uns["hard"] = uns["deep"]
        uns["nowhere"] = h5py.SoftLink("/uns/missing")
        uns["outside"] = h5py.ExternalLink("other.h5", "/a")
        uns.create_dataset("reference", data=uns["text"].ref)
        uns["deep"]["circle"] = file["uns"]
        nested = uns.create_group("doubled")
        for _level in range(40):  # 2^40 paths lead to the last one
            below = nested.create_group("a")
            nested["b"] = below
            nested = below
    with pytest.warns(LeftOutWarning) as caught:
        cf.convert_to_shards(path, tmp_path / "shards")
    text = str(caught[0].message)
    for part in ("uns/nowhere", "uns/outside", "uns/reference"):
        assert part in text
    with h5py.File(tmp_path / "shards" / "annotations.h5") as file:
        assert file["uns/soft"].asstr()[()] == "some text, é"
        assert file["uns/hard/er/still"][:].tolist() == [0, 1, 2]
        assert "circle" in file["uns/deep"]


def test_a_damaged_file_of_annotations_is_not_carried(tmp_path):
    annotated(tmp_path / "a.h5ad")
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "shards")
    file = tmp_path / "shards" / "annotations.h5"
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    with pytest.raises(cf.errors.CorruptDataError, match=r"annotations\.h5"):
        validate_shard_dir(tmp_path / "shards")
    with pytest.raises(cf.errors.CorruptDataError, match=r"annotations\.h5"):
        cf.export_h5ad(tmp_path / "shards", tmp_path / "b.h5ad")
    assert not (tmp_path / "b.h5ad").exists()
    file.unlink()
    with pytest.raises(cf.errors.CellfeedError, match=r"annotations\.h5"):
        cf.export_h5ad(tmp_path / "shards", tmp_path / "b.h5ad")


def test_the_bytes_are_the_same_however_often_they_are_written(tmp_path):
    annotated(tmp_path / "a.h5ad")
    for name in ("one", "two"):
        cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / name)
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "two", overwrite=True)
    one = (tmp_path / "one" / "annotations.h5").read_bytes()
    assert (tmp_path / "two" / "annotations.g1.h5").read_bytes() == one
    assert not (tmp_path / "two" / "annotations.h5").exists()


REAL = ["anndataR_example_all_kinds", "pbmc68k_reduced_v08", "kang_ifnb_valid_anndata06"]


@pytest.mark.parametrize("name", REAL)
def test_real_files_give_theirs_back(tmp_path, shared_data, name):
    path = shared_data / f"anndata/{name}.h5ad"
    expected = read_anndata(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        cf.export_h5ad(path, tmp_path / "b.h5ad")
    found = read_anndata(tmp_path / "b.h5ad")
    # Of logarithms by scanpy's mark there is a record of our own afterwards.
    ours = {"cellfeed_processing"} if "log1p" in expected.uns else set()
    assert set(found.uns) == set(expected.uns) | ours, name
    for key, value in expected.uns.items():
        if isinstance(value, np.ndarray) and value.dtype.names is None:
            assert found.uns[key].tolist() == value.tolist()
    for key in found.varm:
        np.testing.assert_array_equal(found.varm[key], expected.varm[key])


def test_what_is_broken_without_a_member_stays_behind_whole(tmp_path):
    """A column of old categories has a reference: anndata reads no data frame without it."""
    frame = pd.DataFrame({"c": range(12), "n": range(12)}, index=[str(i) for i in range(12)])
    adata = annotated(tmp_path / "a.h5ad", frame=frame)
    adata.uns = {"of": {"frame": pd.DataFrame({"c": [1], "n": [2]}), "kept": 3}}
    adata.write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        for column in ("varm/frame/c", "uns/of/frame/c"):
            file[column].attrs["categories"] = file["obs"].ref
    for paths in ([tmp_path / "a.h5ad"], [tmp_path / "shards"]):
        with pytest.warns(LeftOutWarning, match="frame, which would be broken without .*frame/c"):
            if paths[0].suffix:
                cf.export_h5ad(paths, tmp_path / "b.h5ad", overwrite=True)
            else:
                cf.convert_to_shards(tmp_path / "a.h5ad", paths[0])
                cf.export_h5ad(paths, tmp_path / "b.h5ad", overwrite=True)
        found = anndata.read_h5ad(tmp_path / "b.h5ad")
        assert set(found.varm) == {"PCs"}
        assert found.uns == {"of": {"kept": 3}}
