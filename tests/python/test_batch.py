"""Batches by name, on devices, as AnnData; loaders and collections that are closed."""

import pickle

import anndata
import numpy as np
import pytest
import scipy.sparse
import torch
from small_atlas import make_anndata, write_atlas

import cellfeed as cf
from cellfeed._batch_source import BatchSource
from cellfeed._torch._tensors import scattered
from cellfeed.errors import InvalidTypeError
from cellfeed.transforms import adata_to_mindex, fetch_transform_adata

N = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch")
    write_atlas(folder, 2)
    cf.convert_to_shards(folder / "atlas_0.h5ad", folder / "shards", shard_size=25)
    return folder


@pytest.fixture(params=["h5ad", "shards", "memory"])
def cells(request, folder):
    source = {
        "h5ad": folder / "atlas_0.h5ad", "shards": folder / "shards", "memory": make_anndata(),
    }[request.param]  # fmt: skip
    return cf.open(source, obs=["cell_type", "depth"])


ROWS = [41, 3, 7, 59]


def test_names_are_expression_and_obs(cells):
    batch = cells.read(ROWS)
    assert batch.keys() == ["X", "cell_type", "depth"]
    whole = make_anndata()
    adata = whole[ROWS]
    np.testing.assert_array_equal(batch["X"].toarray(), adata.X.toarray())
    np.testing.assert_array_equal(batch["cell_type"], whole.obs["cell_type"].cat.codes.iloc[ROWS])
    np.testing.assert_array_equal(batch["depth"], adata.obs["depth"])
    assert len(batch[1:3]) == 2 and len(batch[[0]]) == 1
    with pytest.raises(KeyError, match="did you mean 'depth'"):
        batch["dept"]


def test_labels_and_categories_are_of_label_columns(cells):
    batch = cells.read(ROWS)
    expected = [None if v != v else v for v in make_anndata().obs["cell_type"].iloc[ROWS]]
    assert batch.obs.labels("cell_type").tolist() == expected
    for ask in (batch.obs.labels, batch.obs.categories):
        with pytest.raises(KeyError, match=r"'depth' holds float64.*obs\['depth'\]"):
            ask("depth")


def test_anndata_keeps_names_and_columns(cells):
    adata = make_anndata()[ROWS]
    batch = cells.read(ROWS)
    made = batch.to_anndata()
    assert batch.obs_names.tolist() == make_anndata().obs_names[ROWS].tolist()
    assert made.obs_names.tolist() == make_anndata().obs_names[ROWS].tolist()
    assert made.var["symbol"].tolist() == adata.var["symbol"].tolist()
    np.testing.assert_array_equal(made.X.toarray(), adata.X.toarray())
    assert cells.obs_names.tolist() == make_anndata().obs_names.tolist()


def test_var_columns_follow_the_genes(folder):
    cells = cf.open(folder / "atlas_0.h5ad")
    made = cells.read([1, 2], transforms=[cf.SelectGenes(["gene7", "gene2"])]).to_anndata()
    assert made.var_names.tolist() == ["gene7", "gene2"]
    assert made.var["symbol"].tolist() == ["S7", "S2"]


def test_var_columns_of_joined_files_are_the_first_ones(tmp_path):
    one, two = make_anndata(seed=1)[:, :8].copy(), make_anndata(seed=2)[:, 4:].copy()
    two.var["symbol"] = [f"other {name}" for name in two.var_names]
    one.write_h5ad(tmp_path / "one.h5ad")
    two.write_h5ad(tmp_path / "two.h5ad")
    cells = cf.open([tmp_path / "one.h5ad", tmp_path / "two.h5ad"], join="outer")
    expected = {**two.var["symbol"].to_dict(), **one.var["symbol"].to_dict()}
    assert cells.var["symbol"].to_dict() == expected
    names = cells[[0, 59, 60, 119]].obs_names.tolist()
    assert names == ["cell-1-0", "cell-1-59", "cell-2-0", "cell-2-59"]
    joined = anndata.concat([one, two], join="outer")
    assert cells.obs_names.tolist() == joined.obs_names.tolist()


def test_numbers_of_every_width_are_tensors(tmp_path):
    adata = make_anndata()
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "?"):
        adata.obs[dtype] = np.arange(N).astype(dtype)
    adata.obs["u8"] += np.uint64(2**63)
    adata.write_h5ad(tmp_path / "a.h5ad")
    names = list(adata.obs)[3:]
    moved = cf.open(tmp_path / "a.h5ad", obs=names)[ROWS].to("cpu")
    for name in names:
        np.testing.assert_array_equal(moved[name].numpy(), adata.obs[name].iloc[ROWS])


def test_tensors_on_a_device(cells):
    loader = cf.Loader(cells, cf.BlockShuffling(4), 16, seed=3)
    for batch, moved in zip(
        loader,
        (b.to("cpu") for b in cf.Loader(cells, cf.BlockShuffling(4), 16, seed=3)),
        strict=True,
    ):
        assert moved.device == torch.device("cpu") and moved.keys() == batch.keys()
        assert moved.x.layout is torch.sparse_csr and moved["X"] is moved.x
        np.testing.assert_array_equal(moved.to_torch(dense=True).numpy(), batch.to_numpy())
        np.testing.assert_array_equal(moved["cell_type"].numpy(), batch["cell_type"])
        assert moved.obs.labels("cell_type").tolist() == batch.obs.labels("cell_type").tolist()
        np.testing.assert_array_equal(moved.index.numpy(), batch.index)
        assert not moved.is_padding.any() and len(moved) == len(batch)
    assert moved.to("meta").device == torch.device("meta")
    if not torch.cuda.is_available():
        for ask in (batch.cuda, batch.pin_memory):
            with pytest.raises((RuntimeError, AssertionError)):
                ask()


def test_a_data_loader_pins_through_the_batch(cells, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: asked.append(self) or self)
    pinned = torch.utils.data._utils.pin_memory.pin_memory(cells.read(ROWS))
    assert pinned.shape == (4, 12) and len(asked) == 3 + 2
    np.testing.assert_array_equal(pinned.x.to_dense().numpy(), cells.read(ROWS).to_numpy())
    assert pinned.index.tolist() == ROWS and pinned.is_padding.tolist() == [False] * 4


def test_what_is_brought_when_it_is_asked_for_goes_with_the_rest(cells):
    tensors = cells.read(ROWS).to()
    tensors.index += 100
    tensors.is_padding[2] = True
    moved = tensors.to("cpu")
    assert moved.index.tolist() == [row + 100 for row in ROWS]
    assert moved.is_padding.tolist() == [False, False, True, False]
    there = tensors.to("meta")
    assert {there.index.device.type, there.is_padding.device.type} == {"meta"}
    never_asked = cells.read(ROWS).to("meta")
    assert {never_asked.index.device.type, never_asked.is_padding.device.type} == {"meta"}


def test_collate_fn_makes_what_is_yielded_and_is_timed(cells):
    def make(batch):
        return batch.to_torch(dense=True), batch["cell_type"].copy()

    loader = cf.Loader(cells, cf.BlockShuffling(4), 16, collate_fn=make)
    assert loader.stats()["collate_seconds"] == 0
    plain = cf.Loader(cells, cf.BlockShuffling(4), 16)
    for (x, y), batch in zip(loader, plain, strict=True):
        np.testing.assert_array_equal(x.numpy(), batch.to_numpy())
        np.testing.assert_array_equal(y, batch["cell_type"])
    assert loader.stats()["collate_seconds"] > 0
    assert loader.state_dict() == plain.state_dict()
    with pytest.raises(TypeError, match="collate_fn must be a function, not 3"):
        cf.Loader(cells, cf.Streaming(), 16, collate_fn=3)


def test_a_closed_collection_and_a_closed_loader_say_so(folder):
    with cf.open(folder / "atlas_0.h5ad") as cells:
        with cf.Loader(cells, cf.Streaming(), 16) as loader:
            batches = iter(loader)
            kept = next(batches)
        with pytest.raises(ValueError, match="this loader is closed"):
            next(batches)
        for use in (lambda: next(iter(loader)), loader.stats):
            with pytest.raises(ValueError, match="this loader is closed"):
                use()
        assert repr(loader).startswith("Loader(")
        assert len(cells) == N
        other = cf.Loader(cells, cf.Streaming(), 16)
    for use in (lambda: len(cells), lambda: cells[0], lambda: cells.obs_names, lambda: cells.var):
        with pytest.raises(ValueError, match="this collection is closed"):
            use()
    with pytest.raises(ValueError, match="this collection is closed"):
        cf.Loader(cells, cf.Streaming())
    assert "closed" in repr(cells) and "closed" in repr(loader)
    np.testing.assert_array_equal(kept.to_numpy(), make_anndata().X[:16].toarray())
    assert sum(len(batch) for batch in other) == N


def test_names_of_a_batch_from_elsewhere_are_asked_for_where_the_loader_is(cells):
    batch = cells.read(ROWS)
    state = pickle.dumps(batch)
    BatchSource._alive.pop(batch._source.key)
    copy = pickle.loads(state)
    np.testing.assert_array_equal(copy.to_numpy(), batch.to_numpy())
    with pytest.raises(KeyError, match="where the loader is"):
        copy.to_anndata()


def test_a_batch_knows_its_names(cells):
    batch = cells.read(ROWS)
    moved = batch.to()
    for of in (batch, moved):
        assert "X" in of and "depth" in of and "dept" not in of and 3 not in of
    assert list(dict(batch)) == ["X", "cell_type", "depth"]


def test_a_batch_with_an_obs_column_x_keeps_both():
    adata = make_anndata()
    adata.obs["X"] = np.arange(N)
    batch = cf.open(adata, obs=["X", "depth"]).read(ROWS)
    assert batch.keys() == ["X", "depth"]
    assert batch["X"].shape == (4, 12) and batch.obs["X"].tolist() == ROWS


def test_members_of_a_multi_indexable_are_pinned_and_moved(cells, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: asked.append(self) or self)
    batch = cells.read(ROWS)
    group = cf.MultiIndexable(
        X=batch.to_numpy(), kind=batch["cell_type"], name=batch.obs_names, cells=batch,
        marks=scipy.sparse.csr_matrix(batch.to_numpy()),
    ).with_padding(np.array([0, 0, 1, 1]))  # fmt: skip
    pinned = torch.utils.data._utils.pin_memory.pin_memory(group)
    # X, kind and marks; of the batch x (three parts) and two columns
    assert len(asked) == 3 + 3 + 2
    assert pinned.names == group.names and pinned.is_padding.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(pinned["X"].numpy(), group["X"])
    np.testing.assert_array_equal(pinned["marks"].numpy(), group["X"])
    assert pinned["name"] is group["name"] and type(pinned["cells"]).__name__ == "TensorBatch"
    moved = group.to("meta")
    assert {moved[name].device.type for name in ("X", "kind", "cells", "marks")} == {"meta"}
    assert isinstance(cf.MultiIndexable(X=group["X"]).pin_memory(), cf.MultiIndexable)
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError)):
            group.cuda()


def test_hooks_of_anndata_take_batches(cells):
    adata = make_anndata()
    expected = adata_to_mindex(adata[ROWS], columns=["cell_type", "depth"])
    got = adata_to_mindex(cells.read(ROWS), columns=["cell_type", "depth"])
    np.testing.assert_array_equal(got["X"], expected["X"])
    # Codes of a batch are those of all cells; anndata drops categories that a view does not use.
    assert list(got["cell_type"].categories) == cells.categories("cell_type")
    assert list(got["cell_type"].astype(str)) == list(expected["cell_type"].astype(str))
    np.testing.assert_array_equal(got["depth"], expected["depth"])
    dense = cells.read(ROWS, output="dense")
    np.testing.assert_array_equal(fetch_transform_adata(dense), expected["X"])
    with pytest.raises(KeyError, match="no obs column 'donor'; there are: cell_type, depth"):
        adata_to_mindex(cells.read(ROWS), columns="donor")
    for transform in (adata_to_mindex, fetch_transform_adata):
        with pytest.raises(ValueError, match="columns names 'X'"):
            transform(adata, columns=["X"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("shape", [(5, 7), (0, 4), (3, 0), (64, 300)])
def test_rows_that_are_spread_as_on_a_gpu(dtype, shape):
    dense = torch.randint(0, 3, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = scattered(dense.to_sparse_csr())
    assert found.dtype == dtype
    assert torch.equal(found, dense)


@pytest.mark.parametrize("wrong", [torch.float16, np.float64, float, 5.5, True, None.__class__])
def test_a_batch_goes_to_devices_alone(wrong):
    adata = anndata.AnnData(np.ones((3, 2), "float32"))
    batch = cf.open(adata).read([0, 2])
    with pytest.raises(InvalidTypeError, match="device must be"):
        batch.to(wrong)
    for device in ("cpu", torch.device("cpu"), None):
        assert batch.to(device).index.dtype == torch.int64
