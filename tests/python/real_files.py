"""What the real files hold, as anndata and h5py read them."""

import warnings

import anndata
import h5py
import numpy as np
import scipy.sparse

CSR_FILES = [
    "anndata/anndataR_example_all_kinds.h5ad",
    "anndata/dentategyrus_100obs_layers.h5ad",
    "anndata/derived_mix_sc_celseq2.h5ad",
    "anndata/derived_mix_sc_celseq2_5cl_p1.h5ad",
    "anndata/derived_mix_sc_dropseq.h5ad",
    "anndata/derived_placenta_visium_csr.h5ad",
    "anndata/kang_ifnb_valid_anndata06.h5ad",
    "anndata/pbmc-small-x-csr.h5ad",
    "anndata/pbmc68k_reduced_v08.h5ad",
    "anndata/sciplex3.h5ad",
    "anndata/scp1884.h5ad",
    "anndata/telencephalon_val.h5ad",
    "anndata/zheng68k_165.h5ad",
]
DENSE_FILES = [
    "anndata/pbmc-small-x-dense.h5ad",
    "anndata/pbmc_10k_protein_v3_dense_lzf.h5ad",
]
OTHER_FILES = [
    "anndata/derived_placenta_visium_csc.h5ad",
    "anndata/pbmc-small-x-csc.h5ad",
]


def read_anndata(path) -> anndata.AnnData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return anndata.read_h5ad(path)


def csr_layers(path) -> list[str]:
    """Names of the matrices that are stored as CSR, in today's encoding or that of anndata 0.6."""
    with h5py.File(path) as file:
        paths = {"X": "X", "raw/X": "raw.X" if "raw.X" in file else "raw/X"}
        paths |= {f"layers/{name}": f"layers/{name}" for name in file.get("layers", ())}
        return [name for name, path in paths.items() if path in file and is_csr(file[path])]


def is_csr(group) -> bool:
    encoding = group.attrs.get("encoding-type", group.attrs.get("h5sparse_format"))
    return encoding in ("csr_matrix", b"csr_matrix", "csr", b"csr")


def matrix_of(adata: anndata.AnnData, layer: str) -> scipy.sparse.csr_matrix:
    """The matrix with sorted indices and duplicates summed; explicit zeros stay."""
    if layer == "X":
        matrix = adata.X
    elif layer == "raw/X":
        matrix = adata.raw.X
    else:
        matrix = adata.layers[layer.removeprefix("layers/")]
    matrix = scipy.sparse.csr_matrix(matrix, copy=True)
    matrix.sum_duplicates()
    return matrix


def genes_of(adata: anndata.AnnData, layer: str) -> list[str]:
    return list((adata.raw if layer == "raw/X" else adata).var_names)


def assert_same_csr(actual, expected) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual.indptr, expected.indptr)
    np.testing.assert_array_equal(actual.indices, expected.indices)
    np.testing.assert_array_equal(actual.data, expected.data)
