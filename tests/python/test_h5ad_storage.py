"""How .h5ad files may be stored: every compression reads, nothing outside the file does."""

import os
import pathlib
import shutil
import subprocess
import sys

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import cellfeed as cf

N = 60
TYPES = ["T cell", "B cell", "βeta"]


def every_kind_of_column() -> pd.DataFrame:
    numbers = np.arange(N)
    return pd.DataFrame(
        {
            "category": pd.Categorical.from_codes(numbers % 4 - 1, TYPES),
            "ordered": pd.Categorical.from_codes(numbers % 3, TYPES, ordered=True),
            "text": [f"donor {n} ü" for n in numbers],
            "empty_text": ["", *(f"{n}" for n in range(1, N))],
            "long_text": [str(n) * 500 for n in numbers],
            "bool": numbers % 2 == 0,
            "int": numbers,
            "float": numbers / 7,
            "nullable_int": pd.array([None, *range(1, N)], dtype="Int64"),
            "nullable_bool": pd.array([None, True] * (N // 2), dtype="boolean"),
            "all_missing": pd.Categorical.from_codes([-1] * N, TYPES),
        },
        index=[f"cell_{n}" for n in numbers],
    )


def atlas(n_genes: int = 12) -> anndata.AnnData:
    x = scipy.sparse.random(
        N, n_genes, 0.4, format="csr", random_state=1, dtype=np.float32,
        data_rvs=lambda n: np.arange(1, n + 1, dtype=np.float32),
    )  # fmt: skip
    var = pd.DataFrame(
        {"symbol": [f"s{g}" for g in range(n_genes)]}, index=[f"gene_{g}" for g in range(n_genes)]
    )
    return anndata.AnnData(x, obs=every_kind_of_column(), var=var)


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> pathlib.Path:
    """To be copied."""
    path = tmp_path_factory.mktemp("original") / "a.h5ad"
    atlas().write_h5ad(path)
    return path


def assert_equal_to_anndata(path: pathlib.Path) -> None:
    adata = anndata.read_h5ad(path)
    cells = cf.open(path)
    np.testing.assert_array_equal(cells[:].to_numpy(), adata.X.toarray())
    assert list(cells.var_names) == list(adata.var_names)
    table = cells.obs_table().to_pandas().set_index("_index")
    assert list(table.index) == list(adata.obs_names)
    for name in adata.obs:
        expected = adata.obs[name].astype(object).where(adata.obs[name].notna(), None)
        got = table[name].astype(object).where(table[name].notna(), None)
        assert list(got) == list(expected), name
    assert list(cells.var_table().to_pandas()["symbol"]) == list(adata.var["symbol"])


@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
def test_every_column_reads_under_every_compression(tmp_path, compression):
    atlas().write_h5ad(tmp_path / "a.h5ad", compression=compression)
    assert_equal_to_anndata(tmp_path / "a.h5ad")
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "shards")
    again = cf.open(tmp_path / "shards")
    np.testing.assert_array_equal(
        again[:].to_numpy(), anndata.read_h5ad(tmp_path / "a.h5ad").X.toarray()
    )


def rewrite(file: h5py.File, name: str, **storage) -> None:
    """The same dataset, stored in another way."""
    old = file[name]
    values, dtype, attributes = old[()], old.dtype, dict(old.attrs)
    del file[name]
    new = file.create_dataset(name, data=values, dtype=dtype, **storage)
    for key, value in attributes.items():
        new.attrs[key] = value


@pytest.mark.parametrize(
    "storage",
    [
        {"chunks": (7,)},
        {"chunks": (7,), "compression": "lzf"},
        {"chunks": (60,), "compression": "lzf", "shuffle": True},
        {"chunks": (7,), "compression": "gzip", "shuffle": True},
        {"chunks": (64,), "maxshape": (None,), "compression": "lzf"},
    ],
)
def test_strings_and_codes_read_however_they_are_filtered(tmp_path, storage):
    atlas().write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        for name in ["text", "long_text", "empty_text", "int", "category/codes", "_index"]:
            rewrite(file, f"obs/{name}", **storage)
        # HDF5 itself sums no strings of variable length.
        for name in ["nullable_int/values", "nullable_int/mask", "float", "category/codes"]:
            rewrite(file, f"obs/{name}", **storage, fletcher32=True)
    assert_equal_to_anndata(tmp_path / "a.h5ad")


def make_external_link(folder: pathlib.Path, name: str) -> None:
    with h5py.File(folder / "a.h5ad", "a") as file:
        del file[name]
        file[name] = h5py.ExternalLink("other.h5ad", name)


def make_link_to_external_link(folder: pathlib.Path, name: str) -> None:
    with h5py.File(folder / "a.h5ad", "a") as file:
        del file[name]
        file["elsewhere"] = h5py.ExternalLink("other.h5ad", name)
        file[name] = h5py.SoftLink("/elsewhere")


def store_outside(folder: pathlib.Path, name: str) -> None:
    with h5py.File(folder / "a.h5ad", "a") as file:
        values, attributes = file[name][()], dict(file[name].attrs)
        (folder / "other.h5ad").write_bytes(values.tobytes())
        del file[name]
        files = [("other.h5ad", 0, values.nbytes)]
        new = file.create_dataset(name, values.shape, values.dtype, external=files)
        for key, value in attributes.items():
            new.attrs[key] = value


def make_virtual(folder: pathlib.Path, name: str) -> None:
    with h5py.File(folder / "a.h5ad", "a") as file:
        old = file[name]
        layout = h5py.VirtualLayout(old.shape, old.dtype)
        layout[:] = h5py.VirtualSource(
            str(folder / "other.h5ad"), name, shape=old.shape, dtype=old.dtype
        )
        attributes = dict(old.attrs)
        del file[name]
        new = file.create_virtual_dataset(name, layout)
        for key, value in attributes.items():
            new.attrs[key] = value


ANYTHING = [
    "X", "X/data", "X/indices", "X/indptr", "obs", "var", "obs/category", "obs/category/codes",
    "obs/category/categories", "obs/text", "obs/nullable_int/mask", "obs/_index", "var/_index",
]  # fmt: skip
NUMBERS = ["X/data", "X/indices", "X/indptr", "obs/category/codes", "obs/int", "obs/bool"]


def refused_or_left_out(name: str, match: str):
    """A column of obs is left out with a warning (an error in tests); the rest is an error."""
    is_column = name.startswith("obs/") and name != "obs/_index"
    return pytest.raises(
        cf.errors.LeftOutWarning if is_column else cf.errors.UnsupportedError, match=match
    )


def read_everything(path: pathlib.Path) -> None:
    cells = cf.open(path)
    cells[:]
    cells.obs_table()
    cells.var_table()
    for name in cells.obs_keys():
        cells.obs_values(name)


@pytest.mark.parametrize(
    ("divert", "name"),
    [(make_external_link, name) for name in ANYTHING]
    + [(make_link_to_external_link, name) for name in ANYTHING]
    + [(store_outside, name) for name in NUMBERS]
    + [(make_virtual, name) for name in NUMBERS],
)
def test_what_lies_in_another_file_is_refused_by_name(original, tmp_path, divert, name):
    for copy in ("a", "other"):
        shutil.copy(original, tmp_path / f"{copy}.h5ad")
    divert(tmp_path, name)
    for use in (
        read_everything,
        lambda path: cf.convert_to_shards(path, tmp_path / "shards"),
    ):
        with refused_or_left_out(name, r"other\.h5ad") as caught:
            use(tmp_path / "a.h5ad")
        assert f"'{name}'" in str(caught.value) or f"'{name.split('/')[0]}'" in str(caught.value)
        assert str(tmp_path / "a.h5ad") in str(caught.value)
    if name.startswith("obs/") and name != "obs/_index":
        with pytest.raises(cf.errors.UnsupportedError, match=r"other\.h5ad"):
            cf.open(tmp_path / "a.h5ad", obs=[name.split("/")[1]])


def test_links_inside_the_file_are_followed(tmp_path):
    atlas().write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        for name in ("X/data", "obs/category", "obs/text"):
            file.move(name, name + "_kept")
            file[name] = h5py.SoftLink(f"/{name}_kept")
    assert_equal_to_anndata(tmp_path / "a.h5ad")


PLUGIN = """
#include <cstdio>
#include <cstdlib>
__attribute__((constructor)) static void loaded() {
  if (FILE* file = std::fopen(std::getenv("PLUGIN_MARK"), "w")) std::fclose(file);
}
"""


def test_no_code_is_loaded_for_a_filter(tmp_path):
    atlas().write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        rewrite(file, "obs/int", chunks=(10,), compression="lzf")
    # Filter 32000, by its number in the file, becomes one that nobody has.
    whole, number = (tmp_path / "a.h5ad").read_bytes(), (32000).to_bytes(2, "little")
    message = number + b"\x08\x00\x01\x00\x03\x00lzf"
    assert whole.count(message) == 1
    unknown = message.replace(number, (32099).to_bytes(2, "little"))
    (tmp_path / "a.h5ad").write_bytes(whole.replace(message, unknown))
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugin.cc").write_text(PLUGIN)
    library = tmp_path / "plugins" / "libplugin.so"
    command = ["c++", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "plugin.cc")]
    subprocess.run(command, check=True)
    code = f"import cellfeed as cf; cf.open({str(tmp_path / 'a.h5ad')!r}).obs_values('int')"
    mark = tmp_path / "mark"
    environment = {
        **os.environ,
        "HDF5_PLUGIN_PATH": str(tmp_path / "plugins"), "PLUGIN_MARK": str(mark),
    }  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (
        "UnsupportedError" in result.stderr and "filter 32099 (lzf) on 'obs/int'" in result.stderr
    )
    assert not mark.exists()


@pytest.fixture(scope="module")
def three_parts(tmp_path_factory) -> pathlib.Path:
    """A folder with each part in three kinds of storage."""
    folder = tmp_path_factory.mktemp("parts")
    kinds = {"plain": None, "gzip": "gzip", "lzf": "lzf"}
    for part in range(3):
        x = scipy.sparse.random(
            700, 3000, 0.05, format="csr", random_state=part, dtype=np.float32,
            data_rvs=lambda n: np.arange(1, n + 1, dtype=np.float32),
        )  # fmt: skip
        for kind, compression in kinds.items():
            anndata.AnnData(x).write_h5ad(folder / f"{part}_{kind}.h5ad", compression=compression)
    return folder


@pytest.mark.parametrize("strategy", [cf.Streaming(), cf.BlockShuffling(1), cf.BlockShuffling(16)])
@pytest.mark.parametrize("memory_budget", [32_000_000, 2**31])
def test_compressed_files_among_plain_ones_give_the_same_batches(
    three_parts, strategy, memory_budget
):
    def batches(*kinds):
        cells = cf.open([three_parts / f"{part}_{kind}.h5ad" for part, kind in enumerate(kinds)])
        loader = cf.Loader(cells, strategy, 64, memory_budget=memory_budget, threads=2)
        return [batch.to_numpy().copy() for batch in loader]

    expected = batches("plain", "plain", "plain")
    for mixed in (("plain", "gzip", "plain"), ("lzf", "plain", "gzip"), ("gzip", "gzip", "gzip")):
        for values, found in zip(expected, batches(*mixed), strict=True):
            np.testing.assert_array_equal(found, values)
