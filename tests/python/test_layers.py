"""Several matrices in one batch against anndata: layers, raw and obsm, whatever their storage."""

import gc
import itertools
import multiprocessing
import pickle
import weakref

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from real_files import read_anndata
from tiers import fast
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.errors import (
    CorruptDataError,
    InvalidArgumentError,
    NoSuchKeyError,
    PrecisionError,
    UnsupportedError,
)

GENES = [["b", "a", "c", "e"], ["c", "a", "d"], ["a", "z", "c", "b"]]
LAYERS = ["layers/spliced", "unspliced", "by_gene", "raw/X"]
OBSM = ["X_pca", "obsm/sparse", "by_column", "proteins"]
N_PCA = 4  # as many as genes of the first file


def make_adata(number: int, genes: list[str]) -> anndata.AnnData:
    random = np.random.default_rng(number)
    n = 40 + 7 * number
    shape = (n, len(genes))

    def counts(dtype):
        found = random.poisson(0.7, shape).astype(dtype)
        found[3] = 0  # a cell without any
        return found

    obs = pd.DataFrame(
        {"kind": pd.Categorical(random.choice(["T", "B"], n))},
        index=[f"{number}-{i}" for i in range(n)],
    )
    x = scipy.sparse.csr_matrix(counts(np.float32))
    adata = anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=genes))
    adata.layers["spliced"] = scipy.sparse.csr_matrix(counts(np.int32))
    adata.layers["unspliced"] = counts(np.float64) / 4
    adata.layers["by_gene"] = scipy.sparse.csc_matrix(counts(np.int64))
    adata.obsm["X_pca"] = random.normal(size=(n, N_PCA)).astype(np.float32)
    adata.obsm["sparse"] = scipy.sparse.random(n, 9, 0.3, "csr", np.float64, random)
    adata.obsm["by_column"] = scipy.sparse.random(n, 5, 0.3, "csc", np.float32, random)
    proteins = {"CD3": counts(np.int64)[:, 0], "CD8a": random.normal(size=n).astype(np.float32)}
    adata.obsm["proteins"] = pd.DataFrame(proteins, index=obs.index)
    adata.obsm["frame"] = pd.DataFrame({"a": np.arange(n), "clone": "T"}, index=obs.index)
    adata.obsm["cube"] = np.zeros((n, 2, 2))
    adata.raw = anndata.AnnData(
        scipy.sparse.hstack([x, x * 2], format="csr"),
        obs=obs[[]],
        var=pd.DataFrame(index=[*genes, *(f"raw_{gene}" for gene in genes)]),
    )
    return adata


@pytest.fixture(scope="module")
def adatas():
    return [make_adata(i, genes) for i, genes in enumerate(GENES)]


@pytest.fixture(scope="module", params=[None, "gzip"])
def paths(request, adatas, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for i, adata in enumerate(adatas):
        adata.write_h5ad(folder / f"{i}.h5ad", compression=request.param)
    return sorted(folder.glob("*.h5ad"))


@pytest.fixture(scope="module")
def plain_paths(adatas, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    for i, adata in enumerate(adatas):
        adata.write_h5ad(folder / f"{i}.h5ad")
    return sorted(folder.glob("*.h5ad"))


def dense(matrix) -> np.ndarray:
    return matrix.toarray() if scipy.sparse.issparse(matrix) else np.asarray(matrix)


def expected_of(adatas, join) -> dict[str, pd.DataFrame]:
    """Each matrix of all files, by its key; columns named, cells in the order of the files."""
    joined = anndata.concat(adatas, join=join, fill_value=0)
    raws = [anndata.AnnData(a.raw.X, obs=a.obs, var=a.raw.var) for a in adatas]
    raw = anndata.concat(raws, join=join, fill_value=0)
    found = {"X": pd.DataFrame(dense(joined.X), columns=joined.var_names)}
    for name in ("spliced", "unspliced", "by_gene"):
        found[name] = pd.DataFrame(dense(joined.layers[name]), columns=joined.var_names)
    found["raw/X"] = pd.DataFrame(dense(raw.X), columns=raw.var_names)
    for name in ("X_pca", "sparse", "by_column", "proteins"):
        found[name] = pd.DataFrame(np.vstack([dense(a.obsm[name]) for a in adatas]))
    return found


def assert_equal_to(batch, expected, dtype=np.float32):
    rows = batch.index
    for key in batch.layers:
        found, names = dense(batch.layers[key]), batch.layers.var_names(key)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected[key][list(names)].iloc[rows].astype(dtype))
    for key in batch.obsm:
        assert batch.obsm[key].dtype == (dtype if dtype != np.int32 else np.float32)
        wanted = expected[key].iloc[rows].astype(batch.obsm[key].dtype)
        np.testing.assert_array_equal(batch.obsm[key], wanted)


@pytest.mark.parametrize(
    ("join", "output", "block_size"),
    fast(
        [("inner", "csr", None), ("outer", "dense", None), ("inner", "dense", 1),
         ("outer", "csr", 8)],
        itertools.product(["inner", "outer"], ["csr", "dense"], [None, 1, 8]),
    ),
)  # fmt: skip
def test_every_matrix_is_anndatas(paths, adatas, join, output, block_size):
    order = cf.BlockShuffling(block_size) if block_size else cf.Streaming()
    expected = expected_of(adatas, join)
    cells = cf.open(paths, join=join, layers=LAYERS, obsm=OBSM)
    seen = []
    for batch in cf.Loader(cells, order, 16, output=output, fetch_factor=2, threads=2):
        assert list(batch.layers) == ["spliced", "unspliced", "by_gene", "raw/X"]
        assert list(batch.obsm) == ["X_pca", "sparse", "by_column", "proteins"]
        found = pd.DataFrame(dense(batch.x), columns=batch.var_names)
        pd.testing.assert_frame_equal(
            found, expected["X"].iloc[batch.index][found.columns].reset_index(drop=True),
            check_dtype=False,
        )  # fmt: skip
        for key in batch.layers:
            assert scipy.sparse.issparse(batch.layers[key]) == (output == "csr")
        assert_equal_to(batch, expected)
        seen.extend(batch.index.tolist())
    assert sorted(seen) == list(range(len(cells)))


def test_names_may_be_short_or_whole(plain_paths):
    batch = cf.open(plain_paths, join="inner", layers=["layers/spliced"], obsm="X_pca")[[1, 2]]
    assert batch.layers["spliced"] is batch.layers["layers/spliced"]
    assert batch.obsm["X_pca"] is batch.obsm["obsm/X_pca"]
    assert "layers/spliced" in batch.layers and "spliced" in batch.layers
    assert "X" not in batch.layers and 3 not in batch.layers and "X_umap" not in batch.obsm
    with pytest.raises(NoSuchKeyError, match=r"layers\['splised'\].*did you mean 'spliced'"):
        batch.layers["splised"]
    with pytest.raises(NoSuchKeyError, match=r"obsm\['X_umap'\].*pass obsm="):
        batch.obsm["X_umap"]
    plain = cf.open(plain_paths[0])[[1]]
    assert dict(plain.layers) == {} and dict(plain.obsm) == {}
    with pytest.raises(NoSuchKeyError, match="pass layers="):
        plain.layers["X"]


def test_a_batch_goes_with_its_last_reference(plain_paths):
    cells = cf.open(plain_paths[0], layers=["spliced"], obsm=["X_pca"])
    batch = cells.read([1, 2])
    assert repr(batch) and batch.layers["spliced"].shape and batch.obsm["X_pca"].shape
    gone = weakref.ref(batch)
    gc.disable()
    try:
        del batch
        assert gone() is None
    finally:
        gc.enable()


def test_x_may_be_another_matrix(plain_paths, adatas):
    cells = cf.open(plain_paths[0], layer="spliced", layers=["X"])
    batch = cells[[4, 0]]
    np.testing.assert_array_equal(dense(batch.x), dense(adatas[0].layers["spliced"])[[4, 0]])
    np.testing.assert_array_equal(dense(batch.layers["X"]), dense(adatas[0].X)[[4, 0]])


def test_an_anndata_in_memory_has_them_too(adatas):
    cells = cf.open(adatas[0], layers=LAYERS, obsm=OBSM)
    rows = [7, 3, 3, 39]
    batch = cells[rows]
    assert_equal_to(batch, expected_of(adatas[:1], "outer"))
    copy = pickle.loads(pickle.dumps(cells))
    assert_equal_to(copy[rows], expected_of(adatas[:1], "outer"))


def test_genes_given_choose_of_every_layer_and_not_of_obsm(plain_paths, adatas):
    cells = cf.open(
        plain_paths, genes=["a", "nowhere", "c"], missing_genes="zero", layers=LAYERS, obsm=OBSM
    )
    batch = cells.read(np.arange(len(cells))[::-3], output="dense")
    expected = expected_of(adatas, "outer")
    for key in batch.layers:
        assert batch.layers.var_names(key).tolist() == ["a", "nowhere", "c"]
        np.testing.assert_array_equal(batch.layers[key][:, 1], 0)
        wanted = expected[key][["a", "c"]].iloc[batch.index].astype(np.float32)
        np.testing.assert_array_equal(batch.layers[key][:, [0, 2]], wanted)
    np.testing.assert_array_equal(batch.obsm["X_pca"], expected["X_pca"].iloc[batch.index])


def test_transforms_change_x_alone_and_genes_are_chosen_of_all(plain_paths, adatas):
    cells = cf.open(plain_paths, join="outer", layers=LAYERS, obsm=OBSM)
    chosen = [cf.NormalizeTotal(100), cf.Log1p(), cf.SelectGenes(["d", "a"])]
    expected = expected_of(adatas, "outer")
    batch = next(iter(cf.Loader(cells, cf.BlockShuffling(4), 64, transforms=chosen)))
    whole = expected["X"].iloc[batch.index]
    normalised = np.log1p(whole.div(whole.sum(axis=1).replace(0, 1), axis=0) * 100)
    np.testing.assert_allclose(batch.x.toarray(), normalised[["d", "a"]], rtol=1e-6)
    for key in ("spliced", "unspliced", "by_gene"):
        assert batch.layers.var_names(key).tolist() == ["d", "a"]
        wanted = expected[key][["d", "a"]].iloc[batch.index].astype(np.float32)
        np.testing.assert_array_equal(dense(batch.layers[key]), wanted)
    names = batch.layers.var_names("raw/X")
    assert len(names) == len(expected["raw/X"].columns)
    np.testing.assert_array_equal(
        dense(batch.layers["raw/X"]), expected["raw/X"][list(names)].iloc[batch.index]
    )
    np.testing.assert_array_equal(batch.obsm["X_pca"], expected["X_pca"].iloc[batch.index])


def test_columns_of_obsm_are_no_genes(tmp_path):
    """Numbers as names of genes, and obsm as wide as X: genes that are chosen are those of X."""
    random = np.random.default_rng(0)
    adata = anndata.AnnData(random.poisson(2.0, (9, 4)).astype(np.float32))
    adata.obsm["X_pca"] = random.normal(size=(9, 4)).astype(np.float32)
    adata.write_h5ad(tmp_path / "a.h5ad")
    for source in (adata, tmp_path / "a.h5ad"):
        cells = cf.open(source, obsm="X_pca", genes=["3", "1"])
        batch = cells.read([2, 0], transforms=[cf.SelectGenes(["1"])])
        np.testing.assert_array_equal(dense(batch.x), adata.X[[2, 0]][:, [1]])
        np.testing.assert_array_equal(batch.obsm["X_pca"], adata.obsm["X_pca"][[2, 0]])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_dtypes(plain_paths, adatas, dtype):
    cells = cf.open(plain_paths, join="outer", layers=["spliced", "by_gene"], obsm=OBSM)
    batch = next(iter(cf.Loader(cells, cf.BlockShuffling(2), 32, dtype=dtype)))
    assert_equal_to(batch, expected_of(adatas, "outer"), np.dtype(dtype))


def test_a_layer_that_the_dtype_cannot_hold_is_refused_by_name(plain_paths):
    cells = cf.open(plain_paths[0], layers=["unspliced"])
    with pytest.raises(PrecisionError, match="unspliced"):
        cf.Loader(cells, cf.Streaming(), 8, dtype="int32")


def test_selections_filters_and_parts_keep_rows_together(plain_paths, adatas):
    cells = cf.open(plain_paths, join="outer", layers=LAYERS, obsm=OBSM, obs="kind")
    expected = expected_of(adatas, "outer")
    kinds = pd.concat([a.obs["kind"] for a in adatas]).to_numpy()
    some = cells.filter("kind == 'T'")
    whole = np.flatnonzero(kinds == "T")
    reordered = some.filter(np.arange(len(some))[::-2])
    whole = whole[::-2]
    batch = reordered[[5, 0, 9]]
    here = whole[batch.index]
    for key in batch.layers:
        wanted = expected[key][list(batch.layers.var_names(key))].iloc[here].astype(np.float32)
        np.testing.assert_array_equal(dense(batch.layers[key]), wanted)
    np.testing.assert_array_equal(batch.obsm["X_pca"], expected["X_pca"].iloc[here])
    assert_equal_to(cells[[50, 1, 2, 90]][[3, 0, 0]], expected)
    assert_equal_to(pickle.loads(pickle.dumps(cells[[50, 1, 2, 90]])), expected)
    copy = pickle.loads(pickle.dumps(reordered))[[5, 0, 9]]
    np.testing.assert_array_equal(copy.obsm["X_pca"], batch.obsm["X_pca"])


def test_views_of_genes_have_those_of_every_layer(plain_paths, adatas):
    cells = cf.open(plain_paths, join="outer", layers=LAYERS, obsm=OBSM)
    view = cells[[50, 1, 90], ["d", "a"]]
    expected = expected_of(adatas, "outer")
    for key in ("spliced", "unspliced", "by_gene"):
        assert view.layers.var_names(key).tolist() == ["d", "a"]
    assert_equal_to(view, expected)
    assert_equal_to(pickle.loads(pickle.dumps(view)), expected)
    np.testing.assert_array_equal(view.to_anndata().obsm["X_pca"], view.obsm["X_pca"])


def test_views_as_anndata_have_what_is_stored(plain_paths, adatas):
    cells = cf.open(plain_paths[0], layer="by_gene", layers=["X", "raw/X", "unspliced"], obsm=OBSM)
    rows = [5, 3, 11]
    found, wanted = cells[rows].to_anndata(), adatas[0][rows]
    assert found.X.dtype == np.int64 and found.layers["unspliced"].dtype == np.float64
    np.testing.assert_array_equal(dense(found.X), dense(wanted.layers["by_gene"]))
    np.testing.assert_array_equal(dense(found.layers["X"]), dense(wanted.X))
    np.testing.assert_array_equal(dense(found.layers["unspliced"]), wanted.layers["unspliced"])
    np.testing.assert_array_equal(dense(found.raw.X), dense(wanted.raw.X))
    for name in found.obsm:
        np.testing.assert_array_equal(found.obsm[name], dense(wanted.obsm[name]))
        assert found.obsm[name].dtype == dense(wanted.obsm[name]).dtype
    bare = cells[rows].to_anndata(ignore_X=True, ignore_layers=True)
    assert bare.X is None and not bare.layers and bare.raw is None and len(bare.obsm) == len(OBSM)


def test_anndata_of_a_batch(plain_paths, adatas):
    cells = cf.open(plain_paths[0], layers=LAYERS, obsm=OBSM)
    rows = [5, 3, 11]
    found, wanted = cells.read(rows).to_anndata(), adatas[0][rows]
    assert sorted(found.layers) == ["by_gene", "spliced", "unspliced"]
    for name in found.layers:
        np.testing.assert_array_equal(dense(found.layers[name]), dense(wanted.layers[name]))
    for name in found.obsm:
        np.testing.assert_array_equal(found.obsm[name], dense(wanted.obsm[name]).astype(np.float32))
    np.testing.assert_array_equal(dense(found.raw.X), dense(wanted.raw.X))
    assert found.raw.var_names.tolist() == wanted.raw.var_names.tolist()
    assert found.obs_names.tolist() == wanted.obs_names.tolist()


def test_tensors(plain_paths, adatas):
    cells = cf.open(plain_paths, join="inner", layers=LAYERS, obsm=OBSM)
    batch = next(iter(cf.Loader(cells, cf.BlockShuffling(2), 16)))
    tensors = batch.to("cpu")
    assert list(tensors.layers) == list(batch.layers) and list(tensors.obsm) == list(batch.obsm)
    for key in batch.layers:
        assert tensors.layers[key].layout is torch.sparse_csr
        np.testing.assert_array_equal(tensors.layers[key].to_dense(), dense(batch.layers[key]))
    for key in batch.obsm:
        assert isinstance(tensors.obsm[key], torch.Tensor)
        np.testing.assert_array_equal(tensors.obsm[key], batch.obsm[key])


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_worker_processes_give_the_same(plain_paths, adatas, start):
    cells = cf.open(plain_paths, join="outer", layers=LAYERS, obsm=OBSM)
    loader = cf.Loader(cells, cf.BlockShuffling(2), 16, seed=3)
    batches = DataLoader(
        loader, batch_size=None, num_workers=2,
        multiprocessing_context=multiprocessing.get_context(start),
    )  # fmt: skip
    planned = list(loader.plan())
    expected = expected_of(adatas, "outer")
    n = 0
    for batch, rows in zip(batches, planned, strict=True):
        np.testing.assert_array_equal(batch.index, rows)
        assert_equal_to(batch, expected)
        n += 1
    assert n == len(planned)


@pytest.mark.parametrize("world_size", [1, 3])
def test_resuming_and_ranks(plain_paths, adatas, world_size):
    expected = expected_of(adatas, "outer")

    def make(rank):
        cells = cf.open(plain_paths, join="outer", layers=["spliced"], obsm=["X_pca"])
        weights = np.arange(len(cells), dtype=float)
        order = cf.BlockWeightedSampling(block_size=4, weights=weights, total_size=100)
        return cf.Loader(cells, order, 8, rank=rank, world_size=world_size)

    for rank in range(world_size):
        whole = list(make(rank))
        is_padded = any(batch.is_padding.any() for batch in whole)
        assert is_padded == (world_size == 3 and rank > 0)
        loader = make(rank)
        iterator = iter(loader)
        next(iterator), next(iterator)
        state = loader.state_dict()
        del iterator
        resumed = make(rank)
        resumed.load_state_dict(state)
        for batch, same in zip(resumed, whole[2:], strict=True):
            np.testing.assert_array_equal(batch.index, same.index)
            np.testing.assert_array_equal(batch.is_padding, same.is_padding)
            assert_equal_to(batch, expected)
    other = cf.open(plain_paths, join="outer", layers=["unspliced"], obsm=["X_pca"])
    weights = np.arange(len(other), dtype=float)
    order = cf.BlockWeightedSampling(block_size=4, weights=weights, total_size=100)
    with pytest.raises(InvalidArgumentError, match=r"another collection|other collection|differ"):
        cf.Loader(other, order, 8, rank=0, world_size=world_size).load_state_dict(state)


def test_scdataset_and_hooks(plain_paths, adatas):
    cells = cf.open(plain_paths, join="inner", layers=["spliced"], obsm=["X_pca"])
    dataset = cf.scDataset(
        cells, cf.BlockShuffling(4), 16, 2, fetch_transform=lambda group: group, seed=1
    )
    expected = expected_of(adatas, "inner")
    for batch in dataset:
        assert_equal_to(batch, expected)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"layers": ["spliced", "layers/spliced"]},
            InvalidArgumentError,
            "layers has 'spliced' twice",
        ),
        ({"layers": ["X"]}, InvalidArgumentError, "layers names 'X', the matrix that layer="),
        ({"obsm": ["X_pca", "obsm/X_pca"]}, InvalidArgumentError, "obsm has 'X_pca' twice"),
        ({"layers": ["obsm/X_pca"]}, InvalidArgumentError, r"pass obsm=\['X_pca'\]"),
        ({"layers": ["splised"]}, NoSuchKeyError, r"0.h5ad.*did you mean 'layers/spliced'"),
        ({"obsm": ["X_pcb"]}, NoSuchKeyError, r"0.h5ad.*did you mean 'obsm/X_pca'"),
        ({"obsm": ["frame"]}, UnsupportedError, r"0.h5ad.*column 'clone' of 'obsm/frame' holds no"),
        ({"obsm": ["cube"]}, UnsupportedError, r"0.h5ad.*'obsm/cube' has 3 dimensions"),
        ({"layer": "obsm/X_pca"}, InvalidArgumentError, r"layer names .*pass obsm=\['X_pca'\]"),
        ({"layers": 3}, TypeError, "layers"),
        ({"obsm": [1]}, TypeError, "obsm"),
    ],
)
def test_wrong_names_are_named_before_anything_is_read(plain_paths, options, error, text):
    with pytest.raises(error, match=f"(?s){text}"):
        cf.open(plain_paths, join="inner", **options)


def test_wrong_names_of_an_anndata_in_memory(adatas):
    for options, error, text in [
        ({"layers": ["splised"]}, NoSuchKeyError, "did you mean 'spliced'"),
        ({"obsm": ["X_pcb"]}, NoSuchKeyError, "did you mean 'X_pca'"),
        ({"obsm": ["frame"]}, UnsupportedError, "column 'clone' of 'obsm/frame' holds no numbers"),
        ({"obsm": ["cube"]}, UnsupportedError, "3 dimensions"),
    ]:
        with pytest.raises(error, match=text):
            cf.open(adatas[0], **options)


def test_a_matrix_that_one_file_lacks_or_has_otherwise(adatas, tmp_path):
    first, second = adatas[0].copy(), adatas[0].copy()
    del second.layers["spliced"]
    second.obsm["X_pca"] = second.obsm["X_pca"][:, :3]
    del second.obsm["sparse"]
    first.write_h5ad(tmp_path / "0.h5ad")
    second.write_h5ad(tmp_path / "1.h5ad")
    paths = [tmp_path / "0.h5ad", tmp_path / "1.h5ad"]
    with pytest.raises(NoSuchKeyError, match=r"1.h5ad.*spliced"):
        cf.open(paths, layers=["spliced"])
    with pytest.raises(NoSuchKeyError, match=r"1.h5ad.*sparse"):
        cf.open(paths, obsm=["sparse"])
    with pytest.raises(InvalidArgumentError, match=r"1.h5ad.*'obsm/X_pca' has 3 columns, and 4 in"):
        cf.open(paths, obsm=["X_pca"])
    cf.convert_to_shards(paths[0], tmp_path / "shards")
    with pytest.raises(NoSuchKeyError, match="shards"):
        cf.open(tmp_path / "shards", layers=["spliced"])


@pytest.mark.parametrize("name", ["layers/unspliced", "obsm/X_pca"])
def test_a_matrix_of_another_shape_than_obs_is_refused(plain_paths, tmp_path, name):
    path = tmp_path / "short.h5ad"
    path.write_bytes(plain_paths[0].read_bytes())
    with h5py.File(path, "r+") as file:
        values, attributes = file[name][:-1], dict(file[name].attrs)
        del file[name]
        file[name] = values
        file[name].attrs.update(attributes)
    folder, key = name.split("/")
    with pytest.raises(CorruptDataError, match=r"short.h5ad"):
        cf.open(path, **{folder: [key]})


def test_a_file_that_changes_is_noticed_in_every_matrix(plain_paths, tmp_path):
    path = tmp_path / "a.h5ad"
    path.write_bytes(plain_paths[0].read_bytes())
    cells = cf.open(path, obsm=["X_pca"])
    before = cells.fingerprint
    copy = pickle.dumps(cells)
    del cells
    with h5py.File(path, "r+") as file:
        file["obsm/X_pca"][3, 2] = 77
    assert cf.open(path, obsm=["X_pca"]).fingerprint != before
    with pytest.raises(CorruptDataError, match="changed since"):
        pickle.loads(copy)


def test_genes_repeat_or_differ_without_a_join(adatas, plain_paths):
    with pytest.raises(InvalidArgumentError, match="genes differ"):
        cf.open(plain_paths, layers=["raw/X"])


def test_one_row_and_a_small_budget(paths, adatas, monkeypatch):
    monkeypatch.setattr("cellfeed.opening.CACHE_BYTES", 0)
    expected = expected_of(adatas, "outer")
    cells = cf.open(paths, join="outer", layers=LAYERS, obsm=OBSM)
    assert_equal_to(cells[7], expected)
    order = cf.BlockShuffling(1, indices=range(0, len(cells), 3))
    loader = cf.Loader(cells, order, 1, memory_budget="32MB", threads=2)
    for batch in loader:
        assert_equal_to(batch, expected)
    assert loader.stats()["peak_bytes"] <= 32_000_000


def test_a_backed_anndata_that_was_changed_in_memory(plain_paths, adatas):
    backed = anndata.read_h5ad(plain_paths[0], backed="r")
    options = {"layers": ["spliced", "by_gene"], "obsm": ["X_pca", "sparse"]}
    assert_equal_to(cf.open(backed, **options)[[3, 1]], expected_of(adatas[:1], "outer"))
    backed.obsm["X_pca"] = backed.obsm["X_pca"] * 2
    with pytest.raises(InvalidArgumentError, match="obsm/X_pca of this backed AnnData"):
        cf.open(backed, **options)
    backed.layers["spliced"] = backed.layers["spliced"] * 2
    with pytest.raises(InvalidArgumentError, match="layers/spliced of this backed AnnData"):
        cf.open(backed, **options)
    backed.file.close()


def test_genes_that_raw_lacks_are_told(plain_paths):
    with pytest.warns(cf.errors.MissingGenesWarning, match="'X': 1 of the 2 genes.*raw_a"):
        cf.open(plain_paths[0], layer="raw/X", layers=["X"], genes=["a", "raw_a"])


def test_what_is_read_is_shown(plain_paths):
    cells = cf.open(plain_paths[0], layers=["spliced"], obsm=["X_pca"])
    assert repr(cells).endswith("obs: kind\n    layers: spliced\n    obsm: X_pca")
    assert "layers: spliced, obsm: X_pca" in repr(cells.read([0]))
    assert "layers" not in repr(cf.open(plain_paths[0]))


FILES = [
    "anndataR_example_all_kinds.h5ad",
    "dentategyrus_100obs_layers.h5ad",
    "derived_placenta_visium_csr.h5ad",
    "pbmc68k_reduced_v08.h5ad",
]


@pytest.mark.parametrize("name", FILES)
def test_files_of_others(shared_data, name, tmp_path):
    path = shared_data / "anndata" / name
    adata = read_anndata(path)
    obsm = [key for key in adata.obsm if adata.obsm[key].ndim == 2]
    layers = [*adata.layers, *(["raw/X"] if adata.raw is not None else [])]
    cells = cf.open(path, layers=layers, obsm=obsm, make_unique=True, cache_dir=tmp_path)
    rows = np.random.default_rng(0).permutation(len(cells))[:300]
    batch = cells.read(rows, dtype="float64")
    wanted = dict(adata.layers)
    if adata.raw is not None:
        wanted["raw/X"] = adata.raw.X
    assert list(batch.layers) == layers and list(batch.obsm) == obsm
    for key in layers:
        np.testing.assert_array_equal(dense(batch.layers[key]), dense(wanted[key])[rows])
    for key in obsm:
        np.testing.assert_array_equal(batch.obsm[key], dense(adata.obsm[key])[rows])
