"""Whatever AnnData anndata writes is read as anndata reads it: Hypothesis makes them."""

import tempfile
import warnings
from pathlib import Path

import anndata
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import scipy.sparse
from anndata_oracle import assert_same_as_anndata, matrices_of
from hypothesis import given
from hypothesis.extra import numpy as numbers
from real_files import read_anndata
from tiers import examples

# scipy knows no other byte order.
VALUES = ["i1", "u1", "i2", "u4", "i8", "u8", "?", "f4", "f8"]
NUMBERS = ["i1", "u2", ">i4", "<i8", "u8", "?", "<f2", ">f4", "<f8"]
# HDF5 ends a text at its first zero byte.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


def values(n: int, dtype: str):
    kind = np.dtype(dtype)
    elements = None
    if kind.kind in "iu":
        # Sums and conversions of the largest are tested by themselves.
        elements = st.integers(max(np.iinfo(kind).min, -(2**50)), min(np.iinfo(kind).max, 2**50))
    return numbers.arrays(kind, n, elements=elements)


@st.composite
def columns(draw, n: int):
    kind = draw(st.sampled_from(["number", "text", "category", "integer", "boolean", "string"]))
    if kind == "number":
        return draw(values(n, draw(st.sampled_from(NUMBERS))))
    if kind == "text":
        return np.array(draw(st.lists(TEXT, min_size=n, max_size=n)), dtype=object)
    if kind == "category":
        elements = st.one_of(st.lists(TEXT, unique=True, max_size=5),
                             st.lists(st.integers(-5, 2**40), unique=True, max_size=5))  # fmt: skip
        categories = draw(elements)
        codes = draw(st.lists(st.integers(-1, len(categories) - 1), min_size=n, max_size=n))
        return pd.Categorical.from_codes(codes, categories, ordered=draw(st.booleans()))
    missing = st.lists(st.booleans(), min_size=n, max_size=n)
    if kind == "string":
        texts = draw(st.lists(st.one_of(TEXT, st.none()), min_size=n, max_size=n))
        return pd.array(texts, dtype="string")
    dtype = "boolean" if kind == "boolean" else draw(st.sampled_from(["Int8", "UInt16", "Int64"]))
    numpy_type = "?" if kind == "boolean" else dtype.lower()
    made = pd.array(draw(values(n, numpy_type)), dtype=dtype)
    made[np.array(draw(missing), dtype=bool)] = pd.NA
    return made


@st.composite
def frames(draw, prefix: str, n: int):
    names = draw(st.lists(TEXT.filter(is_name), unique=True, max_size=4))
    index = [f"{prefix}{i}{draw(TEXT)}" for i in range(n)]
    return pd.DataFrame(
        {name: draw(columns(n)) for name in names}, index=pd.Index(index, dtype=object)
    )


def is_name(name: str) -> bool:
    return bool(name) and "/" not in name and name.strip(".") != "" and not name.startswith("_")


@st.composite
def matrices(draw, shape):
    dtype = np.dtype(draw(st.sampled_from(VALUES)))
    dense = draw(numbers.arrays(np.int8, shape, elements=st.integers(0, 3)))
    made = scipy.sparse.csr_matrix(dense.astype(dtype.newbyteorder("=")))
    made.data = draw(values(made.nnz, dtype.str)).astype(dtype)
    return made


@st.composite
def anndatas(draw):
    shape = draw(st.integers(0, 7)), draw(st.integers(0, 6))
    layers = {name: draw(matrices(shape)) for name in draw(st.sets(st.sampled_from("ab")))}
    return anndata.AnnData(
        draw(matrices(shape)), obs=draw(frames("c", shape[0])), var=draw(frames("g", shape[1])),
        layers=layers,
    )  # fmt: skip


@examples(150)
@given(adata=anndatas(), compression=st.sampled_from([None, "gzip", "lzf"]))
def test_what_anndata_writes_is_read_as_anndata_reads_it(adata, compression):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "a.h5ad"
        with anndata.settings.override(allow_write_nullable_strings=True):
            adata.write_h5ad(path, compression=compression)
        again = read_anndata(path)
        for layer, (matrix, var) in matrices_of(again).items():
            assert_same_as_anndata(path, again, layer, matrix, var)
