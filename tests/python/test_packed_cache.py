"""The packed cache: batches are those of the file while it fills, once full, and as shards."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from file_server import FileServer, age
from packed_program import kept_rows, run_program
from program import run
from tenx_files import write_cellranger3
from zarr_files import write_store, zip_store

import cellfeed as cf
from cellfeed.data.vocab import GeneVocab

N_CELLS, N_GENES = 3000, 60


def write(path, seed=1, dtype=np.float32, compression="gzip", first_gene=0):
    rng = np.random.default_rng(seed)
    x = sp.random(N_CELLS, N_GENES, 0.2, format="csr", dtype=np.float64, random_state=seed)
    x.data = np.ceil(x.data * 9)
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical(rng.choice(["T", "B", None], N_CELLS)),
            "score": rng.random(N_CELLS),
        },
        index=[f"{path.stem}-{i}" for i in range(N_CELLS)],
    )
    var = pd.DataFrame(index=[f"g{first_gene + i}" for i in range(N_GENES)])
    a = anndata.AnnData(x.astype(dtype), obs, var)
    a.layers["log"] = x.log1p()
    a.obsm["X_pca"] = rng.random((N_CELLS, 3))
    a.write_h5ad(path, compression=compression)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """All files, written together: the cache waits until a file is 2 seconds old."""
    folder = tmp_path_factory.mktemp("packed")
    write(folder / "f32.h5ad")
    write(folder / "i32.h5ad", 2, np.int32)
    write(folder / "f64.h5ad", 3, np.float64, "lzf")
    write(folder / "plain.h5ad", 4, compression=None, first_gene=20)
    for name, seed in (("one", 1), ("another", 9)):
        (folder / name).mkdir()
        write(folder / name / "a.h5ad", seed)
    anndata.AnnData(np.eye(20, dtype=np.float32)).write_h5ad(folder / "dense.h5ad")
    write_cellranger3(folder / "two_kinds.h5", {"Gene Expression": 90, "Antibody Capture": 7})
    for choice in HALVES:
        write_halves(folder / f"{choice}.h5", choice)
    for dtype in ("float32", "uint8"):
        write_repeated(folder / f"repeated_{dtype}.h5ad", dtype)
    write_lists(folder / "lists.parquet")
    write_var(folder / "var.parquet", [0, 1])
    return folder


def open_packed(paths, cache, **options):
    return cf.open(paths, cache="rows", cache_dir=cache, **options)


def contents(batch):
    """All that a batch holds, as numpy."""
    x = batch.to_scipy() if hasattr(batch, "to_scipy") else batch
    parts = {"index": np.asarray(batch.index)}
    if sp.issparse(x):
        parts |= {"data": x.data, "indices": x.indices, "indptr": x.indptr}
    for name in batch.obs:
        parts[name] = np.asarray(batch.obs[name])
    return parts


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
        assert a[name].dtype == b[name].dtype


def epoch(cells, strategy, **options):
    loader = cf.Loader(cells, strategy, 256, obs=["cell_type", "score"], seed=5, **options)
    return [contents(batch) for batch in loader]


STRATEGIES = {
    "in order": cf.Streaming(),
    "blocks": cf.BlockShuffling(block_size=16),
    "random": cf.BlockShuffling(block_size=1),
    "balanced": cf.ClassBalancedSampling(label_key="cell_type", block_size=2),
}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("file", ["f32.h5ad", "i32.h5ad", "f64.h5ad"])
def test_every_strategy_gives_what_the_file_gives(data, tmp_path, file, strategy):
    wanted = epoch(cf.open(data / file), strategy)
    filling = open_packed(data / file, tmp_path)
    for cells in (filling, filling, open_packed(data / file, tmp_path)):
        for a, b in zip(epoch(cells, strategy), wanted, strict=True):
            assert_same(a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("file", ["f32.h5ad", "i32.h5ad", "f64.h5ad"])
def test_rows_are_kept_exactly_whatever_they_are_read_as(data, tmp_path, file, dtype):
    cells = open_packed(data / file, tmp_path)
    epoch(cells, cf.Streaming(), dtype=dtype, casting="same_kind" if "f64" not in file else "round")
    x = anndata.read_h5ad(data / file).X
    for kept in (cells, open_packed(data / file, tmp_path)):
        batch = kept.read(np.arange(N_CELLS), dtype="float64")
        assert (batch.to_scipy() != x).nnz == 0
    stored = cf.open(shards_of(data / file, tmp_path))[:].to_anndata()
    assert stored.X.dtype == x.dtype and (x != stored.X).nnz == 0


def shards_of(path, cache):
    """The shard directory that a full cache becomes."""
    (folder,) = open_packed(path, cache).packed_shards()
    return pathlib.Path(folder)


def test_dense_batches_tokens_layers_and_obsm(data, tmp_path):
    path = data / "f32.h5ad"
    options = {"layers": ["log"], "obsm": ["X_pca"]}
    plain, packed = cf.open(path, **options), open_packed(path, tmp_path, **options)
    for _ in range(2):
        loaders = [
            cf.Loader(cells, cf.BlockShuffling(4), 128, seed=2, output="dense")
            for cells in (plain, packed)
        ]
        for a, b in zip(*loaders, strict=True):
            np.testing.assert_array_equal(a.x, b.x)
            np.testing.assert_array_equal(a.layers["log"], b.layers["log"])
            np.testing.assert_array_equal(a.obsm["X_pca"], b.obsm["X_pca"])
    vocab = GeneVocab.from_genes(list(plain.var_names))
    tokens = [
        cf.Loader(cells, cf.BlockShuffling(4), 128, output="tokens", tokens=cf.RankTokens(vocab))
        for cells in (cf.open(path), open_packed(path, tmp_path))
    ]
    for a, b in zip(*tokens, strict=True):
        np.testing.assert_array_equal(a.input_ids, b.input_ids)
    kept = sorted(path.name.split(".packed")[0] for path in tmp_path.glob("*/*.packed-*"))
    assert kept == ["X", "layers.log", "obsm.X_pca"]


def test_joins_filters_and_genes(data, tmp_path):
    paths = [data / "f32.h5ad", data / "plain.h5ad", data / "i32.h5ad"]
    plain = cf.open(paths, join="outer")
    packed = open_packed(paths, tmp_path, join="outer")

    def views(cells):
        chosen = cells.filter("score > 0.5")
        return [cells, chosen, chosen[:, ["g25", "g3"]], cells[100:7000:7]]

    for _ in range(2):
        for a, b in zip(views(plain), views(packed), strict=True):
            for one, other in zip(
                epoch(a, STRATEGIES["blocks"]), epoch(b, STRATEGIES["blocks"]), strict=True
            ):
                assert_same(one, other)
    assert {path.name[:6] for path in tmp_path.iterdir()} == {"f32.h5", "i32.h5"}


def test_a_full_cache_becomes_shards_that_verify(data, tmp_path):
    path = data / "f32.h5ad"
    cells = open_packed(path, tmp_path / "cache")
    epoch(cells, cf.BlockShuffling(1))
    folder = shards_of(path, tmp_path / "cache")
    shards = cf.open(folder)
    assert not list((tmp_path / "cache").rglob("*.rows")), "kept twice"
    x = anndata.read_h5ad(path)
    batch = shards.read(np.arange(N_CELLS))
    assert (batch.to_scipy() != x.X).nnz == 0
    assert list(shards.obs_names) == list(x.obs_names)
    subprocess.run([pathlib.Path(sys.executable).parent / "cellfeed", "verify", folder],
                   check=True, capture_output=True)  # fmt: skip
    cf.convert_to_shards(path, tmp_path / "converted")
    converted = (tmp_path / "converted" / "shard_000000.cells").read_bytes()
    assert (folder / "shard_000000.cells").read_bytes() == converted
    for a, b in zip(
        epoch(open_packed(path, tmp_path / "cache"), cf.BlockShuffling(4)),
        epoch(cf.open(path), cf.BlockShuffling(4)),
        strict=True,
    ):
        assert_same(a, b)


def damage_shards(folder, how):
    manifest = folder / "shard_metadata.json"
    if how == "flip":
        genes = folder / "genes.parquet"
        genes.write_bytes(genes.read_bytes()[:-9] + b"!" + genes.read_bytes()[-8:])
    elif how in ("manifest", "half"):
        text = manifest.read_bytes()
        manifest.write_bytes(text[: len(text) // 2] if how == "half" else text.replace(b"1", b"2"))
    elif how == "none":
        manifest.unlink()
    elif how == "cells and obs":
        (cells,) = folder.glob("*.cells")
        whole = bytearray(cells.read_bytes())
        whole[5000] ^= 1
        cells.write_bytes(whole)
        damage_shards(folder, "parquet")
    else:
        found = folder.glob("genes.parquet" if how == "genes" else f"shard_*.{how}")
        next(iter(found)).unlink()


DAMAGES = (
    "cells", "arrow", "parquet", "genes", "flip", "manifest", "half", "none", "cells and obs",
)  # fmt: skip


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_shards_are_written_anew(data, tmp_path, how, is_open):
    path = data / "f32.h5ad"
    cells = open_packed(path, tmp_path)
    epoch(cells, cf.Streaming())
    folder = pathlib.Path(cells.packed_shards()[0])
    damage_shards(folder, how)
    if not is_open:
        cells = open_packed(path, tmp_path)
    wanted = epoch(cf.open(path), cf.BlockShuffling(4))
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cf.errors.CacheWarning)
            for batch, right in zip(epoch(cells, cf.BlockShuffling(4)), wanted, strict=True):
                assert_same(batch, right)
        if again := cells.packed_shards():
            break
    assert len(cf.open(again)) == len(cells)
    assert run("verify", again[0]).startswith("every byte")


def test_two_that_find_damaged_shards_write_them_once(data, tmp_path):
    path = data / "f32.h5ad"
    epoch(open_packed(path, tmp_path), cf.Streaming())
    two = [open_packed(path, tmp_path) for _ in range(2)]
    (folder,) = two[0].packed_shards()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for how in ("parquet", "arrow", "genes") * 4:
            damage_shards(pathlib.Path(folder), how)
            found = list(pool.map(lambda cells: cells.packed_shards(), two))
            assert found == [[folder], [folder]]
            assert len(cf.open(folder)) == len(two[0])


def test_a_folder_that_is_removed_has_no_shards(data, tmp_path):
    cells = open_packed(data / "f32.h5ad", tmp_path)
    epoch(cells, cf.Streaming())
    (folder,) = cells.packed_shards()
    shutil.rmtree(pathlib.Path(folder).parent)
    assert cells.packed_shards() == []


def test_the_file_is_not_read_again(data, tmp_path):
    path = data / "f32.h5ad"
    wanted = epoch(cf.open(path), cf.Streaming())
    cells = open_packed(path, tmp_path / "cache")
    epoch(cells, cf.Streaming())
    stats = cf.Loader(cells, cf.Streaming(), 256)
    for _ in stats:
        pass
    again = open_packed(path, tmp_path / "cache")
    loader = cf.Loader(again, cf.Streaming(), 256)
    for _ in loader:
        pass
    size = os.path.getsize(path)
    assert 0 < loader.stats()["bytes_read"] < size
    assert len(wanted) == len(loader)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_data_loader_fill_it_together(data, tmp_path, context):
    torch = pytest.importorskip("torch")
    cells = open_packed(data / "f32.h5ad", tmp_path)
    loader = cf.Loader(cells, cf.BlockShuffling(16), 256, seed=1)
    batches = torch.utils.data.DataLoader(
        loader, batch_size=None, num_workers=2, multiprocessing_context=context
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = np.concatenate([np.asarray(batch.index) for batch in batches])
    assert sorted(rows) == list(range(N_CELLS))
    assert kept_rows(tmp_path) == N_CELLS
    assert len(cells.packed_shards()) == 1, "of rows that only its workers have read"
    for a, b in zip(
        epoch(open_packed(data / "f32.h5ad", tmp_path), cf.BlockShuffling(4)),
        epoch(cf.open(data / "f32.h5ad"), cf.BlockShuffling(4)),
        strict=True,
    ):
        assert_same(a, b)


def test_a_copy_by_pickle_keeps_rows_too(data, tmp_path):
    cells = pickle.loads(pickle.dumps(open_packed(data / "f32.h5ad", tmp_path)))
    epoch(cells, cf.Streaming())
    assert kept_rows(tmp_path) == N_CELLS


@pytest.fixture(scope="module")
def printed(data, tmp_path_factory):
    return run_program(data / "f32.h5ad", tmp_path_factory.mktemp("undisturbed")).stdout.split("\n")


CALLS = ["pwrite", "fsync", "rename", "open"]


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("what", ["ENOSPC", "EIO"])
def test_a_disk_that_fails_ends_keeping_and_nothing_else(data, tmp_path, printed, call, n, what):
    done = run_program(data / "f32.h5ad", tmp_path, f"{call}:{n}:{what}")
    if done.returncode != 0:
        # Opening says so; there are no batches yet.
        assert str(tmp_path) in done.stderr.splitlines()[-1]
        assert done.stdout == ""
        return
    lines = done.stdout.split("\n")
    assert lines[: len(printed) - 2] == printed[:-2]
    said = [line for line in lines[len(printed) - 2 :] if line]
    assert len(said) <= 1 and all(line.startswith("CacheWarning: ") for line in said)
    for a, b in zip(
        epoch(open_packed(data / "f32.h5ad", tmp_path), cf.BlockShuffling(4)),
        epoch(cf.open(data / "f32.h5ad"), cf.BlockShuffling(4)),
        strict=True,
    ):
        assert_same(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("what", ["kill", "died"])
def test_what_a_killed_one_left_is_never_believed(data, tmp_path, call, n, what):
    done = run_program(data / "f32.h5ad", tmp_path, f"{call}:{n}:{what}")
    assert done.returncode == -signal.SIGKILL
    wanted = epoch(cf.open(data / "f32.h5ad"), cf.BlockShuffling(4))
    cells = open_packed(data / "f32.h5ad", tmp_path)
    for _ in range(2):
        for a, b in zip(epoch(cells, cf.BlockShuffling(4)), wanted, strict=True):
            assert_same(a, b)
    shards_of(data / "f32.h5ad", tmp_path)
    left = [path.name for path in tmp_path.rglob("*") if ".tmp-" in path.name]
    assert left == []


def test_full_disks_are_said_once_and_name_the_folder(data, tmp_path, printed):
    done = run_program(data / "f32.h5ad", tmp_path, "pwrite:1:ENOSPC")
    said = done.stdout.split("\n")[len(printed) - 2 :]
    assert said[0].startswith("CacheWarning: ")
    for word in ("f32.h5ad", str(tmp_path), "no longer kept"):
        assert word in said[0]
    assert kept_rows(tmp_path) == 0


@pytest.mark.parametrize(
    "call", [pytest.param("pwrite", marks=pytest.mark.slow), "fsync", "rename"]
)
def test_cells_whose_list_finds_no_room_go(data, tmp_path, printed, call):
    done = run_program(data / "f32.h5ad", tmp_path, f"{call}:1:ENOSPC", under=".rows")
    assert "no longer kept" in done.stdout.split("\n")[len(printed) - 2]
    assert [path.name for path in tmp_path.rglob("rows-*")] == []


def test_damage_is_said_and_batches_are_right(data, tmp_path):
    path = data / "f32.h5ad"
    epoch(open_packed(path, tmp_path), cf.Streaming())
    cells = open_packed(path, tmp_path)
    (segment,) = tmp_path.rglob("rows-*.cells")
    damaged = bytearray(segment.read_bytes())
    damaged[5000] ^= 1
    segment.write_bytes(damaged)
    with pytest.warns(cf.errors.CacheWarning, match="damaged"):
        batches = epoch(cells, cf.BlockShuffling(4))
    for a, b in zip(batches, epoch(cf.open(path), cf.BlockShuffling(4)), strict=True):
        assert_same(a, b)


def test_damage_under_a_run_is_read_from_the_file(data, tmp_path):
    path = data / "f32.h5ad"
    cells = open_packed(path, tmp_path)
    wanted = epoch(cells, cf.BlockShuffling(4))
    del cells
    cells = open_packed(path, tmp_path)  # and holds the file open
    (segment,) = tmp_path.rglob("rows-*.cells")
    size = segment.stat().st_size
    with segment.open("r+b") as file:
        file.seek(size - 9000)  # of the table that says where records are
        file.write(b"\xff" * 4000)
    with pytest.warns(cf.errors.CacheWarning, match="damaged"):
        batches = epoch(cells, cf.BlockShuffling(4))
    for a, b in zip(batches, wanted, strict=True):
        assert_same(a, b)


def test_a_file_that_is_replaced_is_read_anew(data, tmp_path):
    path = data / "one" / "a.h5ad"
    epoch(open_packed(path, tmp_path / "cache"), cf.Streaming())
    # The folder is renamed and not the file, which would count as written just now.
    (data / "one").rename(data / "former")
    (data / "another").rename(data / "one")
    x = anndata.read_h5ad(path).X
    assert (open_packed(path, tmp_path / "cache").read(np.arange(N_CELLS)).x != x).nnz == 0
    assert kept_rows(tmp_path / "cache") in (0, N_CELLS)


def test_files_behind_a_server_are_read_once(data, tmp_path):
    for name in ("f32.h5ad", "plain.h5ad"):
        age(shutil.copy(data / name, tmp_path / name), 2)
    wanted = {
        name: epoch(cf.open(data / name), cf.BlockShuffling(4)) for name in os.listdir(tmp_path)
    }
    with FileServer(tmp_path) as server:
        for name, batches in wanted.items():
            url, cache = f"{server.url}/{name}", tmp_path / "cache"
            for _ in range(2):
                cells = open_packed(url, cache)
                for a, b in zip(epoch(cells, cf.BlockShuffling(4)), batches, strict=True):
                    assert_same(a, b)
            (folder,) = cells.packed_shards()
            loader = cf.Loader(cells, cf.Streaming(), 256)
            assert sum(len(batch.index) for batch in loader) == N_CELLS
            assert loader.stats()["bytes_read"] < sum(
                path.stat().st_size for path in pathlib.Path(folder).iterdir()
            ), "records alone"
            age(write(tmp_path / name, seed=11, first_gene=20 if "plain" in name else 0), 1)
            x = anndata.read_h5ad(tmp_path / name).X
            assert (open_packed(url, cache).read(np.arange(N_CELLS)).x != x).nnz == 0


def test_10x_files_and_what_is_chosen_of_them(data, tmp_path):
    path, cache = data / "two_kinds.h5", tmp_path / "cache"
    for feature_type in ("Gene Expression", "all"):
        x = cf.open(path, feature_type=feature_type).read(np.arange(60)).x
        for _ in range(2):
            cells = open_packed(path, cache, feature_type=feature_type)
            found = cells.read(np.arange(60)).x
            assert (found != x).nnz == 0 and found.shape == x.shape
    assert len(list(cache.glob("*/X.packed-*"))) == 2


COUNTS = np.random.default_rng(0).integers(1, 9, (300, 2)).astype(np.float32)


def write_lists(path):
    """Matrices of one layer whose genes have the same names."""
    lists = {"genes": [[0, 1]] * 300, "other": [[1, 0]] * 300, "counts": COUNTS.tolist(),
             "norm": (COUNTS / 3).tolist()}  # fmt: skip
    pq.write_table(pa.table(lists), path, row_group_size=50)


def write_var(path, ids):
    pd.DataFrame({"gene": ["0", "1"], "token_id": ids}).to_parquet(path)


@pytest.mark.filterwarnings("ignore::cellfeed.errors.LeftOutWarning")
def test_what_was_chosen_of_a_file_has_rows_of_its_own(data, tmp_path):
    """One cache keeps some of the rows, another one keeps all."""
    path, var, random = data / "lists.parquet", data / "var.parquet", np.random.default_rng(0)
    wanted = {
        "counts": COUNTS, "norm": (COUNTS / 3).astype(np.float32), "other": COUNTS[:, ::-1],
        "var": COUNTS, "var again": COUNTS[:, ::-1],
    }  # fmt: skip
    for name in (*wanted, "norm", "other", "counts"):
        options = {"values_column": "norm" if name == "norm" else "counts"}
        if name == "other":
            options["genes_column"] = "other"
        if name.startswith("var"):
            options["var"] = var
        if name == "var again":
            write_var(var, [1, 0])
        for cache, rows in (("some", random.permutation(300)[:100]), ("all", np.arange(300))):
            cells = open_packed(path, tmp_path / cache, **options)
            assert list(cells.var_names) == ["0", "1"]
            np.testing.assert_allclose(cells.read(rows).x.toarray(), wanted[name][rows], rtol=1e-6)
    for values, found in (("counts", COUNTS), ("norm", COUNTS / 3)):
        cells = open_packed(path, tmp_path / "all", values_column=values)
        cells.read(np.arange(300))
        (folder,) = cells.packed_shards()
        np.testing.assert_allclose(cf.open(folder)[:].X.toarray(), found, rtol=1e-6)


HALVES = {"feature_type": ["Gene Expression", "Antibody Capture"], "genome": ["hg38", "mm10"]}


def write_halves(path, choice):
    write_cellranger3(path, {"Gene Expression": 40, "Antibody Capture": 40})
    with h5py.File(path, "r+") as file:
        features = file["matrix/features"]
        features["name"][:] = features["name"][:40].tolist() * 2
        if choice == "genome":
            features["feature_type"][:] = [b"Gene Expression"] * 80
            features["genome"][:] = [b"hg38"] * 40 + [b"mm10"] * 40


@pytest.mark.parametrize("choice", HALVES)
def test_halves_of_a_10x_file_with_the_same_names(data, tmp_path, choice):
    path, found = data / f"{choice}.h5", []
    for half in HALVES[choice] * 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = cf.open(path, **{choice: half}).read(np.arange(60)).x
            cells = open_packed(path, tmp_path / "cache", **{choice: half})
        found.append(cells.read(np.arange(60)).x)
        assert found[-1].shape == (60, 40) and (found[-1] != wanted).nnz == 0
    assert (found[0] != found[1]).nnz > 0


def write_repeated(path, dtype):
    """Each entry twice."""
    anndata.AnnData(sp.csr_matrix(np.eye(6, dtype=dtype) * 200)).write_h5ad(path)
    with h5py.File(path, "a") as file:
        for name, values in {
            "data": np.full(12, 200, dtype), "indices": np.repeat(np.arange(6), 2).astype("i4"),
            "indptr": np.arange(0, 13, 2).astype("i4"),
        }.items():  # fmt: skip
            attrs = dict(file["X"][name].attrs)
            del file["X"][name]
            file["X"].create_dataset(name, data=values, compression="gzip").attrs.update(attrs)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_entries_that_occur_twice_are_kept_summed_or_not_at_all(data, tmp_path, dtype):
    path = data / f"repeated_{dtype}.h5ad"
    for _ in range(2):
        cells = open_packed(path, tmp_path / "cache")
        loader = cf.Loader(cells, cf.Streaming(), 6)
        (batch,) = loader
        np.testing.assert_array_equal(batch.to_scipy().toarray(), np.eye(6) * 400)
    assert len(cells.packed_shards()) == (dtype == "float32"), "400 is no uint8"


def test_a_run_that_ends_at_once_leaves_what_it_read(data, tmp_path):
    code = """if True:
        import sys, cellfeed as cf
        cells = cf.open(sys.argv[1], cache="rows", cache_dir=sys.argv[2])
        cells.read(range(1000))
    """
    subprocess.run([sys.executable, "-c", code, data / "f32.h5ad", tmp_path], check=True)
    assert kept_rows(tmp_path) == 1000
    # Shards are being written when this one ends.
    code = code.replace("1000", "3000") + "    cells.read([0])"
    subprocess.run([sys.executable, "-c", code, data / "f32.h5ad", tmp_path], check=True)
    assert cf.open(shards_of(data / "f32.h5ad", tmp_path)).shape == (N_CELLS, N_GENES)


def test_plain_files_are_read_as_they_are(data, tmp_path):
    for name in ("dense.h5ad", "plain.h5ad"):
        open_packed(data / name, tmp_path / "cache").read([3])
    assert not (tmp_path / "cache").exists()


def write_sparse(path, seed):
    """Counts as a zipped zarr store, a zarr folder or a Parquet table of lists; the counts."""
    x = sp.random(600, 40, 0.3, format="csr", rng=np.random.default_rng(seed))
    x.data = np.random.default_rng(seed).integers(1, 99, x.nnz).astype("float32")
    x = x.astype("float32")
    x.sort_indices()
    if path.suffix == ".parquet":
        ends = x.indptr[1:-1]
        lists = {"gene_ids": np.split(x.indices, ends), "counts": np.split(x.data, ends)}
        pq.write_table(pa.table({k: [v.tolist() for v in of] for k, of in lists.items()}), path)
        return x
    folder = path.with_suffix("") if path.suffix == ".zip" else path
    write_store(anndata.AnnData(x), folder, 2)
    if path.suffix == ".zip":
        zip_store(folder)
        shutil.rmtree(folder)
    return x


def read_all(cells):
    """In an order of blocks, put in that of the file."""
    batches = list(cf.Loader(cells, cf.BlockShuffling(8), 64, seed=1))
    rows = np.concatenate([np.asarray(batch.index) for batch in batches])
    return sp.vstack([batch.to_scipy() for batch in batches]).tocsr()[np.argsort(rows)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.zarr.zip", "a.zarr", "a.parquet"])
def test_stores_of_zarr_and_tables_of_lists_are_kept(tmp_path, name):
    (tmp_path / "new").mkdir()
    for seed in range(2):
        x = write_sparse(tmp_path / "new" / name, seed)
        shutil.rmtree(tmp_path / "a.zarr", ignore_errors=True)
        os.replace(tmp_path / "new" / name, tmp_path / name)
        cells = open_packed(tmp_path / name, tmp_path / "cache")
        for _ in range(2):
            assert (read_all(cells) != x).nnz == 0
        (folder,) = cells.packed_shards()
        assert (x != cf.open(folder)[:].X).nnz == 0
        assert cf.data.validate_shard_dir(folder)


def test_bad_arguments(data, tmp_path):
    path = data / "f32.h5ad"
    with pytest.raises(cf.errors.InvalidArgumentError, match='cache must be "files"'):
        cf.open(path, cache="row")
    with pytest.raises(cf.errors.InvalidArgumentError, match="cache_dir is None"):
        cf.open(path, cache="rows", cache_dir=None)
    (tmp_path / "file").write_text("")
    with pytest.raises(cf.errors.CellfeedError, match=str(tmp_path / "file")):
        open_packed(path, tmp_path / "file")
