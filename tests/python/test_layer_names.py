"""Layers whose names are those of other matrices, "raw" and "X", by every face against anndata."""

import pickle

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from program import run

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, NoSuchKeyError

pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr v2")

# What users write -> where it lies.
NAMES = {
    "X": "X",
    "raw/X": "raw/X",
    "raw": "layers/raw",
    "layers/raw": "layers/raw",
    "layers/X": "layers/X",
    "raw.X": "layers/raw.X",
}
BESIDE = ["raw", "layers/X", "raw.X"]


def make(seed: int, n: int = 12, n_genes: int = 5) -> anndata.AnnData:
    random = np.random.default_rng(seed)

    def matrix():
        return scipy.sparse.csr_matrix(random.integers(0, 90, (n, n_genes)).astype(np.float32))

    obs = pd.DataFrame(index=[f"cell{seed}-{i}" for i in range(n)])
    var = pd.DataFrame(index=[f"gene{i}" for i in range(n_genes)])
    adata = anndata.AnnData(matrix(), obs=obs, var=var)
    adata.raw = anndata.AnnData(matrix(), obs=obs, var=var)
    for name in ("raw", "X", "raw.X"):
        adata.layers[name] = matrix()
    return adata


def matrix_at(adata: anndata.AnnData, path: str) -> np.ndarray:
    if path == "X":
        return adata.X.toarray()
    return (adata.raw.X if path == "raw/X" else adata.layers[path.split("/")[1]]).toarray()


@pytest.fixture
def adata():
    return make(1)


@pytest.fixture(params=["h5ad", "zarr", "memory", "backed", "mixed"])
def data(request, adata, tmp_path):
    """The same cells in every form that is opened."""
    if request.param == "memory":
        return adata
    if request.param == "zarr":
        adata.write_zarr(tmp_path / "a.zarr")
        return tmp_path / "a.zarr"
    adata.write_h5ad(tmp_path / "a.h5ad")
    if request.param == "backed":
        return anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    if request.param == "mixed":
        adata[:5].copy().write_h5ad(tmp_path / "first.h5ad")
        return [tmp_path / "first.h5ad", adata[5:].copy()]
    return tmp_path / "a.h5ad"


def test_a_name_is_one_matrix_wherever_it_is_read(data, adata):
    for name, path in NAMES.items():
        with cf.open(data, layer=name) as cells:
            np.testing.assert_array_equal(cells[:].X.toarray(), matrix_at(adata, path))
    with cf.open(data, layers=BESIDE) as cells:
        batch = cells.read(range(len(adata)))
        for name in BESIDE:
            found = batch.layers[name].toarray()
            np.testing.assert_array_equal(found, matrix_at(adata, NAMES[name]))
        for made in (batch.to_anndata(), cells[:].to_anndata()):
            assert set(made.layers) == set(adata.layers)
            for name in adata.layers:
                np.testing.assert_array_equal(
                    made.layers[name].toarray(), adata.layers[name].toarray()
                )


def test_shards_and_exports_keep_the_names(adata, tmp_path):
    adata.write_h5ad(tmp_path / "a.h5ad")
    cf.convert_to_shards(cf.open(tmp_path / "a.h5ad", layers=BESIDE), tmp_path / "shards")
    layers = [word for name in BESIDE for word in ("--layers", name)]
    run("shard", tmp_path / "a.h5ad", "--output-dir", tmp_path / "by_program", *layers)
    cf.export_h5ad(cf.open(tmp_path / "a.h5ad", layers=BESIDE), tmp_path / "of_file.h5ad")
    for folder in ("shards", "by_program"):
        for name in ["X", *BESIDE, "layers/raw"]:
            found = cf.open(tmp_path / folder, layer=name)[:].X.toarray()
            np.testing.assert_array_equal(found, matrix_at(adata, NAMES[name]))
        cf.export_h5ad(tmp_path / folder, tmp_path / f"of_{folder}.h5ad")
    for made in tmp_path.glob("of_*.h5ad"):
        exported = anndata.read_h5ad(made)
        np.testing.assert_array_equal(exported.X.toarray(), adata.X.toarray())
        for name in adata.layers:
            np.testing.assert_array_equal(
                exported.layers[name].toarray(), adata.layers[name].toarray()
            )


def test_a_mapped_collection_reads_layers_as_lamindb_does(adata, tmp_path):
    adata.write_h5ad(tmp_path / "a.h5ad")
    keys = {"X": "X", "raw": "layers/raw", "layers/X": "layers/X", "raw.X": "raw/X"}
    with cf.MappedCollection([tmp_path / "a.h5ad"], layers_keys=list(keys)) as mapped:
        for row in (0, 7):
            for key, path in keys.items():
                np.testing.assert_array_equal(mapped[row][key], matrix_at(adata, path)[row])


def test_a_census_name_is_an_open_layer_first(adata, tmp_path):
    adata.write_h5ad(tmp_path / "a.h5ad")
    cells = cf.open(tmp_path / "a.h5ad", layers=["raw", "raw/X"])
    found = cf.census.get_anndata(cells, X_name="raw")
    np.testing.assert_array_equal(found.X.toarray(), adata.layers["raw"].toarray())


def test_a_name_that_is_not_there_is_no_other_matrix(adata, tmp_path):
    for name in list(adata.layers):
        del adata.layers[name]
    adata.write_h5ad(tmp_path / "a.h5ad")
    for data in (tmp_path / "a.h5ad", adata):
        with pytest.raises(NoSuchKeyError, match="no layer 'raw'; did you mean 'raw/X'"):
            cf.open(data, layer="raw")
    with pytest.raises(InvalidArgumentError, match="layers names 'X'"):
        cf.convert_to_shards(cf.open(tmp_path / "a.h5ad", layers=["X"]), tmp_path / "shards")


def test_each_file_gives_the_first_of_several_layers_that_it_has(tmp_path):
    """Counts where CELLxGENE keeps them: in raw/X beside normalised values, else in X."""
    adatas = [make(seed) for seed in range(4)]
    for adata in adatas:
        for name in list(adata.layers):
            del adata.layers[name]
    adatas[0].layers["counts"] = adatas[0].X * 2
    adatas[2].raw = None
    adatas[3].raw = None
    expected = [adatas[0].layers["counts"], adatas[1].raw.X, adatas[2].X, adatas[3].X]
    adatas[0].write_h5ad(tmp_path / "0.h5ad")
    adatas[1].write_zarr(tmp_path / "1.zarr")
    adatas[2].write_h5ad(tmp_path / "2.h5ad")
    shards = cf.convert_to_shards(tmp_path / "2.h5ad", tmp_path / "2")
    choice = ["counts", "raw/X", "X"]
    for data in ([tmp_path / "0.h5ad", tmp_path / "1.zarr", shards, adatas[3]], adatas):
        cells = cf.open(data, layer=choice)
        values = np.vstack([matrix.toarray() for matrix in expected])
        np.testing.assert_array_equal(cells[:].X.toarray(), values)
        again = pickle.loads(pickle.dumps(cells))
        np.testing.assert_array_equal(again[[20, 3]].X.toarray(), values[[20, 3]])
    files = cf.open([tmp_path / "0.h5ad", tmp_path / "1.zarr"], layer=choice).files
    assert [file["layer"] for file in files] == ["layers/counts", "raw/X"]
    for data in (tmp_path / "2.h5ad", shards, adatas[3]):
        with pytest.raises(NoSuchKeyError, match="none of the layers counts, raw/X; there are: X"):
            cf.open(data, layer=choice[:2])
    with pytest.raises(InvalidArgumentError, match="empty list"):
        cf.open(adatas, layer=[])
