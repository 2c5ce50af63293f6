"""preprocess: values and genes are scanpy's; what was done is recorded, and not done twice."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import time

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scanpy as sc
import scipy.sparse
from program import PROGRAM, completed, run
from tiers import fast

import cellfeed as cf
from cellfeed.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidArgumentError,
    NoSuchKeyError,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*will be removed:FutureWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Some cells have zero counts"),
    pytest.mark.filterwarnings("ignore:`n_top_genes` > number of normalized dispersions"),
]


def make_counts(path, n_cells=400, n_genes=600, seed=0, kind="csr", dtype=np.float32, name="gene"):
    """Counts of genes with very different means, some of no cell; cells of three batches."""
    random = np.random.default_rng(seed)
    means = np.exp(random.normal(-1.5, 1.6, n_genes))
    means[::50] = 0
    depth = random.lognormal(0, 0.5, (n_cells, 1))
    batch = random.choice(["b", "a", "c c"], n_cells, p=[0.5, 0.3, 0.2])
    shift = np.where(batch[:, None] == "b", random.lognormal(0, 1, n_genes), 1)
    counts = random.negative_binomial(1, 1 / (1 + means * depth * shift)).astype(dtype)
    counts[3] = 0
    genes = [f"{'mt-' if j % 40 == 7 else ''}{name}{j}" for j in range(n_genes)]
    names = [f"{path.stem}-{i}" for i in range(n_cells)]
    obs = pd.DataFrame({"batch": pd.Categorical(batch)}, index=names)
    x = counts if kind == "dense" else scipy.sparse.csr_matrix(counts)
    x = x.tocsc() if kind == "csc" else x
    anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=genes)).write_h5ad(path)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Files that tests copy before they change them."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "large").mkdir()
    return {
        "small": make_counts(folder / "raw.h5ad"),
        "large": make_counts(folder / "large" / "raw.h5ad", 20_000, 200),
    }


@pytest.fixture
def raw(tmp_path, monkeypatch, made):
    monkeypatch.chdir(tmp_path)
    return shutil.copy(made["small"], tmp_path)


@pytest.fixture(autouse=True)
def equal_genes_keep_their_order(monkeypatch):
    """seurat_v3 of scanpy ranks genes by a sort that leaves the order of equal ones to chance."""
    argsort = np.argsort
    monkeypatch.setattr(np, "argsort", lambda *a, **k: argsort(*a, **{"kind": "stable", **k}))


def by_scanpy(path, n_top_genes=None, flavor="seurat", batch_key=None, min_genes=0, min_cells=0):
    adata = anndata.read_h5ad(path)
    adata.X = scipy.sparse.csr_matrix(adata.X)
    if min_genes:
        sc.pp.filter_cells(adata, min_genes=min_genes)
    adata.layers["counts"] = adata.X.copy()
    sc.pp.normalize_total(adata, target_sum=1e4)
    sc.pp.log1p(adata)
    if min_cells:
        sc.pp.filter_genes(adata, min_cells=min_cells)
    if n_top_genes:
        sc.pp.highly_variable_genes(
            adata, n_top_genes=n_top_genes, flavor=flavor, batch_key=batch_key,
            layer="counts" if flavor == "seurat_v3" else None,
        )  # fmt: skip
        adata = adata[:, adata.var["highly_variable"]].copy()
    return adata


def assert_same(found, expected):
    assert list(found.var_names) == list(expected.var_names)
    assert list(found.obs_names) == list(expected.obs_names)
    assert found.X.dtype == np.float32
    np.testing.assert_allclose(found.X.toarray(), expected.X.toarray(), rtol=1e-6, atol=0)


FLAVORS = ["seurat", "cell_ranger", "seurat_v3"]


@pytest.mark.parametrize(
    ("flavor", "batch_key", "n_top_genes"),
    fast(
        [("seurat", None, 20), ("cell_ranger", None, 150), ("seurat_v3", None, 10_000),
         ("seurat", "batch", 150), ("cell_ranger", "batch", 20), ("seurat_v3", "batch", 1)],
        itertools.product(FLAVORS, [None, "batch"], [1, 20, 150, 10_000]),
    ),
)  # fmt: skip
def test_genes_and_values_are_those_of_scanpy(raw, flavor, batch_key, n_top_genes):
    expected = by_scanpy(raw, n_top_genes, flavor, batch_key, min_genes=30, min_cells=5)
    too_many = pytest.warns(UserWarning, match="10000 highly variable genes were asked for")
    with too_many if n_top_genes > 600 else contextlib.nullcontext():
        made = cf.preprocess(
            raw, "out.h5ad", n_top_genes=n_top_genes, hvg_flavor=flavor, batch_key=batch_key,
            min_genes=30, min_cells=5,
        )  # fmt: skip
    assert_same(anndata.read_h5ad(made), expected)
    assert (made.n_cells, made.n_genes) == expected.shape
    assert (made.n_cells_before, made.n_genes_before) == (400, 600)


def test_fewer_variable_genes_than_were_asked_for_are_told_of(tmp_path):
    raw = make_counts(tmp_path / "raw.h5ad")
    adata = anndata.read_h5ad(raw)
    dense = adata.X.toarray()
    dense[:, 560:] = 0
    adata.X = scipy.sparse.csr_matrix(dense)
    adata.write_h5ad(raw)
    with pytest.warns(UserWarning, match="590 highly variable genes were asked for, and (.*) are"):
        made = cf.preprocess(raw, tmp_path / "o.h5ad", n_top_genes=590, hvg_flavor="cell_ranger")
    assert made.n_genes < 590
    assert made.n_genes == by_scanpy(raw, 590, "cell_ranger").shape[1]


DTYPES = [np.float32, np.int32, np.float64]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    fast(
        [("csr", np.float64), ("csc", np.int32), ("dense", np.float32)],
        itertools.product(["csr", "csc", "dense"], DTYPES),
    ),
)
def test_it_is_the_same_however_the_counts_are_stored(tmp_path, kind, dtype, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = make_counts(tmp_path / "raw.h5ad", kind=kind, dtype=dtype)
    cf.preprocess(raw, "out.h5ad", n_top_genes=100)
    assert_same(anndata.read_h5ad("out.h5ad"), by_scanpy(raw, 100))


@pytest.mark.parametrize("flavor", ["seurat", "seurat_v3"])
def test_real_cells(shared_data, tmp_path, flavor):
    raw = shared_data / "anndata/scp1884.h5ad"
    out = tmp_path / "out.h5ad"
    cf.preprocess(raw, out, n_top_genes=500, min_cells=3, hvg_flavor=flavor)
    assert_same(anndata.read_h5ad(out), by_scanpy(raw, 500, flavor, min_cells=3))


@pytest.mark.parametrize(
    ("n_cells", "n_genes"),
    fast([(40, 3_000), (1_000, 60)], itertools.product([40, 1_000], [60, 3_000])),
)
def test_counts_far_above_the_trend_are_limited_as_by_scanpy(tmp_path, n_cells, n_genes):
    """A few cells hold most of some genes, so that counts are cut where seurat_v3 cuts them."""
    random = np.random.default_rng(n_cells + n_genes)
    counts = random.poisson(np.exp(random.normal(0, 1.5, n_genes)), (n_cells, n_genes))
    counts[random.random(counts.shape) < 2 / n_cells] *= 60
    adata = anndata.AnnData(scipy.sparse.csr_matrix(counts.astype(np.float32)))
    adata.write_h5ad(tmp_path / "raw.h5ad")
    for n_top_genes in (1, 7, n_genes // 3):
        made = cf.preprocess(
            tmp_path / "raw.h5ad", tmp_path / "out", n_top_genes=n_top_genes,
            hvg_flavor="seurat_v3", overwrite=True,
        )  # fmt: skip
        expected = by_scanpy(tmp_path / "raw.h5ad", n_top_genes, "seurat_v3")
        assert list(cf.open(made).var_names) == list(expected.var_names)


def write_alike_counts(path):
    """Batches in which most genes of a mean have one dispersion: divided by 0, others' are inf."""
    random = np.random.default_rng(0)
    counts = np.zeros((120, 601), np.float32)
    for gene, batch in np.ndindex(600, 3):
        cells = 40 * batch + random.permutation(40)[: 1 + (7 * gene + batch) % 30]
        counts[cells, gene] = 1
        if random.random() < 0.3:
            counts[cells[0], gene] = random.integers(2, 6)
    totals = counts.sum(axis=1)
    counts[:, -1] = totals.max() + 5 - totals
    batches = pd.DataFrame({"batch": pd.Categorical(np.repeat(["a", "b", "c"], 40))})
    batches.index = [f"cell{i}" for i in range(120)]
    var = pd.DataFrame(index=[f"g{j:03}" for j in range(601)])
    anndata.AnnData(scipy.sparse.csr_matrix(counts), batches, var).write_h5ad(path)


@pytest.mark.parametrize("n_top_genes", [20, pytest.param(50, marks=pytest.mark.slow), 150])
def test_more_infinite_dispersions_than_genes_are_asked_for(tmp_path, n_top_genes):
    path, one = tmp_path / "raw.h5ad", tmp_path / "one.h5ad"
    write_alike_counts(path)
    how = {"n_top_genes": n_top_genes, "hvg_flavor": "cell_ranger"}
    made = cf.preprocess(path, tmp_path / "out.h5ad", batch_key="batch", **how)
    expected = by_scanpy(path, n_top_genes, "cell_ranger", "batch")
    assert list(anndata.read_h5ad(made).var_names) == list(expected.var_names)
    anndata.read_h5ad(path)[:40].write_h5ad(one)
    expected = by_scanpy(one, n_top_genes, "cell_ranger")
    if expected.n_vars == 0:
        with pytest.raises(InvalidArgumentError, match="no gene is found to vary"):
            cf.preprocess(one, tmp_path / "one", **how)
    else:
        made = cf.open(cf.preprocess(one, tmp_path / "one", **how))
        assert list(made.var_names) == list(expected.var_names)


def test_seurat_v3_alone_leaves_counts_and_needs_them(raw):
    alone = {"normalize": False, "log_transform": False, "hvg_flavor": "seurat_v3"}
    found = anndata.read_h5ad(cf.preprocess(raw, "out.h5ad", n_top_genes=50, **alone))
    expected = by_scanpy(raw, 50, "seurat_v3")
    assert list(found.var_names) == list(expected.var_names)
    np.testing.assert_array_equal(found.X.toarray(), expected.layers["counts"].toarray())
    cf.preprocess(raw, "logs.h5ad")
    with pytest.raises(InvalidArgumentError, match="taken for the counts of seurat_v3"):
        cf.preprocess("logs.h5ad", "no", n_top_genes=5, **alone)
    adata = anndata.read_h5ad("logs.h5ad")
    adata.uns.clear()
    adata.write_h5ad("bare.h5ad")
    with pytest.raises(InvalidArgumentError, match="a fraction is no count"):
        cf.preprocess("bare.h5ad", "no", n_top_genes=5, **alone)
    with pytest.raises(InvalidArgumentError, match="have too few different means"):
        cf.preprocess(cf.open(raw, genes=["gene1", "gene2", "gene3"]), "no", n_top_genes=2, **alone)
    few = anndata.read_h5ad(raw)
    few.obs["batch"] = pd.Categorical(["few", "few", *["many"] * 398])
    few.write_h5ad("few.h5ad")
    with pytest.raises(InvalidArgumentError, match="in batch 'few' have too few"):
        cf.preprocess("few.h5ad", "no", n_top_genes=5, batch_key="batch", **alone)
    assert not os.path.exists("no")


@pytest.mark.parametrize(
    ("dtype", "output", "kind"),
    fast(
        [(np.float32, "out.h5ad", "csc"), (np.int32, "shards", "csc"),
         (np.float64, "shards", "csr"), (np.float32, "out.h5ad", "csr")],
        itertools.product(DTYPES, ["out.h5ad", "shards"], ["csr", "csc"]),
    ),
)  # fmt: skip
def test_counts_are_kept_beside_what_became_of_them(tmp_path, dtype, output, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    raw = make_counts(tmp_path / "raw.h5ad", dtype=dtype, kind=kind)
    cf.preprocess(
        raw, output, keep_counts=True, n_top_genes=100, min_genes=30, min_cells=3, shard_size=90
    )
    if output == "shards":
        cf.export_h5ad(output, "back.h5ad")
        assert run("verify", "shards").startswith("every byte")
    found = anndata.read_h5ad("back.h5ad" if output == "shards" else output)
    assert_same(found, by_scanpy(raw, 100, min_genes=30, min_cells=3))
    assert list(found.layers) == ["counts"]
    kept = anndata.read_h5ad(raw)[found.obs_names, found.var_names].X.toarray()
    np.testing.assert_array_equal(found.layers["counts"].toarray(), kept)
    cells = cf.open(output, layer="counts")
    np.testing.assert_array_equal(cells[:].x.toarray(), kept)
    # The layer is not processed: it can be normalised, and X cannot.
    cf.Loader(cells, cf.Streaming(), 10, transforms=[cf.NormalizeTotal(1e4)])
    with pytest.raises(InvalidArgumentError, match="already"):
        cf.Loader(cf.open(output), cf.Streaming(), 10, transforms=[cf.NormalizeTotal(1e4)])


def test_what_is_no_count_is_not_kept_as_one(raw):
    with pytest.raises(InvalidArgumentError, match="no step changes any"):
        cf.preprocess(
            raw, "out", normalize=False, log_transform=False, min_cells=3, keep_counts=True
        )
    cf.preprocess(raw, "normalised", log_transform=False)
    for force in (False, True):
        with pytest.raises(InvalidArgumentError, match="kept as counts"):
            cf.preprocess("normalised", "out", normalize=False, keep_counts=True, force=force)
    assert not os.path.exists("out")


def test_genes_named_by_a_column_of_var(raw):
    adata = anndata.read_h5ad(raw)
    symbols = list(adata.var_names)
    adata.var_names = [f"ENSG{i:011}" for i in range(adata.n_vars)]
    adata.var["symbol"] = symbols
    adata.write_h5ad("ids.h5ad")
    options = {"n_top_genes": 60, "max_mito_share": 0.04, "min_cells": 3}
    expected = anndata.read_h5ad(cf.preprocess(raw, "out.h5ad", **options))
    found = anndata.read_h5ad(
        cf.preprocess(cf.open("ids.h5ad", var_key="symbol"), "named.h5ad", **options)
    )
    assert_same(found, expected)
    of_symbol = dict(zip(symbols, adata.var_names, strict=True))
    assert list(found.var["var_names"]) == [of_symbol[name] for name in found.var_names]
    with pytest.raises(InvalidArgumentError, match="no gene's name begins with"):
        cf.preprocess("ids.h5ad", "no", **options)
    words = ["--hvg", 60, "--max-mito", 0.04, "--min-cells", 3]
    run("preprocess", "--input", "ids.h5ad", "--output", "p", "--var-key", "symbol", *words)
    assert list(cf.open("p").var_names) == list(expected.var_names)


def test_shards_hold_what_the_file_holds(raw):
    options = {"n_top_genes": 100, "min_genes": 30, "min_cells": 3}
    cf.preprocess(raw, "out.h5ad", **options)
    shards = cf.preprocess(raw, "shards", shard_size=64, **options)
    expected = anndata.read_h5ad("out.h5ad")
    cells = cf.open(shards)
    assert shards.n_shards == 7 and list(cells.var_names) == list(expected.var_names)
    np.testing.assert_array_equal(cells[:].x.toarray(), expected.X.toarray())
    assert run("verify", "shards").startswith("every byte")
    # Cells say which row of the file they were.
    run("export", "shards", "--output", "back.h5ad", "--keep-source-columns")
    back = anndata.read_h5ad("back.h5ad")
    source = anndata.read_h5ad(raw)
    assert list(source.obs_names[back.obs["_source_row"]]) == list(back.obs_names)
    assert json.loads(back.uns["cellfeed_processing"][0]) == shards.processing


def test_the_result_does_not_depend_on_threads_and_memory(raw):
    one = cf.preprocess(raw, "one", n_top_genes=100, threads=1, shard_size=100)
    other = cf.preprocess(
        raw, "other", n_top_genes=100, threads=3, shard_size=100, memory_budget="32MB"
    )
    np.testing.assert_array_equal(cf.open(one)[:].x.toarray(), cf.open(other)[:].x.toarray())
    for name in sorted(p for p in os.listdir("one") if p.endswith(".cells")):
        with open(f"one/{name}", "rb") as a, open(f"other/{name}", "rb") as b:
            assert a.read() == b.read()


def test_several_files_are_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = [make_counts(tmp_path / f"{k}.h5ad", 200 + k, seed=k) for k in range(3)]
    whole = anndata.concat([anndata.read_h5ad(part) for part in parts])
    whole.write_h5ad("whole.h5ad")
    cf.preprocess(parts, "out.h5ad", n_top_genes=80, min_genes=50)
    assert_same(anndata.read_h5ad("out.h5ad"), by_scanpy("whole.h5ad", 80, min_genes=50))


def test_files_with_other_genes_are_joined(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = make_counts(tmp_path / "one.h5ad", 200, 300)
    other = make_counts(tmp_path / "other.h5ad", 100, 200, seed=1, name="other")
    joined = anndata.concat([anndata.read_h5ad(one), anndata.read_h5ad(other)], join="outer",
                            fill_value=0)  # fmt: skip
    joined = joined[:, sorted(joined.var_names)].copy()
    joined.write_h5ad("joined.h5ad")
    cf.preprocess(cf.open([one, other], join="outer"), "out.h5ad", n_top_genes=60)
    assert_same(anndata.read_h5ad("out.h5ad"), by_scanpy("joined.h5ad", 60))
    with pytest.raises(InvalidArgumentError, match="join"):
        cf.preprocess([one, other], "no.h5ad")


def test_cells_with_many_mitochondrial_counts_are_left_out(raw):
    adata = anndata.read_h5ad(raw)
    is_mito = adata.var_names.str.startswith("mt-")
    total = np.asarray(adata.X.sum(1)).ravel()
    share = np.asarray(adata.X[:, is_mito].sum(1)).ravel() / np.maximum(total, 1)
    limit = float(np.median(share))
    cf.preprocess(raw, "out.h5ad", max_mito_share=limit)
    assert list(anndata.read_h5ad("out.h5ad").obs_names) == list(adata.obs_names[share <= limit])
    with pytest.raises(InvalidArgumentError, match="no gene's name begins with 'MITO'"):
        cf.preprocess(raw, "no.h5ad", max_mito_share=0.1, mito_prefix="MITO")
    for share in (-0.1, 5, float("nan")):
        with pytest.raises(InvalidArgumentError, match="max_mito_share"):
            cf.preprocess(raw, "no.h5ad", max_mito_share=share)


def test_filters_alone_leave_values_as_they_are(raw):
    made = cf.preprocess(raw, "out", normalize=False, log_transform=False, min_cells=100)
    adata = anndata.read_h5ad(raw)
    sc.pp.filter_genes(adata, min_cells=100)
    np.testing.assert_array_equal(cf.open(made)[:].x.toarray(), adata.X.toarray())
    # The totals of cells are those of all genes, for NormalizeTotal.
    loader = cf.Loader(
        cf.open(made), cf.Streaming(), 400, transforms=[cf.NormalizeTotal(1e4)], seed=0
    )
    (batch,) = list(loader)
    total = np.asarray(anndata.read_h5ad(raw).X.sum(1))
    expected = adata.X.toarray() * 1e4 / np.maximum(total, 1)
    np.testing.assert_allclose(batch.x.toarray(), expected, rtol=1e-6)


def test_what_was_done_is_recorded_and_not_done_twice(raw):
    made = cf.preprocess(raw, "out.h5ad", n_top_genes=50)
    assert made.processing == {
        "normalize_total": 1e4, "log1p": True,
        "highly_variable_genes": {"flavor": "seurat", "n_top_genes": 50},
    }  # fmt: skip
    adata = anndata.read_h5ad("out.h5ad")
    assert json.loads(adata.uns["cellfeed_processing"][0]) == made.processing
    assert "log1p" in adata.uns
    with pytest.raises(InvalidArgumentError, match=r"out\.h5ad: its values are log-transformed"):
        cf.preprocess("out.h5ad", "twice.h5ad")
    with pytest.raises(InvalidArgumentError, match="already"):
        cf.preprocess("out.h5ad", "twice.h5ad", log_transform=False)
    # anndata keeps the record.
    adata.write_h5ad("again.h5ad")
    with pytest.raises(InvalidArgumentError, match="recorded"):
        cf.preprocess("again.h5ad", "twice.h5ad")
    # Shards and what is exported of them keep it too.
    cf.convert_to_shards("again.h5ad", "shards")
    cf.export_h5ad("shards", "exported.h5ad")
    for path in ("shards", "exported.h5ad"):
        with pytest.raises(InvalidArgumentError, match="already"):
            cf.preprocess(path, "twice.h5ad")
        for transform in (cf.NormalizeTotal(1e4), cf.Log1p()):
            with pytest.raises(InvalidArgumentError, match=r"leave .* out, or force it"):
                cf.Loader(cf.open(path), cf.Streaming(), 10, transforms=[transform])
    forced = [cf.NormalizeTotal(1e4, force=True), cf.Log1p(force=True)]
    assert len(list(cf.Loader(cf.open("shards"), cf.Streaming(), 400, transforms=forced))) == 1
    cf.preprocess("shards", "twice.h5ad", force=True)
    # What does not change values may be done later, and finds the same genes.
    more = cf.preprocess(raw, "all.h5ad")
    some = cf.preprocess(more, "some.h5ad", normalize=False, log_transform=False, n_top_genes=50)
    assert list(anndata.read_h5ad(some).var_names) == list(adata.var_names)
    assert some.processing == made.processing


def test_what_scanpy_logarithmised_is_not_logarithmised_again(raw):
    by_scanpy(raw).write_h5ad("scanpy.h5ad")
    with pytest.raises(InvalidArgumentError, match="in uns/log1p"):
        cf.preprocess("scanpy.h5ad", "out.h5ad")
    # Without its mark, by its values.
    adata = by_scanpy(raw)
    del adata.uns["log1p"]
    adata.write_h5ad("bare.h5ad")
    with pytest.raises(InvalidArgumentError, match=r'a fraction is.*with layer="counts"'):
        cf.preprocess("bare.h5ad", "out.h5ad")
    with pytest.warns(UserWarning, match="holds layers/counts too, which is left out"):
        made = cf.preprocess(
            "scanpy.h5ad", "hvg.h5ad", normalize=False, log_transform=False, n_top_genes=40
        )
    assert list(anndata.read_h5ad(made).var_names) == list(by_scanpy(raw, 40).var_names)
    assert not os.path.exists("out.h5ad")


@pytest.mark.parametrize(
    ("value", "what"),
    [(-1, "a negative value is no count"), (np.nan, "values must be finite"),
     (np.inf, "values must be finite"), (0.5, "a fraction is no count")],
)  # fmt: skip
@pytest.mark.parametrize("output", ["out.h5ad", "shards"])
def test_values_that_are_no_counts_are_named_before_anything_is_written(raw, value, what, output):
    adata = anndata.read_h5ad(raw)
    adata.X = adata.X.toarray()
    adata.X[77, 5] = value
    adata.write_h5ad("bad.h5ad")
    with pytest.raises(InvalidArgumentError, match=f"cell 77, gene 'gene5' holds .*{what}"):
        cf.preprocess("bad.h5ad", output)
    assert not os.path.exists(output)


def test_data_that_leaves_nothing(raw, tmp_path):
    with pytest.raises(InvalidArgumentError, match="no cell of 400 passes the filters"):
        cf.preprocess(raw, "out", min_genes=601)
    with pytest.raises(InvalidArgumentError, match="no gene is in 401 of the cells"):
        cf.preprocess(raw, "out", min_cells=401)
    adata = anndata.read_h5ad(raw)
    adata[:1].write_h5ad("one.h5ad")
    with pytest.raises(InvalidArgumentError, match="two cells at least"):
        cf.preprocess("one.h5ad", "out", n_top_genes=5)
    assert cf.preprocess("one.h5ad", "one_cell.h5ad").n_cells == 1
    adata[:0].write_h5ad("none.h5ad")
    with pytest.raises(InvalidArgumentError, match="holds no cells"):
        cf.preprocess("none.h5ad", "out")
    adata.X = scipy.sparse.csr_matrix(adata.shape, dtype=np.float32)
    adata.write_h5ad("zero.h5ad")
    with pytest.raises(InvalidArgumentError, match="no gene is found to vary"):
        cf.preprocess("zero.h5ad", "out", n_top_genes=5)
    with pytest.raises(InvalidArgumentError, match="too many genes have the same"):
        genes = ["gene0", "gene50", "gene100", "gene150", "gene1"]
        cf.preprocess(cf.open(raw, genes=genes), "out", n_top_genes=5, hvg_flavor="cell_ranger")
    (tmp_path / "empty.h5ad").write_bytes(b"")
    with pytest.raises(OSError, match=r"empty\.h5ad"):
        cf.preprocess("empty.h5ad", "out")
    assert not os.path.exists("out")


@pytest.mark.parametrize("output", ["out", "out.h5ad"])
def test_cells_that_were_chosen(raw, output):
    cells = cf.open(raw)
    rows = np.random.default_rng(1).permutation(400)[:250]
    for number, some in enumerate(
        [cells.filter("batch == 'b'"), cells[rows], cells[5:300, cells.var_names[::2]]]
    ):
        adata = anndata.read_h5ad(raw)[some.obs_names, some.var_names].copy()
        adata.write_h5ad(f"some{number}.h5ad")
        how = {"n_top_genes": 40, "min_genes": 20, "min_cells": 5, "overwrite": True}
        made = cf.open(cf.preprocess(some, output, **how, keep_counts=True), layers=["counts"])
        # Totals are of all genes of the file, also where some were chosen.
        if some.n_vars == cells.n_vars:
            expected = by_scanpy(f"some{number}.h5ad", 40, min_genes=20, min_cells=5)
            assert_same(made[:].to_anndata(), expected)
        kept = adata[made.obs_names, made.var_names].X.toarray()
        np.testing.assert_array_equal(made.read(slice(None)).layers["counts"].toarray(), kept)
    plan = cf.cluster.plan_preprocess(cells.filter("batch == 'b'"), "planned", n_top_genes=40)
    with plan:
        made = cf.cluster.finish_shards(plan, cf.cluster.write_shards(plan, plan.missing))
    again = cf.preprocess(cells.filter("batch == 'b'"), "again", n_top_genes=40)
    found, expected = cf.open(made).read(slice(None)), cf.open(again).read(slice(None))
    np.testing.assert_array_equal(found.x.toarray(), expected.x.toarray())
    assert cf.info("planned")["selection"]["steps"] == ["filter: batch == 'b'"]


def test_layers_that_cells_were_opened_with_are_left_out(raw):
    adata = anndata.read_h5ad(raw)
    adata.layers["twice"] = adata.X * 2
    adata.write_h5ad("layers.h5ad")
    with pytest.warns(UserWarning, match="opened with layers/twice, which are left out"):
        cf.preprocess(cf.open("layers.h5ad", layers=["twice"]), "out")


def test_batches_that_are_not_known(raw):
    with pytest.raises(NoSuchKeyError, match="did you mean 'batch'"):
        cf.preprocess(raw, "out", n_top_genes=5, batch_key="batsh")
    adata = anndata.read_h5ad(raw)
    adata.obs["number"] = np.arange(400.0)
    adata.obs["partly"] = pd.Categorical([None, *["a"] * 399])
    adata.obs["single"] = pd.Categorical(["x", *["a"] * 399])
    adata.write_h5ad("labels.h5ad")
    for key, what in [("number", "numbers, not labels"), ("partly", "cell 0 has no 'partly'"),
                      ("single", "'x' has 1")]:  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=what):
            cf.preprocess("labels.h5ad", "out", n_top_genes=5, batch_key=key)
    with pytest.raises(InvalidArgumentError, match="batch_key is of highly variable genes"):
        cf.preprocess(raw, "out", batch_key="batch")


def test_what_is_not_there_is_refused_by_name(raw):
    with pytest.raises(InvalidArgumentError, match="hvg_flavor"):
        cf.preprocess(raw, "out", n_top_genes=5, hvg_flavor="seurat_v4")
    with pytest.raises(InvalidArgumentError, match="ask for the logarithm too"):
        cf.preprocess(raw, "out", n_top_genes=5, log_transform=False)
    with pytest.raises(InvalidArgumentError, match="nothing to do"):
        cf.preprocess(raw, "out", normalize=False, log_transform=False)
    for name, value in [("target_sum", 0), ("target_sum", float("nan")), ("min_genes", -1),
                        ("n_top_genes", 0)]:  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=name):
            cf.preprocess(raw, "out", **{name: value})


def test_an_output_that_is_there_is_kept_unless_it_is_to_be_replaced(raw):
    for output in ("out.h5ad", "shards"):
        cf.preprocess(raw, output, n_top_genes=10)
        with pytest.raises(AlreadyExistsError, match="overwrite"):
            cf.preprocess(raw, output, n_top_genes=20)
        assert cf.open(output).n_vars == 10
        cf.preprocess(raw, output, n_top_genes=20, overwrite=True)
        assert cf.open(output).n_vars == 20
    with pytest.raises(InvalidArgumentError, match="nothing to resume"):
        cf.preprocess(raw, "other.h5ad", resume=True)
    with pytest.raises(InvalidArgumentError, match="is an input, and would be overwritten"):
        cf.preprocess(raw, raw, overwrite=True)
    assert "log1p" not in anndata.read_h5ad(raw).uns


@pytest.mark.skipif(not PROGRAM, reason="the cellfeed program is not installed beside this Python")
class TestProgram:
    def test_options_come_before_settings(self, raw, tmp_path):
        (tmp_path / "c.yaml").write_text(
            "data: {paths: raw.h5ad, preprocessing: {target_sum: 100, log_transform: false}}"
        )
        found = json.loads(run("preprocess", "--config", "c.yaml", "--output", "a", "--json"))
        assert found["processing"] == {"normalize_total": 100}
        found = json.loads(
            run("preprocess", "--config", "c.yaml", "--output", "b.h5ad", "--target-sum", 50,
                "--min-cells", 3, "--json")
        )  # fmt: skip
        assert found["processing"] == {"normalize_total": 50, "min_cells": 3}

    def test_shard_follows_the_preprocessing_of_a_configuration(self, raw, tmp_path):
        (tmp_path / "c.yaml").write_text(
            "data: {paths: raw.h5ad, vocab: {n_genes: 200}, preprocessing: {n_top_genes: 30}}"
        )
        run("shard", "--config", "c.yaml", "--output-dir", "shards")
        assert cf.open("shards").n_vars == 30
        assert cf.info("shards")["processing"]["log1p"] is True
        (tmp_path / "c.yaml").write_text(
            "data: {paths: raw.h5ad, preprocessing: {normalize: false, log_transform: false}}"
        )
        run("shard", "--config", "c.yaml", "--output-dir", "counts")
        assert cf.info("counts")["processing"] == {}

    def test_wrong_usage(self, raw):
        assert "--output is required" in run("preprocess", "--input", raw, code=2)
        assert "--input is required" in run("preprocess", "--output", "x", code=2)
        assert "from 0 to 1" in run(
            "preprocess", "--input", raw, "--output", "x", "--max-mito", 5, code=2
        )
        assert "seurat_v4" in run(
            "preprocess", "--input", raw, "--output", "x", "--hvg", 5, "--hvg-flavor",
            "seurat_v4", code=2,
        )  # fmt: skip

    @pytest.mark.parametrize("output", [pytest.param("out.h5ad", marks=pytest.mark.slow), "shards"])
    def test_a_killed_run_leaves_nothing_that_looks_whole(
        self, tmp_path, output, monkeypatch, made
    ):
        monkeypatch.chdir(tmp_path)
        raw = shutil.copy(made["large"], tmp_path)
        for delay in (0.02, 0.1, 0.2, 0.4):
            child = subprocess.Popen(
                [PROGRAM, "preprocess", "--input", raw, "--output", output, "--shard-size", "500",
                 "--threads", "1", "--quiet", "--overwrite"],
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
            time.sleep(delay)
            child.send_signal(signal.SIGKILL)
            child.wait()
            if os.path.exists(output):  # whole, or shards that say what to do
                try:
                    assert cf.open(output).n_obs == 20_000
                except cf.errors.CellfeedError as error:
                    assert output == "shards", error
        run("preprocess", "--input", raw, "--output", output, "--overwrite")
        assert cf.open(output).n_obs == 20_000
        assert {p.name for p in tmp_path.iterdir()} == {"raw.h5ad", output}

    def test_two_writers_of_one_output(self, tmp_path, monkeypatch, made):
        monkeypatch.chdir(tmp_path)
        raw = shutil.copy(made["large"], tmp_path)
        command = [PROGRAM, "preprocess", "--input", raw, "--output", "shards", "--quiet"]
        children = [subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
                    for _ in range(2)]  # fmt: skip
        errors = [child.communicate()[1].decode() for child in children]
        codes = sorted(child.returncode for child in children)
        assert codes == [0, 1], errors
        assert "shards" in "".join(errors)
        assert run("verify", "shards").startswith("every byte")
        assert cf.open("shards").n_obs == 20_000


@pytest.mark.parametrize(
    "record",
    ['{"a":' + "[" * 200_000 + "]" * 200_000 + "}", '{"a":' + "[" * 40 + "]" * 40 + "}", "3", "["],
)
def test_a_record_that_is_none_is_refused(tmp_path, record):
    adata = anndata.AnnData(scipy.sparse.random(20, 5, 0.5, format="csr", dtype=np.float32))
    adata.write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        uns = file.require_group("uns")
        text = np.array([record], dtype=object)
        uns.create_dataset("cellfeed_processing", data=text, dtype=h5py.string_dtype())
    cells = cf.open(tmp_path / "a.h5ad")
    with pytest.raises(cf.errors.CorruptDataError, match=r"a\.h5ad"):
        cf.Loader(cells, cf.Streaming(), 10, transforms=[cf.Log1p()])
    with pytest.raises(cf.errors.CorruptDataError, match=r"a\.h5ad"):
        cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "shards")


def test_what_is_marked_as_logarithms_is_not_logarithmised_by_a_loader(raw):
    adata = by_scanpy(raw)
    adata.write_h5ad("scanpy.h5ad")
    cf.convert_to_shards("scanpy.h5ad", "of_it")
    made = cf.preprocess(raw, "made.h5ad")
    for given in ("scanpy.h5ad", adata, "of_it", anndata.read_h5ad(made), [adata, adata.copy()]):
        cells = cf.open(given)
        for transform in (cf.Log1p(), cf.NormalizeTotal(1e4)):
            with pytest.raises(InvalidArgumentError, match="log-transformed already"):
                cf.Loader(cells, cf.Streaming(), 10, transforms=[transform])
        assert len(list(cf.Loader(cells, cf.Streaming(), 10, transforms=[cf.Log1p(force=True)])))
    with pytest.raises(InvalidArgumentError, match="log-transformed"):
        cf.preprocess("of_it", "out.h5ad", normalize=False)
    # Counts in a layer are not what the mark is of.
    adata.layers["counts"] = anndata.read_h5ad(raw).X
    cells = cf.open(adata, layer="counts")
    assert len(list(cf.Loader(cells, cf.Streaming(), 10, transforms=[cf.Log1p()])))
    adata.uns["cellfeed_processing"] = {"log1p": True}
    with pytest.raises(CorruptDataError, match="must be one text"):
        cf.open(adata)


@pytest.mark.filterwarnings("ignore:Writing zarr v2")
def test_what_an_input_holds_beside_its_matrix_is_named(raw, tmp_path):
    adata = anndata.read_h5ad(raw)
    adata.layers["spliced"] = adata.X.copy()
    adata.obsm["X_pca"] = np.ones((adata.n_obs, 2))
    adata.write_h5ad(tmp_path / "a.h5ad")
    adata.write_zarr(tmp_path / "b.zarr")
    more = "holds layers/spliced, obsm/X_pca too, which are left out"
    with pytest.warns(UserWarning, match=f"a.h5ad {more}; so do 1 more of the inputs"):
        cf.preprocess([tmp_path / "a.h5ad", tmp_path / "b.zarr", raw], tmp_path / "o.h5ad")
    with pytest.warns(UserWarning, match="holds X, obsm/X_pca too, which are left out"):
        cf.preprocess(cf.open(tmp_path / "a.h5ad", layer="spliced"), tmp_path / "spliced")
    cf.convert_to_shards(cf.open(tmp_path / "a.h5ad", layers=["spliced"]), tmp_path / "both")
    with pytest.warns(UserWarning, match="both holds layers/spliced too, which is left out"):
        cf.preprocess(tmp_path / "both", tmp_path / "o2.h5ad")
    done = completed("preprocess", "--input", "a.h5ad", "--output", tmp_path / "o3.h5ad")
    assert more in done.stdout
