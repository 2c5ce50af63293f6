"""Matrix Market folders of 10x give what scanpy.read_10x_mtx gives, or a named error."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import warnings

import anndata
import numpy as np
import pyarrow as pa
import pytest
import scanpy
import scipy.io
import scipy.sparse as sp
from anndata_oracle import assert_same_frame, assert_same_matrix
from conftest import REAL_DATA
from hypothesis import given, settings
from hypothesis import strategies as st
from mtx_files import HEADER, entry_lines, mtx_text, random_counts, write_mtx, write_text
from program import PROGRAM, completed, run

import cellfeed as cf

SMALL = REAL_DATA / "tenx/cellranger_3.0.0_small/filtered_feature_bc_matrix"
PLACENTA = REAL_DATA / "tenx/placenta_visium"
TYPES = ["Gene Expression"] * 30 + ["Antibody Capture"] * 6 + ["CRISPR Guide Capture"] * 4


def read_scanpy(folder, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scanpy.read_10x_mtx(folder, **options)


def open_quietly(path, **options) -> cf.CellCollection:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cf.errors.LeftOutWarning)
        return cf.open(path, **options)


def assert_same_as_scanpy(folder, path=None, options=None, **scanpy_options) -> None:
    adata = read_scanpy(folder, **scanpy_options)
    cells = open_quietly(path or folder, make_unique=True, **(options or {}))
    assert list(cells.var_names) == list(adata.var_names)
    assert pa.table(cells.obs_table())["_index"].to_pylist() == list(adata.obs_names)
    assert_same_matrix(cells, adata.X.tocsr())
    if adata.var_names.equals(read_scanpy(folder, make_unique=False, **scanpy_options).var_names):
        assert_same_frame(cells.var_table(), adata.var)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "rows"
    monkeypatch.setenv("CELLFEED_CACHE", str(folder))
    return folder


@pytest.mark.parametrize("folder", [SMALL, PLACENTA], ids=["small", "placenta"])
def test_real_folders_give_what_scanpy_and_the_h5_file_give(folder):
    if not folder.exists():
        pytest.skip(f"no real data at {REAL_DATA}")
    assert_same_as_scanpy(folder)
    cells = open_quietly(folder, make_unique=True)
    h5 = folder / "filtered_feature_bc_matrix.h5"
    other = open_quietly(h5 if h5.exists() else folder.with_suffix(".h5"), make_unique=True)
    assert list(cells.var_names) == list(other.var_names)
    assert cells.obs_table().equals(other.obs_table())
    names = ["_index", "gene_ids", "feature_types"]
    assert (
        pa.table(cells.var_table()).select(names).equals(pa.table(other.var_table()).select(names))
    )
    got, expected = cells[:].x, other[:].x
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.indptr, expected.indptr)
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.data, expected.data)
    genes_by_cells = scipy.io.mmread(folder / "matrix.mtx.gz")
    assert (sp.csr_matrix(genes_by_cells.T) != cells.read(slice(None), dtype="int64").x).nnz == 0


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_cells=st.integers(1, 50),
    n_genes=st.integers(1, 40),
    density=st.floats(0, 1),
    order=st.sampled_from(["by cell", "shuffled", "as it comes"]),
    suffix=st.sampled_from(["", ".gz"]),
    features=st.sampled_from(["features", "genes"]),
    field=st.sampled_from(["integer", "real", "unsigned-integer", "pattern"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_any_matrix_comes_back(
    tmp_path_factory, seed, n_cells, n_genes, density, order, suffix, features, field, line_end
):
    folder = tmp_path_factory.mktemp("mtx")
    x = sp.random(n_cells, n_genes, density, format="coo", random_state=seed % 2**31)
    rng = np.random.default_rng(seed)
    if field == "real":
        x.data = rng.normal(size=x.nnz) * 10.0 ** rng.integers(-20, 20, x.nnz)
    else:
        x.data = rng.integers(-5 if field == "integer" else 0, 2**20, x.nnz)
    if field == "pattern":
        x.data[:] = 1
    write_mtx(folder, x, suffix=suffix, features=features, order=order)
    text = mtx_text(x, HEADER.replace("integer", field), order)
    if field == "pattern":
        head, *lines = text.split("\n")[2:-1]
        lines = [line.rsplit(" ", 1)[0] for line in lines]
        text = "\n".join([HEADER.replace("integer", field), head, *lines]) + "\n"
    write_text(folder / f"matrix.mtx{suffix}", text.replace("\n", line_end))
    cf.convert_to_shards(folder, folder / "shards", shard_size=17)
    cells = cf.open(folder / "shards")
    dtype = "float64" if field == "real" else "int64"
    got = cells.read(slice(None), dtype=dtype).x
    expected = x.tocsr().astype(dtype)
    expected.sort_indices()
    np.testing.assert_array_equal(got.indptr, expected.indptr)
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.data, expected.data)
    names = [pa.table(cells.obs_table(i))["_index"].to_pylist() for i in range(len(cells.files))]
    assert [name for of_file in names for name in of_file] == [
        f"ACGT{i:04d}-1" for i in range(n_cells)
    ]


def test_many_pieces_in_any_order_with_duplicates_and_blank_lines(tmp_path):
    rng = np.random.default_rng(5)
    n = 150_000  # three pieces of 65,536 lines
    x = sp.coo_matrix(
        (rng.integers(1, 9, n), (rng.integers(0, 700, n), rng.integers(0, 90, n))), (700, 90)
    )
    assert x.tocsr().nnz < n
    write_mtx(tmp_path / "a", x)
    lines = entry_lines(x, "shuffled")
    for i in range(0, n, 997):
        lines[i] = f"\n  {lines[i]}\t\n \t"
    text = "\n".join([HEADER, "%\n% more", "", f"90 700 {n}", *lines]) + "\n\n \n"
    write_text(tmp_path / "a/matrix.mtx.gz", text)
    for threads in (1, 3):
        cf.convert_to_shards(tmp_path / "a", tmp_path / f"s{threads}", threads=threads)
        got = cf.open(tmp_path / f"s{threads}").read(slice(None), dtype="int64").x
        assert (got != x.tocsr()).nnz == 0
    assert_same_matrix(cf.open(tmp_path / "a"), x.tocsr())


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("features", ["features", "genes"])
def test_files_are_found_with_and_without_a_prefix(tmp_path, suffix, features):
    x = random_counts(20, 40)
    plain = write_mtx(tmp_path / "plain", x, suffix=suffix, features=features)
    if (features == "genes") == (suffix == ""):  # the others scanpy does not read
        assert_same_as_scanpy(plain)
        assert_same_as_scanpy(plain, plain / f"matrix.mtx{suffix}")
    folder = tmp_path / "many"
    for prefix in ("GSM1_", "GSM2_"):
        write_mtx(folder, x, prefix=prefix, suffix=suffix, features=features)
    cells = cf.open(folder / f"*_matrix.mtx{suffix}")
    assert len(cells) == 40
    assert_same_matrix(cf.open(folder / f"GSM1_matrix.mtx{suffix}"), x)
    with pytest.raises(cf.errors.InvalidArgumentError, match=r"'GSM1_matrix.*GSM2_matrix"):
        cf.open(folder)


def test_feature_types_are_chosen_as_of_h5_files(tmp_path):
    folder = write_mtx(tmp_path / "a", random_counts(30, 40), types=TYPES)
    left_out = r"Antibody Capture \(6\), CRISPR Guide Capture \(4\)"
    with pytest.warns(cf.errors.LeftOutWarning, match=left_out):
        cells = cf.open(folder)
    assert_same_as_scanpy(folder)
    assert_same_as_scanpy(folder, None, {"feature_type": "all"}, gex_only=False)
    assert cells.fingerprint != cf.open(folder, feature_type="all").fingerprint
    antibodies = cf.open(folder, feature_type="Antibody Capture")
    expected = read_scanpy(folder, gex_only=False)[:, 30:36]
    assert_same_matrix(antibodies, expected.X.tocsr())
    with pytest.raises(cf.errors.InvalidArgumentError, match=r"no features of type.*Antibody"):
        cf.open(folder, feature_type="Antibody")
    for option in ("genome", "layer"):
        with pytest.raises(cf.errors.CellfeedError, match=option):
            cf.open(folder, **{option: "hg38"})
    legacy = write_mtx(tmp_path / "b", random_counts(30, 40), suffix="", features="genes")
    assert len(cf.open(legacy, feature_type="Gene Expression").var_names) == 40
    with pytest.raises(cf.errors.InvalidArgumentError, match="hold gene expression only"):
        cf.open(legacy, feature_type="Antibody Capture")


def test_shard_export_and_simulate_take_types_and_say_what_they_leave_out(tmp_path):
    folder = write_mtx(tmp_path / "a", random_counts(30, 40), types=TYPES)
    out = tmp_path / "a.h5ad"
    with pytest.warns(cf.errors.LeftOutWarning, match="Antibody"):
        cf.export_h5ad(folder, out)
    expected = read_scanpy(folder)
    got = anndata.read_h5ad(out)
    assert (expected.X.tocsr() != got.X).nnz == 0
    assert list(got.var["gene_ids"]) == list(expected.var["gene_ids"])
    result = cf.export_h5ad(cf.open(folder, feature_type="all"), out, overwrite=True)
    assert result.n_genes == 40
    done = completed("export", folder, "--output", tmp_path / "b.h5ad")
    assert "left out: Antibody" in done.stderr
    run("simulate", "--like", folder, "--cells", 50, "--output", tmp_path / "c.h5ad",
        "--feature-type", "Antibody Capture", "--no-thin")  # fmt: skip
    made = anndata.read_h5ad(tmp_path / "c.h5ad")
    source = read_scanpy(folder, gex_only=False)[:, 30:36].X.tocsr()
    assert (source[made.obs["source_cell"].to_numpy()] != made.X).nnz == 0
    with pytest.warns(cf.errors.LeftOutWarning, match="Antibody"):
        cf.simulate(folder, 10, tmp_path / "d.h5ad")
    assert cf.info(folder, feature_type="all")["n_genes"] == 40


def test_batches_are_those_of_the_same_cells_in_h5ad(tmp_path):
    folder = write_mtx(tmp_path / "a", random_counts(100, 40))
    read_scanpy(folder).write_h5ad(tmp_path / "a.h5ad")
    loaders = [
        cf.Loader(cf.open(path), cf.BlockShuffling(4), 16, seed=3, threads=2)
        for path in (folder, tmp_path / "a.h5ad")
    ]
    for got, expected in zip(*loaders, strict=True):
        assert (got.x != expected.x).nnz == 0
        np.testing.assert_array_equal(got.index, expected.index)


def test_the_cache_is_of_all_three_files_and_of_each_choice(tmp_path, cache):
    folder = write_mtx(tmp_path / "a", random_counts(30, 40), types=TYPES)
    for feature_type in (None, "all", "Antibody Capture"):
        open_quietly(folder, feature_type=feature_type)
    (place,) = cache.iterdir()
    manifests = {path: path.stat().st_mtime_ns for path in place.glob("*/shard_metadata.json")}
    assert len(manifests) == 3
    for feature_type in (None, "all", "Antibody Capture"):
        open_quietly(folder, feature_type=feature_type)
    assert manifests == {path: path.stat().st_mtime_ns for path in manifests}
    before = open_quietly(folder).fingerprint
    text = gzip.decompress((folder / "barcodes.tsv.gz").read_bytes())
    write_text(folder / "barcodes.tsv.gz", text.replace(b"ACGT", b"TGCA"))
    cells = open_quietly(folder)
    assert pa.table(cells.obs_table())["_index"][0].as_py() == "TGCA0000-1"
    assert cells.fingerprint != before
    y = random_counts(30, 40, seed=7)
    write_text(folder / "matrix.mtx.gz", mtx_text(y))
    assert_same_matrix(open_quietly(folder, feature_type="all"), y)
    with pytest.raises(cf.errors.UnsupportedError, match="list of entries"):
        open_quietly(folder, cache_dir=None)


def test_processes_that_open_at_once_share_one_cache(tmp_path):
    folder = write_mtx(tmp_path / "a", random_counts(2000, 40))
    code = f"import cellfeed as cf; print(int(cf.open({str(folder)!r})[:].data.sum()))"
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ)
        for _ in range(3)
    ]
    sums = {int(process.communicate(timeout=300)[0]) for process in running}
    assert sums == {int(random_counts(2000, 40).sum())}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 2), (0, 0)])
def test_empty_matrices_are_legal(tmp_path, shape):
    folder = write_mtx(tmp_path / "a", sp.csr_matrix(shape, dtype=np.int32))
    cells = cf.open(folder)
    assert (len(cells), len(cells.var_names)) == shape
    if all(shape):
        assert cells[:].x.nnz == 0
    run("info", folder)


def test_entries_that_are_all_left_out_are_no_entries(tmp_path):
    x = sp.csr_matrix(([4, 5], ([0, 2], [1, 1])), (3, 2), dtype=np.int32)
    folder = write_mtx(tmp_path / "a", x, types=["Gene Expression", "Antibody Capture"])
    assert open_quietly(folder)[:].x.nnz == 0
    assert cf.open(folder, feature_type="all")[:].x.sum() == 9


@pytest.mark.parametrize("verb", ["plan", "bench"])
def test_plan_and_bench_take_types(tmp_path, verb):
    folder = write_mtx(tmp_path / "a", random_counts(30, 40), types=["Antibody Capture"] * 40)
    options = ["--batch-size", 10, *(["--seconds", 0.01] if verb == "bench" else [])]
    assert "feature_type" in run(verb, folder, *options, code=1)
    run(verb, folder, *options, "--feature-type", "Antibody Capture")
    mixed = write_mtx(tmp_path / "b", random_counts(30, 40), types=TYPES)
    told = subprocess.run(
        [PROGRAM, verb, mixed, *map(str, options)], capture_output=True, text=True, check=True
    )
    assert "left out: Antibody Capture (6), CRISPR Guide Capture (4)" in told.stderr
