"""Files of every version of anndata: what anndata reads from them, or a named error."""

import warnings

import anndata
import h5py
import numpy as np
import pytest
import scipy.sparse
from anndata_oracle import assert_same_as_anndata, assert_same_frame, matrices_of
from conftest import REAL_DATA
from real_files import is_csr, read_anndata

import cellfeed as cf

REAL_FILES = sorted(
    path.relative_to(REAL_DATA).as_posix()
    for folder in ("anndata", "odd")
    for path in (REAL_DATA / folder).glob("*.h5ad")
)
N_CELLS, N_GENES = 40, 15


def stored_at(file: h5py.File, layer: str):
    return file["raw.X" if layer == "raw/X" and "raw.X" in file else layer]


def is_by_rows(stored) -> bool:
    """Not CSC, whose rows take a cache."""
    return isinstance(stored, h5py.Dataset) or is_csr(stored)


@pytest.mark.parametrize("name", REAL_FILES or ["none"])
def test_every_real_file_gives_what_anndata_gives(name):
    if not REAL_FILES:
        pytest.skip(f"no real data at {REAL_DATA}")
    path = REAL_DATA / name
    try:
        adata = read_anndata(path)
    except Exception:
        with pytest.raises(cf.errors.CellfeedError, match=path.name):
            cf.open(path)
        return
    with h5py.File(path) as file:
        layers = matrices_of(adata)
        by_rows = [layer for layer in layers if is_by_rows(stored_at(file, layer))]
    if not layers:
        with pytest.raises(cf.errors.NoSuchKeyError, match="no matrix"):
            cf.open(path)
    for layer in by_rows:
        assert_same_as_anndata(path, adata, layer, *layers[layer])


def write_sparse(file: h5py.File, name: str, matrix, kind: str = "csr") -> None:
    group = file.create_group(name)
    group.attrs["h5sparse_format"] = kind
    group.attrs["h5sparse_shape"] = matrix.shape
    for part in ("data", "indices", "indptr"):
        group[part] = getattr(matrix, part)


def counts(n_cells=N_CELLS, n_genes=N_GENES) -> scipy.sparse.csr_matrix:
    return scipy.sparse.random(
        n_cells, n_genes, 0.3, format="csr", random_state=1, dtype=np.float32,
        data_rvs=lambda n: np.arange(1, n + 1, dtype=np.float32),
    )  # fmt: skip


def table(prefix: str, n: int, columns: dict, index=("index", "S12")) -> np.ndarray:
    made = np.zeros(n, [index, *((name, dtype) for name, (dtype, _) in columns.items())])
    names = [f"{prefix}_{i}" for i in range(n)]
    made[index[0]] = [name.encode() for name in names] if index[1] != TEXT else names
    for name, (_, values) in columns.items():
        made[name] = values
    return made


TEXT = h5py.string_dtype()
NUMBERS = np.arange(N_CELLS)
OBS = {
    "cell_type": ("i1", NUMBERS % 4 - 1),
    "donor": (">i2", NUMBERS % 3),
    "plate": ("<u4", NUMBERS % 2),
    "year": ("i1", NUMBERS % 2),
    "only": ("i1", NUMBERS % 2 - 1),
    "shared": ("i1", NUMBERS % 5),
    "n_counts": ("<f4", NUMBERS / 7),
    "n_genes": (">i8", NUMBERS * 2**40),
    "total": (">f8", NUMBERS / 3),
    "half": ("<f2", NUMBERS / 8),
    "is_good": ("?", NUMBERS % 2 == 0),
    "text": (TEXT, [f"Zoë {n}" for n in NUMBERS]),
    "fixed": ("S7", [f"f{n}".encode() for n in NUMBERS]),
}
# "shared" fits var only, as "genes" fits neither and "lonely" is no column.
UNS = {
    "cell_type": np.array(["T", "B", "βeta"], TEXT),
    "donor": np.array([b"d1", b"d2", b"d3"]),
    "plate": np.array([10, 20], "<i8"),
    "year": np.array([1999.5, 2000.5]),
    "only": np.array([b"the only one"]),
    "shared": np.array([b"a", b"b", b"c"]),
    "genes": np.array([b"x"]),
    "lonely": np.array([b"y"]),
    "n_counts_max": np.array([b"z"]),
}


def write_old(path, storage=None, index=("index", "S12"), obs=OBS) -> None:
    """A file in the layout of anndata 0.5 and 0.6, every kind of column in it."""
    genes = np.arange(N_GENES)
    var = {"shared": ("i1", genes % 3), "genes": ("i1", genes % 2), "mean": ("<f4", genes / 3)}
    raw = {"shared": ("i1", np.arange(N_GENES + 5) % 3)}
    with h5py.File(path, "w") as file:
        write_sparse(file, "X", counts())
        write_sparse(file, "raw.X", counts(n_genes=N_GENES + 5))
        file.create_dataset("obs", data=table("cell", N_CELLS, obs, index), **(storage or {}))
        file.create_dataset("var", data=table("gene", N_GENES, var, index), **(storage or {}))
        file["raw.var"] = table("raw", N_GENES + 5, raw, index)
        for name, values in UNS.items():
            file[f"uns/{name}_categories"] = values
        file["uns/scalar_categories"] = "no column either"


def assert_equal_to_anndata(path) -> None:
    adata = read_anndata(path)
    for layer, (matrix, var) in matrices_of(adata).items():
        assert_same_as_anndata(path, adata, layer, matrix, var)


@pytest.mark.parametrize("storage", [{}, {"chunks": (7,)}, {"chunks": (7,), "compression": "gzip"}])
@pytest.mark.parametrize("index", [("index", "S12"), ("cell_names", TEXT)])
def test_compound_tables_and_categories_in_uns(tmp_path, storage, index):
    write_old(tmp_path / "a.h5ad", storage, index)
    assert_equal_to_anndata(tmp_path / "a.h5ad")
    cells = cf.open(tmp_path / "a.h5ad")
    assert cells.categories("cell_type") == ["T", "B", "βeta"]
    assert cells.categories("plate") == [10, 20]
    assert not cells.obs_column("shared").is_categorical
    assert cf.open(tmp_path / "a.h5ad", layer="raw/X").files[0]["layer"] == "raw/X"


def test_rows_of_old_tables_come_in_ranges_and_go_to_shards(tmp_path):
    write_old(tmp_path / "a.h5ad", {"chunks": (7,), "compression": "gzip"})
    adata = read_anndata(tmp_path / "a.h5ad")
    cells = cf.open(tmp_path / "a.h5ad")
    assert_same_frame(cells.obs_table(begin=5, end=23), adata.obs.iloc[5:23])
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "shards", shard_size=16)
    again = cf.open(tmp_path / "shards")
    assert again.categories("cell_type") == ["T", "B", "βeta"]
    np.testing.assert_array_equal(again.obs_values("cell_type"), adata.obs["cell_type"].cat.codes)
    np.testing.assert_array_equal(again[:].to_numpy(), adata.X.toarray())


def test_a_large_old_file_with_other_categories_is_another(tmp_path):
    """Categories in uns are no part of obs, and few of the bytes of a large file are looked at."""
    path = tmp_path / "a.h5ad"
    write_old(path)
    names = [letter * 2000 for letter in "abc"]  # too long for a gap at the file's beginning
    with h5py.File(path, "a") as file:
        del file["uns/donor_categories"]
        file["uns/before"] = np.zeros(750_000)
        file["uns/donor_categories"] = np.array(names, "S2000")
        file["uns/after"] = np.zeros(750_000)
    before = cf.open(path).fingerprint
    with h5py.File(path, "a") as file:
        file["uns/donor_categories"][...] = np.array(names[::-1], "S2000")
    assert cf.open(path).categories("donor") == names[::-1]
    assert cf.open(path).fingerprint != before


def test_a_category_alone_may_be_a_scalar(tmp_path):
    write_old(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        del file["uns/only_categories"]
        file["uns/only_categories"] = "alone"
    assert_equal_to_anndata(tmp_path / "a.h5ad")
    assert cf.open(tmp_path / "a.h5ad").categories("only") == ["alone"]


def test_a_code_below_minus_one_is_named(tmp_path):
    columns = {**OBS, "cell_type": ("i1", NUMBERS % 4 - 2)}
    write_old(tmp_path / "a.h5ad", obs=columns)
    with pytest.raises(ValueError, match="codes"):
        read_anndata(tmp_path / "a.h5ad")
    with pytest.raises(cf.errors.CorruptDataError, match=r"'obs/cell_type', row 0: code -2"):
        cf.open(tmp_path / "a.h5ad").obs_values("cell_type")


def test_a_column_that_no_batch_can_have_is_named(tmp_path):
    columns = {**OBS, "pair": (("<f4", (2,)), np.zeros((N_CELLS, 2)))}
    write_old(tmp_path / "a.h5ad", obs=columns)
    cells = cf.open(tmp_path / "a.h5ad", obs="cell_type")
    with pytest.raises(cf.errors.UnsupportedError, match=r"'obs/pair' is of type array of float32"):
        cells.obs_values("pair")


def write_07(path) -> None:
    """A dataframe of anndata 0.7: codes refer to their categories."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anndata.AnnData(counts()).write_h5ad(path)
    with h5py.File(path, "a") as file:
        obs = file["obs"]
        obs.attrs["encoding-version"] = "0.1.0"
        names = {"cell_type": ["T", "B", "βeta"], "donor": ["d1", "d2", "d3", "d4"]}
        obs.attrs["column-order"] = np.array(list(names), TEXT)
        for number, (name, categories) in enumerate(names.items()):
            kept = obs.create_dataset(f"__categories/{name}", data=np.array(categories, TEXT))
            kept.attrs["ordered"] = number == 1
            obs[name] = (NUMBERS % 4 - 1).astype("i1")
            obs[name].attrs["categories"] = kept.ref


def test_categories_are_those_that_the_codes_refer_to(tmp_path):
    path = tmp_path / "a.h5ad"
    write_07(path)
    assert_equal_to_anndata(path)
    with h5py.File(path, "a") as file:
        # Names say nothing: references do.
        for name, other in (("cell_type", "donor"), ("donor", "cell_type")):
            file[f"obs/{name}"].attrs["categories"] = file[f"obs/__categories/{other}"].ref
    assert_equal_to_anndata(path)
    assert cf.open(path).categories("cell_type") == ["d1", "d2", "d3", "d4"]
    with h5py.File(path, "a") as file:
        file.move("obs/__categories/donor", "elsewhere")
    with pytest.raises(cf.errors.UnsupportedError, match=r"anndata 0\.8 or later: 'obs/cell_type'"):
        cf.open(path).obs_values("cell_type")


def test_attributes_may_be_bytes(tmp_path):
    path = tmp_path / "a.h5ad"
    write_07(path)
    with h5py.File(path, "a") as file:
        for name in ("/", "X", "obs", "var"):
            attributes = file[name].attrs
            for key, value in list(attributes.items()):
                if isinstance(value, str):
                    attributes[key] = np.bytes_(value.encode())
            if "column-order" in attributes and len(attributes["column-order"]):
                attributes["column-order"] = np.array(attributes["column-order"], "S")
        for name in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
            del file[name]
    cells = cf.open(path)
    assert cells.obs_keys() == ["cell_type", "donor"]
    np.testing.assert_array_equal(cells[:].to_numpy(), counts().toarray())


def test_a_file_without_x_says_which_matrices_there_are(tmp_path):
    adata = anndata.AnnData(counts(), layers={"counts": counts(), "scaled": counts()})
    adata.raw = adata.copy()
    adata.write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        del file["X"]
    for writes_null in (False, True):
        if writes_null:  # as anndata writes None
            with h5py.File(tmp_path / "a.h5ad", "a") as file:
                file["X"] = h5py.Empty("f4")
                file["X"].attrs["encoding-type"] = "null"
                file["X"].attrs["encoding-version"] = "0.1.0"
        with pytest.raises(cf.errors.NoSuchKeyError, match="raw/X, layers/counts, layers/scaled"):
            cf.open(tmp_path / "a.h5ad")
        assert len(cf.open(tmp_path / "a.h5ad", layer="counts")) == N_CELLS


def test_csc_of_old_files_is_read(tmp_path):
    write_old(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        write_sparse(file, "layers/by_gene", counts().tocsc(), "csc")
    cells = cf.open(tmp_path / "a.h5ad", layer="by_gene", cache_dir=tmp_path / "cache")
    np.testing.assert_array_equal(cells[:].to_numpy(), counts().toarray())
    with pytest.raises(cf.errors.UnsupportedError, match=r"layers/by_gene"):
        cf.open(tmp_path / "a.h5ad", layer="by_gene", cache_dir=None)


OLD_OBSM = {
    "anndata/kang_ifnb_valid_anndata06.h5ad",
    "odd/anndata_archive_v0.5.0.h5ad",
    "odd/cellxgene_nan_in_dense_X.h5ad",
}


@pytest.mark.parametrize("name", sorted(OLD_OBSM & set(REAL_FILES)))
def test_obsm_of_old_files_is_a_table_of_arrays(name):
    path = REAL_DATA / name
    adata = read_anndata(path)
    names = list(adata.obsm)
    assert "X_pca" in names
    rows = np.random.default_rng(0).permutation(adata.n_obs)[:50]
    batch = cf.open(path, obsm=names)[rows]
    for key in names:
        np.testing.assert_array_equal(
            np.asarray(batch.obsm[key]), adata.obsm[key][rows].astype("float32")
        )
    described = {matrix["name"]: matrix for matrix in cf.info(path)["matrices"]}
    assert described["obsm/X_pca"]["shape"] == list(adata.obsm["X_pca"].shape)


def test_a_made_table_of_obsm_in_every_storage(tmp_path):
    adata = anndata.AnnData(np.eye(30, 4, dtype="float32"))
    table = np.zeros(30, dtype=[("wide", "f8", (3,)), ("single", "f8"), ("ints", "i4", (2,))])
    random = np.random.default_rng(1)
    table["wide"], table["single"] = random.normal(size=(30, 3)), random.normal(size=30)
    table["ints"] = random.integers(-9, 9, (30, 2))
    for storage in ({}, {"chunks": (7,)}, {"chunks": (7,), "compression": "gzip", "shuffle": True}):
        path = tmp_path / "a.h5ad"
        adata.write_h5ad(path)
        with h5py.File(path, "r+") as file:
            del file["obsm"]
            file.create_dataset("obsm", data=table, **storage)
        batch = cf.open(path, obsm=["wide", "single", "ints"])[[29, 0, 13]]
        for key in ("wide", "single", "ints"):
            expected = table[key][[29, 0, 13]].reshape(3, -1).astype("float32")
            np.testing.assert_array_equal(np.asarray(batch.obsm[key]), expected)
        with pytest.raises(KeyError, match="obsm/wide"):
            cf.open(path, obsm=["wids"])


def test_an_index_that_is_named_and_missing_is_damage(tmp_path):
    path = tmp_path / "a.h5ad"
    anndata.AnnData(np.eye(3, dtype="float32")).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        del file["obs/_index"]
    with pytest.raises(cf.errors.CorruptDataError, match="'obs' names '_index' as its index"):
        cf.open(path)
    with h5py.File(path, "r+") as file:
        del file["obs"].attrs["_index"]
    assert cf.open(path)[[2]].obs_names == ["2"]


def test_a_gene_whose_name_is_masked_is_an_error(tmp_path):
    path = tmp_path / "a.h5ad"
    anndata.AnnData(np.eye(3, dtype="float32")).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        del file["var/_index"]
        index = file["var"].create_group("_index")
        index.attrs["encoding-type"], index.attrs["encoding-version"] = (
            "nullable-string-array",
            "0.1.0",
        )
        index["mask"] = np.array([False, True, False])
        index.create_dataset("values", data=["a", "b", "c"], dtype=h5py.string_dtype())
    with pytest.raises(cf.errors.CorruptDataError, match="gene 1 of 'var'"):
        cf.open(path)


def test_info_of_a_file_with_a_column_that_cannot_be_read(tmp_path):
    path = tmp_path / "a.h5ad"
    anndata.AnnData(np.eye(3, dtype="float32")).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["obs/bad"] = np.zeros(3, "c8")
        file["obs"].attrs["column-order"] = np.array(["bad"], dtype=h5py.string_dtype())
    description = cf.info(path)
    assert description["n_cells"] == 3
    assert description["obs"] == []
    assert "obs/bad" in description["left_out"]
    assert description["obs_refused"] is description["var_refused"] is None
