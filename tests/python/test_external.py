"""`allow_external=FOLDER`: what lies beside a file is read as if it were in it, and no more."""

import json
import os
import pathlib
import pickle
import shutil
import time

import h5py
import numpy as np
import pytest
from program import run
from test_h5ad_storage import (
    ANYTHING,
    NUMBERS,
    atlas,
    make_external_link,
    make_link_to_external_link,
    make_virtual,
    refused_or_left_out,
    store_outside,
)
from tiers import fast

import cellfeed as cf
from cellfeed.errors import (
    CorruptDataError,
    InputOutputError,
    InvalidArgumentError,
    LeftOutWarning,
    NotFoundError,
    UnsupportedError,
)


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("original") / "a.h5ad"
    atlas().write_h5ad(path)
    return path


@pytest.fixture
def folder(original, tmp_path) -> pathlib.Path:
    """a.h5ad, and other.h5ad with the same cells; whole.h5ad to compare with."""
    inside = tmp_path / "inside"
    inside.mkdir()
    for name in ("a", "other", "whole"):
        shutil.copy(original, inside / f"{name}.h5ad")
    return inside


def contents(path: pathlib.Path, **options):
    cells = cf.open(path, **options)
    table = cells.obs_table().to_pandas()
    return (
        cells[:].to_numpy().tolist(), list(cells.var_names), table.astype(object).values.tolist(),
        cells.var_table().to_pandas().values.tolist(),
        {name: np.asarray(cells.obs_values(name)).tolist() for name in ("category", "int")},
    )  # fmt: skip


def assert_whole(folder: pathlib.Path, **options) -> None:
    expected = contents(folder / "whole.h5ad")
    found = contents(folder / "a.h5ad", **{"allow_external": folder, **options})
    np.testing.assert_equal(found, expected)


def link(folder: pathlib.Path, target: str, inner: str = "X") -> None:
    with h5py.File(folder / "a.h5ad", "a") as file:
        del file["X"]
        file["X"] = h5py.ExternalLink(target, inner)


# A group and a matrix of numbers, a column and its values.
SOME = ("X", "X/data", "obs/category", "obs/text")


@pytest.mark.parametrize(
    ("divert", "name"),
    [(make_external_link, name) for name in ANYTHING]
    + fast(
        [(make_link_to_external_link, name) for name in SOME],
        [(make_link_to_external_link, name) for name in ANYTHING],
    )
    + [(store_outside, name) for name in NUMBERS],
)
def test_what_lies_inside_the_folder_is_read(folder, divert, name):
    divert(folder, name)
    with refused_or_left_out(name, match='allow_external="FOLDER"'):
        contents(folder / "a.h5ad")
    assert_whole(folder)
    assert_whole(folder, access="map", allow_external=folder.parent)
    result = cf.convert_to_shards(folder / "a.h5ad", folder / "s", allow_external=folder)
    np.testing.assert_array_equal(cf.open(result)[:].to_numpy(), atlas().X.toarray())


@pytest.mark.parametrize("name", NUMBERS)
def test_virtual_datasets_stay_refused(folder, name):
    make_virtual(folder, name)
    with refused_or_left_out(name, match="virtual dataset"):
        contents(folder / "a.h5ad", allow_external=folder)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_chunks_of_another_file_are_read_there(folder, compression):
    (folder / "sub").mkdir()
    atlas().write_h5ad(folder / "sub" / "deep.h5ad", compression=compression)
    link(folder, "sub/deep.h5ad")
    assert_whole(folder)
    with h5py.File(folder / "sub" / "back.h5ad", "w") as file:
        file["there"] = h5py.ExternalLink("../sub/deep.h5ad", "/X")  # beside the file that has it
    link(folder, "sub/back.h5ad", "there")
    assert_whole(folder)
    link(folder, str(folder / "sub" / "deep.h5ad"))  # absolute, and inside
    assert_whole(folder)
    (folder / "alias.h5ad").symlink_to("sub/deep.h5ad")
    link(folder, "alias.h5ad")
    assert_whole(folder)


def outside_targets(folder: pathlib.Path) -> dict[str, str]:
    outside = folder.parent / "outside.h5ad"
    shutil.copy(folder / "whole.h5ad", outside)
    # Its name begins as the folder's does.
    shutil.copy(folder / "whole.h5ad", folder.parent / "inside_too.h5ad")
    (folder / "planted.h5ad").symlink_to(outside)
    (folder / "door").symlink_to(folder.parent)
    return {
        "absolute": str(outside), "escape": "../outside.h5ad", "link": "planted.h5ad",
        "through a link": "door/outside.h5ad", "sibling": "../inside_too.h5ad",
        "round about": "../inside/../outside.h5ad", "system": "/etc/passwd",
    }  # fmt: skip


OUTSIDE = ["absolute", "escape", "link", "through a link", "sibling", "round about", "system"]


@pytest.mark.parametrize("which", OUTSIDE)
def test_what_lies_outside_of_it_is_refused_by_name(folder, which):
    target = outside_targets(folder)[which]
    link(folder, target)
    with pytest.raises(UnsupportedError, match="outside of the folder") as caught:
        cf.open(folder / "a.h5ad", allow_external=folder)
    assert target in str(caught.value) and "'X" in str(caught.value)


@pytest.mark.parametrize("which", OUTSIDE)
def test_so_is_storage_outside(folder, which):
    target = outside_targets(folder)[which]
    with h5py.File(folder / "a.h5ad", "a") as file:
        del file["obs/int"]
        file.create_dataset("obs/int", (60,), "i8", external=[(target, 0, 480)])
    cells = cf.open(folder / "a.h5ad", allow_external=folder)
    with pytest.raises(UnsupportedError, match=r"'obs/int' is stored in .* outside of the folder"):
        cells.obs_values("int")


def test_the_folder_has_to_be_one(folder):
    for path, error in (("nosuch", NotFoundError), ("a.h5ad", InvalidArgumentError)):
        with pytest.raises(error, match=path):
            cf.open(folder / "whole.h5ad", allow_external=folder / path)
    with pytest.raises(NotFoundError):
        cf.open(folder / "whole.h5ad", allow_external="")


def test_links_that_lead_nowhere_or_round_are_errors(folder):
    link(folder, "nosuch.h5ad")
    with pytest.raises(NotFoundError, match=r"'X' is a link to 'nosuch\.h5ad', which is not there"):
        cf.open(folder / "a.h5ad", allow_external=folder)
    link(folder, "other.h5ad", "nothing/of/that")
    with pytest.raises(KeyError, match=r"no X|no matrix"):
        cf.open(folder / "a.h5ad", allow_external=folder)
    link(folder, "a.h5ad", "X")
    with pytest.raises(CorruptDataError, match="more than 16 links, or in a circle"):
        cf.open(folder / "a.h5ad", allow_external=folder)
    with h5py.File(folder / "other.h5ad", "a") as file:
        del file["X"]
        file["X"] = h5py.ExternalLink("a.h5ad", "/X")
    link(folder, "other.h5ad", "/X")
    with pytest.raises(CorruptDataError, match="circle"):
        cf.open(folder / "a.h5ad", allow_external=folder)


def test_chains_are_followed_as_far_as_they_may_be(folder):
    for length, is_read in ((16, True), (17, False)):
        for number in range(length - 1):
            last = number == length - 2
            with h5py.File(folder / f"link_{number}.h5ad", "w") as file:
                target = "other.h5ad" if last else f"link_{number + 1}.h5ad"
                file["X"] = h5py.ExternalLink(target, "X")
        link(folder, "link_0.h5ad")
        if is_read:
            assert_whole(folder)
        else:
            with pytest.raises(CorruptDataError, match="more than 16 links"):
                cf.open(folder / "a.h5ad", allow_external=folder)


def test_many_files_are_too_many(folder):
    with h5py.File(folder / "a.h5ad", "a") as file:
        names = [f"c{number}" for number in range(70)]
        for name in names:
            (folder / f"{name}.h5ad").write_bytes((folder / "other.h5ad").read_bytes())
            file[f"obs/{name}"] = h5py.ExternalLink(f"{name}.h5ad", "obs/int")
        file["obs"].attrs["column-order"] = names
    cells = cf.open(folder / "a.h5ad", allow_external=folder)
    np.testing.assert_array_equal(cells.obs_values("c69"), np.arange(60))
    with pytest.warns(LeftOutWarning, match="obs/c63, .* leads to more than 64 other files"):
        assert cells.obs_table().num_columns == 65  # and the names


@pytest.mark.parametrize("kind", ["fifo", "folder", "text", "empty", "device"])
def test_targets_that_are_no_such_files(folder, kind):
    target = folder / "target"
    if kind == "fifo":
        os.mkfifo(target)
    elif kind == "folder":
        target.mkdir()
    elif kind == "device":
        target.symlink_to("/dev/zero")
    else:
        target.write_bytes(b"" if kind == "empty" else b"no HDF5 file\n" * 99)
    link(folder, "target")
    with pytest.raises((CorruptDataError, InputOutputError, UnsupportedError), match="target"):
        cf.open(folder / "a.h5ad", allow_external=folder)


@pytest.mark.parametrize(
    "parts",
    [
        [("p0", 0, 480)],
        [("p0", 16, 200), ("p1", 0, 80), ("p0", 300, 200)],
        [("p0", 8, 7), ("p0", 8, 1), ("p1", 1, 472)],
        [("p0", 0, 100), ("p1", 3, h5py.h5f.UNLIMITED)],
        [("p0", 0, 600)],  # more than it takes, and there
    ],
)
def test_storage_in_parts(folder, parts):
    rng = np.random.default_rng(0)
    bytes_of = {name: rng.integers(0, 256, 700, dtype=np.uint8).tobytes() for name in ("p0", "p1")}
    for name, content in bytes_of.items():
        (folder / name).write_bytes(content)
    whole = b"".join(
        bytes_of[name][offset:][: size if size < 2**63 else None] for name, offset, size in parts
    )
    with h5py.File(folder / "a.h5ad", "a") as file:
        del file["obs/int"]
        file.create_dataset("obs/int", (60,), "<i8", external=parts)
    cells = cf.open(folder / "a.h5ad", allow_external=folder)
    expected = np.frombuffer(whole[:480], "<i8")
    np.testing.assert_array_equal(cells.obs_values("int"), expected)
    part = cf.open(folder / "a.h5ad", allow_external=folder).read([7, 59, 0], obs=["int"])
    np.testing.assert_array_equal(part.obs["int"], expected[[7, 59, 0]])


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([("p0", 300, 480)], "480 bytes at 300 of another file, which has 700"),
        ([("p0", 700, 1), ("p1", 0, 480)], "1 bytes at 700"),
        ([("p0", 300, h5py.h5f.UNLIMITED)], "480 bytes at 300"),
        ([("p0", 2**62, 480)], "of another file, which has 700"),
        ([("nosuch", 0, 480)], "'nosuch', which is not there"),
        ([("p0", 0, 480), ("nosuch", 0, 1)], "'nosuch', which is not there"),
    ],
)  # fmt: skip
def test_parts_that_are_not_whole_are_refused(folder, parts, said):
    for name in ("p0", "p1"):
        (folder / name).write_bytes(bytes(700))
    with h5py.File(folder / "a.h5ad", "a") as file:
        del file["obs/int"]
        file.create_dataset("obs/int", (60,), "<i8", external=parts)
    cells = cf.open(folder / "a.h5ad", allow_external=folder)
    with pytest.raises((CorruptDataError, NotFoundError), match=said):
        cells.obs_values("int")


def test_parts_that_hold_too_little_are_refused(folder):
    """libhdf5 writes no such thing: a part's size is changed in the file."""
    (folder / "p0").write_bytes(bytes(700))
    with h5py.File(folder / "a.h5ad", "a") as file:
        del file["obs/int"]
        file.create_dataset("obs/int", (60,), "<i8", external=[("p0", 5, 480)])
    content = (folder / "a.h5ad").read_bytes()
    stored = np.array([5, 480], "<u8").tobytes()
    assert content.count(stored) == 1
    for size, said in (
        (479, "hold 479 of the 480 bytes"),
        (0, "hold 0 of"),
        (2**63, "which has 700"),
    ):
        (folder / "a.h5ad").write_bytes(
            content.replace(stored, np.array([5, size], "<u8").tobytes())
        )
        with pytest.raises(CorruptDataError, match=said):
            cf.open(folder / "a.h5ad", allow_external=folder).obs_values("int")


@pytest.mark.parametrize("divert", [make_external_link, store_outside])
def test_a_change_there_is_a_change_of_the_file(folder, divert):
    divert(folder, "X/data")
    options = {"allow_external": folder}
    cells = cf.open(folder / "a.h5ad", **options)
    copy = pickle.dumps(cells)
    np.testing.assert_array_equal(pickle.loads(copy)[:].to_numpy(), cells[:].to_numpy())
    cf.convert_to_shards(folder / "a.h5ad", folder / "s", **options)
    cf.convert_to_shards(folder / "a.h5ad", folder / "s", resume=True, **options)
    other = bytearray((folder / "other.h5ad").read_bytes())
    at = other.index(atlas().X.data[5:9].tobytes())
    other[at : at + 4] = np.float32(77).tobytes()
    (folder / "new").write_bytes(other)
    times = os.stat(folder / "other.h5ad")
    os.utime(folder / "new", ns=(times.st_atime_ns, times.st_mtime_ns))
    (folder / "new").rename(folder / "other.h5ad")
    changed = cf.open(folder / "a.h5ad", **options)
    assert changed.fingerprint != cells.fingerprint and 77 in changed[:].to_numpy()
    with pytest.raises(CorruptDataError, match="changed since this collection was pickled"):
        pickle.loads(copy)
    with pytest.raises(cf.errors.AlreadyExistsError, match="other inputs"):
        cf.convert_to_shards(folder / "a.h5ad", folder / "s", resume=True, **options)
    np.testing.assert_array_equal(cells[:].to_numpy(), atlas().X.toarray())  # still the old one


def test_a_file_written_over_in_place_is_noticed(folder):
    make_external_link(folder, "X/data")
    cells = cf.open(folder / "a.h5ad", allow_external=folder)
    with open(folder / "other.h5ad", "r+b") as file:
        file.write(file.read(1))
    os.utime(folder / "other.h5ad", (1, 1))
    with pytest.raises(CorruptDataError, match="written again since it was opened"):
        cells[:].to_numpy()


def test_the_program_takes_the_folder_too(folder, monkeypatch):
    monkeypatch.chdir(folder)
    make_external_link(folder, "X")
    for verb in (["info", "a.h5ad"], ["shard", "a.h5ad", "--output-dir", "s"],
                 ["export", "a.h5ad", "--output", "out.h5ad"]):  # fmt: skip
        said = run(*verb, code=1)
        assert "'X" in said and "--allow-external FOLDER" in said and "'other.h5ad:X" in said
        run(*verb, "--allow-external", ".")
    told = json.loads(run("info", "a.h5ad", "--json", "--allow-external", folder))
    assert told == {**json.loads(run("info", "whole.h5ad", "--json")),
                    "path": "a.h5ad", "bytes": told["bytes"],
                    "bits_per_nonzero": told["bits_per_nonzero"]}  # fmt: skip
    assert cf.info("a.h5ad", allow_external=".")["n_cells"] == 60
    for path in ("s", "out.h5ad"):
        np.testing.assert_array_equal(cf.open(path)[:].to_numpy(), atlas().X.toarray())
    cf.export_h5ad("a.h5ad", "again.h5ad", allow_external=".")
    assert "--allow-external" in run("info", "a.h5ad", "--allow-external", "", code=2)


@pytest.mark.parametrize(
    "divert", [make_external_link, pytest.param(store_outside, marks=pytest.mark.slow)]
)
def test_rows_kept_of_columns_are_those_of_the_files_as_they_are(folder, divert, tmp_path):
    by_columns = atlas()
    by_columns.X = by_columns.X.tocsc()
    for name in ("a", "other"):
        by_columns.write_h5ad(folder / f"{name}.h5ad")
    divert(folder, "X/data")

    def read():
        cells = cf.open(folder / "a.h5ad", allow_external=folder, cache_dir=tmp_path / "kept")
        return cells[:].to_numpy()

    np.testing.assert_array_equal(read(), atlas().X.toarray())
    time.sleep(2.5)  # what was written just now may be written again unseen
    np.testing.assert_array_equal(read(), atlas().X.toarray())
    changed = bytearray((folder / "other.h5ad").read_bytes())
    at = changed.index(by_columns.X.data[5:9].tobytes())
    changed[at : at + 4] = np.float32(77).tobytes()
    with open(folder / "other.h5ad", "r+b") as file:
        file.write(changed)
    assert 77 in read()
    assert np.count_nonzero(read() != atlas().X.toarray()) == 1
