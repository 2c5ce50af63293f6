"""Writes tools/build_requirements.txt: what the package is built with, each file by its checksum.

Versions are those of tools/constraints.txt. Run it after changing one; pip does the asking.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(__file__).parent
TARGET = TOOLS / "build_requirements.txt"
# The requirements of pyproject.toml's build-system, what those require, and what runs the build.
NAMES = (
    "scikit-build-core",
    "nanobind",
    "numpy",
    "pyarrow",
    "packaging",
    "pathspec",
    "cmake",
    "ninja",
)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
GLIBC = ("manylinux2014", "manylinux_2_17", "manylinux_2_26", "manylinux_2_27", "manylinux_2_28")
HEAD = """\
# What the package is built with, for pip with --require-hashes; made by pin_build_requirements.py.
# Wheels for Linux on x86-64 and 64-bit Arm, Python 3.11 to 3.14.
"""


def pinned() -> list[str]:
    """The requirements, each with its version."""
    versions = dict(
        line.split("==")
        for line in (TOOLS / "constraints.txt").read_text().split()
        if "==" in line and not line.startswith("#")
    )
    return [f"{name}=={versions[name]}" for name in NAMES]


def find_hashes(python: str, machine: str) -> dict[str, str]:
    """Requirement -> checksum of the wheel that pip takes there."""
    platforms = [word for name in GLIBC for word in ("--platform", f"{name}_{machine}")]
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps",
             "--report", report, "--target", folder, "--only-binary=:all:",
             "--python-version", python, *platforms, *pinned()],
            check=True,
        )  # fmt: skip
        found = {}
        for wheel in json.loads(report.read_text())["install"]:
            about = wheel["metadata"]
            name = about["name"].lower().replace("_", "-")
            hashes = wheel["download_info"]["archive_info"]["hashes"]
            found[f"{name}=={about['version']}"] = hashes["sha256"]
        return found


def main() -> None:
    hashes: dict[str, set[str]] = {requirement: set() for requirement in pinned()}
    for python in PYTHONS:
        for machine in MACHINES:
            for requirement, checksum in find_hashes(python, machine).items():
                hashes[requirement].add(checksum)
    lines = [HEAD]
    for requirement, checksums in hashes.items():
        options = [f"    --hash=sha256:{checksum}" for checksum in sorted(checksums)]
        lines.append(" \\\n".join([requirement, *options]) + "\n")
    TARGET.write_text("".join(lines))


if __name__ == "__main__":
    main()
