"""Links that somebody planted in folders of ours: what they lead to stays as it is.

Each case makes what an earlier run left, then each folder and each file of that is moved elsewhere
and a link put in its place. Whatever the next run does, it does not change what is elsewhere.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from attack import PROGRAM, SHIM
from file_server import FileServer, age
from tiers import fast

import cellfeed as cf

TEMPORARY = ".tmp-1-0123456789abcdef"


def program(*arguments, is_killed=False):
    """Run it; it is killed while it writes to `here`."""
    fault = {"LD_PRELOAD": str(SHIM), "FAULT_UNDER": str(pathlib.Path("here").absolute())}
    done = subprocess.run(
        [PROGRAM, *arguments],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, **(fault | {"FAULT": "pwrite:4:kill"} if is_killed else {})},
    )  # fmt: skip
    assert not is_killed or done.returncode == -signal.SIGKILL, done
    return done


def write_table(path, first):
    """More rows than are kept in memory."""
    n = 300_000
    table = pd.DataFrame(np.random.default_rng(first).normal(size=(n, 8)), columns=list("abcdefgh"))
    table.assign(t=np.arange(first, first + n)).to_parquet(path, index=False)


def write_atlas(path, layout, seed=1, **options):
    x = sp.random(300, 40, 0.3, layout, np.float32, np.random.default_rng(seed))
    anndata.AnnData(x).write_h5ad(path, **options)


def leave(folder, *names):
    """What killed writers leave."""
    for name in names:
        (folder / name).write_text("12345 a.machine pid:[1]\n")


BUDGET = ["--memory-budget", "32MB", "--threads", "1", "--quiet"]


class SeriesBuild:
    command = ("series", "build", "a.parquet", "--time", "t", "--output-dir", "here", *BUDGET)

    def leave(self):
        write_table("a.parquet", 0)
        program(*self.command, is_killed=True)
        leave(pathlib.Path("here"), ".lock", f"metadata.json{TEMPORARY}")
        assert pathlib.Path("here/.building/rows_000000.bin").exists()

    def run(self):
        return program(*self.command, "--resume")


class SeriesAppend:
    command = ("series", "append", "here", "b.parquet", *BUDGET)

    def leave(self):
        write_table("a.parquet", 0)
        program(*SeriesBuild.command)
        write_table("b.parquet", 300_000)
        program(*self.command, is_killed=True)
        leave(pathlib.Path("here"), ".lock", f"metadata.json{TEMPORARY}")
        assert pathlib.Path("here/.appending/rows_000000.bin").exists()

    def run(self):
        return program(*self.command)


class Shards:
    def __init__(self, *command):
        self.command = command

    def leave(self):
        for seed, name in enumerate("ab"):
            write_atlas(f"{name}.h5ad", "csr", seed)
        program("shard", "a.h5ad", "--output-dir", "here", "--shard-size", "100")
        leave(pathlib.Path("here"), ".lock", f"shard_000007.cells{TEMPORARY}", "shard_000007.cells")
        leave(pathlib.Path("here"), "shard_000000.g3.cells", "shard_metadata.partial.jsonl")

    def run(self):
        return program(*self.command)


class RowCache:
    def leave(self):
        pathlib.Path("here").mkdir()
        write_atlas("here/a.h5ad", "csc")
        program("plan", "here/a.h5ad", "--cache-dir", "here")
        write_atlas("here/a.h5ad", "csc", 2)
        (caches,) = pathlib.Path("here").glob("a.h5ad-*.cellfeed")
        leave(caches, ".X.lock", ".X.begun.json")
        leave(caches / "X", ".lock", f"shard_000000.cells{TEMPORARY}")

    def run(self):
        return program("plan", "here/a.h5ad", "--cache-dir", "here")


class PackedCache:
    def __init__(self, is_changed):
        self.is_changed = is_changed

    def read(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cf.errors.CacheWarning)
            cells = cf.open("old/a.h5ad", cache="rows", cache_dir="here")
            cells.read(slice(None))
            cells.packed_shards()

    def leave(self):
        self.read()
        (folder,) = pathlib.Path("here").glob("*.cellfeed/X.packed-*")
        leave(folder, ".shards.lock", "rows-1-00.cells", "rows-1-00.rows", f"rows-2{TEMPORARY}")
        leave(folder / "shards", ".lock")
        if self.is_changed:
            pathlib.Path("old").rename("former")
            pathlib.Path("former/other").rename("old")
        else:
            (folder / "shards/genes.parquet").unlink()

    def run(self):
        try:
            self.read()
        except cf.errors.CellfeedError:
            return None
        return None


class ClearedCache:
    def leave(self):
        pathlib.Path("here").mkdir()
        write_atlas("a.h5ad", "csc")
        program("plan", "a.h5ad", "--cache-dir", "here")
        cells = cf.open("old/a.h5ad", cache="rows", cache_dir="here")
        cells.read(slice(None))
        cells.packed_shards()

    def run(self):
        return program("cache", "clear", "here")


class ObjectCache:
    """Copies or blocks of an object that was changed at its store."""

    def __init__(self, mode):
        self.mode = mode

    def leave(self):
        pathlib.Path("here").mkdir()
        age(shutil.copy("old/a.h5ad", "old/served.h5ad"))
        self.server = FileServer(pathlib.Path("old").absolute())
        self.read()
        age(shutil.copy("old/other/a.h5ad", "old/served.h5ad"), 2)

    def read(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cf.errors.CacheWarning)
            url = f"{self.server.url}/served.h5ad"
            cf.open(url, cache_dir="here", cache=self.mode).read(slice(None))

    def run(self):
        with contextlib.suppress(cf.errors.CellfeedError):
            self.read()
        return program("cache", "clear", "here")


class Training:
    def leave(self):
        checkpoints = pathlib.Path("here/run/checkpoints")
        checkpoints.mkdir(parents=True)
        for name in ("last.ckpt", "best.ckpt", ".last.ckpt.part"):
            (checkpoints / name).write_text("weights")
        pathlib.Path("here/run/.lock").write_text("12345")

    def run(self):
        from cellfeed.training._run_folder import RunFolder
        from cellfeed.training._whole_file import whole_file

        folder = RunFolder("here", "run")
        try:
            with folder.held("auto", folder.resolve("auto")):
                with whole_file(folder.last) as beside:
                    beside.write_text("other weights")
                folder.drop_best()
        except cf.errors.CellfeedError:
            return None
        return None


CASES = {
    "series build": SeriesBuild(),
    "series append": SeriesAppend(),
    "shards overwritten": Shards("shard", "b.h5ad", "--output-dir", "here", "--overwrite"),
    "shards appended": Shards("append", "b.h5ad", "--to", "here", "--force"),
    "row cache": RowCache(),
    "packed cache of another version": PackedCache(True),
    "packed cache that is damaged": PackedCache(False),
    "cache clear": ClearedCache(),
    "copies of objects": ObjectCache("files"),
    "blocks of objects": ObjectCache("blocks"),
    "training": Training(),
}


@pytest.fixture(scope="module")
def old_files(tmp_path_factory):
    """A folder for each case, made together: the packed cache waits for what is not yet old."""
    folder = tmp_path_factory.mktemp("old")
    for name in CASES:
        (folder / name / "other").mkdir(parents=True)
        write_atlas(folder / name / "a.h5ad", "csr", 1, compression="gzip")
        write_atlas(folder / name / "other" / "a.h5ad", "csr", 2, compression="gzip")
    return folder


def content(path):
    if path.is_file():
        return path.read_bytes()
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", fast(CASES.keys() - {"series append"}, CASES))
def test_what_a_planted_link_leads_to_stays_as_it_is(name, old_files, tmp_path, monkeypatch):
    case = CASES[name]
    (old_files / name).rename(tmp_path / "old")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user_cache"))
    case.leave()
    here, left, elsewhere = pathlib.Path("here"), pathlib.Path("left"), tmp_path / "elsewhere"
    here.rename(left)
    changed = []
    for part in sorted(path.relative_to(left) for path in left.rglob("*")):
        shutil.copytree(left, here)
        (here / part).rename(elsewhere)
        (here / part).symlink_to(elsewhere)
        before = content(elsewhere)
        done = case.run()
        assert done is None or done.returncode == 0 or "cellfeed: error: " in done.stderr, done
        if content(elsewhere) != before:
            changed.append(str(part))
        shutil.rmtree(here)
        shutil.rmtree(elsewhere) if elsewhere.is_dir() else elsewhere.unlink()
    assert changed == []
    left.rename(here)
    done = case.run()
    assert done is None or done.returncode == 0, done
    if hasattr(case, "server"):
        case.server.close()


def test_folders_without_a_mark_and_files_of_other_names_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table("a.parquet", 0)
    assert program(*SeriesBuild.command).returncode == 0
    appending = pathlib.Path("here/.appending")
    appending.mkdir()
    (appending / "rows_000000.bin").write_text("mine")
    write_table("b.parquet", 300_000)
    done = program(*SeriesAppend.command)
    assert done.returncode == 1 and ".appending: is a link, a file, or a folder" in done.stderr
    assert content(appending) == {"rows_000000.bin": b"mine"}
    (appending / "rows_000000.bin").rename(appending / ".mine")
    (appending / "thesis").write_text("mine")
    (appending / ".cellfeed").write_text("")
    assert program(*SeriesAppend.command).returncode == 0
    assert content(appending) == {".mine": b"mine", "thesis": b"mine", ".cellfeed": b""}


def test_links_that_the_caller_names_are_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atlas("a.h5ad", "csr")
    write_atlas("csc.h5ad", "csc")
    for name in ("out", "cache"):
        pathlib.Path(f"real_{name}").mkdir()
        pathlib.Path(name).symlink_to(f"real_{name}")
    for more in ([], ["--overwrite"]):
        assert program("shard", "a.h5ad", "--output-dir", "out", *more).returncode == 0
    assert program("plan", "csc.h5ad", "--cache-dir", "cache").returncode == 0
    assert pathlib.Path("real_out/shard_metadata.json").exists()
    assert list(pathlib.Path("real_cache").glob("csc.h5ad-*.cellfeed/X/shard_metadata.json"))


ROOT = pathlib.Path(__file__).parents[2]
REMOVES = re.compile(
    r"::(?:unlink(?:at)?|rmdir|f?truncate|rename(?:at2?)?|linkat|flock)\(|O_TRUNC"
    r"|(?:fs|filesystem)::(?:remove|rename|resize_file)"
    r"|\.(?:unlink|rmdir|touch)\(|os\.(?:remove|rename|replace|f?truncate)\b|shutil\.(?:rmtree|move)|fcntl\.flock"
)
# The cases above go through all of these, but for what has no name that others know.
KNOWN = {
    "src/cellfeed/cloud/staged_file.cc",  # a file without a name
    "src/cellfeed/io/local_directory.cc",  # names in a folder that is held open
    "src/cellfeed/io/local_file_system.cc",  # for folders of buckets, and tests
    "src/cellfeed/io/local_lock.cc",
    "src/cellfeed/io/own_folder.cc",
    "src/cellfeed/io/shared_file.cc",  # blocks of objects, opened with O_NOFOLLOW
    "src/cellfeed/io/temp_file.cc",
    "src/cellfeed/series/placed_file.cc",
    "python/cellfeed/_iteration/epochs.py",  # a file in memory
    "python/cellfeed/training/_run_folder.py",
    "python/cellfeed/training/_whole_file.py",
}


def test_every_place_that_removes_cuts_off_renames_or_locks_is_known():
    files = [*ROOT.glob("src/cellfeed/**/*.cc"), *ROOT.glob("python/cellfeed/**/*.py")]
    found = {
        str(path.relative_to(ROOT))
        for path in files
        if not path.name.endswith("_test.cc") and REMOVES.search(path.read_text())
    }
    assert found == KNOWN
