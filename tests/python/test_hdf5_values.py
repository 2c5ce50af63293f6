"""The bytes of every dataset, as our own reader and h5py read them: all ways to store them."""

import subprocess

import h5py
import hdf5plugin
import hypothesis.strategies as st
import numpy as np
import pytest
from conftest import REAL_DATA, ROOT
from hypothesis import given
from tiers import examples

PROGRAM = ROOT / "build/wheel/hdf5_values"
REAL_FILES = sorted(
    path
    for folder in ("anndata", "odd", "tenx")
    for path in (REAL_DATA / folder).rglob("*.h5*")
    if path.name not in ("git_lfs_pointer_pbmc3k.h5ad",)
)


def read_ours(path, backend="map") -> tuple[dict[str, bytes], dict[str, str]]:
    """Values and errors by path."""
    output = subprocess.run([PROGRAM, path, backend], capture_output=True, check=True).stdout
    values, errors = {}, {}
    while output:
        line, _, output = output.partition(b"\n")
        word, rest = line.decode().split(" ", 1)
        if word == "value":
            name, size = rest.rsplit(" ", 1)
            values[name], output = output[: int(size)], output[int(size) :]
        else:
            name, what = rest.split(" ", 1)
            errors[name.lstrip("/")] = what
    return values, errors


def holds_references(dtype: np.dtype) -> bool:
    """Whether elements are places in the file, which h5py turns into addresses in memory."""
    if dtype.subdtype is not None:
        return holds_references(dtype.subdtype[0])
    if dtype.names:
        return any(holds_references(dtype[name]) for name in dtype.names)
    return dtype.kind == "O"


def read_h5py(path) -> dict[str, bytes]:
    values = {}

    def visit(name, item):
        if not isinstance(item, h5py.Dataset) or holds_references(item.dtype):
            return
        stored = item.id.get_type()
        buffer = np.zeros(item.size or 0, f"V{stored.get_size()}")
        if buffer.size:
            item.id.read(h5py.h5s.ALL, h5py.h5s.ALL, buffer, stored)
        values[name] = buffer.tobytes()

    with h5py.File(path) as file:
        file.visititems(visit)
    return values


def check(path, may_fail=lambda name: False):
    theirs = read_h5py(path)
    for backend in ("map", "pages"):
        ours, errors = read_ours(path, backend)
        assert not [name for name in errors if not may_fail(name)], errors
        for name, values in theirs.items():
            if name not in errors:
                assert ours[name] == values, name
    return ours


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.name)
def test_every_dataset_of_real_files(path):
    assert check(path)


DTYPES = [
    "<i1", "<u2", ">i4", "<i8", ">u8", "<f2", ">f4", "<f8", "?", "S5",
    np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S3")]), np.dtype([("r", "<i2", (3,))]),
]  # fmt: skip
FILTERS = {
    "none": {},
    "gzip": {"compression": "gzip", "compression_opts": 3},
    "shuffle_gzip": {"compression": "gzip", "shuffle": True},
    "lzf": {"compression": "lzf"},
    "checked": {"fletcher32": True},
    "shuffle_lzf_checked": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    "zstd": hdf5plugin.Zstd(),
    "lz4": hdf5plugin.LZ4(),
    "blosc_lz4": hdf5plugin.Blosc(cname="lz4", shuffle=hdf5plugin.Blosc.BITSHUFFLE),
    "blosc_zstd": hdf5plugin.Blosc(cname="zstd"),
    "blosc_blosclz": hdf5plugin.Blosc(cname="blosclz"),
    "blosc_zlib": hdf5plugin.Blosc(cname="zlib", shuffle=hdf5plugin.Blosc.NOSHUFFLE),
    "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
    "bitshuffle_lz4": hdf5plugin.Bitshuffle(cname="lz4"),
    "bitshuffle_zstd": hdf5plugin.Bitshuffle(cname="zstd"),
}


@st.composite
def dataset_plans(draw):
    shape = draw(st.lists(st.integers(0, 30), min_size=0, max_size=3))
    plan = {"shape": tuple(shape), "dtype": draw(st.sampled_from(DTYPES))}
    if not shape or not draw(st.booleans()):
        return plan | {"chunked": False}
    growth = st.sampled_from(["no", "some", "any"])
    maxshape = []
    for extent in shape:
        how = draw(growth)
        maxshape.append({"no": max(extent, 1), "some": extent + 7, "any": None}[how])
    chunks = tuple(draw(st.integers(1, min(9, most or 9))) for most in maxshape)
    return plan | {
        "chunked": True,
        "maxshape": tuple(maxshape),
        "chunks": chunks,
        "filters": draw(st.sampled_from(sorted(FILTERS))),
        "fills": draw(st.booleans()),
        "seed": draw(st.integers(0, 99)),
    }


def random_values(random, shape, dtype):
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=int))
    # Small numbers in every byte: of any type, and compressible.
    raw = random.integers(0, 2 if dtype.kind == "b" else 60, size * dtype.itemsize, "u1")
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)


def write_dataset(file, name, plan):
    random = np.random.default_rng(plan.get("seed", 0))
    if not plan["chunked"]:
        return file.create_dataset(name, data=random_values(random, plan["shape"], plan["dtype"]),
                                   dtype=plan["dtype"])  # fmt: skip
    plain = np.dtype(plan["dtype"]).kind in "iuf"
    dataset = file.create_dataset(
        name, plan["shape"], plan["dtype"], chunks=plan["chunks"], maxshape=plan["maxshape"],
        fillvalue=7 if plan["fills"] and plain else None, **FILTERS[plan["filters"]],
    )  # fmt: skip
    # Some chunks only; those that hold an element of these boxes.
    for _ in range(random.integers(0, 6)):
        box = tuple(slice(*sorted(random.integers(0, n + 1, 2))) for n in plan["shape"])
        shape = tuple(part.stop - part.start for part in box)
        if all(shape):
            dataset[box] = random_values(random, shape, plan["dtype"])
    return dataset


@examples(100)
@given(
    plans=st.lists(dataset_plans(), min_size=1, max_size=8),
    libver=st.sampled_from(["earliest", "v108", "v110", "v112", "v114", "latest"]),
    userblock=st.sampled_from([0, 512, 2048]),
)
def test_every_dataset_of_made_files(tmp_path_factory, plans, libver, userblock):
    path = tmp_path_factory.getbasetemp() / "made.h5"
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        for i, plan in enumerate(plans):
            write_dataset(file, f"d{i}", plan)
    assert len(check(path)) == len(plans)


def test_chunks_that_left_out_filters(tmp_path):
    values = np.arange(40, dtype="<i4")
    with h5py.File(tmp_path / "f.h5", "w") as file:
        dataset = file.create_dataset("d", (40,), "<i4", chunks=(10,), compression="gzip",
                                      shuffle=True)  # fmt: skip
        dataset[:20] = values[:20]
        dataset.id.write_direct_chunk((20,), values[20:30].tobytes(), filter_mask=0b11)
    assert check(tmp_path / "f.h5")["d"] == np.r_[values[:30], np.zeros(10, "<i4")].tobytes()


def test_filters_that_are_not_read_are_named(tmp_path):
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("scaled", data=np.arange(40), chunks=(10,), scaleoffset=0)
        file.create_dataset("blosc2", data=np.arange(40), chunks=(10,), **hdf5plugin.Blosc2())
        file.create_dataset("zfp", data=np.arange(40.0), chunks=(10,), **hdf5plugin.Zfp())
        file.create_dataset("plain", data=np.arange(40), chunks=(10,))
    values, errors = read_ours(tmp_path / "f.h5")
    assert list(values) == ["plain"]
    named = {"scaled": "6 (scale-offset)", "blosc2": "32026 (blosc2)", "zfp": "32013 (zfp)"}
    for name, filters in named.items():
        assert "unsupported" in errors[name].lower() and f"filter {filters}" in errors[name]


def test_a_file_cut_short_is_an_error(tmp_path):
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("d", data=np.arange(4000), chunks=(100,), compression="gzip")
    whole = (tmp_path / "f.h5").read_bytes()
    for size in range(0, len(whole), 997):
        (tmp_path / "f.h5").write_bytes(whole[:size])
        for backend in ("map", "pages"):
            values, errors = read_ours(tmp_path / "f.h5", backend)
            assert errors and not values
