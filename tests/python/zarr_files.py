"""Zarr stores of one AnnData in many ways of storing it."""

import json
import pathlib
import shutil
import warnings
import zipfile
from collections.abc import Iterator

import anndata
import numpy as np
import scipy.sparse
import zarr

import cellfeed as cf


def write_store(adata: anndata.AnnData, path: pathlib.Path, version: int) -> pathlib.Path:
    with warnings.catch_warnings(), anndata.settings.override(zarr_write_format=version):
        warnings.simplefilter("ignore")
        with anndata.settings.override(allow_write_nullable_strings=True):
            adata.write_zarr(path)
    return path


def read_store(path: pathlib.Path) -> anndata.AnnData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix != ".zip":
            return anndata.read_zarr(path)
        with zarr.storage.ZipStore(path, mode="r") as store:
            return anndata.read_zarr(store)


def arrays_of(group: zarr.Group) -> list[str]:
    return [
        name for name, member in group.members(max_depth=None) if isinstance(member, zarr.Array)
    ]


def store_again(path: pathlib.Path, consolidate: bool = True, **options) -> pathlib.Path:
    """Every array of numbers with dimensions anew, by zarr, with these options.

    `chunks` and `shards` are of one dimension, and halved for the second. An iterator gives each
    array its next value.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.open_group(path, mode="r+", use_consolidated=False)
        for name in arrays_of(group):
            array = group[name]
            if array.ndim == 0 or array.dtype.kind not in "biuf" or 0 in array.shape:
                continue
            values, attributes = array[...], dict(array.attrs)
            del group[name]
            own = {
                key: tuple(max(1, value // 2**d) for d in range(values.ndim))
                if key in ("chunks", "shards")
                else next(value)
                if isinstance(value, Iterator)
                else value
                for key, value in options.items()
            }
            made = group.create_array(name, shape=values.shape, dtype=values.dtype, **own)
            made[...] = values
            made.attrs.update(attributes)
        if consolidate:
            zarr.consolidate_metadata(path)
        else:
            forget_consolidated(path)
    return path


def forget_consolidated(path: pathlib.Path) -> None:
    (path / ".zmetadata").unlink(missing_ok=True)
    root = path / "zarr.json"
    if root.exists():
        described = json.loads(root.read_text())
        described.pop("consolidated_metadata", None)
        root.write_text(json.dumps(described))


def zip_store(path: pathlib.Path, compression: int = zipfile.ZIP_STORED) -> pathlib.Path:
    """All files of a store as entries of a zip file beside it."""
    target = path.with_name(path.name + ".zip")
    with zipfile.ZipFile(target, "w", compression) as file:
        for part in sorted(path.rglob("*")):
            if part.is_file():
                file.write(part, part.relative_to(path).as_posix())
    return target


def copy_store(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(path, target))


def counts(n_cells: int, n_genes: int, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.poisson(0.4, (n_cells, n_genes)).astype(np.float32)


def assert_same_obsm(path: pathlib.Path, name: str, expected) -> None:
    """`name` of obsm, as float64, whatever it is stored as."""
    got = cf.open(path, obsm=[name]).read(slice(None), dtype="float64").obsm[name]
    dense, wanted = (m.toarray() if scipy.sparse.issparse(m) else m for m in (got, expected))
    np.testing.assert_array_equal(dense, wanted.astype(np.float64))
