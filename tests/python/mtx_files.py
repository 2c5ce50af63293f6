"""Matrices in Matrix Market form as programs write them, put together by hand."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
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


def cell_table(n: int, seed: int = 0) -> pd.DataFrame:
    """Columns of every type that pandas finds in a text, with and without missing values."""
    rng = np.random.default_rng(seed)
    at = np.arange(n)
    return pd.DataFrame(
        {
            "bc_wells": [f"{i:02d}_01_{i % 7:02d}" for i in range(n)],
            "sample": rng.choice(["xcond_1", "a, b", 'say "no"', "\u00b5", " x "], n),
            "species": np.where(at % 5 == 0, None, "hg38"),
            "gene_count": rng.integers(-5, 2**40, n),
            "tscp_count": np.where(at % 4 == 0, np.nan, rng.integers(0, 99, n)),
            "fraction": rng.normal(size=n) * 10.0 ** rng.integers(-20, 20, n),
            "is_good": rng.random(n) < 0.5,
            "unknown": np.full(n, np.nan),
            "well": [f"{i % 9:02d}" for i in range(n)],
            "odd": rng.choice(["inf", "-Infinity", "1e3", "+7", " 5", "NaN", "N/A"], n),
        }
    )


def gene_table(n: int) -> pd.DataFrame:
    """One name has a comma and quotes, one is what pandas takes for missing."""
    names = [f"GENE{i}" for i in range(n)]
    names[3], names[5] = 'H, "2"', "NA"
    genomes = ["hg38" if i < n * 3 // 4 else "mm10" for i in range(n)]
    ids = [f"ENSG{i}" for i in range(n)]
    return pd.DataFrame({"gene_id": ids, "gene_name": names, "genome": genomes})


def _lists_of(program: str, n_cells: int, n_genes: int) -> dict[str, str]:
    def lines(text: str, n: int) -> str:
        return "".join(f"{text.format(i)}\n" for i in range(n))

    barcodes, ids = lines("ACGT{}", n_cells), lines("ENSG{0}", n_genes)
    if program.startswith("parse"):
        return {
            "cell_metadata.csv": cell_table(n_cells).to_csv(index=False),
            "all_genes.csv": gene_table(n_genes).to_csv(index=False),
        }
    if program == "alevin-fry":
        return {"quants_mat_rows.txt": barcodes, "quants_mat_cols.txt": ids}
    if program == "10x":
        return {"barcodes.tsv": barcodes, "genes.tsv": lines("ENSG{0}\tgeneENSG{0}", n_genes)}
    lists = {"cells_x_genes.barcodes.txt": barcodes, "cells_x_genes.genes.txt": ids}
    if program == "kb with names":
        lists["cells_x_genes.genes.names.txt"] = lines("geneENSG{0}", n_genes)
    return lists


def write_program(
    folder: Path,
    program: str,
    x: sp.spmatrix,
    *,
    stored: sp.spmatrix | None = None,
    prefix: str = "",
    suffix: str = "",
) -> Path:
    """x: cells x genes. stored: what is written of it, as the program does unless given."""
    matrix = {
        "parse": "count_matrix.mtx",
        "parse of before": "DGE.mtx",
        "alevin-fry": "quants_mat.mtx",
        "10x": "matrix.mtx",
    }.get(program, "cells_x_genes.mtx")
    if stored is None:
        stored = x.T if program == "10x" else x
    file = io.BytesIO()
    scipy.io.mmwrite(file, stored)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {matrix: file.getvalue(), **_lists_of(program, *x.shape)}.items():
        write_text(folder / f"{prefix}{name}{suffix}", text)
    return folder
