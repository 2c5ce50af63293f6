"""The page of a report: HTML with drawings in it, which needs no network."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, TypeAlias

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; }
h1, h2 { font-weight: 600; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .6rem; text-align: right;
  border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums; }
td:first-child, th:first-child { text-align: left; }
.matrix { overflow-x: auto; } .matrix td { text-align: center; }
figure { display: inline-block; margin: 0 1rem 1rem 0; } figcaption { font-size: 13px; }
svg text { font: 11px system-ui, sans-serif; fill: #555; }
"""
_WIDTH, _HEIGHT, _MARGIN = 420, 220, 44
_CURVES = (
    ("Loss", ("train_loss", "val_loss")),
    ("Validation scores", ("val_accuracy", "val_macro_f1")),
    ("Learning rate", ("learning_rate",)),
    ("Cells per second", ("cells_per_second",)),
    ("Share of the time that waits for data", ("wait_share",)),
)
_COLOURS = ("#2364aa", "#d1495b")
# None: not a number.
Rows: TypeAlias = "list[dict[str, float | None]]"
# A larger table is no picture any more; report.json has every number.
_LARGEST_MATRIX = 60


def page_of(report: Any) -> str:
    """One HTML page.

    Parameters
    ----------
    report
        As report.json has it.
    """
    parts = [_summary(report), _curves(report["history"])]
    for part, scores in report["scores"].items():
        parts.append(_scores(part, scores, report["classes"]))
    parts += [_table("Loader", report["loader"]), _table("Settings", report["settings"])]
    title = escape(f"Run {report['name']}")
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style>\n<h1>{title}</h1>\n" + "\n".join(parts) + "\n</html>\n"
    )


def _summary(report: Any) -> str:
    cells = ", ".join(f"{n:,} {escape(part)}" for part, n in report["n_cells"].items())
    return (
        f"<p>{cells} cells; {report['n_genes']:,} genes; {report['n_parameters']:,} parameters; "
        f"{report['world_size']} ranks; {report['epochs']} epochs, {report['steps']:,} steps.</p>\n"
        f"<p>Preprocessing: {escape(report['preprocessing'])}.</p>"
    )


def _curves(rows: Rows) -> str:
    drawn = [_curve(title, names, rows) for title, names in _CURVES]
    return "<h2>Curves</h2>\n" + "\n".join(figure for figure in drawn if figure)


def _points(name: str, rows: Rows) -> list[tuple[float, float]]:
    points = ((row["step"], row.get(name)) for row in rows)
    return [(x, y) for x, y in points if x is not None and y is not None]


def _curve(title: str, names: tuple[str, ...], rows: Rows) -> str:
    lines = {name: _points(name, rows) for name in names}
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        return ""
    values = [value for points in lines.values() for _, value in points]
    low, high = min(0.0, min(values)), max(values)
    high = high if high > low else low + 1.0
    last = max(max(step for step, _ in points) for points in lines.values()) or 1

    def place(step: float, value: float) -> str:
        x = _MARGIN + step / last * (_WIDTH - _MARGIN - 10)
        y = _HEIGHT - 24 - (value - low) / (high - low) * (_HEIGHT - 40)
        return f"{x:.1f},{y:.1f}"

    drawn = []
    for points, colour in zip(lines.values(), _COLOURS, strict=False):
        path = " ".join(place(*point) for point in points)
        line = f'fill="none" stroke="{colour}" stroke-width="1.5"'
        drawn.append(f'<polyline points="{path}" {line}/>')
        for x, y in (place(*point).split(",") for point in points):
            drawn.append(f'<circle cx="{x}" cy="{y}" r="2" fill="{colour}"/>')
    base = _HEIGHT - 24
    axes = (
        f'<path d="M{_MARGIN},16V{base}H{_WIDTH - 10}" fill="none" stroke="#999"/>'
        f'<text x="{_MARGIN - 4}" y="20" text-anchor="end">{high:.4g}</text>'
        f'<text x="{_MARGIN - 4}" y="{base}" text-anchor="end">{low:.4g}</text>'
        f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 8}" text-anchor="end">step {last:,.0f}</text>'
    )
    legend = ", ".join(
        f'<span style="color:{colour}">{escape(name)}</span>'
        for name, colour in zip(lines, _COLOURS, strict=False)
    )
    return (
        f"<figure><figcaption>{escape(title)}: {legend}</figcaption>"
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{axes}{''.join(drawn)}</svg></figure>"
    )


def _scores(part: str, scores: dict[str, Any], classes: list[str]) -> str:
    head = f"<h2>Scores: {escape(part)}</h2>\n"
    names = ("loss", "accuracy", "macro_f1", "n_cells")
    said = ", ".join(f"{name} {_number(scores[name])}" for name in names if name in scores)
    if "confusion" not in scores:
        return f"{head}<p>{said}.</p>"
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{sum(scores['confusion'][k]):,}</td>"
        + "".join(f"<td>{_number(scores[s][k])}</td>" for s in ("precision", "recall", "f1"))
        + "</tr>"
        for k, name in enumerate(classes)
    )
    return (
        f"{head}<p>{said}.</p>\n<table><tr><th>class</th><th>cells</th><th>precision</th>"
        f"<th>recall</th><th>F1</th></tr>{rows}</table>\n{_matrix(scores['confusion'], classes)}"
    )


def _matrix(confusion: list[list[int]], classes: list[str]) -> str:
    if len(classes) > _LARGEST_MATRIX:
        return f"<p>The confusion matrix of {len(classes)} classes is in report.json.</p>"
    head = "".join(f"<th>{k + 1}</th>" for k in range(len(classes)))
    rows = []
    for k, (name, counts) in enumerate(zip(classes, confusion, strict=True)):
        total = sum(counts) or 1
        row = "".join(
            f'<td style="background:rgba(35,100,170,{n / total:.2f});'
            f'color:{"#fff" if n / total > 0.5 else "#222"}">{n}</td>'
            for n in counts
        )
        rows.append(f"<tr><td>{k + 1} {escape(name)}</td>{row}</tr>")
    return (
        '<div class="matrix"><p>Confusion matrix: true labels in rows, predicted ones in columns.'
        f"</p><table><tr><th></th>{head}</tr>{''.join(rows)}</table></div>"
    )


def _table(title: str, values: Mapping[str, object]) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(_number(value))}</td></tr>"
        for name, value in values.items()
        if value is not None
    )
    return f"<h2>{escape(title)}</h2>\n<table>{rows}</table>"


def _number(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
