"""What `cf.open` reads equals what anndata reads: every row, every obs column, every join."""

import pickle

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from real_files import (
    CSR_FILES,
    OTHER_FILES,
    assert_same_csr,
    csr_layers,
    genes_of,
    matrix_of,
    read_anndata,
)
from small_atlas import make_anndata

import cellfeed as cf

MIXES = ["sc_celseq2", "sc_dropseq", "sc_celseq2_5cl_p1"]


@pytest.mark.parametrize("name", CSR_FILES)
def test_every_row_of_every_csr_matrix_equals_anndata(shared_data, name):
    path = shared_data / name
    adata = read_anndata(path)
    layers = csr_layers(path)
    assert layers
    for layer in layers:
        expected = matrix_of(adata, layer)
        cells = cf.open(path, layer=layer)
        assert list(cells.var_names) == genes_of(adata, layer)
        batch = cells.read(slice(None), dtype="float64")
        assert_same_csr(batch.x, expected.astype(np.float64))
        some = np.arange(0, len(cells), 7)
        dense = cells.read(some, dtype="float64", output="dense")
        np.testing.assert_array_equal(dense.x, expected[some].toarray())


@pytest.mark.parametrize("name", OTHER_FILES)
def test_matrices_by_columns_are_read_through_a_cache_or_refused(shared_data, tmp_path, name):
    path = shared_data / name
    with pytest.raises(cf.errors.UnsupportedError) as caught:
        cf.open(path, cache_dir=None)
    assert str(path) in str(caught.value) and caught.value.path == str(path)
    cells = cf.open(path, cache_dir=tmp_path)
    expected = matrix_of(read_anndata(path), "X").astype(np.float64)
    assert_same_csr(cells.read(slice(None), dtype="float64").x, expected)


@pytest.mark.parametrize("name", ["anndata/scp1884.h5ad", "anndata/telencephalon_val.h5ad"])
def test_rows_come_in_the_order_asked_for_with_repeats(shared_data, name):
    expected = matrix_of(read_anndata(shared_data / name), "X")
    cells = cf.open(shared_data / name)
    rows = np.random.default_rng(0).integers(len(cells), size=500)
    assert_same_csr(cells[rows].x, expected[rows])
    assert_same_csr(cells[-1].x, expected[-1])
    is_even = np.arange(len(cells)) % 2 == 0
    assert_same_csr(cells[is_even].x, expected[is_even])
    with pytest.raises(IndexError, match=str(len(cells))):
        cells[len(cells)]


def assert_same_column(cells: cf.CellCollection, name: str, expected: pd.Series) -> None:
    values = cells.obs_values(name)
    is_missing = expected.isna().to_numpy()
    if cells.obs_column(name).is_categorical:
        texts = np.array([*cells.categories(name), None], dtype=object)[values]
        np.testing.assert_array_equal(values < 0, is_missing)
        assert list(expected[~is_missing]) == list(texts[~is_missing])
    else:
        np.testing.assert_array_equal(np.isnan(values.astype(float)), is_missing)
        assert list(expected[~is_missing]) == list(values[~is_missing])


@pytest.mark.parametrize("name", CSR_FILES)
def test_obs_columns_equal_anndata(shared_data, name):
    adata = read_anndata(shared_data / name)
    cells = cf.open(shared_data / name, layer=csr_layers(shared_data / name)[0])
    assert cells.obs_keys() == list(adata.obs.columns)
    for column in adata.obs.columns:
        assert_same_column(cells, column, adata.obs[column])
    assert pa.table(cells.obs_table())["_index"].to_pylist() == list(adata.obs_names)


def test_obs_columns_of_every_kind(tmp_path):
    obs = pd.DataFrame(
        {
            "category": pd.Categorical(["b", None, "a", "b"], categories=["b", "a", "unused"]),
            "ordered": pd.Categorical(["low", "high", "low", "low"], ["low", "high"], ordered=True),
            "integer_category": pd.Categorical([10, 2, 10, None]),
            "text": ["x", "", "zoë", "x"],
            "int8": np.array([-1, 2, 3, 127], dtype=np.int8),
            "int64": [2**60, 1, 2, 3],
            "float32": np.array([0.5, np.nan, np.inf, -1], dtype=np.float32),
            "bool": [True, False, True, True],
            "nullable_int": pd.array([1, None, 3, 4], dtype="Int32"),
            "nullable_bool": pd.array([True, None, False, True], dtype="boolean"),
        },
        index=list("wxyz"),
    )
    anndata.AnnData(scipy.sparse.eye(4, format="csr", dtype=np.float32), obs=obs).write_h5ad(
        tmp_path / "a.h5ad"
    )
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "shards", shard_size=3)
    for path in (tmp_path / "a.h5ad", tmp_path / "shards"):
        cells = cf.open(path)
        for column in obs.columns:
            assert_same_column(cells, column, obs[column])
        assert cells.obs_column("ordered").ordered
        assert cells.categories("integer_category") == [2, 10]
        assert cells.categories("category") == ["b", "a", "unused"]


@pytest.mark.parametrize("join", ["inner", pytest.param("outer", marks=pytest.mark.slow)])
def test_joins_equal_anndata_concat(shared_data, join):
    paths = [shared_data / f"anndata/derived_mix_{name}.h5ad" for name in MIXES]
    adatas = [read_anndata(path) for path in paths]
    expected = anndata.concat(adatas, join=join, index_unique="-")
    cells = cf.open(paths, join=join, obs="cell_type")
    assert sorted(cells.var_names) == sorted(expected.var_names)
    expected = expected[:, cells.var_names]
    batch = cells[:]
    assert_same_csr(batch.x, matrix_of(expected, "X"))
    assert list(batch.obs.labels("cell_type")) == list(
        pd.concat([a.obs["cell_type"] for a in adatas]).astype(str)
    )
    assert cells.categories("cell_type") == sorted(
        set().union(*(a.obs["cell_type"] for a in adatas))
    )


def test_a_fixed_axis_keeps_its_order_and_fills_absent_genes(shared_data):
    path = shared_data / "anndata/scp1884.h5ad"
    adata = read_anndata(path)
    genes = ["no such gene", *adata.var_names[[500, 3, 18000]], "another"]
    batch = cf.open(path, genes=genes, missing_genes="zero")[:]
    np.testing.assert_array_equal(batch.to_numpy()[:, 1:4], adata[:, genes[1:4]].X.toarray())
    assert batch.to_numpy()[:, [0, 4]].sum() == 0
    assert list(batch.var_names) == genes


def test_different_genes_without_a_join_are_refused_naming_the_files(shared_data):
    paths = [shared_data / f"anndata/derived_mix_{name}.h5ad" for name in MIXES[:2]]
    with pytest.raises(cf.errors.InvalidArgumentError, match="join") as caught:
        cf.open(paths)
    assert MIXES[1] in str(caught.value)


def test_a_glob_is_sorted_and_the_same_as_a_list(shared_data):
    by_glob = cf.open(shared_data / "anndata/derived_mix_*.h5ad", join="inner")
    files = [info["path"] for info in by_glob.files]
    assert len(files) == 3 and files == sorted(files)
    assert cf.open(files, join="inner").fingerprint == by_glob.fingerprint


def test_a_collection_survives_pickling(shared_data):
    cells = cf.open(shared_data / "anndata/scp1884.h5ad", obs="Celltype")
    copy = pickle.loads(pickle.dumps(cells))
    assert copy.fingerprint == cells.fingerprint and copy.default_obs == ["Celltype"]
    assert_same_csr(copy[5:9].x, cells[5:9].x)


@pytest.mark.parametrize(
    "as_matrix", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, np.asarray]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint16", "bool"])
def test_an_anndata_in_memory_is_a_collection(as_matrix, dtype):
    dense = np.random.default_rng(0).poisson(0.5, size=(30, 8)).astype(dtype)
    adata = anndata.AnnData(
        as_matrix(dense),
        obs=pd.DataFrame({"kind": pd.Categorical(list("abc") * 10)}, index=map(str, range(30))),
    )
    cells = pickle.loads(pickle.dumps(cf.open(adata, obs="kind")))
    batch = cells[[3, 1]]
    np.testing.assert_array_equal(batch.to_numpy(), dense[[3, 1]])
    assert list(batch.obs.labels("kind")) == ["a", "b"]


def test_dense_halves_in_memory_are_read_as_those_of_files(tmp_path):
    halves = np.linspace(-3, 3, 12, dtype=np.float16).reshape(4, 3)
    adata = anndata.AnnData(halves, layers={"l": halves * 2}, obsm={"m": halves[:, :2]})
    adata.write_h5ad(tmp_path / "a.h5ad")
    options = {"layers": ["l"], "obsm": ["m"]}
    for given in (adata, tmp_path / "a.h5ad"):
        batch = cf.open(given, **options).read(slice(None))
        np.testing.assert_array_equal(batch.to_numpy(), halves.astype(np.float32))
        np.testing.assert_array_equal(batch.layers["l"].toarray(), (halves * 2).astype("f4"))
        np.testing.assert_array_equal(batch.obsm["m"], halves[:, :2].astype(np.float32))
    np.testing.assert_array_equal(cf.MappedCollection([adata])[2]["X"], halves[2].astype("f4"))


def test_an_anndata_in_backed_mode_is_read_from_its_file(shared_data):
    path = shared_data / "anndata/scp1884.h5ad"
    cells = cf.open(anndata.read_h5ad(path, backed="r"))
    assert cells.files[0]["path"] == str(path)


def assign(adata, name, values):
    obs = adata.obs.copy()
    obs[name] = values
    adata.obs = obs


@pytest.mark.parametrize(
    "change",
    [
        lambda a: setattr(a, "obs_names", list(a.obs_names[::-1])),
        lambda a: assign(a, "depth", a.obs["depth"].to_numpy()[::-1]),
        lambda a: assign(a, "cell_type", a.obs["cell_type"].to_numpy()[::-1]),
        lambda a: assign(a, "donor", a.obs["donor"].cat.reorder_categories(["d2", "d1"])),
        lambda a: assign(a, "missing", pd.array([None, 2] * 15, "Int64")),
    ],
    ids=["names", "numbers", "labels", "order of categories", "missing ones"],
)
def test_a_state_is_of_an_anndata_with_the_same_obs(change):
    adata = make_anndata(30)
    adata.obs["missing"] = pd.array([None, 1] * 15, "Int64")
    adata.obs["text"] = [f"{i}" for i in range(30)]
    state = cf.Loader(cf.open(adata), cf.Streaming(), 8).state_dict()
    adata = adata.copy()
    hidden = adata.obs["missing"].array.copy()
    hidden._data[0] = 77  # under a missing value
    assign(adata, "missing", hidden)
    cf.Loader(cf.open(adata), cf.Streaming(), 8).load_state_dict(state)
    change(adata)
    with pytest.raises(cf.errors.InvalidArgumentError, match="another collection"):
        cf.Loader(cf.open(adata), cf.Streaming(), 8).load_state_dict(state)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a[:10],
        lambda a: a[:, :5],
        lambda a: a.obs.__setitem__("kind", pd.Categorical(["z"] * a.n_obs)),
        lambda a: a.obs.__setitem__("new", 1),
        lambda a: setattr(a, "obs_names", [f"x{i}" for i in range(a.n_obs)]),
        lambda a: setattr(a, "var_names", list(a.var_names[::-1])),
    ],
    ids=["some cells", "some genes", "other labels", "a new column", "other cells' names", "genes"],
)
def test_a_backed_anndata_that_is_not_its_file_is_refused(tmp_path, change):
    adata = make_anndata(30)
    adata.obs["kind"] = pd.Categorical(list("abc") * 10)
    adata.write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    assert cf.open(backed).shape == adata.shape
    with pytest.raises(cf.errors.InvalidArgumentError, match="backed AnnData"):
        cf.open(change(backed) or backed)


@pytest.mark.parametrize(
    "rows", [np.array([2**64 - 1], np.uint64), np.ma.array([1, 2], mask=[1, 0])]
)
def test_row_numbers_are_never_others_than_those_given(tmp_path, rows):
    cells = cf.open(make_anndata(30))
    for read in (
        lambda: cells[rows],
        lambda: cells[[0, 1, 2]][rows],
        lambda: cells.obs_values("cell_type", rows),
        lambda: cf.Loader(cells, cf.Streaming(indices=rows)),
        lambda: cf.MultiIndexable(np.arange(30))[rows],
    ):
        with pytest.raises(
            (cf.errors.OutOfRangeError, cf.errors.InvalidTypeError), match=r"rows|indices"
        ):
            read()


def test_batches_go_to_anndata_pandas_and_arrow(shared_data):
    adata = read_anndata(shared_data / "anndata/scp1884.h5ad")
    batch = cf.open(shared_data / "anndata/scp1884.h5ad", obs=["Celltype", "n_counts"])[[7, 2, 9]]
    made = batch.to_anndata()
    assert_same_csr(made.X, adata.X[[7, 2, 9]])
    assert list(made.var_names) == list(adata.var_names)
    assert list(made.obs["Celltype"]) == list(adata.obs["Celltype"].iloc[[7, 2, 9]])
    assert pa.table(batch.obs)["n_counts"].to_pylist() == list(
        adata.obs["n_counts"].iloc[[7, 2, 9]]
    )


def test_a_cache_of_no_bytes_reads_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("cellfeed.opening.CACHE_BYTES", 0)
    adata = make_anndata(300)
    adata.write_h5ad(tmp_path / "packed.h5ad", compression="gzip")
    cells = cf.open(tmp_path / "packed.h5ad")
    copy = pickle.loads(pickle.dumps(cells))
    rows = np.random.default_rng(0).permutation(300)
    for opened in (cells, copy):
        for some in np.array_split(rows, 30):
            assert (opened[some].to_numpy() == adata.X[some].toarray()).all()
        for batch in cf.Loader(opened, cf.BlockShuffling(1), 16):
            assert (batch.to_numpy() == adata.X[batch.index].toarray()).all()


def test_a_missing_file_is_local_whatever_it_is_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(cf.errors.NotFoundError, match=r"^http_cells\.h5ad: there is no such file"):
        cf.open("http_cells.h5ad")
