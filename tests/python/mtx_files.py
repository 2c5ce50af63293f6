"""10x matrices in Matrix Market form, put together by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import scipy.sparse as sp

HEADER = "%%MatrixMarket matrix coordinate integer general"


def write_text(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return path


def entry_lines(matrix: sp.spmatrix, order: str = "by cell", seed: int = 0) -> list[str]:
    """Of genes x cells, one-based, from cells x genes; duplicates of a coo_matrix stay."""
    coo = sp.coo_matrix(matrix)
    places = np.arange(coo.nnz)
    if order == "by cell":
        places = np.lexsort((coo.col, coo.row))
    elif order == "shuffled":
        places = np.random.default_rng(seed).permutation(coo.nnz)
    values = coo.data.tolist()
    return [f"{coo.col[i] + 1} {coo.row[i] + 1} {values[i]!r}" for i in places]


def mtx_text(matrix: sp.spmatrix, header: str = HEADER, order: str = "by cell") -> str:
    n_cells, n_genes = matrix.shape
    lines = [header, "%", f"{n_genes} {n_cells} {sp.coo_matrix(matrix).nnz}"]
    return "\n".join(lines + entry_lines(matrix, order)) + "\n"


def write_mtx(
    folder: Path,
    matrix: sp.spmatrix,
    *,
    prefix: str = "",
    suffix: str = ".gz",
    features: str = "features",
    types: list[str] | None = None,
    header: str = HEADER,
    order: str = "by cell",
) -> Path:
    """matrix: cells x genes."""
    folder.mkdir(exist_ok=True)
    n_cells, n_genes = matrix.shape
    types = types or ["Gene Expression"] * n_genes
    rows = [f"ENSG{i:05d}\tgene{i}" for i in range(n_genes)]
    if features == "features":
        rows = [f"{row}\t{kind}" for row, kind in zip(rows, types, strict=True)]
    for name, text in (
        ("matrix.mtx", mtx_text(matrix, header, order)),
        ("barcodes.tsv", "".join(f"ACGT{i:04d}-1\n" for i in range(n_cells))),
        (f"{features}.tsv", "".join(f"{row}\n" for row in rows)),
    ):
        write_text(folder / f"{prefix}{name}{suffix}", text)
    return folder


def random_counts(n_cells: int, n_genes: int, density: float = 0.2, seed: int = 0) -> sp.csr_matrix:
    x = sp.random(n_cells, n_genes, density, format="csr", random_state=seed)
    x.data = np.ceil(x.data * 300)
    return x.astype(np.int32)
