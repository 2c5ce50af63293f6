"""Arguments that all long operations on whole files have, as the core takes them."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypedDict

from . import _core
from ._arguments import (
    absolute,
    as_bool,
    as_choice,
    as_chosen_names,
    is_anndata,
    parse_memory_budget,
    parse_threads,
)
from ._options import COMPRESSIONS, Compression, Data, ProcessingOptions, ShardingOptions
from ._progress import Progress, ProgressCallback, as_progress_callback
from ._several import items_of
from .collection import CellCollection
from .errors import InvalidArgumentError
from .opening import open_to_write

# What the core takes for a collection: its core, make_unique, the steps that chose it, its files.
InputCells: TypeAlias = tuple[_core.Collection, bool, list[str], list[str]]


@contextmanager
def cells_to_write(given: Data | CellCollection, **how: Any) -> Iterator[InputCells]:
    """A collection as the core takes it, or files that are opened to be written elsewhere.

    Parameters
    ----------
    given
        A collection, or what :func:`cellfeed.open` takes.
    **how
        How files are opened, as for ``open_to_write``.
    """
    if isinstance(given, (list, tuple)) and len(given) == 1 and is_anndata(given[0]):
        given = given[0]
    if isinstance(given, CellCollection):
        yield input_cells(given)
    elif is_anndata(given) and not given.isbacked:
        # With uns and varm, which a collection in memory does not hold.
        with tempfile.TemporaryDirectory(prefix="cellfeed-") as folder:
            path = os.path.join(folder, "in_memory.h5ad")
            given.write_h5ad(path)
            yield input_cells(open_to_write(path, **how))
    else:
        yield input_cells(open_to_write(given, **how))


def input_cells(cells: CellCollection) -> InputCells:
    """A collection as the core takes it."""
    len(cells)  # an error where it is closed
    origin = cells._origin
    how = origin.options
    return cells._core, how.make_unique, origin.steps, origin.paths


def cells_of_all(given: Data | CellCollection, name: str) -> CellCollection:
    """A collection that several processes can open."""
    if isinstance(given, CellCollection):
        # A copy has the paths that all processes see.
        is_local = any(path != absolute(path) for path in given._origin.paths)
        return pickle.loads(pickle.dumps(given)) if is_local else given
    items = items_of(given, [], name)
    if any(map(is_anndata, items)):
        raise InvalidArgumentError(
            f"{name} is in the memory of this process, and others write the shards: write it to "
            f"an .h5ad file that all of them see, and give that"
        )
    return open_to_write([absolute(str(path)) for path in items], is_shared=True)


class Resources(TypedDict):
    """What every long operation of the core works with."""

    threads: int
    memory_budget: int
    progress: ProgressCallback | None


def resources(
    threads: int | None, memory_budget: int | str | None, progress: Progress
) -> Resources:
    """What every long operation of the core takes."""
    return {
        "threads": parse_threads(threads),
        "memory_budget": 0 if memory_budget is None else parse_memory_budget(memory_budget),
        "progress": as_progress_callback(progress, "cells"),
    }


class ObsChoice(TypedDict):
    """As the core takes it; empty lists choose nothing."""

    obs: list[str]
    exclude_obs: list[str]


def obs_choice(
    obs: Sequence[str] | str | None, exclude_obs: Sequence[str] | str | None
) -> ObsChoice:
    """Columns of obs that are written: some, or all but some."""
    if obs is not None and exclude_obs is not None:
        raise InvalidArgumentError("give obs or exclude_obs, not both")
    chosen = as_chosen_names("obs", obs)
    if chosen == []:
        raise InvalidArgumentError("obs is an empty list: name columns, or leave it out for all")
    return {
        "obs": chosen or [],
        "exclude_obs": as_chosen_names("exclude_obs", exclude_obs) or [],
    }


def text_of(options: dict[str, Any]) -> str:
    """Options as the core takes them; the path of the output goes beside them."""
    return json.dumps({**options, "output_dir": ""})


def existing(options: ShardingOptions | ProcessingOptions) -> str:
    """What is done about shards that are there."""
    resume = as_bool("resume", options.get("resume", False))
    overwrite = as_bool("overwrite", options.get("overwrite", False))
    if resume and overwrite:
        raise InvalidArgumentError(
            "resume continues what is there and overwrite replaces it: choose one"
        )
    return "resume" if resume else "overwrite" if overwrite else "refuse"


def compression_text(compression: Compression | None) -> str:
    """How ``.h5ad`` files are compressed; ``None``, as anndata has it, is ``"none"``."""
    return "none" if compression is None else as_choice("compression", compression, COMPRESSIONS)
