"""Windows of a series beside memcpy of the same windows, numpy.memmap and files opened each time.

python benchmarks/series/windows.py [--entities N] [--rows N] [--batches N] [--rounds N]
                                     [--threads N] [--short]

Windows of 60 rows x 20 features, batches of 512, true random, warm; then the build beside pandas
and scikit-learn in two passes over the same files. Rounds alternate; a ratio is that of one round,
and the median of the rounds is printed with the smallest and largest.
"""

import argparse
import ctypes
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pandas as pd
import torch

import cellfeed as cf
from cellfeed.series import SeriesDataset, build_series

WINDOW, N_FEATURES, BATCH = 60, 20, 512
FEATURES = [f"f{number}" for number in range(N_FEATURES)]
OURS = """
import sys
from cellfeed.series import build_series
build_series(sys.argv[1], sys.argv[2], entity="e", time="t")
"""
# What the two passes of a script do: fit, then transform and write at known offsets.
PANDAS = """
import pathlib, sys
import numpy as np, pandas as pd
from sklearn.preprocessing import StandardScaler
files = sorted(pathlib.Path(sys.argv[1]).glob("*"))
names = [f"f{n}" for n in range(20)]
scaler, n_rows = StandardScaler(), 0
read = lambda f: pd.read_csv(f) if f.suffix == ".csv" else pd.read_parquet(f)
for file in files:
    frame = read(file)
    scaler.partial_fit(frame[names])
    n_rows += len(frame)
out = np.memmap(sys.argv[2], "float32", "w+", shape=(n_rows, 20))
at = 0
for file in files:
    frame = read(file).sort_values(["e", "t"], kind="stable")
    out[at : at + len(frame)] = scaler.transform(frame[names])
    at += len(frame)
out.flush()
"""
IMPORTS = {OURS: "import cellfeed.series", PANDAS: "import pandas, sklearn.preprocessing, pyarrow"}


def write_files(folder: pathlib.Path, n_entities: int, n_rows: int, suffix: str) -> None:
    """8 files, each with a share of the entities."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for number, entities in enumerate(np.array_split(np.arange(n_entities), 8)):
        values = random.normal(size=(len(entities) * n_rows, N_FEATURES)).astype(np.float32)
        frame = pd.DataFrame(values, columns=FEATURES)
        frame["e"], frame["t"] = (
            np.repeat(entities, n_rows),
            np.tile(np.arange(n_rows), len(entities)),
        )
        if suffix == "csv":
            frame.to_csv(folder / f"{number}.csv", index=False)
        else:
            frame.to_parquet(folder / f"{number}.parquet", index=False)


class MemmapDataset(torch.utils.data.Dataset):
    """One flat file mapped by numpy, windows found by searchsorted, sliced one by one."""

    def __init__(self, path: pathlib.Path, n_entities: int, n_rows: int) -> None:
        self.rows = np.memmap(path, "float32", "r").reshape(-1, N_FEATURES)
        self.ends = np.cumsum(np.full(n_entities, n_rows - WINDOW))
        self.n_rows = n_rows

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int):
        entity = np.searchsorted(self.ends, index, side="right")
        begin = entity * self.n_rows + index - (self.ends[entity - 1] if entity else 0)
        end = begin + WINDOW
        x, y = self.rows[begin:end].copy(), self.rows[end : end + 1].copy()
        return torch.from_numpy(x), torch.from_numpy(y)


class LazyDataset(MemmapDataset):
    """Opens the file of a window's entity each time."""

    def __init__(self, files: list[pathlib.Path], n_entities: int, n_rows: int) -> None:
        self.ends = np.cumsum(np.full(n_entities, n_rows - WINDOW))
        self.n_rows = n_rows
        self.files, self.per_file = files, -(-n_entities // len(files))

    def __getitem__(self, index: int):
        entity = int(np.searchsorted(self.ends, index, side="right"))
        frame = pd.read_parquet(self.files[min(entity // self.per_file, 7)], columns=FEATURES)
        values = frame.to_numpy()[:WINDOW].copy()
        return torch.from_numpy(values), torch.from_numpy(values[:1].copy())


MEMCPY = r"""
#include <pthread.h>
#include <string.h>
struct job { const char *from; char *out; const long *rows; long n, row_bytes, bytes; };
static void *copy(void *p) {
  struct job *j = p;
  for (long i = 0; i < j->n; i++)
    memcpy(j->out + i * j->bytes, j->from + j->rows[i] * j->row_bytes, j->bytes);
  return 0;
}
void gather(const char *from, char *out, const long *rows, long n, long row_bytes, long bytes,
            long threads) {
  pthread_t thread[64];
  struct job job[64];
  for (long k = 0; k < threads; k++) {
    long a = n * k / threads, b = n * (k + 1) / threads;
    job[k] = (struct job){from, out + a * bytes, rows + a, b - a, row_bytes, bytes};
    if (k) pthread_create(&thread[k], 0, copy, &job[k]);
  }
  copy(&job[0]);
  for (long k = 1; k < threads; k++) pthread_join(thread[k], 0);
}
"""


def compiled_gather(folder: pathlib.Path):
    """memcpy of windows by threads, without anything else."""
    source, library = folder / "gather.c", folder / "gather.so"
    source.write_text(MEMCPY)
    command = ["cc", "-O3", "-shared", "-fPIC", "-pthread", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library)).gather


def memcpy_rate(gather, path: pathlib.Path, n_rows: int, n: int, threads: int) -> float:
    """Batches a second of the same bytes from windows at random places of the mapped file."""
    source = np.memmap(path, np.float32, "r")
    source[::1024].sum()  # every page
    out = np.empty(BATCH * (WINDOW + 1) * N_FEATURES, np.float32)
    total = len(source) // N_FEATURES
    entity, row = np.divmod(
        np.random.default_rng(1).integers(0, total // n_rows * (n_rows - WINDOW), (n, BATCH)),
        n_rows - WINDOW,
    )
    begin = time.perf_counter()
    for places in entity * n_rows + row:
        gather(
            ctypes.c_void_p(source.ctypes.data), ctypes.c_void_p(out.ctypes.data),
            ctypes.c_void_p(places.ctypes.data), ctypes.c_long(BATCH),
            ctypes.c_long(N_FEATURES * 4), ctypes.c_long((WINDOW + 1) * N_FEATURES * 4),
            ctypes.c_long(threads),
        )  # fmt: skip
    return n / (time.perf_counter() - begin)


def rate(batches, n: int) -> float:
    """Batches a second, the first not counted."""
    iterator = iter(batches)
    next(iterator)
    begin, done = time.perf_counter(), 0
    for _ in range(n):
        if next(iterator, None) is None:
            break
        done += 1
    seconds = time.perf_counter() - begin
    del iterator
    return done / seconds


def sampled(ds, n: int, **options):
    order = np.random.default_rng(2).integers(0, len(ds), (n + 1) * BATCH).tolist()
    return torch.utils.data.DataLoader(ds, batch_size=BATCH, sampler=order, **options)


def run(code: str, *arguments) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True)
    return time.perf_counter() - begin


def work_seconds(code: str, *arguments) -> float:
    """Without what importing takes."""
    return max(0.01, run(code, *arguments) - run(IMPORTS[code]))


def say(what: str, ratios: list[float], detail: str) -> None:
    low, high = min(ratios), max(ratios)
    print(f"{what:<42} {statistics.median(ratios):8.2f}x ({low:.2f} to {high:.2f})   {detail}")


def measure_windows(folder: pathlib.Path, files: pathlib.Path, options) -> None:
    ds = SeriesDataset(folder, window=WINDOW)
    begin = time.perf_counter()
    SeriesDataset(folder, window=WINDOW)[len(ds) // 2]
    print(f"start: {time.perf_counter() - begin:.4f} s for {len(ds):,} windows")
    values = folder / "all_features.mmap"
    memmap = MemmapDataset(values, options.entities, options.rows)
    lazy = LazyDataset(sorted(files.iterdir()), options.entities, options.rows)
    ratios: dict[str, list[float]] = {}
    detail = {}
    few = max(2, options.batches // 20)
    gather = compiled_gather(folder.parent)
    ds.arrays(np.arange(0, len(ds), 10))  # every page
    for _ in range(options.rounds):
        loader = cf.series.SeriesLoader(
            ds, cf.BlockShuffling(1), batch_size=BATCH, threads=options.threads
        )
        ours = rate(loader, min(options.batches, len(loader) - 1))
        mapped = sampled(ds, options.batches // 4)
        others = {
            "memcpy of the same windows, same threads": memcpy_rate(
                gather, values, options.rows, options.batches, options.threads
            ),
            "our data set in a DataLoader, 0 workers": rate(mapped, options.batches // 4),
            "numpy.memmap in a Dataset, 2 workers": rate(sampled(memmap, few, num_workers=2), few),
            "files opened when asked for, per window": rate(
                torch.utils.data.DataLoader(lazy, batch_size=2, sampler=[0, 9, 5, 7]), 1
            ) * 2 / BATCH,
        }  # fmt: skip
        for name, other in others.items():
            ratios.setdefault(name, []).append(ours / other)
            detail[name] = f"{ours:,.0f} batches/s beside {other:,.2f}"
    for name, values_of in ratios.items():
        say(name, values_of, detail[name])


def measure_build(work: pathlib.Path, files: pathlib.Path, rounds: int) -> None:
    ratios = []
    for _ in range(rounds):
        shutil.rmtree(work / "built", ignore_errors=True)
        ours = work_seconds(OURS, files, work / "built")
        theirs = work_seconds(PANDAS, files, work / "rival.mmap")
        ratios.append(theirs / ours)
    for made in (work / "built" / "all_features.mmap",):
        ours_values = np.fromfile(made, np.float32)
        rival = np.fromfile(work / "rival.mmap", np.float32)
        np.testing.assert_allclose(ours_values, rival, rtol=1e-4, atol=1e-5)
    kind = next(files.iterdir()).suffix[1:]
    say(
        f"build of {kind} files: pandas, scikit-learn",
        ratios,
        f"{ours:.2f} s, theirs {theirs:.2f} s",
    )


parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
parser.add_argument("--entities", type=int, default=2000)
parser.add_argument("--rows", type=int, default=1000)
parser.add_argument("--batches", type=int, default=1000)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--threads", type=int, default=2, help="that copy, ours and memcpy's")
parser.add_argument("--short", action="store_true", help="only long enough to see that it runs")
options = parser.parse_args()
if options.short:
    options.entities, options.rows, options.batches, options.rounds = 40, 200, 8, 1
with tempfile.TemporaryDirectory() as name:
    work = pathlib.Path(name)
    for suffix in ("parquet", "csv"):
        n = options.entities if suffix == "parquet" else max(8, options.entities // 4)
        write_files(work / suffix, n, options.rows, suffix)
    build_series(work / "parquet", work / "series", entity="e", time="t")
    measure_windows(work / "series", work / "parquet", options)
    for suffix in ("parquet", "csv"):
        measure_build(work, work / suffix, options.rounds)
