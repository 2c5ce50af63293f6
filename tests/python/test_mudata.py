"""One modality of a MuData and the table of a SpatialData, against anndata."""

import json
import pickle
import shutil
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr
from program import run
from zarr_files import read_store, write_store

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, NoSuchKeyError, UnsupportedError

N = 60


def make_modality(seed: int, names: list[str]) -> anndata.AnnData:
    random = np.random.default_rng(seed)
    counts = random.poisson(0.8, (N, len(names))).astype(np.float32)
    index = [f"cell{i}" for i in range(N)]
    obs = pd.DataFrame({"kind": pd.Categorical(random.choice(["T", "B"], N))}, index=index)
    adata = anndata.AnnData(scipy.sparse.csr_matrix(counts), obs=obs, var=pd.DataFrame(index=names))
    adata.layers["dense"] = counts * 2
    adata.layers["by_gene"] = scipy.sparse.csc_matrix(counts * 3)
    adata.obsm["X_pca"] = random.normal(size=(N, 3)).astype(np.float32)
    adata.obsm["proteins"] = pd.DataFrame({"CD3": np.arange(N), "CD8": counts[:, 0]}, index=index)
    adata.raw = adata.copy()
    adata.uns["who"] = f"modality {seed}"
    adata.varm["loadings"] = random.normal(size=(len(names), 2))
    return adata


RNA = make_modality(1, ["a", "b", "c", "d"])
PROT = make_modality(2, ["p", "q", "r", "s"])  # of the same shape: nothing but the content differs


def write_modalities(root, modalities):
    """As mudata.MuData.write does it."""
    root.attrs["encoding-type"], root.attrs["encoding-version"] = "MuData", "0.1.0"
    for name, adata in modalities.items():
        anndata.io.write_elem(root, f"mod/{name}", adata)
    anndata.io.write_elem(root, "obs", pd.DataFrame(index=RNA.obs_names))
    names = [name for adata in modalities.values() for name in adata.var_names]
    anndata.io.write_elem(root, "var", pd.DataFrame(index=names))


def write_table(path, name, adata):
    """As spatialdata.SpatialData.write does it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = zarr.open_group(path, mode="w")
        root.attrs["spatialdata_attrs"] = {"version": "0.2"}
        root.create_group("images")
        root.create_group("tables")
        anndata.io.write_elem(root, f"tables/{name}", adata)
        zarr.consolidate_metadata(path)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """One file of each kind, written together: a cache waits until a file is 2 seconds old."""
    folder = tmp_path_factory.mktemp("written")
    with h5py.File(folder / "m.h5mu", "w") as file:
        write_modalities(file, {"rna": RNA, "prot": PROT})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for zarr_format in (2, 3):
            path = folder / f"m{zarr_format}.zarr"
            root = zarr.open_group(path, mode="w", zarr_format=zarr_format)
            write_modalities(root, {"rna": RNA, "prot": PROT})
    write_table(folder / "s.zarr", "table", RNA)
    write_table(folder / "two.zarr", "nuclei", RNA)
    shutil.copytree(folder / "two.zarr/tables/nuclei", folder / "two.zarr/tables/cells")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(folder / "two.zarr")
    RNA.write_h5ad(folder / "a.h5ad")
    cf.convert_to_shards(folder / "a.h5ad", folder / "shards")
    return folder


@pytest.fixture(params=["m.h5mu", "m2.zarr", "m3.zarr"])
def path(request, written):
    return written / request.param


def dense(matrix):
    return matrix.toarray() if scipy.sparse.issparse(matrix) else np.asarray(matrix)


def assert_is(cells, adata):
    batch = cells[np.arange(N)]
    assert cells.var_names.tolist() == adata.var_names.tolist()
    assert cells.obs_names.tolist() == adata.obs_names.tolist()
    assert cells.obs.df["kind"].astype(str).tolist() == adata.obs["kind"].astype(str).tolist()
    np.testing.assert_array_equal(dense(batch.x), dense(adata.X))
    for key in batch.layers:
        wanted = adata.raw.X if key == "raw/X" else adata.layers[key]
        np.testing.assert_array_equal(dense(batch.layers[key]), dense(wanted))
    for key in batch.obsm:
        np.testing.assert_array_equal(batch.obsm[key], dense(adata.obsm[key]).astype(np.float32))


ALL = {"layers": ["dense", "by_gene", "raw/X"], "obsm": ["X_pca", "proteins"]}


def test_a_modality_is_an_anndata(path, tmp_path):
    for cache in (None, "rows"):
        opened = {}
        for name, adata in {"rna": RNA, "prot": PROT, "rna ": RNA}.items():
            cells = cf.open(
                path, modality=name.strip(), cache_dir=tmp_path / "cache", cache=cache,
                **ALL,
            )  # fmt: skip
            assert_is(cells, adata)
            assert_is(pickle.loads(pickle.dumps(cells)), adata)
            opened[name] = cells
        assert opened["rna"].fingerprint == opened["rna "].fingerprint
        assert opened["rna"].fingerprint != opened["prot"].fingerprint
        assert opened["rna"][[0]].obsm.var_names("proteins").tolist() == ["CD3", "CD8"]
    info = cf.info(path, modality="prot")
    assert info["root"] == "mod/prot" and info["n_genes"] == 4
    assert {matrix["name"] for matrix in info["matrices"]} >= {"X", "raw/X", "obsm/proteins"}
    alone = cf.open(path, modality="rna", layer=None, obs="kind")
    assert alone.obs_names.tolist() == RNA.obs_names.tolist()


def test_what_is_asked_for_has_to_be_there(path):
    for given, error, text in [
        ({}, InvalidArgumentError, "MuData.*prot, rna: choose one with modality="),
        ({"layer": None}, InvalidArgumentError, "MuData.*prot, rna: choose one with modality="),
        (
            {"layer": ["counts", "X"]},
            InvalidArgumentError,
            "MuData.*prot, rna: choose one with modality=",
        ),
        ({"modality": "rba"}, NoSuchKeyError, "no modality 'rba'.*'rna'.*prot, rna"),
        ({"modality": "rna", "layer": "nope"}, NoSuchKeyError, "no layer 'nope'.*by_gene"),
        ({"modality": 3}, TypeError, "modality"),
    ]:
        with pytest.raises(error, match=text):
            cf.open(path, **given)
    with pytest.raises(InvalidArgumentError, match=r"MuData.*prot, rna"):
        cf.info(path)


def test_what_is_no_mudata_has_no_modalities(written):
    store = written / "two.zarr/tables/nuclei"  # an AnnData by itself
    for other in [written / "a.h5ad", store, written / "shards", RNA]:
        with pytest.raises(InvalidArgumentError, match=r"modality is for MuData.*leave it out"):
            cf.open(other, modality="rna")


def test_the_program_writes_a_modality(path, tmp_path):
    assert "prot, rna: choose one with --modality" in run("info", path, code=1)
    assert json.loads(run("info", path, "--modality", "rna", "--json"))["root"] == "mod/rna"
    assert "mod/rna" in run("info", path, "--modality", "rna")
    choice = ["--modality", "prot", "--layers", "dense", "--obsm", "proteins"]
    run("shard", path, "--output-dir", tmp_path / "shards", *choice)
    shards = cf.open(tmp_path / "shards", layers="dense", obsm="proteins")
    assert_is(shards, PROT)
    assert shards[[0]].obsm.var_names("proteins").tolist() == ["CD3", "CD8"]
    run("export", path, "--output", tmp_path / "a.h5ad", *choice)
    run("export", tmp_path / "shards", "--output", tmp_path / "b.h5ad")
    for name in ["a.h5ad", "b.h5ad"]:
        found = anndata.read_h5ad(tmp_path / name)
        np.testing.assert_array_equal(dense(found.X), dense(PROT.X))
        np.testing.assert_array_equal(found.obsm["proteins"], PROT.obsm["proteins"])
        np.testing.assert_array_equal(found.varm["loadings"], PROT.varm["loadings"])
        assert found.uns["who"] == "modality 2"


def test_a_spatialdata_store_is_its_table(written, tmp_path):
    store, two = written / "s.zarr", written / "two.zarr"
    cells = cf.open(store, cache_dir=tmp_path / "cache", cache="rows", **ALL)
    assert_is(cells, RNA)
    info = cf.info(store)
    assert info["root"] == "tables/table" and info["n_cells"] == N
    cf.export_h5ad(store, tmp_path / "a.h5ad")
    assert anndata.read_h5ad(tmp_path / "a.h5ad").uns["who"] == "modality 1"
    with pytest.raises(UnsupportedError, match=r"cells, nuclei.*two.zarr/tables/cells"):
        cf.open(two)
    assert_is(cf.open(two / "tables/nuclei", cache_dir=tmp_path, **ALL), RNA)


@pytest.mark.parametrize("suffix", ["h5ad", "zarr"])
def test_tables_of_obsm(tmp_path, suffix):
    def written(name, frame):
        adata = anndata.AnnData(RNA.X, obs=RNA.obs[[]], var=RNA.var)
        adata.obsm["t"] = frame.set_axis(adata.obs_names)
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "zarr":
            return write_store(adata, path, 3)
        adata.write_h5ad(path)
        return path

    one = pd.DataFrame({"b": np.arange(N, dtype=np.uint8), "a": np.linspace(0, 1, N)})
    wide = one.assign(b=np.full(N, 2**53 + 1))
    path = written("one", one)
    cells = cf.open(path, obsm="t")
    np.testing.assert_array_equal(cells.read([5, 0], dtype="float64").obsm["t"], one.iloc[[5, 0]])
    assert [m["shape"] for m in cf.info(path)["matrices"] if m["name"] == "obsm/t"] == [[N, 2]]
    for frame, error, text in [
        (wide, cf.errors.PrecisionError, "'b' does not fit float64.*row 0.*9007199254740993"),
        (one.assign(c="x"), UnsupportedError, "column 'c' of 'obsm/t' holds no numbers"),
        (one.assign(c=pd.Categorical(["x"] * N)), UnsupportedError, "'c'.*categorical"),
        (one.assign(c=pd.array([1] * N, "Int64")), UnsupportedError, "'c'.*nullable-integer"),
        (one[[]], UnsupportedError, "without columns"),
    ]:
        with pytest.raises(error, match=text):
            cf.open(written("two", frame), obsm="t").read([0])
    renamed = written("three", one.rename(columns={"a": "z"}))
    with pytest.raises(InvalidArgumentError, match="column 1 of 'obsm/t' is 'z', and 'a' in"):
        cf.open([path, renamed], obsm="t")
    in_memory = read_store(renamed) if suffix == "zarr" else anndata.read_h5ad(renamed)
    with pytest.raises(InvalidArgumentError, match="columns of 'obsm/t' have other names"):
        cf.open([path, in_memory], obsm="t")
    cf.convert_to_shards(cf.open(path, obsm="t"), tmp_path / "shards")
    with pytest.raises(InvalidArgumentError, match="columns of 'obsm/t' have other names"):
        cf.append_to_shards(renamed, tmp_path / "shards")


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda t: t.assign(b=2**53 + 1), cf.errors.PrecisionError, "'b' does not fit float64"),
        (lambda t: t[[]], UnsupportedError, "'obsm/t' is a table without columns"),
        (lambda t: t.set_axis(["x", "x"], axis=1), InvalidArgumentError, "several columns 'x'"),
        (lambda t: t.assign(b="x"), UnsupportedError, "column 'b' of 'obsm/t' holds no numbers"),
    ],
)
def test_tables_of_obsm_in_memory_are_refused_as_those_of_files(change, error, text):
    adata = RNA.copy()
    table = pd.DataFrame({"b": np.arange(N), "a": np.linspace(0, 1, N)}, index=adata.obs_names)
    adata.obsm["t"] = table
    found = cf.open(adata, obsm="t").read([5, 0], dtype="float64").obsm["t"]
    np.testing.assert_array_equal(found, table.iloc[[5, 0]])
    adata.obsm["t"] = change(table)
    with pytest.raises(error, match=text):
        cf.open(adata, obsm="t")


def test_a_table_of_obsm_of_other_cells_is_refused(tmp_path):
    adata = RNA.copy()
    adata.obsm["t"] = pd.DataFrame({"a": np.arange(float(N))}, index=adata.obs_names)
    adata.write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file["obsm/t/_index"][:] = file["obsm/t/_index"][:][::-1]
    with pytest.raises(cf.errors.CorruptDataError, match="'obsm/t' has another index than obs"):
        cf.open(tmp_path / "a.h5ad", obsm="t")
