"""Cells without a matrix: files that have no X, and any file opened with layer=None."""

import json
import pickle

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from anndata_oracle import assert_same_column
from conftest import REAL_DATA
from mtx_files import random_counts, write_mtx
from program import run
from real_files import CSR_FILES, DENSE_FILES, OTHER_FILES, read_anndata
from tenx_files import write_cellranger3
from user_cache import rows_folder

import cellfeed as cf

N = 60


@pytest.fixture
def obs():
    random = np.random.default_rng(0)
    columns = {
        "cell_type": pd.Categorical(random.choice(["B", "T", "NK"], N)),
        "n_counts": random.integers(0, 1000, N) / 4,
        "donor": [f"d{i % 4}" for i in range(N)],
    }
    return pd.DataFrame(columns, index=[f"c{i}" for i in range(N)])


def write(path, obs, x=None, **layers):
    var = pd.DataFrame(index=[f"g{i}" for i in range(5)])
    adata = anndata.AnnData(x, obs=obs, var=var, layers=layers)
    adata.obsm["X_pca"] = np.arange(N * 3, dtype="f4").reshape(N, 3)
    adata.write_h5ad(path)
    return path


def matrix(form="csr"):
    return sp.random(N, 5, 0.5, format=form, random_state=0, dtype=np.float32)


@pytest.fixture
def files(tmp_path, obs):
    """Without a matrix, without X, CSC, dense: the same obs."""
    return [
        write(tmp_path / "bare.h5ad", obs),
        write(tmp_path / "layer.h5ad", obs, counts=matrix()),
        write(tmp_path / "csc.h5ad", obs, matrix("csc")),
        write(tmp_path / "dense.h5ad", obs, matrix().toarray()),
    ]


def test_a_file_without_x_says_what_it_has(files):
    with pytest.raises(cf.errors.NoSuchKeyError, match=r"no matrix.*layer=None"):
        cf.open(files[0])
    with pytest.raises(cf.errors.NoSuchKeyError, match=r"no X.*: layers/counts; .*layer=None"):
        cf.open(files[1])
    adata = anndata.read_h5ad(files[1])
    with pytest.raises(cf.errors.NoSuchKeyError, match=r"no X.*: layers/counts; .*layer=None"):
        cf.open(adata)
    with pytest.raises(cf.errors.NoSuchKeyError, match=r"no X; .*layer=None"):
        cf.open(anndata.read_h5ad(files[0]))


def test_obs_of_files_with_and_without_matrices_is_one_table(files, obs):
    cells = cf.open(files, layer=None)
    assert cells.shape == (4 * N, 0)
    assert len(cells.var) == len(cells.var_names) == 0
    assert [file["layer"] for file in cells.files] == ["none"] * 4
    whole = pd.concat([obs] * 4)
    for column in ("n_counts", "donor", "cell_type"):
        told = cells.obs[column].astype(str).to_numpy()
        np.testing.assert_array_equal(told, whole[column].astype(str))
    chosen = cells.filter("cell_type == 'B' and n_counts > 50")
    truth = np.flatnonzero((whole["cell_type"] == "B") & (whole["n_counts"] > 50))
    np.testing.assert_array_equal(chosen.locate()[1], truth % N)
    parts = cells.split({"a": 0.5, "b": 0.5}, by="donor")
    assert sum(map(len, parts.values())) == 4 * N
    assert not rows_folder(files[2]).exists(), "CSC was not to be transposed"


@pytest.mark.parametrize("output", ["csr", "dense"])
def test_batches_have_labels_and_no_genes(files, obs, output):
    cells = cf.open(files, layer=None)
    weights = np.tile((obs["cell_type"] == "T").to_numpy(float), 4)
    loader = cf.Loader(
        cells, cf.BlockWeightedSampling(1, weights=weights), batch_size=32, output=output,
        obs=["cell_type", "n_counts"], transforms=[cf.NormalizeTotal(1e4), cf.Log1p()],
    )  # fmt: skip
    seen = 0
    for batch in loader:
        assert batch.x.shape == (len(batch.index), 0)
        assert set(np.take(cells.categories("cell_type"), batch["cell_type"])) == {"T"}
        truth = np.tile(obs["n_counts"], 4)[batch.index]
        np.testing.assert_array_equal(batch["n_counts"], truth)
        seen += len(batch.index)
    assert seen == len(cells)


def test_obsm_comes_without_x(files):
    cells = cf.open(files[0], layer=None, obsm="X_pca")
    truth = anndata.read_h5ad(files[0]).obsm["X_pca"]
    for batch in cf.Loader(cells, cf.BlockShuffling(1), batch_size=16):
        np.testing.assert_array_equal(batch.obsm["X_pca"], truth[batch.index])
    adata = cells[5:9].to_anndata()
    assert adata.shape == (4, 0)
    np.testing.assert_array_equal(adata.obsm["X_pca"], truth[5:9])


def test_copies_in_other_processes_are_of_obs_alone_too(files):
    cells = cf.open(files, layer=None)
    assert pickle.loads(pickle.dumps(cells)).shape == (4 * N, 0)
    adata = cf.open(anndata.read_h5ad(files[1]), layer=None)
    assert pickle.loads(pickle.dumps(adata)).shape == adata.shape == (N, 0)
    assert cf.open(anndata.read_h5ad(files[3], backed="r"), layer=None).shape == (N, 0)
    assert cf.open(files[3], layer=None).fingerprint != cf.open(files[3]).fingerprint


def test_every_format_has_cells(tmp_path, files, obs):
    cf.convert_to_shards(files[3], tmp_path / "shards", shard_size=25)
    write_cellranger3(tmp_path / "a.h5", {"Gene Expression": 20, "Antibody Capture": 3})
    write_mtx(tmp_path / "mtx", random_counts(30, 20))
    shards = cf.open(tmp_path / "shards", layer=None)
    assert shards.shape == (N, 0)
    told = shards.obs.df[list(obs)]
    pd.testing.assert_frame_equal(told, obs, check_dtype=False, check_categorical=False)
    for path in (tmp_path / "a.h5", tmp_path / "mtx"):
        alone = cf.open(path, layer=None)  # what of its features is left out does not matter
        whole = cf.open(path, feature_type="all")
        assert alone.shape == (len(whole), 0)
        np.testing.assert_array_equal(alone.obs_names, whole.obs_names)


def test_what_makes_no_sense_is_refused(files):
    for options, word in (
        ({"genes": ["g1"]}, "genes"),
        ({"var_key": "symbol"}, "var_key"),
        ({"layers": ["counts"]}, "layers"),
    ):
        with pytest.raises(cf.errors.InvalidArgumentError, match=f"layer=None.*{word}"):
            cf.open(files[1], layer=None, **options)
    cells = cf.open(files[0], layer=None)
    with pytest.raises(cf.errors.NoSuchKeyError):
        cells[:, ["g1"]]
    with pytest.raises(cf.errors.CellfeedError):
        cf.Loader(cells, cf.BlockShuffling(1), transforms=[cf.SelectGenes(["g1"])])


def test_a_layer_named_none_is_that_layer(tmp_path, obs):
    x = matrix()
    path = write(tmp_path / "a.h5ad", obs, none=x)
    read = cf.open(path, layer="none").read(np.arange(N), dtype="float32").x
    assert (read != x).nnz == 0


def test_the_program_reads_obs_alone(files, tmp_path):
    told = json.loads(run("info", files[0], "--json"))
    assert (told["layer"], told["n_cells"], told["n_genes"]) == ("none", N, 0)
    assert "no matrix" in told["refused"]
    assert [column["name"] for column in told["obs"]] == ["cell_type", "n_counts", "donor"]
    told = json.loads(run("info", "--layer", "none", files[3], "--json"))
    assert (told["layout"], told["n_genes"], told["refused"]) == ("obs alone", 0, "")
    run("plan", "--layer", "none", "--label", "cell_type", *files)
    for verb, target, name in (("shard", "--output-dir", "out"), ("export", "--output", "o.h5ad")):
        said = run(verb, "--layer", "none", files[3], target, tmp_path / name, code=1)
        assert "obs alone" in said


def test_an_obs_that_does_not_say_how_many_cells_there_are(tmp_path, obs):
    import h5py

    path = write(tmp_path / "a.h5ad", obs)
    with h5py.File(path, "r+") as file:
        del file["obs/_index"]
        del file["obs"].attrs["_index"]
    assert cf.open(path, layer=None).n_obs == N  # by the first column
    with h5py.File(path, "r+") as file:
        for name in list(file["obs"]):
            del file["obs"][name]
        file["obs"].attrs["column-order"] = np.array([], dtype=h5py.string_dtype())
    with pytest.raises(cf.errors.CorruptDataError, match="how many cells"):
        cf.open(path, layer=None)


def test_real_files_have_the_cells_that_anndata_finds():
    if not REAL_DATA.is_dir():
        pytest.skip("no real data")
    for name in [*CSR_FILES, *DENSE_FILES, *OTHER_FILES, "odd/soma_x-none.h5ad"]:
        adata, cells = read_anndata(REAL_DATA / name), cf.open(REAL_DATA / name, layer=None)
        assert cells.shape == (adata.n_obs, 0), name
        np.testing.assert_array_equal(cells.obs_names, adata.obs_names.astype(str), name)
        table = pa.table(cells.obs_table())
        for column in adata.obs:
            assert_same_column(table[column], adata.obs[column], f"{name} {column}")
