"""Gene names that repeat in several files are joined where that is known to be right."""

import anndata
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def ways(paths, folder):
    yield lambda **how: cf.open(paths, make_unique=True, **how)

    def shards(**how):
        out = folder / f"shards_{how}"
        return cf.open(cf.convert_to_shards(paths, out, make_unique=True, overwrite=True, **how))

    yield shards
    yield lambda **how: cf.export_h5ad(
        paths, folder / "x.h5ad", make_unique=True, overwrite=True, **how
    )


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
    for way in ways(paths, tmp_path):
        with pytest.raises(InvalidArgumentError, match=text):
            way(**how)
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
    for way in ways(paths, tmp_path):
        with pytest.raises(InvalidArgumentError, match="'gene_ids' of var, column 0 of the one"):
            way()


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


@settings(max_examples=40)
@given(
    files=st.lists(st.lists(st.sampled_from(IDS), min_size=1, unique=True), min_size=1, max_size=2),
    join=st.sampled_from(["inner", "outer"]),
)
def test_no_two_genes_ever_become_one(tmp_path_factory, files, join):
    files = [*files, IDS]  # with one file at least in which names repeat
    adatas = [file_of(ids) for ids in files]
    try:
        cells = cf.open(
            written(tmp_path_factory.mktemp("files"), *adatas), join=join, make_unique=True
        )
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
