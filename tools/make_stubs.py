"""Writes python/cellfeed/_core.pyi: what type checkers see of the compiled module."""

import argparse
import difflib
import pathlib
import subprocess
import sys
import tempfile

STUBS = pathlib.Path(__file__).parent.parent / "python" / "cellfeed" / "_core.pyi"


def made_stubs() -> str:
    """The stubs of the module that is installed."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "_core.pyi"
        command = ["nanobind.stubgen", "--quiet", "-m", "cellfeed._core", "-o", str(path)]
        subprocess.run([sys.executable, "-m", *command], check=True, cwd=folder)
        return path.read_text()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail where they differ"
    )
    options = parser.parse_args()
    made, there = made_stubs(), STUBS.read_text() if STUBS.exists() else ""
    if not options.check:
        STUBS.write_text(made)
        return 0
    if made == there:
        print("stubs: python/cellfeed/_core.pyi is that of the compiled module")
        return 0
    lines = difflib.unified_diff(
        there.splitlines(), made.splitlines(), "in the tree", "of the module", lineterm=""
    )
    print("python/cellfeed/_core.pyi is out of date: run `make stubs`", *lines, sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
