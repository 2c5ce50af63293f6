"""Opening: 20,000 cells beside 2,000,000 in every encoding, 1,000 files, 10,000 shards at once.

python benchmarks/opening.py [--small N] [--large N] [--files N] [--shards N] [--rounds N]

Small and large files are opened in turn, warm; the ratio is that of the medians. Memory is what a
large file keeps in use besides pages of files, once it is open and once a row was read. The many
files are opened in a process of its own, beside anndata's own reader of the same files, backed;
so are the shards, of 1,000 cells and 20,000 genes, with 1,024 descriptors and batches read.
"""

import argparse
import gc
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import anndata
import h5py
import numpy as np
import pandas as pd
import scipy.sparse as sp

import cellfeed as cf

GENES, ENTRIES = 2_000, 8
KEPT = 16
ENCODINGS = {
    "CSR, plain": {},
    "CSR, gzip": {"compression": "gzip", "compression_opts": 1},
    "CSR, lzf": {"compression": "lzf"},
    "CSR, chunks": {"chunks": True},
    "CSC, rows in the cache": {},
    "dense, gzip": {"compression": "gzip", "compression_opts": 1},
    "obs alone": {},
}
MANY = """
import glob, sys, time
if sys.argv[2] == "anndata":
    import anndata
else:
    import cellfeed as cf
def memory(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) >> 10
paths, rival = sorted(glob.glob(sys.argv[1] + "/*.h5ad")), sys.argv[2] == "anndata"
before, start = memory("RssAnon"), time.perf_counter()
kept = [anndata.read_h5ad(p, backed="r") for p in paths] if rival else cf.open(paths)
print(f"{time.perf_counter() - start:.2f} s, RSS {memory('VmRSS')} MB, of which the files took "
      f"{memory('RssAnon') - before} MB besides pages of files")
"""

SHARDS = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
import cellfeed as cf
def memory(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) >> 10
start = time.perf_counter()
cells = cf.open(sys.argv[1])
opened = time.perf_counter()
taken = f"{memory('VmRSS')} MB, {memory('RssAnon')} MB of it besides pages of files"
loader = cf.Loader(cells, cf.BlockShuffling(block_size=1), batch_size=1024, seed=1)
n = 0
for batch, _ in zip(loader, range(40)):
    n += len(batch)
read = time.perf_counter()
print(f"open {opened - start:.2f} s, RSS {taken}; {n:,} random cells {read - opened:.2f} s, "
      f"RSS {memory('VmRSS')} MB, {memory('RssAnon')} MB of it besides")
"""


def write_cells(path: pathlib.Path, n_cells: int) -> None:
    """obs with a column of labels, var, no matrix."""
    obs = pd.DataFrame({"n": np.arange(n_cells)}, index=np.arange(n_cells).astype(str))
    var = pd.DataFrame(index=[f"gene{i}" for i in range(GENES)])
    anndata.AnnData(obs=obs, var=var).write_h5ad(path)


def add_matrix(path: pathlib.Path, encoding: str, n_cells: int, storage: dict) -> None:
    """ENTRIES values in each row; of dense ones 32 columns wide."""
    random = np.random.default_rng(0)
    with h5py.File(path, "r+") as file:
        if encoding.startswith("obs"):
            return
        if encoding.startswith("dense"):
            del file["var"]
            anndata.io.write_elem(file, "var", pd.DataFrame(index=list(map(str, range(32)))))
            x = file.create_dataset(
                "X", (n_cells, 32), "f4", chunks=(min(1024, n_cells), 32), **storage
            )
            x[...] = random.integers(0, 9, (n_cells, 32))
            x.attrs["encoding-type"], x.attrs["encoding-version"] = "array", "0.2.0"
            return
        columns = np.sort(random.integers(0, GENES // ENTRIES, (n_cells, ENTRIES), "i4"))
        columns += np.arange(ENTRIES, dtype="i4") * (GENES // ENTRIES)
        ends = np.arange(n_cells + 1) * ENTRIES
        values = random.integers(1, 9, n_cells * ENTRIES).astype("f4")
        x = sp.csr_matrix((values, columns.reshape(-1), ends), (n_cells, GENES))
        if encoding.startswith("CSC"):
            x = x.tocsc()
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["encoding-version"] = (
            f"{x.format}_matrix",
            "0.1.0",
        )
        group.attrs["shape"] = x.shape
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(x, name), **storage)


def anonymous_memory() -> int:
    """Bytes of this process that are no pages of files."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))


def open_alone(path: pathlib.Path, encoding: str) -> cf.CellCollection:
    return cf.open(path, layer=None if encoding.startswith("obs") else "X")


def measure(folder: pathlib.Path, encoding: str, storage: dict, options) -> None:
    paths = []
    for n_cells in (options.small, options.large):
        paths.append(folder / f"{n_cells}.h5ad")
        shutil.copy(folder / f"cells-{n_cells}.h5ad", paths[-1])
        add_matrix(paths[-1], encoding, n_cells, storage)
        open_alone(paths[-1], encoding)
    times: list[list[float]] = [[], []]
    gc.collect()
    gc.disable()
    for _ in range(options.rounds):
        for path, taken in zip(paths, times, strict=True):
            start = time.perf_counter()
            open_alone(path, encoding)
            taken.append(time.perf_counter() - start)
    gc.enable()
    before = anonymous_memory()
    kept = [open_alone(paths[1], encoding) for _ in range(KEPT)]
    memory = [(anonymous_memory() - before) / KEPT]
    for cells in kept:
        cells.read(len(cells) // 2)
    memory.append((anonymous_memory() - before) / KEPT)
    small, large = map(statistics.median, times)
    print(
        f"{encoding:24} {small * 1e3:8.2f} ms {large * 1e3:8.2f} ms {large / small:8.2f}"
        f" {memory[0] / 1e3:12,.0f} KB {memory[1] / 1e3:12,.0f} KB",
        flush=True,
    )
    for path in paths:
        path.unlink()
        shutil.rmtree(f"{path}.cellfeed", ignore_errors=True)


def said_by(program: str, *arguments: object) -> str:
    """The last line that a program of its own prints."""
    command = [sys.executable, "-W", "ignore", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def measure_many(folder: pathlib.Path, n_files: int) -> None:
    many = folder / "many"
    many.mkdir()
    write_cells(many / "0.h5ad", 1000)
    add_matrix(many / "0.h5ad", "CSR", 1000, {})
    for number in range(1, n_files):
        shutil.copy(many / "0.h5ad", many / f"{number}.h5ad")
    print(f"{n_files:,} files of 1,000 cells")
    for reader in ("cellfeed", "anndata", "cellfeed", "anndata"):
        title = "AnnData backed" if reader == "anndata" else reader
        print(f"{title:24} {said_by(MANY, many, reader)}", flush=True)


def measure_shards(folder: pathlib.Path, n_shards: int) -> None:
    random = np.random.default_rng(0)
    n_cells, n_genes = min(n_shards, 100) * 1_000, 20_000
    columns = np.sort(random.integers(0, n_genes // ENTRIES, (n_cells, ENTRIES), "i4"))
    columns += np.arange(ENTRIES, dtype="i4") * (n_genes // ENTRIES)
    values = random.integers(1, 9, n_cells * ENTRIES).astype("f4")
    ends = np.arange(n_cells + 1) * ENTRIES
    var = pd.DataFrame(index=[f"gene{i}" for i in range(n_genes)])
    obs = pd.DataFrame({"n": np.arange(n_cells)}, index=np.arange(n_cells).astype(str))
    x = sp.csr_matrix((values, columns.reshape(-1), ends), (n_cells, n_genes))
    n_shards = n_shards // 100 * 100 or n_shards
    inputs = [folder / f"part{i}.h5ad" for i in range(n_shards * 1_000 // n_cells)]
    anndata.AnnData(x, obs=obs, var=var).write_h5ad(inputs[0])
    for path in inputs[1:]:
        shutil.copy(inputs[0], path)
    dataset = folder / "shards"
    cf.convert_to_shards(inputs, dataset, shard_size=1_000)
    for _ in range(3):
        print(f"{f'{n_shards:,} shards':24} {said_by(SHARDS, dataset)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=int, default=20_000)
    parser.add_argument("--large", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--shards", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for n_cells in (options.small, options.large):
            write_cells(folder / f"cells-{n_cells}.h5ad", n_cells)
        print(
            f"{'':24} {options.small:,} cells, {options.large:,} cells, ratio; memory of one of the"
            " large: open, a row read"
        )
        for encoding, storage in ENCODINGS.items():
            measure(folder, encoding, storage, options)
        measure_many(folder, options.files)
        measure_shards(folder, options.shards)


if __name__ == "__main__":
    main()
