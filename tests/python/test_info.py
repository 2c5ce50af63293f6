"""`cellfeed info` says what is in any file, and what would be done with it."""

from __future__ import annotations

import json

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import REAL_DATA
from mtx_files import random_counts, write_mtx
from program import run
from user_cache import rows_folder

import cellfeed as cf


def matrices_of(path) -> dict[str, dict]:
    told = json.loads(run("info", path, "--json"))
    in_words_of_the_program = json.dumps(cf.info(path)).replace(
        "cellfeed.open(..., layer=None)", "--layer none"
    )
    assert json.loads(in_words_of_the_program) == told
    return {matrix.pop("name"): matrix for matrix in told.get("matrices", [])}


def stored_matrices(file: h5py.File) -> dict[str, h5py.Group | h5py.Dataset]:
    found = {name: file[name] for name in ("X", "raw/X") if name in file}
    if "raw/X" not in found and "raw.X" in file:
        found["raw/X"] = file["raw.X"]
    for folder in ("layers", "obsm"):
        if isinstance(file.get(folder), h5py.Group):
            found |= {f"{folder}/{name}": file[folder][name] for name in file[folder]}
    if isinstance(file.get("obsm"), h5py.Dataset):  # a table, of anndata 0.6 and older
        found |= {f"obsm/{name}": file["obsm"] for name in file["obsm"].dtype.names}
    return {
        name: value for name, value in found.items() if value.attrs.get("encoding-type") != "null"
    }


def assert_as_h5py_says(path) -> None:
    told = matrices_of(path)
    with h5py.File(path) as file:
        expected = stored_matrices(file)
        assert list(told) == sorted(expected, key=lambda name: list(told).index(name))
        for name, stored in expected.items():
            if isinstance(stored, h5py.Group) and "data" not in stored:
                continue
            if isinstance(stored, h5py.Dataset) and stored.dtype.names:
                field = stored.dtype[name.removeprefix("obsm/")]
                matrix = told[name]
                assert matrix["encoding"] == "dense, of anndata 0.6"
                assert matrix["shape"] == [len(stored), *field.shape]
                assert matrix["value_dtype"] == field.base.name
                assert tuple(matrix["chunk_shape"]) == stored.chunks
                cf.open(path, make_unique=True, cache_dir=None, obsm=[name[5:]])
                continue
            values = stored["data"] if isinstance(stored, h5py.Group) else stored
            if values.dtype.kind not in "iufb":
                continue
            matrix = told[name]
            assert matrix["value_dtype"].split(" ")[0] == values.dtype.name, name
            assert tuple(matrix["chunk_shape"]) == (values.chunks or ()), name
            assert ("gzip" in matrix["filters"]) == (values.compression == "gzip"), name
            assert ("shuffle" in matrix["filters"]) == values.shuffle, name
            if isinstance(stored, h5py.Group):
                shape = stored.attrs.get("shape", stored.attrs.get("h5sparse_shape"))
                assert matrix["nnz"] == len(values), name
                kind = stored.attrs.get("encoding-type", stored.attrs.get("h5sparse_format"))
                assert matrix["encoding"][:3] == kind[:3], name
            else:
                shape = stored.shape
                assert (matrix["encoding"], matrix["nnz"]) == ("dense", None), name
            assert matrix["shape"] == list(shape), name
            layer = {"layer": name.removeprefix("layers/")}
            if name.startswith("obsm/"):
                by_rows = [one for one, how in told.items() if how["use"] == "rows"]
                if not by_rows or by_rows[0].startswith("obsm/"):
                    continue
                layer = {"layer": by_rows[0].removeprefix("layers/"), "obsm": [name[5:]]}
            if matrix["use"] == "rows":
                cf.open(path, make_unique=True, cache_dir=None, **layer)
            else:
                with pytest.raises(cf.errors.CellfeedError):
                    cf.open(path, make_unique=True, cache_dir=None, **layer)
                assert (matrix["use"] == "cache") == (matrix["encoding"][:3] == "csc"), name


def real_files() -> list[str]:
    found = [*REAL_DATA.glob("anndata/*.h5ad"), *REAL_DATA.glob("odd/*.h5ad")]
    return sorted(path.relative_to(REAL_DATA).as_posix() for path in found)


@pytest.mark.parametrize("name", real_files() or ["none"])
def test_real_files_are_described_as_h5py_describes_them(name):
    if not real_files():
        pytest.skip(f"no real data at {REAL_DATA}")
    path = REAL_DATA / name
    try:
        cells = cf.open(path, make_unique=True, cache_dir=None)
    except cf.errors.UnsupportedError:
        pass
    except cf.errors.CellfeedError as error:
        if "layer=None" not in str(error):
            run("info", path, code=1)
            return
    else:
        assert cf.info(path)["n_cells"] == len(cells)
    assert_as_h5py_says(path)


def write_all_kinds(path) -> anndata.AnnData:
    x = random_counts(30, 20).astype(np.float32)
    obs = pd.DataFrame(index=[f"c{i}" for i in range(30)])
    adata = anndata.AnnData(x, obs, layers={"by_gene": x.tocsc(), "full": x.toarray()})
    adata.obsm["X_pca"] = np.zeros((30, 5), np.float16)
    adata.obsm["table"] = pd.DataFrame({"a": range(30)}, index=obs.index)
    adata.raw = adata
    adata.write_h5ad(path, compression="gzip")
    return adata


def test_every_encoding_and_what_would_be_done(tmp_path):
    path = tmp_path / "a.h5ad"
    write_all_kinds(path)
    assert_as_h5py_says(path)
    told = matrices_of(path)
    assert {name: (matrix["encoding"], matrix["use"]) for name, matrix in told.items()} == {
        "X": ("csr", "rows"),
        "raw/X": ("csr", "rows"),
        "layers/by_gene": ("csc", "cache"),
        "layers/full": ("dense", "rows"),
        "obsm/X_pca": ("dense", "rows"),
        "obsm/table": ("dataframe", "rows"),
    }
    text = run("info", path)
    assert f"rows are written once to {rows_folder(path)}/layers.by_gene (not there yet)" in text
    assert "obsm/X_pca: dense float16 30 x 5" in text
    cf.open(path, layer="by_gene").close()
    assert matrices_of(path)["layers/by_gene"]["has_cached_rows"]


def test_without_x_the_others_are_described(tmp_path):
    path = tmp_path / "a.h5ad"
    write_all_kinds(path)
    with h5py.File(path, "a") as file:
        del file["X"]
    text = run("info", path)
    assert "refused       " in text
    assert "the file has no X; name one of its matrices instead" in text
    assert "layer         raw/X" in text
    with pytest.raises(cf.errors.NoSuchKeyError, match="layers/by_gene"):
        cf.open(path)


def test_what_is_refused_says_why(tmp_path):
    path = tmp_path / "a.h5ad"
    write_all_kinds(path)
    with h5py.File(path, "a") as file:
        del file["layers/by_gene/indices"]
        del file["layers/full"]
        file.create_dataset("layers/full", data=np.zeros((30, 20), "i4"), scaleoffset=3)
        file["layers/text"] = "not a matrix"
    told = matrices_of(path)
    assert told["layers/by_gene"]["use"] == "refused"
    assert "layers/by_gene/indices" in told["layers/by_gene"]["reason"]
    assert "scale" in told["layers/full"]["reason"]
    assert "scale" in told["layers/full"]["filters"]
    assert told["layers/text"]["use"] == "refused"
    assert told["X"]["use"] == "rows"


def test_other_formats_have_one_matrix(tmp_path):
    folder = write_mtx(tmp_path / "a", random_counts(30, 20))
    cf.convert_to_shards(folder, tmp_path / "shards")
    for path, form in ((folder, "mtx"), (tmp_path / "shards", "shard")):
        told = json.loads(run("info", path, "--json"))
        assert (told["format"], told["n_cells"], told["n_genes"]) == (form, 30, 20)
        assert "matrices" not in told
    assert (sp.csr_matrix(random_counts(30, 20)) != cf.open(tmp_path / "shards")[:].x).nnz == 0


def test_bytes_are_those_of_the_files(tmp_path):
    folder = write_mtx(tmp_path / "a", random_counts(300, 20))
    made = cf.convert_to_shards(folder, tmp_path / "shards")
    files = [path for path in (tmp_path / "shards").iterdir() if path.name != "shard_metadata.json"]
    told = cf.info(tmp_path / "shards")["bytes"]
    assert told == sum(path.stat().st_size for path in files) == made.bytes
