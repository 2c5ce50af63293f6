"""`var_key=`: genes named by a column of var; joins by it against anndata's of renamed files."""

import ast
import pickle
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from conftest import REAL_DATA
from program import run
from small_atlas import make_anndata

import cellfeed as cf
from cellfeed.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
)

N = 15


def symbols_file(seed=0) -> anndata.AnnData:
    """Named by symbols; the ids are in a column."""
    adata = make_anndata(N, seed=seed)[:, 2:].copy()
    adata.var["gene_ids"] = [f"ENSG{name[4:]:>011}" for name in adata.var_names]
    adata.var["length"] = np.arange(adata.n_vars)
    return adata


def ids_file(seed=1) -> anndata.AnnData:
    """Named by ids, in another order; the symbols are in a column, as labels."""
    adata = make_anndata(N, seed=seed)[:, 9::-1].copy()
    adata.var["gene_symbols"] = pd.Categorical(adata.var_names)
    adata.var_names = [f"ENSG{name[4:]:>011}" for name in adata.var_names]
    return adata


def renamed(adata, column) -> anndata.AnnData:
    adata = adata.copy()
    adata.var_names = adata.var[column].astype(str)
    adata.var_names.name = None
    return adata


@pytest.fixture(params=["h5ad", "shards"])
def paths(request, tmp_path):
    made = []
    for name, adata in {"symbols": symbols_file(), "ids": ids_file()}.items():
        path = tmp_path / f"{name}.h5ad"
        adata.write_h5ad(path)
        if request.param == "shards":
            cf.convert_to_shards(path, tmp_path / name, shard_size=8)
            path = tmp_path / name
        made.append(path)
    return made


@pytest.mark.parametrize("join", ["inner", "outer"])
@pytest.mark.parametrize(
    ("var_key", "columns"),
    [
        (["gene_ids", "_index"], ("gene_ids", None)),
        (["gene_symbols", "_index"], (None, "gene_symbols")),
    ],
    ids=["ids", "symbols"],
)  # fmt: skip
def test_ids_and_symbols_join_as_of_files_with_one_kind_of_names(paths, join, var_key, columns):
    adatas = [
        renamed(adata, column) if column else adata
        for adata, column in zip((symbols_file(), ids_file()), columns, strict=True)
    ]
    whole = anndata.concat(adatas, join=join, fill_value=0, index_unique="-")
    cells = cf.open(paths, join=join, var_key=var_key, obs="cell_type")
    assert sorted(cells.var_names) == sorted(whole.var_names)
    batch = cells.read(slice(None))
    np.testing.assert_array_equal(batch.to_numpy(), whole[:, cells.var_names].X.toarray())
    known = [np.tile(pd.Index(cells.var_names).isin(a.var_names), (N, 1)) for a in adatas]
    np.testing.assert_array_equal(batch.gene_mask, np.concatenate(known))
    assert [v or "nan" for v in batch.obs.labels("cell_type")] == [
        str(v) for a in adatas for v in a.obs["cell_type"]
    ]
    again = pickle.loads(pickle.dumps(cells))
    assert list(again.var_names) == list(cells.var_names) and again.fingerprint == cells.fingerprint
    np.testing.assert_array_equal(again[:].to_numpy(), batch.to_numpy())
    own = np.concatenate([symbols_file().var_names, ids_file().var_names])
    assert set(cells.var["var_names"]) <= set(own)


def test_an_outer_join_keeps_the_columns_of_var(paths):
    cells = cf.open(paths, join="outer", var_key=["gene_ids", "_index"])
    one, two = renamed(symbols_file(), "gene_ids").var, ids_file().var
    for column in ("length", "gene_symbols", "symbol"):
        # Of the first file that has the gene and the column.
        parts = [var[column].astype(object) for var in (one, two) if column in var]
        expected = pd.concat(parts)
        expected = expected[~expected.index.duplicated()].reindex(cells.var_names)
        found = cells.var[column].astype(object)
        assert [None if v != v else v for v in found] == [None if v != v else v for v in expected]


def test_a_fixed_axis_is_of_the_keys(paths):
    genes = ["ENSG00000000009", "ENSG00000000000", "ENSG00000000011"]
    cells = cf.open(paths, genes=genes, var_key=["gene_ids", "_index"])
    assert list(cells.var_names) == genes
    ids = renamed(symbols_file(), "gene_ids")
    x = cells[:].to_numpy()
    np.testing.assert_array_equal(x[:N, [0, 2]], ids[:, [genes[0], genes[2]]].X.toarray())
    np.testing.assert_array_equal(x[N:, [0, 1]], ids_file()[:, genes[:2]].X.toarray())
    assert not x[:N, 1].any() and not x[N:, 2].any()


def test_one_file_and_one_in_memory(paths):
    adata = symbols_file()
    for source in (adata, paths[0]):
        cells = cf.open(source, var_key="gene_ids")
        assert list(cells.var_names) == list(adata.var["gene_ids"])
        np.testing.assert_array_equal(cells[:].to_numpy(), adata.X.toarray())
        assert list(cells.var["var_names"]) == list(adata.var_names)
        assert list(pickle.loads(pickle.dumps(cells)).var_names) == list(cells.var_names)
        assert cells.fingerprint != cf.open(source).fingerprint
    assert list(cf.open(adata, var_key="_index").var_names) == list(adata.var_names)


def test_repeated_keys_are_repeated_names(tmp_path):
    adata = symbols_file()
    adata.var["gene_ids"] = ["a", "b", "a", *[f"g{i}" for i in range(adata.n_vars - 3)]]
    text = r"'a' is column 0 and column 2.*make_unique=True, or choose another column by var_key"
    with pytest.raises(InvalidArgumentError, match=text):
        cf.open(adata, var_key="gene_ids")
    names = list(cf.open(adata, var_key="gene_ids", make_unique=True).var_names)
    assert names == list(anndata.utils.make_index_unique(pd.Index(adata.var["gene_ids"])))


@pytest.mark.parametrize("nothing", [None, "", np.nan])
def test_a_gene_without_a_key_is_named(tmp_path, nothing):
    adata = symbols_file()
    keys = adata.var["gene_ids"].astype(object)
    keys.iloc[4] = nothing
    adata.var["gene_ids"] = pd.Categorical(keys)
    adata.write_h5ad(tmp_path / "a.h5ad")
    for source in (adata, tmp_path / "a.h5ad"):
        with pytest.raises(
            InvalidArgumentError, match=r"gene 4 \('gene6'\) has no value in var column 'gene_ids'"
        ):
            cf.open(source, var_key="gene_ids")


@pytest.mark.parametrize(
    ("var_key", "error", "text"),
    [
        ("gene_id", NoSuchKeyError, "ids.h5ad|symbols.h5ad"),
        (["nothing", "nowhere"], NoSuchKeyError, "var has no column 'nothing', 'nowhere'"),
        ("length", InvalidArgumentError, "'length' holds int64, not text"),
        (3, InvalidTypeError, "var_key must be a name or a list of names"),
        ([3], InvalidTypeError, "each of var_key must be a str"),
        ("gene_ids", NoSuchKeyError, "ids.*no column 'gene_ids'.*'gene_symbols'"),
    ],
)
def test_what_cannot_name_genes_is_an_error(paths, var_key, error, text):
    if paths[0].is_dir():
        text = text.replace(".h5ad", "")
    with pytest.raises(error, match=text):
        cf.open(paths, join="outer", var_key=var_key)


def test_the_other_names_of_genes(paths):
    with pytest.warns(cf.errors.MissingGenesWarning, match="share no gene by name.*var_key"):
        cells = cf.open(paths, join="outer")
    ids = cells.gene_aliases("gene_ids")
    assert ids == symbols_file().var["gene_ids"].to_dict()
    assert cells.gene_aliases("gene_symbols")["ENSG00000000003"] == "gene3"
    assert {v: k for k, v in ids.items()}["ENSG00000000003"] == "gene3"
    assert cells[:, ["gene3"]].gene_aliases("gene_ids") == {"gene3": "ENSG00000000003"}
    with pytest.raises(NoSuchKeyError, match=r"no file has var column 'gene_idz'.*'gene_ids'"):
        cells.gene_aliases("gene_idz")
    with pytest.raises(InvalidTypeError, match=r"'length' holds 0, not text"):
        cells.gene_aliases("length")


def test_files_that_contradict_one_another_are_named(tmp_path):
    for name in ("a", "b"):
        adata = symbols_file()
        adata.var["gene_ids"] = [f"{name if i == 3 else 'x'}{i}" for i in range(adata.n_vars)]
        adata.write_h5ad(tmp_path / f"{name}.h5ad")
    cells = cf.open(sorted(tmp_path.glob("*.h5ad")))
    with pytest.raises(
        InvalidArgumentError, match=r"'gene5' has two values.*'a3' in .*a.h5ad.*'b3'"
    ):
        cells.gene_aliases("gene_ids")


@pytest.mark.skipif(not REAL_DATA.is_dir(), reason="no real data")
def test_a_10x_file_of_symbols_joins_the_same_cells_by_ids():
    ids = REAL_DATA / "anndata/derived_placenta_visium_csr.h5ad"
    symbols = REAL_DATA / "tenx/placenta_visium/filtered_feature_bc_matrix.h5"
    n = len(cf.open(ids))
    for var_key in (["gene_ids", "_index"], ["gene_symbols", "_index"]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cf.errors.LeftOutWarning)
            cells = cf.open([ids, symbols], var_key=var_key, join="inner", make_unique=True)
        assert cells.shape == (2 * n, 19465)
        assert (cells[:n].X != cells[n:].X).nnz == 0 < cells[:n].X.nnz
        assert cells[[0, n]].batch.gene_mask.all()


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_shards_and_exports_are_named_by_it(paths, tmp_path, join):
    keys = ["gene_ids", "_index"]
    asked = cf.open(paths, join=join, var_key=keys)
    cf.export_h5ad(cf.open(paths, join=join, var_key=keys), tmp_path / "x.h5ad")
    shards = cf.convert_to_shards(cf.open(paths, join=join, var_key=keys), tmp_path / "joined").path
    run(
        "shard", *paths, "--output-dir", tmp_path / "cli", "--join", join,
        "--var-key", "gene_ids", "--var-key", "_index",
    )  # fmt: skip
    for source in (shards, tmp_path / "cli", tmp_path / "x.h5ad"):
        cells = cf.open(source)
        assert list(cells.var_names) == list(asked.var_names)
        assert list(cells.var["var_names"]) == list(asked.var["var_names"])
        assert list(cells.obs_names) == list(asked.obs_names)
        np.testing.assert_array_equal(cells[:].to_numpy(), asked[:].to_numpy())
    with pytest.raises(NoSuchKeyError, match="no column 'nothing'"):
        cf.convert_to_shards(cf.open(paths, join=join, var_key="nothing"), tmp_path / "none")


@pytest.mark.parametrize("join", ["inner", "outer"])
def test_files_of_the_same_names_may_have_other_keys(tmp_path, join):
    values = {"E1": 1, "E2": 2, "E3": 3}
    paths = []
    for number, keys in enumerate((["E1", "E2", "E3"], ["E3", "E1", "E2"])):
        adata = anndata.AnnData(
            np.array([[values[key] for key in keys]], dtype=np.float32),
            obs=pd.DataFrame(index=[f"cell {number}"]),
            var=pd.DataFrame({"ids": keys}, index=["A", "B", "C"]),
        )
        paths.append(tmp_path / f"{number}.h5ad")
        adata.write_h5ad(paths[-1])
    cells = cf.open(paths, var_key="ids", join=join)
    assert cells.var_names.tolist() == ["E1", "E2", "E3"]
    assert cells[:].to_numpy().tolist() == [[1, 2, 3]] * 2


@pytest.fixture
def twice_named(tmp_path):
    """Two files that two columns of var name, by the same names in other places."""
    paths = []
    for i in range(2):
        adata = make_anndata(N, seed=i)
        names = adata.var_names.to_numpy()
        adata.var["forth"], adata.var["back"] = names, names[::-1]
        if i:
            adata = adata[:, np.roll(np.arange(adata.n_vars), 3)].copy()
        adata.obs_names = [f"{name}_{i}" for name in adata.obs_names]
        paths.append(tmp_path / f"{i}.h5ad")
        adata.write_h5ad(paths[-1])
    return paths


def test_a_state_of_genes_by_one_column_is_none_of_those_by_another(twice_named):
    forth, back = (cf.open(twice_named, join="outer", var_key=key) for key in ("forth", "back"))
    assert list(forth.var_names) == list(back.var_names)
    assert (forth.read(slice(None)).to_scipy() != back.read(slice(None)).to_scipy()).nnz > 0
    assert forth.fingerprint != back.fingerprint
    loader = cf.Loader(forth, cf.BlockShuffling(), batch_size=4)
    next(iter(loader))
    state = loader.state_dict()
    cf.Loader(
        cf.open(twice_named, join="outer", var_key="forth"), cf.BlockShuffling(), batch_size=4
    ).load_state_dict(state)
    with pytest.raises(cf.errors.CellfeedError, match="another collection"):
        cf.Loader(back, cf.BlockShuffling(), batch_size=4).load_state_dict(state)


def test_a_conversion_goes_on_by_the_column_that_it_began_with(twice_named, tmp_path):
    options = dict(shard_size=5, resume=True)

    def opened(column):
        return cf.open(twice_named, join="outer", var_key=column)

    cf.convert_to_shards(opened("forth"), tmp_path / "s", **options)
    with pytest.raises(AlreadyExistsError, match="finished shards of other"):
        cf.convert_to_shards(opened("back"), tmp_path / "s", **options)
    cf.convert_to_shards(opened("forth"), tmp_path / "s", **options)
    of_files = cf.open(twice_named, join="outer", var_key="forth").read(slice(None)).to_scipy()
    assert (cf.open(tmp_path / "s").read(slice(None)).to_scipy() != of_files).nnz == 0


@pytest.mark.parametrize("lacks", [True, False])
def test_a_name_that_is_an_alias_in_another_file_is_no_gene_of_zeros(tmp_path, lacks):
    """A file of ids beside one of symbols: the gene is in both, under two names."""
    ids, symbols = symbols_file(1), symbols_file(2)
    symbols.var["symbol"] = symbols.var_names
    ids.var["symbol"] = ids.var_names
    ids.var_names = list(ids.var["gene_ids"])
    asked = symbols.var_names[0]
    if not lacks:  # in this file too; so it is what the file says
        ids.var_names = [*ids.var_names[:-1], asked]
        ids.var["symbol"] = [*ids.var["symbol"][:-1], asked]
    paths = [tmp_path / "ids.h5ad", tmp_path / "symbols.h5ad"]
    for adata, path in zip([ids, symbols], paths, strict=True):
        adata.write_h5ad(path)
    if not lacks:
        cells = cf.open(paths, genes=[asked], gene_aliases="symbol")
        found = cells.read(slice(None)).to_numpy()[: ids.n_obs, 0]
        np.testing.assert_array_equal(found, ids[:, -1].X.toarray()[:, 0])
        return
    with pytest.raises(InvalidArgumentError, match=f"'{asked}'.*another name of.*ids.h5ad") as info:
        cf.open(paths, genes=[asked], gene_aliases="symbol", missing_genes="zero")
    assert "var_key=['symbol', '_index']" in str(info.value)
    cells = cf.open(paths, genes=[asked], var_key=["symbol", "_index"])
    expected = np.concatenate([each.X[:, 0].toarray()[:, 0] for each in (ids, symbols)])
    np.testing.assert_array_equal(cells.read(slice(None)).to_numpy()[:, 0], expected)


def test_the_advice_names_the_genes_of_both_files_alike(tmp_path):
    """Each file has the names of the other one in a column of its own."""
    for name, column, index, other in (("a", "sy", "E", "S"), ("b", "gid", "S", "E")):
        var = pd.DataFrame({column: [f"{other}{i}" for i in range(3)]})
        var.index = [f"{index}{i}" for i in range(3)]
        x = np.arange(3, dtype=np.float32)[None] + (1 if name == "a" else 4)
        anndata.AnnData(scipy.sparse.csr_matrix(x), var=var).write_h5ad(tmp_path / f"{name}.h5ad")
    paths = [tmp_path / "a.h5ad", tmp_path / "b.h5ad"]
    genes = ["S0", "E1"]
    with pytest.raises(InvalidArgumentError) as info:
        cf.open(paths, genes=genes, gene_aliases=["gid", "sy"])
    advised = ast.literal_eval(str(info.value).partition("var_key=")[2])
    cells = cf.open(paths, genes=genes, gene_aliases=["gid", "sy"], var_key=advised)
    np.testing.assert_array_equal(cells.read([0, 1]).to_numpy(), [[1, 2], [4, 5]])


def test_the_advice_has_every_column_that_holds_the_name(tmp_path):
    """Two files of ids, each with symbols in another column, beside one of symbols."""
    ids, symbols = ["E0", "E1"], ["S0", "S1"]
    for name, index, columns in (
        ("a", ids, {"sy": symbols}), ("b", symbols, {}), ("c", ids, {"symbol": symbols}),
        ("d", ids, {"name": symbols}),
    ):  # fmt: skip
        x = scipy.sparse.csr_matrix(np.array([[ord(name), 1]], dtype=np.float32))
        var = pd.DataFrame(columns, index=index)
        anndata.AnnData(x, var=var).write_h5ad(tmp_path / f"{name}.h5ad")
    given = dict(genes=symbols, gene_aliases=["sy", "symbol"])
    paths = [tmp_path / f"{name}.h5ad" for name in "abcd"]
    with pytest.raises(InvalidArgumentError) as info:
        cf.open(paths, **given, var_key=["name", "_index"])
    advised = ast.literal_eval(str(info.value).partition("var_key=")[2])
    cells = cf.open(paths, **given, var_key=advised)
    np.testing.assert_array_equal(cells.read(slice(None)).to_numpy()[:, 0], [97, 98, 99, 100])
