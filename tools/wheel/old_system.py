"""Makes stand-ins of this machine's C and C++ run-time libraries that define only old symbols.

usage: old_system.py DIRECTORY

What is linked against these libraries runs wherever glibc 2.28 and the libstdc++ of GCC 8 or newer
are, the oldest that manylinux_2_28 allows. A symbol has its newest version that is old enough; what
came later is undefined and has to be linked statically (libstdc++.a, tools/wheel/newer_symbols.c).
The stand-ins hold no code and are not part of the wheel.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LIBRARIES = (
    "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
    "ld-linux-x86-64.so.2", "libstdc++.so.6", "libgcc_s.so.1",
)  # fmt: skip
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}

# Num: Value Size Type Bind Vis Ndx Name
SYMBOL = re.compile(
    r"\s*\d+: (?P<place>\w+)\s+(?P<size>\S+) (?P<kind>\w+)\s+(?P<binding>GLOBAL|WEAK|UNIQUE)\s+"
    r"DEFAULT\s+(?P<section>\w+) (?P<name>[^@\s]+)@@?(?P<version>\S+)"
)
SECTIONS = {"OBJECT": ".data", "TLS": '.tdata,"awT",@progbits'}
KINDS = {"OBJECT": "object", "TLS": "tls_object"}


def is_old(version: str) -> bool:
    """Whether manylinux_2_28 has it."""
    family, _, number = version.partition("_")
    if family not in NEWEST or not re.fullmatch(r"[\d.]+", number):
        return version == "CXXABI_TM_1"
    return tuple(map(int, number.split("."))) <= NEWEST[family]


def order(version: str) -> tuple[int, ...]:
    """Later versions are larger."""
    return tuple(map(int, re.findall(r"\d+", version)))


def old_symbols(path: str) -> dict[str, re.Match[str]]:
    """Name -> the newest of its versions that is old enough."""
    table = subprocess.run(
        ["readelf", "--dyn-syms", "--wide", path], check=True, capture_output=True, text=True
    ).stdout
    found: dict[str, re.Match[str]] = {}
    for line in table.splitlines():
        symbol = SYMBOL.match(line)
        if symbol is None or symbol["section"] in ("UND", "ABS") or not is_old(symbol["version"]):
            continue
        other = found.get(symbol["name"])
        if other is None or order(other["version"]) < order(symbol["version"]):
            found[symbol["name"]] = symbol
    return found


def make(library: str, target: Path) -> None:
    """Write one stand-in."""
    path = subprocess.run(
        ["g++", f"-print-file-name={library}"], check=True, capture_output=True, text=True
    ).stdout.strip()
    lines = []
    symbols = old_symbols(path).values()
    for number, symbol in enumerate(symbols):
        label = f"stand_in_{number}"
        size = max(int(symbol["size"], 0), 1)
        lines += [
            f".section {SECTIONS.get(symbol['kind'], '.text')}",
            f".{'weak' if symbol['binding'] == 'WEAK' else 'globl'} {label}",
            f".type {label},@{KINDS.get(symbol['kind'], 'function')}",
            f".size {label},{size}",
            f"{label}: .skip {size}",
            f".symver {label},{symbol['name']}@@{symbol['version']}",
        ]
    versions = sorted({symbol["version"] for symbol in symbols}, key=order)
    script = target / f"{library}.map"
    local = " local: stand_in_*; " if versions else ""
    script.write_text(
        "\n".join(f"{version} {{{local if i == 0 else ''}}};" for i, version in enumerate(versions))
    )
    source = target / f"{library}.s"
    source.write_text("\n".join(lines) + "\n")
    subprocess.run(
        ["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{library}", f"-Wl,--version-script={script}",
         "-o", target / library, source], check=True,
    )  # fmt: skip


def main() -> None:
    """Write all."""
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for library in LIBRARIES:
        make(library, target)


if __name__ == "__main__":
    main()
