"""10x .h5 files give what scanpy.read_10x_h5 gives, or a named error."""

import warnings

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scanpy
import scipy.sparse
from anndata_oracle import assert_same_frame, assert_same_matrix
from conftest import REAL_DATA
from tenx_files import (
    N_ANTIBODIES,
    N_CELLS,
    N_GENES,
    N_GUIDES,
    counts,
    text,
    write_cellranger2,
    write_cellranger3,
)

import cellfeed as cf

MIXED = {
    "Gene Expression": N_GENES, "Antibody Capture": N_ANTIBODIES, "CRISPR Guide Capture": N_GUIDES
}  # fmt: skip
REAL_FILES = sorted(
    path.relative_to(REAL_DATA).as_posix() for path in (REAL_DATA / "tenx").rglob("*.h5")
)


def read_scanpy(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scanpy.read_10x_h5(path, **options)


def open_quietly(path, **options) -> cf.CellCollection:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cf.errors.LeftOutWarning)
        return cf.open(path, **options)


def assert_same_as_scanpy(path, wanted: dict | None = None, **options) -> None:
    adata = read_scanpy(path, **(wanted or {}))
    is_unique = adata.var_names.is_unique
    cells = open_quietly(path, make_unique=not is_unique, **options)
    if not is_unique:
        with pytest.raises(cf.errors.InvalidArgumentError, match="make_unique"):
            open_quietly(path, **options)
        assert pa.table(cells.var_table())["_index"].to_pylist() == list(adata.var_names)
        adata.var_names_make_unique()
    assert list(cells.var_names) == list(adata.var_names)
    assert list(pa.table(cells.obs_table())["_index"].to_pylist()) == list(adata.obs_names)
    assert_same_matrix(cells, adata.X)
    assert_same_frame(cells.obs_table(), adata.obs)
    if is_unique:
        assert_same_frame(cells.var_table(), adata.var)
    assert {info["format"] for info in cells.files} == {"10x"}


@pytest.mark.parametrize("name", REAL_FILES or ["none"])
def test_real_files_give_what_scanpy_gives(name):
    if not REAL_FILES:
        pytest.skip(f"no real data at {REAL_DATA}")
    path = REAL_DATA / name
    with h5py.File(path) as file:
        genomes = [] if "matrix" in file else list(file)
    for genome in genomes:
        assert_same_as_scanpy(path, {"genome": genome}, genome=genome)
    if len(genomes) < 2:
        assert_same_as_scanpy(path)
        return
    with pytest.raises(ValueError, match="more than one genome"):
        read_scanpy(path)
    with pytest.raises(cf.errors.InvalidArgumentError, match=", ".join(genomes)):
        cf.open(path)


def test_placenta_equals_the_same_matrix_in_h5ad():
    path = REAL_DATA / "tenx/placenta_visium/filtered_feature_bc_matrix.h5"
    if not path.exists():
        pytest.skip(f"no real data at {REAL_DATA}")
    other = cf.open(REAL_DATA / "anndata/derived_placenta_visium_csr.h5ad", make_unique=True)
    cells = cf.open(path, make_unique=True)
    assert (cells[:].x != other[:].x).nnz == 0


def test_gene_expression_alone_is_read_and_the_rest_is_named(tmp_path):
    path = tmp_path / "a.h5"
    write_cellranger3(path, MIXED)
    left_out = r"Antibody Capture \(7\), CRISPR Guide Capture \(3\)"
    with pytest.warns(cf.errors.LeftOutWarning, match=left_out):
        cells = cf.open(path)
    assert len(cells.var_names) == N_GENES
    assert_same_as_scanpy(path)
    np.testing.assert_array_equal(cells[:].to_numpy(), counts(100).toarray()[:, :N_GENES])


def test_features_are_chosen_by_type_and_genome(tmp_path):
    path = tmp_path / "a.h5"
    write_cellranger3(path, MIXED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # whoever chooses is told nothing
        assert len(cf.open(path, feature_type="Gene Expression").var_names) == N_GENES
        assert_same_as_scanpy(path, {"gex_only": False}, feature_type="all")
        cells = cf.open(path, feature_type="Antibody Capture")
    expected = read_scanpy(path, gex_only=False)
    expected = expected[:, expected.var["feature_types"] == "Antibody Capture"].copy()
    assert_same_matrix(cells, expected.X)
    assert_same_frame(cells.var_table(), expected.var)
    for genome in ("hg38", "mm10"):
        assert_same_as_scanpy(path, {"genome": genome}, genome=genome)
        assert_same_as_scanpy(
            path, {"genome": genome, "gex_only": False}, genome=genome, feature_type="all"
        )
    assert cells.fingerprint != cf.open(path, feature_type="all").fingerprint


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"genome": "hg19"}, r"no genome 'hg19'; there are: '' \(10\), hg38 \(45\), mm10 \(45\)"),
        ({"feature_type": "Antibody"}, r"no features of type 'Antibody'.*Antibody Capture \(7\)"),
        ({"feature_type": "Antibody Capture", "genome": "hg38"}, "no features of type"),
    ],
)
def test_what_is_not_in_the_file_is_named_with_what_is(tmp_path, options, text):
    write_cellranger3(tmp_path / "a.h5", MIXED)
    with pytest.raises(cf.errors.InvalidArgumentError, match=text):
        cf.open(tmp_path / "a.h5", **options)
    write_cellranger3(tmp_path / "b.h5", {"Antibody Capture": 5})
    with pytest.raises(cf.errors.InvalidArgumentError, match=r"Antibody Capture \(5\)"):
        cf.open(tmp_path / "b.h5")


def test_columns_of_features_are_those_of_scanpy(tmp_path):
    path = tmp_path / "a.h5"
    write_cellranger3(
        path, pattern=text(f"^{i}" for i in range(N_GENES)), read=np.arange(N_GENES) % 3,
        included=np.arange(N_GENES) % 2 == 0, target_sets__panel=text(["1"] * 4),
    )  # fmt: skip
    assert_same_as_scanpy(path)
    assert cf.open(path).var_table().column_names == [
        "_index", "gene_ids", "feature_types", "genome", "included", "pattern", "read",
    ]  # fmt: skip


def test_matrices_of_probes(tmp_path):
    path = tmp_path / "a.h5"
    gene_ids = text(f"ENS{i // 2}" for i in range(N_GENES))
    write_cellranger3(path, gene_id=gene_ids, probe_region=text(["spliced"] * N_GENES))
    with h5py.File(path, "a") as file:
        file["matrix/filtered_barcodes"] = (np.arange(N_CELLS) % 3 == 0).astype("u1")
    assert_same_as_scanpy(path)
    np.testing.assert_array_equal(
        cf.open(path).obs_values("filtered_barcodes"), np.arange(N_CELLS) % 3 == 0
    )


def test_genomes_of_cell_ranger_2(tmp_path):
    write_cellranger2(tmp_path / "one.h5")
    assert_same_as_scanpy(tmp_path / "one.h5")
    assert_same_as_scanpy(tmp_path / "one.h5", genome="hg19")
    write_cellranger2(tmp_path / "two.h5", ("hg19", "mm10"))
    for genome in ("hg19", "mm10"):
        assert_same_as_scanpy(tmp_path / "two.h5", {"genome": genome}, genome=genome)
    for options in ({}, {"genome": "GRCh38"}):
        with pytest.raises(cf.errors.InvalidArgumentError, match="hg19, mm10"):
            cf.open(tmp_path / "two.h5", **options)
    with pytest.raises(cf.errors.InvalidArgumentError, match="gene expression only"):
        cf.open(tmp_path / "one.h5", feature_type="Antibody Capture")


def test_symbols_that_repeat_follow_the_rule_of_all_files(tmp_path):
    path = tmp_path / "a.h5"
    write_cellranger3(path)
    with h5py.File(path, "a") as file:
        del file["matrix/features/name"]
        file["matrix/features/name"] = text(f"gene{i // 2}" for i in range(N_GENES))
    assert_same_as_scanpy(path)


def test_options_of_10x_files_are_refused_for_others(tmp_path):
    scanpy.AnnData(counts(N_GENES).astype("f4")).write_h5ad(tmp_path / "a.h5ad")
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "shards")
    for name in ("a.h5ad", "shards"):
        for options in ({"genome": "hg38"}, {"feature_type": "all"}):
            option = next(iter(options))
            with pytest.raises(cf.errors.InvalidArgumentError, match=f"{option} is for 10x") as e:
                cf.open(tmp_path / name, **options)
            assert name in str(e.value)
    write_cellranger3(tmp_path / "a.h5")
    with pytest.raises(cf.errors.NoSuchKeyError, match="one matrix, named X"):
        cf.open(tmp_path / "a.h5", layer="counts")


@pytest.mark.parametrize(
    "name",
    ["data", "indices", "indptr", "shape", "barcodes", "features", "features/name",
     "features/feature_type"],
)  # fmt: skip
def test_what_is_missing_is_named(tmp_path, name):
    write_cellranger3(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file[f"matrix/{name}"]
    with pytest.raises(cf.errors.CellfeedError, match=r"a\.h5") as caught:
        cf.open(tmp_path / "a.h5")
    assert name in ("barcodes", "indptr") or f"matrix/{name}" in str(caught.value)


@pytest.mark.parametrize("name", ["barcodes", "features/name", "features/genome", "features/id"])
def test_lists_of_another_length_are_named(tmp_path, name):
    write_cellranger3(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        values = file[f"matrix/{name}"][:-1]
        del file[f"matrix/{name}"]
        file[f"matrix/{name}"] = values
    with pytest.raises(cf.errors.CorruptDataError, match=f"'matrix/{name}' has shape"):
        cf.open(tmp_path / "a.h5").var_table()


def test_batches_of_10x_files_are_those_of_the_same_cells_in_h5ad(tmp_path):
    write_cellranger3(tmp_path / "a.h5", MIXED)
    read_scanpy(tmp_path / "a.h5").write_h5ad(tmp_path / "a.h5ad")
    loaders = [
        cf.Loader(open_quietly(tmp_path / name), cf.BlockShuffling(4), 16, seed=3, threads=2)
        for name in ("a.h5", "a.h5ad")
    ]
    for epoch in range(2):
        for got, expected in zip(*loaders, strict=True):
            assert (got.x != expected.x).nnz == 0, epoch
            np.testing.assert_array_equal(got.index, expected.index)
    dense = cf.Loader(open_quietly(tmp_path / "a.h5"), cf.Streaming(), 16, output="dense")
    np.testing.assert_array_equal(
        np.concatenate([batch.x for batch in dense]), counts(100).toarray()[:, :N_GENES]
    )


def test_10x_files_become_shards_with_their_features(tmp_path):
    write_cellranger3(tmp_path / "a.h5", MIXED)
    with pytest.warns(cf.errors.LeftOutWarning, match="Antibody Capture"):
        cf.convert_to_shards(tmp_path / "a.h5", tmp_path / "shards", shard_size=25)
    adata, cells = read_scanpy(tmp_path / "a.h5"), cf.open(tmp_path / "shards")
    assert_same_matrix(cells, adata.X.astype(np.int64))
    assert list(cells.var["gene_ids"]) == list(adata.var["gene_ids"])
    cf.convert_to_shards(
        cf.open(tmp_path / "a.h5", feature_type="Antibody Capture"), tmp_path / "ab"
    )
    assert len(cf.open(tmp_path / "ab").var_names) == N_ANTIBODIES


@pytest.mark.parametrize("output", ["shards", "file.h5ad"])
def test_preprocessing_says_which_features_it_leaves_out(tmp_path, output):
    write_cellranger3(tmp_path / "a.h5", MIXED)
    with pytest.warns(cf.errors.LeftOutWarning, match="Antibody Capture"):
        cf.preprocess(tmp_path / "a.h5", tmp_path / output)
    assert len(cf.open(tmp_path / output).var_names) == N_GENES


def test_empty_axes(tmp_path):
    for n_cells, n_features in ((0, 5), (3, 0)):
        path = tmp_path / f"{n_cells}_{n_features}.h5"
        with h5py.File(path, "w") as file:
            group = file.create_group("matrix")
            matrix = scipy.sparse.csr_matrix((n_cells, n_features), dtype=np.int32)
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(matrix, name)
            group["shape"] = (n_features, n_cells)
            group["barcodes"] = np.array([b"x"] * n_cells, "S4")
            for name in ("name", "id", "genome"):
                group[f"features/{name}"] = np.array([b"g%d" % i for i in range(n_features)], "S4")
            group["features/feature_type"] = np.array([b"Gene Expression"] * n_features, "S15")
        adata = read_scanpy(path)
        cells = cf.open(path)
        assert (len(cells), len(cells.var_names)) == adata.shape
        assert isinstance(cells.var_table().to_pandas(), pd.DataFrame)


@pytest.mark.parametrize("write", [write_cellranger2, write_cellranger3])
def test_a_damaged_file_is_read_or_a_named_error(tmp_path, write):
    write(tmp_path / "a.h5")
    sound = (tmp_path / "a.h5").read_bytes()
    random = np.random.default_rng(1)
    n_errors = 0
    for _ in range(300):
        damaged = bytearray(sound)
        # Metadata lies at the front.
        last = len(sound) if random.random() < 0.5 else 4096
        for at in random.integers(0, last, random.integers(1, 6)):
            damaged[at] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.integers(256)])
        (tmp_path / "b.h5").write_bytes(damaged)
        try:
            cells = open_quietly(tmp_path / "b.h5", make_unique=True)
            cells.obs_table()
            cells.var_table()
            if len(cells):
                cells.read(slice(None), dtype="int64")
        except cf.errors.CellfeedError as error:
            assert not isinstance(error, cf.errors.InternalError), error
            assert "b.h5" in str(error) or "genes" in str(error), error
            n_errors += 1
    assert 50 < n_errors < 300
