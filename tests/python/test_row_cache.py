"""Rows of CSC files through the cache: what the CSR file gives, made once, never stale."""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from attack import SHIM
from program import PROGRAM, run
from user_cache import rows_folder

import cellfeed as cf

N_CELLS, N_GENES = 500, 60
# Of rows that are stored in three shards.
N_MANY = 250_000
CACHE = [".cellfeed", "X", "X.json"]


def make_obs(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "cell_type": pd.Categorical(rng.choice(["T", "B", "NK", None], n)),
            "stage": pd.Categorical(
                rng.choice(["late", "early"], n), categories=["late", "early"], ordered=True
            ),
            "n_counts": rng.random(n),
            "batch": pd.Categorical(rng.integers(0, 3, n)),
            "is_doublet": rng.random(n) < 0.1,
        },
        index=[f"c{i}" for i in range(n)],
    )


def write(path, x, compression=None):
    var = pd.DataFrame({"n": np.arange(x.shape[1])}, index=[f"g{i}" for i in range(x.shape[1])])
    a = anndata.AnnData(x, make_obs(x.shape[0]), var)
    a.layers["log"] = x.astype(np.float64).log1p()
    a.raw = a
    a.write_h5ad(path, compression=compression)
    return path


@pytest.fixture(params=[None, "gzip"])
def pair(tmp_path, request):
    """The same AnnData by rows and by columns."""
    x = sp.random(N_CELLS, N_GENES, 0.2, format="csr", dtype=np.float32, random_state=1)
    x.data = np.ceil(x.data * 9)
    return (
        write(tmp_path / "csr.h5ad", x, request.param),
        write(tmp_path / "csc.h5ad", x.tocsc(), request.param),
    )


@pytest.fixture
def csc(tmp_path):
    x = sp.random(N_CELLS, N_GENES, 0.2, format="csc", dtype=np.float32, random_state=2)
    return write(tmp_path / "csc.h5ad", x)


def batches(cells, strategy, **options):
    loader = cf.Loader(
        cells, strategy, 64, obs=["cell_type", "stage", "n_counts", "batch"], seed=5, **options
    )
    return list(loader)


def stamp(folder):
    """Which files lie there, and which they are."""
    files = [p for p in folder.rglob("*") if p.is_file()]
    # Numbers of files that are gone are given out again.
    return {p.relative_to(folder): (p.stat().st_ino, p.stat().st_mtime_ns) for p in files}


STRATEGIES = [
    cf.Streaming(),
    cf.BlockShuffling(block_size=8),
    cf.BlockShuffling(block_size=1),
    cf.BlockWeightedSampling(weights=np.arange(N_CELLS, dtype=float), total_size=300, block_size=4),
    cf.ClassBalancedSampling(label_key="stage", block_size=2),
]


@pytest.mark.parametrize("layer", ["X", "raw/X", "log"])
def test_every_strategy_gives_what_the_csr_file_gives(pair, layer):
    rows, columns = (cf.open(path, layer=layer) for path in pair)
    assert (rows.var_names == columns.var_names).all()
    assert (rows.obs_names == columns.obs_names).all()
    assert rows.obs_keys() == columns.obs_keys()
    pd.testing.assert_frame_equal(rows.var, columns.var)
    for strategy in STRATEGIES:
        for a, b in zip(batches(rows, strategy), batches(columns, strategy), strict=True):
            assert (a.index == b.index).all()
            assert (a.to_scipy() != b.to_scipy()).nnz == 0
            assert a.to_scipy().nnz == b.to_scipy().nnz
            for name in ("cell_type", "stage", "n_counts", "batch"):
                np.testing.assert_array_equal(a.obs[name], b.obs[name])
    for name in ("cell_type", "stage", "batch"):
        assert list(rows.obs_column(name).categories) == list(columns.obs_column(name).categories)


def test_rows_are_written_once_and_said_so_once(csc, caplog):
    with caplog.at_level(logging.WARNING, "cellfeed"):
        first = cf.open(csc)
    (record,) = caplog.records
    folder = rows_folder(csc)
    for word in ("csc.h5ad", "CSC", str(folder / "X"), "non-zeros"):
        assert word in record.getMessage()
    before = stamp(folder)
    caplog.clear()
    second = cf.open(csc)
    assert not caplog.records
    assert first.fingerprint == second.fingerprint
    # The note may be written again once the file has not changed for a while; the rows are not.
    after = stamp(folder)
    assert {p: i for p, i in before.items() if p.parts[0] == "X"} == {
        p: i for p, i in after.items() if p.parts[0] == "X"
    }


def value_of(path, row, column):
    (batch,) = cf.Loader(cf.open(path), cf.Streaming(), N_CELLS)
    return batch.to_scipy()[row, column]


@pytest.mark.parametrize("age", [0, 3600])
def test_a_value_changed_in_place_is_seen_whatever_the_times_say(tmp_path, age):
    # Larger than what is looked at whole for fingerprints.
    x = sp.random(5000, 300, 0.5, format="csc", dtype=np.float32, random_state=2)
    path = write(tmp_path / "csc.h5ad", x)
    then = time.time() - age
    os.utime(path, (then, then))
    status = path.stat()
    column = 200
    entry = x.indptr[column] + 7
    row = x.indices[entry]
    cf.open(path).close()
    with h5py.File(path, "r+") as file:
        file["X/data"][entry] = 77
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    (batch,) = cf.Loader(cf.open(path), cf.Streaming(), 5000)
    assert batch.to_scipy()[row, column] == 77


def test_a_file_that_is_replaced_or_touched_is_told_apart(csc):
    cf.open(csc).close()
    folder = rows_folder(csc)
    rows = stamp(folder / "X")
    os.utime(csc)
    cf.open(csc).close()
    assert stamp(folder / "X") == rows  # the same bytes
    write(csc, sp.csc_matrix(np.full((N_CELLS, N_GENES), 3, np.float32)))
    assert value_of(csc, 4, 5) == 3
    assert stamp(folder / "X") != rows


def test_the_cache_is_where_it_was_asked_for(csc, tmp_path, monkeypatch):
    cf.open(csc, cache_dir=tmp_path / "mine").close()
    monkeypatch.setenv("CELLFEED_CACHE", str(tmp_path / "of_all"))
    cf.open(csc).close()
    other = tmp_path / "other"
    other.mkdir()
    second = write(other / "csc.h5ad", sp.csc_matrix(np.eye(4, dtype=np.float32)))
    assert len(cf.open(second)) == 4
    assert len(cf.open(csc)) == N_CELLS
    assert not rows_folder(csc).exists()
    assert len(list((tmp_path / "mine").iterdir())) == 1
    assert len(list((tmp_path / "of_all").iterdir())) == 2


def test_without_a_cache_such_a_file_is_refused(csc):
    with pytest.raises(cf.errors.UnsupportedError, match=r"CSC.*cache_dir=.*cellfeed shard"):
        cf.open(csc, cache_dir=None)
    message = run("plan", csc, "--no-cache", code=1)
    assert "CSC" in message
    assert not rows_folder(csc).exists()


def test_a_folder_that_cannot_be_made_is_a_named_error(csc, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(cf.errors.CellfeedError, match="cache_dir=") as caught:
        cf.open(csc, cache_dir=tmp_path / "file" / "cache")
    assert str(csc) in str(caught.value)


def test_damaged_and_half_removed_caches_are_made_again(csc):
    expected = value_of(csc, 0, 0)
    folder = rows_folder(csc)
    for damage in ("note", "manifest", "no note", "no manifest"):
        victim = folder / "X.json" if "note" in damage else folder / "X" / "shard_metadata.json"
        victim.unlink()
        if not damage.startswith("no "):
            victim.write_text("{")
        assert value_of(csc, 0, 0) == expected


@pytest.mark.parametrize("change", ["removed", "cut"])
def test_rows_of_which_a_file_is_gone_or_cut_are_made_again(csc, change):
    x = anndata.read_h5ad(csc).X.toarray()
    cf.open(csc).close()
    folder = rows_folder(csc) / "X"
    for name in sorted(row_files(folder)):
        victim = folder / name
        if change == "cut":
            os.truncate(victim, victim.stat().st_size - 1)
        else:
            victim.unlink()
        assert not cf.info(csc)["has_cached_rows"]
        cells = cf.open(csc)
        assert (cells.read(slice(None)).x.toarray() == x).all()
        cells.close()


@pytest.mark.parametrize("name", ["shard_000000.cells", "genes.parquet"])
def test_damage_inside_cached_rows_names_the_folder_to_delete(csc, name):
    x = anndata.read_h5ad(csc).X.toarray()
    cf.open(csc).close()
    folder = rows_folder(csc) / "X"
    with (folder / name).open("r+b") as file:
        file.seek((folder / name).stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(cf.errors.CorruptDataError, match="delete the folder") as caught:
        cf.open(csc).read(slice(None))
    assert str(caught.value).startswith(f"{csc}: ")
    assert f"'{folder}'" in str(caught.value)
    shutil.rmtree(folder)
    assert (cf.open(csc).read(slice(None)).x.toarray() == x).all()


@pytest.mark.parametrize("beside", [False, True])
def test_files_of_others_in_the_place_of_the_rows_are_a_named_error(csc, beside):
    folder = rows_folder(csc) / "X"
    if beside:
        cf.open(csc).close()
        write(csc, sp.csc_matrix(np.full((N_CELLS, N_GENES), 3, np.float32)))
    else:
        folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    before = stamp(folder)
    with pytest.raises(cf.errors.AlreadyExistsError, match=r"move it away.*cache_dir=") as caught:
        cf.open(csc)
    assert str(folder) in str(caught.value)
    assert stamp(folder) == before
    (folder / "mine.txt").unlink()
    if not beside:
        shutil.rmtree(folder.parent)
    cf.open(csc).close()


def test_a_file_in_the_place_of_the_rows_is_a_named_error(csc):
    folder = rows_folder(csc)
    folder.mkdir(parents=True)
    (folder / "X").write_text("mine")
    with pytest.raises(cf.errors.AlreadyExistsError, match="cache_dir="):
        cf.open(csc)
    assert (folder / "X").read_text() == "mine"


def test_copies_in_other_processes_and_states_go_on(csc):
    cells = cf.open(csc)
    copy = pickle.loads(pickle.dumps(cells))
    assert copy.fingerprint == cells.fingerprint
    loader = cf.Loader(cells, cf.BlockShuffling(block_size=4), 50, seed=1)
    iterator = iter(loader)
    next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [b.index for b in iterator]
    again = cf.Loader(copy, cf.BlockShuffling(block_size=4), 50, seed=1)
    again.load_state_dict(state)
    assert all((a == b.index).all() for a, b in zip(rest, again, strict=True))


CHILD = "import sys, cellfeed as cf; b, = cf.Loader(cf.open(sys.argv[1]), cf.Streaming(), 10**6);"
CHILD += "print(float(b.to_scipy().sum()))"


@pytest.mark.slow
def test_processes_that_open_at_once_share_one_cache(tmp_path):
    x = sp.random(20_000, 200, 0.1, format="csc", dtype=np.float32, random_state=2)
    path = write(tmp_path / "csc.h5ad", x)
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    sums = [child.communicate(timeout=300)[0] for child in children]
    assert all(child.returncode == 0 for child in children)
    assert len(set(sums)) == 1
    assert float(sums[0]) == pytest.approx(float(x.sum()), rel=1e-6)
    assert sorted(p.name for p in rows_folder(tmp_path / "csc.h5ad").iterdir()) == CACHE


@pytest.mark.slow
def test_killed_at_any_moment_the_next_one_has_the_rows(tmp_path):
    x = sp.random(20_000, 200, 0.2, format="csc", dtype=np.float32, random_state=2)
    path = write(tmp_path / "csc.h5ad", x)
    moments = random.Random(4)
    for _ in range(6):
        child = subprocess.Popen(
            [PROGRAM, "plan", path, "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        time.sleep(moments.uniform(0.02, 0.6))
        child.send_signal(signal.SIGKILL)
        child.communicate()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, path], capture_output=True, text=True, check=True, timeout=300
    )
    assert float(done.stdout) == pytest.approx(float(x.sum()), rel=1e-6)
    assert sorted(p.name for p in rows_folder(tmp_path / "csc.h5ad").iterdir()) == CACHE


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A file of several shards of rows, that has been as it is for a while."""
    path = tmp_path_factory.mktemp("many") / "csc.h5ad"
    x = sp.random(N_MANY, 12, 0.2, format="csc", dtype=np.float32, random_state=3)
    x.data = np.ceil(x.data * 9)
    anndata.AnnData(x).write_h5ad(path)
    shutil.copy(path, path.with_name("copy.h5ad"))  # one that a test may touch
    time.sleep(2.2)
    return path


def row_files(folder):
    """The bytes of what lies there."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}


def open_killed(path, cache, fault):
    """Writes rows into a cache until a call of the system kills it."""
    environment = {"LD_PRELOAD": str(SHIM), "FAULT": fault, "FAULT_UNDER": str(cache)}
    killed = subprocess.run(
        [PROGRAM, "plan", path, "--cache-dir", cache, "--quiet"],
        env={**os.environ, **environment}, capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    (folder,) = cache.iterdir()
    return folder


def stored_numbers(folder):
    return {p.name: p.stat().st_ino for p in (folder / "X").glob("shard_*.cells")}


@pytest.fixture(scope="module")
def undisturbed(many, tmp_path_factory):
    cache = tmp_path_factory.mktemp("undisturbed")
    cf.open(many, cache_dir=cache).close()
    (folder,) = cache.iterdir()
    return row_files(folder / "X")


def test_rows_of_several_shards_are_those_of_the_matrix(many, tmp_path):
    x = anndata.read_h5ad(many).X.tocsr()
    cells = cf.open(many, cache_dir=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert len(stored_numbers(folder)) == 3
    random_rows = np.random.default_rng(1).integers(0, N_MANY, 5000)
    edges = np.array([249_999, 0, 100_000, 99_999, 200_000, 199_999, 0])
    for rows in (random_rows, edges, np.arange(99_000, 201_000)):
        assert (cells.read(rows).x != x[rows]).nnz == 0
    loader = cf.Loader(cells, cf.BlockShuffling(block_size=3), 4096, seed=2)
    for batch in loader:
        assert (batch.to_scipy() != x[batch.index]).nnz == 0
    with pytest.raises(cf.errors.OutOfRangeError):
        cells.read([N_MANY])


@pytest.mark.parametrize(
    "fault",
    ["rename:7:kill", pytest.param("rename:12:kill", marks=pytest.mark.slow), "rename:13:kill"],
)
def test_shards_that_a_killed_one_finished_are_used_by_the_next(many, undisturbed, tmp_path, fault):
    folder = open_killed(many, tmp_path, fault)
    journal = (folder / "X" / "shard_metadata.partial.jsonl").read_text().splitlines()
    finished = {f"shard_{i:06}.cells" for i in range(len(journal) - 1)}
    assert finished
    before = stored_numbers(folder)
    cells = cf.open(many, cache_dir=tmp_path)
    after = stored_numbers(folder)
    assert {name for name in after if after[name] == before.get(name)} == finished
    assert row_files(folder / "X") == undisturbed
    assert [p.name for p in sorted(folder.iterdir())] == [".cellfeed", "X", "X.json"]
    assert len(cells) == N_MANY


def test_damaged_leftovers_and_those_of_another_file_are_not_used(many, undisturbed, tmp_path):
    folder = open_killed(many, tmp_path, "rename:9:kill")
    victim = folder / "X" / "shard_000000.cells"
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    cf.open(many, cache_dir=tmp_path).close()
    assert row_files(folder / "X") == undisturbed
    # Changed and changed back while nobody looked: shards that were begun may be of what it was.
    shutil.rmtree(folder)
    copy = many.with_name("copy.h5ad")
    folder = open_killed(copy, tmp_path / "rows", "rename:9:kill")
    before = stored_numbers(folder)
    assert before
    os.utime(copy)
    kept = {name: (folder / "X" / name).open("rb") for name in before}  # numbers stay taken
    cf.open(copy, cache_dir=tmp_path / "rows").close()
    assert not set(before.values()) & set(stored_numbers(folder).values())
    for file in kept.values():
        file.close()


def test_a_full_disk_is_a_named_error_and_leaves_nothing(tmp_path):
    x = sp.random(5000, 200, 0.4, format="csc", dtype=np.float32, random_state=2)
    path = write(tmp_path / "csc.h5ad", x)
    limit = (
        "import resource, signal, subprocess, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    )
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000));"
    limit += "sys.exit(subprocess.call(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", limit, PROGRAM, "plan", path, "--quiet"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert "--cache-dir" in done.stderr and "cache_dir=" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert "--resume" not in done.stderr
    assert not rows_folder(tmp_path / "csc.h5ad").exists()


def test_info_says_how_it_is_stored_and_what_would_be_done(csc):
    text = run("info", csc)
    assert "CSC" in text
    assert "not there yet" in text
    cf.open(csc).close()
    found = json.loads(run("info", csc, "--json"))
    assert found["storage"] == "by columns (CSC)"
    assert found["has_cached_rows"] is True
    assert found["row_cache"] == str(rows_folder(csc) / "X")


def test_sharding_keeps_rows_only_where_a_folder_is_named(csc, tmp_path):
    run("shard", csc, "--output-dir", tmp_path / "a", "--quiet")
    assert not rows_folder(csc).exists()
    run("shard", csc, "--output-dir", tmp_path / "b", "--cache-dir", tmp_path / "c", "--quiet")
    assert len(list((tmp_path / "c").iterdir())) == 1
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert names == sorted(p.name for p in (tmp_path / "b").iterdir())
    assert (tmp_path / "a" / names[-2]).read_bytes() == (tmp_path / "b" / names[-2]).read_bytes()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 2)])
def test_empty_matrices_need_no_cache_on_disk(tmp_path, shape):
    var = pd.DataFrame(index=[f"g{i}" for i in range(shape[1])])
    obs = pd.DataFrame(index=[f"c{i}" for i in range(shape[0])])
    x = sp.csc_matrix(shape, dtype=np.float32)
    anndata.AnnData(x, obs, var).write_h5ad(tmp_path / "a.h5ad")
    cells = cf.open(tmp_path / "a.h5ad")
    assert cells.shape == shape
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5ad"]


def write_repeated(path, data, kind):
    """Three cells and genes; the first two entries are of cell 0 and gene 0."""
    cells = [f"c{i}" for i in range(3)]
    empty = sp.csc_matrix((3, 3), dtype=data.dtype) if kind == "csc" else sp.csr_matrix((3, 3))
    anndata.AnnData(
        empty, pd.DataFrame(index=cells), pd.DataFrame(index=["ga", "gb", "gc"])
    ).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        arrays = {"data": data, "indices": np.int32([0, 0, 1]), "indptr": np.int32([0, 2, 3, 3])}
        for name, values in arrays.items():
            del file["X"][name]
            file["X"][name] = values
    return path


@pytest.mark.parametrize(
    ("dtype", "value"), [("int8", 100), ("uint8", 200), ("int16", 2**15 - 1), ("int32", 2**31 - 1)]
)
def test_sums_that_the_stored_type_does_not_hold_are_what_csr_gives(tmp_path, dtype, value):
    data = np.array([value, value, 1], dtype)
    by_columns = write_repeated(tmp_path / "csc.h5ad", data, "csc")
    cells = cf.open(by_columns)
    x = cells.read(slice(None), dtype="int64").x
    assert x[0, 0] == 2 * value
    by_rows = cf.open(write_repeated(tmp_path / "csr.h5ad", data, "csr"))
    assert x[0, 0] == by_rows.read([0], dtype="int64").x[0, 0]
    cf.open(by_columns).close()
    folder = rows_folder(by_columns)
    before = stamp(folder / "X")
    cf.open(by_columns).close()
    assert stamp(folder / "X") == before


def test_values_that_no_rows_hold_name_row_and_gene_and_what_helps(tmp_path):
    path = write_repeated(tmp_path / "csc.h5ad", np.array([2**63, 0, 1], "uint64"), "csc")
    with pytest.raises(cf.errors.PrecisionError, match=r"row 0 of X, gene 'ga'.*float64") as caught:
        cf.open(path)
    assert "dtype=" not in str(caught.value)
    assert not rows_folder(path).exists()
