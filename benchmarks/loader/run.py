"""Measures cellfeed beside its rivals, both in the same rounds, and writes the tables.

usage: run.py [--modes main,speed,rivals,shapes,figures,short | all] [--write RESULTS.md]
Rivals that are not installed are skipped and named. ../README.md says what is measured how.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
from typing import Any

import device
import page_cache
import report
from figures import FIGURES
from make_data import DEFAULT_DATA, ROOT, Workshop
from modes import SETS, Check
from processes import Interpreters, measure
from rivals import Atlas
from task import Task

# Rivals that need another Python or other packages than ours; README.md says how to install them.
OTHER_PYTHONS = ROOT / "build" / "bench" / "python"
WITH_OTHER_PYTHON = ("annbatch", "tiledbsoma")


class Runner:
    """Measures each task once a round, in an order drawn anew each round."""

    def __init__(self, workshop: Workshop, seconds: float, windows: int) -> None:
        self.workshop = workshop
        self.seconds, self.windows = seconds, windows
        self.results: dict[Task, list[dict[str, Any]]] = {}
        self.notes: dict[Task, str] = {}

    def run(self, tasks: list[Task], n_rounds: int) -> None:
        """Measure every task; what cannot be measured gets a note."""
        tasks = [task for task in dict.fromkeys(tasks) if self._prepare(task)]
        rng = random.Random(0)
        for turn in range(n_rounds):
            rng.shuffle(tasks)
            for i, task in enumerate(tasks):
                if task in self.notes or (turn and task.kind == "size"):
                    continue
                result = self._measure(task)
                problem = result.get("failed") or result.get("skipped")
                if problem:
                    self.notes[task] = problem
                    self.results.pop(task, None)
                else:
                    self.results.setdefault(task, []).append(result)
                where = f"[{turn + 1}/{n_rounds}, {i + 1}/{len(tasks)}]"
                print(f"{where} {task.title()}: {problem or report.brief(result)}", flush=True)

    def _prepare(self, task: Task) -> bool:
        try:
            source = "plain" if task.kind == "convert" else task.data
            self.workshop.ensure(task.atlas, source)
            return True
        except RuntimeError as error:
            self.notes[task] = str(error)
            print(f"{task.title()}: {error}", flush=True)
            return False

    def _measure(self, task: Task) -> dict[str, Any]:
        home = self.workshop.atlas_dir(task.atlas)
        atlas = Atlas(home)
        if task.kind == "size":
            sizes = {path: os.path.getsize(path) for path in atlas.paths(task.data)}
            matrix = sum(n for path, n in sizes.items() if str(path).endswith(".cells"))
            nnz = atlas.facts["nnz"]
            return {
                "bits_per_value": 8 * sum(sizes.values()) / nnz,
                "matrix_bits_per_value": 8 * matrix / nnz,
            }
        if task.kind == "device":
            return self._measure_device(task, atlas)
        if task.is_cold:
            page_cache.drop(atlas.paths(task.data))
        else:
            page_cache.fill(atlas.paths("plain" if task.kind == "convert" else task.data))
        target = None
        if task.kind == "convert":
            target = tempfile.mkdtemp(dir=home, prefix="converted_") + "/store"
        try:
            return measure(
                task, home, self.workshop.interpreters, seconds=self.seconds,
                windows=self.windows, target=target,
            )  # fmt: skip
        finally:
            if target:
                shutil.rmtree(os.path.dirname(target), ignore_errors=True)

    def _measure_device(self, task: Task, atlas: Atlas) -> dict[str, Any]:
        paths = [str(path) for path in atlas.paths(task.data)]
        cell_bytes = sum(os.path.getsize(path) for path in paths) / atlas.n_cells
        paths = [path for path in paths if path.endswith(".cells")] or paths
        if task.access != "random":
            if task.access == "stream":
                rate, program = device.sequential_bytes_per_second(paths, self.seconds)
            else:
                block = task.block_size * cell_bytes
                rate, program = device.blocks_bytes_per_second(paths, block, self.seconds)
            return {"rates": [rate / cell_bytes], "bytes_per_second": rate, "program": program}
        rate, program = device.random_reads_per_second(paths, cell_bytes, self.seconds)
        return {"rates": [rate], "program": program}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--modes", default="short", help=f"{', '.join(SETS)}, figures, all")
    parser.add_argument("--only", help="measure only lines whose title contains this text")
    parser.add_argument("--rounds", type=int, default=3, help="repeats of everything")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a window")
    parser.add_argument("--windows", type=int, default=2, help="windows of a process")
    parser.add_argument("--data", default=str(DEFAULT_DATA), help="where atlases lie")
    parser.add_argument("--like", help="real cells to draw the atlas from")
    parser.add_argument("--scale", type=float, default=1.0, help="shrink every atlas")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="[RIVAL=]PATH",
        help="another interpreter, for one rival or for all that may need one "
        f"(default: {OTHER_PYTHONS}/RIVAL/bin/python, if there)",
    )
    parser.add_argument("--package", help="a directory that holds the cellfeed/ to measure")
    parser.add_argument("--fresh", action="store_true", help="write our shards again")
    parser.add_argument("--keep", action="store_true", help="skip what the results hold already")
    parser.add_argument("--results", help="JSON to add to (default: DATA/results.json)")
    parser.add_argument("--write", help="write the tables to this file, plots beside it")
    args = parser.parse_args()
    if "short" in args.modes.split(","):
        args.rounds, args.seconds, args.windows, args.fresh = 1, 0.2, 1, True
        args.data, args.scale = str(ROOT / "build" / "bench" / "short"), min(args.scale, 0.004)
    return args


def chosen_checks(names: list[str], only: str | None) -> dict[str, list[Check]]:
    """Lines of the tables asked for; an unknown name ends the program."""
    unknown = [name for name in names if name not in (*SETS, "figures", "all")]
    if unknown:
        sys.exit(f"no such mode: {', '.join(unknown)}; there are {', '.join(SETS)}, figures, all")
    wanted = [n for n in SETS if n in names or ("all" in names and n != "short")]
    return {n: [c for c in SETS[n][1] if not only or only in c.title] for n in wanted}


def other_pythons(given: list[str]) -> dict[str, str]:
    """Interpreter of each rival that does not run under ours."""
    found = {}
    for rival in WITH_OTHER_PYTHON:
        path = OTHER_PYTHONS / rival / "bin" / "python"
        if path.exists():
            found[rival] = str(path)
    for text in given:
        rival, _, path = text.rpartition("=")
        found.update(dict.fromkeys([rival] if rival else WITH_OTHER_PYTHON, path))
    return found


def main() -> int:
    args = parse_arguments()
    names = args.modes.split(",")
    checks = chosen_checks(names, args.only)
    figures = [
        f for f in FIGURES
        if ("figures" in names or "all" in names) and (not args.only or args.only in f.name)
    ]  # fmt: skip
    interpreters = Interpreters(others=other_pythons(args.python), package=args.package)
    workshop = Workshop(args.data, interpreters, args.like, args.scale)
    if args.fresh:
        workshop.remove_shards()
    runner = Runner(workshop, args.seconds, args.windows)
    tasks = [task for lines in checks.values() for check in lines for task in check.tasks]
    tasks += [task for f in figures for series in f.series.values() for task in series]
    book = report.Book(pathlib.Path(args.results or pathlib.Path(args.data) / "results.json"))
    if args.keep:
        tasks = [task for task in tasks if task not in book.rounds]
    began = time.time()
    runner.run(tasks, args.rounds)
    print(f"measured in {time.time() - began:.0f} s")
    book.add(runner.results, runner.notes, report.machine(interpreters))
    for name, lines in checks.items():
        print(f"\n{report.table(SETS[name][0], lines, book)}")
    if args.write:
        report.write(pathlib.Path(args.write), book, SETS, FIGURES, workshop)
        print(f"written: {args.write}")
    is_ours = {task: note for task, note in runner.notes.items() if task.rival == "cellfeed"}
    if is_ours:
        print(json.dumps({task.title(): note for task, note in is_ours.items()}, indent=1))
    return 1 if is_ours else 0


if __name__ == "__main__":
    sys.exit(main())
