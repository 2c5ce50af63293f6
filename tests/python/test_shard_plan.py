"""Shards that several processes write: the bytes of one process, whatever goes wrong between."""

import concurrent.futures
import functools
import multiprocessing
import os
import pathlib
import pickle
import shutil

import anndata
import numpy as np
import pytest
import scipy.sparse
from small_atlas import make_anndata, write_atlas

import cellfeed as cf
from cellfeed.errors import (
    AlreadyExistsError,
    CancelledError,
    ClusterError,
    CorruptDataError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
    OutOfRangeError,
    UnsupportedError,
)

SHARDINGS = {
    "plain": {},
    "mean": {"gene_order": "mean"},
    "shuffle": {"shuffle": True, "seed": 7},
    "dense": {"layout": "dense"},
    "layers": {"gene_order": "mean"},
    "vocabulary": {},
}
# How the files are opened.
OPENED = {
    "layers": {"layers": ["counts"]},
    "vocabulary": {"genes": ["gene3", "gene1", "nothing"], "missing_genes": "zero"},
}
PREPROCESSINGS = {
    "plain": {},
    "genes": {"n_top_genes": 5, "min_genes": 24, "min_cells": 20, "keep_counts": True},
    "counts": {"n_top_genes": 5, "hvg_flavor": "seurat_v3", "normalize": False,
               "log_transform": False, "batch_key": "donor"},
}  # fmt: skip


def files_of(folder) -> dict[str, bytes]:
    """All of them, hidden ones too: nothing else is left behind."""
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.fixture
def atlas(tmp_path):
    write_atlas(tmp_path, 2, n_cells=150, n_genes=60)
    return str(tmp_path / "atlas_*.h5ad")


def write_all(plan, executor):
    return list(executor.map(functools.partial(cf.cluster.write_shards, plan), plan.parts(2)))


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        yield executor


@pytest.mark.parametrize("name", SHARDINGS)
def test_processes_write_the_bytes_of_one(atlas, tmp_path, processes, name):
    options = SHARDINGS[name]
    if name in OPENED:
        atlas = cf.open(atlas, **OPENED[name])
    one = cf.convert_to_shards(atlas, tmp_path / "one", shard_size=40, **options)
    with cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=40, **options) as plan:
        many = cf.cluster.finish_shards(plan, write_all(plan, processes))
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
    assert (many.n_cells, many.n_shards, many.nnz) == (one.n_cells, one.n_shards, one.nnz)
    assert many.path == str(tmp_path / "many")
    assert cf.data.sharding.validate_shard_dir(many.path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* holds .* too, which:UserWarning")
@pytest.mark.parametrize("options", PREPROCESSINGS.values(), ids=PREPROCESSINGS)
def test_processes_preprocess_to_the_bytes_of_one(atlas, tmp_path, processes, options):
    one = cf.preprocess(atlas, tmp_path / "one", shard_size=40, **options)
    with cf.cluster.plan_preprocess(atlas, tmp_path / "many", shard_size=40, **options) as plan:
        many = cf.cluster.finish_shards(plan, write_all(plan, processes))
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
    for name in ("n_cells", "n_genes", "n_cells_before", "n_genes_before", "nnz", "processing"):
        assert getattr(many, name) == getattr(one, name)


def test_threads_write_what_the_files_hold(atlas, tmp_path):
    plan = cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=40)
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        cf.cluster.finish_shards(plan, write_all(plan, executor))
    there = anndata.concat(
        [anndata.read_h5ad(tmp_path / f"atlas_{number}.h5ad") for number in range(2)]
    )
    cells = cf.open(tmp_path / "many", obs=["cell_type", "depth"])
    batch = cells.read(range(len(cells)))
    found = scipy.sparse.csr_matrix((batch.data, batch.indices, batch.indptr), there.shape)
    assert (found != there.X).nnz == 0
    assert np.array_equal(batch.obs["depth"], there.obs["depth"])


def test_chosen_cells_are_opened_again_by_each_process(atlas, tmp_path, processes):
    cells = cf.open(atlas).filter("donor == 'd1'")
    cf.convert_to_shards(cells, tmp_path / "one", shard_size=40)
    with cf.cluster.plan_shards(cells, tmp_path / "many", shard_size=40) as plan:
        cf.cluster.finish_shards(plan, write_all(plan, processes))
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


def test_parts_are_single_shards_and_of_a_shuffle_one_a_worker(atlas, tmp_path):
    with cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=40) as plan:
        assert plan.parts(2) == [[shard] for shard in range(8)]
        assert [plan.cells_of(shard) for shard in (0, 7)] == [40, 20]
    with cf.cluster.plan_shards(atlas, tmp_path / "other", shard_size=40, shuffle=True) as plan:
        assert plan.parts(3) == [[0, 1], [2, 3, 4], [5, 6, 7]]
        assert len(plan.parts(100)) == 8
        with pytest.raises(InvalidArgumentError, match="workers"):
            plan.parts(0)


def test_a_shard_may_be_written_and_noted_again(atlas, tmp_path):
    cf.convert_to_shards(atlas, tmp_path / "one", shard_size=100)
    with cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=100) as plan:
        written = [cf.cluster.write_shards(plan, part) for part in plan.parts(1)]
        written += [cf.cluster.write_shards(plan, 1), cf.cluster.write_shards(plan, [2, 0])]
        cf.cluster.finish_shards(plan, written)
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


def test_what_was_noted_outlives_the_process(atlas, tmp_path):
    cf.convert_to_shards(atlas, tmp_path / "one", shard_size=40)

    def three_and_a_failure(plan):
        for shard in (5, 0, 3):
            yield cf.cluster.write_shards(plan, shard)
        raise OSError("a machine burned down")

    with cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=40) as plan:
        with pytest.raises(OSError, match="burned down"):
            cf.cluster.finish_shards(plan, three_and_a_failure(plan))
        cf.cluster.write_shards(plan, 6)  # nobody heard of it
        assert plan.missing == [1, 2, 4, 6, 7]
    with pytest.raises(NotFoundError, match=r"unfinished|resume"):
        cf.open(tmp_path / "many")
    with cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=40, resume=True) as plan:
        assert plan.missing == [1, 2, 4, 6, 7]
        result = cf.cluster.finish_shards(plan, [cf.cluster.write_shards(plan, plan.missing)])
    assert result.n_shards_resumed == 3
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
    with cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=40, resume=True) as plan:
        assert plan.missing == []
        assert cf.cluster.finish_shards(plan, []).n_shards_resumed == 8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* holds .* too, which:UserWarning")
def test_one_process_goes_on_where_several_stopped(atlas, tmp_path):
    options = {"shard_size": 40, "n_top_genes": 5}
    cf.preprocess(atlas, tmp_path / "one", **options)
    with cf.cluster.plan_preprocess(atlas, tmp_path / "many", **options) as plan:
        with pytest.raises(InvalidArgumentError, match=r"shard 0 was not written.*1 of 8 shards"):
            cf.cluster.finish_shards(plan, [cf.cluster.write_shards(plan, 4)])
        assert (tmp_path / "many" / "first_pass.cbor").exists()
    cf.preprocess(atlas, tmp_path / "many", resume=True, **options)
    assert not (tmp_path / "many" / "first_pass.cbor").exists()
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


def test_old_shards_stay_until_the_new_ones_are_whole(atlas, tmp_path):
    folder = tmp_path / "many"
    cf.convert_to_shards(atlas, folder, shard_size=300)
    before = cf.open(folder).read([299]).data
    options = {"shard_size": 100, "gene_order": "mean", "overwrite": True}
    with cf.cluster.plan_shards(atlas, folder, **options) as plan:
        written = [cf.cluster.write_shards(plan, part) for part in plan.parts(1)]
        assert np.array_equal(cf.open(folder).read([299]).data, before)
        cf.cluster.finish_shards(plan, written)
    cf.convert_to_shards(atlas, tmp_path / "one", shard_size=300)
    cf.convert_to_shards(atlas, tmp_path / "one", **options)
    assert files_of(folder) == files_of(tmp_path / "one")


def test_a_folder_has_one_plan_at_a_time(atlas, tmp_path):
    with cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=100):
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(AlreadyExistsError, match=f"written by process {os.getpid()}"):
                cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=100, **options)
    with pytest.raises(AlreadyExistsError, match="resume=True"):
        cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=100)


def test_an_input_that_changed_is_named(atlas, tmp_path):
    plan = cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=100)
    elsewhere = pickle.loads(pickle.dumps(plan))
    changed = tmp_path / "atlas_1.h5ad"
    make_anndata(n_cells=150, n_genes=60, seed=9).write_h5ad(changed)
    with pytest.raises(CorruptDataError, match=r"atlas_1\.h5ad: the file was written again"):
        cf.cluster.write_shards(plan, 0)
    with pytest.raises(CorruptDataError, match="the files are not those"):
        cf.cluster.write_shards(elsewhere, 0)
    changed.unlink()
    with pytest.raises(NotFoundError, match=r"atlas_1\.h5ad"):
        cf.cluster.write_shards(elsewhere, 0)
    os.rename(tmp_path / "atlas_0.h5ad", tmp_path / "moved.h5ad")
    with pytest.raises(NotFoundError, match="atlas_"):
        cf.cluster.write_shards(elsewhere, 0)


def test_a_folder_that_is_not_there_or_another_one(atlas, tmp_path):
    plan = cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=100)
    cf.cluster.write_shards(plan, 0)  # opened, and asked anew
    os.rename(tmp_path / "many", tmp_path / "elsewhere")
    with pytest.raises(NotFoundError, match="does not see the folder"):
        cf.cluster.write_shards(pickle.loads(pickle.dumps(plan)), 1, threads=2)
    (tmp_path / "many").mkdir()
    with pytest.raises(CancelledError, match=r"under way there, or the folder is another"):
        cf.cluster.write_shards(plan, 1, threads=2)
    with pytest.raises(NotFoundError):
        cf.cluster.write_shards(plan, 1)
    assert not list((tmp_path / "many").iterdir())


@pytest.mark.parametrize("is_removed", [False, True])
def test_the_same_call_is_made_again_in_one_process(atlas, tmp_path, is_removed):
    target = tmp_path / "shards"
    for _ in range(2):
        if is_removed:
            shutil.rmtree(target, ignore_errors=True)
            shutil.rmtree(tmp_path / "one", ignore_errors=True)
        plan = cf.cluster.plan_shards(atlas, target, shard_size=100, overwrite=True)
        written = [cf.cluster.write_shards(plan, part) for part in plan.parts(2)]
        assert cf.cluster.finish_shards(plan, written).n_shards == plan.n_shards
        cf.convert_to_shards(atlas, tmp_path / "one", shard_size=100, overwrite=True)
        assert files_of(target) == files_of(tmp_path / "one")


def test_a_plan_that_was_given_up_writes_no_more(atlas, tmp_path):
    late = cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=100)
    cf.cluster.write_shards(late, 0)
    late.close()
    with cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=50, overwrite=True) as plan:
        for threads in (1, 2):  # open already, and opened now
            with pytest.raises(CancelledError, match="no longer under way"):
                cf.cluster.write_shards(late, 1, threads=threads)
        cf.cluster.finish_shards(
            plan, [cf.cluster.write_shards(plan, part) for part in plan.parts(1)]
        )
    with pytest.raises(CancelledError, match="no longer under way"):
        cf.cluster.write_shards(plan, 1)
    cf.convert_to_shards(atlas, tmp_path / "one", shard_size=50)
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


def test_a_damaged_first_pass_is_refused(atlas, tmp_path):
    with cf.cluster.plan_preprocess(
        atlas, tmp_path / "many", shard_size=100, n_top_genes=5
    ) as plan:
        path = tmp_path / "many" / "first_pass.cbor"
        whole = path.read_bytes()
        for bad in (b"", whole[:7], whole[:-1], whole[:20] + b"\0" + whole[21:]):
            path.write_bytes(bad)
            with pytest.raises(CorruptDataError, match=r"first_pass\.cbor"):
                cf.cluster.write_shards(plan, 0)
        path.unlink()
        with pytest.raises(NotFoundError, match=r"first_pass\.cbor"):
            cf.cluster.write_shards(plan, 0)


def test_another_version_is_refused(atlas, tmp_path):
    plan = cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=100)
    plan._version = "0.0.1"
    with pytest.raises(ClusterError, match=rf"has cellfeed {cf.__version__}.* planned by 0\.0\.1"):
        cf.cluster.write_shards(pickle.loads(pickle.dumps(plan)), 0)


def test_arguments_that_cannot_work_are_named(atlas, tmp_path):
    with cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=100) as plan:
        copy = pickle.loads(pickle.dumps(plan))
        with pytest.raises(InvalidArgumentError, match="a copy in another process"):
            cf.cluster.finish_shards(copy, [])
        with pytest.raises((InvalidArgumentError, OutOfRangeError), match="each of shards"):
            cf.cluster.write_shards(plan, 3)
        with pytest.raises(InvalidArgumentError, match="asked for twice"):
            cf.cluster.write_shards(plan, [1, 1])
        with pytest.raises(InvalidTypeError, match="what write_shards gives"):
            cf.cluster.finish_shards(plan, [[0]])
        written = cf.cluster.write_shards(plan, 0)
    with pytest.raises(InvalidArgumentError, match="closed"):
        cf.cluster.finish_shards(plan, [])
    other = cf.cluster.plan_shards(atlas, tmp_path / "other", shard_size=70)
    with pytest.raises(InvalidArgumentError, match="cells 0 to 100 is not one"):
        cf.cluster.finish_shards(other, [written])
    with pytest.raises(InvalidTypeError, match=r"plan_shards.*shard_sizes"):
        cf.cluster.plan_shards(atlas, tmp_path / "other", shard_sizes=100)
    with pytest.raises(InvalidTypeError, match=r"plan_preprocess.*n_genes"):
        cf.cluster.plan_preprocess(atlas, tmp_path / "other", n_genes=100)
    with pytest.raises(InvalidArgumentError, match=r"choose a folder instead of .*out\.h5ad"):
        cf.cluster.plan_preprocess(atlas, tmp_path / "out.h5ad")
    with pytest.raises(InvalidArgumentError, match=r"memory of this process"):
        cf.cluster.plan_shards(make_anndata(), tmp_path / "other")


def test_rows_that_each_process_would_have_to_make_are_refused(tmp_path, processes):
    adata = make_anndata(n_cells=100)
    adata.X = adata.X.tocsc()
    adata.write_h5ad(tmp_path / "columns.h5ad")
    for plan in (cf.cluster.plan_shards, cf.cluster.plan_preprocess):
        with pytest.raises(UnsupportedError, match=r"columns\.h5ad.*stored by columns.*cache_dir"):
            plan(tmp_path / "columns.h5ad", tmp_path / "many", shard_size=30)
    cf.convert_to_shards(tmp_path / "columns.h5ad", tmp_path / "one", shard_size=30)
    cells = cf.open(tmp_path / "columns.h5ad", cache_dir=tmp_path / "rows")
    with cf.cluster.plan_shards(cells, tmp_path / "many", shard_size=30) as plan:
        cf.cluster.finish_shards(plan, write_all(plan, processes))
    cf.convert_to_shards(cells, tmp_path / "other", shard_size=30)
    assert files_of(tmp_path / "many") == files_of(tmp_path / "other")
    shutil.rmtree(tmp_path / "rows")


def test_relative_paths_become_absolute(atlas, tmp_path, monkeypatch):
    cf.convert_to_shards(atlas, tmp_path / "one", shard_size=100)
    monkeypatch.chdir(tmp_path)
    with cf.cluster.plan_shards("atlas_*.h5ad", "many", shard_size=100) as plan:
        monkeypatch.chdir("/")
        cf.cluster.finish_shards(plan, [cf.cluster.write_shards(plan, plan.missing)])
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
    monkeypatch.chdir(tmp_path)
    cells = cf.open("atlas_*.h5ad").filter("donor == 'd1'")
    plan = pickle.dumps(cf.cluster.plan_shards(cells, "chosen", shard_size=40))
    monkeypatch.chdir("/")
    assert len(cf.cluster.write_shards(pickle.loads(plan), 0)) == 1


def test_an_anndata_in_backed_mode_is_its_file(tmp_path):
    make_anndata(n_cells=100).write_h5ad(tmp_path / "a.h5ad")
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "one", shard_size=60)
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    with cf.cluster.plan_shards(backed, tmp_path / "many", shard_size=60) as plan:
        cf.cluster.finish_shards(plan, [cf.cluster.write_shards(plan, plan.missing)])
    backed.file.close()
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
