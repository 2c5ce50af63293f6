"""What the program hands over with ``--scheduler``; it has checked its options."""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import sys
from typing import Any, NoReturn

from . import _core
from ._arguments import absolute
from ._conversion_arguments import resources
from ._dask import connected, write_with_dask
from .collection import CellCollection
from .errors import CellfeedError
from .opening import open as open_cells
from .shard_plan import ShardPlan, begin

_FAILED = 1


class _Stopped(KeyboardInterrupt):
    """SIGTERM, which ends what goes on as Ctrl-C does: a lock in a bucket ends with nobody."""


def _stop(*_: object) -> NoReturn:
    raise _Stopped


def main() -> None:
    """Plan, have the workers write, and print the result; exit codes as of the program."""
    arguments = _parsed()
    _core.speak_as_program()
    plan: ShardPlan[str] | None = None
    signal.signal(signal.SIGTERM, _stop)
    try:
        with connected(arguments.scheduler) as client:
            given = _given(arguments.options_fd)
            cells = _opened(given.pop("open"))
            threads, budget = given.pop("threads") or None, given.pop("memory_budget") or None
            progress = not arguments.quiet
            plan = begin(given, cells, resources(threads, budget, progress), functools.partial(
                _printed, output=given["output_dir"], as_json=arguments.json
            ))  # fmt: skip
            text = write_with_dask(
                plan, client, threads=threads, memory_budget=budget, progress=progress
            )
        print(text, end="", flush=True)
    except (CellfeedError, ModuleNotFoundError) as error:
        _end(str(error), _FAILED)
    except KeyboardInterrupt as error:
        rest = "" if plan is None else f"; {plan.finished_text}"
        by = signal.SIGTERM if isinstance(error, _Stopped) else signal.SIGINT
        _end(f"interrupted{rest}", 128 + by)


def _given(fd: int) -> dict[str, Any]:
    with os.fdopen(fd) as file:
        given: dict[str, Any] = json.load(file)
    given["output_dir"] = absolute(given["output_dir"])
    return given


def _opened(how: dict[str, Any]) -> CellCollection:
    paths = [absolute(path) for path in how.pop("paths")]
    expression = how.pop("filter")
    cells = open_cells(paths, **how)
    return cells.filter(expression) if expression else cells


def _printed(conversion: _core.SharedConversion, output: str, as_json: bool) -> str:
    return conversion.finish_as_text(output, as_json)


def _end(message: str, code: int) -> NoReturn:
    print(f"cellfeed: error: {message}", file=sys.stderr, flush=True)
    # Threads of the client may wait for a scheduler that is gone.
    os._exit(code)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser("cellfeed write-shards")
    parser.add_argument("--scheduler", required=True)
    parser.add_argument("--options-fd", type=int, required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args(sys.argv[2:])
