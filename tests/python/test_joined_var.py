"""Columns of var of joined files: each value of the first file that has the gene and the column."""

import pickle

import anndata
import numpy as np
import pandas as pd
import pytest
from small_atlas import make_anndata

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError

LARGE = 2**53 + 1


def with_var(genes, seed, **columns) -> anndata.AnnData:
    adata = make_anndata(12, seed=seed)[:, genes].copy()
    adata.var = pd.DataFrame(columns, index=adata.var_names)
    return adata


def three() -> list[anndata.AnnData]:
    """The first has every gene of the third, and no names of them."""
    return [
        with_var(slice(0, 6), 0, length=np.arange(6), used=[True, False] * 3),
        with_var(
            slice(8, 3, -1), 1, length=np.arange(10, 15), number=np.arange(5) + LARGE,
            kind=pd.Categorical(list("abcab")), chosen=[True, True, False, False, True],
        ),
        with_var(slice(1, 5), 2, ids=["w", "x", "y", "z"], weight=[0.5, np.nan, 1.5, 2.5]),
    ]  # fmt: skip


def expected(adatas, genes) -> pd.DataFrame:
    """As anndata's merge="first" has it, but each gene by itself; no value is converted."""
    found: dict[str, dict[str, object]] = {}
    for adata in adatas:
        for name in adata.var:
            column = found.setdefault(name, {})
            for gene, value in adata.var[name].items():
                column.setdefault(gene, value)
    table = {name: [column.get(gene) for gene in genes] for name, column in found.items()}
    return pd.DataFrame(table, index=genes, dtype=object)


def assert_same(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    assert list(found.columns) == list(wanted.columns)
    assert list(found.index) == list(wanted.index)
    for name in wanted:
        one, other = found[name].astype(object), wanted[name].astype(object)
        np.testing.assert_array_equal(one.isna(), other.isna(), err_msg=name)
        assert list(one.dropna()) == list(other.dropna()), name


@pytest.fixture(params=["h5ad", "shards", "memory"])
def inputs(request, tmp_path):
    made = three()
    if request.param == "memory":
        return made
    paths = []
    for i, adata in enumerate(made):
        path = tmp_path / f"{i}.h5ad"
        adata.write_h5ad(path)
        if request.param == "shards":
            cf.convert_to_shards(path, tmp_path / f"shards{i}", shard_size=5)
            path = tmp_path / f"shards{i}"
        paths.append(path)
    return paths


@pytest.mark.parametrize("join", ["inner", "outer"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_no_column_of_any_file_is_lost(inputs, join, order):
    cells = cf.open([inputs[i] for i in order], join=join)
    adatas = [three()[i] for i in order]
    wanted = expected(adatas, list(cells.var_names))
    assert_same(cells.var, wanted)
    assert_same(pickle.loads(pickle.dumps(cells)).var, wanted)
    kept = anndata.concat(adatas, join=join, merge="first", index_unique="-").var
    for name in kept:  # what anndata keeps
        known = kept[name].dropna()
        assert np.array_equal(cells.var.loc[known.index, name].astype(known.dtype), known)


def test_views_of_genes_have_the_columns_of_all(inputs):
    cells = cf.open(inputs, join="outer")
    chosen = list(cells.var_names[[7, 0, 3]])
    for view in (cells[:, chosen], cells[20:30, chosen], cells[:3][:, chosen], cells[[1, 2]]):
        genes = list(view.var_names)
        assert_same(view.var, cells.var.loc[genes])
        assert_same(view.to_anndata().var, cells.var.loc[genes])
        assert_same(view.to_anndata().var, cells.var.loc[genes])


def test_whoever_changes_var_changes_a_copy(inputs):
    cells = cf.open(inputs, join="outer")
    view = cells[:, :3]
    for var in (cells.var, view.var):
        var["length"] = 0
    assert cells.var["length"].any() and view.var["length"].any()


def test_what_is_written_has_them_too(inputs, tmp_path):
    cells = cf.open(inputs, join="outer")
    cf.export_h5ad(cells, tmp_path / "all.h5ad")
    cf.convert_to_shards(cells, tmp_path / "all")
    # Missing booleans keep adata from being written where they are objects.
    cells[:].to_anndata().write_h5ad(tmp_path / "adata.h5ad")
    for path in ("all.h5ad", "all", "adata.h5ad"):
        assert_same(cf.open(tmp_path / path).var, cells.var)
    assert_same(anndata.read_h5ad(tmp_path / "all.h5ad").var, cells.var)
    some = cells[:, ["gene1", "gene2"]]
    cf.export_h5ad(some, tmp_path / "some.h5ad")
    assert_same(anndata.read_h5ad(tmp_path / "some.h5ad").var.dropna(axis=1, how="all"),
                some.var.dropna(axis=1, how="all"))  # fmt: skip


def test_types_stay_where_nothing_is_missing(inputs):
    var = cf.open(inputs[1:2]).var
    assert [str(dtype) for dtype in var.dtypes] == ["int64", "int64", "category", "bool"]
    var = cf.open(inputs[:2], join="outer").var
    assert {name: str(var[name].dtype) for name in var} == {
        "length": "int64", "used": "boolean", "number": "Int64", "kind": "category",
        "chosen": "boolean",
    }  # fmt: skip


def test_types_that_do_not_go_together_stay_what_they_are(tmp_path):
    one = with_var(slice(0, 2), 0, a=[True, False], b=[1, 2], c=[1, LARGE])
    two = with_var(slice(2, 4), 1, a=[1, 0], b=["x", "y"], c=[0.5, 1.5])
    var = cf.open([one, two], join="outer").var
    assert [var[name].tolist() for name in var] == [
        [True, False, 1, 0], [1, 2, "x", "y"], [1, LARGE, 0.5, 1.5],
    ]  # fmt: skip
    assert [type(value) for value in var["a"]] == [bool, bool, int, int]
    with pytest.raises(InvalidArgumentError, match="var column 'a'"):
        cf.export_h5ad(cf.open([one, two], join="outer"), tmp_path / "both.h5ad")
