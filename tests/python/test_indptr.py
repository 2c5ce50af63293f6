"""Where rows begin: indptr as any file stores it, read no further than the rows asked for."""

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import cellfeed as cf

N, GENES, CHUNK = 5000, 40, 64


@pytest.fixture(scope="module")
def matrix():
    """Some rows empty, some full."""
    random = np.random.default_rng(0)
    x = sp.random(N, GENES, 0.2, format="csr", dtype=np.float32, rng=random)
    x = sp.diags_array((random.random(N) > 0.05).astype("f4")) @ x
    x = sp.csr_matrix(x)
    x.eliminate_zeros()
    return x


def write(path, x, dtype="<i8", chunk=CHUNK, **filters):
    """The matrix plain, its indptr as asked for."""
    obs = pd.DataFrame({"n": np.arange(N)}, index=[f"c{i}" for i in range(N)])
    anndata.AnnData(x, obs=obs).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        del file["X/indptr"]
        chunks = None if chunk is None else (chunk,)
        values = x.indptr.astype(dtype)
        file["X"].create_dataset("indptr", data=values, chunks=chunks, **filters)
    return path


@pytest.mark.parametrize("cache", [0, 3000, 256 << 20])
@pytest.mark.parametrize(
    ("dtype", "chunk", "filters"),
    [
        ("<i4", CHUNK, {"compression": "gzip"}),
        (">i8", 1, {}),
        ("<u2", 1001, {"compression": "lzf", "shuffle": True}),
        ("<u8", N + 1, {"compression": "gzip", "fletcher32": True}),
        (">i4", None, {}),
        ("<i8", 3, {"compression": "gzip", "maxshape": (None,)}),
    ],
)
def test_rows_are_those_of_scipy(tmp_path, matrix, dtype, chunk, filters, cache, monkeypatch):
    monkeypatch.setattr("cellfeed.opening.CACHE_BYTES", cache)
    path = write(tmp_path / "a.h5ad", matrix, dtype, chunk, **filters)
    cells = cf.open(path)
    random = np.random.default_rng(1)
    for rows in (random.integers(0, N, 300), np.arange(N), np.array([0]), np.array([N - 1, 0])):
        assert (cells.read(rows).x != matrix[rows]).nnz == 0
    order = []
    for batch in cf.Loader(cells, cf.BlockShuffling(1), batch_size=256, threads=2):
        assert (batch.x != matrix[batch.index]).nnz == 0
        order.append(batch.index)
    np.testing.assert_array_equal(np.sort(np.concatenate(order)), np.arange(N))


def damage_chunk(path, number):
    """Has it hold other bytes, which its filter refuses."""
    with h5py.File(path) as file:
        place = file["X/indptr"].id.get_chunk_info(number)
    with open(path, "r+b") as file:
        file.seek(place.byte_offset)
        file.write(b"\xff" * place.size)


def test_opening_reads_nothing_of_it_and_damage_is_of_its_rows(tmp_path, matrix):
    path = write(tmp_path / "a.h5ad", matrix, compression="gzip")
    damage_chunk(path, 40)
    cells = cf.open(path)
    assert cells.shape == matrix.shape
    assert cells.obs_values("n")[-1] == N - 1
    for rows in (np.arange(0, 40 * CHUNK - 1), np.arange(41 * CHUNK, N)):
        assert (cells.read(rows).x != matrix[rows]).nnz == 0
    for row in (40 * CHUNK - 1, 40 * CHUNK, 41 * CHUNK - 1):
        with pytest.raises(cf.errors.CorruptDataError, match=r"a\.h5ad"):
            cells.read(row)


@pytest.mark.parametrize("filters", [{}, {"compression": "gzip"}])
def test_offsets_that_cannot_be_are_named(tmp_path, matrix, filters):
    wrong = matrix.indptr.astype("i8")
    path = write(tmp_path / "a.h5ad", matrix, **filters)

    def with_offset(row, value):
        changed = wrong.copy()
        changed[row] = value
        with h5py.File(path, "r+") as file:
            file["X/indptr"][...] = changed
        return path

    cells = cf.open(with_offset(1000, wrong[1002]))
    assert (cells.read(np.arange(900)).x != matrix[:900]).nnz == 0
    with pytest.raises(cf.errors.CorruptDataError, match="row 1000 goes from"):
        cells.read(np.arange(900, 1100))
    cells = cf.open(with_offset(77, matrix.nnz + 1))
    with pytest.raises(cf.errors.CorruptDataError, match="row 76 goes from"):
        cells.read(np.arange(100))
    cells = cf.open(with_offset(78, -1))
    with pytest.raises(cf.errors.CorruptDataError, match="row 77 goes from"):
        cells.read([77])
    for row, value in ((0, 1), (N, matrix.nnz - 1)):
        with pytest.raises(cf.errors.CorruptDataError, match="start at 0 and end at the number"):
            cf.open(with_offset(row, value)).read([500])


def test_no_integers_and_other_lengths_are_refused_at_once(tmp_path, matrix):
    path = write(tmp_path / "a.h5ad", matrix, "<f8", compression="gzip")
    with pytest.raises(cf.errors.CorruptDataError, match=r"must hold integers.*float64"):
        cf.open(path)
    with h5py.File(path, "r+") as file:
        del file["X/indptr"]
        file["X"].create_dataset("indptr", data=matrix.indptr[:-1], compression="gzip")
    with pytest.raises(cf.errors.CorruptDataError, match="one entry more than rows"):
        cf.open(path)
