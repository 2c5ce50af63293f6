"""The verbs of the program that need torch; the C++ program has checked their options."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from .. import _core
from .._arguments import as_local_path
from ..errors import AlreadyExistsError, CellfeedError, InvalidArgumentError
from ._ranks import is_first_rank
from ._termination import Terminated
from ._trained_model import load
from ._training import train
from ._whole_file import require_place, whole_file

_FAILED = 1


def main() -> None:
    """Run one verb; exit codes as of the program."""
    arguments = _parsed()
    _core.speak_as_program()
    for name in ("lightning.pytorch", "lightning.fabric", "pytorch_lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        result = _VERBS[arguments.verb](arguments)
    except CellfeedError as error:
        _end(str(error), _FAILED)
    except KeyboardInterrupt as error:
        by = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
        _end("interrupted" if is_first_rank() else None, 128 + by)
    if result is not None:
        _print(json.dumps(result) if arguments.json else _text(result))


def _print(text: str) -> None:
    # Python ignores SIGPIPE; a reader that is gone ends the program quietly, as it does others.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        print(text, flush=True)
    except OSError as error:
        _end(f"cannot write the result to stdout: {error.strerror}", _FAILED)


def _end(message: str | None, code: int) -> NoReturn:
    if message is not None:
        print(f"cellfeed: error: {message}", file=sys.stderr, flush=True)
    # Other ranks may wait for this one: threads of the process group would keep it.
    os._exit(code)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser("cellfeed")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("train")
    verb.add_argument("--config", required=True)
    verb.add_argument("--num-devices", type=int)
    verb.add_argument("--num-nodes", type=int)
    verb.add_argument("--resume")
    verb.add_argument("--name")
    verb.add_argument("--runs-dir", default="runs")
    for name in ("embed", "predict"):
        verb = verbs.add_parser(name)
        verb.add_argument("checkpoint")
        verb.add_argument("inputs", nargs="+")
        verb.add_argument("--output", required=True)
        verb.add_argument("--batch-size", type=int, default=1024)
        verb.add_argument("--device", default="cpu")
        verb.add_argument("--force", action="store_true")
        verb.add_argument("--overwrite", action="store_true")
    for verb in verbs.choices.values():
        verb.add_argument("--json", action="store_true")
        verb.add_argument("--quiet", action="store_true")
    return parser.parse_args()


def _train(arguments: argparse.Namespace) -> Mapping[str, Any] | None:
    signal.signal(signal.SIGTERM, _stop)
    report = train(
        arguments.config,
        num_devices=arguments.num_devices,
        num_nodes=arguments.num_nodes,
        resume=arguments.resume,
        name=arguments.name,
        runs_dir=arguments.runs_dir,
        progress=not arguments.quiet,
    )
    return report if report["rank"] == 0 else None


def _apply(arguments: argparse.Namespace) -> Mapping[str, Any]:
    if arguments.output.endswith("/"):
        raise InvalidArgumentError(f"{arguments.output}: is a folder; name the .h5ad to write")
    place = require_place(Path(as_local_path("--output", arguments.output)))
    if os.path.lexists(arguments.output) and not arguments.overwrite:
        raise AlreadyExistsError(f"{arguments.output} is there already: --overwrite replaces it")
    if arguments.output.rstrip("/").endswith(".zarr"):
        raise InvalidArgumentError(
            f"{arguments.output}: {arguments.verb} writes one file of HDF5; name it .h5ad"
        )
    inputs = [arguments.checkpoint, *_core.expand_paths(arguments.inputs)]
    if os.path.realpath(arguments.output) in map(os.path.realpath, inputs):
        raise InvalidArgumentError(
            f"{arguments.output}: is an input, and would be overwritten; choose another output"
        )
    signal.signal(signal.SIGTERM, _stop)
    model = load(arguments.checkpoint, arguments.device)
    use = model.embed if arguments.verb == "embed" else model.predict
    adata = use(
        arguments.inputs, batch_size=arguments.batch_size, force=arguments.force,
        progress=None if not arguments.quiet else False,
    )  # fmt: skip
    with whole_file(place, has_rivals=True) as beside:
        adata.write_h5ad(beside)
    return {"verb": arguments.verb, "output": arguments.output, "cells": adata.n_obs}


def _stop(*_: object) -> NoReturn:
    raise Terminated


def _text(result: Mapping[str, Any]) -> str:
    if "output" in result:
        return f"{result['cells']:,} cells: {result['output']}"
    scores = [
        f"{part}: loss {_score(scores['loss'])}"
        + (f", macro F1 {scores['macro_f1']:.3f}" if scores.get("macro_f1") is not None else "")
        for part, scores in result["scores"].items()
    ]
    said = [f"{result['epochs']} epochs, {result['steps']:,} steps", *scores]
    return f"{'; '.join(said)}\n{result['folder']}/report.html"


def _score(value: float | None) -> str:
    return "that is no number" if value is None else f"{value:.4f}"


_VERBS = {"train": _train, "embed": _apply, "predict": _apply}
