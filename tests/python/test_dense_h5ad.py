"""Dense matrices of .h5ad files: the numbers that h5py and anndata read, through everything."""

import itertools
import shutil
import warnings

import anndata
import h5py
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from anndata_oracle import assert_same_as_anndata, matrices_of
from child_program import run_quietly
from hypothesis import given
from tiers import fast

import cellfeed as cf

DTYPES = [
    "<f4", "<f8", "<f2", ">f2", ">f4", ">f8", "i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u4",
    "<i8", ">i8", "<u8", "?",
]  # fmt: skip


def write_frames(path, n_cells: int, n_genes: int) -> None:
    """An .h5ad file without X, as anndata writes it; anndata takes long for many small ones."""
    with h5py.File(path, "w") as file:
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        for name, prefix, n in (("obs", "cell", n_cells), ("var", "gene", n_genes)):
            frame = file.create_group(name)
            frame.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0"})
            frame.attrs.update({"_index": "_index", "column-order": np.zeros(0)})
            frame["_index"] = [f"{prefix}{i}" for i in range(n)]
            frame["_index"].attrs["encoding-type"] = "string-array"
            frame["_index"].attrs["encoding-version"] = "0.2.0"


def with_x(path, values: np.ndarray, **storage) -> None:
    write_frames(path, *values.shape)
    with h5py.File(path, "r+") as file:
        file.create_dataset("X", data=values, **storage)


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal, with NaN where there is one, and zeros of the same sign."""
    np.testing.assert_array_equal(got, expected)
    if expected.dtype.kind == "f":
        is_number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[is_number]), np.signbit(expected[is_number]))


def placed(x: scipy.sparse.csr_matrix) -> np.ndarray:
    """Dense. scipy's own adds to zeros, so that negative ones are lost."""
    dense = np.zeros(x.shape, x.dtype)
    dense[np.repeat(np.arange(x.shape[0]), np.diff(x.indptr)), x.indices] = x.data
    return dense


def assert_same_rows(cells: cf.CellCollection, expected: np.ndarray, rows: np.ndarray) -> None:
    """Dense, sparse and with genes chosen."""
    dtype = "float64" if expected.dtype.kind == "f" else "int64"
    wanted = expected[rows].astype(dtype)
    assert_same_bits(cells.read(rows, dtype=dtype, output="dense").x, wanted)
    sparse = cells.read(rows, dtype=dtype).x
    assert sparse.has_sorted_indices
    assert sparse.nnz == np.count_nonzero((wanted != 0) | np.signbit(wanted))
    assert_same_bits(placed(sparse), wanted)
    genes = np.arange(expected.shape[1])[::-2]
    chosen = cf.SelectGenes([f"gene{i}" for i in genes])
    for output in ("dense", "csr"):
        batch = cells.read(rows, dtype=dtype, output=output, transforms=[chosen])
        x = batch.x if output == "dense" else placed(batch.x)
        assert_same_bits(x, wanted[:, genes])


@st.composite
def stored_matrices(draw):
    """Shape, dtype, fill value, how it is stored, and which rows and columns are written."""
    shape = draw(st.tuples(st.integers(1, 40), st.integers(1, 60)))
    storage = {"dtype": np.dtype(draw(st.sampled_from(DTYPES)))}
    if draw(st.booleans()):
        is_open = draw(st.booleans())
        limits = (60, 80) if is_open else shape
        storage["chunks"] = tuple(draw(st.integers(1, limit)) for limit in limits)
        storage["maxshape"] = (None, None) if is_open else shape
        storage["compression"] = draw(st.sampled_from([None, "gzip", "lzf"]))
        storage["shuffle"] = draw(st.booleans())
        storage["fletcher32"] = draw(st.booleans())
    if draw(st.booleans()):
        storage["fillvalue"] = draw(st.integers(0, 1))
    written = [draw(st.slices(extent)) for extent in shape]
    return shape, storage, tuple(written), draw(st.integers(0, 2**32 - 1))


def random_values(shape, dtype: np.dtype, random: np.random.Generator) -> np.ndarray:
    if dtype.kind == "f":
        values = random.choice([0, -0.0, 1, -2.5, np.nan, np.inf, 0.1], shape)
        return values.astype(dtype)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    info = np.iinfo(dtype)
    largest = min(info.max, 2**63 - 1)
    return random.choice([0, 1, 5, info.min, largest], shape).astype(dtype)


@given(stored_matrices())
def test_every_way_to_store_a_matrix_reads_as_h5py_reads_it(tmp_path_factory, stored):
    shape, storage, written, seed = stored
    random = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("stored") / "a.h5ad"
    write_frames(path, *shape)
    libver = random.choice(["earliest", "latest"])
    with h5py.File(path, "r+", libver=(libver, "latest")) as file:
        x = file.create_dataset("X", shape, **storage)
        part = np.zeros(shape)[written]
        if part.size and all((s.step or 1) > 0 for s in written):
            x[written] = random_values(part.shape, storage["dtype"], random)
        expected = x[()].astype(storage["dtype"].newbyteorder("="))
    rows = random.integers(shape[0], size=shape[0] + 3)
    assert_same_rows(cf.open(path), expected, rows)


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("raw", [False, True])
def test_what_anndata_writes_reads_as_anndata_reads_it(tmp_path, compression, raw):
    random = np.random.default_rng(0)
    counts = random.poisson(0.5, (50, 30))
    adata = anndata.AnnData(
        counts.astype(np.float32),
        obs=pd.DataFrame(
            {"t": pd.Categorical(["a", "b"] * 25)}, index=[f"c{i}" for i in range(50)]
        ),
        var=pd.DataFrame(index=[f"gene{i}" for i in range(30)]),
    )
    adata.layers["wide"] = counts.astype(np.int64)
    adata.layers["sparse"] = scipy.sparse.csr_matrix(counts.astype(np.float64))
    if raw:
        adata.raw = adata.copy()
        adata = adata[:, ::2].copy()
    path = tmp_path / "a.h5ad"
    adata.write_h5ad(path, compression=compression)
    again = anndata.read_h5ad(path)
    for layer, (matrix, var) in matrices_of(again).items():
        assert_same_as_anndata(path, again, layer, matrix, var)


def dense_layers(shared_data):
    for path in sorted(shared_data.rglob("*.h5ad")):
        if not h5py.is_hdf5(path):
            continue
        with h5py.File(path) as file:
            names = ["X", "raw/X", "raw.X", *(f"layers/{n}" for n in file.get("layers", ()))]
            for name in names:
                if isinstance(file.get(name), h5py.Dataset) and file[name].ndim == 2:
                    yield path, name


def test_every_dense_matrix_of_the_real_files_is_what_h5py_reads(shared_data):
    n = 0
    for path, name in dense_layers(shared_data):
        with h5py.File(path) as file:
            expected = file[name][()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cells = cf.open(path, layer=name.replace("raw.X", "raw/X"), make_unique=True)
        assert_same_bits(cells.read(slice(None), dtype="float64", output="dense").x, expected)
        assert_same_bits(placed(cells.read(slice(None), dtype="float64").x), expected)
        n += 1
    assert n >= 1


STRATEGIES = [
    cf.Streaming(shuffle=True),
    cf.BlockShuffling(4),
    cf.BlockShuffling(1),
    cf.BlockWeightedSampling(weights=np.arange(90.0), total_size=120, block_size=3),
    cf.ClassBalancedSampling(label_key="t", block_size=2, total_size=100),
]


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """The same cells: sparse, and dense in many ways."""
    folder = tmp_path_factory.mktemp("forms")
    random = np.random.default_rng(1)
    counts = random.poisson(0.4, (90, 37)).astype(np.float32)
    labels = pd.Categorical(random.choice(["x", "y", "z"], 90))
    obs = pd.DataFrame({"t": labels}, index=[f"cell{i}" for i in range(90)])
    var = pd.DataFrame(index=[f"gene{i}" for i in range(37)])
    paths = {}
    for name, matrix in (("csr", scipy.sparse.csr_matrix(counts)), ("plain", counts)):
        paths[name] = folder / f"{name}.h5ad"
        anndata.AnnData(matrix, obs=obs, var=var).write_h5ad(paths[name])
    gzip = {"compression": "gzip", "shuffle": True}
    for name, storage in {
        "wide": {"chunks": (1, 37)},
        "tiles": {"chunks": (16, 10), **gzip},
        "columns": {"chunks": (90, 1), **gzip},
        "one": {"chunks": (90, 37), "fletcher32": True, **gzip},
    }.items():
        paths[name] = folder / f"{name}.h5ad"
        anndata.AnnData(counts, obs=obs, var=var).write_h5ad(paths[name])
        with h5py.File(paths[name], "r+") as file:
            del file["X"]
            x = file.create_dataset("X", data=counts, **storage)
            x.attrs["encoding-type"], x.attrs["encoding-version"] = "array", "0.2.0"
    for layout, source in itertools.product(("packed", "dense"), ("plain", "tiles")):
        paths[f"{layout}_{source}"] = folder / f"{layout}_{source}"
        cf.convert_to_shards(paths[source], folder / f"{layout}_{source}", layout=layout)
    return paths


FAST = {("dense", 0), ("csr", 1), ("dense", 2), ("csr", 3), ("dense", 4)}


@pytest.mark.parametrize(
    ("output", "number"),
    fast(FAST, itertools.product(("dense", "csr"), range(len(STRATEGIES)))),
)
def test_all_forms_give_the_same_batches(forms, number, output):
    genes = [f"gene{i}" for i in (30, 2, 11, 36, 0)]
    pipelines = [
        [], [cf.SelectGenes(genes)], [cf.NormalizeTotal(1e4), cf.Log1p()],
        [cf.NormalizeTotal(1e4), cf.Log1p(), cf.SelectGenes(genes)],
    ]  # fmt: skip
    for transforms in pipelines:
        first = None
        for name, path in forms.items():
            for threads in (1, 3):
                loader = cf.Loader(
                    cf.open(path, obs=["t"]), STRATEGIES[number], 16, seed=3, output=output,
                    transforms=transforms, threads=threads, fetch_factor=2,
                )  # fmt: skip
                batches = [(b.index.copy(), b.to_numpy().copy(), b["t"].copy()) for b in loader]
                first = first or batches
                assert len(batches) == len(first)
                for got, wanted in zip(batches, first, strict=True):
                    for one, other in zip(got, wanted, strict=True):
                        np.testing.assert_array_equal(one, other, err_msg=name)


def test_sparse_and_dense_files_are_one_collection(tmp_path, forms):
    extra = pd.DataFrame(index=["gene3", "other", "gene1"])
    counts = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    anndata.AnnData(
        counts, obs=pd.DataFrame(index=[f"n{i}" for i in range(4)]), var=extra
    ).write_h5ad(tmp_path / "b.h5ad")
    paths = [forms["csr"], forms["tiles"], tmp_path / "b.h5ad"]
    parts = [anndata.read_h5ad(path) for path in paths]
    for number, part in enumerate(parts):
        part.obs_names = [f"{number}-{name}" for name in part.obs_names]
    rows = np.random.default_rng(2).permutation(184)
    for join in ("inner", "outer"):
        whole = anndata.concat(parts, join=join, fill_value=0)
        cells = cf.open(paths, join=join)
        order = whole.var_names.get_indexer(cells.var_names)
        x = whole.X.toarray() if scipy.sparse.issparse(whole.X) else whole.X
        for output in ("dense", "csr"):
            got = cells.read(rows, output=output).to_numpy()
            np.testing.assert_array_equal(got, x[rows][:, order])


def test_shards_and_exports_of_dense_files_hold_the_same(tmp_path, forms):
    expected = anndata.read_h5ad(forms["csr"])
    for name in ("packed_tiles", "dense_tiles", "packed_plain", "dense_plain"):
        cf.export_h5ad(forms[name], tmp_path / f"{name}.h5ad")
        got = anndata.read_h5ad(tmp_path / f"{name}.h5ad")
        assert (got.X != expected.X).nnz == 0
        assert list(got.obs["t"]) == list(expected.obs["t"])


MEASURED = """
import sys
import cellfeed as cf
path, budget, output = sys.argv[1:]
def resident():
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) / 1000, int(lines["VmRSS"].split()[0]) / 1000
cells = cf.open(path)
before = resident()[1]
open("/proc/self/clear_refs", "w").write("5")
n = 0
for epoch in range(2):
    for batch in cf.Loader(cells, cf.BlockShuffling(1), 64, memory_budget=budget, output=output):
        n += len(batch)
print(n, resident()[0] - before)
"""


@pytest.mark.parametrize("output", ["dense", pytest.param("csr", marks=pytest.mark.slow)])
def test_a_chunk_larger_than_the_budget_is_read_alone(tmp_path, output):
    values = np.arange(2_000 * 6_000, dtype=np.float32).reshape(2_000, 6_000) % 100
    with_x(tmp_path / "a.h5ad", values, chunks=(2_000, 6_000), compression="gzip", shuffle=True)
    n, peak = run_quietly(MEASURED, tmp_path / "a.h5ad", "40MB", output, timeout=300).split()
    assert int(n) == 4_000
    # The chunk of 48 MB, once more while it is unshuffled, and the budget.
    assert float(peak) < 2 * 48 + 40 + 100


OPENED = """
import sys, time
import cellfeed as cf
cf.open(sys.argv[2])
def resident():
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines["VmRSS"].split()[0]) / 1000
before = resident()
cells = cf.open(sys.argv[1])
print(len(cells), resident() - before)
"""


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    """Cells without X, and genes."""
    path = tmp_path_factory.mktemp("million") / "a.h5ad"
    write_frames(path, 1_000_000, 20)
    return path


@pytest.mark.parametrize("storage", [{}, {"chunks": (10, 10), "compression": "gzip"}])
def test_opening_takes_memory_for_no_cell(million, tmp_path, storage):
    small = tmp_path / "small.h5ad"
    with_x(small, np.ones((10, 20), np.float32))
    shutil.copy(million, tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file.create_dataset("X", (1_000_000, 20), np.float32, **storage)[5:7] = 1
    n, grown = run_quietly(OPENED, tmp_path / "a.h5ad", small, timeout=100).split()
    assert int(n) == 1_000_000
    assert float(grown) < 8


def test_a_chunk_that_is_damaged_is_named(tmp_path):
    path = tmp_path / "a.h5ad"
    with_x(path, np.ones((40, 40), np.float32), chunks=(20, 20), compression="gzip")
    with h5py.File(path) as file:
        place = file["X"].id.get_chunk_info(1)
    content = bytearray(path.read_bytes())
    content[place.byte_offset + 5 : place.byte_offset + place.size] = b"\xff" * (place.size - 5)
    path.write_bytes(content)
    cells = cf.open(path)
    with pytest.raises(cf.errors.CorruptDataError, match=str(place.byte_offset)) as caught:
        cells.read([3], output="dense")
    assert str(path) in str(caught.value)
    cells.read([30], output="dense")


def test_one_dimension_is_refused_by_name(tmp_path):
    write_frames(tmp_path / "a.h5ad", 5, 3)
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file["X"] = np.ones(5)
    with pytest.raises(cf.errors.CorruptDataError, match="must have 2 dimensions: 'X' has 1"):
        cf.open(tmp_path / "a.h5ad")
