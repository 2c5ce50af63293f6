"""Shards written by one Dask worker and by two, of one thread each, and by one process.

python benchmarks/many_machines.py [--cells N] [--genes N] [--nonzeros N] [--shards N] [--rounds N]

Workers are processes of this machine, each bound to a processor of its own, as if it were a machine
with one; disk and page cache are shared. The one process is bound to the first processor too. Each
figure is the time of a whole call: inputs are opened by the client and by every worker, shards are
synced to the disk. Rounds alternate; the ratio is taken within each, and the median is printed with
the smallest and largest. In brackets the same by processor time: that of the client and of the
worker that has more. "Two processes": how much more two of them do beside each other, each with a
processor and a conversion of its own, than one alone: what the machine allows. Bytes are compared
once.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pathlib
import shutil
import statistics
import tempfile
import time
from typing import Any

from distributed import Client, LocalCluster
from preprocess import write_atlas

import cellfeed as cf

WORKS = {
    "plain": ("raw.h5ad", {}),
    "gzip": ("gzip.h5ad", {}),
    "gzip, dense": ("gzip.h5ad", {"layout": "dense"}),
    "shuffled": ("raw.h5ad", {"shuffle": True}),
    "shuffled, gzip": ("gzip.h5ad", {"shuffle": True}),
    "preprocessed": ("raw.h5ad", {"n_top_genes": 2000}),
}


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def bind(processor: int) -> None:
    """All threads of the process, and those that they start."""
    for thread in pathlib.Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {processor})


def bind_workers(client: Client) -> None:
    processors = sorted(os.sched_getaffinity(0))
    workers = sorted(client.run(os.getpid))
    for number, worker in enumerate(workers):
        client.run(bind, processors[number % len(processors)], workers=[worker])


def convert(work: str, folder: pathlib.Path, output: pathlib.Path, **more: Any) -> float:
    """Seconds of one call."""
    shutil.rmtree(output, ignore_errors=True)
    name, options = WORKS[work]
    call = cf.preprocess if work == "preprocessed" else cf.convert_to_shards
    os.sync()
    begun = time.perf_counter()
    call(folder / name, output, **options, **more)  # type: ignore[operator]
    return time.perf_counter() - begun


def convert_when_told(pipe: Any, processor: int, work: str, folder: str, number: int) -> None:
    """A process: answers each word with the seconds of a conversion."""
    os.sched_setaffinity(0, {processor})
    while pipe.recv():
        place = pathlib.Path(folder)
        size = {"shard_size": pipe.recv(), "progress": False, "threads": 1}
        output = place / f"beside_{number}"
        pipe.send(convert(work, place, output, **size))
        shutil.rmtree(output)


class TwoProcesses:
    """One conversion alone, and two at once."""

    def __init__(self, work: str, folder: pathlib.Path, size: int) -> None:
        self._size = size
        self._pipes, self._running = [], []
        spawned = multiprocessing.get_context("spawn")
        processors = sorted(os.sched_getaffinity(0))
        for number in range(2):
            ours, theirs = spawned.Pipe()
            processor = processors[number % len(processors)]
            arguments = (theirs, processor, work, str(folder), number)
            self._running.append(spawned.Process(target=convert_when_told, args=arguments))
            self._running[-1].start()
            self._pipes.append(ours)
        self._convert(2)  # modules are imported

    def _convert(self, n: int) -> float:
        for pipe in self._pipes[:n]:
            pipe.send(True)
            pipe.send(self._size)
        return max(pipe.recv() for pipe in self._pipes[:n])

    def gain(self) -> float:
        return 2 * self._convert(1) / self._convert(2)

    def end(self) -> None:
        for pipe, process in zip(self._pipes, self._running, strict=True):
            pipe.send(False)
            process.join()


def processor_seconds(client: Client) -> tuple[float, dict[str, float]]:
    return time.process_time(), client.run(time.process_time)


def measure(work: str, folder: pathlib.Path, clients: dict[int, Client], size: int, n: int) -> None:
    times: dict[Any, list[float]] = {"process": [], 1: [], 2: []}
    processor: dict[int, list[float]] = {1: [], 2: []}
    two = TwoProcesses(work, folder, size)
    gains = []
    for number in range(n + 1):
        shared: dict[str, Any] = {"shard_size": size, "progress": False, "threads": 1}
        processors = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(processors)})  # threads that start now are bound with this one
        found = {"process": convert(work, folder, folder / "one", **shared)}
        os.sched_setaffinity(0, processors)
        for n_workers, client in clients.items():
            output = folder / f"by_{n_workers}"
            before, workers_before = processor_seconds(client)
            found[n_workers] = convert(work, folder, output, client=client, **shared)
            after, workers_after = processor_seconds(client)
            most = max(workers_after[worker] - workers_before[worker] for worker in workers_after)
            if number > 0:
                processor[n_workers].append(after - before + most)
            if number == 0 and files_of(output) != files_of(folder / "one"):
                raise SystemExit(f"{work}: other bytes by {n_workers} workers")
            shutil.rmtree(output)
        shutil.rmtree(folder / "one")
        if number == 0:
            continue  # files are not in memory yet, modules not imported
        gains.append(two.gain())
        for key, seconds in found.items():
            times[key].append(seconds)
    two.end()
    ratios = [a / b for a, b in zip(times[1], times[2], strict=True)]
    by_processor = [a / b for a, b in zip(processor[1], processor[2], strict=True)]
    over = [one / process for one, process in zip(times[1], times["process"], strict=True)]
    print(
        f"{work:15s} one process {min(times['process']):6.2f} s, a worker {min(times[1]):6.2f} s "
        f"({statistics.median(over):.2f} of it), two {min(times[2]):6.2f} s: "
        f"{statistics.median(ratios):.2f} times as fast ({min(ratios):.2f} to {max(ratios):.2f}) "
        f"[{statistics.median(by_processor):.2f}, {min(by_processor):.2f} to "
        f"{max(by_processor):.2f}]; two processes {statistics.median(gains):.2f} "
        f"({min(gains):.2f} to {max(gains):.2f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", type=int, default=200_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--nonzeros", type=int, default=1_000, help="draws of a cell")
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=list(WORKS), action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_atlas(folder / "raw.h5ad", options.cells, options.genes, options.nonzeros)
        cf.export_h5ad(folder / "raw.h5ad", folder / "gzip.h5ad", compression="gzip")
        megabytes = (folder / "raw.h5ad").stat().st_size / 1e6
        print(f"{options.cells:,} cells x {options.genes:,} genes, {megabytes:,.0f} MB", flush=True)
        clusters = {
            n: LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=":0")
            for n in (1, 2)
        }
        clients = {n: Client(cluster) for n, cluster in clusters.items()}
        for client in clients.values():
            bind_workers(client)
        size = max(1, options.cells // options.shards)
        for work in options.only or WORKS:
            measure(work, folder, clients, size, options.rounds)
        for n in clients:
            clients[n].close()
            clusters[n].close()


if __name__ == "__main__":
    main()
