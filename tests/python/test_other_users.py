"""Caches that another user may have written to are not believed."""

import json
import os
import pathlib
import shutil
import tempfile
import warnings

import anndata
import numpy as np
import pytest
import scipy.sparse as sp
from program import completed

import cellfeed as cf

OWNER, READER, STRANGER = 60001, 60002, 60003
FORGED = 666.0


def shared_folder(path):
    """The ``cache_dir`` of all users."""
    folder = path.parent / "caches"
    if not folder.exists():
        folder.mkdir()
        folder.chmod(0o1777)
    return folder


def read(path, mode):
    """The values of the file, and what is said of its cache meanwhile."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        options = {"cache_dir": shared_folder(path)}
        if mode == "packed":
            options["cache"] = "rows"
        cells = cf.open(path, **options)
        values = cells.read(slice(None)).to_scipy().toarray().tolist()
        cells.packed_shards()
    said = [str(w.message) for w in said if issubclass(w.category, cf.errors.CacheWarning)]
    return {"values": values, "said": said}


def read_by(user, home, path, mode):
    """The same by another user, in a child: this Python may be closed to that one."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.umask(0o002)
            os.environ["HOME"] = str(home)
            os.environ.pop("XDG_CACHE_HOME", None)
            result = read(path, mode)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        os.write(theirs, json.dumps(result).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        result = json.load(pipe)
    os.waitpid(child, 0)
    assert "error" not in result, result
    return result


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """What reading imports late is there before another user reads."""
    if os.geteuid() != 0:
        pytest.skip("acting as another user takes root")
    for mode in ("rows", "packed"):
        path = tmp_path_factory.mktemp(mode) / "a.h5ad"
        write(path, np.ones((60, 20), np.float32), mode)
        read(path, mode)


@pytest.fixture
def place(loaded):
    """A folder that all may write to, such as /tmp, with a home for the one who reads."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cellfeed-users-"))
    folder.chmod(0o1777)
    (folder / "home").mkdir()
    os.chown(folder / "home", READER, READER)
    yield folder
    shutil.rmtree(folder)


def write(path, x, mode):
    layout = sp.csr_matrix if mode == "packed" else sp.csc_matrix
    anndata.AnnData(layout(x)).write_h5ad(path, compression="gzip" if mode == "packed" else None)
    os.chown(path, OWNER, OWNER)


def forge(path, mode):
    """Rows of a changed copy as those of the file, in the place of its cache."""
    x = np.asarray(anndata.read_h5ad(path).X.todense())
    elsewhere = path.with_name("changed")
    elsewhere.mkdir()
    write(elsewhere / path.name, np.full_like(x, FORGED), mode)
    for each in (path, elsewhere / path.name):
        read(each, mode)
    (caches,) = shared_folder(path).iterdir()
    (forged,) = shared_folder(elsewhere / path.name).iterdir()
    if mode == "packed":  # with the name of the file's own, and its marks
        (own,), (other,) = (list(each.glob("X.packed-*/shards")) for each in (caches, forged))
    else:
        own, other = caches / "X", forged / "X"
    shutil.rmtree(own)
    shutil.move(other, own)
    shutil.rmtree(elsewhere)
    return caches


def give(folder, user, mode=0o755):
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, user, user, follow_symlinks=False)
    folder.chmod(mode)


def of_stranger(caches):
    give(caches, STRANGER)


def open_to_a_group(caches):
    give(caches, OWNER, 0o775)


def open_to_all(caches):
    give(caches, OWNER, 0o777)


def behind_a_link(caches):
    give(caches, OWNER)
    moved = caches.rename(caches.with_name("moved"))
    caches.symlink_to(moved)


def of_owner(caches):
    give(caches, OWNER)


def of_root(caches):
    give(caches, 0)


def of_reader(caches):
    give(caches, READER)


def ways(*changes):
    """Each with sorted rows; with packed ones, whose files are first waited for, one of them."""
    packed = [pytest.param(change, "packed", marks=pytest.mark.slow) for change in changes[1:]]
    return [(changes[0], "packed"), *packed, *((change, "rows") for change in changes)]


@pytest.mark.parametrize(
    ("change", "mode"), ways(of_stranger, open_to_a_group, open_to_all, behind_a_link)
)
def test_what_others_can_have_written_is_not_read(place, change, mode):
    path, home = place / "atlas.h5ad", place / "home"
    x = np.random.default_rng(1).integers(0, 3, (60, 20)).astype(np.float32)
    write(path, x, mode)
    caches = forge(path, mode)
    change(caches)
    before = {p: p.lstat().st_mtime_ns for p in caches.rglob("*")}
    for _ in range(2):
        found = read_by(READER, home, path, mode)
        np.testing.assert_array_equal(found["values"], x)
        (said,) = found["said"]
        assert said.startswith(f"{caches}: is not used") and f"{home}/.cache/cellfeed" in said
    assert {p: p.lstat().st_mtime_ns for p in caches.rglob("*")} == before
    (own,) = (home / ".cache" / "cellfeed").iterdir()
    assert own.stat().st_uid == READER and own.stat().st_mode & 0o022 == 0


@pytest.mark.parametrize(("change", "mode"), ways(of_owner, of_root, of_reader))
def test_what_root_the_reader_and_the_owner_of_the_file_wrote_is_read(place, change, mode):
    path, home = place / "atlas.h5ad", place / "home"
    write(path, np.ones((60, 20), np.float32), mode)
    change(forge(path, mode))
    found = read_by(READER, home, path, mode)
    assert found["said"] == []
    assert (np.array(found["values"]) == FORGED).all(), "rows were made anew"
    assert not (home / ".cache").exists()


@pytest.mark.parametrize("verb", ["list", "verify"])
def test_whoever_looks_after_caches_hears_of_those_of_others(place, verb):
    path = place / "atlas.h5ad"
    write(path, np.ones((60, 20), np.float32), "rows")
    caches = forge(path, "rows")
    assert "another user" not in completed("cache", verb, caches.parent).stderr
    give(caches, STRANGER)
    said = completed("cache", verb, caches.parent).stderr
    assert f"{caches}: belongs to another user, or others may write to it" in said


@pytest.mark.parametrize("mode", ["packed", "rows"])
@pytest.mark.parametrize("change", [of_stranger, open_to_all])
def test_a_folder_of_others_within_one_of_the_reader_is_refused(place, change, mode):
    path, home = place / "atlas.h5ad", place / "home"
    write(path, np.ones((60, 20), np.float32), mode)
    caches = forge(path, mode)
    give(caches, READER)
    (inner,) = [each for each in caches.iterdir() if each.is_dir()]
    change(inner)
    with pytest.raises(AssertionError, match="ongs to another user, or others may write to it"):
        read_by(READER, home, path, mode)


def test_where_no_folder_is_the_readers_own_that_is_said(place):
    path = place / "atlas.h5ad"
    write(path, np.ones((60, 20), np.float32), "rows")
    of_stranger(forge(path, "rows"))
    said = r"others may write to .*names a folder for rows: .*cache_dir="
    with pytest.raises(AssertionError, match=said):
        read_by(READER, "", path, "rows")
