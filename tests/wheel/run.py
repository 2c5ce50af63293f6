"""Installs the wheels of dist/ as users would and uses them; prints a table of the installations.

usage: run.py [install] [beside] [public] [systems]      all by default

install   a new environment for each CPython here, with the dependencies alone; then without scipy
          or pandas, and with other releases of pandas and pyarrow
beside    other packages in the same process, among them three releases of pyarrow
public    tests of tests/python that need no torch, with the newest anndata, zarr and pandas
systems   Debian 11, 12 and 13 with only Python (as root, by debootstrap and chroot); then the tests
          of `public` in each
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "wheel_test"
ATLAS = WORK / "atlas"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

# Requirement -> what is imported. pyarrow 17 is the oldest release for numpy 2.
BESIDE = (
    ("pyarrow==17.*", "pyarrow.parquet"), ("pyarrow==22.*", "pyarrow.parquet"),
    ("pyarrow", "pyarrow.parquet"), ("datasets", "datasets"), ("lamindb", "lamindb"),
    ("tiledbsoma", "tiledbsoma"), ("h5py", "h5py"), ("zarr", "zarr"), ("polars", "polars"),
    ("duckdb", "duckdb"), ("torch==2.13.0", "torch"),
)  # fmt: skip
NEWEST = (
    "anndata", "scanpy", "zarr", "pandas", "numpy", "pyarrow", "h5py", "hdf5plugin", "pytest",
    "pytest-xdist", "hypothesis", "pyyaml", "jsonschema", "psutil", "xxhash", "flask",
)  # fmt: skip
PUBLIC = (
    "test_bad_input", "test_counts", "test_csc", "test_dense_h5ad", "test_filter",
    "test_genes", "test_h5ad_any_anndata", "test_h5ad_storage", "test_info", "test_joined_rows",
    "test_joined_var", "test_mtx", "test_open", "test_outputs", "test_parquet_cells",
    "test_shards", "test_splits", "test_strategies", "test_tenx",
    "test_unreadable_columns", "test_written_obs", "test_zarr",
)  # fmt: skip
# They need torch, a server or a compiler, or edit files as anndata 0.12 lays them out.
NOT_HERE = (
    "test_h5ad_storage.py::test_no_code_is_loaded_for_a_filter",
    "test_counts.py::test_every_reader_that_transforms_looks",
    "test_filter.py::test_label_strategies_and_workers_take_a_selection",
    "test_parquet_cells.py::test_tables_in_a_bucket",
    "test_bad_input.py::test_texts_that_are_not_utf8_are_named_and_those_of_other_columns_still_read",
    "test_h5ad_storage.py::test_strings_and_codes_read_however_they_are_filtered",
)
# Suite -> the suite whose Python is compiled there, where its own is older than 3.11.
SYSTEMS = {"bullseye": "trixie", "bookworm": None, "trixie": None}

VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
INSTALLED = """
import pathlib, sys, cellfeed, numpy, pandas, scipy
files = [file for file in pathlib.Path(cellfeed.__file__).parent.rglob("*") if file.is_file()]
print(f"numpy {numpy.__version__}, scipy {scipy.__version__}, pandas {pandas.__version__}")
print("%d.%d.%d" % sys.version_info[:3])
print(sum(file.stat().st_size for file in files) // 1000000, "MB")
"""


def run(*command: object, **options: Any) -> str:
    """Run a command that has to succeed; its output."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        output = done.stdout + done.stderr
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{output}")
    return str(done.stdout)


def pythons() -> Iterator[tuple[str, str]]:
    """Version and path of each CPython here that a wheel is for."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    for version in PYTHONS:
        installed = (pyenv / "versions").glob(f"{version}.*/bin/python")
        for candidate in (f"python{version}", *map(str, installed)):
            path = shutil.which(candidate)
            if path is None:
                continue
            found = subprocess.run([path, "-c", VERSION], capture_output=True, text=True)
            if found.stdout.strip() == version:
                yield version, path
                break


def wheel_for(version: str) -> pathlib.Path:
    """The wheel that pip would take for that CPython."""
    pattern = "*-cp311-cp311-*.whl" if version == "3.11" else "*-abi3-*.whl"
    (found,) = (ROOT / "dist").glob(pattern)
    return found


def environment(name: str, python: str, *packages: str) -> pathlib.Path:
    """A new environment with the wheel and these packages; its Python."""
    folder = WORK / "environments" / name
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", folder)
    inside = folder / "bin" / "python"
    wheel = wheel_for(run(python, "-c", VERSION).strip())
    run(inside, "-m", "pip", "install", "--quiet", wheel, *packages)
    return inside


def row(*cells: object) -> None:
    """A row of the table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def use(system: str, enter: list[str], python: object, seconds: float) -> None:
    """Run first_batch.py with a Python and print the row of its installation."""
    first = run(*enter, python, HERE / "first_batch.py", ROOT / "README.md", ATLAS).strip()
    packages, version, size = run(*enter, python, "-c", INSTALLED).splitlines()
    row(system, version, packages, size, f"{seconds:.0f} s", f"{first} s")


def test_install() -> None:
    """The wheel with its dependencies alone, then combinations that users have."""
    for version, python in pythons():
        begin = time.perf_counter()
        inside = environment(f"alone-{version}", python)
        use("this machine", [], inside, time.perf_counter() - begin)
    inside = environment("mixed", next(pythons())[1], "pandas<3", "pyarrow==25.*")
    code = (
        f"import cellfeed as cf; c = cf.open('{ATLAS}/*.h5ad'); c.read([0]).x; print(len(c.obs.df))"
    )
    assert run(inside, "-c", code).strip() == "2200"
    for missing in ("scipy", "pandas"):
        run(inside, "-m", "pip", "uninstall", "--quiet", "--yes", missing)
        done = subprocess.run([inside, "-c", code], capture_output=True, text=True, check=False)
        last = done.stderr.splitlines()[-1]
        assert last.endswith(f"{missing} is not installed: pip install {missing}"), last
        run(inside, "-m", "pip", "install", "--quiet", "pandas<3", "scipy")
    print("with pandas 2 and pyarrow 25: batches; without scipy or pandas: one line", flush=True)


def test_beside() -> None:
    """Other packages before and after cellfeed in one process."""
    version, python = next(pythons())
    for number, (package, module) in enumerate(BESIDE):
        inside = environment(f"beside-{number}", python, package)
        name = package.partition("=")[0]
        code = f"import importlib.metadata as m; print(m.version({name!r}))"
        found = run(inside, "-c", code).strip()
        run(inside, HERE / "beside.py", module, ATLAS)
        print(f"beside {name} {found} on CPython {version}: works", flush=True)


def use_publicly(system: str, enter: list[str], python: object) -> None:
    """Run the tests of the public interface with a Python that has NEWEST; print their summary."""
    code = "import anndata as a, pandas as p, zarr as z; print(*(m.__version__ for m in (a, p, z)))"
    found = run(*enter, python, "-c", code).strip()
    options = ["-q", "-n", "2", "-m", "not slow", "-p", "no:cacheprovider"]
    options += ["-W", "ignore::DeprecationWarning"]  # other packages about themselves
    options += [f"--deselect=tests/python/{name}" for name in NOT_HERE]
    tests = [ROOT / "tests" / "python" / f"{name}.py" for name in PUBLIC]
    done = run(*enter, "env", "-C", ROOT, python, "-m", "pytest", *options, *tests)
    last = done.strip().splitlines()[-1]
    print(f"{system}, anndata, pandas, zarr {found}: {last}", flush=True)


def test_public() -> None:
    """Tests of the public interface with the newest packages."""
    for version, python in pythons():
        if version == "3.11":  # make test
            continue
        inside = environment(f"public-{version}", python, *NEWEST)
        use_publicly(f"CPython {version}", [], inside)


def make_system(suite: str, python_of: str | None) -> tuple[pathlib.Path, list[str], str]:
    """A Debian with only Python: its folder, the command that enters it, and its Python."""
    root = WORK / "systems" / suite
    mirrors = run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages").split()
    debian = next(site for site in mirrors if site.rstrip("/").endswith("debian"))
    if not (root / "etc" / "debian_version").exists():
        run("debootstrap", "--variant=minbase", "--include=ca-certificates", suite, root, debian)
    # Certificates that this machine trusts, and how it finds names.
    for file in ("etc/ssl/certs/ca-certificates.crt", "etc/resolv.conf", "etc/hosts"):
        shutil.copy(f"/{file}", root / file)
    for name in ("dev", "proc"):
        if not os.path.ismount(root / name):
            run("mount", "--bind", f"/{name}", root / name)
    enter = [
        "chroot", str(root), "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "HOME=/root",
        "LANG=C.UTF-8", "PIP_CERT=/etc/ssl/certs/ca-certificates.crt",
    ]  # fmt: skip
    if python_of is None:
        run(*enter, "apt-get", "install", "-y", "-qq", "python3-venv")
        return root, enter, "/usr/bin/python3"
    python = "opt/python/bin/python3"
    if not (root / python).exists():
        script = f"""set -e
echo 'deb-src {debian} {python_of} main' > /etc/apt/sources.list.d/python.list
apt-get update -qq
apt-get install -y -qq --no-install-recommends gcc make libc6-dev libssl-dev libffi-dev \
  zlib1g-dev libbz2-dev liblzma-dev libexpat1-dev libmpdec-dev pkg-config dpkg-dev
cd /tmp
apt-get source -qq python3.13
cd python3.13-*/
./configure -q --prefix=/opt/python --with-system-expat --without-ensurepip
make -s -j{os.cpu_count()}
make -s install
"""
        run(*enter, "sh", "-c", script)
    return root, enter, f"/{python}"


def test_systems() -> None:
    """The wheel on releases of Debian that hold only Python."""
    if os.geteuid() != 0:
        print("systems: left out, as only root may make them", flush=True)
        return
    if shutil.which("debootstrap") is None:
        run("apt-get", "install", "-y", "-qq", "debootstrap")
    pip = WORK / "pip"
    run(sys.executable, "-m", "pip", "download", "--quiet", "--dest", pip, "pip")
    (pip_wheel,) = pip.glob("pip-*.whl")
    for suite, python_of in SYSTEMS.items():
        root, enter, python = make_system(suite, python_of)
        for source in (ROOT / "dist", pip, ROOT / "tests", ATLAS):
            shutil.copytree(source, root / str(source)[1:], dirs_exist_ok=True)
        for name in ("README.md", "pyproject.toml"):
            shutil.copy(ROOT / name, root / str(ROOT)[1:])
        shutil.rmtree(root / "opt" / "venv", ignore_errors=True)
        wheel = wheel_for(run(*enter, python, "-c", VERSION).strip())
        begin = time.perf_counter()
        run(*enter, python, "-m", "venv", "--without-pip", "/opt/venv")
        inside = "/opt/venv/bin/python"
        run(*enter, inside, pip_wheel / "pip", "install", "--quiet", wheel)
        release = (root / "etc" / "debian_version").read_text().strip()
        use(f"Debian {release}", enter, inside, time.perf_counter() - begin)
        run(*enter, inside, pip_wheel / "pip", "install", "--quiet", *NEWEST)
        use_publicly(f"Debian {release}", enter, inside)


def main() -> None:
    """Run the parts that are named."""
    if not list((ROOT / "dist").glob("*.whl")):
        raise SystemExit("no wheel in dist/: run make wheel first")
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    from test_readme import write_atlas_file

    shutil.rmtree(ATLAS, ignore_errors=True)
    ATLAS.mkdir(parents=True)
    write_atlas_file(ATLAS / "one.h5ad", 1500, seed=1)
    write_atlas_file(ATLAS / "two.h5ad", 700, seed=2)
    row("system", "CPython", "with", "installed", "pip install", "import to first batch")
    row(*["---"] * 6)
    for part in sys.argv[1:] or ("install", "beside", "public", "systems"):
        globals()[f"test_{part}"]()


if __name__ == "__main__":
    main()
