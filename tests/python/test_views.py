"""Views `cells[rows, genes]`: programs written for AnnCollection give the same, read on demand."""

import copy
import gc
import multiprocessing
import os
import pickle
import signal
import threading
import time
import weakref

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from anndata.experimental import AnnCollection
from real_files import CSR_FILES, DENSE_FILES, read_anndata
from small_atlas import make_anndata
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed._cells.as_anndata import stored_dtypes
from cellfeed.collection import CellView
from cellfeed.errors import (
    CorruptDataError,
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
    OutOfRangeError,
)
from cellfeed.transforms import adata_to_mindex

N = 20  # cells of each of three files
ROWS = np.random.default_rng(0).permutation(3 * N)[:17]
GENES = ["gene7", "gene5", "gene10"]


@pytest.fixture(scope="module")
def adatas():
    """Different genes in different orders; labels of the same kinds in each."""
    made = [make_anndata(N, seed=seed) for seed in range(3)]
    whole = [made[0], made[1][:, ::-1].copy(), made[2][:, 2:].copy()]
    for number, adata in enumerate(whole):
        adata.obs_names = [f"{number}-{i}" for i in range(N)]
    return whole


@pytest.fixture(scope="module", params=["h5ad", "shards", "dense"])
def cells(request, adatas, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    paths = []
    for number, adata in enumerate(adatas):
        path = folder / f"{number}.h5ad"
        if request.param == "dense":
            adata = adata.copy()
            adata.X = adata.X.toarray()
        adata.write_h5ad(path)
        if request.param == "shards":
            cf.convert_to_shards(path, folder / f"shards_{number}", shard_size=8)
            path = folder / f"shards_{number}"
        paths.append(path)
    return cf.open(paths, join="inner", obs=["cell_type", "depth"])


@pytest.fixture(scope="module")
def collection(adatas):
    return AnnCollection(adatas, join_vars="inner", join_obs="inner")


def dense(x) -> np.ndarray:
    return x.toarray() if scipy.sparse.issparse(x) else np.asarray(x)


def same(ours, theirs) -> None:
    """Two views, as a program for AnnCollection sees them."""
    assert ours.shape == theirs.shape and len(ours) == len(theirs)
    assert (ours.n_obs, ours.n_vars) == (theirs.n_obs, theirs.n_vars)
    pd.testing.assert_index_equal(ours.obs_names, theirs.obs_names, exact=False)
    pd.testing.assert_index_equal(ours.var_names, theirs.var_names, exact=False)
    np.testing.assert_array_equal(dense(ours.X), dense(theirs.X))
    assert set(theirs.obs.keys()) <= set(ours.obs.keys())
    for name in theirs.obs.keys():  # noqa: SIM118 - not a mapping
        expected, found = theirs.obs[name], ours.obs[name]
        assert isinstance(found, pd.Series) and found.name == name
        assert list(found.index) == list(expected.index)
        assert [v if v == v else None for v in found] == [v if v == v else None for v in expected]
    frame, columns = ours.obs.df, ours.obs.to_dict(keys=["cell_type"])
    assert list(frame["cell_type"].cat.codes) == list(columns["cell_type"].cat.codes)
    assert list(frame.index) == list(theirs.obs.df.index)


INDICES = {
    "slice": np.s_[5:41],
    "steps": np.s_[-3:4:-7],
    "one cell": 7,
    "the last cell": -1,
    "a numpy scalar": np.int64(30),
    "a list": [41, 3, 3, 59],
    "an array": ROWS,
    "a mask": np.arange(3 * N) % 7 == 2,
    "a series": pd.Series(np.arange(3 * N) % 5 == 1),
    "names of cells": ["2-3", "0-19", "1-0"],
    "an index of names": pd.Index(["1-7", "0-2"]),
    "all cells, some genes": np.s_[:, GENES],
    "both": (ROWS, GENES),
    "slices of both": np.s_[3:50:4, 2:6],
    "mask of genes": (slice(None), np.arange(10) % 3 == 0),
    "numbers of genes": (slice(5, 30), [4, 0, 9]),
    "a gene's number": (slice(5, 30), 4),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_a_view_is_what_anncollection_gives(cells, collection, index):
    rows, genes = index if isinstance(index, tuple) else (index, slice(None))
    # AnnCollection takes masks for the numbers 0 and 1, and knows no negative ones.
    if not isinstance(rows[0] if isinstance(rows, list | pd.Index) else rows, str):
        rows = np.atleast_1d(np.arange(3 * N)[rows])
    if not isinstance(genes, list) or not isinstance(genes[0], str):
        genes = list(np.atleast_1d(cells.var_names[genes]))
    same(cells[index], collection[rows, genes])


@pytest.mark.parametrize("index", [np.s_[30:3:-4], (ROWS, GENES), np.s_[:, ["gene3"]]], ids=str)
def test_layers_and_obsm_are_what_anncollection_gives(adatas, tmp_path, index):
    adatas = [adata.copy() for adata in adatas]
    for number, adata in enumerate(adatas):
        adata.obsm["X_pca"] = np.random.default_rng(number).normal(size=(N, 3))
        adata.write_h5ad(tmp_path / f"{number}.h5ad")
    paths = sorted(tmp_path.glob("*.h5ad"))
    cells = cf.open(paths, join="inner", layers="counts", obsm="X_pca")
    rows, genes = index if isinstance(index, tuple) else (index, slice(None))
    ours = cells[index]
    theirs = AnnCollection(adatas, join_vars="inner")[np.arange(3 * N)[rows], genes]
    assert list(ours.layers.keys()) == theirs.layers.keys()
    assert list(ours.obsm.keys()) == theirs.obsm.keys()
    made, expected = ours.to_anndata(), theirs.to_adata()
    for found, wanted in (
        (ours.layers["counts"], theirs.layers["counts"]),
        (ours.layers.to_dict()["counts"], theirs.layers.to_dict()["counts"]),
        (made.layers["counts"], expected.layers["counts"]),
        (made.obsm["X_pca"], expected.obsm["X_pca"]),
        (ours.obsm.to_dict(["X_pca"])["X_pca"], theirs.obsm["X_pca"].astype(np.float32)),
    ):
        np.testing.assert_array_equal(dense(found), dense(wanted))
    assert made.obsm["X_pca"].dtype == expected.obsm["X_pca"].dtype


@pytest.mark.parametrize("name", [*CSR_FILES, *DENSE_FILES])
def test_a_view_of_a_file_is_what_anndata_has(shared_data, name):
    adata = read_anndata(shared_data / name)
    if adata.X is None:
        return
    cells = cf.open(shared_data / name)
    rows = np.random.default_rng(0).permutation(len(cells))[:50]
    genes = np.random.default_rng(1).permutation(cells.n_vars)[:40]
    view, expected = cells[rows, genes], adata[rows, genes]
    made = view.to_anndata()
    for x in (view.X, made.X):
        np.testing.assert_array_equal(dense(x), dense(expected.X))
        assert x.dtype == expected.X.dtype and scipy.sparse.issparse(x) == scipy.sparse.issparse(
            expected.X
        )
    assert list(view.obs_names) == list(made.obs_names) == list(expected.obs_names)
    assert list(view.var_names) == list(made.var_names) == list(expected.var_names)
    assert made.var.astype(str).equals(expected.var.astype(str))
    for column in adata.obs:
        # Of all cells: anndata drops categories that a view does not use.
        found, series = view.obs[column], adata.obs[column].iloc[rows]
        assert [None if pd.isna(v) else v for v in found] == [
            None if pd.isna(v) else v for v in series
        ]
        if isinstance(series.dtype, pd.CategoricalDtype):
            assert list(found.cat.categories) == list(series.cat.categories)
            assert found.cat.ordered == series.cat.ordered
        elif series.dtype.kind in "biuf" and isinstance(series.dtype, np.dtype):
            assert found.dtype == series.dtype


def program(collection):
    """Written for AnnCollection."""
    rng = np.random.RandomState(0)
    found = [collection.shape, list(collection.obs_names[:3]), list(collection.var_names)]
    view = collection[rng.permutation(len(collection))[:30]]
    inner = view[5:25, GENES]
    found += [dense(inner.X).sum(axis=0).tolist(), inner.obs["cell_type"].astype(str).tolist()]
    found += [inner.obs["depth"].mean(), set(inner.obs.df.columns) >= {"donor", "depth"}]
    adata = inner.to_anndata() if isinstance(inner, CellView) else inner.to_adata()
    assert isinstance(adata, anndata.AnnData)
    found += [adata.X.sum(), adata.obs_names.tolist(), adata.var_names.tolist()]
    found.append(adata.obs.groupby("cell_type", observed=True).size().to_dict())
    np.random.seed(3)
    for batch, idx in collection.iterate_axis(16, shuffle=True):
        found += [len(batch), idx, dense(batch.X).sum(), batch.obs["depth"].sum()]
    found += [idx for _, idx in view.iterate_axis(8, drop_last=True)]
    for batch, idx in view.iterate_axis(4, axis=1):
        found += [batch.shape, idx, dense(batch.X).sum(axis=1).tolist()]
    return found


def test_a_program_for_anncollection_runs(cells, collection):
    for ours, theirs in zip(program(cells), program(collection), strict=True):
        assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("index", [ROWS, np.s_[:, GENES], (ROWS, GENES), np.s_[:]], ids=str)
def test_a_view_is_a_selection_everywhere(adatas, cells, index):
    view = cells[index]
    x, n = dense(view.X), len(view)
    for strategy in (cf.Streaming(), cf.BlockShuffling(4), cf.ClassBalancedSampling("cell_type")):
        for batch in cf.Loader(view, strategy, 8, seed=1):
            np.testing.assert_array_equal(batch.to_numpy(), x[batch.index])
            assert list(batch.obs_names) == list(view.obs_names[batch.index])
            assert list(batch.var_names) == list(view.var_names)
            assert list(batch["depth"]) == list(view.obs["depth"].iloc[batch.index])
    batches = list(cf.scDataset(view, cf.BlockShuffling(4), 8, seed=1))
    assert sum(len(batch) for batch in batches) == n
    some = view.filter(np.arange(n)[::-2])
    np.testing.assert_array_equal(some.read(slice(None)).to_numpy(), x[::-2])
    parts = view.split({"a": 0.5, "b": 0.5}, seed=2)
    assert sum(map(len, parts.values())) == n
    for name, file, row in zip(view.obs_names, *view.locate(), strict=True):
        assert pa.table(cells.obs_table(int(file)))["_index"][int(row)].as_py() == name
    # The total is that of all genes of the file, whatever the view has of them.
    totals = np.concatenate([adata.X.sum(axis=1).A1 for adata in adatas])
    scaled = view.read(slice(None), transforms=[cf.NormalizeTotal(100.0)])
    np.testing.assert_allclose(
        scaled.to_numpy(), x * (100 / totals[view.index])[:, None], rtol=1e-6
    )


def test_a_view_of_views_is_a_view(cells):
    x = dense(cells[:].X)
    view = cells[10:50][::-1][[0, 5, 9], 2:9][:, ["gene9", "gene4"]]
    genes = list(cells.var_names)
    rows = np.arange(10, 50)[::-1][[0, 5, 9]]
    expected = x[rows][:, [genes.index("gene9"), genes.index("gene4")]]
    np.testing.assert_array_equal(dense(view.X), expected)
    np.testing.assert_array_equal(view.to_numpy(), expected)
    np.testing.assert_array_equal(view.index, rows)
    assert list(view.obs_names) == list(np.asarray(cells.obs_names)[rows])
    again = pickle.loads(pickle.dumps(view))
    np.testing.assert_array_equal(dense(again.X), expected)
    assert type(again) is CellView and again.fingerprint == view.fingerprint
    assert cells[:].fingerprint == cells.fingerprint != view.fingerprint
    np.testing.assert_array_equal(dense(copy.deepcopy(view).X), expected)
    selected = cells.filter("cell_type is not missing")
    np.testing.assert_array_equal(selected[[3, 1]].index, [3, 1])
    np.testing.assert_array_equal(
        dense(selected[[3, 1]].X), selected.read([3, 1], dtype="float64").to_numpy()
    )


def test_what_is_read_as_stored_and_what_as_a_batch(tmp_path):
    for dtype in ("uint8", "int16", "int32", "int64", "uint32", "float32", "float64"):
        x = np.arange(12).reshape(4, 3).astype(dtype)
        adata = anndata.AnnData(scipy.sparse.csr_matrix(x))
        adata.write_h5ad(tmp_path / "a.h5ad")
        view = cf.open(tmp_path / "a.h5ad")[[2, 0]]
        assert view.X.dtype == dtype and view.x.dtype == "float32"
        np.testing.assert_array_equal(dense(view.X), [[6, 7, 8], [0, 1, 2]])
        np.testing.assert_array_equal(dense(view.X), view.to_numpy())
        assert view.X is view.X and view.x is view.x


def test_a_view_answers_as_a_batch(cells):
    view, batch = cells[ROWS], cells.read(ROWS)
    np.testing.assert_array_equal(view.to_numpy(), batch.to_numpy())
    np.testing.assert_array_equal(view.index, batch.index)
    np.testing.assert_array_equal(view["cell_type"], batch["cell_type"])
    np.testing.assert_array_equal(view["X"].toarray(), batch["X"].toarray())
    assert view.keys() == batch.keys() and "X" in view and "nothing" not in view
    assert view.obs.labels("cell_type").tolist() == batch.obs.labels("cell_type").tolist()
    assert view.to("cpu")["depth"].tolist() == batch["depth"].tolist()
    assert torch.equal(view.to_torch(dense=True), batch.to_torch(dense=True))
    np.testing.assert_array_equal(view.batch.gene_mask, batch.gene_mask)


def test_a_batch_of_a_view_has_the_columns_of_the_view(cells):
    view = cells[ROWS]
    view.default_obs = ["donor"]
    assert view.keys() == view.batch.keys() == ["X", "donor"]
    again = pickle.loads(pickle.dumps(view))
    assert again.batch.keys() == ["X", "donor"] and cells.default_obs == ["cell_type", "depth"]


def test_obs_reads_what_is_asked_for(cells, monkeypatch):
    asked = []
    values_of = cf.CellCollection.obs_values
    monkeypatch.setattr(
        cf.CellCollection, "obs_values",
        lambda self, name, rows=None: asked.append(name) or values_of(self, name, rows),
    )  # fmt: skip
    monkeypatch.setattr(cf.CellCollection, "read", None)  # no counts are read
    obs = cells[ROWS].obs
    assert obs["depth"].mean() == obs["depth"].mean() and asked == ["depth"]
    assert list(obs[["depth", "cell_type"]].columns) == ["depth", "cell_type"]
    assert asked == ["depth", "cell_type"]
    assert len(obs) == 17 and obs.shape[0] == 17 and "depth" in obs and "dept" not in obs
    assert obs.depth.equals(obs["depth"])
    assert obs.head(2).equals(obs.df.head(2)) and obs[obs["depth"] > 0].shape[0] <= 17
    assert len(asked) == len(set(asked)) == len(obs.keys())
    with pytest.raises(NoSuchKeyError, match="did you mean 'depth'"):
        obs["dept"]
    with pytest.raises(TypeError, match="read only"):
        obs["depth"] = 3
    for ask in (np.asarray, pd.DataFrame):
        with pytest.raises(TypeError, match=r"obs\.df"):
            ask(obs)
    with pytest.raises(AttributeError):
        obs.dept  # noqa: B018
    changed = obs["depth"]
    changed[:] = 0
    assert not (obs["depth"] == 0).all() and "obs of 17 cells" in repr(obs)
    assert pickle.loads(pickle.dumps(obs))["depth"].equals(obs["depth"])


def test_what_a_view_has_read_goes_with_it(cells):
    gc.disable()
    try:
        view = cells[ROWS]
        obs, gone = view.obs, weakref.ref(view)
        assert view.X is not None and view.x is not None and view.obs_names.size
        assert len(view.obs["depth"]) == len(view.obs.df) and view.var.shape[0] == 10
        del view
        assert gone() is None
        assert len(obs["donor"]) == len(ROWS)
    finally:
        gc.enable()


def test_hooks_of_anndata_take_views(cells, collection):
    ours = adata_to_mindex(cells[ROWS], columns=["cell_type", "depth"])
    theirs = adata_to_mindex(collection[ROWS], columns=["cell_type", "depth"])
    np.testing.assert_array_equal(ours["X"], theirs["X"])
    assert ours["X"].dtype == theirs["X"].dtype
    assert [str(v) for v in ours["cell_type"]] == [str(v) for v in theirs["cell_type"]]
    groups = cf.scDataset(
        cells, cf.Streaming(), 8, fetch_callback=lambda c, rows: c[rows],
        batch_transform=lambda batch: batch.obs.labels("cell_type"),
    )  # fmt: skip
    expected = cells.read(slice(None)).obs.labels("cell_type").tolist()
    assert np.concatenate(list(groups)).tolist() == expected


class Rows(torch.utils.data.Dataset):
    """Views, read where a worker is."""

    def __init__(self, view):
        self.view = view

    def __len__(self):
        return len(self.view)

    def __getitems__(self, rows):
        part = self.view[rows]
        return [(dense(part.X), part.obs["depth"].to_numpy())]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_views_in_workers(cells, method):
    file = cells.files[0]
    if method == "spawn" and (file["is_dense"] or file["format"] != "h5ad"):
        method = "fork"  # what is spawned does not depend on the format, and is slow
    view = cells[ROWS, GENES]
    x = dense(view.X)
    context = multiprocessing.get_context(method)
    workers = {"num_workers": 2, "multiprocessing_context": context}
    loader = DataLoader(Rows(view), 5, collate_fn=_first, **workers)
    np.testing.assert_array_equal(np.concatenate([part for part, _ in loader]), x)
    loader = cf.Loader(view, cf.BlockShuffling(4), 8, seed=2)
    for batch in DataLoader(loader, batch_size=None, **workers):
        np.testing.assert_array_equal(batch.to_numpy(), x[batch.index])


def _first(rows):
    return rows[0]


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (60, OutOfRangeError, "row 60 is outside the collection of 60 cells"),
        ([0, -61], OutOfRangeError, "row -61"),
        (np.ones(59, bool), OutOfRangeError, "one value a cell"),
        (np.zeros(60, bool), InvalidArgumentError, "at least one"),
        ([], InvalidArgumentError, "at least one"),
        (np.s_[7:7], InvalidArgumentError, "at least one"),
        (1.5, InvalidTypeError, "integers"),
        (None, InvalidTypeError, "integers"),
        ([[1, 2]], InvalidTypeError, "integers"),
        (["0-1", "9-9"], NoSuchKeyError, "no cell has the name '9-9'"),
        (["0-1", 3], NoSuchKeyError, "no cell has the name 3"),
        (np.s_["0-1":"0-3"], InvalidTypeError, "slice of integers"),
        ("0-1", NoSuchKeyError, r"cells\[\['0-1'\]\]"),
        (np.s_[0, 0, 0], InvalidTypeError, "rows and genes, not 3"),
        (np.s_[:, "gene70"], NoSuchKeyError, "no gene has the name 'gene70'; did you mean 'gene7'"),
        (np.s_[:, "gene4":"gene6"], InvalidTypeError, "list the names"),
        (np.s_[:, []], InvalidArgumentError, "no genes"),
        (np.s_[:, [3, 3]], InvalidArgumentError, "twice"),
        (np.s_[:, ["gene7", "gene7"]], InvalidArgumentError, "'gene7' twice"),
        (np.s_[:, 10], OutOfRangeError, "gene 10 is outside the collection of 10 genes"),
        (np.s_[:, np.ones(9, bool)], OutOfRangeError, "one value a gene"),
        (np.s_[:, 0.5], InvalidTypeError, "genes must be integers"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_what_cannot_be_a_view_is_an_error_at_once(cells, index, error, text):
    for of in (cells, cells[:]):
        if isinstance(index, str) and of is not cells:
            continue
        with pytest.raises(error, match=text):
            of[index]


def test_names_that_several_cells_have_are_asked_for_by_number(adatas, tmp_path):
    for name in ("a.h5ad", "b.h5ad"):
        adatas[0].write_h5ad(tmp_path / name)
    cells = cf.open([tmp_path / "a.h5ad", tmp_path / "b.h5ad"])
    with pytest.raises(InvalidArgumentError, match="'0-3' is of cell 3 and of cell 23"):
        cells[["0-3"]]
    np.testing.assert_array_equal(dense(cells[[3, 23]].X)[0], dense(cells[[3, 23]].X)[1])
    assert list(cells[[3, 23]].obs_names) == ["0-3", "0-3"]


def test_a_file_that_changes_behind_a_view_is_an_error(adatas, tmp_path):
    path = tmp_path / "a.h5ad"
    adatas[0].write_h5ad(path)
    view = cf.open(path)[[3, 1], ["gene3"]]
    state = pickle.dumps(view)
    adatas[0][::-1].copy().write_h5ad(path)
    for read in (lambda: view.X, lambda: view.x, lambda: view.obs["depth"], view.to_anndata):
        with pytest.raises(CorruptDataError, match="written again since it was opened"):
            read()
    with pytest.raises(CorruptDataError, match="changed since"):
        pickle.loads(state)


def test_a_closed_collection_and_its_views(adatas):
    cells = cf.open(adatas[0])
    view = cells[[3, 1]]
    cells.close()
    with pytest.raises(ValueError, match="this collection is closed"):
        cells[[3, 1]]
    # What a view reads by itself it goes on reading.
    np.testing.assert_array_equal(dense(view.X), adatas[0].X[[3, 1]].toarray())


def test_pieces_along_an_axis_refuse_what_makes_no_sense(cells):
    for options, error in (
        ({"batch_size": 0}, InvalidArgumentError),
        ({"batch_size": 2.0}, InvalidTypeError),
        ({"batch_size": 2, "axis": 2}, InvalidArgumentError),
        ({"batch_size": 2, "shuffle": 3}, InvalidTypeError),
    ):
        with pytest.raises(error):
            cells.iterate_axis(**options)


def test_an_anndata_of_a_view_has_everything(adatas, cells):
    made = cells[[25, 3], GENES].to_anndata()
    assert made.var["symbol"].tolist() == adatas[0].var.loc[GENES, "symbol"].tolist()
    assert set(made.obs.columns) >= set(adatas[0].obs.columns)
    bare = cells[[25, 3], GENES].to_anndata(ignore_X=True)
    assert bare.X is None and bare.shape == (2, 3)
    assert list(made.obs["cell_type"].cat.categories) == cells.categories("cell_type")


def test_no_two_runs_of_rows_have_one_fingerprint():
    atlas = cf.open(make_anndata(60))
    runs = [(first, end) for first in range(0, 60, 5) for end in range(first + 5, 61, 5)]
    found = {atlas[np.arange(first, end)].fingerprint for first, end in runs}
    assert len(found) == len(runs)
    mixed = [[*range(10, 15), *range(40, 45)], [*range(8, 13), *range(40, 43)]]
    assert atlas[mixed[0]].fingerprint != atlas[mixed[1]].fingerprint


@pytest.mark.parametrize(
    ("dtype", "value"), [("uint8", 200), ("int16", 30_000), ("int32", 2**30 + 8), ("uint32", 2**31)]
)
def test_sums_of_duplicates_are_wider_than_the_file(tmp_path, dtype, value):
    values = np.array([value, value - 10, 3], dtype)
    x = scipy.sparse.csr_matrix((values, np.array([0, 0, 2]), np.array([0, 3])), shape=(1, 4))
    anndata.AnnData(x, layers={"l": x.copy()}, obsm={"m": x.copy()}).write_h5ad(tmp_path / "a.h5ad")
    wanted = np.array([[2 * value - 10, 0, 3, 0]])
    view = cf.open(tmp_path / "a.h5ad", layers=["l"], obsm=["m"])[:]
    adata = view.to_anndata()
    for matrix in (view.X, adata.X, adata.layers["l"], adata.obsm["m"], adata_to_mindex(view)["X"]):
        matrix = matrix.toarray() if scipy.sparse.issparse(matrix) else np.asarray(matrix)
        np.testing.assert_array_equal(matrix.astype("int64"), wanted)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_a_thread_reads_a_view(tmp_path, monkeypatch):
    anndata.AnnData(np.eye(5, dtype=np.float32)).write_h5ad(tmp_path / "a.h5ad")
    cells = cf.open(tmp_path / "a.h5ad")
    is_in, may_go = threading.Event(), threading.Event()

    def wait(*arguments):
        if threading.current_thread() is reader:
            is_in.set()
            may_go.wait()
        return stored_dtypes(*arguments)

    monkeypatch.setattr("cellfeed.collection.stored_dtypes", wait)
    reader = threading.Thread(target=lambda: cells[:].X)
    reader.start()
    is_in.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if cells[:2].X.shape == (2, 5) else 1)
    may_go.set()
    reader.join()
    for _ in range(600):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child waits for ever")
    assert os.waitstatus_to_exitcode(status) == 0
