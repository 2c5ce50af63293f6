"""Cells behind a link of given latency and bandwidth: cellfeed beside annbatch and Mosaic.

python benchmarks/cloud_rivals.py [--cells N] [--genes N] [--nonzeros N] [--latency S]
    [--bandwidth BYTES ...] [--seconds S] [--rounds N] [--python PROGRAM=PATH ...]

The link is that of cloud.py: nginx on loopback behind a proxy that holds requests and answers back.
Each program reads the same cells as it stores them, in a process and an environment of its own
(cloud_readers.py says how); which comes first changes from round to round, a ratio is that of one
round, and the median of the rounds is printed, with the smallest and the largest. Needs nginx
(Debian's nginx-light), and the rivals where README.md says; those that are missing are named and
left out.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import anndata
import numpy as np
from random_counts import random_counts

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "loader"))
from bucket_servers import s3_environment
from nginx_server import find_nginx, nginx_server
from proxy_process import ProxyProcess
from run import OTHER_PYTHONS
from spread import Spread

import cellfeed as cf

READERS = pathlib.Path(__file__).parent / "cloud_readers.py"
# Of each program: blocks of cells that it reads at a time. Mosaic has its own shuffle.
BLOCKS = {"cellfeed": [64, 1], "annbatch": [64, 1, 512], "mosaic": [0]}
BESIDE = {"annbatch": {64: 64, 1: 1, 512: 64}, "mosaic": {0: 64}}


def run_reader(python: str, *arguments: object, url: str = "") -> dict[str, float]:
    environment = os.environ | s3_environment(url)
    command = [python, "-W", "ignore", str(READERS), *map(str, arguments)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def find_pythons(given: list[str]) -> dict[str, str]:
    """The interpreter of each program that is here; the others are named."""
    named = dict(text.split("=", 1) for text in given)
    pythons = {"cellfeed": sys.executable}
    for name in BESIDE:
        path = named.get(name, str(OTHER_PYTHONS / name / "bin" / "python"))
        if shutil.which(path):
            pythons[name] = path
        else:
            print(f"{name} is left out: {path} is not there (benchmarks/README.md)")
    return pythons


def write_cells(folder: pathlib.Path, options: argparse.Namespace) -> float:
    """As the programs store them: shards, and what the rivals make theirs of. Entries of a cell."""
    x = random_counts(0, options.cells, options.genes, options.nonzeros)
    anndata.AnnData(x).write_h5ad(folder / "cells.h5ad")
    (folder / "cells").mkdir()
    for name in ("indptr", "indices", "data"):
        np.save(folder / "cells" / f"{name}.npy", getattr(x, name))
    (folder / "bucket").mkdir()
    cf.convert_to_shards(
        folder / "cells.h5ad", folder / "bucket" / "shards", shard_size=-(-options.cells // 4)
    )
    return x.nnz / options.cells


def describe(program: str, block: int) -> str:
    access = {0: "its shuffle", 1: "true random"}.get(block, f"blocks of {block}")
    return f"{program}, {access}"


class Comparison:
    def __init__(self, pythons: dict[str, str], entries: float, seconds: float):
        self.pythons, self.entries, self.seconds = pythons, entries, seconds
        self.cases = [(name, block) for name in pythons for block in BLOCKS[name]]

    def measure(self, url: str, n_rounds: int) -> None:
        rounds = []
        for number in range(n_rounds):
            first = number % len(self.cases)
            rounds.append({case: self.rate(url, *case) for case in self.in_turn(first)})
        for case in self.cases:
            rates = [found[case] for found in rounds]
            print(f"  {describe(*case)}: {spread(rates, '.0f')} cells/s")
        for name, block in self.cases[len(BLOCKS["cellfeed"]) :]:
            ours = ("cellfeed", BESIDE[name][block])
            ratios = [found[ours] / found[name, block] for found in rounds]
            print(f"  {describe(*ours)} over {describe(name, block)}: {spread(ratios, '.1f')}")

    def in_turn(self, first: int) -> list[tuple[str, int]]:
        return self.cases[first:] + self.cases[:first]

    def rate(self, url: str, name: str, block: int) -> float:
        found = run_reader(self.pythons[name], "read", name, url, block, self.seconds, url=url)
        if abs(found["entries"] / found["cells"] / self.entries - 1) > 0.05:
            raise RuntimeError(f"{name} read other cells: {found}, {self.entries} entries of each")
        return found["cells"] / found["seconds"]


def spread(values: list[float], form: str) -> str:
    found = Spread.of(values)
    return f"{found.median:{form}} ({found.low:{form}} to {found.high:{form}})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--nonzeros", type=int, default=1000, help="of a cell")
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of a round trip")
    parser.add_argument(
        "--bandwidth", type=float, nargs="+", default=[200e6, 1e9], help="bytes a second"
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="of each case")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", action="append", default=[], metavar="PROGRAM=PATH")
    options = parser.parse_args()
    if not find_nginx():
        print("nginx is not here, and nothing was measured: install nginx-light")
        return
    pythons = find_pythons(options.python)
    if len(pythons) == 1:
        print("nothing is beside cellfeed, and nothing was measured")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        entries = write_cells(folder, options)
        with nginx_server(folder) as server:
            for program in [*pythons][1:]:
                run_reader(pythons[program], "make", program, folder)
            comparison = Comparison(pythons, entries, options.seconds)
            for bandwidth in options.bandwidth:
                link = {"latency_s": options.latency / 2, "bytes_per_second": bandwidth}
                print(f"{options.latency * 1000:.0f} ms, {bandwidth / 1e6:.0f} MB/s:")
                with ProxyProcess(server.address, **link) as proxy:
                    comparison.measure(proxy.url, options.rounds)


if __name__ == "__main__":
    main()
