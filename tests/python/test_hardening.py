"""What was built is built as distributions do it: read from the ELF files themselves."""

import pathlib
import struct
import subprocess

import pytest

import cellfeed
import cellfeed._core

PACKAGE = pathlib.Path(cellfeed.__file__).parent
BUILD = pathlib.Path(__file__).parents[2] / "build/wheel"
INSTALLED = [pathlib.Path(cellfeed._core.__file__), PACKAGE / "bin/cellfeed"]
BUILT = [*INSTALLED, *sorted(BUILD.glob("*_test")), *sorted(BUILD.glob("fuzz/*_fuzz"))]
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_FLAGS, DT_FLAGS_1 = 5, 6, 10, 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 0x8, 0x1, 0x08000000
EM_X86_64, EM_AARCH64 = 62, 183
EXECUTABLE = 1
ENDBR64, BTI_C = bytes.fromhex("f30f1efa"), bytes.fromhex("5f2403d5")
# orq $0, (%rsp): touches each page of the stack that a frame takes.
STACK_PROBE = bytes.fromhex("48830c2400")


class Elf:
    """A 64-bit little-endian ELF file: its segments, dynamic flags, imported names and code."""

    def __init__(self, path):
        self.data = path.read_bytes()
        assert self.data[:6] == b"\x7fELF\x02\x01", path
        self.machine = struct.unpack_from("<H", self.data, 18)[0]
        (offset,) = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        fields = [struct.unpack_from("<IIQQQQ", self.data, offset + i * size) for i in range(count)]
        self.segments = fields  # type, flags, offset, address, physical address, bytes in the file
        self.dynamic = dict(self._dynamic())

    def segment(self, kind):
        return next((fields for fields in self.segments if fields[0] == kind), None)

    def _dynamic(self):
        _, _, offset, _, _, size = self.segment(PT_DYNAMIC)
        return struct.iter_unpack("<QQ", self.data[offset : offset + size])

    def _offset(self, address):
        for kind, _, offset, begin, _, size in self.segments:
            if kind == PT_LOAD and begin <= address < begin + size:
                return offset + address - begin
        raise AssertionError(f"no segment holds {address:#x}")

    @property
    def imported(self):
        begin = self._offset(self.dynamic[DT_STRTAB])
        return set(self.data[begin : begin + self.dynamic[DT_STRSZ]].decode().split("\0"))

    @property
    def code(self):
        return b"".join(
            self.data[offset : offset + size]
            for kind, flags, offset, _, _, size in self.segments
            if kind == PT_LOAD and flags & EXECUTABLE
        )


@pytest.mark.parametrize("path", BUILT, ids=lambda path: path.name)
def test_addresses_are_bound_at_the_start_and_then_read_only(path):
    elf = Elf(path)
    assert elf.segment(PT_GNU_RELRO)
    assert elf.dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW or elf.dynamic[DT_FLAGS_1] & DF_1_NOW
    assert not elf.segment(PT_GNU_STACK)[1] & EXECUTABLE
    if path.suffix != ".so":
        assert elf.dynamic[DT_FLAGS_1] & DF_1_PIE


@pytest.mark.parametrize("path", BUILT, ids=lambda path: path.name)
def test_stacks_are_guarded(path):
    assert "__stack_chk_fail" in Elf(path).imported


@pytest.mark.parametrize("path", INSTALLED, ids=lambda path: path.name)
def test_copies_and_jumps_are_checked(path):
    elf = Elf(path)
    assert any(name.startswith("__") and name.endswith("_chk") for name in elf.imported)
    if elf.machine == EM_X86_64:
        assert elf.code.count(ENDBR64) > 1000
        assert elf.code.count(STACK_PROBE) > 10
    elif elf.machine == EM_AARCH64:
        assert elf.code.count(BTI_C) > 1000


def test_the_files_that_build_the_package_are_known_by_checksum():
    tools = pathlib.Path(__file__).parents[2] / "tools"
    lines = (tools / "build_requirements.txt").read_text().replace("\\\n", "").splitlines()
    known = {line.split("==")[0]: line for line in lines if not line.startswith("#")}
    constraints = (tools / "constraints.txt").read_text().split()
    for name in ("scikit-build-core", "nanobind", "pyarrow", "numpy", "packaging", "pathspec"):
        version = known[name].split()[0]
        assert version in constraints
        assert known[name].count("--hash=sha256:") >= 1
    assert "--require-hashes" in (tools / "setup.sh").read_text()


def test_the_reader_of_elf_files_agrees_with_readelf():
    # Of the package that has the linker too.
    done = subprocess.run(
        ["readelf", "--dynamic", "--wide", INSTALLED[1]], capture_output=True, check=True
    )
    assert b"BIND_NOW" in done.stdout
