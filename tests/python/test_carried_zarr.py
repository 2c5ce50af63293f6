"""uns and varm of a single zarr store: in shards, and back in what is exported."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr
from test_carried_annotations import annotated, assert_same, read
from zarr_files import forget_consolidated, read_store, write_store, zip_store

import cellfeed as cf
from cellfeed.errors import CorruptDataError, LeftOutWarning

pytestmark = pytest.mark.slow


def richly_annotated(path):
    """What zarr holds and HDF5 has in another way, beside what files are tested with."""
    adata = annotated(path)
    rng = np.random.default_rng(1)
    adata.uns |= {
        "unsigned": np.uint64(2**63 + 5),
        "none": None,
        "nothing in it": {},
        "no texts": np.array([], dtype=object),
        "table of texts": np.array([["a", "é"], ["", "d"], ["e", "f" * 99]], dtype=object),
        "flags": np.array([[True, False], [False, True]]),
        "categories": pd.Categorical(["b", None, "a", "b"], ordered=True),
        "nullable": {
            "flags": pd.array([True, None, False], dtype="boolean"),
            "numbers": pd.array([2**62, None], dtype="Int64"),
        },
        "complex": np.array([[1 + 2j], [-3.5j]]),
        "columns": scipy.sparse.random(9, 7, 0.3, format="csc", rng=rng),
        "no columns": pd.DataFrame(index=["r0", "r1"]),
        "zeros": np.zeros((70, 3), dtype="int32"),
        "far": rng.integers(0, 1 << 40, size=(101, 33)),
    }
    adata.varm["frame"] = pd.DataFrame({"q": np.arange(12.0)}, index=list(adata.var_names))
    adata.varm["sparse"] = scipy.sparse.random(12, 3, 0.5, format="csr", rng=rng)
    return adata


def as_of_hdf5(value):
    """Texts of HDF5 are objects for anndata, and those of zarr NumPy's own."""
    if isinstance(value, dict):
        return {name: as_of_hdf5(part) for name, part in value.items()}
    is_texts = isinstance(value, np.ndarray) and value.dtype.kind == "T"
    return value.astype(object) if is_texts else value


def assert_same_annotations(found, expected):
    """Of two AnnData, as anndata reads them."""
    plain = {k: v for k, v in expected.uns.items() if k not in ("categories", "nullable")}
    assert_same({name: found.uns[name] for name in plain}, as_of_hdf5(plain))
    assert sorted(found.uns) == sorted(expected.uns)
    pd.testing.assert_series_equal(
        pd.Series(found.uns["categories"]), pd.Series(expected.uns["categories"])
    )
    for name, values in expected.uns["nullable"].items():
        pd.testing.assert_extension_array_equal(found.uns["nullable"][name], values)
    assert sorted(found.varm) == sorted(expected.varm)
    np.testing.assert_array_equal(found.varm["PCs"], expected.varm["PCs"])
    pd.testing.assert_frame_equal(found.varm["frame"], expected.varm["frame"])
    assert (found.varm["sparse"] != expected.varm["sparse"]).nnz == 0


@pytest.mark.filterwarnings("error::cellfeed.errors.LeftOutWarning")
@pytest.mark.parametrize("how", ["folder", "zip", "not consolidated"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_shards_and_exports_have_what_anndata_reads_of_the_store(tmp_path, zarr_format, how):
    adata = richly_annotated(tmp_path / "a.h5ad")
    path = write_store(adata, tmp_path / "a.zarr", zarr_format)
    expected = read_store(path)
    if how == "zip":
        path = zip_store(path)
    elif how == "not consolidated":
        forget_consolidated(path)
    cf.export_h5ad(path, tmp_path / "direct.h5ad")
    assert_same_annotations(read(tmp_path / "direct.h5ad"), expected)
    cf.convert_to_shards(path, tmp_path / "shards", shard_size=17)
    cf.export_h5ad(tmp_path / "shards", tmp_path / "b.h5ad")
    assert_same_annotations(read(tmp_path / "b.h5ad"), expected)


@pytest.mark.filterwarnings("error::cellfeed.errors.LeftOutWarning")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_of_every_shape(tmp_path, zarr_format):
    """Also such as no edge of the array falls on, and ones that were never written."""
    path = write_store(annotated(tmp_path / "a.h5ad"), tmp_path / "a.zarr", zarr_format)
    rng = np.random.default_rng(2)
    cubes = {
        "odd": (rng.integers(0, 99, size=(7, 5, 4)), (3, 2, 3)),
        "rows": (rng.normal(size=(20_001, 3)), (1000, 3)),
        "gaps": (np.where(np.arange(40).reshape(8, 5) == 17, 3, -1), (2, 2)),
        "lines": (np.array([[f"{i} {j}" for j in range(5)] for i in range(7)]), (2, 3)),
    }
    root = zarr.open_group(path, mode="r+", use_consolidated=False)
    for name, (values, chunks) in cubes.items():
        is_text = values.dtype.kind == "U"
        array = root["uns"].create_array(
            name,
            shape=values.shape,
            chunks=chunks,
            dtype=str if is_text else values.dtype,
            fill_value=-1 if name == "gaps" else None,
            config={"write_empty_chunks": False},
            attributes={
                "encoding-type": "string-array" if is_text else "array",
                "encoding-version": "0.2.0",
            },
        )
        array[...] = values.astype(object) if is_text else values
    forget_consolidated(path)
    cf.convert_to_shards(path, tmp_path / "shards")
    cf.export_h5ad(tmp_path / "shards", tmp_path / "b.h5ad")
    found = read(tmp_path / "b.h5ad").uns
    for name, (values, _) in cubes.items():
        assert found[name].shape == values.shape, name
        assert found[name].tolist() == values.tolist(), name


def test_the_bytes_are_those_of_the_source_however_often_they_are_written(tmp_path):
    path = write_store(richly_annotated(tmp_path / "a.h5ad"), tmp_path / "a.zarr", 3)
    for name in ("one", "two"):
        cf.convert_to_shards(path, tmp_path / name)
    one, two = ((tmp_path / name / "annotations.h5").read_bytes() for name in ("one", "two"))
    assert one == two


def test_what_hdf5_has_not_is_named_and_the_rest_is_there(tmp_path):
    path = write_store(annotated(tmp_path / "a.h5ad"), tmp_path / "a.zarr", 2)
    root = zarr.open_group(path, mode="r+", use_consolidated=False)
    for name, dtype in (("times", "<M8[s]"), ("transposed", "<i4"), ("nested", "<i4")):
        root["uns"].create_array(name, shape=(3, 3), chunks=(3, 3), dtype=dtype)
    folder = path / "uns"
    described = json.loads((folder / "transposed" / ".zarray").read_text())
    (folder / "transposed" / ".zarray").write_text(json.dumps(described | {"order": "F"}))
    (folder / "nested" / ".zattrs").write_text(json.dumps({"a": {"b": 1}}))
    root["uns"].create_array("cut", shape=(1,), dtype=str)[:] = np.array(["a\0b"], dtype=object)
    root["varm"].create_array("times", shape=(12, 2), dtype="<M8[s]")
    root["varm"].create_array("short", shape=(11, 2), dtype="<i4")
    forget_consolidated(path)
    with pytest.warns(LeftOutWarning) as caught:
        cf.export_h5ad(path, tmp_path / "b.h5ad")
    text = "\n".join(str(warning.message) for warning in caught)
    for part in ("uns/times", "uns/transposed", "uns/nested", "uns/cut", "varm/short: no array"):
        assert part in text, part
    with pytest.warns(LeftOutWarning, match="and 1 more"):
        cf.convert_to_shards(path, tmp_path / "shards")
    expected = annotated(tmp_path / "a.h5ad")
    found = read(tmp_path / "b.h5ad")
    assert sorted(found.uns) == sorted(expected.uns)
    assert list(found.varm) == ["PCs"]


def test_chosen_genes_have_no_varm_and_a_layer_no_mark_of_logarithms(tmp_path):
    adata = annotated(tmp_path / "a.h5ad")
    adata.layers["counts"] = adata.X.copy()
    adata.uns["log1p"] = {"base": 2.0}
    path = write_store(adata, tmp_path / "a.zarr", 3)
    cf.export_h5ad(path, tmp_path / "x.h5ad")
    assert read(tmp_path / "x.h5ad").uns["log1p"] == {"base": 2.0}
    cf.export_h5ad(cf.open(path, layer="counts"), tmp_path / "counts.h5ad")
    assert "log1p" not in read(tmp_path / "counts.h5ad").uns
    cells = cf.open(path)
    with pytest.warns(LeftOutWarning, match="varm: other genes"):
        cf.export_h5ad(cells[:, list(cells.var_names[::-1])], tmp_path / "turned.h5ad")
    assert not read(tmp_path / "turned.h5ad").varm


def chunk_files(folder):
    """Of one array, whatever the format."""
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name[0] in "0123"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_damage_is_an_error_and_nothing_is_written(tmp_path, zarr_format):
    path = write_store(annotated(tmp_path / "a.h5ad"), tmp_path / "a.zarr", zarr_format)
    (chunk,) = chunk_files(path / "uns" / "array")
    chunk.write_bytes(chunk.read_bytes()[:-3])
    with pytest.raises(CorruptDataError, match="uns/array"):
        cf.export_h5ad(path, tmp_path / "b.h5ad")
    assert not (tmp_path / "b.h5ad").exists()
    with pytest.raises(CorruptDataError, match="uns/array"):
        cf.convert_to_shards(path, tmp_path / "shards")
    assert not (tmp_path / "shards" / "annotations.h5").exists()


def test_records_that_a_copy_lost_are_named(tmp_path):
    path = write_store(annotated(tmp_path / "a.h5ad"), tmp_path / "a.zarr", 3)
    shutil.rmtree(path / "uns" / "rank_genes_groups" / "scores" / "c")
    with pytest.warns(LeftOutWarning, match="uns/rank_genes_groups/scores.*never written"):
        cf.export_h5ad(path, tmp_path / "b.h5ad")
    found = read(tmp_path / "b.h5ad").uns["rank_genes_groups"]
    assert sorted(found) == ["names", "params"]
