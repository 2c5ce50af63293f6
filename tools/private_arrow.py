"""Copies pyarrow's libarrow and libparquet under other names, so that no other package shares them.

usage: private_arrow.py DIRECTORY      prints the paths of the copies, separated by ";"

A process may hold any release of pyarrow besides cellfeed. Its loader takes libraries of one name
for one library, and it merges symbols of the binding STB_GNU_UNIQUE over all libraries. The copies
therefore have names of their own and no such symbol. Of what else they define, only Arrow's and
Parquet's own symbols stay visible: the OpenSSL inside libparquet is nobody else's.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

# In the place of the old names, so not longer than they are.
NAMES = {"libarrow.so": "libcfarrow.so", "libparquet.so": "libcfparquet.so"}
NAMESPACES = (b"5arrow", b"7parquet")

DT_NULL, DT_NEEDED, DT_SONAME = 0, 1, 14
SHT_DYNAMIC, SHT_DYNSYM = 6, 11
STB_GLOBAL, STB_GNU_UNIQUE = 1, 10
STV_HIDDEN = 2
SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size


class Library:
    """A shared library, little-endian ELF of 64 bits, that is changed in place."""

    def __init__(self, path: Path) -> None:
        self.data = bytearray(path.read_bytes())
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise SystemExit(f"{path}: not a little-endian ELF file of 64 bits")
        (self._sections_at,) = struct.unpack_from("<Q", self.data, 0x28)
        self._section_size, self._n_sections = struct.unpack_from("<HH", self.data, 0x3A)
        self._strings_at = self._section(self._section_of(SHT_DYNSYM)[1])[0]

    def _section(self, number: int) -> tuple[int, int, int]:
        """Offset, size and linked section."""
        at = self._sections_at + number * self._section_size
        offset, size, link = struct.unpack_from("<QQI", self.data, at + 24)
        return offset, size, link

    def _section_of(self, kind: int) -> tuple[int, int, int]:
        for number in range(self._n_sections):
            at = self._sections_at + number * self._section_size
            if struct.unpack_from("<I", self.data, at + 4)[0] == kind:
                offset, size, link = self._section(number)
                return offset, link, size
        raise SystemExit(f"no section of type {kind}")

    def text(self, name: int) -> bytes:
        """A text of .dynstr."""
        begin = self._strings_at + name
        return bytes(self.data[begin : self.data.index(0, begin)])

    def symbols(self) -> Iterator[tuple[int, bytes, int, int, int]]:
        """Place in the file, name, binding, other and section of each dynamic symbol."""
        offset, _, size = self._section_of(SHT_DYNSYM)
        for at in range(offset + SYMBOL.size, offset + size, SYMBOL.size):
            name, info, other, section, _, _ = SYMBOL.unpack_from(self.data, at)
            yield at, self.text(name), info >> 4, other, section

    def undefined(self) -> set[bytes]:
        """Names of symbols that other libraries define."""
        return {name for _, name, _, _, section in self.symbols() if section == 0}

    def keep_private(self, used_by_others: set[bytes]) -> None:
        """Hide all but Arrow's own symbols and those used by others; make unique ones ordinary."""
        for at, name, binding, other, section in self.symbols():
            if section == 0:
                continue
            if binding == STB_GNU_UNIQUE:
                kind = self.data[at + 4] & 0xF
                self.data[at + 4] = STB_GLOBAL << 4 | kind
            if name not in used_by_others and not any(part in name for part in NAMESPACES):
                self.data[at + 5] = other & ~3 | STV_HIDDEN

    def rename(self) -> None:
        """Give the library, and those that it needs, their new names."""
        offset, _, size = self._section_of(SHT_DYNAMIC)
        starts = {SYMBOL.unpack_from(self.data, at)[0] for at, *_ in self.symbols()}
        for at in range(offset, offset + size, 16):
            tag, name = struct.unpack_from("<QQ", self.data, at)
            if tag == DT_NULL:
                break
            if tag not in (DT_NEEDED, DT_SONAME):
                continue
            old = self.text(name)
            new = NAMES.get(old.decode().rpartition(".")[0])
            if new is None:
                continue
            if len(new) > len(old) or any(name <= start < name + len(old) for start in starts):
                raise SystemExit(f"{old.decode()} cannot be renamed in place")
            begin = self._strings_at + name
            self.data[begin : begin + len(old)] = new.encode().ljust(len(old), b"\0")


def write_if_new(path: Path, data: bytes) -> None:
    """Replace a file that differs; a program that runs keeps the one that it has mapped."""
    if path.is_file() and path.read_bytes() == data:
        return
    written = path.with_suffix(".new")
    written.write_bytes(data)
    written.replace(path)


def main() -> None:
    """Copy both libraries."""
    import pyarrow

    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    libraries = {}
    for old, new in NAMES.items():
        (found,) = (Path(pyarrow.__file__).parent).glob(f"{old}.*")
        libraries[new] = Library(found)
    arrow, parquet = libraries.values()
    arrow.keep_private(parquet.undefined())
    parquet.keep_private(set())
    for new, library in libraries.items():
        library.rename()
        write_if_new(target / new, library.data)
    print(";".join(str(target / name) for name in NAMES.values()))


if __name__ == "__main__":
    main()
