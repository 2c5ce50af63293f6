"""What was done to values goes along with them, and logarithms of another base are told apart."""

import json

import anndata
import numpy as np
import pandas as pd
import pytest
import scanpy as sc
import scipy.sparse

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError


@pytest.fixture
def counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).poisson(2.0, (60, 30)).astype(np.float32)
    obs = pd.DataFrame(index=[f"c{i}" for i in range(60)])
    adata = anndata.AnnData(scipy.sparse.csr_matrix(x), obs)
    adata.write_h5ad("counts.h5ad")
    return adata


def record_of(adata):
    return json.loads(adata.uns.get("cellfeed_processing", ["{}"])[0])


def record_in(path):
    return record_of(anndata.read_h5ad(path))


def refuses_logarithms(data):
    refuses_logarithms_of(cf.open(data))


def refuses_logarithms_of(cells):
    with pytest.raises(InvalidArgumentError, match="log"):
        next(iter(cf.Loader(cells, cf.Streaming(), 8, transforms=[cf.Log1p()])))


def test_simulated_cells_are_processed_as_those_they_are_like(counts):
    cf.preprocess("counts.h5ad", "done.h5ad")
    cf.simulate("done.h5ad", 20, "more.h5ad")
    assert record_in("more.h5ad") == record_in("done.h5ad") != {}
    assert "log1p" in anndata.read_h5ad("more.h5ad").uns
    refuses_logarithms("more.h5ad")
    cf.simulate("counts.h5ad", 20, "plain.h5ad")
    assert record_in("plain.h5ad") == {}


def test_an_anndata_of_a_view_says_what_was_done(counts):
    cf.preprocess("counts.h5ad", "done.h5ad")
    done = cf.open("done.h5ad")[:5].to_anndata()
    assert "log1p" in done.uns
    refuses_logarithms(done)
    done.write_h5ad("part.h5ad")
    assert record_in("part.h5ad") == record_in("done.h5ad")
    assert dict(cf.open("counts.h5ad")[:5].to_anndata().uns) == {}
    both = cf.open(["counts.h5ad", "done.h5ad"], join="outer")
    assert dict(both[:60].to_anndata().uns) == {}
    assert record_of(both[60:].to_anndata()) == record_in("done.h5ad")
    cf.preprocess("counts.h5ad", "kept.h5ad", keep_counts=True)
    assert dict(cf.open("kept.h5ad", layer="counts")[:5].to_anndata().uns) == {}


@pytest.mark.parametrize("base", [None, 2, 10.0])
def test_logarithms_of_another_base_are_not_natural_ones(counts, base):
    sc.pp.log1p(counts, base=base)
    counts.write_h5ad("log.h5ad")
    other = anndata.read_h5ad("counts.h5ad")
    sc.pp.log1p(other)
    other.write_h5ad("natural.h5ad")
    steps = {"normalize": False, "log_transform": False}
    for data in ("log.h5ad", counts):
        refuses_logarithms(data)
        assert len(cf.open(data)) == 60
    if base is None:
        assert cf.info(cf.convert_to_shards(["log.h5ad", "natural.h5ad"], "both"))[
            "processing"
        ] == {"log1p": True}
        cf.preprocess("log.h5ad", "chosen.h5ad", n_top_genes=10, **steps)
        return
    with pytest.raises(InvalidArgumentError, match="processed differently"):
        cf.convert_to_shards(["log.h5ad", "natural.h5ad"], "both")
    with pytest.raises(InvalidArgumentError, match="by another base than e"):
        cf.preprocess("log.h5ad", "chosen.h5ad", n_top_genes=10, **steps)
    shards = cf.open(cf.convert_to_shards("log.h5ad", "shards"))
    assert cf.info("shards")["processing"] == {"log1p": "of the base in uns/log1p"}
    refuses_logarithms("shards")
    np.testing.assert_array_equal(shards[:].X.toarray(), counts.X.toarray())
    marked = shards[:].to_anndata()
    refuses_logarithms(marked)


@pytest.fixture
def two_kinds(counts):
    """Counts, and logarithms as scanpy makes them."""
    done = counts.copy()
    sc.pp.log1p(done)
    done.obs_names = [f"d{i}" for i in range(60)]
    done.write_h5ad("log.h5ad")
    return ["counts.h5ad", "log.h5ad"], np.vstack([counts.X.toarray(), done.X.toarray()])


def test_values_of_two_kinds_are_mixed_only_where_that_is_asked_for(two_kinds):
    files, expected = two_kinds
    shards = cf.convert_to_shards("counts.h5ad", "shards")
    takes_values = {
        "loader": lambda: cf.Loader(cf.open(files), cf.Streaming(), 8),
        "in memory": lambda: cf.Loader(
            cf.open([files[0], anndata.read_h5ad(files[1])]), cf.Streaming(), 8
        ),
        "rows": lambda: cf.open(files).read([0, 70]),
        "beside": lambda: cf.open(files, layer="counts", layers=["X"]).read([0]),
        "view": lambda: cf.open(files)[50:70].X,
        "anndata": lambda: cf.open(files)[:].to_anndata(),
        "mapped": lambda: cf.MappedCollection(files)[0],
        "census": lambda: cf.census.get_anndata(cf.open(files), X_name="X"),
        "scdataset": lambda: next(iter(cf.scDataset(cf.open(files), cf.Streaming(), 8))),
        "axis": lambda: list(cf.open(files).iterate_axis(7)),
        "shards": lambda: cf.convert_to_shards(files, "both"),
        "shards of cells": lambda: cf.convert_to_shards(cf.open(files), "both"),
        "export": lambda: cf.export_h5ad(files, "both.h5ad"),
        "preprocess": lambda: cf.preprocess(
            files, "both.h5ad", normalize=False, log_transform=False, n_top_genes=9
        ),
        "append": lambda: cf.append_to_shards("log.h5ad", shards),
    }
    for adata in map(anndata.read_h5ad, files):
        adata.layers["counts"] = adata.X
        adata.write_h5ad(files[adata.obs_names[0] == "d0"])
    for name, take in takes_values.items():
        with pytest.raises(InvalidArgumentError, match="would be mixed"):
            take()
            pytest.fail(f"{name} mixed them")
    cells = cf.open(files)
    assert len(cells.obs) == 120 and len(cells.filter(np.arange(120) >= 60)[:].X.toarray()) == 60
    np.testing.assert_array_equal(cf.open(files, layer="counts")[:].X.toarray(), expected)


def test_mixed_values_stay_known_as_mixed(two_kinds):
    files, expected = two_kinds
    cells = cf.open(files, mixed_processing="allow")
    np.testing.assert_array_equal(cells[:].X.toarray(), expected)
    refuses_logarithms_of(cells)
    cf.convert_to_shards(cells, "shards")
    cf.export_h5ad(cells, "both.h5ad")
    cells[:].to_anndata().write_h5ad("view.h5ad")
    grown = cf.convert_to_shards(files[1], "grown")
    with pytest.warns(UserWarning, match="uns and varm were those of its one source"):
        cf.append_to_shards(cf.open(files[0], mixed_processing="allow"), grown)
    mapped = cf.MappedCollection(files, mixed_processing="allow")
    np.testing.assert_array_equal(np.stack([mapped[i]["X"] for i in range(120)]), expected)
    assert json.loads(cf.open(grown)._core.processing) == {"mixed": [{"log1p": True}, {}]}
    for written in ("shards", "both.h5ad", "view.h5ad"):
        mixed = cf.open(written)
        np.testing.assert_array_equal(mixed[:].X.toarray(), expected)
        refuses_logarithms_of(mixed)
        assert json.loads(mixed._core.processing) == {"mixed": [{"log1p": True}, {}]}


def test_steps_that_change_no_values_may_differ(counts):
    for number in (0, 1):
        cf.preprocess("counts.h5ad", f"{number}.h5ad", min_genes=number)
    made = cf.convert_to_shards(["0.h5ad", "1.h5ad"], "shards")
    assert cf.info(made)["processing"] == {"log1p": True, "normalize_total": 1e4}
