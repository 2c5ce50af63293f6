"""Shards and exports of what `filter`, `split`, `folds` and `cells[...]` chose: against anndata."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from program import completed, run

import cellfeed as cf
from cellfeed.errors import AlreadyExistsError, InvalidArgumentError

N = [300, 500, 200]
SHIM = pathlib.Path(__file__).parents[2] / "build/wheel/fault_shim.so"


def make_file(folder, number: int, n: int, genes: list[str]) -> pathlib.Path:
    random = np.random.default_rng(number)
    x = scipy.sparse.random(n, len(genes), 0.3, "csr", np.float32, random_state=number)
    x.data = np.ceil(x.data * 9).astype(np.float32)
    obs = pd.DataFrame(
        {
            "tissue": pd.Categorical(random.choice(["lung", "liver", "node"], n)),
            "donor": pd.Categorical(random.choice(["d1", "d2", "d3", "d4"], n)),
            "n_counts": random.integers(0, 1000, n),
        },
        index=[f"{number}-{i}" for i in range(n)],
    )
    obs.loc[obs.index[random.random(n) < 0.1], "tissue"] = np.nan
    adata = anndata.AnnData(x, obs, pd.DataFrame({"n": range(len(genes))}, index=genes))
    adata.layers["twice"] = x * 2
    adata.obsm["X_pca"] = random.normal(size=(n, 3)).astype(np.float32)
    path = folder / f"{number}.h5ad"
    adata.write_h5ad(path)
    return path


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("atlas")
    return [make_file(folder, i, n, [f"g{j}" for j in range(30)]) for i, n in enumerate(N)]


@pytest.fixture(scope="module")
def whole(paths):
    return anndata.concat([anndata.read_h5ad(path) for path in paths], merge="first")


@pytest.fixture(scope="module")
def cells(paths):
    return cf.open(paths, layers=["twice"], obsm=["X_pca"])


def chosen(cells):
    """Each kind of selection."""
    rows = np.random.default_rng(0).permutation(300)
    return {
        "filter": cells.filter("tissue == 'lung' and n_counts > 200"),
        "dict": cells.filter({"donor": ["d1", "d4"]}),
        "again": cells.filter("n_counts > 100").filter("donor in ['d2', 'd3']"),
        "split": cells.split({"train": 0.8, "test": 0.2}, by="donor", seed=1)["test"],
        "fold": cells.folds(4, stratify="tissue")[2][0],
        "slice": cells[290:820],
        "rows and genes": cells[50:700, ["g7", "g2", "g29"]],
        "genes": cells[:, 3:20],
        "any order": cells[rows],
        "back and forth": cells[[900, 3, 301, 299, 999, 0]],
        "one": cells[[412]],
        "all": cells,
    }


def assert_equal(found, expected) -> None:
    assert list(found.obs_names) == list(expected.obs_names)
    assert list(found.var_names) == list(expected.var_names)
    for read in (lambda a: a.X, lambda a: a.layers["twice"]):
        assert found.X.dtype == expected.X.dtype
        np.testing.assert_array_equal(read(found).toarray(), read(expected).toarray())
    np.testing.assert_array_equal(found.obsm["X_pca"], expected.obsm["X_pca"])
    for name in ("tissue", "donor"):
        assert list(found.obs[name].astype(object).fillna("-")) == list(
            expected.obs[name].astype(object).fillna("-")
        )
    np.testing.assert_array_equal(found.obs["n_counts"], expected.obs["n_counts"])
    np.testing.assert_array_equal(found.var["n"], expected.var["n"])


@pytest.mark.parametrize("kind", [
    "filter", "dict", "again", "split", "fold", "slice", "rows and genes", "genes", "any order",
    "back and forth", "one", "all",
])  # fmt: skip
def test_what_was_chosen_comes_back(cells, whole, kind, tmp_path):
    some = chosen(cells)[kind]
    files, rows = some.locate()
    expected = whole[np.cumsum([0, *N])[files] + rows, list(some.var_names)]
    cf.export_h5ad(some, tmp_path / "some.h5ad")
    assert_equal(anndata.read_h5ad(tmp_path / "some.h5ad"), expected)
    result = cf.convert_to_shards(some, tmp_path / "shards", shard_size=100)
    assert (result.n_cells, result.n_genes) == some.shape
    again = cf.open(result, layers=["twice"], obsm=["X_pca"])
    assert_equal(again[:].to_anndata(), expected)
    np.testing.assert_array_equal(again.obs_values("_source_row"), rows)
    places = [again.categories("_source_file")[code] for code in again.obs_values("_source_file")]
    assert places == [some.files[file]["path"] for file in files]


def test_exports_have_the_obs_that_was_given(paths, whole, tmp_path):
    adatas = [anndata.read_h5ad(path) for path in paths]
    adatas[1].X = adatas[1].X.tocsc()
    adatas[1].write_h5ad(tmp_path / "csc.h5ad")
    shards = cf.convert_to_shards(paths[2], tmp_path / "shards")
    cells = cf.open([paths[0], tmp_path / "csc.h5ad", shards])
    assert [file["format"] for file in cells.files] == ["h5ad", "h5ad", "shard"]
    spread = np.arange(250, 950, 7)
    for some, rows in ((cells, slice(None)), (cells[2:8], slice(2, 8)), (cells[spread], spread)):
        expected = whole.obs.iloc[rows]
        cf.export_h5ad(some, tmp_path / "some.h5ad", overwrite=True)
        found = anndata.read_h5ad(tmp_path / "some.h5ad").obs
        pd.testing.assert_frame_equal(found.astype(str), expected.astype(str))
        cf.export_h5ad(some, tmp_path / "some.h5ad", overwrite=True, keep_source_columns=True)
        found = anndata.read_h5ad(tmp_path / "some.h5ad").obs
        assert list(found) == [*expected, "_source_file", "_source_row"]
        files = np.repeat([paths[0], tmp_path / "csc.h5ad", paths[2]], N)[rows]
        assert list(found["_source_file"]) == [str(path) for path in files]
        own_rows = np.concatenate([np.arange(n) for n in N])[rows]
        np.testing.assert_array_equal(found["_source_row"], own_rows)
    run("export", *paths, "--output", tmp_path / "by_filter.h5ad", "--filter", "n_counts > 300")
    found = anndata.read_h5ad(tmp_path / "by_filter.h5ad").obs
    expected = whole.obs[whole.obs["n_counts"] > 300]
    pd.testing.assert_frame_equal(found.astype(str), expected.astype(str))


def test_categories_stay_and_no_cell_has_some(cells, tmp_path):
    some = cells.filter("tissue == 'lung'")
    shards = cf.open(cf.convert_to_shards(some, tmp_path / "s"))
    assert shards.categories("tissue") == cells.categories("tissue")
    np.testing.assert_array_equal(shards.obs_values("donor"), some.obs_values("donor"))


def test_totals_are_of_all_genes_of_the_cell(paths, tmp_path):
    cells = cf.open(paths)
    some = cells[100:900, ["g3", "g11"]]
    transforms = [cf.NormalizeTotal(100.0)]
    shards = cf.open(cf.convert_to_shards(some, tmp_path / "s", shard_size=300))
    expected = cells[100:900].read(slice(None), transforms=transforms).x.toarray()[:, [3, 11]]
    found = shards.read(slice(None), transforms=transforms).x.toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    fewer = shards.filter("n_counts > 500")
    again = cf.open(cf.convert_to_shards(fewer, tmp_path / "again", shard_size=50))
    np.testing.assert_array_equal(
        again.read(slice(None), transforms=transforms).x.toarray(),
        fewer.read(slice(None), transforms=transforms).x.toarray(),
    )


def test_a_layer_of_shards_that_leave_genes_out(paths, cells, whole, tmp_path):
    genes = ["g3", "g11", "g20"]
    cf.convert_to_shards(cells[:, genes], tmp_path / "few", shard_size=300)
    few = cf.open(tmp_path / "few", layers=["twice"], obsm=["X_pca"])
    where, rows = "n_counts > 500", np.flatnonzero(whole.obs["n_counts"] > 500)
    written = {
        "slice": (cf.convert_to_shards(few[90:700], tmp_path / "s"), slice(90, 700)),
        "filter": (tmp_path / "f", rows),
    }
    some = cf.convert_to_shards(few[[9, 3]], tmp_path / "a")
    with pytest.warns(UserWarning, match="are there twice now"):  # cells of the same file
        cf.append_to_shards(few[[1, 5]], some, force=True)
    run("shard", tmp_path / "few", "--layers", "twice", "--obsm", "X_pca", "--filter", where,
        "--output-dir", tmp_path / "f")  # fmt: skip
    written["appended"] = (tmp_path / "a", [9, 3, 1, 5])
    for path, chosen_rows in written.values():
        again = cf.open(path, layers=["twice"], obsm=["X_pca"])
        assert_equal(again[:].to_anndata(), whole[chosen_rows, genes])
    cf.export_h5ad(few[90:700], tmp_path / "few.h5ad")
    assert_equal(anndata.read_h5ad(tmp_path / "few.h5ad"), whole[90:700, genes])


def test_the_record_says_what_was_chosen(cells, tmp_path):
    some = cells.filter("tissue == 'lung'").split({"a": 0.5, "b": 0.5}, seed=3)["a"][:20, :5]
    folder = pathlib.Path(cf.convert_to_shards(some, tmp_path / "s"))
    selection = json.loads((folder / "shard_metadata.json").read_text())["selection"]
    assert selection["cells_of"] == sum(N)
    first, second, *views = selection["steps"]
    assert first == "filter: tissue == 'lung'"
    assert second.startswith("'a' of split {'a': 0.5, 'b': 0.5}") and "seed=3" in second
    assert views == ["5 of 30 genes", f"20 of {len(some._table):,} cells by number"]
    assert cf.info(folder)["selection"] == selection
    plain = pathlib.Path(cf.convert_to_shards(cells, tmp_path / "all"))
    assert json.loads((plain / "shard_metadata.json").read_text())["selection"] == {}


def test_all_cells_are_the_shards_of_the_files(paths, tmp_path):
    by_paths = pathlib.Path(cf.convert_to_shards(paths, tmp_path / "p", shard_size=300))
    by_cells = pathlib.Path(cf.convert_to_shards(cf.open(paths), tmp_path / "c", shard_size=300))
    for file in sorted(by_paths.glob("*.cells")):
        assert file.read_bytes() == (by_cells / file.name).read_bytes()


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_joined_files_of_other_genes(tmp_path, join):
    genes = [["a", "b", "c", "d"], ["d", "x", "b"], ["b", "d", "y"]]
    paths = [make_file(tmp_path, i, n, g) for i, (n, g) in enumerate(zip(N, genes, strict=True))]
    cells = cf.open(paths, join=join)
    some = cells.filter("n_counts < 400")
    shards = cf.open(cf.convert_to_shards(some, tmp_path / "s"))
    assert list(shards.var_names) == list(cells.var_names)
    np.testing.assert_array_equal(
        shards.read(slice(None)).x.toarray(), some.read(slice(None)).x.toarray()
    )


def test_shuffled_and_in_mean_order(cells, whole, tmp_path):
    some = cells.filter("n_counts > 300")
    result = cf.convert_to_shards(
        some, tmp_path / "s", shuffle=True, seed=4, gene_order="mean", shard_size=100
    )
    shards = cf.open(result)[:].to_anndata()
    assert sorted(shards.obs_names) == sorted(some.obs_names)
    assert list(shards.obs_names) != list(some.obs_names)
    expected = whole[shards.obs_names, shards.var_names]
    np.testing.assert_array_equal(shards.X.toarray(), expected.X.toarray())


def test_an_anndata_in_memory(paths, tmp_path):
    adata = anndata.read_h5ad(paths[0])
    some = cf.open(adata).filter("tissue == 'liver'")
    shards = cf.open(cf.convert_to_shards(some, tmp_path / "s"))
    expected = adata[adata.obs["tissue"] == "liver"]
    assert list(shards.obs_names) == list(expected.obs_names)
    np.testing.assert_array_equal(shards.read(slice(None)).x.toarray(), expected.X.toarray())
    cf.export_h5ad(some, tmp_path / "some.h5ad")
    assert list(anndata.read_h5ad(tmp_path / "some.h5ad").obs_names) == list(expected.obs_names)


def test_the_gene_order_of_the_source_comes_back_from_the_shards_of_it(paths, whole, tmp_path):
    shards = cf.convert_to_shards(paths[0], tmp_path / "mean", gene_order="mean")
    others = cf.convert_to_shards(paths[1], tmp_path / "other")
    in_mean_order = list(cf.open(shards).var_names)
    names = list(whole.var_names)
    assert in_mean_order != names
    out = tmp_path / "out.h5ad"
    for given, wanted in [
        (str(shards.path), names),
        (cf.open(shards), names),
        (cf.open(shards, genes=in_mean_order), in_mean_order),
        (cf.open([shards, others], join="inner"), names),
        (cf.open([others, shards], join="inner"), names),
        (cf.open([others, shards], join="inner")[N[1]:], names),
    ]:  # fmt: skip
        cf.export_h5ad(given, out, overwrite=True)
        found = anndata.read_h5ad(out)
        assert list(found.var_names) == wanted
        np.testing.assert_array_equal(
            found.X.toarray(), whole[found.obs_names, found.var_names].X.toarray()
        )


def test_a_file_that_a_glob_would_find_later_is_none_of_the_cells(paths, tmp_path):
    folder = tmp_path / "atlas"
    folder.mkdir()
    shutil.copy(paths[0], folder / "b.h5ad")
    cells = cf.open(folder / "*.h5ad")
    shutil.copy(paths[1], folder / "a.h5ad")
    result = cf.convert_to_shards(cells, tmp_path / "shards")
    manifest = json.loads((tmp_path / "shards/shard_metadata.json").read_text())
    assert result.n_cells == N[0]
    assert [source["path"] for source in manifest["sources"]] == [str(folder / "b.h5ad")]


def test_an_anndata_in_a_list(paths, tmp_path):
    adata = anndata.read_h5ad(paths[0])
    adata.uns["of"] = "all"
    cf.export_h5ad([adata], tmp_path / "one.h5ad")
    assert anndata.read_h5ad(tmp_path / "one.h5ad").uns["of"] == "all"
    cf.export_h5ad([adata, str(paths[1])], tmp_path / "two.h5ad")
    two = anndata.read_h5ad(tmp_path / "two.h5ad")
    assert list(two.obs_names) == [f"{f}-{i}" for f in range(2) for i in range(N[f])]


@pytest.mark.parametrize("kind", ["filter", "rows and genes", "genes", "any order", "all"])
def test_cells_like_those_that_were_chosen(cells, whole, kind, tmp_path):
    some = chosen(cells)[kind]
    made = cf.simulate(some, 400, tmp_path / "made.h5ad", thin=False, seed=2)
    found = anndata.read_h5ad(made)
    expected = whole[list(some.obs_names), list(some.var_names)]
    assert list(found.var_names) == list(some.var_names)
    of = found.obs["source_cell"].to_numpy()
    np.testing.assert_array_equal(found.X.toarray(), expected.X.toarray()[of])
    np.testing.assert_array_equal(found.obs["n_counts"], expected.obs["n_counts"].to_numpy()[of])


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_cells_like_those_of_files_with_other_genes_and_types(tmp_path, join):
    files = []
    for number, (genes, dtype) in enumerate([("abcd", np.int32), ("dxba", np.float64)]):
        x = np.arange(5 * 4).reshape(5, 4) % 7 + number
        adata = anndata.AnnData(scipy.sparse.csr_matrix(x.astype(dtype)))
        adata.var_names, adata.obs_names = list(genes), [f"{number}-{i}" for i in range(5)]
        adata.write_h5ad(tmp_path / f"{number}.h5ad")
        files.append(adata)
    cells = cf.open(sorted(tmp_path.glob("*.h5ad")), join=join)
    expected = anndata.concat(files, join=join, fill_value=0)[:, list(cells.var_names)]
    found = anndata.read_h5ad(cf.simulate(cells, 60, tmp_path / "made.h5ad", thin=False))
    of = found.obs["source_cell"].to_numpy()
    np.testing.assert_array_equal(found.X.toarray(), expected.X.toarray()[of])


def test_cells_like_those_that_have_most_of_the_values(tmp_path):
    """How many values some rows have is known once they are read."""
    x = np.zeros((2000, 300), np.float32)
    x[::100] = np.random.default_rng(0).integers(1, 9, (20, 300))
    anndata.AnnData(scipy.sparse.csr_matrix(x)).write_h5ad(tmp_path / "a.h5ad")
    cells = cf.open(tmp_path / "a.h5ad")[np.arange(0, 2000, 100)]
    found = anndata.read_h5ad(cf.simulate(cells, 50, tmp_path / "made.h5ad", thin=False))
    np.testing.assert_array_equal(found.X.toarray(), x[::100][found.obs["source_cell"]])


def test_cells_that_cannot_be_written(cells, tmp_path):
    with pytest.raises(InvalidArgumentError, match="genes"):
        cf.convert_to_shards(cf.open(cells.files[0]["path"], layer=None), tmp_path / "s")
    closed = cf.open(cells.files[0]["path"])
    closed.close()
    with pytest.raises(cf.errors.CellfeedError, match="closed"):
        cf.convert_to_shards(closed, tmp_path / "s")


def test_a_cell_that_was_chosen_twice_is_there_twice(cells, tmp_path):
    rows = [5, 5, 700, 5]
    shards = cf.open(cf.convert_to_shards(cells[rows], tmp_path / "s"))
    np.testing.assert_array_equal(
        shards.read(slice(None)).x.toarray(), cells.read(rows).x.toarray()
    )
    np.testing.assert_array_equal(shards.obs_values("_source_row"), [5, 5, 400, 5])


def test_back_and_forth_without_end_is_refused(tmp_path):
    paths = [make_file(tmp_path, i, 200, ["a", "b"]) for i in range(2)]
    cells = cf.open(paths)
    rows = np.tile([0, 399], 6000)
    with pytest.raises(InvalidArgumentError, match="back and forth"):
        cf.convert_to_shards(cells[rows], tmp_path / "s")


def test_a_source_is_never_overwritten(cells, tmp_path):
    folder = pathlib.Path(cf.convert_to_shards(cells, tmp_path / "s"))
    with pytest.raises(InvalidArgumentError, match="input lies in"):
        cf.convert_to_shards(cf.open(folder).filter("n_counts > 5"), folder, overwrite=True)


PROGRAM = """
import sys, cellfeed as cf
cells = cf.open(sys.argv[3:])
cf.convert_to_shards(cells.filter(sys.argv[2]), sys.argv[1], shard_size=100)
"""


def test_a_killed_one_goes_on_and_refuses_other_cells(paths, tmp_path):
    where = "n_counts > 200"
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "s"), where, *map(str, paths)]
    # Some of its files have their names by then, three a shard.
    fault = {"LD_PRELOAD": str(SHIM), "FAULT": "rename:12:kill", "FAULT_UNDER": str(tmp_path)}
    killed = subprocess.run(command, env={**os.environ, **fault}, check=False)
    assert killed.returncode == -signal.SIGKILL
    cells = cf.open(paths)
    for other, words in [
        ("n_counts > 201", "other cells"), ("donor == 'd1'", "other cells"), (None, "cells"),
    ]:  # fmt: skip
        some = cells if other is None else cells.filter(other)
        with pytest.raises(InvalidArgumentError, match=words):
            cf.convert_to_shards(some, tmp_path / "s", shard_size=100, resume=True)
    result = cf.convert_to_shards(cells.filter(where), tmp_path / "s", shard_size=100, resume=True)
    assert 0 < result.n_shards_resumed < result.n_shards
    cf.convert_to_shards(cells.filter(where), tmp_path / "once", shard_size=100)
    names = sorted(path.name for path in (tmp_path / "once").iterdir() if path.name[0] != ".")
    assert names == sorted(p.name for p in (tmp_path / "s").iterdir() if p.name[0] != ".")
    for name in names:
        assert (tmp_path / "s" / name).read_bytes() == (tmp_path / "once" / name).read_bytes()
    with pytest.raises(AlreadyExistsError):
        cf.convert_to_shards(cells.filter("n_counts > 1"), tmp_path / "s", resume=True)


# ---- the program


def test_the_program_filters_as_cells_do(paths, cells, tmp_path):
    where = "tissue in ['lung', 'node'] and not n_counts <= 300"
    arguments = [*map(str, paths), "--layers", "twice", "--obsm", "X_pca", "--shard-size", "100"]
    run("shard", *arguments, "--filter", where, "--output-dir", tmp_path / "p")
    cf.convert_to_shards(cells.filter(where), tmp_path / "c", shard_size=100)
    names = sorted(path.name for path in (tmp_path / "c").iterdir() if path.name[0] != ".")
    assert names == sorted(p.name for p in (tmp_path / "p").iterdir() if p.name[0] != ".")
    for name in names:
        assert (tmp_path / "p" / name).read_bytes() == (tmp_path / "c" / name).read_bytes()
    run("verify", tmp_path / "p")
    assert "steps" in run("info", tmp_path / "p")
    run("export", *map(str, paths), "--filter", where, "--output", tmp_path / "some.h5ad")
    found = anndata.read_h5ad(tmp_path / "some.h5ad")
    assert list(found.obs_names) == list(cells.filter(where).obs_names)


def test_the_program_says_what_is_wrong_with_a_filter(paths, tmp_path):
    for where, words in [
        ("tisue == 'lung'", "did you mean 'tissue'"), ("tissue = 'lung'", "at character 8 "),
        ("n_counts > 5000", "none of the 1000 cells"), ("", "--filter"),
        ("n_counts == 'x'", "not compared with"),
    ]:  # fmt: skip
        folder = tmp_path / "s"
        code = 2 if where == "" else 1
        said = run("shard", *paths, "--filter", where, "--output-dir", folder, code=code)
        assert words in said
        assert not (tmp_path / "s").exists()
    where = "tissue in ['lung', 'lnug']"
    done = completed("export", *paths, "--filter", where, "--output", tmp_path / "s.h5ad")
    assert "lnug" in done.stderr


def test_a_filter_of_what_is_preprocessed(paths, tmp_path):
    where = "donor == 'd1'"
    run("preprocess", *paths, "--filter", where, "--min-genes", "5", "--output", tmp_path / "s")
    made = cf.open(tmp_path / "s")
    rows, donors = made.obs_values("_source_row"), made.obs_values("donor")
    assert {made.categories("donor")[code] for code in donors} == {"d1"}
    names = [name.split("-") for name in made.obs_names]
    assert [int(row) for _, row in names] == list(rows)
    assert cf.info(tmp_path / "s")["selection"]["steps"] == [f"filter: {where}"]


def test_columns_stored_by_columns_are_filtered(tmp_path):
    path = make_file(tmp_path, 0, 200, [f"g{i}" for i in range(9)])
    adata = anndata.read_h5ad(path)
    adata.X = scipy.sparse.csc_matrix(adata.X)
    adata.write_h5ad(tmp_path / "csc.h5ad")
    run("shard", tmp_path / "csc.h5ad", "--filter", "n_counts > 400", "--output-dir",
        tmp_path / "s")  # fmt: skip
    expected = adata[adata.obs["n_counts"] > 400]
    shards = cf.open(tmp_path / "s")
    assert list(shards.obs_names) == list(expected.obs_names)
    np.testing.assert_array_equal(shards.read(slice(None)).x.toarray(), expected.X.toarray())
