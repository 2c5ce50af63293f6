"""Bars and lines as plain SVG text: no plotting library needed, small diffs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, LEFT, ROW = 720, 210, 22
COLORS = ("#3366aa", "#dd8833", "#559955", "#aa4455", "#777777", "#886699")


def format_value(value: float) -> str:
    """``1.23 M``, ``45.6 k``, ``0.12``."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )


def _svg(height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def bars(
    title: str, unit: str, groups: Sequence[str], series: dict[str, list[float | None]]
) -> str:
    """Horizontal bars: a row for each name, in one block for each group."""
    known = [v for values in series.values() for v in values if v is not None]
    largest = max(known, default=1) or 1
    parts = [_text(12, 20, f"{title} ({unit})", weight="bold")]
    y = 40.0
    for g, group in enumerate(groups):
        parts.append(_text(12, y + 4, group, weight="bold"))
        y += 14
        for (name, values), color in zip(series.items(), COLORS * 4, strict=False):
            value = values[g]
            length = 0 if value is None else (WIDTH - LEFT - 90) * value / largest
            parts.append(_text(LEFT - 8, y + 13, name, "end"))
            parts.append(
                f'<rect x="{LEFT}" y="{y:.1f}" width="{max(length, 1):.1f}" height="{ROW - 6}" '
                f'fill="{color}"/>'
            )
            label = "not measured" if value is None else format_value(value)
            parts.append(_text(LEFT + length + 6, y + 13, label))
            y += ROW
        y += 12
    return _svg(y, parts)


def lines(title: str, unit: str, xs: Sequence[str], series: dict[str, list[float | None]]) -> str:
    """Lines over evenly spaced places of x, logarithmic in y."""
    from math import log10

    known = [v for values in series.values() for v in values if v]
    low, high = (log10(min(known)), log10(max(known))) if known else (0.0, 1.0)
    low, high = low - 0.1, high + 0.1
    top, bottom, left, right = 44, 300, 80, WIDTH - 240

    def x_at(i: int) -> float:
        return left + (right - left) * (i / max(len(xs) - 1, 1))

    def y_at(value: float) -> float:
        return bottom - (bottom - top) * (log10(value) - low) / (high - low)

    parts = [_text(12, 20, f"{title} ({unit})", weight="bold")]
    for i, x in enumerate(xs):
        parts.append(_text(x_at(i), bottom + 18, x, "middle"))
    for decade in range(int(low) - 1, int(high) + 2):
        if low <= decade <= high:
            y = y_at(10.0**decade)
            parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#ddd"/>')
            parts.append(_text(left - 8, y + 4, format_value(10.0**decade), "end"))
    labels: list[tuple[float, str, str]] = []
    for (name, values), color in zip(series.items(), COLORS * 4, strict=False):
        points = [(x_at(i), y_at(v)) for i, v in enumerate(values) if v]
        if not points:
            continue
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
        last = next(v for v in reversed(values) if v)
        labels.append((points[-1][1], f"{name}: {format_value(last)}", color))
    y = top
    for place, text, color in sorted(labels):
        y = max(y, place)  # labels of close lines stand below one another
        parts.append(
            f'<rect x="{right + 12}" y="{y - 4:.1f}" width="8" height="8" fill="{color}"/>'
        )
        parts.append(_text(right + 26, y + 4, text))
        y += 16
    return _svg(bottom + 36, parts)
