"""Arguments that all long operations on whole files have, as the core takes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._arguments import as_choice, as_paths, as_text, parse_memory_budget, parse_threads
from ._options import JOINS, Join
from ._progress import Progress, as_progress_callback


@contextmanager
def input_paths(source: Any, name: str = "adata_path") -> Iterator[list[str]]:
    if hasattr(source, "write_h5ad"):
        with tempfile.TemporaryDirectory(prefix="cellfeed-") as folder:
            path = os.path.join(folder, "in_memory.h5ad")
            source.write_h5ad(path)
            yield [path]
    else:
        yield as_paths(name, source)


def resources(
    threads: int | None, memory_budget: int | str | None, progress: Progress
) -> dict[str, Any]:
    """What every long operation of the core takes."""
    return {
        "threads": parse_threads(threads),
        "memory_budget": 0 if memory_budget is None else parse_memory_budget(memory_budget),
        "progress": as_progress_callback(progress, "cells"),
    }


def tenx_choice(genome: str | None, feature_type: str | None) -> dict[str, Any]:
    return {
        "genome": "" if genome is None else as_text("genome", genome),
        "feature_type": "" if feature_type is None else as_text("feature_type", feature_type),
    }


def join_text(join: Join | None) -> str:
    return "" if join is None else as_choice("join", join, JOINS)
