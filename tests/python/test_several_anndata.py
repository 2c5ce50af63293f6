"""`cf.open` and `cf.MappedCollection` of lists of AnnData in memory: against the same in files."""

import pickle

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.errors import CorruptDataError, InvalidArgumentError, NoSuchKeyError


def make(number: int, n: int, genes: str, *, dense: bool = False) -> anndata.AnnData:
    random = np.random.default_rng(number)
    x = random.poisson(0.7, (n, len(genes))).astype(np.float32)
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical(random.choice(["b", "a", f"only {number}"], n)),
            "depth": random.integers(0, 9, n),
        },
        index=[f"{number}-{i}" for i in range(n)],
    )
    adata = anndata.AnnData(
        x if dense else scipy.sparse.csr_matrix(x), obs,
        pd.DataFrame({"ids": [f"E{gene}" for gene in genes]}, index=list(genes)),
    )  # fmt: skip
    adata.layers["twice"] = adata.X * 2
    adata.obsm["X_pca"] = random.normal(size=(n, 3)).astype(np.float32)
    return adata


@pytest.fixture
def several():
    return [make(0, 20, "abcd"), make(1, 30, "dcx", dense=True), make(2, 10, "bdc")]


@pytest.fixture
def paths(several, tmp_path):
    for number, adata in enumerate(several):
        adata.write_h5ad(tmp_path / f"{number}.h5ad")
    return [tmp_path / f"{number}.h5ad" for number in range(3)]


@pytest.mark.parametrize("join", ["inner", "outer"])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_list_in_memory_is_as_its_files(several, paths, join, mixed):
    how = {"join": join, "layers": ["twice"], "obsm": ["X_pca"], "obs": ["cell_type"]}
    ours = cf.open([several[0], paths[1], several[2]] if mixed else several, **how)
    theirs = cf.open(paths, **how)
    assert ours.shape == theirs.shape and list(ours.var_names) == list(theirs.var_names)
    assert ours.encoders == theirs.encoders
    rows = np.random.default_rng(0).permutation(60)
    one, other = ours.read(rows), theirs.read(rows)
    np.testing.assert_array_equal(one.x.toarray(), other.x.toarray())
    np.testing.assert_array_equal(one.layers["twice"].toarray(), other.layers["twice"].toarray())
    np.testing.assert_array_equal(one.obsm["X_pca"], other.obsm["X_pca"])
    np.testing.assert_array_equal(one.obs["cell_type"], other.obs["cell_type"])
    np.testing.assert_array_equal(one.gene_mask, other.gene_mask)
    np.testing.assert_array_equal(ours.gene_mask, theirs.gene_mask)
    assert list(ours.obs_names) == list(theirs.obs_names)
    some, same = ours.filter("cell_type == 'a'"), theirs.filter("cell_type == 'a'")
    np.testing.assert_array_equal(some.read(slice(None)).x.toarray(),
                                  same.read(slice(None)).x.toarray())  # fmt: skip
    assert some[:].to_anndata().obs.equals(same[:].to_anndata().obs)


def test_by_ids_and_by_a_vocabulary(several):
    by_id = cf.open(several, genes=["Ed", "Ex", "Ea"], var_key="ids")
    by_name = cf.open(several, genes=["d", "x", "a"])
    np.testing.assert_array_equal(
        by_id.read(slice(None)).x.toarray(), by_name.read(slice(None)).x.toarray()
    )
    with pytest.warns(cf.errors.MissingGenesWarning, match="nothing"):
        cf.open(several, genes=["d", "nothing"])


def test_pickled_and_changed(several, paths):
    cells = cf.open([several[0], paths[1]], join="outer", obs=["cell_type"])
    again = pickle.loads(pickle.dumps(cells))
    assert again.fingerprint == cells.fingerprint and again.default_obs == ["cell_type"]
    loader = DataLoader(cf.Loader(cells, cf.BlockShuffling(2), 8), batch_size=None, num_workers=2)
    assert sum(len(batch.index) for batch in loader) == 50
    other = cf.open([paths[1], several[0]], join="outer")
    assert other.fingerprint != cells.fingerprint
    several[0].obs["depth"] = 3
    data = pickle.dumps(cells)
    with pytest.raises(CorruptDataError, match="changed"):
        pickle.loads(data)


def test_what_cannot_be_joined_is_refused(several):
    with pytest.raises(InvalidArgumentError, match="join"):
        cf.open(several)
    with pytest.raises(InvalidArgumentError, match="give one"):
        cf.open(several, join="outer", obsm=["X_pca"], layers=["twice"], var_key="ids",
                genes=["Ed"])  # fmt: skip
    del several[1].layers["twice"]
    with pytest.raises(NoSuchKeyError, match="twice"):
        cf.open(several, join="outer", layers=["twice"])
    several[2].obsm["X_pca"] = several[2].obsm["X_pca"][:, :2]
    with pytest.raises(InvalidArgumentError, match="X_pca"):
        cf.open(several, join="outer", obsm=["X_pca"])


@pytest.mark.parametrize("join", ["inner", "outer", None])
def test_a_mapped_collection_of_them(several, paths, join):
    how = {"join": join, "obs_keys": ["cell_type", "depth"], "layers_keys": ["X", "twice"],
           "obsm_keys": ["X_pca"]}  # fmt: skip
    for given in (several, [paths[0], several[1], str(paths[2])]):
        ours, theirs = cf.MappedCollection(given, **how), cf.MappedCollection(paths, **how)
        assert len(ours) == len(theirs) == 60 and ours.shape == theirs.shape
        assert ours.encoders == theirs.encoders
        assert ours.original_shapes == theirs.original_shapes
        for i in range(60):
            one, other = ours[i], theirs[i]
            assert list(one) == list(other)
            for name in one:
                np.testing.assert_array_equal(one[name], other[name])
        np.testing.assert_array_equal(
            ours.get_label_weights("cell_type"), theirs.get_label_weights("cell_type")
        )
        again = pickle.loads(pickle.dumps(ours))
        np.testing.assert_array_equal(again[59]["X"], theirs[59]["X"])


def test_shards_of_several_genes_are_each_read_once(several, tmp_path):
    for number, adata in enumerate(several[:2]):
        cf.convert_to_shards(adata, tmp_path / str(number), shard_size=7)
    ours = cf.MappedCollection([tmp_path / "0", tmp_path / "1"], join=None)
    assert len(ours) == 50
    for i in range(50):
        adata = several[0 if i < 20 else 1]
        row = adata.X[i if i < 20 else i - 20]
        expected = row.toarray()[0] if scipy.sparse.issparse(row) else row
        np.testing.assert_array_equal(ours[i]["X"], expected)


def test_genes_are_found_by_their_aliases(several, paths):
    expected = cf.open(paths, genes=["d", "x", "a"]).read(slice(None)).x.toarray()
    for given in (paths, several, iter(paths)):
        cells = cf.open(given, genes=["d", "Ex", "Ea"], gene_aliases="ids")
        assert list(cells.var_names) == ["d", "x", "a"]
        np.testing.assert_array_equal(cells.read(slice(None)).x.toarray(), expected)
    one = cf.open(several[0], genes=["Eb"], gene_aliases=["ids"])
    np.testing.assert_array_equal(one.read(slice(None)).x.toarray(), several[0].X[:, [1]].toarray())
    with pytest.raises(InvalidArgumentError, match="'d' and 'Ed' are one gene"):
        cf.open(paths, genes=["d", "Ed"], gene_aliases="ids")
    with pytest.raises(NoSuchKeyError, match="idz"):
        cf.open(paths, genes=["Ed"], gene_aliases="idz")
    with pytest.raises(InvalidArgumentError, match="gene_aliases is for genes"):
        cf.open(paths, gene_aliases="ids")
    with pytest.warns(cf.errors.MissingGenesWarning, match="Enone"):
        cf.open(paths, genes=["Ed", "Enone"], gene_aliases="ids")
    several[0].var["ids"] = ["E", "E", "F", "G"]
    with pytest.raises(InvalidArgumentError, match="'a', 'b' in the files"):
        cf.open(several[0], genes=["E"], gene_aliases="ids")


def test_missing_texts_are_not_the_text_none():
    def some(values):
        adata = anndata.AnnData(np.ones((2, 2), "float32"))
        adata.obs["text"] = pd.Series(values, index=adata.obs_names, dtype=object)
        return adata

    missing, text = some([None, "a"]), some(["None", "a"])
    assert cf.open(missing).fingerprint != cf.open(text).fingerprint
    cells = cf.open([missing, some(["a", "b"])], obs=["text"])
    missing.obs["text"] = text.obs["text"]
    data = pickle.dumps(cells)
    with pytest.raises(CorruptDataError, match="changed"):
        pickle.loads(data)


def test_an_object_given_twice_is_an_error_as_a_file_is(several, paths, tmp_path):
    first, second = several[:2]
    (tmp_path / "other_name.h5ad").symlink_to(paths[2])
    backed = anndata.read_h5ad(paths[2], backed="r")
    for given, twice in (
        ([first, second, first], "AnnData 2 in memory: given twice.*AnnData 0 in memory"),
        ([paths[2], first, first], "AnnData 2 in memory: given twice.*AnnData 1 in memory"),
        ([paths[2], first, paths[2]], "2.h5ad: given twice, so that all it holds"),
        ([paths[2], first, tmp_path / "other_name.h5ad"], "given twice.*the other name: "),
        ([backed, first, str(tmp_path / "*.h5ad")], "2.h5ad: given twice"),
    ):
        for take in (
            lambda data: cf.open(data, join="outer", layers=["twice"]),
            lambda data: cf.MappedCollection(data, join="outer"),
            lambda data: cf.MappedCollection(data, join=None),
        ):
            with pytest.raises(InvalidArgumentError, match=twice):
                take(given)
    backed.file.close()


def test_a_copy_and_a_view_are_objects_of_their_own(several):
    first = several[0]
    cells = cf.open([first[:12], first[12:], first.copy()])
    assert list(cells.obs_names) == [*first.obs_names, *first.obs_names]
