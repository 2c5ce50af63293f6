"""A program that waits at one of its system calls until the test lets it go on.

What the test does meanwhile is done in the midst of the program's work, however fast the program
or slow the machine is.
"""

import contextlib
import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

from attack import SHIM

DEADLINE_S = 120


def wait_until(is_so: Callable[[], bool], child: subprocess.Popen) -> None:
    """Until it is so; fails where the program ends first."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert child.poll() is None, f"it ended with {child.returncode}"
        assert time.monotonic() < deadline, f"it did not come so far in {DEADLINE_S} s"
        time.sleep(0.002)


@contextlib.contextmanager
def held(
    command: list, call: str, under: pathlib.Path | str, **options
) -> Iterator[tuple[subprocess.Popen, Callable[[], None]]]:
    """The program while it waits, and what lets it go on; it goes on at the end in any case.

    Parameters
    ----------
    call
        Which call waits, and which of those: ``"rename:2"``.
    under
        A part of the path that it is about.
    **options
        Of ``subprocess.Popen``.
    """
    name, n = call.split(":")
    with tempfile.TemporaryDirectory() as folder:
        gate, log = pathlib.Path(folder, "gate"), pathlib.Path(folder, "log")
        fault = {
            "LD_PRELOAD": str(SHIM), "FAULT": f"{call}:hold", "FAULT_UNDER": str(under),
            "FAULT_UNTIL": str(gate), "FAULT_LOG": str(log),
        }  # fmt: skip
        environment = {**os.environ, **options.pop("env", {}), **fault}
        child = subprocess.Popen([*map(str, command)], env=environment, **options)
        try:
            wait_until(
                lambda: log.exists() and log.read_text().split().count(name) >= int(n), child
            )
            yield child, gate.touch
        finally:
            gate.touch()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=DEADLINE_S)
