"""The same table in every format that can be opened, alone, in parts and in mixtures of these."""

from __future__ import annotations

import functools
import itertools
import pathlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pandas as pd
import scipy.sparse
from mtx_files import HEADER, write_mtx
from one_table import (
    CELLS,
    GENES,
    N_CELLS,
    N_GENES,
    OBS,
    ONLY_IN_FIRST_PART,
    PART_SIZES,
    PARTS,
    as_anndata,
    is_whole,
    matrix,
    obs,
)
from zarr_files import store_again, write_store, zip_store

import cellfeed as cf

Opener = Callable[..., cf.CellCollection]
SHARD_SIZE = 60
# Matrices of the same cells beside X.
FURTHER = {"layers": ["half"], "obsm": ["X_pca"]}
# So small that chunks begin and end within rows, and a row lies in several.
CHUNK = 97


def rechunk(path: pathlib.Path, compression: str | None, group: str = "X") -> pathlib.Path:
    """Values and columns of a sparse matrix in small chunks."""
    with h5py.File(path, "r+") as file:
        for name in ("data", "indices"):
            values = file[group][name][:]
            del file[group][name]
            file[group].create_dataset(
                name, data=values, chunks=(CHUNK,), compression=compression, shuffle=True
            )
    return path


def memory(tables, folder, x) -> Opener:
    return functools.partial(cf.open, as_anndata(x, order="shuffled"))


def memory_dense(tables, folder, x) -> Opener:
    return functools.partial(cf.open, as_anndata(x, stored="dense", dtype=np.float64))


def plain(tables, folder, x) -> Opener:
    as_anndata(x, order="shuffled").write_h5ad(folder / "a.h5ad")
    return functools.partial(cf.open, folder / "a.h5ad")


def gzip(tables, folder, x) -> Opener:
    as_anndata(x).write_h5ad(folder / "a.h5ad", compression="gzip")
    return functools.partial(cf.open, rechunk(folder / "a.h5ad", "gzip"))


def lzf(tables, folder, x) -> Opener:
    as_anndata(x, order="shuffled", dtype=np.float64).write_h5ad(folder / "a.h5ad")
    return functools.partial(cf.open, rechunk(folder / "a.h5ad", "lzf"))


def dense(tables, folder, x) -> Opener:
    as_anndata(x, stored="dense").write_h5ad(folder / "a.h5ad")
    return functools.partial(cf.open, folder / "a.h5ad")


def dense_gzip(tables, folder, x) -> Opener:
    path = folder / "a.h5ad"
    as_anndata(x, stored="dense").write_h5ad(path)
    with h5py.File(path, "r+") as file:
        values, attributes = file["X"][:], dict(file["X"].attrs)
        del file["X"]
        file.create_dataset("X", data=values, chunks=(10, 13), compression="gzip")
        file["X"].attrs.update(attributes)
    return functools.partial(cf.open, path)


def csc(tables, folder, x) -> Opener:
    as_anndata(x, stored="csc").write_h5ad(folder / "a.h5ad", compression="gzip")
    return functools.partial(cf.open, folder / "a.h5ad", cache_dir=folder / "rows")


def zarr_v2(tables, folder, x) -> Opener:
    path = write_store(as_anndata(x, order="shuffled"), folder / "a.zarr", 2)
    return functools.partial(cf.open, store_again(path, chunks=CHUNK))


def zarr_shards(tables, folder, x) -> Opener:
    """Of format 3, zipped; chunks of a shard begin and end within rows."""
    path = write_store(as_anndata(x, dtype=np.float64), folder / "a.zarr", 3)
    return functools.partial(
        cf.open, zip_store(store_again(path, chunks=CHUNK + 1, shards=6 * (CHUNK + 1)))
    )


def zarr_dense(tables, folder, x) -> Opener:
    path = write_store(as_anndata(x, stored="dense"), folder / "a.zarr", 3)
    return functools.partial(cf.open, store_again(path, chunks=26))


def zarr_csc(tables, folder, x) -> Opener:
    path = write_store(as_anndata(x, stored="csc"), folder / "a.zarr", 3)
    return functools.partial(cf.open, path, cache_dir=folder / "rows")


def tenx_h5(tables, folder, x) -> Opener:
    counts = x.astype(np.int32)
    columns = {
        "barcodes": CELLS, "features/id": [f"ENSG{i:05d}" for i in range(N_GENES)],
        "features/name": GENES, "features/feature_type": ["Gene Expression"] * N_GENES,
        "features/genome": ["hg38"] * N_GENES,
    }  # fmt: skip
    with h5py.File(folder / "a.h5", "w") as file:
        group = file.create_group("matrix")
        group["data"], group["indices"] = counts.data, counts.indices.astype("<i8")
        group["indptr"] = counts.indptr.astype("<i8")
        group["shape"] = np.array([N_GENES, N_CELLS], "<i4")
        for name, values in columns.items():
            group[name] = np.array([value.encode() for value in values])
    return functools.partial(cf.open, rechunk(folder / "a.h5", "gzip", "matrix"))


def mtx(tables, folder, x) -> Opener:
    header = HEADER if is_whole(x) else HEADER.replace("integer", "real")
    entries = x.astype(np.int64) if is_whole(x) else x
    path = write_mtx(folder / "mtx", entries, header=header, order="shuffled")
    return functools.partial(cf.open, path, cache_dir=folder / "rows")


def lists_of(x: scipy.sparse.csr_matrix, genes: Any) -> dict[str, list[Any]]:
    """The entries of each row as two lists, from the last to the first."""
    bounds = list(itertools.pairwise(x.indptr))
    return {
        "genes": [genes[x.indices[begin:end][::-1]] for begin, end in bounds],
        "values": [x.data[begin:end][::-1] for begin, end in bounds],
    }


def write_var(folder: pathlib.Path) -> pathlib.Path:
    pd.DataFrame({"name": GENES}).to_parquet(folder / "var.parquet")
    return folder / "var.parquet"


def parquet_lists(tables, folder, x) -> Opener:
    table = pd.DataFrame(lists_of(x, np.arange(N_GENES)), index=CELLS)
    table.to_parquet(folder / "a.parquet", row_group_size=37)
    return functools.partial(cf.open, folder / "a.parquet", var=write_var(folder))


def parquet_wide(tables, folder, x) -> Opener:
    table = pd.DataFrame(x.toarray(), columns=GENES, index=CELLS)
    table.to_parquet(folder / "a.parquet", row_group_size=50, compression="zstd")
    return functools.partial(cf.open, folder / "a.parquet")


def parquet_files(tables, folder, x) -> Opener:
    """Lists of names in several files."""
    for number, (begin, end) in enumerate(PARTS):
        lists = lists_of(x[begin:end], np.array(GENES, dtype=object))
        table = pd.DataFrame(lists, index=CELLS[begin:end])
        table.to_parquet(folder / f"{number}.parquet", row_group_size=[20, 1, 1000, 7][number])
    files = sorted(folder.glob("*.parquet"))
    return functools.partial(cf.open, files, var=write_var(folder))


def packed_shards(tables, folder, x) -> Opener:
    cf.convert_to_shards(
        cf.open(as_anndata(x), **FURTHER), folder / "shards", shard_size=SHARD_SIZE
    )
    return functools.partial(cf.open, folder / "shards")


def dense_shards(tables, folder, x) -> Opener:
    options = {"layout": "dense", "shard_size": SHARD_SIZE}
    cf.convert_to_shards(cf.open(as_anndata(x), **FURTHER), folder / "shards", **options)
    return functools.partial(cf.open, folder / "shards")


def shards_by_mean(tables, folder, x) -> Opener:
    """Their genes are renumbered, and put back by name."""
    options = {"gene_order": "mean", "shard_size": N_CELLS}
    cf.convert_to_shards(cf.open(as_anndata(x), **FURTHER), folder / "shards", **options)
    return functools.partial(cf.open, folder / "shards", genes=GENES)


def filling_cache(tables, folder, x) -> Opener:
    """Another empty cache each time that it is opened."""
    numbers, again = itertools.count(), tables.opener("gzip", x)
    return lambda **options: again(cache="rows", cache_dir=folder / str(next(numbers)), **options)


def full_cache(tables, folder, x) -> Opener:
    again = functools.partial(tables.opener("gzip", x), cache="rows", cache_dir=folder / "cache")
    cells = again()
    for _ in range(9):  # a slow disk keeps some rows only when they are read again
        for _ in cf.Loader(cells, cf.Streaming(), 50):
            pass
        if cells.packed_shards():
            return again
    raise AssertionError("the cache is not full after nine epochs")


def several_files(tables, folder, x) -> Opener:
    for number, part in enumerate(PARTS):
        path = folder / f"{number}.h5ad"
        as_anndata(x, np.arange(*part), order="shuffled").write_h5ad(path)
        if number == 1:
            rechunk(path, "gzip")
    return functools.partial(cf.open, sorted(folder.glob("*.h5ad")))


def mixed_parts(folder, x, orders) -> list[Any]:
    """A gzip file, a plain one of another dtype, shards, and an AnnData in memory."""
    parts = [np.arange(*part) for part in PARTS]
    as_anndata(x, parts[0], orders[0]).write_h5ad(folder / "0.h5ad")
    as_anndata(
        x, parts[1], orders[1], dtype=np.int64 if is_whole(x) else np.float64, order="shuffled"
    ).write_h5ad(folder / "1.h5ad")
    third = cf.open(as_anndata(x, parts[2], orders[2]), **FURTHER)
    cf.convert_to_shards(third, folder / "2", shard_size=30)
    in_memory = as_anndata(x, parts[3], orders[3], stored="dense", dtype=np.float64)
    return [rechunk(folder / "0.h5ad", "gzip"), folder / "1.h5ad", folder / "2", in_memory]


def mixed(tables, folder, x) -> Opener:
    return functools.partial(cf.open, mixed_parts(folder, x, [slice(None)] * 4))


def joined(tables, folder, x) -> Opener:
    """Parts whose genes come in other orders, some only in the first."""
    random = np.random.default_rng(1)
    orders = [random.permutation(N_GENES) for _ in PARTS]
    orders[1:] = [order[~np.isin(order, ONLY_IN_FIRST_PART)] for order in orders[1:]]
    return functools.partial(cf.open, mixed_parts(folder, x, orders), genes=GENES)


def filtered(tables, folder, x) -> Opener:
    """Every second row and some at the end of a larger file, which holds others' values between."""
    places = np.arange(N_CELLS) * 2 + 1
    between = np.roll(np.arange(N_CELLS), 40)
    rows = np.stack([between, np.arange(N_CELLS)], axis=1).ravel()
    names = [CELLS[row] if i % 2 else f"other {i}" for i, row in enumerate(rows)]
    as_anndata(x, rows, names=names).write_h5ad(folder / "a.h5ad")
    return lambda **options: cf.open(folder / "a.h5ad", **options).filter(places)


def reordered(tables, folder, x) -> Opener:
    """Shards in random order, read by a filter that puts their cells in order again."""
    options = {"shuffle": True, "seed": 3, "shard_size": SHARD_SIZE}
    cf.convert_to_shards(cf.open(as_anndata(x), **FURTHER), folder / "shards", **options)

    def open_in_order(**options: Any) -> cf.CellCollection:
        cells = cf.open(folder / "shards", **options)
        return cells.filter(np.argsort(cells.obs_names))

    return open_in_order


FORMATS: dict[str, Callable[..., Opener]] = {
    "memory": memory,
    "memory, dense": memory_dense,
    "plain": plain,
    "gzip": gzip,
    "lzf": lzf,
    "dense": dense,
    "dense, gzip": dense_gzip,
    "csc": csc,
    "zarr": zarr_v2,
    "zarr, shards": zarr_shards,
    "zarr, dense": zarr_dense,
    "zarr, csc": zarr_csc,
    "10x h5": tenx_h5,
    "mtx": mtx,
    "parquet lists": parquet_lists,
    "parquet wide": parquet_wide,
    "parquet files": parquet_files,
    "packed shards": packed_shards,
    "dense shards": dense_shards,
    "shards by mean": shards_by_mean,
    "several files": several_files,
    "mixed": mixed,
    "joined": joined,
    "filtered": filtered,
    "reordered": reordered,
    "filling cache": filling_cache,
    "full cache": full_cache,
}
COUNTS_ONLY = {"10x h5"}
# Those have no further matrices either.
WITHOUT_OBS = {"10x h5", "mtx", "parquet lists", "parquet wide", "parquet files"}
# Those of which chunks are inflated: "auto" deals whole fetch groups of them.
COMPRESSED = {
    "gzip", "lzf", "dense, gzip", "zarr", "zarr, shards", "zarr, dense", "10x h5", "several files",
    "mixed", "joined", "filling cache", "full cache", "parquet lists", "parquet wide",
    "parquet files",
}  # fmt: skip
MIXED_SIZES = [*PART_SIZES[:2], 30, 30, 10, PART_SIZES[3]]
# Cells of each store, where that is not one of all cells.
STORE_SIZES = {
    "packed shards": [60, 60, 60, 31],
    "dense shards": [60, 60, 60, 31],
    "several files": PART_SIZES,
    "parquet files": PART_SIZES,
    "mixed": MIXED_SIZES,
    "joined": MIXED_SIZES,
}


class StoredTables:
    """Formats of the table below a folder, each written when it is first asked for."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._openers: dict[tuple[str, int], Opener] = {}
        self._cells: dict[tuple[str, str], cf.CellCollection] = {}

    def opener(self, name: str, x: scipy.sparse.csr_matrix) -> Opener:
        """A function of the options of :func:`cellfeed.open`."""
        key = name, id(x)
        if key not in self._openers:
            folder = self._folder / f"{len(self._openers)} {name}"
            folder.mkdir()
            self._openers[key] = FORMATS[name](self, folder, x)
        return self._openers[key]

    def open(self, name: str, values: str = "counts", **options: Any) -> cf.CellCollection:
        """The table anew."""
        if name not in WITHOUT_OBS:
            options.setdefault("obs", OBS)
        return self.opener(name, matrix(values))(**options)

    def cells(self, name: str, values: str = "counts") -> cf.CellCollection:
        """The table as it was opened first; one whose cache fills anew."""
        if name == "filling cache":
            return self.open(name, values)
        if (name, values) not in self._cells:
            self._cells[name, values] = self.open(name, values)
        return self._cells[name, values]


def labels_of(cells: cf.CellCollection) -> dict[str, Any]:
    """How a strategy finds the labels: by key, or as a list where the format has no obs."""
    if "kind" in cells.obs_keys():
        return {"label_key": "kind"}
    return {"labels": obs()["kind"].array}
