"""CSR matrices whose numbers are stored in any width and byte order, against numpy and scipy."""

import h5py
import numpy as np
import pytest
import scipy.sparse

import cellfeed as cf

INTEGERS = ["i1", "u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8"]
VALUES = [*INTEGERS, "?", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]
STORAGES = [
    {},
    {"chunks": (7,)},
    {"chunks": (9,), "compression": "gzip", "shuffle": True},
    {"chunks": (5,), "compression": "lzf"},
]
N_ROWS, N_GENES = 9, 100


def write_frame(file: h5py.File, name: str, n: int) -> None:
    group = file.create_group(name)
    group.attrs["encoding-type"] = "dataframe"
    group.attrs["encoding-version"] = "0.2.0"
    group.attrs["_index"] = "_index"
    group.attrs["column-order"] = np.array([], dtype="S1")
    group["_index"] = [f"{name}_{i}" for i in range(n)]


def write_csr(path, parts, storage) -> None:
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"] = "csr_matrix"
        group.attrs["encoding-version"] = "0.1.0"
        group.attrs["shape"] = (N_ROWS, N_GENES)
        for name, values in zip(("data", "indices", "indptr"), parts, strict=True):
            group.create_dataset(name, data=values, **storage)
        write_frame(file, "obs", N_ROWS)
        write_frame(file, "var", N_GENES)


def entries(order: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, indices and row starts; row 4 has no entry, row 7 one for every gene."""
    random = np.random.default_rng(3)
    rows = []
    for row in range(N_ROWS):
        n = {4: 0, 7: N_GENES}.get(row, 12)
        genes = np.sort(random.permutation(N_GENES)[:n])
        if order == "descending":
            genes = genes[::-1]
        elif order != "sorted":
            random.shuffle(genes)
        rows.append(genes)
        if order == "duplicates":
            # Twice at most: sums of three floats depend on their order.
            rows[-1] = np.concatenate([genes, genes[: n // 2]])
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    values = random.integers(0, 3, indptr[-1])
    return values, np.concatenate(rows), indptr


def dense_sums(values, indices, indptr) -> np.ndarray:
    dense = np.zeros((N_ROWS, N_GENES), np.float64)
    for row in range(N_ROWS):
        part = slice(indptr[row], indptr[row + 1])
        np.add.at(dense[row], indices[part], values[part].astype(np.float64))
    return dense


@pytest.mark.parametrize("order", ["sorted", "shuffled", "descending", "duplicates"])
@pytest.mark.parametrize("storage", STORAGES, ids=["plain", "chunks", "gzip", "lzf"])
def test_every_type_of_values_and_indices_reads(tmp_path, storage, order):
    values, indices, indptr = entries(order)
    for number, dtype in enumerate(VALUES):
        index_type = INTEGERS[number % len(INTEGERS)]
        offset_type = [name for name in INTEGERS if name[-1] in "248"][number % 11]
        parts = values.astype(dtype), indices.astype(index_type), indptr.astype(offset_type)
        write_csr(tmp_path / "a.h5ad", parts, storage)
        expected = dense_sums(values.astype(dtype), indices, indptr)
        if dtype == "?":
            expected = expected > 0
        cells = cf.open(tmp_path / "a.h5ad")
        rows = [7, 4, 0, 8, 7, 1]
        got = cells[rows].to_scipy()
        what = f"{dtype}, indices {index_type}, indptr {offset_type}"
        np.testing.assert_array_equal(got.toarray(), expected[rows], what)
        assert got.has_canonical_format, what
        # Explicit zeros stay.
        counts = [len(np.unique(indices[indptr[row] : indptr[row + 1]])) for row in rows]
        assert list(np.diff(got.indptr)) == counts


@pytest.mark.parametrize("dtype", ["<f4", "<f8", "<i4", "<u4", "<i8", "?"])
@pytest.mark.parametrize("order", ["shuffled", "duplicates"])
def test_rows_are_brought_in_order_as_scipy_does(tmp_path, order, dtype):
    values, indices, indptr = entries(order)
    if "f" in dtype:
        values = np.random.default_rng(4).normal(size=len(values)) * 1e3
    parts = values.astype(dtype), indices.astype("<i4"), indptr.astype("<i8")
    write_csr(tmp_path / "a.h5ad", parts, {})
    expected = scipy.sparse.csr_matrix(parts, shape=(N_ROWS, N_GENES))
    expected.sum_duplicates()
    out = "float64" if "f" in dtype else "int64"
    loader = cf.Loader(cf.open(tmp_path / "a.h5ad"), cf.Streaming(), N_ROWS, dtype=out)
    got = next(iter(loader)).to_scipy()
    np.testing.assert_array_equal(got.indptr, expected.indptr)
    np.testing.assert_array_equal(got.indices, expected.indices)
    np.testing.assert_array_equal(got.data, expected.data)


ENDS = {
    "i": lambda kind: [np.iinfo(kind).min, np.iinfo(kind).max],
    "u": lambda kind: [0, np.iinfo(kind).max],
    "f": lambda kind: [np.finfo(kind).smallest_subnormal, -np.finfo(kind).max],
}


def is_held(number, dtype: str) -> bool:
    """Whether a number of the file is one of dtype: in Python's integers and floats."""
    if dtype.startswith("int"):
        info = np.iinfo(dtype)
        return number == int(number) and info.min <= int(number) <= info.max
    with np.errstate(over="ignore"):
        rounded = np.dtype(dtype).type(number)
    if not np.isfinite(rounded):
        return False
    return int(rounded) == number if isinstance(number, int) else float(rounded) == number


@pytest.mark.parametrize("dtype", [name for name in VALUES if name != "?"])
def test_the_ends_of_every_type_are_exact_or_refused(tmp_path, dtype):
    kind = np.dtype(dtype)
    for end in ENDS[kind.kind](kind.newbyteorder("=")):
        values = np.array([end], kind)
        indptr = np.minimum(np.arange(N_ROWS + 1), 1)
        write_csr(tmp_path / "a.h5ad", (values, np.array([3], ">i2"), indptr), {})
        cells = cf.open(tmp_path / "a.h5ad")
        number = values[0].item()
        for out in ("float32", "float64", "int32", "int64"):
            if is_held(number, out):
                assert first_value(cells, out) == number, out
            else:
                with pytest.raises(cf.errors.PrecisionError, match="row 0"):
                    first_value(cells, out)


def first_value(cells, dtype: str):
    loader = cf.Loader(cells, cf.Streaming(), 1, dtype=dtype, casting="exact")
    return next(iter(loader)).to_scipy().data[0].item()


@pytest.mark.parametrize("dtype", ["<f2", ">f2", ">f4", ">f8"])
def test_what_is_not_a_number_passes_between_floats(tmp_path, dtype):
    values = np.array([np.nan, np.inf, -np.inf, 0.5], dtype)
    indptr = np.minimum(np.arange(N_ROWS + 1), 1) * len(values)
    write_csr(tmp_path / "a.h5ad", (values, np.arange(len(values)), indptr), {})
    got = cf.open(tmp_path / "a.h5ad")[[0]].to_scipy()
    np.testing.assert_array_equal(got.data, values.astype("f4"))
