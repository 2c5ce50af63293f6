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
    with pytest.raises(InvalidArgumentError, match="log"):
        next(iter(cf.Loader(cf.open(data), cf.Streaming(), 8, transforms=[cf.Log1p()])))


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
    done = cf.open("done.h5ad")[:5].to_adata()
    assert "log1p" in done.uns
    refuses_logarithms(done)
    done.write_h5ad("part.h5ad")
    assert record_in("part.h5ad") == record_in("done.h5ad")
    assert dict(cf.open("counts.h5ad")[:5].to_adata().uns) == {}
    both = cf.open(["counts.h5ad", "done.h5ad"], join="outer")
    assert dict(both[:60].to_adata().uns) == {}
    assert record_of(both[60:].to_adata()) == record_in("done.h5ad")
    assert dict(both[55:65].to_adata().uns) == {}  # of both kinds
    cf.preprocess("counts.h5ad", "kept.h5ad", keep_counts=True)
    assert dict(cf.open("kept.h5ad", layer="counts")[:5].to_adata().uns) == {}


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
    marked = shards[:].to_adata()
    refuses_logarithms(marked)
