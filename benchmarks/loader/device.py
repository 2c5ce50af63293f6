"""What the storage device does by itself: random and sequential reads past the page cache, by fio
or by preadv.
"""

from __future__ import annotations

import concurrent.futures
import json
import mmap
import os
import random
import shutil
import subprocess
import time

PAGE = 4096
DEPTH = 64
SEQUENTIAL_BYTES = 1 << 20


def share_of_two_pages(record_bytes: float) -> float:
    """Share of unaligned records that lie in one page more than they must (records smaller than a
    page).
    """
    return min(1.0, max(0.0, (record_bytes - 1) / PAGE))


def random_reads_per_second(
    paths: list[str], record_bytes: float, seconds: float
) -> tuple[float, str]:
    """Records a second when each is read alone, 64 at a time; and which program measured."""
    percent = round(100 * share_of_two_pages(record_bytes))
    if shutil.which("fio"):
        split = f"{PAGE // 1024}k/{100 - percent}:{2 * PAGE // 1024}k/{percent}"
        job = _fio(paths, seconds, ["--rw=randread", f"--bssplit={split}", f"--iodepth={DEPTH}"])
        return job["read"]["iops"], "fio, io_uring, O_DIRECT"
    return _preadv_rate(paths, seconds, percent), "preadv threads, O_DIRECT"


def blocks_bytes_per_second(
    paths: list[str], block_bytes: float, seconds: float
) -> tuple[float, str]:
    """Bytes a second of blocks of that size here and there in all files, 64 at a time. Unlike one
    file from end to end again and again, these are not all in a cache of the device's host.
    """
    size = max(1, round(block_bytes / PAGE)) * PAGE
    if shutil.which("fio"):
        job = _fio(paths, seconds, ["--rw=randread", f"--bs={size}", f"--iodepth={DEPTH}"])
        return float(job["read"]["bw_bytes"]), "fio, io_uring, O_DIRECT"
    largest = max(paths, key=os.path.getsize)
    return _preadv_sequential(largest, seconds), "preadv, O_DIRECT, one file from end to end"


def sequential_bytes_per_second(paths: list[str], seconds: float) -> tuple[float, str]:
    """Bytes a second of 1 MiB reads, 8 at a time, one file after the other."""
    if shutil.which("fio"):
        options = ["--rw=read", "--bs=1m", "--iodepth=8", "--file_service_type=sequential"]
        job = _fio(paths, seconds, options)
        return float(job["read"]["bw_bytes"]), "fio, io_uring, O_DIRECT"
    return _preadv_sequential(max(paths, key=os.path.getsize), seconds), "preadv, O_DIRECT"


def _fio(paths: list[str], seconds: float, options: list[str]) -> dict:
    names = ":".join(path.replace(":", "\\:") for path in paths)
    if "--rw=randread" in options:
        options = [*options, "--file_service_type=random", "--norandommap"]
    command = [
        "fio", "--name=device", f"--filename={names}", "--readonly", "--direct=1", "--time_based",
        f"--runtime={seconds}", "--output-format=json", *options,
    ]  # fmt: skip
    for engine in ("io_uring", "libaio"):
        run = subprocess.run([*command, f"--ioengine={engine}"], capture_output=True, text=True)
        if run.returncode == 0:
            return json.loads(run.stdout[run.stdout.index("{") :])["jobs"][0]
    raise RuntimeError(f"fio failed: {run.stderr[-300:]}")


def _preadv_rate(paths: list[str], seconds: float, percent_two_pages: int) -> float:
    n_pages = [os.path.getsize(path) // PAGE - 2 for path in paths]
    deadline = time.perf_counter() + seconds

    def read(seed: int) -> int:
        rng = random.Random(seed)
        descriptors = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in paths]
        buffer = memoryview(mmap.mmap(-1, 2 * PAGE))
        n_reads = 0
        try:
            while time.perf_counter() < deadline:
                n_bytes = 2 * PAGE if rng.randrange(100) < percent_two_pages else PAGE
                i = rng.randrange(len(paths))
                offset = rng.randrange(max(n_pages[i], 1)) * PAGE
                os.preadv(descriptors[i], [buffer[:n_bytes]], offset)
                n_reads += 1
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return n_reads

    with concurrent.futures.ThreadPoolExecutor(DEPTH) as pool:
        return sum(pool.map(read, range(DEPTH))) / seconds


def _preadv_sequential(path: str, seconds: float) -> float:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, 8 * SEQUENTIAL_BYTES)
    begin, done, at = time.perf_counter(), 0, 0
    try:
        while time.perf_counter() - begin < seconds:
            n = os.preadv(descriptor, [buffer], at)
            done += n
            at = at + n if n == len(buffer) else 0
        return done / (time.perf_counter() - begin)
    finally:
        os.close(descriptor)
