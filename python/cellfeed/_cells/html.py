"""What a notebook shows of cells: their size, and what obs columns hold."""

from __future__ import annotations

import html
from collections.abc import Iterable

import numpy as np

from .protocols import Cells

# With more cells than this, columns are not read just to show them.
_MOST_CELLS = 1_000_000
_MOST_LABELS = 5


def html_of(cells: Cells, title: str, *, reads: bool) -> str:
    """A heading, and a table with a row for each obs column.

    Parameters
    ----------
    cells
        The cells. Columns are read if there are at most a million.
    title
        The heading, as plain text.
    reads
        Whether columns are read at all, which takes requests where files are in a bucket.
    """
    reads = reads and len(cells) <= _MOST_CELLS
    rows = [(name, *(_what(cells, name) if reads else ("", ""))) for name in cells.obs_keys()]
    return f"<p><b>{html.escape(title)}</b></p>{_table(('obs', 'type', 'values'), rows)}"


def _what(cells: Cells, name: str) -> tuple[str, str]:
    try:
        column = cells.obs_column(name)
        values = cells.obs_values(name)
    except Exception as error:  # a column that cannot be read is no reason to show nothing
        return "", str(error)
    if not column.is_categorical:
        known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
        n_missing = len(values) - len(known)
        span = f"{known.min():g} to {known.max():g}" if len(known) else ""
        return column.stored_dtype, _joined([span, _missing(n_missing)])
    counts = np.bincount(values + 1, minlength=len(column.categories) + 1)
    order = np.argsort(-counts[1:], kind="stable")[:_MOST_LABELS]
    labels = [f"{column.categories[i]} ({counts[i + 1]:,})" for i in order.tolist()]
    n_more = len(column.categories) - len(labels)
    more = f"{n_more:,} more" if n_more else ""
    return f"{len(column.categories):,} labels", _joined([*labels, more, _missing(counts[0])])


def _missing(n: int) -> str:
    return f"{n:,} missing" if n else ""


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(part for part in parts if part)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    def line(cells: tuple[str, ...], tag: str) -> str:
        made = (f"<{tag} style='text-align:left'>{html.escape(c)}</{tag}>" for c in cells)
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"
