"""Prints what pip installs before the package is built: what it needs, and what extras name."""

import pathlib
import re
import sys
import tomllib

PYPROJECT = pathlib.Path(__file__).parent.parent / "pyproject.toml"


def expand(requirements: list[str], extras: dict[str, list[str]]) -> list[str]:
    """Replaces ``cellfeed[extra, ...]`` by what those extras stand for."""
    flat: list[str] = []
    for requirement in requirements:
        own = re.fullmatch(r"cellfeed\[([\w,\s]+)\]", requirement)
        if own is None:
            flat.append(requirement)
            continue
        for extra in own[1].split(","):
            flat += expand(extras[extra.strip()], extras)
    return flat


def main(wanted: list[str]) -> None:
    table = tomllib.loads(PYPROJECT.read_text())
    project = table["project"]
    extras = project["optional-dependencies"]
    names = table["build-system"]["requires"] + project["dependencies"]
    for extra in wanted:
        names += expand(extras[extra], extras)
    print("\n".join(dict.fromkeys(names)))


if __name__ == "__main__":
    main(sys.argv[1:])
