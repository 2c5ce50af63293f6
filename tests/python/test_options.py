"""Arguments are checked once, into one object that is passed on, shown and pickled."""

import copy
import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from small_atlas import write_atlas

import cellfeed as cf
from cellfeed._cells.open_options import OpenOptions
from cellfeed._loader_options import LoaderOptions

# Of a loader, and no arguments: found out while it is made.
FOUND_OUT = {"is_tuned", "matrix_dtypes"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_atlas(tmp_path_factory.mktemp("options"))[0]


def test_every_argument_of_a_loader_is_among_its_options(path):
    arguments = set(inspect.signature(cf.Loader.__init__).parameters)
    arguments -= {"self", "cells", "strategy", "shuffle", "collate_fn", "unknown"}
    assert arguments == {f.name for f in dataclasses.fields(LoaderOptions)} - FOUND_OUT
    assert cf.Loader(cf.open(path), cf.Streaming())._options == LoaderOptions()


def test_a_loader_shows_what_it_was_given(path):
    cells = cf.open(path)
    loader = cf.Loader(cells, cf.Streaming(), 16, output="dense", seed=np.int64(3), threads=2)
    shown = "batch_size=16, seed=3, output='dense', threads=2) over"
    assert repr(loader).startswith(f"Loader(Streaming(shuffle=False), {shown}")
    alone = cf.Loader(cells, cf.Streaming(), 16, rank=1, world_size=2)
    assert "batch_size=16, rank 1 of 2) over" in repr(alone)


def test_options_do_not_change_and_go_along_with_a_copy(path):
    loader = cf.Loader(
        cf.open(path), cf.BlockShuffling(4), 16, transforms=[cf.Log1p()], dtype=np.float64,
        memory_budget="64MB", fetch_factor=2, seed=None,
    )  # fmt: skip
    with pytest.raises(dataclasses.FrozenInstanceError):
        loader._options.batch_size = 8
    again = pickle.loads(pickle.dumps(loader))
    assert repr(again._options) == repr(loader._options)
    assert again._options is again._reader.options is again._schedule.options
    assert (again._options.dtype, again._options.memory_budget) == ("float64", 64 * 10**6)
    for one, other in zip(loader, again, strict=True):
        assert (one.x != other.x).nnz == 0 and (one.index == other.index).all()


def test_a_shallow_copy_is_a_loader_of_its_own(path):
    weights = np.ones(len(cf.open(path)))
    loader = cf.Loader(cf.open(path), cf.BlockWeightedSampling(2, weights=weights), 16, seed=3)
    first = [batch.index for batch in loader]
    other = copy.copy(loader)
    assert other.cells is loader.cells
    running = iter(loader)
    begun = [next(running).index]
    with copy.copy(loader) as closed:
        next(iter(closed))
    # Its epochs go on where those of the loader stood, and nobody's are counted twice.
    for mine, its in zip([*begun, *(batch.index for batch in running)], other, strict=True):
        assert (mine == its.index).all()
    assert any((a != b).any() for a, b in zip(first, begun, strict=False))


def test_other_data_sets_are_copied_with_their_schedule(tmp_path):
    ds = cf.scDataset(np.arange(100), cf.BlockShuffling(4), 16, seed=1)
    for one, other in zip(
        copy.copy(ds), cf.scDataset(np.arange(100), cf.BlockShuffling(4), 16, seed=1), strict=True
    ):
        assert (one == other).all()
    (tmp_path / "a.csv").write_text("a\n" + "".join(f"{i}\n" for i in range(50)))
    cf.series.build_series(tmp_path / "a.csv", tmp_path / "s")
    windows = cf.series.SeriesDataset(tmp_path / "s", window=4, horizon=1)
    loader = cf.series.SeriesLoader(windows, cf.BlockShuffling(4), 8, seed=1)
    wanted = [
        batch.index for batch in cf.series.SeriesLoader(windows, cf.BlockShuffling(4), 8, seed=1)
    ]
    for batch, index in zip(copy.copy(loader), wanted, strict=True):
        assert (batch.index == index).all()


def test_names_of_columns_are_of_all_batches_and_so_read_only(path):
    loader = cf.Loader(cf.open(path), cf.Streaming(), 16)
    expected = list(loader.var_names)
    for names in (loader.var_names, next(iter(loader)).var_names):
        with pytest.raises(ValueError, match="read-only"):
            names.sort()
    assert list(next(iter(loader)).to_anndata().var_names) == expected


def test_a_collection_is_opened_again_as_it_was(path):
    cells = cf.open(
        path, obs="cell_type", genes=["gene1", "gene4"], unknown_label="T", verify="never",
        offline=False, make_unique=True,
    )  # fmt: skip
    options = cells._origin.options
    assert options == OpenOptions(
        genes=["gene1", "gene4"], unknown_label="T", verify="never", cache_bytes=2**28,
        offline=False, make_unique=True, obs_columns=["cell_type"],
    )  # fmt: skip
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.layer = "other"
    some = cells.filter([3, 1])
    assert pickle.loads(pickle.dumps(some))._origin.options == options


def test_genes_of_a_server_may_be_asked_for_by_their_other_names(tmp_path):
    import anndata
    from file_server import FileServer

    names = ["A", "B", "C"]
    adata = anndata.AnnData(np.eye(3, dtype=np.float32))
    adata.var_names = names
    adata.var["ids"] = [f"id {name}" for name in names]
    adata.write_h5ad(tmp_path / "a.h5ad")
    with FileServer(tmp_path) as server:
        url = f"{server.url}/a.h5ad"
        given = {"genes": ["id C", "A"], "gene_aliases": "ids"}
        cells = cf.open(url, storage_options={"headers": {"X-Name": "me"}}, **given)
        assert cells.var_names.tolist() == ["C", "A"]
        mapped = cf.MappedCollection(url)
        assert [mapped[i]["X"].tolist() for i in range(3)] == np.eye(3).tolist()
    assert cf.open(adata, **given).var_names.tolist() == ["C", "A"]
