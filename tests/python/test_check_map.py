"""`tools/check_map.py` finds what documents name and what is not there."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]

PAGE = """# Map

src/cellfeed/
  base/     numbers
  io/       bytes
bindings/   Python

```
base       <- everything
io         -> base
```

[read](docs/a.md#some-words) src/cellfeed/io/bytes.h
"""


def check(root: pathlib.Path) -> str:
    command = [sys.executable, ROOT / "tools" / "check_map.py", "--root", root]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stderr


@pytest.fixture
def tree(tmp_path):
    for name, text in {
        "ARCHITECTURE.md": PAGE,
        "README.md": "[a](https://github.com/cellfeed/cellfeed/blob/main/docs/a.md)",
        "docs/a.md": "# A\n\n## Some `words`\n",
        "src/cellfeed/io/bytes.h": "// docs/a.md says more\n",
        "src/cellfeed/base/error.h": "",
        "tools/layers.toml": "[layers]\nbase = []\nio = ['base']\nlater = ['io']\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert check(tmp_path) == ""
    return tmp_path


def edit(path: pathlib.Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new", "fault"),
    [
        ("ARCHITECTURE.md", "docs/a.md#", "docs/b.md#", "the link leads nowhere"),
        ("README.md", "docs/a.md", "docs/b.md", "the link leads nowhere"),
        ("docs/a.md", "# A", "[a]\n\n[a]: c.md\n\n# A", "the link leads nowhere: c.md"),
        ("README.md", "https://github.com/cellfeed/cellfeed/blob/main/", "", "begin the link with"),
        ("ARCHITECTURE.md", "#some-words", "#other-words", "no such heading"),
        ("ARCHITECTURE.md", "io/bytes.h", "io/gone.h", "names src/cellfeed/io/gone.h"),
        ("ARCHITECTURE.md", "io         -> base", "io         -> base io", "arrows of io"),
        ("ARCHITECTURE.md", "  io/       bytes", "", "does not list src/cellfeed/io"),
        ("ARCHITECTURE.md", "  io/  ", "  exec/  none\n  io/  ", "lists src/cellfeed/exec"),
        ("src/cellfeed/io/bytes.h", "docs/a.md", "docs/c.md", "names docs/c.md"),
        ("tools/layers.toml", "io = ['base']", "io = []", "arrows of io"),
    ],
)
def test_each_fault_is_found(tree, file, old, new, fault):
    edit(tree / file, old, new)
    assert fault in check(tree)


def test_this_tree_is_as_its_map_says():
    assert check(ROOT) == ""
