"""Records handed out as they are stored, decoded by plain numpy against scipy."""

import pathlib
import runpy

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import cellfeed as cf

decode_record = runpy.run_path(str(pathlib.Path(__file__).with_name("packed_record_reader.py")))[
    "decode_record"
]
SHARD_SIZE = 60
N_CELLS, N_GENES = 150, 900


def _adata(dtype="float32"):
    random = np.random.default_rng(3)
    counts = random.poisson(0.4, (N_CELLS, N_GENES)) * random.integers(1, 90, (N_CELLS, N_GENES))
    counts[::7] = 0
    genes = pd.DataFrame(index=[f"g{i}" for i in range(N_GENES)])
    cells = pd.DataFrame(index=[f"cell-{i}" for i in range(N_CELLS)])
    return anndata.AnnData(sp.csr_matrix(counts.astype(dtype)), cells, genes)


def _shards(tmp_path, adata, **options):
    adata.write_h5ad(tmp_path / "source.h5ad")
    options = {"shard_size": SHARD_SIZE, **options}
    cf.convert_to_shards(tmp_path / "source.h5ad", tmp_path / "shards", **options)
    return cf.open(tmp_path / "shards")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint16"])
@pytest.mark.parametrize("access", ["auto", "pread"])
def test_records_decode_to_the_cells(tmp_path, dtype, access):
    adata = _adata(dtype)
    _shards(tmp_path, adata)
    cells = cf.open(tmp_path / "shards", access=access)
    for begin, end in [(0, N_CELLS), (59, 61), (75, 76), (130, 150), (7, 8), (40, 40)]:
        parts = cells.encoded(begin, end)
        seen = []
        for part in parts:
            assert part.dtype == np.dtype(dtype)
            assert part.n_genes == N_GENES
            assert not part.data[-64:].any()
            for i in range(len(part)):
                cell = part.begin + i
                expected = adata.X[cell]
                indices, values = decode_record(part[i], int(part.nnz[i]), part.dtype)
                np.testing.assert_array_equal(indices, expected.indices)
                np.testing.assert_array_equal(values, expected.data)
                assert values.dtype == expected.dtype
                seen.append(cell)
        assert seen == list(range(begin, end))
        n_shards = len(range(begin // SHARD_SIZE, -(-end // SHARD_SIZE))) if end > begin else 0
        assert len(parts) == n_shards


def test_data_is_a_copy_of_its_own(tmp_path):
    cells = _shards(tmp_path, _adata())
    (part,) = cells.encoded(0, 20)
    kept = part.data.copy()
    part.data[:] = 0
    np.testing.assert_array_equal(cells.encoded(0, 20)[0].data, kept)
    data = part.data
    del part, cells
    assert data.sum() == 0


def test_a_damaged_record_is_no_record(tmp_path):
    cells = _shards(tmp_path, _adata())
    (part,) = cells.encoded(10, 12)
    path = tmp_path / "shards" / "shard_000000.cells"
    stored = bytearray(path.read_bytes())
    at = stored.find(part[1].tobytes())
    stored[at + len(part[1]) // 2] ^= 16
    path.write_bytes(stored)
    cells = cf.open(tmp_path / "shards")
    with pytest.raises(cf.errors.CorruptDataError, match="row 11 "):
        cells.encoded(10, 12)
    assert len(cells.encoded(0, 11)[0]) == 11


def test_what_is_no_record_is_refused_by_name(tmp_path):
    adata = _adata()
    cells = _shards(tmp_path, adata)
    with pytest.raises(cf.errors.OutOfRangeError):
        cells.encoded(0, N_CELLS + 1)
    with pytest.raises(cf.errors.OutOfRangeError):
        cells.encoded(9, 8)
    with pytest.raises(cf.errors.InvalidArgumentError, match="begin"):
        cells.encoded(-1, 8)
    with pytest.raises(cf.errors.UnsupportedError, match="cells were chosen"):
        cells.filter([4, 2]).encoded(0, 1)
    with pytest.raises(cf.errors.UnsupportedError, match="its genes are not in the places"):
        cf.open(tmp_path / "shards", genes=["g5", "g1"]).encoded(0, 1)
    with pytest.raises(cf.errors.UnsupportedError, match="cellfeed shard"):
        cf.open(tmp_path / "source.h5ad").encoded(0, 1)
    cf.convert_to_shards(tmp_path / "source.h5ad", tmp_path / "dense", layout="dense")
    with pytest.raises(cf.errors.UnsupportedError, match="cellfeed shard"):
        cf.open(tmp_path / "dense").encoded(0, 1)
