"""Python code in a new interpreter, with limits of its own."""

import subprocess
import sys

TIMEOUT_S = 240


def run_child(code, *arguments, timeout=TIMEOUT_S):
    """Exit code, stdout and stderr. A child that hangs is killed, and the test fails."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def run_quietly(code, *arguments, timeout=TIMEOUT_S):
    """Stdout of a child that succeeds and prints nothing on stderr."""
    status, out, errors = run_child(code, *arguments, timeout=timeout)
    assert (status, errors) == (0, ""), errors
    return out
