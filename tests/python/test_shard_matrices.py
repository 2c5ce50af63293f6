"""Layers and obsm in shards: what was in the files comes back, bit by bit, or is an error."""

import json
import pathlib
import shutil

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xxhash
from program import run
from shard_reader import ShardDirectory
from small_atlas import make_anndata

import cellfeed as cf
from cellfeed.data.sharding import validate_shard_dir
from cellfeed.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidArgumentError,
    NoSuchKeyError,
    UnsupportedError,
)

N = 70
NAMES = {"layers": ["spliced", "dense"], "obsm": ["X_pca", "counts"]}


def make(seed=0, n=N, n_genes=None) -> anndata.AnnData:
    adata = make_anndata(n, seed=seed)[:, :n_genes].copy()
    rng = np.random.default_rng(seed)
    adata.layers["spliced"] = scipy.sparse.csr_matrix(
        rng.poisson(0.4, adata.shape).astype(np.int32) * 3
    )
    adata.layers["dense"] = rng.normal(size=adata.shape)
    adata.obsm["X_pca"] = rng.normal(size=(n, 5))
    adata.obsm["X_pca"][3] = 0.0
    adata.obsm["counts"] = rng.integers(-5, 2**40, size=(n, 3))
    adata.obs_names = [f"{seed}_{i}" for i in range(n)]
    return adata


@pytest.fixture
def path(tmp_path):
    make().write_h5ad(tmp_path / "a.h5ad")
    return tmp_path / "a.h5ad"


def as_array(matrix) -> np.ndarray:
    return matrix.toarray() if scipy.sparse.issparse(matrix) else np.asarray(matrix)


def check_all(cells, adatas, dtype="float64"):
    """Every matrix of every cell, against anndata's concatenation of the same files."""
    truth = anndata.concat(adatas, join="outer", fill_value=0)[list(cells.obs_names)]
    truth = truth[:, list(cells.var_names)]
    batch = cells.read(np.arange(len(cells)), dtype=dtype)
    np.testing.assert_array_equal(as_array(batch.to_scipy()), as_array(truth.X))
    for name in NAMES["layers"]:
        np.testing.assert_array_equal(as_array(batch.layers[name]), as_array(truth.layers[name]))
    for name in NAMES["obsm"]:
        np.testing.assert_array_equal(batch.obsm[name], truth.obsm[name])


@pytest.mark.parametrize("gene_order", ["source", "mean"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_matrices_come_back_in_any_order(path, tmp_path, gene_order, shuffle):
    how = {"gene_order": gene_order, "shuffle": shuffle, "shard_size": 16}
    shards = cf.convert_to_shards(cf.open(path, **NAMES), tmp_path / "shards", **how)
    cells = cf.open(shards, **NAMES)
    check_all(cells, [make()])
    rows = [33, 2, 2, 69, 17]
    check_all_rows = cells.read(rows, dtype="float64")
    whole = cells.read(np.arange(N), dtype="float64")
    np.testing.assert_array_equal(check_all_rows.obsm["X_pca"], whole.obsm["X_pca"][rows])
    for name in NAMES["layers"]:
        alone = cf.open(shards, layer=f"layers/{name}")
        assert (alone.read(rows, dtype="float64").to_scipy() != whole.layers[name][rows]).nnz == 0
    assert validate_shard_dir(shards)
    again = cf.open(cf.convert_to_shards(cf.open(shards, **NAMES), tmp_path / "again"), **NAMES)
    check_all(again, [make()])


def test_x_beside_a_layer_that_became_x(path, tmp_path):
    cells = cf.open(path, layer="spliced", layers=["X"])
    truth = make()
    shards = [
        cf.convert_to_shards(cells, tmp_path / "cells", shard_size=20),
        cf.export_h5ad(cells[:], tmp_path / "cells.h5ad").path,
    ]
    for written in shards:
        again = cf.open(written, layers=["layers/X"])[list(cells.obs_names)].batch
        np.testing.assert_array_equal(again.x.toarray(), truth.layers["spliced"].toarray())
        np.testing.assert_array_equal(again.layers["layers/X"].toarray(), truth.X.toarray())
        with pytest.raises(InvalidArgumentError, match=r"layers names 'X'.*is 'layers/X'"):
            cf.open(written, layers=["X"])


def test_joined_files(tmp_path):
    adatas = [make(0), make(1, n_genes=9), make(2, n=7)]
    paths = [tmp_path / f"{i}.h5ad" for i in range(3)]
    for file, adata in zip(paths, adatas, strict=True):
        adata.write_h5ad(file)
    shards = cf.convert_to_shards(
        cf.open(paths, join="outer", **NAMES), tmp_path / "s", shard_size=30
    )
    check_all(cf.open(shards, **NAMES), adatas)
    inner = cf.convert_to_shards(cf.open(paths, join="inner", **NAMES), tmp_path / "inner")
    check_all(cf.open(inner, **NAMES), adatas)
    total = cf.Loader(
        cf.open(inner), cf.Streaming(), 8, transforms=[cf.NormalizeTotal(1.0)], output="dense"
    )
    assert next(iter(total)).x.sum() > 0
    with pytest.raises(UnsupportedError, match="totals of cells in 'layers/spliced' are not known"):
        cf.Loader(
            cf.open(inner, layer="spliced"), cf.Streaming(), 8, transforms=[cf.NormalizeTotal(1.0)]
        )


def test_csc_layers(tmp_path):
    adata = make()
    adata.layers["spliced"] = scipy.sparse.csc_matrix(adata.layers["spliced"])
    adata.write_h5ad(tmp_path / "csc.h5ad")
    shards = cf.convert_to_shards(
        cf.open(tmp_path / "csc.h5ad", **NAMES), tmp_path / "s", shard_size=9
    )
    check_all(cf.open(shards, **NAMES), [adata])


def test_the_dense_layout(path, tmp_path):
    shards = cf.convert_to_shards(
        cf.open(path, layers="spliced", obsm="X_pca"), tmp_path / "s", layout="dense", shard_size=32
    )
    cells = cf.open(shards, layers="spliced", obsm="X_pca")
    batch = cells.read(np.arange(N), output="dense", dtype="float64")
    adata = make()
    np.testing.assert_array_equal(batch.layers["spliced"], adata.layers["spliced"].toarray())
    np.testing.assert_array_equal(batch.obsm["X_pca"], adata.obsm["X_pca"])
    names = sorted(p.name for p in pathlib.Path(shards).glob("shard_000000*"))
    assert [n for n in names if "m1" in n or "m2" in n] == [
        "shard_000000.m1.npy",
        "shard_000000.m2.cells",
    ]


def test_the_second_reader_reads_them(path, tmp_path):
    shards = ShardDirectory(
        cf.convert_to_shards(
            cf.open(path, **NAMES), tmp_path / "s", gene_order="mean", shard_size=32
        )
    )
    adata = make()
    order = shards.genes["_original_position"].to_numpy()
    assert [m["name"] for m in shards.manifest["matrices"]] == [
        "layers/spliced", "layers/dense", "obsm/X_pca", "obsm/counts",
    ]  # fmt: skip
    for cell in range(N):
        for name in NAMES["layers"]:
            indices, values = shards.row(cell, f"layers/{name}")
            row = as_array(adata.layers[name][cell]).ravel()[order]
            np.testing.assert_array_equal(row[indices], values)
            assert np.count_nonzero(row) == len(values)
        for name in NAMES["obsm"]:
            indices, values = shards.row(cell, f"obsm/{name}")
            row = np.zeros(adata.obsm[name].shape[1], values.dtype)
            row[indices] = values
            np.testing.assert_array_equal(row, adata.obsm[name][cell])
            assert values.dtype == adata.obsm[name].dtype


def test_resume_and_overwrite(path, tmp_path):
    how = {"shard_size": 2}
    whole = pathlib.Path(cf.convert_to_shards(cf.open(path, **NAMES), tmp_path / "w", **how))
    part = tmp_path / "p"

    def stop(phase, done, total, rate):
        raise ZeroDivisionError

    # A fast machine may be done by then, which resuming allows.
    with pytest.raises(ZeroDivisionError):
        cf.convert_to_shards(cf.open(path, **NAMES), part, threads=1, progress=stop, **how)
    finished = sorted(p.name for p in part.glob("*.m*.cells"))
    if finished and not (part / "shard_metadata.json").exists():
        damaged = part / finished[0]
        data = bytearray(damaged.read_bytes())
        data[4100] ^= 1
        damaged.write_bytes(data)
    with pytest.raises(
        (InvalidArgumentError, AlreadyExistsError),
        match=r"layers and obsm were layers/spliced|finished shards of other",
    ):
        cf.convert_to_shards(cf.open(path, layers=["spliced"]), part, shard_size=2, resume=True)
    cf.convert_to_shards(cf.open(path, **NAMES), part, resume=True, **how)
    for file in whole.iterdir():
        assert (part / file.name).read_bytes() == file.read_bytes(), file.name
    cf.convert_to_shards(cf.open(path, layers=["dense"]), part, shard_size=40, overwrite=True)
    assert validate_shard_dir(part)
    assert len(list(part.glob("*.cells"))) == 4
    with pytest.raises(NoSuchKeyError, match="'layers/spliced', but X, layers/dense"):
        cf.open(part, layers=["spliced"])


def test_any_flipped_byte_is_found(path, tmp_path):
    shards = pathlib.Path(
        cf.convert_to_shards(cf.open(path, **NAMES), tmp_path / "s", shard_size=40)
    )
    rng = np.random.default_rng(0)
    for file in sorted(shards.glob("*.m*")):
        data = file.read_bytes()
        for at in {*rng.integers(0, len(data), 12).tolist(), 0, len(data) - 1}:
            damaged = bytearray(data)
            damaged[at] ^= 1 << int(rng.integers(8))
            file.write_bytes(damaged)
            with pytest.raises(CorruptDataError) as caught:
                validate_shard_dir(shards)
            assert {damage["file"] for damage in caught.value.damages} == {file.name}
        file.write_bytes(data[:4096] + b"\xff" + data[4097:])
        with pytest.raises(CorruptDataError, match=file.name):
            cf.open(shards, **NAMES).read(np.arange(N), dtype="float64")
        file.write_bytes(data)
    assert validate_shard_dir(shards)


def test_exchanged_files_are_found(path, tmp_path):
    shards = pathlib.Path(
        cf.convert_to_shards(cf.open(path, **NAMES), tmp_path / "s", shard_size=40)
    )
    one, two = shards / "shard_000000.m1.cells", shards / "shard_000000.m2.cells"
    shutil.move(one, tmp_path / "x")
    shutil.move(two, one)
    shutil.move(tmp_path / "x", two)
    with pytest.raises(CorruptDataError, match="exchanged"):
        cf.open(shards, layers=["spliced"])
    with pytest.raises(CorruptDataError, match="exchanged"):
        validate_shard_dir(shards)


def test_what_cannot_be_is_a_named_error(path, tmp_path):
    out = tmp_path / "s"
    for how, error, text in [
        ({"layers": ["nothing"]}, NoSuchKeyError, "nothing"),
        ({"obsm": ["X_umap"]}, NoSuchKeyError, "X_umap"),
        ({"layers": ["spliced", "layers/spliced"]}, InvalidArgumentError, "twice"),
        ({"layers": ["X"]}, InvalidArgumentError, "layers names 'X'"),
        ({"layers": ["raw/X"]}, NoSuchKeyError, "raw/X"),
    ]:
        with pytest.raises(error, match=text):
            cf.convert_to_shards(cf.open(path, **how), out)
        assert not (out / "shard_metadata.json").exists()
    narrow = make(1)
    narrow.obsm["X_pca"] = narrow.obsm["X_pca"][:, :2]
    narrow.write_h5ad(tmp_path / "b.h5ad")
    with pytest.raises(InvalidArgumentError, match=r"b.h5ad.*'obsm/X_pca' has 2 columns, and 5"):
        cf.convert_to_shards(cf.open([path, tmp_path / "b.h5ad"], obsm="X_pca"), out)
    shards = cf.convert_to_shards(path, out)
    for how in ({"layer": "spliced"}, {"layers": ["spliced"]}, {"obsm": ["X_pca"]}):
        with pytest.raises(NoSuchKeyError, match=r"--layers|layers="):
            cf.open(shards, **how)


def test_an_older_manifest_is_refused_by_version(path, tmp_path):
    shards = pathlib.Path(cf.convert_to_shards(path, tmp_path / "s"))
    manifest = shards / "shard_metadata.json"
    text = manifest.read_text().replace('"version": 7', '"version": 6')
    text = text[:-20] + "0" * 16 + text[-4:]
    text = text[:-20] + xxhash.xxh3_64_hexdigest(text.encode()) + text[-4:]
    assert json.loads(text)["version"] == 6
    manifest.write_text(text)
    with pytest.raises(UnsupportedError, match=r"version 6.*reads version 7.*convert"):
        cf.open(shards)


def test_the_program_takes_them(path, tmp_path):
    run(
        "shard", path, "--output-dir", tmp_path / "s", "--layers", "spliced", "--layers", "dense",
        "--obsm", "X_pca", "--obsm", "counts",
    )  # fmt: skip
    check_all(cf.open(tmp_path / "s", **NAMES), [make()])


def test_info_lists_them(path, tmp_path):
    shards = cf.convert_to_shards(cf.open(path, **NAMES), tmp_path / "s", shard_size=32)
    found = {matrix["name"]: matrix for matrix in cf.info(shards)["matrices"]}
    adata = make()
    for name, matrix in [
        ("X", adata.X),
        *((f"layers/{name}", adata.layers[name]) for name in NAMES["layers"]),
        *((f"obsm/{name}", adata.obsm[name]) for name in NAMES["obsm"]),
    ]:
        assert found.pop(name)["shape"] == list(matrix.shape)
    assert not found
    assert "layers/spliced" in run("info", shards.path)
    for how in ({"layer": "spliced"}, {"layer": "obsm/X_pca"}):
        assert cf.info(shards, **how)["layer"] in ("layers/spliced", "obsm/X_pca")


def test_a_mapped_collection_of_them(path, tmp_path):
    shards = cf.convert_to_shards(cf.open(path, **NAMES), tmp_path / "s", shard_size=20)
    adata = make()
    with cf.MappedCollection(
        [shards], layers_keys=["X", "spliced"], obsm_keys=["X_pca"], dtype="float64"
    ) as mapped:
        item = mapped[33]
        np.testing.assert_array_equal(item["spliced"], adata.layers["spliced"][33].toarray()[0])
        np.testing.assert_array_equal(item["obsm_X_pca"], adata.obsm["X_pca"][33])


@pytest.mark.parametrize("gene_order", ["source", "mean"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_export_gives_them_back(path, tmp_path, gene_order, compression):
    shards = cf.convert_to_shards(
        cf.open(path, **NAMES), tmp_path / "s", shard_size=32, gene_order=gene_order
    )
    back = tmp_path / "back.h5ad"
    cf.export_h5ad(shards, back, compression=compression)
    adata, found = make(), anndata.read_h5ad(back)
    assert set(found.layers) == set(NAMES["layers"]) and set(found.obsm) == set(NAMES["obsm"])
    for name in NAMES["layers"]:
        np.testing.assert_array_equal(as_array(found.layers[name]), as_array(adata.layers[name]))
        assert found.layers[name].dtype == adata.layers[name].dtype
    for name in NAMES["obsm"]:
        np.testing.assert_array_equal(found.obsm[name], adata.obsm[name])
        assert found.obsm[name].dtype == adata.obsm[name].dtype
    run("export", shards.path, "--output", tmp_path / "cli.h5ad", "--layers", "dense")
    some = anndata.read_h5ad(tmp_path / "cli.h5ad")
    assert set(some.layers) == {"dense"} and not some.obsm
    cf.export_h5ad(cf.open(shards), tmp_path / "none.h5ad")
    assert not anndata.read_h5ad(tmp_path / "none.h5ad").layers
    cf.export_h5ad(cf.open(path, obsm="X_pca"), tmp_path / "of_file.h5ad")
    direct = anndata.read_h5ad(tmp_path / "of_file.h5ad")
    np.testing.assert_array_equal(direct.obsm["X_pca"], adata.obsm["X_pca"])
    assert not direct.layers
    check_all(cf.open(back, **NAMES), [adata])


@pytest.mark.parametrize("n_genes", [3, 30])
@pytest.mark.parametrize("layout", ["packed", "dense"])
def test_a_layer_beside_raw_is_refused_before_anything_is_written(path, tmp_path, layout, n_genes):
    adata = anndata.read_h5ad(path)
    adata.raw = anndata.AnnData(
        np.ones((adata.n_obs, n_genes), "float32"),
        obs=adata.obs,
        var=pd.DataFrame(index=[f"raw{i}" for i in range(n_genes)]),
    )
    adata.write_h5ad(tmp_path / "raw.h5ad")
    cells = cf.open(tmp_path / "raw.h5ad", layer="raw/X", layers=["spliced"])
    for given in (cells, cells[1:3]):
        with pytest.raises(InvalidArgumentError, match="'layers/spliced' has other genes than"):
            cf.convert_to_shards(given, tmp_path / "s", layout=layout)
        with pytest.raises(InvalidArgumentError, match="'layers/spliced' has other genes than"):
            cf.export_h5ad(given, tmp_path / "back.h5ad")
        assert not (tmp_path / "s" / "shard_metadata.json").exists()
        assert not (tmp_path / "back.h5ad").exists()


@pytest.mark.parametrize("layer", ["spliced", "layers/spliced"])
@pytest.mark.parametrize("again", ["spliced", "layers/spliced"])
def test_a_matrix_is_not_written_twice(path, tmp_path, layer, again):
    said = run(
        "shard", path, "--output-dir", tmp_path / "s", "--layer", layer, "--layers", again, code=1
    )
    assert "'layers/spliced' cannot be one of layers" in said
    with pytest.raises(InvalidArgumentError, match="spliced"):
        cf.open(path, layer=layer, layers=[again])
