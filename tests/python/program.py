"""The installed cellfeed program, run as users run it."""

import os
import pathlib
import shutil
import subprocess
import sys


def find_program() -> str:
    """CELLFEED_PROGRAM, or the program beside this Python."""
    named = os.environ.get("CELLFEED_PROGRAM")
    beside = pathlib.Path(sys.executable).with_name("cellfeed")
    return named or (str(beside) if beside.exists() else shutil.which("cellfeed") or "")


PROGRAM = find_program()


def completed(*arguments, code=0, **options) -> subprocess.CompletedProcess:
    """Runs the program to this exit code; both of what it says are text."""
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
    )
    assert done.returncode == code, done.stderr
    return done


def run(*arguments, code=0, **options):
    """Runs the program; returns its stdout, or stderr when it is to fail."""
    done = completed(*arguments, code=code, **options)
    if code == 0:
        return done.stdout
    assert done.stderr.startswith("cellfeed: error: "), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr
