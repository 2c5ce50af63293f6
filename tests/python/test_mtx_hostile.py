"""Hostile, damaged and unusual Matrix Market folders: right values or a named error."""

from __future__ import annotations

import gzip
import shutil
import warnings

import numpy as np
import pyarrow as pa
import pytest
from anndata_oracle import assert_same_matrix
from mtx_files import HEADER, random_counts, write_mtx, write_text
from program import run
from tiers import fast

import cellfeed as cf


def open_quietly(path, **options) -> cf.CellCollection:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cf.errors.LeftOutWarning)
        return cf.open(path, **options)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "rows"
    monkeypatch.setenv("CELLFEED_CACHE", str(folder))
    return folder


GENES = "a\tA\tGene Expression\nb\tB\tGene Expression\nc\tC\tGene Expression\n"
CELLS = "x-1\ny-1\n"
BODY = "3 2 2\n1 1 5\n3 2 7\n"


def write_small(folder, matrix=None, barcodes=CELLS, features=GENES, suffix=""):
    folder.mkdir(exist_ok=True)
    write_text(folder / f"matrix.mtx{suffix}", HEADER + "\n" + BODY if matrix is None else matrix)
    write_text(folder / f"barcodes.tsv{suffix}", barcodes)
    write_text(folder / f"features.tsv{suffix}", features)
    return folder


def assert_refused(folder, match, tmp_path, kind=cf.errors.CellfeedError):
    """By every way in, in no time, leaving nothing."""
    with pytest.raises(kind, match=match) as caught:
        cf.open(folder)
    assert not isinstance(caught.value, cf.errors.InternalError)
    assert str(folder) in str(caught.value)
    out = tmp_path / "out"
    run("shard", folder, "--output-dir", out, code=1)
    shutil.rmtree(out, ignore_errors=True)
    rows = tmp_path / "rows"
    assert not rows.exists() or not list(rows.iterdir())


BODIES = [
    ("3 2 2\n1 1 5\n", r"header says 2 entries, and the file ends after 1, at line 3"),
    ("3 2 2\n1 1 5\n3 2 7\n1 2 1\n", r"says 2 entries, and more follow, in line 5: '1 2 1'"),
    ("3 2 2\n1 1 5\n4 2 7\n", r"index out of range in line 4: feature 4 of 3"),
    ("3 2 2\n1 1 5\n3 3 7\n", r"index out of range in line 4: cell 3 of 2"),
    ("3 2 2\n0 1 5\n3 2 7\n", r"index out of range in line 3: feature 0 of 3"),
    ("3 2 2\n-1 1 5\n3 2 7\n", r"line 3 is not an entry of two indices and an integer"),
    ("3 2 2\n1 1 5\n\n3 2 7.5\n", r"line 5 is not an entry.*'3 2 7\.5'"),
    ("3 2 2\n1 1 5 6\n3 2 7\n", r"line 3 is not an entry"),
    ("3 2 2\n1 1 nan\n3 2 7\n", r"line 3 is not an entry"),
    ("3 2 2\n1 1 3000000000\n3 2 7\n", r"line 3 is not an entry.*32 bits"),
    ("3 2 2\n1 1\n3 2 7\n", r"line 3 is not an entry"),
    ("3 2 2\n1 1 5\n% no\n", r"line 4 is not an entry.*'% no'"),
    ("3 2 2\n1 1 5\n3 2 7\x00\n", r"line 4 is not an entry.*'3 2 7\?'"),
    ("3 2 2\n1 1 5\n99999999999999999999999 2 7\n", "line 4 is not an entry"),
    ("3 2 2\n1 1 5" + " " * 200 + "\n3 2 7\n", "line 3 is too long"),
    ("3 2 0\n1 1 5\n", r"says 0 entries, and more follow, in line 3"),
    ("3 2 1000000000000\n1 1 5\n", "which a file of .* bytes cannot hold"),
    ("3 2\n1 1 5\n", r"line 2 must say the numbers of rows, columns and entries.*'3 2'"),
    ("3 2 -1\n", "line 2 must say"),
    ("3 2 99999999999999999999\n", "line 2 must say"),
    ("3000000000 2 1\n1 1 1\n", r"more than 2\^31-1 features"),
    ("3 5000000000 1\n1 1 1\n", r"more than 2\^31-1 features or 2\^32-1 cells"),
    ("", "must say the numbers"),
]


@pytest.mark.parametrize(
    ("body", "match", "suffix"),
    fast(
        [*((*body, "") for body in BODIES), *((*body, ".gz") for body in BODIES[::5])],
        ((*body, suffix) for body in BODIES for suffix in ("", ".gz")),
    ),
)
def test_a_wrong_matrix_is_named_with_its_line(tmp_path, body, match, suffix):
    folder = write_small(tmp_path / "a", HEADER + "\n" + body, suffix=suffix)
    assert_refused(folder, match, tmp_path)


@pytest.mark.parametrize(
    ("banner", "match"),
    [
        ("%%MatrixMarket matrix array integer general", "only matrices in coordinate form"),
        ("%%MatrixMarket vector coordinate integer general", "only matrices in coordinate form"),
        ("%%MatrixMarket matrix coordinate complex general", "this is 'complex'"),
        ("%%MatrixMarket matrix coordinate integer symmetric", "this is 'symmetric'"),
        ("%%MatrixMarket matrix coordinate real skew-symmetric", "this is 'skew-symmetric'"),
        ("%%MatrixMarket matrix coordinate real hermitian", "this is 'hermitian'"),
        ("version https://git-lfs.github.com/spec/v1", "a Git LFS pointer"),
        ("gene,x,y", "no Matrix Market file"),
        ("\x89HDF\r\n\x1a", "no Matrix Market file"),
        ("", "no Matrix Market file"),
    ],
)
def test_other_files_and_forms_are_named(tmp_path, banner, match):
    folder = write_small(tmp_path / "a", banner + "\n" + BODY)
    assert_refused(folder, match, tmp_path)


def test_the_header_may_be_in_any_case_and_real_values_anything(tmp_path):
    text = "%%matrixmarket MATRIX Coordinate REAL General\r\n% a\r\n3 2 3\r\n"
    text += "1 1 -2.5e0\r\n2 1 nan\r\n3 2 +inf"
    folder = write_small(tmp_path / "a", "" + text)
    got = cf.open(folder).read(slice(None), dtype="float64").to_numpy()
    np.testing.assert_array_equal(got, [[-2.5, np.nan, 0], [0, 0, np.inf]])


@pytest.mark.parametrize(
    ("lists", "match"),
    [
        ({"barcodes": ""}, r"barcodes.tsv: must have a line for each of the 2 columns.*has 0"),
        (
            {"barcodes": "x\n"},
            r"line for each of the 2 columns of the matrix \(barcodes\), and has 1",
        ),
        ({"barcodes": "barcode\nx\ny\n", "features": GENES * 2}, "features.tsv: must have a line"),
        ({"barcodes": "x\n" * 9}, r"has 5 or more|has 4 or more"),
        ({"barcodes": "x\n\ny\n"}, "line 2 is empty"),
        ({"barcodes": b"x\n\xff\n"}, "not UTF-8, in line 2"),
        ({"barcodes": "x" * 70_000 + "\ny\n"}, "line 1 has more than 65536 bytes"),
        ({"features": GENES[:-2]}, None),
        ({"features": "a\tA\tG\nb\tB\nc\tC\tG\n"}, "line 2 has 2 columns, and the first"),
        ({"features": 'a\t"A\tG\nb\tB\tG\nc\tC\tG\n'}, "line 1: a quote is not closed"),
        ({"features": "h\th\th\n" + GENES, "barcodes": CELLS}, "is the first line a heading"),
        ({"features": CELLS}, r"each of the 3 rows of the matrix \(features\), and has 2$"),
    ],
)
def test_wrong_lists_are_named(tmp_path, lists, match):
    folder = write_small(tmp_path / "a", **lists)
    if match is None:
        with pytest.raises(cf.errors.InvalidArgumentError, match=r"no features of type"):
            cf.open(folder, feature_type="Gene")
        return
    assert_refused(folder, match, tmp_path)


def test_lists_may_have_crlf_a_byte_order_mark_quotes_and_more_columns(tmp_path):
    folder = write_small(
        tmp_path / "a",
        barcodes="\ufeffx-1\textra\r\ny-1\r\n\r\n",
        features='"a"\t"A ""b"""\t"Gene Expression"\tchr1\t1\t2\r\n'
        + "".join(f"{g}\t{g}\tGene Expression\tchr1\t1\t2\r\n" for g in "bc"),
    )
    cells = cf.open(folder)
    assert list(cells.var_names) == ['A "b"', "b", "c"]
    assert pa.table(cells.obs_table())["_index"].to_pylist() == ["x-1", "y-1"]
    assert cells.var_table().column_names == ["_index", "gene_ids", "feature_types"]
    one_column = write_small(tmp_path / "b", features="a\nb\nc\n")
    cells = cf.open(one_column)
    assert list(cells.var_names) == ["a", "b", "c"]
    assert cells.var_table().column_names == ["_index"]


def test_missing_and_doubled_files_are_named(tmp_path):
    for name in ("barcodes.tsv", "features.tsv"):
        folder = write_small(tmp_path / name)
        (folder / name).unlink()
        assert_refused(folder, f"there is no '{name}'", tmp_path, cf.errors.NotFoundError)
    folder = write_small(tmp_path / "a")
    write_text(folder / "matrix.mtx.gz", "")
    assert_refused(folder, r"holds 'matrix\.mtx' and 'matrix\.mtx\.gz'", tmp_path)
    (folder / "matrix.mtx.gz").unlink()
    write_text(folder / "genes.tsv", GENES)
    assert_refused(folder, r"holds 'features\.tsv' and 'genes\.tsv'", tmp_path)
    (folder / "genes.tsv").unlink()
    (folder / "matrix.mtx").rename(folder / "counts.mtx")
    with pytest.raises(cf.errors.UnsupportedError, match=r"PREFIXmatrix\.mtx"):
        cf.open(folder / "counts.mtx")
    empty = write_small(tmp_path / "empty", matrix="")
    assert_refused(empty, "the file is empty", tmp_path)


def test_damaged_gzip_is_named_and_several_streams_are_one(tmp_path):
    x = random_counts(300, 40)
    folder = write_mtx(tmp_path / "a", x)
    path = folder / "matrix.mtx.gz"
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]) + b"\0" * 99)
    assert_same_matrix(cf.open(folder), x)
    shutil.rmtree(tmp_path / "rows")
    whole = gzip.compress(text)
    for damaged, match in (
        (whole[:-3], "truncated"),
        (whole[: len(whole) // 2], "truncated|header says"),
        (whole + b"garbage", "not gzip follow"),
        (whole[:500] + bytes(99) + whole[599:], "damaged gzip data|not an entry|out of range"),
        (whole[:-8] + bytes(4) + whole[-4:], "damaged gzip data.*data check"),
        (gzip.compress(b"\n" * 2 * 10**7, 1), "no Matrix Market"),
        (gzip.compress(text.split(b"\n", 3)[0] + b"\n" * 10**7), "more than 10000 lines"),
        (gzip.compress(text + b"7" * 2 * 10**7, 1), "more than .* bytes"),
        (gzip.compress(text[:-20] + b"7" * 10**6), "too long"),
    ):
        path.write_bytes(damaged)
        assert_refused(folder, match, tmp_path)
    path.write_bytes(gzip.compress(text + b"\n" * 10**7))  # blank lines are nothing
    assert_same_matrix(cf.open(folder), x)


def test_random_damage_is_read_or_a_named_error(tmp_path):
    x = random_counts(60, 40)
    sound = {
        suffix: {
            path.name: path.read_bytes()
            for path in write_mtx(tmp_path / f"a{suffix}", x, suffix=suffix).iterdir()
        }
        for suffix in ("", ".gz")
    }
    rng = np.random.default_rng(2)
    n_errors = 0
    for turn in range(100):
        suffix = ("", ".gz")[turn % 2]
        folder = tmp_path / f"b{turn}"
        folder.mkdir()
        for name, data in sound[suffix].items():
            damaged = bytearray(data)
            if rng.random() < 0.6:
                for at in rng.integers(0, min(len(damaged), 4000), rng.integers(1, 4)):
                    damaged[at] = rng.choice([0, 10, 13, 32, 45, 57, rng.integers(256)])
            if rng.random() < 0.1:
                del damaged[rng.integers(len(damaged)) :]
            (folder / name).write_bytes(damaged)
        try:
            cells = open_quietly(folder, make_unique=True)
            cells.obs_table()
            cells.read(slice(None), dtype="float64")
        except cf.errors.CellfeedError as error:
            assert not isinstance(error, cf.errors.InternalError), error
            n_errors += 1
        shutil.rmtree(folder)
    assert 20 < n_errors < 100
