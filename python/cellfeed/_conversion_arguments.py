"""Arguments that all long operations on whole files have, as the core takes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypedDict

from . import _core
from ._arguments import (
    as_bool,
    as_choice,
    as_chosen_names,
    as_paths,
    as_text,
    parse_memory_budget,
    parse_threads,
)
from ._cells.genes import gene_list
from ._options import (
    COMPRESSIONS,
    JOINS,
    MISSING_GENES,
    Compression,
    Genes,
    Join,
    ProcessingOptions,
    ShardingOptions,
)
from ._progress import Progress, ProgressCallback, as_progress_callback
from .collection import CellCollection
from .errors import InvalidArgumentError

# What the core takes for a collection: its core, make_unique, the steps that chose it, its content.
ChosenCells: TypeAlias = tuple[_core.Collection, bool, list[str], int]


@contextmanager
def input_paths(source: object, name: str = "adata_path") -> Iterator[list[str]]:
    if hasattr(source, "write_h5ad"):
        with tempfile.TemporaryDirectory(prefix="cellfeed-") as folder:
            path = os.path.join(folder, "in_memory.h5ad")
            source.write_h5ad(path)
            yield [path]
    else:
        yield as_paths(name, source)


def chosen_cells(source: object, **fixed: tuple[object, object]) -> ChosenCells | None:
    """The collection that is given instead of files, as the core takes it; None for anything else.

    Parameters
    ----------
    source
        What was given.
    **fixed
        What a collection was opened with: the value given now, and the one that means it was not.
    """
    if not isinstance(source, CellCollection):
        return None
    for name, (value, default) in fixed.items():
        if value is not default and value != default:
            raise InvalidArgumentError(
                f"{name} is settled when files are opened: give it to cellfeed.open instead, and "
                f"leave it out where a collection is written"
            )
    len(source)  # says so where it is closed
    origin = source._origin
    return source._core, origin.options.make_unique, origin.steps, origin.fingerprint(0)


def settled_when_opened(
    gene_vocab: Genes | None, options: ShardingOptions | ProcessingOptions
) -> dict[str, tuple[object, object]]:
    """What a collection was opened with: the value given now, and the one that means none."""
    defaults = {
        "layer": "X", "layers": None, "obsm": None, "genome": None, "feature_type": None,
        "join": None, "var_key": None, "make_unique": False,
    }  # fmt: skip
    given = {name: (options.get(name, default), default) for name, default in defaults.items()}
    return {"gene_vocab": (gene_vocab, None), **given}


def input_of_all(source: object, name: str) -> tuple[CellCollection | None, list[str]]:
    """A collection, or absolute paths: what several processes can open."""
    if isinstance(source, CellCollection):
        return source, []
    if hasattr(source, "write_h5ad"):
        raise InvalidArgumentError(
            f"{name} is in the memory of this process, and others write the shards: write it to "
            f"an .h5ad file that all of them see, and give that"
        )
    return None, [absolute(path) for path in as_paths(name, source)]


def absolute(path: str) -> str:
    """The path for processes of other folders."""
    # As it is but for that: "a/../b" is not "b" where a is a link.
    return path if "://" in path else os.path.join(os.getcwd(), path)


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


def tenx_choice(genome: str | None, feature_type: str | None) -> dict[str, str]:
    return {
        "genome": "" if genome is None else as_text("genome", genome),
        "feature_type": "" if feature_type is None else as_text("feature_type", feature_type),
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


def axis_options(
    gene_vocab: Genes | None, options: ShardingOptions | ProcessingOptions
) -> dict[str, Any]:
    """What decides the genes of the output."""
    missing_genes = as_choice("missing_genes", options.get("missing_genes", "warn"), MISSING_GENES)
    return {
        "genes": [] if gene_vocab is None else gene_list(gene_vocab, "gene_vocab"),
        "refuse_absent_genes": missing_genes == "error",
        "join": join_text(options.get("join")),
        "var_keys": as_chosen_names("var_key", options.get("var_key")) or [],
        "make_unique": as_bool("make_unique", options.get("make_unique", False)),
    }


def existing(options: ShardingOptions | ProcessingOptions) -> str:
    """What is done about shards that are there."""
    resume = as_bool("resume", options.get("resume", False))
    overwrite = as_bool("overwrite", options.get("overwrite", False))
    if resume and overwrite:
        raise InvalidArgumentError(
            "resume continues what is there and overwrite replaces it: choose one"
        )
    return "resume" if resume else "overwrite" if overwrite else "refuse"


def join_text(join: Join | None) -> str:
    return "" if join is None else as_choice("join", join, JOINS)


def compression_text(compression: Compression | None) -> str:
    """How ``.h5ad`` files are compressed; ``None``, as anndata has it, is ``"none"``."""
    return "none" if compression is None else as_choice("compression", compression, COMPRESSIONS)
