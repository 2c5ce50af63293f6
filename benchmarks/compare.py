"""Ratio of two builds of cellfeed, measured in turn in one run, so that a slow-down is seen.

usage: compare.py BASE [HEAD] [--limit 0.9]
A build is a directory that holds the installed package cellfeed/, or a git revision, which is then
built once into build/compare/. HEAD is the package of this Python when it is not given.
Ends with 1 when a rate is below LIMIT times that of BASE, and lower in every round.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tarfile
from itertools import chain

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "loader"))

from make_data import DEFAULT_DATA, Workshop  # noqa: E402
from modes import CONVERT, blocks, gzip, packed, plain  # noqa: E402
from plot import format_value  # noqa: E402
from processes import Interpreters, measure  # noqa: E402
from rivals import Atlas  # noqa: E402
from spread import ratios  # noqa: E402
from task import Task  # noqa: E402

TASKS = [
    packed(),
    packed(**blocks(64)),
    packed(access="stream"),
    packed(output="selected"),
    plain(),
    plain(access="stream"),
    gzip(**blocks(64)),
    CONVERT,
]


def find_build(name: str) -> str:
    """Directory that holds ``cellfeed/`` of a build; a git revision is built first."""
    if os.path.isdir(os.path.join(name, "cellfeed")):
        return os.path.abspath(name)
    revision = _git("rev-parse", "--short", f"{name}^{{commit}}")
    home = ROOT / "build" / "compare" / revision
    if not (home / "site" / "cellfeed").exists():
        print(f"building {name} ({revision})", flush=True)
        (home / "tree").mkdir(parents=True, exist_ok=True)
        _git("archive", "--output", str(home / "tree.tar"), revision)
        with tarfile.open(home / "tree.tar") as archive:
            archive.extractall(home / "tree", filter="data")
        install = [
            sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps",
            "--no-index", "--target", str(home / "site"), str(home / "tree"),
        ]  # fmt: skip
        environment = {**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count())}
        subprocess.run(install, check=True, env=environment)
        # The module looks for libarrow beside its own package.
        arrow = importlib.util.find_spec("pyarrow").submodule_search_locations[0]
        (home / "site" / "pyarrow").symlink_to(arrow)
    return str(home / "site")


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"git {' '.join(arguments)}: {run.stderr.strip()}")
    return run.stdout.strip()


class Comparison:
    """Rates of the same tasks by two builds over the same files; each writes its own shards."""

    def __init__(self, builds: list[str | None], data: str, scale: float, seconds: float) -> None:
        self.seconds = seconds
        self.rounds: dict[Task, tuple[list[list[float]], list[list[float]]]] = {}
        self.shops = []
        for side, build in zip(("base", "head"), builds, strict=True):
            shop = Workshop(f"{data}/compare_{side}", Interpreters(package=build), scale=scale)
            shop.remove_shards()
            self.shops.append(shop)

    def prepare(self, tasks: list[Task]) -> None:
        for task in tasks:
            data = "plain" if task.kind == "convert" else task.data
            for source in dict.fromkeys(["plain", data]):
                if source in ("plain", "gzip"):
                    self._share(task.atlas, source)
            for shop in self.shops:
                shop.ensure(task.atlas, data)

    def _share(self, atlas: str, data: str) -> None:
        """Both builds read the same file, not a copy each: where a copy happens to lie in the page
        cache makes up to 15 % of a rate.
        """
        base, head = self.shops
        base.ensure(atlas, data)
        home, shared = (pathlib.Path(shop.atlas_dir(atlas)) for shop in (base, head))
        shared.mkdir(parents=True, exist_ok=True)
        facts = ("atlas.json", "labels.npy", f".made_{data}")
        for path in [*home.glob(f"{data}_*.h5ad"), *(home / name for name in facts)]:
            (shared / path.name).unlink(missing_ok=True)
            (shared / path.name).hardlink_to(path)

    def measure(self, task: Task) -> None:
        """One round of one task, the builds in random order."""
        sides = [0, 1]
        random.shuffle(sides)
        taken: dict[int, list[float]] = {}
        for side in sides:
            shop = self.shops[side]
            home = shop.atlas_dir(task.atlas)
            target = f"{home}/converted" if task.kind == "convert" else None
            result = measure(
                task, home, shop.interpreters, seconds=self.seconds, windows=1, target=target
            )
            if target:
                subprocess.run(["rm", "-rf", target], check=True)
            if "rates" not in result:
                sys.exit(f"{task.title()}: {result.get('failed') or result.get('skipped')}")
            taken[side] = result["rates"]
        base, head = self.rounds.setdefault(task, ([], []))
        base.append(taken[0])
        head.append(taken[1])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", metavar="BASE")
    parser.add_argument("head", metavar="HEAD", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--scale", type=float, default=0.25, help="of the 200,000 cells")
    parser.add_argument("--data", default=str(DEFAULT_DATA))
    parser.add_argument("--only", help="measure only tasks whose title contains this text")
    parser.add_argument("--limit", type=float, default=0.9, help="the smallest ratio that passes")
    args = parser.parse_args()
    builds = [find_build(args.base), find_build(args.head) if args.head else None]
    tasks = [task for task in TASKS if not args.only or args.only in task.title()]
    comparison = Comparison(builds, args.data, args.scale, args.seconds)
    comparison.prepare(tasks)
    for _ in range(args.rounds):
        for task in tasks:
            comparison.measure(task)
    n_slower = 0
    print("| task | base, cells/s | head, cells/s | ratio | |\n|---|---|---|---|---|")
    for task, (base, head) in comparison.rounds.items():
        ratio = ratios(head, base)
        rates = [format_value(statistics.median(chain(*side))) for side in (base, head)]
        # Slower in every round, so that one bad moment of the machine accuses nobody.
        is_slower = ratio.median < args.limit and ratio.high < 1
        n_slower += is_slower
        span = f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
        print(f"| {task.title()} | {rates[0]} | {rates[1]} | {span} | {'**slower**' * is_slower} |")
    cells = Atlas(comparison.shops[0].atlas_dir("main")).n_cells
    print(f"{args.rounds} rounds over {cells:,} cells")
    return 1 if n_slower else 0


if __name__ == "__main__":
    sys.exit(main())
