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


def random_reads_per_second(path: str, record_bytes: float, seconds: float) -> tuple[float, str]:
    """Records a second when each is read alone, 64 at a time; and which program measured."""
    percent = round(100 * share_of_two_pages(record_bytes))
    if shutil.which("fio"):
        split = f"{PAGE // 1024}k/{100 - percent}:{2 * PAGE // 1024}k/{percent}"
        job = _fio(path, seconds, ["--rw=randread", f"--bssplit={split}", f"--iodepth={DEPTH}"])
        return job["read"]["iops"], "fio, io_uring, O_DIRECT"
    return _preadv_rate(path, seconds, percent), "preadv threads, O_DIRECT"


def sequential_bytes_per_second(path: str, seconds: float) -> tuple[float, str]:
    """Bytes a second of 1 MiB reads, 8 at a time."""
    if shutil.which("fio"):
        job = _fio(path, seconds, ["--rw=read", "--bs=1m", "--iodepth=8"])
        return float(job["read"]["bw_bytes"]), "fio, io_uring, O_DIRECT"
    return _preadv_sequential(path, seconds), "preadv, O_DIRECT"


def _fio(path: str, seconds: float, options: list[str]) -> dict:
    command = [
        "fio", "--name=device", f"--filename={path}", "--readonly", "--direct=1", "--time_based",
        f"--runtime={seconds}", "--output-format=json", *options,
    ]  # fmt: skip
    for engine in ("io_uring", "libaio"):
        run = subprocess.run([*command, f"--ioengine={engine}"], capture_output=True, text=True)
        if run.returncode == 0:
            return json.loads(run.stdout[run.stdout.index("{") :])["jobs"][0]
    raise RuntimeError(f"fio failed: {run.stderr[-300:]}")


def _preadv_rate(path: str, seconds: float, percent_two_pages: int) -> float:
    n_pages = os.path.getsize(path) // PAGE - 2
    deadline = time.perf_counter() + seconds

    def read(seed: int) -> int:
        rng = random.Random(seed)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        buffer = memoryview(mmap.mmap(-1, 2 * PAGE))
        n_reads = 0
        try:
            while time.perf_counter() < deadline:
                n_bytes = 2 * PAGE if rng.randrange(100) < percent_two_pages else PAGE
                os.preadv(descriptor, [buffer[:n_bytes]], rng.randrange(n_pages) * PAGE)
                n_reads += 1
        finally:
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
