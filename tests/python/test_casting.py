"""Conversions of values to a batch's dtype: right, rounded where that is asked for, or refused."""

import anndata
import numpy as np
import pytest
import scipy.sparse

import cellfeed as cf

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
OUTPUTS = ["float32", "float64", "int32", "int64"]
CASTINGS = ["exact", "round", "same_kind"]
FORMATS = ["memory", "plain", "gzip", "dense_plain", "dense_gzip", "packed", "dense"]

FLOATS = [
    0.5, 0.1, -1 / 3, 1e-300, 2.0**-149, 2.0**24, 2.0**24 + 1, 2.0**31 - 1, 2.0**31, -(2.0**31),
    -(2.0**31) - 1, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64, 3.4028234663852886e38,
    # Below and at half a step above the largest float32.
    3.4028235677973362e38, 3.4028235677973366e38, -3.4028235677973366e38, 1e39, -1e300,
    1.7976931348623157e308, np.inf, -np.inf, np.nan,
]  # fmt: skip


def special_values(stored: str) -> np.ndarray:
    if stored.startswith("float"):
        with np.errstate(over="ignore"):
            values = np.unique(np.array(FLOATS).astype(stored))
        return values[values != 0]
    info = np.iinfo(stored)
    near = [0, 2**7, 2**8, 2**15, 2**16, 2**24, 2**31, 2**32, 2**53, 2**63]
    # Above int64 conversion to shards refuses.
    all_of = {sign * (n + step) for n in near for step in (-1, 0, 1) for sign in (-1, 1)} - {
        2**63,
        2**63 + 1,
    }
    return np.array([v for v in sorted(all_of) if info.min <= v <= info.max and v], dtype=stored)


def expected(value: np.generic, out: str, casting: str) -> np.generic | None:
    """The value as numpy converts it, or None where that is not allowed."""
    is_float = np.issubdtype(value.dtype, np.floating)
    if out.startswith("float"):
        with np.errstate(over="ignore"):
            result = value.astype(out)
        if is_float and not np.isfinite(value):
            return result
        if np.isfinite(result) and (float(result) if is_float else int(result)) == value.item():
            return result
        may_round = casting == "same_kind" or (casting == "round" and is_float)
        return result if may_round and np.isfinite(result) else None
    if is_float and (not np.isfinite(value) or value != np.trunc(value)):
        return None
    whole, info = int(value), np.iinfo(out)
    return np.dtype(out).type(whole) if info.min <= whole <= info.max else None


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """For each stored dtype and format: row i holds special value i among forty ordinary ones."""
    folder = tmp_path_factory.mktemp("sources")
    found = {}
    for stored in ["float32", "float64", *INTEGERS]:
        specials = special_values(stored)
        x = np.tile(np.arange(1, 42), (len(specials), 1)).astype(stored)
        x[np.arange(len(specials)), np.arange(len(specials)) % 41] = specials
        adata = anndata.AnnData(scipy.sparse.csr_matrix(x))
        adata.write_h5ad(folder / f"{stored}.h5ad")
        adata.write_h5ad(folder / f"{stored}_gzip.h5ad", compression="gzip")
        full = anndata.AnnData(x)
        full.write_h5ad(folder / f"{stored}_dense_plain.h5ad")
        full.write_h5ad(folder / f"{stored}_dense_gzip.h5ad", compression="gzip")
        cf.convert_to_shards(folder / f"{stored}.h5ad", folder / f"{stored}_packed")
        found[stored] = {
            "memory": adata, "plain": folder / f"{stored}.h5ad",
            "gzip": folder / f"{stored}_gzip.h5ad", "packed": folder / f"{stored}_packed",
            "dense_plain": folder / f"{stored}_dense_plain.h5ad",
            "dense_gzip": folder / f"{stored}_dense_gzip.h5ad",
        }  # fmt: skip
        if stored == "float32":
            cf.convert_to_shards(
                folder / f"{stored}.h5ad", folder / f"{stored}_dense", layout="dense"
            )
            found[stored]["dense"] = folder / f"{stored}_dense"
    return found


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("stored", ["float32", "float64", *INTEGERS])
def test_every_value_is_what_numpy_gives_or_refused(sources, stored, kind):
    if kind not in sources[stored]:
        return
    cells = cf.open(sources[stored][kind])
    specials = special_values(stored)
    for out in OUTPUTS:
        for casting in CASTINGS:
            wanted = [expected(value, out, casting) for value in specials]
            rows = [row for row, value in enumerate(wanted) if value is not None]
            right = np.array(wanted, dtype=object)[rows].astype(out)
            for output in ("csr", "dense"):
                how = {"dtype": out, "casting": casting, "output": output}
                x = cells.read(rows, **how).to_numpy()
                np.testing.assert_array_equal(x[np.arange(len(rows)), np.array(rows) % 41], right)
                for row, value in enumerate(specials):
                    if wanted[row] is None:
                        with pytest.raises(cf.errors.PrecisionError, match="pass dtype=") as caught:
                            cells.read([row], **how)
                        assert out in str(caught.value), f"{value!r} to {out}, {casting}"


@pytest.mark.parametrize("casting", CASTINGS)
def test_counts_above_int64_do_not_wrap(casting):
    x = scipy.sparse.csr_matrix(np.array([[2**63, 1], [2**64 - 1, 1]], dtype=np.uint64))
    cells = cf.open(anndata.AnnData(x))
    for out in ("int32", "int64"):
        for row in (0, 1):
            with pytest.raises(cf.errors.PrecisionError):
                cells.read([row], dtype=out, casting=casting)
    assert cells.read([0], casting=casting).to_numpy()[0, 0] == 2**63
    if casting == "same_kind":
        assert cells.read([1], dtype="float64", casting=casting).to_numpy()[0, 0] == 2**64
    else:
        with pytest.raises(cf.errors.PrecisionError):
            cells.read([1], dtype="float64", casting=casting)


@pytest.mark.parametrize("kind", ["memory", "plain", "packed"])
def test_float64_rounds_everywhere_without_being_asked(tmp_path, kind):
    x = scipy.sparse.random(30, 20, 0.4, format="csr", random_state=0, dtype=np.float64)
    adata = anndata.AnnData(x)
    adata.write_h5ad(tmp_path / "a.h5ad")
    source = {"memory": adata, "plain": tmp_path / "a.h5ad", "packed": tmp_path / "shards"}[kind]
    if kind == "packed":
        cf.convert_to_shards(tmp_path / "a.h5ad", source)
    cells, rounded = cf.open(source), x.astype(np.float32).toarray()
    np.testing.assert_array_equal(cells[:].to_numpy(), rounded)
    np.testing.assert_array_equal(cells.read(slice(None)).to_numpy(), rounded)
    (batch,) = cf.Loader(cells, cf.Streaming(), batch_size=30)
    np.testing.assert_array_equal(batch.to_numpy(), rounded)
    data = cf.scDataset(cells, cf.Streaming(), batch_size=30)
    np.testing.assert_array_equal(next(iter(data)).to_numpy(), rounded)


def test_sums_of_entries_of_one_gene_keep_the_rules():
    """Duplicate entries are summed before they are converted."""
    big = 2**62
    x = scipy.sparse.csr_matrix(
        (np.array([big, big, 2**24, 1], dtype=np.int64), [0, 0, 1, 1], [0, 2, 4]), shape=(2, 2)
    )
    adata = anndata.AnnData(scipy.sparse.csr_matrix((2, 2), dtype=np.int64))
    adata.X = x
    cells = cf.open(adata)
    for casting in CASTINGS:
        for out in OUTPUTS:
            with pytest.raises(cf.errors.PrecisionError):
                cells.read([0], dtype=out, casting=casting)
    assert cells.read([1], dtype="float64").to_numpy()[0, 1] == 2**24 + 1
    with pytest.raises(cf.errors.PrecisionError, match="same_kind"):
        cells.read([1])
    assert cells.read([1], casting="same_kind").to_numpy()[0, 1] == 2**24


def test_what_the_dtype_cannot_hold_is_said_when_the_loader_is_made(tmp_path):
    whole = scipy.sparse.csr_matrix(np.arange(1, 201, dtype=np.float32).reshape(50, 4))
    anndata.AnnData(whole).write_h5ad(tmp_path / "whole.h5ad")
    anndata.AnnData(whole / 3).write_h5ad(tmp_path / "thirds.h5ad")
    anndata.AnnData((whole / 3).astype(np.float64)).write_h5ad(tmp_path / "thirds64.h5ad")
    whole_cells = cf.open(tmp_path / "whole.h5ad")
    assert next(iter(cf.Loader(whole_cells, cf.Streaming(), dtype="int32"))).data.dtype == np.int32
    with pytest.raises(cf.errors.PrecisionError, match=r"thirds\.h5ad.*int64.*dtype="):
        cf.Loader(cf.open(tmp_path / "thirds.h5ad"), cf.Streaming(), dtype="int64")
    both = cf.open([tmp_path / "whole.h5ad", tmp_path / "thirds.h5ad"])
    with pytest.raises(cf.errors.PrecisionError, match=r"thirds\.h5ad"):
        cf.Loader(both, cf.Streaming(), dtype="int32")
    with pytest.raises(cf.errors.PrecisionError, match=r"thirds64\.h5ad.*casting=\"round\""):
        cf.Loader(cf.open(tmp_path / "thirds64.h5ad"), cf.Streaming(), casting="exact")
    cf.Loader(cf.open(tmp_path / "thirds64.h5ad"), cf.Streaming())


@pytest.mark.parametrize(
    ("stored", "value", "dtype"),
    [("int64", 2**31, "int32"), ("uint32", 2**31, "int32"), ("int32", 2**24 + 1, "float32"),
     ("uint64", 2**63, "int64"), ("int64", 2**53 + 1, "float64")],
)  # fmt: skip
def test_so_is_a_whole_number_beyond_it(tmp_path, stored, value, dtype):
    for name, number in (("large", value), ("small", 100)):
        x = scipy.sparse.csr_matrix(np.full((50, 4), number, dtype=stored))
        anndata.AnnData(x).write_h5ad(tmp_path / f"{name}.h5ad")
    with pytest.raises(cf.errors.PrecisionError, match=rf"large\.h5ad.*{dtype}.*{value}"):
        cf.Loader(cf.open(tmp_path / "large.h5ad"), cf.Streaming(), dtype=dtype)
    small = cf.Loader(cf.open(tmp_path / "small.h5ad"), cf.Streaming(), dtype=dtype)
    assert next(iter(small)).to_numpy().sum() == 100 * 200


def test_a_casting_that_does_not_exist_is_refused(tmp_path):
    anndata.AnnData(scipy.sparse.csr_matrix(np.eye(2))).write_h5ad(tmp_path / "a.h5ad")
    with pytest.raises(ValueError, match=r"casting.*\"round\".*'unsafe'"):
        cf.Loader(cf.open(tmp_path / "a.h5ad"), cf.Streaming(), casting="unsafe")
