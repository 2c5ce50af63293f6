"""What programs for AnnCollection and AnnData ask of cells beside views: it is there, or said."""

import copy
import pickle

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from anndata.experimental import AnnCollection
from anndata.experimental.multi_files._anncollection import AnnCollectionView

import cellfeed as cf
from cellfeed._cells.foreign_names import _INSTEAD
from cellfeed.collection import CellCollection, CellView
from cellfeed.errors import NoSuchAttributeError


def make(number: int) -> anndata.AnnData:
    random = np.random.default_rng(number)
    x = scipy.sparse.csr_matrix(random.poisson(1.0, (12, 5)).astype(np.float32))
    obs = pd.DataFrame(
        {"donor": pd.Categorical(["a", "b", "c"] * 4), "depth": random.integers(0, 9, 12)},
        index=[f"{number}-{i}" for i in range(12)],
    )
    adata = anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=list("vwxyz")))
    adata.layers["twice"] = x * 2
    adata.obsm["X_pca"] = random.normal(size=(12, 3))
    return adata


@pytest.fixture(scope="module")
def adatas():
    return [make(number) for number in range(2)]


@pytest.fixture(scope="module")
def paths(adatas, tmp_path_factory):
    folder = tmp_path_factory.mktemp("habits")
    for number, adata in enumerate(adatas):
        adata.write_h5ad(folder / f"{number}.h5ad")
    return sorted(folder.glob("*.h5ad"))


@pytest.fixture(scope="module")
def cells(paths):
    return cf.open(paths, layers=["twice"], obsm=["X_pca"])


@pytest.fixture(scope="module")
def theirs(adatas):
    return AnnCollection(adatas, join_obs="inner")


def members(of: object) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


@pytest.mark.parametrize("of_view", [False, True])
def test_every_attribute_of_theirs_is_there_or_says_what_to_use(cells, theirs, of_view):
    ours, other = (cells[3:9], theirs[3:9]) if of_view else (cells, theirs)
    assert isinstance(other, AnnCollectionView) == of_view
    absent = members(other) - members(ours)
    assert {"convert", "adatas"} <= absent <= set(_INSTEAD)
    for name in absent:
        assert not hasattr(ours, name)
        with pytest.raises(NoSuchAttributeError, match=f"has no {name}: ."):
            getattr(ours, name)


def test_what_is_said_of_an_attribute_is_not_said_of_one_that_is_there():
    assert not set(_INSTEAD) & members(CellCollection)
    assert members(CellView) >= {"X", "layers", "obsm", "to_anndata"}


@pytest.mark.parametrize("rows", [slice(None), slice(5, 20), [20, 3, 3]])
def test_names_are_found_among_others(cells, theirs, rows):
    wanted = ["0-3", "1-8", "nowhere"]
    chosen, other = cells[rows], theirs[np.arange(24)[rows]]
    for ours, expected in ((cells, theirs), (chosen, other), (cells.filter(rows), other)):
        assert list(ours.obs_names) == list(expected.obs_names)
        assert list(ours.var_names) == list(expected.var_names)
        np.testing.assert_array_equal(ours.obs_names.isin(wanted), expected.obs_names.isin(wanted))
    some = cells[cells.obs_names.isin(wanted)]
    assert list(some.obs_names) == ["0-3", "1-8"]
    np.testing.assert_array_equal(
        cells[:, cells.var_names.isin(["x", "v"])].X.toarray(), theirs[:, ["v", "x"]].X.toarray()
    )


def test_names_of_a_collection_are_arrays_and_say_so(cells):
    assert isinstance(cells.obs_names, np.ndarray) and cells.obs_names.dtype == object
    for names in (cells.obs_names, cells.var_names):
        with pytest.raises(NoSuchAttributeError, match=r"cells\[:\].obs_names"):
            names.get_indexer(["x"])
        assert isinstance(pickle.loads(pickle.dumps(names)), np.ndarray)
    assert list(cells[:].obs_names) == list(cells.obs_names)
    assert cells[:].var_names.get_indexer(["x", "nowhere"]).tolist() == [2, -1]


def test_keys_of_attributes_and_backing(cells, adatas, theirs, paths):
    assert cells.attrs_keys == theirs.attrs_keys == cells[:3].attrs_keys
    bare = cf.open(paths)
    assert bare.attrs_keys == {"obs": ["donor", "depth"], "obsm": [], "layers": []}
    assert cells.has_backed is True and cells[3:].has_backed is True
    assert cf.open(adatas).has_backed is theirs.has_backed is False
    assert cf.open([adatas[0], paths[1]]).has_backed is True


@pytest.mark.parametrize("ignore_x", [False, True])
@pytest.mark.parametrize("ignore_layers", [False, True])
def test_an_anndata_without_some_of_it_is_theirs(cells, theirs, ignore_x, ignore_layers):
    how = {"ignore_X": ignore_x, "ignore_layers": ignore_layers}
    made, expected = cells[[20, 3], ["z", "v"]].to_anndata(**how), theirs[[20, 3], ["z", "v"]]
    expected = expected.to_adata(**how)
    assert (made.X is None) == (expected.X is None) == ignore_x
    if not ignore_x:
        np.testing.assert_array_equal(made.X.toarray(), expected.X.toarray())
    assert list(made.layers) == list(expected.layers)
    for name in expected.layers:
        np.testing.assert_array_equal(made.layers[name].toarray(), expected.layers[name].toarray())
    np.testing.assert_array_equal(made.obsm["X_pca"], expected.obsm["X_pca"])
    assert list(made.obs_names) == list(expected.obs_names)


def test_without_x_no_counts_are_read(paths, monkeypatch):
    cells = cf.open(paths)
    monkeypatch.setattr(CellView, "_as_stored", property(lambda self: pytest.fail("read")))
    assert cells[:5].to_anndata(ignore_X=True).shape == (5, 5)


NOT_SET = [
    ("convert", lambda x: x, "transforms= of cellfeed.Loader"),
    ("convert", {"X": np.asarray}, "transforms= of cellfeed.Loader"),
    ("obs", pd.DataFrame(), "obs of CellView is read only"),
    ("X", np.zeros(3), "X of CellView is read only"),
    ("filter", None, "filter of CellView is read only"),
    ("defalt_obs", ["donor"], "did you mean 'default_obs'"),
]


@pytest.mark.parametrize(("name", "value", "words"), NOT_SET, ids=lambda value: str(value)[:12])
def test_what_would_do_nothing_cannot_be_set(cells, name, value, words):
    view = cells[:4]
    with pytest.raises(NoSuchAttributeError, match=words):
        setattr(view, name, value)
    with pytest.raises(NoSuchAttributeError):
        setattr(cells, name, value)
    assert view.X.shape == (4, 5)


def test_default_obs_is_names_and_what_was_read_is_read_again(paths):
    cells = cf.open(paths, join="outer", obs=["donor"])
    view = cells[:3]
    assert view.batch.keys() == ["X", "donor"]
    view.default_obs = "depth"
    assert view.keys() == view.batch.keys() == view.to("cpu").keys() == ["X", "depth"]
    for wrong in (None, 3, ["donor", 3]):
        with pytest.raises(TypeError, match="default_obs"):
            cells.default_obs = wrong
    assert cells.default_obs == ["donor"]


def test_default_obs_can_be_set_and_goes_along(paths):
    cells = cf.open(paths)
    cells.default_obs = ["donor"]
    assert cells[:3].default_obs == ["donor"]
    for other in (copy.copy(cells), copy.deepcopy(cells), pickle.loads(pickle.dumps(cells[:3]))):
        assert other.default_obs == ["donor"]


def test_an_unknown_attribute_names_the_nearest(cells):
    with pytest.raises(NoSuchAttributeError, match=r"no obs_colum.*did you mean 'obs_column'"):
        cells.obs_colum  # noqa: B018
    with pytest.raises(AttributeError):
        cells._nothing  # noqa: B018
    assert not hasattr(cells, "X") and hasattr(cells[:2], "X")


def test_an_error_of_a_property_is_its_own(cells, monkeypatch):
    def fail(self):
        raise AttributeError("of something inside")

    monkeypatch.setattr(CellCollection, "obs_names", property(fail))
    with pytest.raises(AttributeError, match="of something inside"):
        cells.obs_names  # noqa: B018
