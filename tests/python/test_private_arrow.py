"""cellfeed's copies of libarrow and libparquet are its own, whatever else is in the process."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(importlib.util.find_spec("cellfeed").origin).parent
COPIES = sorted((PACKAGE / "lib").glob("*.so"))
TOOL = pathlib.Path(__file__).parents[2] / "tools" / "private_arrow.py"
STB_GNU_UNIQUE, STV_HIDDEN = 10, 2
UNDEFINED = 0


def load_tool():
    spec = importlib.util.spec_from_file_location("private_arrow", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def visible_symbols(path):
    for _, name, binding, other, section in load_tool().Library(path).symbols():
        if section != UNDEFINED and other & 3 != STV_HIDDEN:
            yield name, binding


def outcome(code: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )


def test_both_libraries_are_in_the_package():
    assert [path.name for path in COPIES] == ["libcfarrow.so", "libcfparquet.so"]


@pytest.mark.parametrize("path", [*COPIES, *PACKAGE.glob("_core*.so")], ids=lambda path: path.name)
def test_no_symbol_is_merged_with_those_of_other_libraries(path):
    assert [name for name, binding in visible_symbols(path) if binding == STB_GNU_UNIQUE] == []


def test_the_original_libraries_have_such_symbols():
    pyarrow = pytest.importorskip("pyarrow")
    (original,) = pathlib.Path(pyarrow.__file__).parent.glob("libparquet.so.*")
    bindings = {binding for _, binding in visible_symbols(original)}
    assert STB_GNU_UNIQUE in bindings


@pytest.mark.parametrize("path", COPIES, ids=lambda path: path.name)
def test_openssl_inside_the_copies_is_nobody_elses(path):
    names = {name for name, _ in visible_symbols(path)}
    assert not names & {b"EVP_DigestInit_ex", b"SSL_new", b"OPENSSL_init_crypto", b"inflate"}
    assert all(b"arrow" in name or b"parquet" in name for name in names)


def test_the_module_exports_its_start_alone():
    (core,) = PACKAGE.glob("_core*.so")
    assert [name for name, _ in visible_symbols(core)] == [b"PyInit__core"]


GLOBAL_ARROW = """
import ctypes, pathlib, pyarrow
(library,) = pathlib.Path(pyarrow.__file__).parent.glob("libarrow.so.*")
ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
"""


def test_an_arrow_for_all_before_ours_is_one_clear_line():
    pytest.importorskip("pyarrow")
    done = outcome(GLOBAL_ARROW + "import cellfeed._core")
    assert done.returncode == 1
    assert "ImportError: another package loaded " in done.stderr.splitlines()[-1]
    assert "libarrow.so." in done.stderr and "import cellfeed._core before it" in done.stderr


@pytest.mark.parametrize("first", ["import cellfeed._core", "import pyarrow.parquet"])
def test_tables_pass_between_both_arrows(first, tmp_path):
    pytest.importorskip("pyarrow")
    after = GLOBAL_ARROW if "cellfeed" in first else ""
    code = f"""
{first}
{after}
import pyarrow as pa, pyarrow.parquet as pq
import cellfeed as cf
table = pa.table({{"indices": pa.array([[0, 2], [1]], pa.list_(pa.int32())),
                   "values": pa.array([[1.0, 2.0], [3.0]], pa.list_(pa.float32())),
                   "label": pa.array(["a", "b"]).dictionary_encode()}})
pq.write_table(table, {str(tmp_path / "cells.parquet")!r})
pq.write_table(pa.table({{"gene": ["x", "y", "z"]}}), {str(tmp_path / "genes.parquet")!r})
cells = cf.open({str(tmp_path / "cells.parquet")!r}, var={str(tmp_path / "genes.parquet")!r})
assert cells.read([1, 0]).x.toarray().tolist() == [[0, 3, 0], [1, 0, 2]]
assert pa.table(cells.obs_table())["label"].to_pylist() == ["a", "b"]
"""
    done = outcome(code)
    assert done.returncode == 0, done.stderr
