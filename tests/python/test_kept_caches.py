"""`cellfeed cache`: what folders of caches hold is listed, verified, and makes room for more."""

import fcntl
import json
import os
import pathlib
import pty
import subprocess
import sys
import threading
import time

import anndata
import file_server
import numpy as np
import pytest
import scipy.sparse as sp
from file_server import FileServer, age
from held_program import wait_until
from program import completed as run
from user_cache import rows_folder

import cellfeed as cf

N_CELLS, N_GENES = 400, 50


def write(path: pathlib.Path, seed: int = 1, layout: str = "csr", compression: str | None = None):
    x = sp.random(N_CELLS, N_GENES, 0.3, format=layout, dtype=np.float32, random_state=seed)
    anndata.AnnData(x).write_h5ad(path, compression=compression)
    age(path)
    return path


def ask(*arguments, code=0):
    return json.loads(run("cache", *arguments, "--json", code=code).stdout)


@pytest.fixture
def served(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    for i, name in enumerate("abc"):
        write(folder / f"{name}.h5ad", i)
    with FileServer(folder) as server:
        yield folder, server.url
        cf.set_storage_options(server.url, {})


def x_of(cells):
    return np.concatenate(
        [
            np.asarray(batch.to_scipy().todense())
            for batch in cf.Loader(cells, cf.Streaming(), batch_size=128)
        ]
    )


def oracle(path):
    return np.asarray(anndata.read_h5ad(path).X.todense())


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Files that are written together: the cache waits until a file is 2 seconds old."""
    folder = tmp_path_factory.mktemp("local")
    write(folder / "gz.h5ad", 7, compression="gzip")
    write(folder / "csc.h5ad", 8, "csc")
    return folder


def fill(local, url, cache):
    """A copy, packed rows that became shards, and sorted rows."""
    cf.set_storage_options(url, {"cache_dir": cache})
    copied = cf.open(f"{url}/a.h5ad")
    packed = cf.open(local / "gz.h5ad", cache="rows", cache_dir=cache)
    x_of(packed)
    shards = packed.packed_shards()
    rows = cf.open(local / "csc.h5ad", cache_dir=cache)
    x_of(rows)
    return copied, shards


def test_what_is_kept_is_listed_verified_and_removed(tmp_path, served, local):
    folder, url = served
    cache = tmp_path / "cache"
    copied, shards = fill(local, url, cache)
    (cache / "notes.txt").write_text("mine")
    (cache / "0123456789abcdef.h5ad").write_text("mine too")

    listed = ask("list", cache)
    assert sorted(entry["kind"] for entry in listed["entries"]) == ["copy", "packed", "rows"]
    whats = {entry["kind"]: entry["what"] for entry in listed["entries"]}
    assert whats == {"copy": f"{url}/a.h5ad", "packed": "X of gz.h5ad", "rows": "X of csc.h5ad"}
    on_disk = sum(
        file.stat().st_size
        for file in cache.rglob("*")
        if file.is_file() and not file.name.startswith(".") and "mine" not in file.name
    )
    assert listed["bytes"] == sum(entry["bytes"] for entry in listed["entries"])
    assert 0 <= on_disk - listed["bytes"] < 4096  # notes, and files of others
    text = run("cache", "list", cache).stdout
    assert "3 entries" in text and "X of gz.h5ad" in text

    assert ask("verify", cache)["ok"]
    dry = ask("clear", cache, "--dry-run")
    assert not dry["removed"] and len(dry["entries"]) == 3
    assert ask("list", cache) == listed

    assert ask("clear", cache)["left_bytes"] == 0
    assert ask("list", cache)["entries"] == []
    assert {file.name for file in cache.iterdir() if file.is_file() and file.name[0] != "."} == {
        "notes.txt", "0123456789abcdef.h5ad",
    }  # fmt: skip
    assert not pathlib.Path(shards[0]).exists()
    # Who has a copy open reads on, and the next one makes it anew.
    np.testing.assert_array_equal(x_of(copied), oracle(folder / "a.h5ad"))
    cf.open(f"{url}/a.h5ad")
    assert [entry["kind"] for entry in ask("list", cache)["entries"]] == ["copy"]


def flip(path: pathlib.Path):
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0x10]))


@pytest.mark.parametrize(
    "name", ["*-a.h5ad", "*/X.packed-*/shards/*.cells", "*/X/*.cells", "*/X/shard_metadata.json"]
)
def test_a_flipped_bit_is_found(tmp_path, served, local, name):
    cache = tmp_path / "cache"
    fill(local, served[1], cache)
    (file,) = [path for path in cache.glob(name) if path.is_file()]
    flip(file)
    found = ask("verify", cache, code=1)
    assert not found["ok"]
    assert len(found["damages"]) == 1
    assert found["damages"][0]["path"] in (str(file), *map(str, file.parents))
    done = run("cache", "verify", cache, code=1)
    assert "damaged: " in done.stdout and "delete what is damaged" in done.stderr


@pytest.mark.parametrize("ending", ["cells", "rows"])
def test_a_flipped_bit_of_a_segment_is_found(tmp_path, local, ending):
    cells = cf.open(local / "gz.h5ad", cache="rows", cache_dir=tmp_path / "cache")
    for _ in cf.Loader(cells[np.arange(100)], cf.Streaming(), batch_size=50):
        pass
    cells.packed_shards()  # all that was read is written
    (file,) = (tmp_path / "cache").glob(f"*/*/rows-*.{ending}")
    assert ask("verify", tmp_path / "cache")["ok"]
    flip(file)
    assert file.name in ask("verify", tmp_path / "cache", code=1)["damages"][0]["what"]


def test_a_copy_that_was_cut_is_found(tmp_path, served):
    cf.set_storage_options(served[1], {"cache_dir": tmp_path / "cache"})
    cf.open(f"{served[1]}/a.h5ad")
    (copy,) = (tmp_path / "cache").glob("*-a.h5ad")
    os.truncate(copy, 1000)
    assert "1000 bytes" in ask("verify", tmp_path / "cache", code=1)["damages"][0]["what"]
    next((tmp_path / "cache").glob(".*.json")).unlink()
    assert "its note is gone" in ask("verify", tmp_path / "cache", code=1)["damages"][0]["what"]


def age_copy(cache, name, hours):
    """As if a copy had last been opened so many hours ago."""
    (note,) = cache.glob(f".*-{name}.json")
    age(note, hours)


def names_in(cache):
    return sorted(path.name[34:] for path in cache.glob("*.h5ad"))


@pytest.mark.parametrize("as_text", [False, True])
def test_copies_make_room_for_others(tmp_path, served, as_text):
    folder, url = served
    cache = tmp_path / "cache"
    size = (folder / "a.h5ad").stat().st_size
    limit = 5 * size // 2
    options = {"cache_dir": cache, "cache_bytes": str(limit) if as_text else limit}
    cf.set_storage_options(url, options)
    first = cf.open(f"{url}/a.h5ad")
    cf.open(f"{url}/b.h5ad")
    age_copy(cache, "a.h5ad", 3)
    age_copy(cache, "b.h5ad", 2)
    cf.open(f"{url}/a.h5ad")  # used again: it is the younger one now
    cf.open(f"{url}/c.h5ad")
    assert names_in(cache) == ["a.h5ad", "c.h5ad"]
    age_copy(cache, "a.h5ad", 3)
    cf.open(f"{url}/b.h5ad")
    assert names_in(cache) == ["b.h5ad", "c.h5ad"]
    np.testing.assert_array_equal(x_of(first), oracle(folder / "a.h5ad"))
    assert ask("verify", cache)["ok"]


def test_an_object_that_no_cache_can_hold_is_named(tmp_path, served):
    url = served[1]
    cf.set_storage_options(url, {"cache_dir": tmp_path / "cache", "cache_bytes": 1000})
    with pytest.raises(OSError, match="cache_bytes"):
        cf.open(f"{url}/a.h5ad")
    assert names_in(tmp_path / "cache") == []
    with pytest.raises(cf.errors.InvalidArgumentError):
        cf.set_storage_options(url, {"cache_dir": tmp_path / "cache", "cache_bytes": "much"})
    with pytest.raises(cf.errors.InvalidArgumentError):
        cf.set_storage_options(url, {"cache_dir": tmp_path / "cache", "cache_bytes": -1})


def test_clear_leaves_what_was_used_lately(tmp_path, served):
    folder, url = served
    cache = tmp_path / "cache"
    cf.set_storage_options(url, {"cache_dir": cache})
    for hours, name in enumerate(("a.h5ad", "b.h5ad", "c.h5ad")):
        cf.open(f"{url}/{name}")
        age_copy(cache, name, 24 * hours + 1)
    assert len(ask("clear", cache, "--older-than", 1.5)["entries"]) == 1
    assert names_in(cache) == ["a.h5ad", "b.h5ad"]
    size = (folder / "a.h5ad").stat().st_size
    assert ask("clear", cache, "--max-bytes", size + 10)["left_bytes"] <= size + 10
    assert names_in(cache) == ["a.h5ad"]
    assert ask("clear", cache, "--max-bytes", "1GB")["entries"] == []


def test_folders_that_hold_nothing_of_ours(tmp_path, monkeypatch):
    assert ask("list", tmp_path) == {"path": str(tmp_path), "bytes": 0, "entries": []}
    assert "0 entries, 0 bytes" in run("cache", "list", tmp_path).stdout
    assert ask("verify", tmp_path)["ok"]
    assert "is no folder" in run("cache", "list", tmp_path / "absent", code=1).stderr
    (tmp_path / "file").write_text("x")
    assert "is no folder" in run("cache", "clear", tmp_path / "file", code=1).stderr
    assert "local disk" in run("cache", "list", "s3://bucket/cache", code=1).stderr
    monkeypatch.delenv("CELLFEED_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ask("list") == {"path": f"{tmp_path}/cellfeed", "bytes": 0, "entries": []}
    assert ask("clear")["entries"] == []
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    assert "no folder: name one" in run("cache", "list", code=1).stderr
    path = write(tmp_path / "csc.h5ad", 8, "csc")
    assert cf.info(path)["row_cache"] == ""
    path.unlink()
    monkeypatch.setenv("CELLFEED_CACHE", str(tmp_path))
    assert ask("list")["path"] == str(tmp_path)
    assert "cellfeed cache --help" in run("cache", code=2).stderr
    assert "--max-bytes" in run("cache", "clear", tmp_path, "--max-bytes", "0", code=2).stderr


def test_rows_go_to_the_cache_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    (tmp_path / "data").mkdir()
    path = write(tmp_path / "data" / "csc.h5ad", 8, "csc")
    x_of(cf.open(path))
    assert [p.name for p in path.parent.iterdir()] == ["csc.h5ad"]
    folder = rows_folder(path)
    listed = ask("list", folder)
    assert [entry["what"] for entry in listed["entries"]] == ["X of csc.h5ad"]
    for name in ([f"{folder}/"], [folder.parent], []):
        assert ask("list", *name)["entries"] == listed["entries"]
    assert cf.info(path)["row_cache"] == str(folder / "X")


def test_a_configuration_keeps_packed_rows(tmp_path, local, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = local / "gz.h5ad"
    (tmp_path / "run.yaml").write_text(
        f"data: {{paths: {path}, cloud: {{cache_dir: cache, cache: rows}}}}\n"
    )
    module = cf.training.CellDataModule.from_config("run.yaml", split={"train": 1.0})
    module.setup()
    for _ in module.train_dataloader():
        pass
    module.cells.packed_shards()
    assert [entry["kind"] for entry in ask("list", tmp_path / "cache")["entries"]] == ["packed"]
    with pytest.raises(cf.errors.InvalidArgumentError, match="in memory"):
        cf.open(anndata.read_h5ad(path), cache="rows")
    other = cf.training.CellDataModule.from_config("run.yaml", data=cf.open(path))
    assert other is not None
    with pytest.raises(cf.errors.InvalidArgumentError, match="is open"):
        cf.training.CellDataModule(cf.open(path), cache="rows")
    done = run("shard", "--config", "run.yaml", "--output-dir", "out", code=1)
    assert "data.cloud.cache" in done.stderr and "run.yaml" in done.stderr
    (tmp_path / "run.yaml").write_text(f"data: {{paths: {path}, cloud: {{cache: rows}}}}\n")
    with pytest.raises(cf.errors.InvalidArgumentError, match="cache_dir"):
        cf.training.CellDataModule.from_config("run.yaml")


@pytest.mark.parametrize(
    ("cloud", "words"),
    [
        ("{cache_bytes: 1GB}", "none are kept"),
        ("{cache_dir: c, cache_bytes: 1GB, cache: rows}", "none are kept"),
        ("{cache_dir: c, cache_bytes: much}", "much"),
        ("{cache: rows}", "needs data.cloud.cache_dir"),
        ("{cache_dir: c, cache: block}", "rows"),
        ("{cache: blocks}", "needs data.cloud.cache_dir"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(tmp_path, cloud, words):
    (tmp_path / "run.yaml").write_text(f"data: {{paths: a.h5ad, cloud: {cloud}}}\n")
    done = run("config", tmp_path / "run.yaml", code=1)
    assert words in done.stderr and "line 1" in done.stderr


def test_what_is_not_ours_stays(tmp_path):
    """Shards of the user beside a JSON file, in a folder that is called like one of caches."""
    folder = tmp_path / "atlas.cellfeed"
    cf.convert_to_shards(write(tmp_path / "a.h5ad"), folder / "train")
    (folder / "train.json").write_text("{}")
    trace = tmp_path / f"{'0' * 16}-{'1' * 16}-trace"
    trace.write_text("mine")
    assert ask("clear", folder)["entries"] == ask("clear", tmp_path)["entries"] == []
    assert run("verify", folder / "train").returncode == 0
    assert trace.exists() and (folder / "train.json").exists()


def test_notes_that_are_damaged_stop_nobody(tmp_path, served):
    url = served[1]
    cache = tmp_path / "cache"
    cf.set_storage_options(url, {"cache_dir": cache, "cache_bytes": "1GB"})
    cf.open(f"{url}/a.h5ad")
    (note,) = cache.glob(".*-a.h5ad.json")
    for text in ("", "[]", '{"version": 1, "of": 3}', "x" * 100_000):
        note.write_text(text)
        cf.open(f"{url}/b.h5ad")
        for copy in cache.glob("*-b.h5ad"):
            copy.unlink()
        (damage,) = ask("verify", cache, code=1)["damages"]
        assert "its note" in damage["what"]
    note.unlink()
    cf.open(f"{url}/a.h5ad")  # made anew
    assert ask("verify", cache)["ok"]


def test_a_cache_dir_may_be_called_like_a_folder_of_one_file(tmp_path, local):
    cells = cf.open(local / "gz.h5ad", cache="rows", cache_dir=tmp_path / "my.cellfeed")
    x_of(cells)
    cells.packed_shards()
    assert [e["what"] for e in ask("list", tmp_path / "my.cellfeed")["entries"]] == ["X of gz.h5ad"]


def test_rows_that_are_written_just_now_stay(tmp_path):
    x_of(cf.open(write(tmp_path / "csc.h5ad", 8, "csc"), cache_dir=tmp_path / "cache"))
    (folder,) = (tmp_path / "cache").glob("*.cellfeed")
    with open(folder / ".X.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = ask("clear", tmp_path / "cache", code=1)["kept"]
        assert [entry["why"] for entry in kept] == ["is written just now"]
        assert ask("verify", tmp_path / "cache")["ok"]
    assert ask("clear", tmp_path / "cache")["kept"] == []


OPENED = """
import sys, cellfeed as cf
print(len(cf.open(sys.argv[1], storage_options={"cache_dir": sys.argv[2]})))
"""
PART_BYTES = 64 << 20


def read_terminal(terminal, text):
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # nobody writes to it any more
            return
        text.append(piece.decode())


@pytest.mark.slow
def test_a_copy_goes_on_where_its_process_was_killed_and_says_how_far_it_is(tmp_path, monkeypatch):
    n_cells = 20_000
    x = np.random.default_rng(0).random((n_cells, 1_900), np.float32)  # 2.3 parts
    anndata.AnnData(x).write_h5ad(tmp_path / "large.h5ad")
    sent, drawn = [], []
    is_killed = threading.Event()
    send = file_server._Handler._send_bytes

    def hold_back(self, file, begin, end, **options):
        """The third part: until the first process is killed, and the second has drawn its line."""
        if is_killed.is_set():
            sent.append(end - begin)
        deadline = time.monotonic() + 60
        while begin >= 2 * PART_BYTES and time.monotonic() < deadline:
            if is_killed.is_set() and "MB" in "".join(drawn):
                break
            time.sleep(0.01)
        send(self, file, begin, end, **options)

    monkeypatch.setattr(file_server._Handler, "_send_bytes", hold_back)
    cache = tmp_path / "cache"
    with FileServer(tmp_path) as server:
        arguments = [sys.executable, "-c", OPENED, f"{server.url}/large.h5ad", str(cache)]
        killed = subprocess.Popen(arguments)
        wait_until(lambda: any(p.stat().st_size > 30 for p in cache.glob(".*.parts")), killed)
        killed.kill()
        killed.wait()
        assert not list(cache.glob("[0-9a-f]*.h5ad"))
        is_killed.set()
        ours, terminal = pty.openpty()
        done = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=terminal, text=True)
        os.close(terminal)
        reader = threading.Thread(target=read_terminal, args=(ours, drawn))
        reader.start()
        out, _ = done.communicate()
        reader.join()
        os.close(ours)
    assert out.strip() == str(n_cells)
    size = (tmp_path / "large.h5ad").stat().st_size
    assert size - 2 * PART_BYTES - (4 << 20) < sum(sent) < size - PART_BYTES + (4 << 20)
    line = "".join(drawn)
    assert f"of {size / 1e6:,.0f} MB" in line and "copied" in line, line
    (copy,) = cache.glob("[0-9a-f]*.h5ad")
    assert copy.read_bytes() == (tmp_path / "large.h5ad").read_bytes()
    assert not list(cache.glob("*.tmp-*")) and not list(cache.glob(".*.parts"))
