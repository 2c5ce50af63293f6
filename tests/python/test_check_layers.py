"""The layer check finds what it is there for, in small trees made for it."""

import dataclasses
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_layers  # noqa: E402
import python_layers  # noqa: E402

SOUND = {
    "src/cellfeed/base/error.h": "#pragma once\n",
    "src/cellfeed/io/bytes.h": '#include "cellfeed/base/error.h"\n',
    "src/cellfeed/format/store.h": '#include "cellfeed/io/bytes.h"\n',
    "src/cellfeed/format/npy/npy.h": '#include "cellfeed/format/store.h"\n',
    "src/cellfeed/format/anndata/frame.h": '#include "cellfeed/format/store.h"\n',
    "src/cellfeed/format/zarr/zarr.h": '#include "cellfeed/format/anndata/frame.h"\n',
    "src/cellfeed/format/registry.cc": (
        '#include "cellfeed/format/npy/npy.h"\n#include "cellfeed/format/zarr/zarr.h"\n'
    ),
    "src/cellfeed/testing/store_suite.h": '#include "cellfeed/format/store.h"\n',
    "src/cellfeed/format/npy/npy_test.cc": '#include "cellfeed/testing/store_suite.h"\n',
    "src/cellfeed/format/memory/memory.h": '#include "cellfeed/format/store.h"\n',
    "src/cellfeed/format/zarr/zarr_test.cc": '#include "cellfeed/format/memory/memory.h"\n',
    "src/cellfeed/collection/c.h": '#include "cellfeed/format/store.h"\n',
    "src/cellfeed/loader/loader_test.cc": (
        '#include "cellfeed/collection/c.h"\n#include "cellfeed/format/memory/memory.h"\n'
    ),
    "bindings/module.cc": '#include "bind.h"\n#include "cellfeed/format/store.h"\n',
    "python/cellfeed/__init__.py": "def __getattr__(name):\n    from .loader import Loader\n",
    "python/cellfeed/errors.py": "",
    "python/cellfeed/_arguments.py": "",
    "python/cellfeed/_options.py": "",
    "python/cellfeed/_torch/__init__.py": "from .tensors import x\n",
    "python/cellfeed/_torch/tensors.py": "import torch\nfrom .._arguments import x\n",
    "python/cellfeed/batch.py": (
        "import typing\nfrom . import _arguments, _core\n"
        "if typing.TYPE_CHECKING:\n    import torch\n    from ._options import Path\n"
        "def f():\n    from ._torch import x\n"
    ),
    "python/cellfeed/loader.py": "from .batch import Batch\nfrom cellfeed.errors import Error\n",
    "python/cellfeed/data/cells.py": "from .. import loader\nfrom .._torch.tensors import x\n",
}


def run_check(root: pathlib.Path) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "tools" / "check_layers.py", "--root", root]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def plant(root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_sound_tree_passes(tmp_path):
    result = run_check(plant(tmp_path, SOUND))
    assert result.returncode == 0, result.stderr


def test_an_arrow_that_nothing_follows_is_found(tmp_path):
    rules = dataclasses.replace(
        check_layers.Rules.load(ROOT / "tools" / "layers.toml"),
        layers={"base": [], "io": ["base"], "format": ["base", "io"]},
        outside={"bindings": ["format"]},
    )
    sources = check_layers.read_sources(plant(tmp_path, SOUND), rules)
    found = list(check_layers.find_unused_arrows(sources, rules))
    assert found == ["layers.toml: format -> base: nothing of format includes base"]


def test_an_arrow_that_no_import_follows_is_found(tmp_path):
    modules = python_layers.read_modules(plant(tmp_path, SOUND) / "python" / "cellfeed")
    layers = {
        "batch": ["_core", "_arguments"],
        "loader": ["batch", "errors", "data"],
        "_arguments": [],
        "errors": [],
    }
    found = list(python_layers.find_unused(modules, "python/cellfeed", {"layers": layers}))
    assert found == ["layers.toml: loader -> data: nothing of loader imports data"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("src/cellfeed/io/up.h", '#include "cellfeed/format/store.h"', "io may not include format"),
        (
            "src/cellfeed/base/up.cc",
            '  #  include "cellfeed/io/bytes.h"',
            "base may not include io",
        ),
        ("src/cellfeed/sampling/s.h", '#include "cellfeed/io/bytes.h"', "sampling may not include"),
        ("src/cellfeed/loader/l.h", '#include "cellfeed/format/store.h"', "loader may not include"),
        (
            "src/cellfeed/format/npy/n.cc",
            '#include "cellfeed/format/zarr/zarr.h"',
            "folders of format may not include one another",
        ),
        (
            "src/cellfeed/format/store.cc",
            '#include "cellfeed/format/zarr/zarr.h"',
            "folders of format may not include one another",
        ),
        (
            "src/cellfeed/format/store.cc",
            '#include "cellfeed/format/anndata/frame.h"',
            "folders of format may not include one another",
        ),
        (
            "src/cellfeed/format/anndata/frame.cc",
            '#include "cellfeed/format/zarr/zarr.h"',
            "folders of format may not include one another",
        ),
        (
            "src/cellfeed/format/npy/more_test.cc",
            '#include "cellfeed/format/zarr/zarr.h"',
            "folders of format may not include one another",
        ),
        (
            "src/cellfeed/format/npy/shipped.cc",
            '#include "cellfeed/format/memory/memory.h"',
            "folders of format may not include one another",
        ),
        ("src/cellfeed/misc/m.h", "", "misc is not a layer"),
        ("src/cellfeed/io/short.h", '#include "bytes.h"', "is no file of src/"),
        ("fuzz/f.cc", '#include "cellfeed/base/gone.h"', "is no file of src/"),
        ("src/cellfeed/io/gone.h", '#include "cellfeed/base/gone.h"', "is no file of src/"),
        (
            "src/cellfeed/format/shipped.cc",
            '#include "cellfeed/testing/store_suite.h"',
            "format may not include testing",
        ),
        (
            "src/cellfeed/io/io_test.cc",
            '#include "cellfeed/testing/store_suite.h"',
            "the test sees format, which io does not stand on",
        ),
        ("src/cellfeed/io/long.cc", "//\n" * 400, "io/long.cc: 401 lines: no file is longer"),
        ("bindings/b.cc", '#include "cellfeed/cli/verb.h"', "is no file of src/"),
        ("python/cellfeed/x.py", "def f():\n    import torch.nn", "x.py:2: torch is imported in"),
        ("python/cellfeed/x.py", "", "x is not a layer of layers.toml"),
        ("python/cellfeed/errors.py", "from .batch import B", "py:1: errors may not import batch"),
        (
            "python/cellfeed/batch.py",
            "def f():\n    from .loader import L",
            "may not import loader",
        ),
        ("python/cellfeed/batch.py", "import cellfeed.loader", "batch may not import loader"),
        ("python/cellfeed/batch.py", "from . import loader", "batch may not import loader"),
        ("python/cellfeed/batch.py", "from ._torch import x", "batch may not import _torch"),
        ("python/cellfeed/_torch/up.py", "from ..loader import L", "_torch may not import loader"),
        (
            "python/cellfeed/_torch/up.py",
            "def f():\n    from ..data.cells import C",
            "_torch may not import data",
        ),
        ("python/cellfeed/data/y.py", "from torch.utils import data", "y.py:1: torch is imported"),
    ],
)
def test_a_planted_fault_is_found(tmp_path, name, text, message):
    plant(tmp_path, SOUND | {name: text + "\n"})
    result = run_check(tmp_path)
    assert result.returncode == 1
    assert message in result.stderr
    assert name.removeprefix("src/") in result.stderr


@pytest.mark.parametrize(
    "call",
    [
        "std::ifstream in(path);",
        "if (fs::exists(path)) return;",
        "std::filesystem::remove_all(path);",
        "const int fd = ::open(path, 0);",
        "::stat(path, &status);",
        "::ftruncate(fd, 0);",
        "::renameat2(from, a, to, b, 0);",
    ],
)
def test_a_path_that_is_opened_past_the_file_system_is_found(tmp_path, call):
    root = plant(tmp_path, {"src/cellfeed/format/x.cc": call, "src/cellfeed/io/x.cc": call})
    result = run_check(root)
    assert result.returncode == 1
    assert "cellfeed/format/x.cc: '" in result.stderr
    assert "io/x.cc: '" not in result.stderr


def test_names_that_only_look_like_calls_on_paths_pass(tmp_path):
    text = "auto c = Collection::open(p); stores.open(p); (fs::path(a) / b).string();"
    assert run_check(plant(tmp_path, {"src/cellfeed/format/x.cc": text})).returncode == 0


def test_bindings_may_not_include_the_command_line(tmp_path):
    faulty = {
        "src/cellfeed/cli/verb.h": "",
        "bindings/module.cc": '#include "cellfeed/cli/verb.h"\n',
    }
    result = run_check(plant(tmp_path, SOUND | faulty))
    assert result.returncode == 1
    assert "bindings may not include cli" in result.stderr


def test_an_include_cycle_is_found(tmp_path):
    circle = {
        "src/cellfeed/io/a.h": '#include "cellfeed/io/b.h"\n',
        "src/cellfeed/io/b.h": '#include "cellfeed/io/a.h"\n',
    }
    result = run_check(plant(tmp_path, SOUND | circle))
    assert result.returncode == 1
    assert "cellfeed/io/a.h -> cellfeed/io/b.h -> cellfeed/io/a.h" in result.stderr


@pytest.mark.parametrize(
    "one_way",
    [
        "from . import b\n",
        "def f():\n    from .b import B\n",
        "import typing\nif typing.TYPE_CHECKING:\n    from .b import B\n",
    ],
)
def test_a_circle_inside_a_folder_of_python_is_found(tmp_path, one_way):
    circle = {
        "python/cellfeed/data/a.py": one_way,
        "python/cellfeed/data/b.py": "from .a import A\n",
    }
    result = run_check(plant(tmp_path, SOUND | circle))
    assert result.returncode == 1
    assert "import cycle: data/a -> data/b -> data/a" in result.stderr


def test_rules_of_python_that_form_a_cycle_are_refused(tmp_path):
    rules = (ROOT / "tools" / "layers.toml").read_text()
    (tmp_path / "layers.toml").write_text(
        rules.replace("_options = []", '_options = ["loader"]', 1)
    )
    command = [sys.executable, ROOT / "tools" / "check_layers.py", "--root", tmp_path]
    command += ["--rules", tmp_path / "layers.toml"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "_options -> loader: loader does not stand above" in result.stderr


def test_rules_that_form_a_cycle_are_refused(tmp_path):
    rules = (ROOT / "tools" / "layers.toml").read_text().replace("base = []", 'base = ["io"]', 1)
    (tmp_path / "layers.toml").write_text(rules)
    command = [sys.executable, ROOT / "tools" / "check_layers.py", "--root", tmp_path]
    command += ["--rules", tmp_path / "layers.toml"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "base -> io" in result.stderr
