"""Fails where a document names what is not there: a path, a link, a heading, a layer, an arrow."""

import argparse
import os
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator

# Where readers of the package index find the project's files.
HERE = "https://github.com/cellfeed/cellfeed/blob/main/"
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]\n]+\]: (\S+)$", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# Paths from the root, in documents and in comments.
TOP = "benchmarks|bindings|cmake|docs|examples|fuzz|python|src|tests|tools"
PATH = re.compile(rf"(?<![\w./<-])((?:{TOP})/[\w./-]*\w\.(?:cc|h|md|py|sh|toml|txt|cmake))\b")
ARROWS = re.compile(r"^([\w]+) +-> ([a-z0-9_ ]+)$", re.MULTILINE)
FOLDER = re.compile(r"^  ([\w]+)/ ", re.MULTILINE)


def slug(heading: str) -> str:
    """The anchor that a heading has on the usual code hosts."""
    text = re.sub(r"[`*_]", "", heading.lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def check_links(root: pathlib.Path, page: pathlib.Path) -> list[str]:
    """Links that lead nowhere; relative ones of the README, which package indexes show too."""
    faults = []
    is_readme = page == root / "README.md"
    for inline, defined in LINK.findall(FENCE.sub("", page.read_text())):
        target = inline or defined
        if target.startswith(HERE):
            name, _, anchor = target.removeprefix(HERE).partition("#")
            other = root / name
        elif "://" in target or target.startswith("mailto:"):
            continue
        else:
            name, _, anchor = target.partition("#")
            other = (page.parent / name) if name else page
            if name and is_readme:
                faults.append(f"README.md: begin the link with {HERE}: {target}")
        if not other.exists():
            faults.append(f"{page.relative_to(root)}: the link leads nowhere: {target}")
        elif anchor and anchor not in map(slug, HEADING.findall(other.read_text())):
            faults.append(f"{page.relative_to(root)}: there is no such heading: {target}")
    return faults


def check_paths(root: pathlib.Path, file: pathlib.Path) -> list[str]:
    """Paths from the root, named in a file, that do not exist."""
    return [
        f"{file.relative_to(root)}: names {name}, which is not there"
        for name in sorted(set(PATH.findall(file.read_text())))
        if not (root / name).exists()
    ]


def check_architecture(root: pathlib.Path) -> list[str]:
    """Folders and arrows of the map against src/cellfeed and layers.toml."""
    text = (root / "ARCHITECTURE.md").read_text()
    allowed = tomllib.loads((root / "tools" / "layers.toml").read_text())["layers"]
    there = {path.name for path in (root / "src" / "cellfeed").iterdir() if path.is_dir()}
    listed = set(FOLDER.findall(text[: text.index("bindings/ ")]))
    faults = [f"ARCHITECTURE.md: does not list src/cellfeed/{name}" for name in there - listed]
    faults += [f"ARCHITECTURE.md: lists src/cellfeed/{name}" for name in listed - there]
    arrows = {name: set(others.split()) for name, others in ARROWS.findall(text)}
    for name in sorted(there & set(allowed) - {"base"}):
        rule = set(allowed[name]) & there
        if arrows.get(name) != rule:
            faults.append(f"ARCHITECTURE.md: the arrows of {name} are: {' '.join(sorted(rule))}")
    return faults


def find_files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Every file but what was built; tests make files of their own, and name them."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in {"build", "tests"} and f[0] != ".")
        yield from (pathlib.Path(folder) / name for name in sorted(names))


def main() -> int:
    """Check the tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = pathlib.Path(__file__).parents[1]
    parser.add_argument("--root", type=pathlib.Path, default=default)
    root = parser.parse_args().root
    faults = check_architecture(root)
    for file in find_files(root):
        if file.suffix == ".md":
            faults += check_links(root, file)
        if file.suffix in {".md", ".cc", ".h", ".py", ".sh"} or file.name == "Makefile":
            faults += check_paths(root, file)
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print("check_map: documents name what is there")
    return min(len(faults), 1)


if __name__ == "__main__":
    sys.exit(main())
