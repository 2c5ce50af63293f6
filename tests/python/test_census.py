"""`cf.census.get_anndata` against slices that anndata makes."""

import inspect

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

import cellfeed as cf
from cellfeed.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
    OutOfRangeError,
    UnsupportedError,
)


@pytest.fixture(scope="module")
def adata() -> anndata.AnnData:
    random = np.random.default_rng(0)
    obs = pd.DataFrame(
        {
            "tissue": pd.Categorical(random.choice(["lung", "liver"], 60)),
            "n_counts": random.integers(0, 100, 60),
        },
        index=[f"cell{i}" for i in range(60)],
    )
    var = pd.DataFrame(
        {
            "biotype": pd.Categorical(random.choice(["coding", "lncRNA"], 15)),
            "length": random.integers(100, 900, 15),
            "ensembl": [f"ENSG{i}" for i in range(15)],
        },
        index=[f"gene{i}" for i in range(15)],
    )
    x = scipy.sparse.csr_matrix(random.poisson(0.6, (60, 15)).astype(np.float32))
    adata = anndata.AnnData(x, obs=obs, var=var)
    adata.layers["normalized"] = (x / 4).astype(np.float32)
    adata.obsm["X_pca"] = random.normal(size=(60, 3)).astype(np.float32)
    adata.raw = anndata.AnnData(scipy.sparse.hstack([x, x], format="csr"), obs=obs[[]])
    return adata


@pytest.fixture(scope="module")
def cells(adata, tmp_path_factory):
    path = tmp_path_factory.mktemp("census") / "a.h5ad"
    adata.write_h5ad(path)
    return cf.open(path, layers=["normalized"], obsm=["X_pca"])


CASES = [
    ({}, lambda a: a),
    (dict(obs_value_filter="tissue == 'lung' and n_counts > 30"),
     lambda a: a[(a.obs.tissue == "lung") & (a.obs.n_counts > 30)]),
    (dict(var_value_filter="biotype == 'coding' and length < 600"),
     lambda a: a[:, (a.var.biotype == "coding") & (a.var.length < 600)]),
    (dict(var_value_filter="feature_id in ['gene3', 'gene1']", obs_coords=[5, 2, 9]),
     lambda a: a[[2, 5, 9], ["gene1", "gene3"]]),
    (dict(var_coords=slice(3, 9), obs_value_filter="n_counts >= 50"),
     lambda a: a[a.obs.n_counts >= 50, 3:10]),
    (dict(obs_coords=slice(0, 9), var_coords=4), lambda a: a[:10, [4]]),
    (dict(obs_coords=slice(50, None), obs_value_filter="n_counts >= 20"),
     lambda a: a[50:][a.obs.n_counts.iloc[50:] >= 20]),
    (dict(obs_coords=slice(None, 3), var_coords=slice(12, 500)), lambda a: a[:4, 12:]),
    (dict(obs_coords=pa.array([7, 1, 7]), var_coords=[9, 2, 9]), lambda a: a[[1, 7], [2, 9]]),
    (dict(var_value_filter="soma_joinid in [2, 11] or feature_name == 'gene5'"),
     lambda a: a[:, [2, 5, 11]]),
    (dict(var_value_filter="ensembl != 'ENSG4'", obs_coords=np.arange(60) % 2 == 0),
     lambda a: a[::2, a.var.ensembl != "ENSG4"]),
]  # fmt: skip


@pytest.mark.parametrize(("options", "slice_of"), CASES)
def test_slices_are_those_of_anndata(adata, cells, options, slice_of):
    got, expected = cf.census.get_anndata(cells, **options), slice_of(adata)
    np.testing.assert_array_equal(got.X.toarray(), expected.X.toarray())
    assert list(got.obs_names) == list(expected.obs_names)
    assert list(got.var_names) == list(expected.var_names)
    assert list(got.obs["tissue"]) == list(expected.obs["tissue"])
    assert list(got.obs["soma_joinid"]) == [int(name[4:]) for name in expected.obs_names]
    assert list(got.var["soma_joinid"]) == [int(name[4:]) for name in expected.var_names]
    assert got.var.drop(columns="soma_joinid").astype(str).equals(expected.var.astype(str))
    assert not got.layers and not got.obsm and got.raw is None


def test_columns_that_are_wanted(cells):
    got = cf.census.get_anndata(cells, obs_column_names=["n_counts"], var_column_names="length")
    assert list(got.obs) == ["n_counts"] and list(got.var) == ["length"]
    both = {"obs": ["soma_joinid", "tissue"], "var": ["feature_id", "feature_name"]}
    got = cf.census.get_anndata(cells, column_names=both, obs_coords=[9], var_coords=[3])
    assert list(got.obs) == both["obs"] and list(got.var) == both["var"]
    assert got.obs["soma_joinid"].tolist() == [9]
    assert got.var.loc["gene3"].tolist() == ["gene3", "gene3"]
    assert list(cf.census.get_anndata(cells, obs_column_names=[], obs_coords=[9]).obs) == []


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (dict(var_value_filter="biotpye == 'coding'"), NoSuchKeyError, "biotype"),
        (dict(var_value_filter="length > 10000"), InvalidArgumentError, "none of the 15 genes"),
        (dict(var_value_filter=3), InvalidTypeError, "var_value_filter"),
        (dict(obs_value_filter={"a": 1}), InvalidTypeError, "obs_value_filter"),
        (dict(obs_column_names="nothing"), NoSuchKeyError, "nothing"),
        (dict(var_column_names=["lenght"]), NoSuchKeyError, "length"),
        (dict(obs_coords=slice(0, 9, 2)), InvalidArgumentError, "both ends"),
        (dict(obs_coords=slice(-3, None)), InvalidArgumentError, "both ends"),
        (dict(obs_coords=slice(60, 70)), InvalidArgumentError, "none of the 60 cells"),
        (dict(obs_coords=slice("a", "b")), InvalidTypeError, "slice of integers"),
        (dict(obs_coords=[-1]), InvalidArgumentError, "count from 0"),
        (dict(obs_coords=[60]), OutOfRangeError, "60"),
        (dict(obs_value_filter="soma_joinid < 5"), InvalidArgumentError, "obs_coords"),
        (dict(X_name="normalised"), NoSuchKeyError, "did you mean 'normalized'"),
        (dict(X_layers=["spliced"]), NoSuchKeyError, r"layers=\['spliced'\]"),
        (dict(X_name=None, X_layers=["X"]), InvalidArgumentError, "without X_name"),
        (dict(obsm_layers=["X_umap"]), NoSuchKeyError, "X_pca"),
        (dict(obsp_layers=["distances"]), UnsupportedError, "obsp_layers"),
        (dict(varm_layers=["PCs"]), UnsupportedError, "varm_layers"),
        (dict(varp_layers=["x"]), UnsupportedError, "varp_layers"),
        (dict(obs_embeddings=["scvi"]), UnsupportedError, "obsm_layers"),
        (dict(var_embeddings=["scvi"]), UnsupportedError, "var_embeddings"),
        (dict(measurement_name="ATAC"), InvalidArgumentError, "'RNA'"),
        (dict(modality="census_spatial_sequencing"), UnsupportedError, "census_data"),
        (dict(column_names={"obs": []}, obs_column_names=[]), InvalidArgumentError, "either"),
        (dict(column_names={"obsm": []}), InvalidArgumentError, "obsm"),
    ],
)
def test_what_is_not_there_is_refused(cells, options, error, words):
    with pytest.raises(error, match=words):
        cf.census.get_anndata(cells, **options)


def test_it_takes_a_collection_only(adata):
    with pytest.raises(InvalidTypeError, match="what cellfeed"):
        cf.census.get_anndata(adata)


# ---- a script of the Census

SIGNATURES = {
    "get_anndata": [
        "census", "organism", "measurement_name", "X_name", "X_layers", "obsm_layers",
        "obsp_layers", "varm_layers", "varp_layers", "obs_value_filter", "obs_coords",
        "var_value_filter", "var_coords", "column_names", "obs_embeddings", "var_embeddings",
        "obs_column_names", "var_column_names", "modality",
    ],
    "get_obs": ["census", "organism", "value_filter", "coords", "column_names", "modality"],
    "get_var": ["census", "organism", "value_filter", "coords", "column_names", "modality"],
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_are_those_of_the_census_in_their_order(name):
    ours = list(inspect.signature(getattr(cf.census, name)).parameters)
    assert ours[: len(SIGNATURES[name])] == SIGNATURES[name]
    assert set(ours[len(SIGNATURES[name]) :]) <= {"dtype"}


def test_a_script_of_the_census_ports_in_a_line(adata, tmp_path):
    adata = adata.copy()
    adata.obs["organism"] = pd.Categorical(["Homo sapiens", "Mus musculus"] * 30)
    adata.write_h5ad(tmp_path / "a.h5ad")
    cellxgene_census = tiledbsoma = cf.census
    with cf.open(tmp_path / "a.h5ad", layers=["normalized"], obsm=["X_pca"]) as census:
        found = cellxgene_census.get_anndata(
            census, "Homo sapiens", "RNA", X_name="normalized", X_layers=["raw"],
            obsm_layers=["X_pca"], obs_value_filter="tissue == 'lung'",
            var_value_filter="feature_id in ['gene2', 'gene7']", obs_column_names=["n_counts"],
        )  # fmt: skip
        human = adata[(adata.obs["organism"] == "Homo sapiens") & (adata.obs["tissue"] == "lung")]
        expected = human[:, ["gene2", "gene7"]]
        np.testing.assert_array_equal(found.X.toarray(), expected.layers["normalized"].toarray())
        np.testing.assert_array_equal(found.layers["raw"].toarray(), expected.X.toarray())
        np.testing.assert_array_equal(found.obsm["X_pca"], expected.obsm["X_pca"])
        assert list(found.obs_names) == list(expected.obs_names) and list(found.obs) == ["n_counts"]
        obs = cellxgene_census.get_obs(
            census, "homo_sapiens", value_filter="tissue == 'lung'", column_names=["n_counts"]
        )
        pd.testing.assert_frame_equal(obs, human.obs[["n_counts"]], check_names=False)
        var = cellxgene_census.get_var(census, "Homo sapiens", column_names=["feature_name"])
        assert var["feature_name"].tolist() == list(adata.var_names)
        query = tiledbsoma.axis_query(
            census, "RNA",
            obs_query=tiledbsoma.AxisQuery(value_filter="tissue == 'lung'", coords=(slice(0, 39),)),
            var_query=tiledbsoma.AxisQuery(coords=([2, 7],)),
        )  # fmt: skip
        chosen = adata[:40][adata.obs["tissue"].iloc[:40] == "lung", [2, 7]]
        assert (query.n_obs, query.n_vars) == chosen.shape
        numbers = [int(name[4:]) for name in chosen.obs_names]
        assert query.obs_joinids().to_pylist() == numbers
        assert query.var_joinids().to_pylist() == [2, 7]
        table = query.obs(column_names=["soma_joinid", "tissue"]).concat()
        assert table.column_names == ["soma_joinid", "tissue"]
        assert table["soma_joinid"].to_pylist() == numbers
        assert query.var().concat()["ensembl"].to_pylist() == ["ENSG2", "ENSG7"]
        values = query.X("raw").tables().concat().to_pandas()
        whole = scipy.sparse.coo_matrix(
            (values["soma_data"], (values["soma_dim_0"], values["soma_dim_1"])), shape=adata.shape
        )
        np.testing.assert_array_equal(whole.toarray()[numbers][:, [2, 7]], chosen.X.toarray())
        assert whole.sum() == chosen.X.sum() and len(list(query.X("raw").tables())) == 1
        made = query.to_anndata("raw", column_names={"obs": ["tissue"]}, drop_levels=True)
        np.testing.assert_array_equal(made.X.toarray(), chosen.X.toarray())
        assert list(made.obs["tissue"].cat.categories) == ["lung"]
        with query as again:
            bare = again.to_anndata(None, obsm_layers=["X_pca"])
        assert bare.X is None and bare.shape == chosen.shape
        np.testing.assert_array_equal(bare.obsm["X_pca"], chosen.obsm["X_pca"])


def test_large_queries_are_read_piece_by_piece(cells, adata, monkeypatch):
    monkeypatch.setattr("cellfeed.census._query._ROWS_AT_ONCE", 7)
    tables = list(cf.census.axis_query(cells).X("normalized").tables())
    assert len(tables) == 9
    found = pa.concat_tables(tables).to_pandas()
    expected = adata.layers["normalized"].tocoo()
    order = np.lexsort((expected.col, expected.row))
    for name, values in (("0", expected.row), ("1", expected.col)):
        np.testing.assert_array_equal(found[f"soma_dim_{name}"], values[order])
    np.testing.assert_array_equal(found["soma_data"], expected.data[order])


def test_raw_means_counts(adata, tmp_path):
    adata = adata.copy()
    adata.layers["counts"] = adata.X.copy()
    adata.X = np.log1p(adata.X)
    path = tmp_path / "a.h5ad"
    adata.write_h5ad(path)
    with pytest.raises(InvalidArgumentError, match=r"asks for counts, and the matrix holds 1\.38"):
        cf.census.get_anndata(cf.open(path))
    with pytest.raises(InvalidArgumentError, match="asks for counts"):
        list(cf.census.axis_query(cf.open(path)).X().tables())
    counts = adata.layers["counts"].toarray()
    for how, key in (({"layer": "counts"}, "raw"), ({"layers": ["counts"]}, "counts")):
        found = cf.census.get_anndata(cf.open(path, **how), X_name=key)
        np.testing.assert_array_equal(found.X.toarray(), counts)
    found = cf.census.get_anndata(cf.open(path, layer="raw/X"))
    np.testing.assert_array_equal(found.X.toarray(), adata.raw.X.toarray())
    found = cf.census.get_anndata(cf.open(path), X_name="X")
    np.testing.assert_array_equal(found.X.toarray(), adata.X.toarray())
    both = cf.open(path, layers=["raw/X"])
    for options in (dict(), dict(X_name="raw"), dict(X_name="X", X_layers=["raw/X"])):
        with pytest.raises(InvalidArgumentError, match="layer='raw/X'"):
            cf.census.get_anndata(both, **options)
    with pytest.raises(NoSuchKeyError, match="obs alone"):
        cf.census.get_anndata(cf.open(path, layer=None), X_name="raw")
    alone = cf.census.get_anndata(cf.open(path, layer=None), X_name=None, obs_coords=[4])
    assert alone.shape == (1, 0)


def test_ids_of_the_file_go_before_numbers(adata, tmp_path):
    adata = adata.copy()
    adata.obs["soma_joinid"] = np.arange(60) + 10_000
    adata.var["soma_joinid"] = np.arange(15) + 500
    adata.var["feature_name"] = [f"symbol{i}" for i in range(15)]
    adata.write_h5ad(tmp_path / "a.h5ad")
    found = cf.census.get_anndata(
        cf.open(tmp_path / "a.h5ad"), obs_value_filter="soma_joinid < 10007", obs_coords=[9, 4, 1],
        var_value_filter="feature_name == 'symbol3' or soma_joinid == 507",
    )  # fmt: skip
    assert found.obs["soma_joinid"].tolist() == [10_001, 10_004]
    assert list(found.var_names) == ["gene3", "gene7"]
    np.testing.assert_array_equal(found.X.toarray(), adata[[1, 4], [3, 7]].X.toarray())


def write(path, adata, *, column=None, uns=None):
    adata = adata.copy()
    adata.obs_names = [f"{path.stem}-{i}" for i in range(adata.n_obs)]
    if column is not None:
        adata.obs["organism"] = column
    if uns is not None:
        adata.uns["organism"] = uns
    adata.write_h5ad(path)
    return path


def test_cells_are_of_the_organism_that_is_asked_for(adata, tmp_path):
    human = write(tmp_path / "human.h5ad", adata[:20], uns="Homo sapiens")
    mouse = write(tmp_path / "mouse.h5ad", adata[20:45], uns="Mus musculus")
    both = write(tmp_path / "both.h5ad", adata[45:], column=["Homo sapiens"] * 9 + ["Danio"] * 6)
    silent = write(tmp_path / "silent.h5ad", adata[:3])
    expected = [*(f"human-{i}" for i in range(20)), *(f"both-{i}" for i in range(9))]
    cells = cf.open([human, mouse, both])
    for organism in ("Homo sapiens", "homo_sapiens", "HOMO  sapiens"):
        found = cf.census.get_anndata(cells, organism)
        assert list(found.obs_names) == expected
    assert len(cf.census.get_obs(cells, "mus musculus", coords=slice(18, 21))) == 2
    with pytest.raises(InvalidArgumentError, match="no cell is of organism 'Mus musclus'; did you"):
        cf.census.get_anndata(cells, "Mus musclus")
    with pytest.raises(InvalidArgumentError, match="no cell is of organism 'pig'"):
        cf.census.get_var(cells, "pig")
    assert cf.census.get_anndata(cf.open(silent), "Homo sapiens").n_obs == 3
    with pytest.raises(InvalidArgumentError, match=r"silent\.h5ad.*of 3 cells it is not said"):
        cf.census.get_anndata(cf.open([human, silent]), "Homo sapiens")
    assert cf.census.get_anndata(cf.open([human, silent])).n_obs == 23


# ---- tiledbsoma itself

QUERIES = [
    {},
    dict(value_filter="tissue == 'lung' and n_counts > 30"),
    dict(value_filter="tissue in ['lung'] or n_counts != 3", coords=(slice(3, 40),)),
    dict(value_filter="n_counts >= 20 and n_counts <= 70", coords=([9, 2, 30, 2, 11, 40],)),
    dict(coords=(slice(55, 80),)),
    dict(coords=(slice(None, 3),)),
    dict(coords=(np.array([50, 7]),)),
    dict(coords=(pa.array([7, 3, 7]),)),
    dict(coords=(4,)),
]
GENE_QUERIES = [{}, dict(value_filter="length < 600"), dict(coords=([7, 3],))]


@pytest.fixture(scope="module")
def experiment(adata, tmp_path_factory):
    try:
        import tiledbsoma.io
    except ModuleNotFoundError as error:
        pytest.skip(f"tiledbsoma is not installed: {error}")
    path = str(tmp_path_factory.mktemp("soma") / "experiment")
    with_names = adata.copy()
    with_names.raw = None
    tiledbsoma.io.from_anndata(path, with_names, "RNA", X_layer_name="raw")
    with tiledbsoma.Experiment.open(path) as experiment:
        yield experiment


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("genes", GENE_QUERIES, ids=range(len(GENE_QUERIES)))
@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_queries_are_those_of_tiledbsoma(cells, experiment, query, genes):
    import tiledbsoma

    ours = cf.census.axis_query(
        cells, "RNA", obs_query=cf.census.AxisQuery(**query),
        var_query=cf.census.AxisQuery(**genes),
    )  # fmt: skip
    theirs = experiment.axis_query(
        "RNA", obs_query=tiledbsoma.AxisQuery(**query), var_query=tiledbsoma.AxisQuery(**genes)
    )
    assert (ours.n_obs, ours.n_vars) == (theirs.n_obs, theirs.n_vars)
    for name in ("obs_joinids", "var_joinids"):
        assert getattr(ours, name)().to_pylist() == getattr(theirs, name)().to_pylist()
    names = ["soma_joinid", "n_counts", "tissue"]
    mine, other = (q.obs(column_names=names).concat().to_pandas() for q in (ours, theirs))
    assert mine.astype(str).equals(other[names].astype(str))
    for name in ("raw", "normalized"):
        mine, other = (
            q.X(name).tables().concat().to_pandas().sort_values(["soma_dim_0", "soma_dim_1"])
            for q in (ours, theirs)
        )
        pd.testing.assert_frame_equal(mine.reset_index(drop=True), other.reset_index(drop=True))
    mine, other = (
        q.to_anndata("normalized", X_layers=["raw"], obsm_layers=["X_pca"]) for q in (ours, theirs)
    )
    for found, expected in ((mine.X, other.X), (mine.layers["raw"], other.layers["raw"])):
        np.testing.assert_array_equal(found.toarray(), expected.toarray())
        assert found.dtype == expected.dtype
    np.testing.assert_array_equal(mine.obsm["X_pca"], other.obsm["X_pca"])
    for axis in ("obs", "var"):
        found, expected = getattr(mine, axis), getattr(other, axis)
        assert list(found.index) == list(expected.index)
        assert list(found.columns) == list(expected.columns)
        assert found.astype(str).equals(expected.astype(str))


WRONG_QUERIES = [
    (dict(coords=[0, 1, 2]), InvalidArgumentError, "one dimension"),
    (dict(coords=slice(0, 3)), InvalidTypeError, "tuple"),
    (dict(value_filter=3), InvalidTypeError, "value_filter"),
]


@pytest.mark.parametrize(("options", "error", "words"), WRONG_QUERIES)
def test_wrong_queries_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        cf.census.AxisQuery(**options)


def test_queries_take_queries(cells):
    with pytest.raises(InvalidTypeError, match="obs_query"):
        cf.census.axis_query(cells, obs_query="tissue == 'lung'")
    with pytest.raises(InvalidArgumentError, match="RNA"):
        cf.census.axis_query(cells, "data")
