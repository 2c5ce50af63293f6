"""Many windows: how soon the first is there, what a training process holds, and windows of a disk.

python benchmarks/series/scale.py [--entities N] [--rows N] [--cold-rows N] [--short]

1. Start: opening 1e9 windows over 100,000 entities and cutting one, in a process of its own, the
   fastest of five. The file of values is sparse, which changes nothing of what is opened.
2. Memory: what a process that trains a small model from a loader holds, by what the kernel says of
   its own pages (RssAnon) and of mapped files (RssFile), beside a process that only imports torch
   and this library.
3. Cold: batches of windows at random places of a file whose pages the system was told to forget, so
   that each window is read from the disk, as of a file that is larger than memory; beside the most
   that the disk gives: reads of as many bytes at such places by 16, 64 and 256 threads of a program
   in C, the fastest of which counts. Both ways of reading are measured: past the system's cache is
   how rows are read that take more memory than there is. --cold-rows above the machine's memory
   needs no telling.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import xxhash

import cellfeed as cf
from cellfeed.series import SeriesDataset, build_series

WINDOW, N_FEATURES, BATCH = 60, 20, 512
START = """
import json, sys, time
import numpy as np
from cellfeed.series import SeriesDataset
begin = time.perf_counter()
ds = SeriesDataset(sys.argv[1], window=60)
opened = time.perf_counter()
ds.arrays([len(ds) // 2])
print(json.dumps([opened - begin, time.perf_counter() - begin, len(ds)]))
"""
MEMORY = """
import json, pathlib, sys
import numpy as np, torch
import cellfeed as cf
from cellfeed.series import SeriesDataset
torch.set_num_threads(1)
if len(sys.argv) > 1:
    ds = SeriesDataset(sys.argv[1], window=60)
    model = torch.nn.Linear(60 * 20, 20)
    steps = torch.optim.SGD(model.parameters(), 1e-3)
    loader = cf.series.SeriesLoader(ds, cf.BlockShuffling(1), batch_size=512)
    for number, batch in enumerate(loader):
        x, y = batch.to_torch()
        loss = torch.nn.functional.mse_loss(model(x.flatten(1)), y[:, 0])
        steps.zero_grad(); loss.backward(); steps.step()
        if number == int(sys.argv[2]):
            break
status = pathlib.Path("/proc/self/status").read_text()
kib = {line.split(":")[0]: int(line.split()[1]) for line in status.splitlines() if "kB" in line}
print(json.dumps({name: kib[name] / 1024 for name in ("RssAnon", "RssFile")}))
"""


PREADS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
struct job { int file, failed; const long *places; long n, bytes; };
static void *read_some(void *p) {
  struct job *j = p;
  char *out = malloc(j->bytes);
  for (long i = 0; i < j->n; i++)
    if (pread(j->file, out, j->bytes, j->places[i]) != j->bytes) j->failed = 1;
  free(out);
  return 0;
}
int reads(int file, const long *places, long n, long bytes, long threads) {
  pthread_t thread[256];
  struct job job[256];
  int failed = 0;
  for (long k = 0; k < threads; k++) {
    long a = n * k / threads, b = n * (k + 1) / threads;
    job[k] = (struct job){file, 0, places + a, b - a, bytes};
    if (pthread_create(&thread[k], 0, read_some, &job[k])) abort();
  }
  for (long k = 0; k < threads; k++) {
    pthread_join(thread[k], 0);
    failed |= job[k].failed;
  }
  return failed;
}
"""


def run(code: str, *arguments: object) -> object:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], check=True, capture_output=True
    )
    return json.loads(done.stdout)


def make_sparse(folder: pathlib.Path, n_entities: int, n_rows: int) -> pathlib.Path:
    """A series of so many rows of 20 features whose values were never written: they are zeros."""
    folder.mkdir()
    frame = pd.DataFrame({f"f{f}": np.zeros(n_entities) for f in range(N_FEATURES)})
    frame["e"], frame["t"] = np.arange(n_entities), 0
    frame.to_parquet(folder / "rows.parquet", index=False)
    out = folder / "out"
    build_series(folder / "rows.parquet", out, entity="e", time="t", scaler=None)
    table = pa.ipc.open_file(out / "entities.arrow").read_all()
    columns = {
        "begins": np.arange(n_entities) * n_rows,
        "ends": np.arange(1, n_entities + 1) * n_rows,
    }
    for name, numbers in columns.items():
        place = table.schema.get_field_index(name)
        lists = pa.ListArray.from_arrays(np.arange(n_entities + 1, dtype=np.int32), numbers)
        lists = lists.cast(table.schema.field(name).type)
        table = table.set_column(place, table.schema.field(name), lists)
    with pa.ipc.new_file(out / "entities.arrow", table.schema) as writer:
        writer.write_batch(table.combine_chunks().to_batches()[0])
    about = json.loads((out / "metadata.json").read_text())
    total = n_entities * n_rows
    sizes = {"all_features.mmap": total * N_FEATURES * 4, "time.mmap": total * 8}
    for name, size in sizes.items():
        os.truncate(out / name, size)
    about["n_rows"] = total
    for entity, begin in zip(about["entities"], columns["begins"].tolist(), strict=True):
        entity["rows"] = [[begin, begin + n_rows]]
    for file in about["files"]:
        file["bytes"] = (out / file["name"]).stat().st_size
        if file["name"] == "entities.arrow":
            bytes_of = (out / "entities.arrow").read_bytes()
            file["checksum"] = xxhash.xxh3_64_hexdigest(bytes_of)
    entities = ",\n    ".join(json.dumps(entity) for entity in about.pop("entities"))
    del about["checksum"]
    rest = json.dumps(about, indent=2)[2:-2] + f',\n  "entities": [\n    {entities}\n  ]\n}}\n'
    checksum = xxhash.xxh3_64_hexdigest(rest.encode())
    (out / "metadata.json").write_text(f'{{\n  "checksum": "{checksum}",\n{rest}')
    return out


def fill(path: pathlib.Path) -> None:
    """Write every byte of the values: random ones, again and again."""
    block = np.random.default_rng(0).normal(size=1 << 22).astype(np.float32).tobytes()
    with open(path / "all_features.mmap", "r+b") as file:
        left = file.seek(0, os.SEEK_END)
        file.seek(0)
        while left > 0:
            left -= file.write(block[: min(left, len(block))])


def measure_start(path: pathlib.Path) -> None:
    found = [run(START, path) for _ in range(5)]
    opened, first, n = min(found)  # type: ignore[type-var,misc]
    print(f"start: {n:,} windows opened in {opened:.4f} s, the first cut after {first:.4f} s")


def measure_memory(path: pathlib.Path, n_batches: int) -> None:
    bare, training = run(MEMORY), run(MEMORY, path, n_batches)
    assert isinstance(bare, dict) and isinstance(training, dict)
    print(
        f"memory of a training process: {training['RssAnon']:.0f} MiB of its own, of which imports "
        f"{bare['RssAnon']:.0f} MiB; mapped files {training['RssFile']:.0f} MiB"
    )


def forget_pages(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def compiled_reads(folder: pathlib.Path):
    """Reads at places by threads, without anything else."""
    source, library = folder / "reads.c", folder / "reads.so"
    source.write_text(PREADS)
    command = ["cc", "-O3", "-shared", "-fPIC", "-pthread", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library)).reads


def read_rate(reads, path: pathlib.Path, places: np.ndarray, n_bytes: int, threads: int) -> float:
    """Reads a second, of a file whose pages are forgotten first."""
    forget_pages(path)
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    begin = time.perf_counter()
    failed = reads(
        descriptor, ctypes.c_void_p(places.ctypes.data), ctypes.c_long(len(places)),
        ctypes.c_long(n_bytes), ctypes.c_long(threads),
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    os.close(descriptor)
    assert not failed
    return len(places) / seconds


def measure_cold(
    path: pathlib.Path, n_batches: int, threads: int, rounds: int, access: str
) -> None:
    values = path / "all_features.mmap"
    row, n_bytes = N_FEATURES * 4, (WINDOW + 1) * N_FEATURES * 4
    reads = compiled_reads(path.parent)
    random = np.random.default_rng(0)
    last = (values.stat().st_size - n_bytes) // row
    ratios, most = [], {}
    for number in range(rounds):
        ds = SeriesDataset(path, window=WINDOW, access=access)
        forget_pages(values)
        loader = cf.series.SeriesLoader(
            ds, cf.BlockShuffling(1), BATCH, seed=number, threads=threads
        )
        begin = time.perf_counter()
        for done, _ in enumerate(loader, 1):
            if done == n_batches:
                break
        ours = done * BATCH / (time.perf_counter() - begin)
        for deep in (16, 64, 256):
            places = random.integers(0, last, done * BATCH) * row
            most[deep] = read_rate(reads, values, places, n_bytes, deep)
        ratios.append(ours / max(most.values()))
    size = values.stat().st_size / 1e9
    best = max(most, key=lambda deep: most[deep])
    rates = f"{ours * n_bytes / 1e6:,.0f} MB/s beside {most[best] * n_bytes / 1e6:,.0f} MB/s"
    print(
        f"cold, access={access!r}, {size:.2f} GB of values: "
        f"{sorted(ratios)[len(ratios) // 2]:.2f} of the disk's random reads "
        f"({min(ratios):.2f} to {max(ratios):.2f}); {rates} of pread on {best} threads"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=10_060, help="of each entity, to start with")
    parser.add_argument("--cold-rows", type=int, default=10_000_000, help="80 bytes each")
    parser.add_argument("--batches", type=int, default=100, help="that are read cold")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=16, help="of the loader")
    parser.add_argument("--folder", type=pathlib.Path, help="of a disk with room")
    parser.add_argument("--short", action="store_true", help="only long enough to see that it runs")
    options = parser.parse_args()
    if options.short:
        options.entities, options.rows, options.cold_rows = 200, 1000, 20_000
        options.batches, options.rounds = 4, 1
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        sparse = make_sparse(folder / "sparse", options.entities, options.rows)
        measure_start(sparse)
        made = make_sparse(folder / "cold", options.cold_rows // 1000, 1000)
        fill(made)
        measure_memory(made, 4 * options.batches)
        for access in ("map", "direct"):
            measure_cold(made, options.batches, options.threads, options.rounds, access)


if __name__ == "__main__":
    main()
