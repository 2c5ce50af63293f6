"""The check of imports finds a name that a neighbour has not, in small trees made for it."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("check_imports", ROOT / "tools" / "check_imports.py")
check_imports = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_imports)

SOUND = {
    "benchmarks/counts.py": (
        "import numpy as np\nif True:\n    LIMIT = 3\ndef counts():\n    inner = 1\n"
    ),
    "benchmarks/cloud.py": (
        "from counts import LIMIT, counts, np\nfrom servers import Server\nfrom os import path\n"
    ),
    "benchmarks/loader/run.py": "from .steps import *\n",
    "tests/python/servers.py": "class Server:\n    field = 0\n",
}


def problems(folder: pathlib.Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(check_imports.problems(folder))


def test_a_sound_tree_passes(tmp_path):
    assert problems(tmp_path, SOUND) == []


def test_this_tree_passes():
    assert list(check_imports.problems(ROOT)) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("from counts import count", "benchmarks/counts.py has no 'count'"),
        ("from counts import inner", "benchmarks/counts.py has no 'inner'"),
        ("def f():\n    from servers import field", "tests/python/servers.py has no 'field'"),
    ],
)
def test_a_name_that_is_not_there_is_found(tmp_path, line, fault):
    found = problems(tmp_path, SOUND | {"benchmarks/cloud.py": line + "\n"})
    line_number = line.count("\n") + 1
    assert found == [f"benchmarks/cloud.py:{line_number}: {fault}"]
