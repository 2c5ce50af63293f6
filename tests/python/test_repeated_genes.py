"""Gene names that repeat in several files are joined where that is known to be right."""

import anndata
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError

pytestmark = [
    pytest.mark.filterwarnings("ignore:Variable names are not unique"),
    pytest.mark.filterwarnings("ignore:Suffix used"),
]

SYMBOLS = ["A", "A", "A-1", "B", "B", "C", "D"]
IDS = [f"E{i}" for i in range(len(SYMBOLS))]


def file_of(ids, columns=("gene_ids",)) -> anndata.AnnData:
    """Two cells; the values say which gene they are of."""
    numbers = np.array([IDS.index(i) for i in ids])
    values = np.stack([numbers + 1, numbers + 11]).astype(np.float32)
    var = pd.DataFrame(
        {"gene_ids": ids, "kind": "Gene Expression"}, index=[SYMBOLS[i] for i in numbers]
    )
    return anndata.AnnData(values, pd.DataFrame(index=["c0", "c1"]), var[list(columns)])


def written(folder, *files) -> list:
    paths = [folder / f"{i}.h5ad" for i in range(len(files))]
    for path, adata in zip(paths, files, strict=True):
        adata.write_h5ad(path)
    return paths


@pytest.mark.parametrize("how", [{"join": "inner"}, {"join": "outer"}])
@pytest.mark.parametrize(
    ("others", "text"),
    [
        (IDS[:2][::-1] + IDS[2:], r"'A' in columns 0, 1.*'gene_ids'.*'E0'.*'E1'.*var_key"),
        (IDS[1:], r"by 'gene_ids'"),  # one A, the other one
        (["E2", "E5", "E6"], r"'A-1' in column 0.*'A' in columns 0, 1.*by 'gene_ids'"),
    ],
)
def test_other_genes_of_one_name_are_refused(tmp_path, others, text, how):
    paths = written(tmp_path, file_of(["E0", "E1", "E5"]), file_of(others))
    with pytest.raises(
        (ValueError, pd.errors.InvalidIndexError), match=r"uniquely valued|duplicate labels"
    ):
        anndata.concat([anndata.read_h5ad(path) for path in paths], **how)
    with pytest.raises(InvalidArgumentError, match=text):
        cf.open(paths, make_unique=True, **how)
    cells = cf.open(paths, var_key="gene_ids", **how)
    assert len(cells) == 4


def test_files_that_say_nothing_but_the_name_are_joined_only_where_they_are_alike(tmp_path):
    first = file_of(IDS, columns=["kind"])
    alike, short = written(tmp_path, first, file_of(IDS[:-1], columns=["kind"]))
    for join in ("inner", "outer"):
        text = r"1.h5ad: has gene 'A' in columns 0, 1.*0.h5ad.*no column of var that both have"
        with pytest.raises(InvalidArgumentError, match=text):
            cf.open([alike, short], join=join, make_unique=True)
    (tmp_path / "again").mkdir()
    (again,) = written(tmp_path / "again", file_of(IDS, columns=["kind"]))
    cells = cf.open([alike, again], make_unique=True)
    first.var_names_make_unique()
    assert list(cells.var_names) == list(first.var_names)
    np.testing.assert_array_equal(cells[:].to_numpy(), np.concatenate([first.X, first.X]))


def test_equal_names_of_genes_in_another_order_are_refused_without_a_join(tmp_path):
    swapped = ["E1", "E0", *IDS[2:]]
    paths = written(tmp_path, file_of(IDS), file_of(swapped))
    with pytest.raises(InvalidArgumentError, match="'gene_ids' of var, column 0 of the one"):
        cf.open(paths, make_unique=True)


def test_a_fixed_axis_refuses_what_it_asks_for_only(tmp_path):
    paths = written(tmp_path, file_of(IDS), file_of(["E1", "E0", "E5", "E6"]))
    for genes in (["A"], ["C", "A-1"]):
        with pytest.raises(InvalidArgumentError, match="'A' in columns 0, 1"):
            cf.open(paths, genes=genes, make_unique=True)
    cells = cf.open(paths, genes=["D", "B-1", "C"], make_unique=True)
    assert cells[:].to_numpy()[:, [0, 2]].tolist() == [[7, 6], [17, 16]] * 2
    assert cells[:].to_numpy()[:, 1].tolist() == [5, 15, 0, 0]


def test_a_gene_that_a_file_has_by_another_number_is_not_absent_there(tmp_path):
    paths = written(tmp_path, file_of(IDS), file_of(["E1", "E0", "E6"]))
    assert list(cf.open(paths[0], make_unique=True).var_names[:3]) == ["A", "A-2", "A-1"]
    with pytest.raises(InvalidArgumentError, match="'A' in columns 0, 1"):
        cf.open(paths, genes=["A-2", "D"], make_unique=True)
    paths = written(tmp_path, file_of(IDS), file_of(["E0", "E6"]))
    cells = cf.open(paths, genes=["A-2", "D"], make_unique=True)
    assert cells[:].to_numpy().tolist() == [[2, 7], [12, 17], [0, 7], [0, 17]]


def opened(path) -> cf.CellCollection:
    return cf.open(path, make_unique=True)


REMADE = {
    "shards": lambda path, out: cf.convert_to_shards(opened(path), out),
    "by mean": lambda path, out: cf.convert_to_shards(
        cf.open(path, make_unique=True), out, gene_order="mean"
    ),
    "of some genes": lambda path, out: cf.convert_to_shards(
        opened(path)[:, ["D", "A-2", "B"]], out
    ),
    "of some cells": lambda path, out: cf.convert_to_shards(opened(path)[[1]], out),
    "processed": lambda path, out: cf.preprocess(
        cf.open(path, make_unique=True),
        out,
        min_genes=0,
        min_cells=1,
        normalize=False,
        log_transform=False,
    ),
}


@pytest.mark.parametrize("how", REMADE)
def test_shards_remember_which_names_were_numbered(tmp_path, how):
    """A file of unique names, of which they made up one, may mean another gene by it."""
    (path,) = written(tmp_path, file_of(IDS))
    shards = tmp_path / "shards"
    REMADE[how](path, shards)
    REMADE["shards"](shards, tmp_path / "again")
    other = file_of(["E0", "E1", "E6", "E3"])  # E0 is A-2 here and E1 A
    other.var_names = ["A-2", "A", "D", "B"]
    alone = other[:, 2:].copy()
    alone.write_h5ad(tmp_path / "alone.h5ad")
    right = other[:, [1, 0, 2, 3]].copy()
    right.var_names = ["A-2", "A", "D", "B"]  # as the shards have it
    right.write_h5ad(tmp_path / "right.h5ad")
    other.write_h5ad(tmp_path / "other.h5ad")
    for of in (shards, tmp_path / "again"):
        for join in ("inner", "outer"):
            with pytest.raises(InvalidArgumentError, match="names that repeat do not say which"):
                cf.open([of, tmp_path / "other.h5ad"], join=join)
        with pytest.raises(InvalidArgumentError, match="names that repeat do not say which"):
            cf.append_to_shards(tmp_path / "other.h5ad", of, extra_genes="drop")
        x = cf.open([of, tmp_path / "right.h5ad"], genes=["A-2", "D"])[:].to_numpy()
        assert x[-2:].tolist() == [[2, 7], [12, 17]]
        assert x[0].tolist() in ([2, 7], [12, 17])
        assert "_repeated_name" not in cf.open(of).var.columns
        alone = cf.open([of, tmp_path / "alone.h5ad"], join="inner")
        assert set(alone.var_names) == {"B", "D"}  # gene_ids tell that it is the same B


def test_names_that_only_look_numbered_are_joined(tmp_path):
    """NKX2 and NKX2-1 are two genes of many atlases; no name of theirs was made up."""
    first = file_of(["E0", "E3", "E6"], columns=["kind"])
    first.var_names = ["NKX2", "NKX2-1", "D"]
    (path,) = written(tmp_path, first)
    (tmp_path / "b").mkdir()
    (other,) = written(tmp_path / "b", first[:, ::-1].copy())
    cf.convert_to_shards(cf.open(path, make_unique=True), tmp_path / "shards")
    cells = cf.open([tmp_path / "shards", other], join="inner", make_unique=True)
    assert list(cells.var_names) == list(first.var_names)
    np.testing.assert_array_equal(cells[:].to_numpy()[:2], cells[:].to_numpy()[2:])
    cf.append_to_shards(other, tmp_path / "shards")
    x = cf.open(tmp_path / "shards")[:].to_numpy()
    np.testing.assert_array_equal(x[:2], x[2:])


@examples(40)
@given(
    files=st.lists(st.lists(st.sampled_from(IDS), min_size=1, unique=True), min_size=1, max_size=2),
    join=st.sampled_from(["inner", "outer"]),
    as_shards=st.booleans(),
    columns=st.sampled_from([["gene_ids"], ["kind"]]),
)
def test_no_two_genes_ever_become_one(tmp_path_factory, files, join, as_shards, columns):
    files = [*files, IDS]  # with one file at least in which names repeat
    adatas = [file_of(ids, columns) for ids in files]
    folder = tmp_path_factory.mktemp("files")
    paths = written(folder, *adatas)
    if as_shards:
        paths = [
            cf.convert_to_shards(cf.open(path, make_unique=True), folder / path.stem)
            for path in paths
        ]
    try:
        cells = cf.open(paths, join=join, make_unique=not as_shards)
    except InvalidArgumentError as error:
        assert "repeat" in str(error) or "share no gene" in str(error)
        return
    x = cells[:].to_numpy()
    x[1::2] -= 10 * (x[1::2] > 0)  # every value is now the number of its gene, or 0 where absent
    genes = [set(column[column > 0]) for column in x.T]
    assert all(len(gene) == 1 for gene in genes)
    assert len(set.union(*genes)) == len(genes) <= len(IDS)
    if join == "outer":
        assert len(genes) == len(IDS)
