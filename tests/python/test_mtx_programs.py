"""Folders of split-pipe, kb_python and alevin-fry give what scipy and pandas read of them."""

from __future__ import annotations

import gzip
import io
import json
import shutil

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata_oracle import assert_same_frame, assert_same_matrix
from mtx_files import (
    cell_table,
    gene_table,
    random_counts,
    write_mtx,
    write_program,
    write_text,
)
from program import run

import cellfeed as cf

N_CELLS, N_GENES = 30, 20
PROGRAMS = ["parse", "parse of before", "kb", "kb with names", "alevin-fry"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "rows"
    monkeypatch.setenv("CELLFEED_CACHE", str(folder))
    return folder


def expected(program: str, x) -> anndata.AnnData:
    """By hand, as the programs' manuals read their folders."""
    n_cells, n_genes = x.shape
    ids = [f"ENSG{i}" for i in range(n_genes)]
    obs = pd.DataFrame(index=[f"ACGT{i}" for i in range(n_cells)])
    var = pd.DataFrame(index=ids)
    if program in ("kb with names", "10x"):
        var = pd.DataFrame({"gene_ids": ids}, index=[f"gene{id}" for id in ids])
    if program.startswith("parse"):
        text = cell_table(n_cells).to_csv(index=False)
        obs = pd.read_csv(io.StringIO(text), float_precision="round_trip", index_col="bc_wells")
        genes = gene_table(n_genes)
        var = genes.rename(columns={"gene_id": "gene_ids"}).set_index("gene_name")
    return anndata.AnnData(sp.csr_matrix(x), obs, var)


def assert_same(cells: cf.CellCollection, program: str, x) -> None:
    wanted = expected(program, x)
    assert_same_matrix(cells, wanted.X)
    assert_same_frame(cells.var_table(), wanted.var)
    assert_same_frame(cells.obs_table(), wanted.obs)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_folders_are_read_with_their_cells_and_genes(tmp_path, program, suffix):
    x = random_counts(N_CELLS, N_GENES)
    folder = write_program(tmp_path / "a", program, x, suffix=suffix)
    assert_same(cf.open(folder), program, x)
    (matrix,) = folder.glob("*.mtx*")
    assert_same(cf.open(matrix), program, x)
    prefixed = write_program(tmp_path / "b", program, x, suffix=suffix, prefix="GSM1_")
    (matrix,) = prefixed.glob("*.mtx*")
    assert_same(cf.open(matrix), program, x)


@pytest.mark.parametrize("program", PROGRAMS)
def test_shards_export_and_info_of_each(tmp_path, program):
    x = random_counts(N_CELLS, N_GENES)
    folder = write_program(tmp_path / "a", program, x)
    told = json.loads(run("info", folder, "--json"))
    assert (told["format"], told["n_cells"], told["n_genes"]) == ("mtx", N_CELLS, N_GENES)
    wanted = expected(program, x)
    assert [column["name"] for column in told["obs"]] == list(wanted.obs.columns)
    cf.convert_to_shards(folder, tmp_path / "shards")
    shards = cf.open(tmp_path / "shards")
    assert_same_matrix(shards, wanted.X)
    assert list(shards.obs.df.columns) == [*wanted.obs.columns, "_source_file", "_source_row"]
    cf.export_h5ad(folder, tmp_path / "a.h5ad")
    exported = anndata.read_h5ad(tmp_path / "a.h5ad")
    assert (exported.X != wanted.X).nnz == 0
    assert list(exported.obs_names) == list(wanted.obs_names)
    for name in wanted.obs.columns:
        missing = wanted.obs[name].isna()
        for obs in (shards.obs.df[name].reset_index(drop=True), exported.obs[name]):
            assert list(obs.isna()) == list(missing)
            assert list(obs[~missing.to_numpy()]) == list(wanted.obs[name][~missing])
    assert len(cf.open(folder, layer=None).obs.df) == N_CELLS


def test_the_folder_around_is_read_where_it_holds_one_matrix(tmp_path):
    x = random_counts(N_CELLS, N_GENES)
    write_program(tmp_path / "fry/alevin", "alevin-fry", x)
    assert_same(cf.open(tmp_path / "fry"), "alevin-fry", x)
    write_program(tmp_path / "kb/counts_unfiltered", "kb", x)
    assert_same(cf.open(tmp_path / "kb"), "kb", x)
    shutil.copytree(tmp_path / "kb/counts_unfiltered", tmp_path / "kb/counts_filtered")
    with pytest.raises(cf.errors.InvalidArgumentError, match=r"holds 'counts_.*own path"):
        cf.open(tmp_path / "kb")


@pytest.mark.parametrize("program", [*PROGRAMS, "10x"])
def test_sizes_tell_the_orientation_where_they_differ(tmp_path, program):
    x = random_counts(N_CELLS, N_GENES)
    for name, stored in (("as cells x genes", x), ("as genes x cells", x.T)):
        assert_same(cf.open(write_program(tmp_path / name, program, x, stored=stored)), program, x)


@pytest.mark.parametrize("program", [*PROGRAMS, "10x"])
def test_a_square_matrix_is_oriented_as_its_program_writes_it(tmp_path, program):
    x = random_counts(N_GENES, N_GENES)
    assert_same(cf.open(write_program(tmp_path / "a", program, x)), program, x)


@pytest.mark.parametrize("program", [*PROGRAMS, "10x"])
def test_the_orientation_of_a_square_matrix_can_be_given(tmp_path, program):
    x = random_counts(N_GENES, N_GENES)
    for transpose, stored in ((False, x), (True, x.T)):
        folder = write_program(tmp_path / str(transpose), program, x, stored=stored)
        assert_same(cf.open(folder, transpose=transpose), program, x)
        text = str(transpose).lower()
        shards = tmp_path / f"{text}.shards"
        run("shard", folder, "--output-dir", shards, "--transpose", text)
        assert_same_matrix(cf.open(shards), expected(program, x).X)


def test_an_orientation_that_does_not_fit_is_an_error(tmp_path):
    x = random_counts(N_CELLS, N_GENES)
    folder = write_program(tmp_path / "a", "10x", x)
    with pytest.raises(cf.errors.CorruptDataError, match="must have a line for each of"):
        cf.open(folder, transpose=False)
    with pytest.raises(TypeError, match="transpose"):
        cf.open(folder, transpose="yes")
    anndata.AnnData(x).write_h5ad(tmp_path / "a.h5ad")
    with pytest.raises(cf.errors.InvalidArgumentError, match=r"transpose is for .mtx files"):
        cf.open(tmp_path / "a.h5ad", transpose=True)
    with pytest.raises(cf.errors.InvalidArgumentError, match=r"transpose is for .mtx files"):
        cf.open(anndata.AnnData(x), transpose=True)


@pytest.mark.parametrize("order", ["by rows", "by columns", "shuffled"])
@pytest.mark.parametrize("is_by_cells", [True, False])
def test_entries_in_any_order_and_doubled_ones(tmp_path, order, is_by_cells):
    rng = np.random.default_rng(1)
    n = 100_000
    places = (rng.integers(0, N_CELLS, n), rng.integers(0, N_GENES, n))
    x = sp.coo_matrix((rng.integers(1, 9, n), places), (N_CELLS, N_GENES))
    stored = x if is_by_cells else x.T
    keys = {"by rows": (stored.col, stored.row), "by columns": (stored.row, stored.col)}
    at = np.lexsort(keys[order]) if order in keys else rng.permutation(n)
    stored = sp.coo_matrix((stored.data[at], (stored.row[at], stored.col[at])), stored.shape)
    folder = write_program(tmp_path / "a", "kb", x, stored=stored)
    assert len((folder / "cells_x_genes.mtx").read_text().splitlines()) > n
    assert_same(cf.open(folder), "kb", x.tocsr())


def test_a_gene_without_a_name_has_its_id_and_doubled_names_are_numbered(tmp_path):
    folder = write_program(tmp_path / "a", "parse", random_counts(N_CELLS, N_GENES))
    genes = gene_table(N_GENES)
    genes.loc[1, "gene_name"] = None
    genes.loc[2, "gene_name"] = "GENE0"
    genes.to_csv(folder / "all_genes.csv")  # with a column of numbers in front
    with pytest.raises(cf.errors.CellfeedError, match="make_unique"):
        cf.open(folder)
    names = list(cf.open(folder, make_unique=True).var_names)
    assert names[:3] == ["GENE0", "ENSG1", "GENE0-1"]


DAMAGE = {
    "no genes": ("parse", "all_genes.csv", None, "there is no 'all_genes.csv', with or without"),
    "no cells": ("parse", "cell_metadata.csv", None, "there is no 'cell_metadata.csv'"),
    "kb: no genes": ("kb", "cells_x_genes.genes.txt", None, "there is no 'cells_x_genes.genes.txt"),
    "fry: no rows": ("alevin-fry", "quants_mat_rows.txt", None, "no 'quants_mat_rows.txt'"),
    "fewer cells": (
        "parse",
        "cell_metadata.csv",
        lambda text: "".join(text.splitlines(True)[:-2]),
        r"cell_metadata.csv: must have a line for each of the 30 rows .*\(cells\), and has 28$",
    ),
    "more cells": (
        "parse",
        "cell_metadata.csv",
        lambda text: text + text.splitlines(True)[-1],
        r"cell_metadata.csv: must have a line for each of the 30 rows .*\(cells\), and has 31$",
    ),
    "no cell": ("parse", "cell_metadata.csv", lambda _: "", r"and has 0$"),
    "fewer genes": (
        "parse",
        "all_genes.csv",
        lambda text: "".join(text.splitlines(True)[:-1]),
        r"all_genes.csv: must have a line for each of the 20 columns .*\(genes\), and has 19$",
    ),
    "no heading": (
        "parse",
        "all_genes.csv",
        lambda text: text.replace("gene_name", "name"),
        "all_genes.csv: has no column 'gene_name'; there are: gene_id, name, genome",
    ),
    "one heading twice": (
        "parse",
        "cell_metadata.csv",
        lambda text: text.replace("species", "sample", 1),
        "column 3 needs a heading of its own, and has 'sample'",
    ),
    "a short line": (
        "parse",
        "cell_metadata.csv",
        lambda text: "\n".join([*text.splitlines()[:4], "1_1,a", *text.splitlines()[5:]]),
        r"line 5 has 2 columns, and the first line has 10: '1_1,a'",
    ),
    "a quote": (
        "parse",
        "cell_metadata.csv",
        lambda text: text.replace("hg38", '"hg38', 1),
        "a quote is not closed",
    ),
    "names of other genes": (
        "kb with names",
        "cells_x_genes.genes.names.txt",
        lambda text: text + "x\n",
        "each of the 20 genes of '.*genes.txt', and has 21 or more",
    ),
    "other barcodes": (
        "alevin-fry",
        "quants_mat_rows.txt",
        lambda text: text[:-20],
        r"quants_mat_rows.txt: must have a line for each of the 30 rows of the matrix \(barcodes\)",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named_with_file_and_counts(tmp_path, what):
    program, name, change, match = DAMAGE[what]
    folder = write_program(tmp_path / "a", program, random_counts(N_CELLS, N_GENES))
    text = (folder / name).read_text()
    (folder / name).unlink()
    if change:
        write_text(folder / name, change(text))
    kind = cf.errors.CorruptDataError if change else cf.errors.NotFoundError
    with pytest.raises(kind, match=match) as caught:
        cf.open(folder)
    assert str(folder) in str(caught.value)


def test_a_count_matrix_of_10x_keeps_its_own_files(tmp_path):
    x = random_counts(N_CELLS, N_GENES)
    folder = write_mtx(tmp_path / "a", x, prefix="count_")
    assert_same_matrix(cf.open(folder / "count_matrix.mtx.gz"), x)


def test_any_text_is_typed_as_pandas_does(tmp_path):
    rng = np.random.default_rng(3)
    words = ["1", "-2", "+3", "007", "4.5", "1e5", ".5", "5.", "inf", "-inf", "Infinity", "True",
             "FALSE", "true", "x", "0x1", "1,5", "1_000", " 2", "2 ", "", "NA", "None", "nan",
             "<NA>", "NAN", "1e", "--1", "9223372036854775807"]  # fmt: skip
    columns = {"bc_wells": [f"c{i}" for i in range(N_CELLS)]}
    for i in range(200):
        chosen = rng.choice(words, rng.integers(1, 4), replace=False)
        columns[f"c{i}"] = rng.choice(chosen, N_CELLS)
    text = pd.DataFrame(columns).to_csv(index=False)
    folder = write_program(tmp_path / "a", "parse", random_counts(N_CELLS, N_GENES))
    write_text(folder / "cell_metadata.csv", text)
    wanted = pd.read_csv(io.StringIO(text), float_precision="round_trip", index_col="bc_wells")
    got = cf.open(folder).obs_table()
    for name in wanted.columns:
        if wanted[name].dtype == object and wanted[name].map(type).eq(bool).any():
            # pandas has no type for booleans with missing ones; among texts they are texts.
            wanted[name] = pd.read_csv(
                io.StringIO(text), dtype={name: "boolean"}, index_col="bc_wells"
            )[name]
    assert_same_frame(got, wanted)


def test_gzip_of_lists_is_told_by_content(tmp_path):
    folder = write_program(tmp_path / "a", "parse", random_counts(N_CELLS, N_GENES))
    path = folder / "cell_metadata.csv"
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert len(cf.open(folder).obs.df.columns) == len(cell_table(1).columns) - 1


def test_a_square_matrix_under_another_name_is_not_read_from_old_rows(tmp_path):
    x = np.arange(1, 10).reshape(3, 3)
    folder = write_program(tmp_path / "kb", "kb_python", sp.csr_matrix(x))
    before = cf.open(folder)
    np.testing.assert_array_equal(before[:].x.toarray(), x)
    fingerprint = before.fingerprint
    for suffix, name in [
        ("mtx", "matrix.mtx"), ("barcodes.txt", "barcodes.tsv"), ("genes.txt", "genes.tsv"),
    ]:  # fmt: skip
        (folder / f"cells_x_genes.{suffix}").rename(folder / name)
    after = cf.open(folder, make_unique=True)
    np.testing.assert_array_equal(after[:].x.toarray(), x.T)
    assert after.fingerprint != fingerprint
