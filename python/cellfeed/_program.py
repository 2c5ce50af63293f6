"""The ``cellfeed`` command: hands over to the C++ program that lies beside this file."""

import os
import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    """Replace this process by the program, with the same arguments.

    The program finds this interpreter in ``CELLFEED_PYTHON``, for the verbs that run Python.
    """
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "cellfeed")
    os.environ["CELLFEED_PYTHON"] = sys.executable
    # Python ignores SIGPIPE and exec keeps that; `cellfeed info | head` should end quietly.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execv(program, ["cellfeed", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"cellfeed: cannot run the program: {error.strerror}: {program}; install again")


def run_python_verb() -> None:
    """What the program hands over: verbs that need torch, and shards written by a cluster."""
    try:
        if sys.argv[1:2] == ["write-shards"]:
            from ._cluster_program import main
        else:
            from .training._program import main
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "cellfeed":
            raise
        from ._extras import with_extra

        extra = None if sys.argv[1:2] == ["write-shards"] else "train"
        sys.exit(f"cellfeed: error: {with_extra(error, extra)}")
    except KeyboardInterrupt:
        print("cellfeed: error: interrupted", file=sys.stderr, flush=True)
        os._exit(_INTERRUPTED)
    main()


if __name__ == "__main__":
    run_python_verb()
