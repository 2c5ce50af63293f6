"""Results kept as JSON between runs, and the tables and plots made of them."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import platform
import subprocess
from typing import Any

import plot
from figures import SIZES, Figure
from make_data import Workshop
from modes import Check
from processes import Interpreters
from rivals import Atlas
from spread import Spread, ratios
from task import Task

FIGURE_NAMES = {
    "rate": "cells/s",
    "first_batch_s": "s",
    "resident_mb": "MB",
    "anonymous_mb": "MB",
    "bits_per_value": "bits",
    "matrix_bits_per_value": "bits",
}
VERSIONS = (
    "cellfeed", "numpy", "scipy", "h5py", "anndata", "torch", "lamindb", "scDataset", "annbatch",
    "zarrs", "tiledbsoma-ml",
)  # fmt: skip


def values_of(result: dict[str, Any], figure: str) -> list[float]:
    """Every repeat of one figure in one measurement."""
    return result["rates"] if figure == "rate" else [result[figure]]


def brief(result: dict[str, Any]) -> str:
    """One measurement on one line."""
    parts = []
    if "rates" in result:
        parts.append(f"{plot.format_value(Spread.of(result['rates']).median)} cells/s")
    for name, text in (
        ("first_batch_s", "first batch {:.3f} s"),
        ("bits_per_value", "{:.2f} bits a value"),
        ("entropy_bits", "{:.2f} bits of label entropy"),
        ("resident_mb", "{:.0f} MB"),
        ("program", "{}"),
    ):
        if result.get(name) is not None:
            parts.append(text.format(result[name]))
    return ", ".join(parts)


class Book:
    """All results so far, in a JSON file: a new measurement of a task replaces the old one."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.rounds: dict[Task, list[dict[str, Any]]] = {}
        self.notes: dict[Task, str] = {}
        self.machine: dict[str, Any] = {}
        if path.exists():
            stored = json.loads(path.read_text())
            self.machine = stored["machine"]
            for entry in stored["tasks"]:
                task = Task.from_json(json.dumps(entry["task"]))
                if entry["note"]:
                    self.notes[task] = entry["note"]
                else:
                    self.rounds[task] = entry["rounds"]

    def add(
        self,
        results: dict[Task, list[dict[str, Any]]],
        notes: dict[Task, str],
        machine: dict[str, Any],
    ) -> None:
        self.rounds.update(results)
        for task in notes:
            self.rounds.pop(task, None)
        self.notes = {t: n for t, n in {**self.notes, **notes}.items() if t not in self.rounds}
        self.machine = machine
        tasks = [
            {
                "task": json.loads(t.to_json()),
                "rounds": self.rounds.get(t, []),
                "note": self.notes.get(t),
            }
            for t in (*self.rounds, *self.notes)
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"machine": machine, "tasks": tasks}, indent=1))

    def spread(self, task: Task, figure: str) -> Spread | None:
        """A figure over all rounds and windows."""
        rounds = self.rounds.get(task)
        if not rounds or (figure != "rate" and figure not in rounds[0]):
            return None
        return Spread.of([v for result in rounds for v in values_of(result, figure)])

    def ratio(self, check: Check) -> Spread | None:
        if check.rival is None:
            return None
        ours, theirs = self.rounds.get(check.ours), self.rounds.get(check.rival)
        if not ours or not theirs:
            return None
        n = min(len(ours), len(theirs))
        return ratios(
            [values_of(r, check.figure) for r in ours[:n]],
            [values_of(r, check.figure) for r in theirs[:n]],
        )


def _number(value: float, figure: str) -> str:
    if figure == "rate":
        return f"{value:,.0f}"
    digits = {"first_batch_s": 3, "bits_per_value": 2, "matrix_bits_per_value": 2}.get(figure, 0)
    return f"{value:,.{digits}f}"


def _factor(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _spread_text(spread: Spread | None, figure: str, note: str | None = None) -> str:
    if spread is None:
        return f"not measured ({note.splitlines()[-1][:80]})" if note else "not measured"
    middle = _number(spread.median, figure)
    if spread.low == spread.high:
        return middle
    return f"{middle} ({_number(spread.low, figure)} to {_number(spread.high, figure)})"


def verdict(check: Check, book: Book) -> str:
    """``reached``, ``missed``, or nothing where there is no goal or no figure."""
    if check.goal is None:
        return ""
    spread = book.ratio(check) if check.rival else book.spread(check.ours, check.figure)
    if spread is None:
        return "not measured"
    is_reached = spread.median <= check.goal if check.is_at_most else spread.median >= check.goal
    return "reached" if is_reached else "**missed**"


def table(title: str, checks: list[Check], book: Book) -> str:
    """A markdown table, a line for each check."""
    out = [
        f"### {title}",
        "",
        "| what | ours | rival | ratio | goal | |",
        "|---|---|---|---|---|---|",
    ]
    for check in checks:
        unit = FIGURE_NAMES[check.figure]
        ours = _spread_text(
            book.spread(check.ours, check.figure), check.figure, book.notes.get(check.ours)
        )
        theirs, ratio = "", ""
        if check.rival:
            theirs = _spread_text(
                book.spread(check.rival, check.figure), check.figure, book.notes.get(check.rival)
            )
            spread = book.ratio(check)
            if spread:
                low, high = _factor(spread.low), _factor(spread.high)
                ratio = f"{_factor(spread.median)}x ({low} to {high})"
        sign = "<=" if check.is_at_most else ">="
        goal = (
            "" if check.goal is None else f"{sign} {check.goal:,.10g}{'x' if check.rival else ''}"
        )
        if not ours.startswith("not"):
            ours += f" {unit}"
        cells = [check.title, ours, theirs, ratio, goal, verdict(check, book)]
        out.append(f"| {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def detail_table(book: Book) -> str:
    """Every task that was measured: rate, first batch, memory, diversity."""
    out = [
        "| program, data, access | cells/s, median (min to max) | first batch s | resident MB "
        "| of it not file pages | label entropy of a batch, bits |",
        "|---|---|---|---|---|---|",
    ]
    for task in sorted(book.rounds, key=lambda t: (t.atlas, t.kind, t.rival, t.title())):
        if task.kind == "size":
            continue
        cells = [
            _spread_text(book.spread(task, "rate"), "rate")
            if "rates" in book.rounds[task][0]
            else ""
        ]
        for figure, pattern in (
            ("first_batch_s", "{:.3f}"),
            ("resident_mb", "{:.0f}"),
            ("anonymous_mb", "{:.0f}"),
            ("entropy_bits", "{:.2f}"),
        ):
            known = [r[figure] for r in book.rounds[task] if r.get(figure) is not None]
            cells.append(pattern.format(Spread.of(known).median) if known else "")
        out.append(f"| {task.title()} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def machine(interpreters: Interpreters) -> dict[str, Any]:
    """Processor, memory, kernel and versions."""
    with open("/proc/cpuinfo") as file:
        models = {line.split(":")[1].strip() for line in file if line.startswith("model name")}
    with open("/proc/meminfo") as file:
        memory_gb = int(file.readline().split()[1]) / 1e6
    versions: dict[str, str] = {}
    for python in {interpreters.default, *interpreters.others.values()}:
        run = subprocess.run([python, "-c", _VERSIONS_CODE], capture_output=True, text=True)
        for name, version in json.loads(run.stdout or "{}").items():
            versions.setdefault(name, version)
    commit = subprocess.run(
        ["git", "-C", os.path.dirname(__file__), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
    )
    return {
        "date": datetime.date.today().isoformat(),
        "processor": f"{', '.join(sorted(models))}, {os.cpu_count()} cores",
        "memory": f"{memory_gb:.0f} GB",
        "kernel": platform.release(),
        "commit": commit.stdout.strip(),
        "versions": versions,
    }


_VERSIONS_CODE = f"""
import importlib.metadata as m, json, platform
found = {{"Python": platform.python_version()}}
for name in {VERSIONS!r}:
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: pass
print(json.dumps(found))
"""


def write(
    path: pathlib.Path,
    book: Book,
    sets: dict[str, tuple[str, list[Check]]],
    figures: list[Figure],
    workshop: Workshop,
) -> None:
    """The whole report as markdown, plots as SVG beside it."""
    info = book.machine
    versions = ", ".join(f"{name} {version}" for name, version in info["versions"].items())
    parts = [
        "# Measured beside rivals",
        "",
        "Written by `make bench` (loader/run.py); README.md says how each figure is taken. Ratios "
        "are medians over rounds in which both ran in turn, with the smallest and largest round.",
        "",
        f"{info['date']}, {info['processor']}, {info['memory']}, Linux {info['kernel']}, "
        f"commit {info['commit']}. {versions}.",
        "",
    ]
    for name, (title, checks) in sets.items():
        if name != "short" and any(task in book.rounds for c in checks for task in c.tasks):
            parts.append(table(title, checks, book))
    plots = path.parent / "plots"
    drawn = [figure for figure in figures if _draw(figure, book, plots)]
    if _draw_sizes(plots, workshop):
        drawn.append(Figure("storage", "Bytes a cell by format", "", {}))
    if drawn:
        parts += ["### Figures of the array-loader benchmark", ""]
        parts += [f"![{figure.title}](plots/{figure.name}.svg)\n" for figure in drawn]
    parts += ["### Every measurement", "", detail_table(book), *_kept(path)]
    path.write_text("\n".join(parts))


KEPT = "## By programs of their own"


def _kept(path: pathlib.Path) -> list[str]:
    """What other programs measured, from its heading to the end of the page that is replaced."""
    text = path.read_text() if path.exists() else ""
    return [text[text.index(KEPT) :]] if KEPT in text else []


def _draw(figure: Figure, book: Book, plots: pathlib.Path) -> bool:
    def value(task: Task) -> float | None:
        spread = book.spread(task, figure.value)
        return None if spread is None else spread.median

    series = {name: [value(t) for t in tasks] for name, tasks in figure.series.items()}
    if not any(v is not None for values in series.values() for v in values):
        return False
    unit = "cells/s" if figure.value == "rate" else "share of its time"
    if figure.is_line:
        text = plot.lines(figure.title, unit, figure.xs, series)
    else:
        text = plot.bars(figure.title, unit, figure.xs, series)
    plots.mkdir(parents=True, exist_ok=True)
    (plots / f"{figure.name}.svg").write_text(text)
    return True


def _draw_sizes(plots: pathlib.Path, workshop: Workshop) -> bool:
    home = workshop.directory / "main"
    if not (home / "atlas.json").exists():
        return False
    atlas = Atlas(str(home))
    made = {name: data for name, data in SIZES.items() if (home / f".made_{data}").exists()}
    sizes = {
        name: [sum(os.path.getsize(p) for p in atlas.paths(data)) / atlas.n_cells]
        for name, data in made.items()
    }
    if sizes:
        plots.mkdir(parents=True, exist_ok=True)
        (plots / "storage.svg").write_text(
            plot.bars("Storage", "bytes a cell", ["all in all"], sizes)
        )
    return bool(sizes)
