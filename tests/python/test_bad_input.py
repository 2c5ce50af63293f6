"""Files that are damaged, odd or not what they say: an error says what, where and what to do."""

import gzip
import os
import pathlib
import shutil
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import cellfeed as cf


def write_csr(path, data, indices, indptr, shape, *, group="X", genes=None, dtype=None, **storage):
    """An .h5ad file written array by array, so that it can be wrong in any way."""
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        x = file.create_group(group)
        x.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0"})
        x.attrs["shape"] = shape
        x.create_dataset("data", data=np.asarray(data, dtype=dtype or "float32"), **storage)
        x.create_dataset("indices", data=np.asarray(indices, dtype="int32"), **storage)
        x.create_dataset("indptr", data=np.asarray(indptr, dtype="int64"))
        names = [f"gene{i}" for i in range(shape[1])] if genes is None else genes
        for frame, index in (("obs", [f"cell{i}" for i in range(shape[0])]), ("var", names)):
            table = file.create_group(frame)
            table.attrs.update(
                {"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"}
            )
            table.attrs["column-order"] = np.array([], dtype=h5py.string_dtype())
            values = table.create_dataset("_index", data=np.array(index, dtype=h5py.string_dtype()))
            values.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
    return path


def good(path, **changes):
    parts = {
        "data": [1, 2, 3, 4], "indices": [0, 2, 1, 2], "indptr": [0, 2, 3, 4], "shape": (3, 3),
    }  # fmt: skip
    return write_csr(path, **{**parts, **changes})


def read_everything(path, **options):
    cells = cf.open(path, **options)
    return cells.read(slice(None), dtype="float64")


def assert_refused(path, *words, kind=cf.errors.CellfeedError, look=read_everything):
    """The error names the file and each of the words; shards made of it leave nothing behind."""
    with pytest.raises(kind) as caught:
        look(path)
    message = str(caught.value)
    assert os.fspath(path) in message
    for word in words:
        assert word in message, message
    target = pathlib.Path(path).parent / "made"
    with pytest.raises(cf.errors.CellfeedError) as caught:
        cf.convert_to_shards(path, target)
    assert os.fspath(path) in str(caught.value)
    assert not (target / "shard_metadata.json").exists()
    assert not list(target.glob("*.cells")) and not list(target.glob("*.tmp*"))
    shutil.rmtree(target, ignore_errors=True)


def test_the_writer_of_these_files_writes_good_ones(tmp_path):
    path = good(tmp_path / "a.h5ad")
    expected = anndata.read_h5ad(path).X.toarray()
    np.testing.assert_array_equal(read_everything(path).to_numpy(), expected)


def test_a_missing_file(tmp_path):
    assert_refused(tmp_path / "none.h5ad", kind=FileNotFoundError)
    assert_refused(tmp_path / "none_*.h5ad", kind=FileNotFoundError)


def test_an_empty_file(tmp_path):
    (tmp_path / "a.h5ad").write_bytes(b"")
    assert_refused(tmp_path / "a.h5ad", "empty")


def test_a_file_that_is_not_hdf5(tmp_path):
    (tmp_path / "a.h5ad").write_bytes(b"cell,gene1,gene2\n" * 100)
    assert_refused(tmp_path / "a.h5ad", "HDF5")


def test_a_git_lfs_pointer(tmp_path):
    (tmp_path / "a.h5ad").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 3294856\n"
    )
    assert_refused(tmp_path / "a.h5ad", "git lfs pull")


def loom(path):
    with h5py.File(path, "w") as file:
        file["matrix"] = np.ones((4, 3))
        file["row_attrs/Gene"], file["col_attrs/CellID"] = np.arange(4), np.arange(3)
        file["layers/spliced"] = np.ones((4, 3))


def molecules(path):
    with h5py.File(path, "w") as file:
        for name in ["barcode_idx", "umi", "count", "feature_idx", "gem_group"]:
            file[name] = np.arange(3)
        file["barcodes"] = np.array([b"AAA", b"CCC", b"GGG"])


def soma(path):
    path.mkdir()
    (path / "__tiledb_group.tdb").touch()


OTHERS = {
    "a.loom": (loom, "loom file", "read_loom"),
    "molecule_info.h5": (molecules, "molecule_info.h5", "filtered_feature_bc_matrix.h5"),
    "soma": (soma, "TileDB-SOMA", "to_h5ad"),
    "a.h5ad.gz": (lambda path: path.write_bytes(gzip.compress(b"x" * 1000)), "gzip", "gunzip"),
    "a.h5.gz": (lambda path: path.write_bytes(gzip.compress(b"")), "gzip", "gunzip"),
    "a.parquet": (lambda path: path.write_bytes(gzip.compress(b"PAR1")), "gzip", "gunzip"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds_are_named(tmp_path, name):
    write, *words = OTHERS[name]
    write(tmp_path / name)
    assert_refused(tmp_path / name, *words, kind=cf.errors.UnsupportedError)
    if name == "a.loom":
        assert_refused(tmp_path / name, *words, look=lambda p: cf.open(p, layer="spliced"))


def test_no_file_of_an_unreadable_kind_is_proposed(tmp_path):
    for name in ["x.rds", "x.h5ad.gz"]:
        (tmp_path / name).touch()
    with pytest.raises(FileNotFoundError) as caught:
        cf.open(tmp_path / "x.h5ad")
    assert "did you mean" not in str(caught.value)
    (tmp_path / "x.h5").touch()
    with pytest.raises(FileNotFoundError, match=r"did you mean 'x\.h5'"):
        cf.open(tmp_path / "x.h5ad")


def test_an_empty_directory_is_not_a_shard_directory(tmp_path):
    (tmp_path / "d").mkdir()
    assert_refused(tmp_path / "d")


@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file(shared_data, tmp_path, fraction):
    whole = (shared_data / "anndata/scp1884.h5ad").read_bytes()
    (tmp_path / "a.h5ad").write_bytes(whole[: int(len(whole) * fraction)])
    assert_refused(tmp_path / "a.h5ad")


def test_a_file_without_x(tmp_path):
    assert_refused(good(tmp_path / "a.h5ad", group="not_X"), "X", kind=KeyError)


def test_a_layer_that_is_not_there_names_those_there_are(shared_data):
    path = shared_data / "anndata/dentategyrus_100obs_layers.h5ad"
    with pytest.raises(KeyError, match="spliced") as caught:
        cf.open(path, layer="counts")
    assert "counts" in str(caught.value)


@pytest.mark.parametrize(
    "indptr",
    [
        [0, 3, 2, 4],
        [1, 2, 3, 4],
        [0, 2, 3, 9],
        [0, 2, 3, 3],
        [0, -1, 3, 4],
        [0, 2, 3],
        [0, 2**62, 3, 4],
    ],
)
def test_row_starts_that_cannot_be(tmp_path, indptr):
    assert_refused(good(tmp_path / "a.h5ad", indptr=indptr), "indptr", kind=OSError)


@pytest.mark.parametrize("index", [3, -1, 2**31 - 1])
def test_an_index_out_of_range(tmp_path, index):
    path = good(tmp_path / "a.h5ad", indices=[0, 2, index, 2])
    assert_refused(path, "row 1", str(index), kind=OSError)


def test_fewer_values_than_indices(tmp_path):
    assert_refused(good(tmp_path / "a.h5ad", data=[1, 2, 3]), "data", kind=OSError)


def test_a_shape_that_does_not_fit_obs_or_var(tmp_path):
    path = good(tmp_path / "a.h5ad")
    with h5py.File(path, "r+") as file:
        file["X"].attrs["shape"] = (3, 5)
    assert_refused(path, kind=OSError)


def test_a_damaged_compressed_chunk(tmp_path):
    path = tmp_path / "a.h5ad"
    n = 20_000
    random = np.random.default_rng(0)
    write_csr(
        path, random.integers(1, 9, n), random.integers(0, 50, n), np.arange(0, n + 1, 10),
        (n // 10, 50), compression="gzip", chunks=(5000,),
    )  # fmt: skip
    with h5py.File(path) as file:
        chunk = file["X/data"].id.get_chunk_info(2)
    whole = bytearray(path.read_bytes())
    middle = chunk.byte_offset + chunk.size // 2
    whole[middle : middle + 64] = bytes(64)
    path.write_bytes(whole)
    assert_refused(path, kind=OSError)


def test_duplicate_entries_are_summed_and_unsorted_ones_sorted(tmp_path):
    path = write_csr(tmp_path / "a.h5ad", [1, 2, 4, 8], [2, 0, 2, 1], [0, 3, 4], (2, 3))
    batch = read_everything(path)
    np.testing.assert_array_equal(batch.to_numpy(), [[2, 0, 5], [0, 8, 0]])
    assert list(batch.indices) == [0, 2, 1] and list(batch.indptr) == [0, 2, 3]
    cf.convert_to_shards(path, tmp_path / "s")
    np.testing.assert_array_equal(cf.open(tmp_path / "s")[:].to_numpy(), batch.to_numpy())


def test_nan_and_infinite_values_stay_and_are_counted(tmp_path):
    values = [np.nan, np.inf, -np.inf, 1]
    path = good(tmp_path / "a.h5ad", data=values)
    np.testing.assert_array_equal(read_everything(path).data, values)
    result = cf.convert_to_shards(path, tmp_path / "s")
    assert result.not_finite == 3
    np.testing.assert_array_equal(cf.open(result)[:].data, np.array(values, np.float32))
    with pytest.raises(ValueError, match="int32"):
        cf.open(path).read(slice(None), dtype="int32")


def test_counts_above_2_to_the_53(tmp_path):
    large = 2**53 + 1
    path = good(tmp_path / "a.h5ad", data=[1, large, 3, 4], dtype="int64")
    for dtype in ("float32", "float64"):
        with pytest.raises(cf.errors.PrecisionError, match=str(large)):
            cf.open(path).read(slice(None), dtype=dtype)
    assert cf.open(path).read(slice(None), dtype="int64").data[1] == large
    result = cf.convert_to_shards(path, tmp_path / "s")
    assert cf.open(result).read(slice(None), dtype="int64").data[1] == large


def test_no_cells(tmp_path):
    path = good(tmp_path / "a.h5ad", data=[], indices=[], indptr=[0], shape=(0, 3))
    cells = cf.open(path)
    assert cells.shape == (0, 3)
    with pytest.raises(ValueError, match="no cells"):
        cf.Loader(cells, cf.Streaming())
    with pytest.raises(ValueError, match="cells"):
        cf.convert_to_shards(path, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_no_genes(tmp_path):
    path = good(tmp_path / "a.h5ad", data=[], indices=[], indptr=[0, 0, 0], shape=(2, 0))
    assert cf.open(path)[:].shape == (2, 0)
    with pytest.raises(ValueError, match="genes"):
        cf.convert_to_shards(path, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_cells_without_counts_are_cells(tmp_path):
    path = good(tmp_path / "a.h5ad", data=[7], indices=[1], indptr=[0, 0, 1, 1], shape=(3, 3))
    cf.convert_to_shards(path, tmp_path / "s", shard_size=1)
    for source in (path, tmp_path / "s"):
        batch = cf.open(source).read([2, 1, 0], transforms=[cf.NormalizeTotal(1), cf.Log1p()])
        np.testing.assert_allclose(batch.to_numpy(), [[0, 0, 0], [0, np.log(2), 0], [0, 0, 0]])


def test_repeated_gene_names_are_named_or_numbered(tmp_path):
    path = good(tmp_path / "a.h5ad", genes=["TP53", "CD4", "TP53"])
    with pytest.raises(ValueError, match="TP53") as caught:
        cf.open(path)
    assert "make_unique" in str(caught.value)
    cells = cf.open(path, make_unique=True)
    assert list(cells.var_names) == ["TP53", "CD4", "TP53-1"]


def test_two_to_the_31_nonzeros_in_one_file(tmp_path):
    """Row starts above 2^31 in a file whose chunks were never written, so that it is small."""
    path, nnz = tmp_path / "a.h5ad", 2**31 + 1000
    indptr = np.array([0, 10, nnz - 5, nnz], dtype="int64")
    good(path)
    with h5py.File(path, "r+") as file:
        x = file["X"]
        for name, dtype in (("data", "float32"), ("indices", "int32")):
            del x[name]
            x.create_dataset(name, shape=(nnz,), dtype=dtype, chunks=(1 << 20,), fillvalue=0)
        x["data"][-5:], x["indices"][-5:] = [1, 2, 3, 4, 5], [0, 1, 2, 3, 4]
        x["data"][:10], x["indices"][:10] = np.arange(1, 11), np.arange(10)
        del x["indptr"]
        x["indptr"] = indptr
        x.attrs["shape"] = (3, 20)
        del file["var/_index"]
        names = np.array([f"g{i}" for i in range(20)], dtype=h5py.string_dtype())
        file["var"].create_dataset("_index", data=names).attrs.update(
            {"encoding-type": "string-array", "encoding-version": "0.2.0"}
        )
    batch = cf.open(path)[[2, 0]]
    np.testing.assert_array_equal(batch.x[0].toarray()[0, :5], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(batch.x[1].toarray()[0, :10], np.arange(1, 11))
    with pytest.raises(cf.errors.CellfeedError, match=f"row 1, entries {nnz - 15}"):
        cf.open(path).read([1, 0])


@pytest.mark.parametrize("kind", ["missing", "numbers", "codes"])
def test_obs_columns_that_are_not_there_or_broken(tmp_path, kind):
    path = tmp_path / "a.h5ad"
    obs = pd.DataFrame(
        {"type": pd.Categorical(["a", "b", "a"]), "depth": [1.0, 2.0, 3.0]}, index=list("xyz")
    )
    anndata.AnnData(scipy.sparse.eye(3, format="csr"), obs=obs).write_h5ad(path)
    if kind == "missing":
        with pytest.raises(KeyError, match="type, depth"):
            cf.open(path, obs=["typo"])
    elif kind == "numbers":
        with pytest.raises(KeyError, match="float64"):
            cf.open(path).categories("depth")
    else:
        with h5py.File(path, "r+") as file:
            file["obs/type/codes"][1] = 7
        with pytest.raises(OSError, match="type"):
            cf.open(path).obs_values("type")


@pytest.mark.parametrize("where", ["index", "text", "label", "gene", "column"])
def test_texts_that_are_not_utf8_are_named_and_those_of_other_columns_still_read(tmp_path, where):
    path = tmp_path / "a.h5ad"
    obs = pd.DataFrame(
        {
            "label": pd.Categorical(["a", "b", "a"]),
            "text": ["p", "q", "r"],
            "depth": [1.0, 2.0, 3.0],
        },
        index=list("xyz"),
    )
    var = pd.DataFrame(index=["g0", "g1", "g2"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anndata.AnnData(scipy.sparse.eye(3, format="csr"), obs, var).write_h5ad(path)
    named = {"index": "obs/_index", "text": "obs/text", "label": "obs/label/categories",
             "gene": "var/_index", "column": "obs/column-order"}[where]  # fmt: skip
    with h5py.File(path, "r+") as file:
        if where == "column":
            order = np.array([b"label", b"text", b"dep\xffh"], h5py.string_dtype())
            file["obs"].attrs["column-order"] = order
        else:
            file[named][1] = b"caf\xe9"
    with pytest.raises(UnicodeError):
        anndata.read_h5ad(path).obs["label"].astype(str)
    if where in ("gene", "column"):
        return assert_refused(path, "UTF-8", look=cf.open)
    assert_refused(path, "UTF-8", named, look=lambda path: cf.open(path).obs_table())
    np.testing.assert_array_equal(cf.open(path).obs_values("depth"), [1, 2, 3])


def stored_bytes(path) -> list[tuple[int, int]]:
    """Where the numbers of X and the codes of obs lie in the file: offset and size."""
    places = []

    def visit(name, item):
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "iuf":
            if item.chunks is None:
                places.append((item.id.get_offset(), item.id.get_storage_size()))
            for k in range(item.id.get_num_chunks() if item.chunks else 0):
                chunk = item.id.get_chunk_info(k)
                places.append((chunk.byte_offset, chunk.size))

    with h5py.File(path) as file:
        for name in ("X", "obs"):
            file[name].visititems(visit)
    return [place for place in places if place[0] is not None and place[1] > 0]


@pytest.mark.parametrize("name", ["pbmc-small-x-csr.h5ad", "zheng68k_165.h5ad"])
def test_any_damaged_number_is_an_error_or_a_value_but_never_a_crash(shared_data, tmp_path, name):
    """Bits of matrix and codes flipped at random: reading ends in an error or in values."""
    whole = (shared_data / "anndata" / name).read_bytes()
    places = stored_bytes(shared_data / "anndata" / name)
    random, n_errors = np.random.default_rng(0), 0
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(random.integers(1, 20)):
            offset, size = places[random.integers(len(places))]
            damaged[offset + random.integers(size)] ^= 1 << random.integers(8)
        (tmp_path / "a.h5ad").write_bytes(damaged)
        try:
            cells = cf.open(tmp_path / "a.h5ad")
            cells.read(slice(None), casting="same_kind")
            for column in cells.obs_keys():
                cells.obs_values(column)
        except cf.errors.CellfeedError as error:
            n_errors += 1
            assert not isinstance(error, cf.errors.InternalError), error
    assert n_errors > 10


@pytest.mark.parametrize(
    "act",
    [
        lambda path: cf.open(path),
        lambda path: cf.convert_to_shards(path, "out"),
        lambda path: cf.info(path),
    ],
)
def test_a_path_with_a_nul_byte_never_opens_what_stands_before_it(tmp_path, act):
    path = good(tmp_path / "good.h5ad")
    with pytest.raises(cf.errors.InvalidArgumentError, match="NUL byte"):
        act(f"{path}\0.h5ad")


def test_shards_are_not_written_to_what_stands_before_a_nul_byte(tmp_path):
    path = good(tmp_path / "good.h5ad")
    with pytest.raises(cf.errors.InvalidArgumentError, match="NUL byte"):
        cf.convert_to_shards(path, f"{tmp_path}/out\0x")
    assert not (tmp_path / "out").exists()


def test_secrets_of_urls_are_masked_in_every_message():
    for url in ("s3://KEY:SECRET@bucket/a.h5ad", "https://host/a.h5ad?x=1&sig=SECRET"):
        with pytest.raises(cf.errors.CellfeedError) as caught:
            cf.open(url)
        assert "SECRET" not in str(caught.value)
        assert "SECRET" not in str(caught.value.path)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
def test_pipes_and_devices_are_refused_at_once(tmp_path, make):
    path = tmp_path / "cells.h5ad"
    make(path)
    assert_refused(path, "not a regular file")


def test_of_many_bad_files_the_first_is_named(tmp_path):
    paths = [good(tmp_path / f"{i:02}.h5ad") for i in range(40)]
    for bad in (37, 11, 24):
        paths[bad].write_bytes(paths[bad].read_bytes()[:-500])
    for _ in range(20):
        with pytest.raises(cf.errors.CorruptDataError) as caught:
            cf.open(paths)
        assert caught.value.path == str(paths[11])


def test_many_files_stay_in_their_order(tmp_path):
    paths = []
    for i in range(40):
        paths.append(good(tmp_path / f"{i:02}.h5ad", data=[i + 1, i + 2, i + 3, i + 4]))
    for _ in range(5):
        x = cf.open(paths).read(slice(None)).x
        assert list(x.data) == [i + k for i in range(40) for k in range(1, 5)]
