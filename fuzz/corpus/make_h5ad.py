"""Small .h5ad files of every encoding: what h5ad_fuzz changes.

python fuzz/corpus/make_h5ad.py

Writes them to fuzz/corpus/h5ad. Values are arbitrary; files are as small as HDF5 lets them be.
"""

import pathlib
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import scipy.sparse as sp

FOLDER = pathlib.Path(__file__).parent / "h5ad"
N_CELLS, N_GENES = 7, 5
NUMBERS = np.arange(N_CELLS)


def counts(kind=sp.csr_matrix, dtype=np.float32):
    dense = (np.arange(N_CELLS * N_GENES).reshape(N_CELLS, N_GENES) % 4).astype(dtype)
    return kind(dense) if kind is not None else dense


def obs() -> pd.DataFrame:
    labels = pd.Categorical.from_codes(NUMBERS % 3 - 1, ["T", "B"])
    return pd.DataFrame(
        {
            "label": labels,
            "depth": NUMBERS * 1.5,
            "known": NUMBERS % 2 == 0,
            "count": pd.array([None, *range(N_CELLS - 1)], dtype="Int16"),
            "flag": pd.array([None, *[True] * (N_CELLS - 1)], dtype="boolean"),
            "text": [f"é{i}" for i in NUMBERS],
        },
        index=[f"c{i}" for i in NUMBERS],
    )


def cells(x, **parts) -> anndata.AnnData:
    genes = pd.DataFrame(
        {"id": [f"E{i}" for i in range(N_GENES)]}, [f"g{i}" for i in range(N_GENES)]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return anndata.AnnData(x, obs(), genes, **parts)


def write_legacy(path: pathlib.Path) -> None:
    """As anndata 0.6 did: obs and var of compounds, categories in uns."""
    x = counts()
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["h5sparse_format"] = b"csr"
        group.attrs["h5sparse_shape"] = x.shape
        for part in ("data", "indices", "indptr"):
            group.create_dataset(part, data=getattr(x, part), chunks=(4,), maxshape=(None,))
        table = np.zeros(N_CELLS, [("index", "S4"), ("label", "i1"), ("depth", "f8")])
        table["index"] = [f"c{i}".encode() for i in NUMBERS]
        table["label"] = NUMBERS % 2
        file["obs"] = table
        file["var"] = np.array([(f"g{i}".encode(),) for i in range(N_GENES)], [("index", "S4")])
        file["uns/label_categories"] = np.array([b"T", b"B"])


def write_old_categories(path: pathlib.Path) -> None:
    """As anndata 0.7 did: categories beside the columns, which refer to them."""
    cells(counts()).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        table = file["obs"]
        codes, categories = table["label/codes"][:], table["label/categories"][:]
        del table["label"]
        column = table.create_dataset("label", data=codes)
        made = table.create_dataset("__categories/label", data=categories)
        column.attrs["categories"] = made.ref


def write_latest(path: pathlib.Path) -> None:
    """Checksums everywhere, dense storage of links and attributes, every index of chunks."""
    with h5py.File(path, "w", libver="latest") as file:
        anndata.io.write_elem(file, "/", cells(None))
        x = counts(None)
        made = file.create_dataset("X", data=x, chunks=(2, 3), compression="gzip", shuffle=True)
        made.attrs["encoding-type"], made.attrs["encoding-version"] = "array", "0.2.0"
        for name, most in {"one": (None, N_GENES), "both": (None, None)}.items():
            file.require_group("layers").create_dataset(
                name, data=x, chunks=(2, 3), maxshape=most, fletcher32=True
            )
        for i in range(12):
            file["layers"].attrs[f"note {i}"] = i


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    cells(
        counts(), layers={"dense": counts(None), "csc": counts(sp.csc_matrix)}, raw=cells(counts())
    ).write_h5ad(FOLDER / "csr.h5ad")
    cells(counts(sp.csc_matrix, np.int64), obsm={"U": np.ones((N_CELLS, 2))}).write_h5ad(
        FOLDER / "csc_gzip.h5ad", compression="gzip"
    )
    cells(counts(None, np.float64)).write_h5ad(FOLDER / "dense_lzf.h5ad", compression="lzf")
    write_legacy(FOLDER / "legacy.h5ad")
    write_old_categories(FOLDER / "old_categories.h5ad")
    write_latest(FOLDER / "latest.h5ad")


if __name__ == "__main__":
    main()
