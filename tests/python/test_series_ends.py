"""Iterators of series at a fork, and at the end of a program: as those of cells."""

import numpy as np
import pandas as pd
import pytest
from child_program import run_quietly

from cellfeed.series import build_series

HEAD = """
import atexit, os, sys, threading, time
import cellfeed as cf
from cellfeed.series import SeriesDataset
def make(**more):
    ds = SeriesDataset(sys.argv[1], window=5)
    return cf.series.SeriesLoader(ds, cf.BlockShuffling(1), 4, **more)
"""
LOOPS = """
def go_on():
    while True:
        for batch in make(): pass
for _ in range(3): threading.Thread(target=go_on, daemon=True).start()
next(iter(make()))
time.sleep(0.05)
"""
PROGRAMS = {
    "an iterator in the middle": "def unused(): it\nit = iter(make())\nnext(it)",
    "a thread that goes on": "loader = make()\nthreading.Thread(target=lambda: print(len(list(loader)) == len(loader))).start()",  # noqa: E501
    "threads that never end": LOOPS + "print(True)",
    "a function of atexit": "it = iter(make())\nnext(it)\natexit.register(lambda: print(len(list(it)) > 9))",  # noqa: E501
    "a new loader in a function of atexit": "atexit.register(lambda: print(len(list(make())) > 9))",
}
FORKED = """
it = iter(make(threads=2))
next(it)
if (child := os.fork()) == 0:
    try: next(it)
    except cf.errors.InvalidArgumentError as error: print(str(error).split(";")[0], flush=True)
    del it
    print(len(list(make())) > 9, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(len(list(it)) > 9)
"""


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    folder = tmp_path_factory.mktemp("series")
    frame = pd.DataFrame({"time": np.arange(200), "price": np.arange(200.0)})
    frame.to_csv(folder / "a.csv", index=False)
    build_series(folder / "a.csv", folder / "built", time="time", window=5, progress=False)
    return folder / "built"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_ends_in_silence(series, program):
    out = run_quietly(HEAD + PROGRAMS[program], series, timeout=60)
    assert out == ("" if program == "an iterator in the middle" else "True\n")


def test_an_iterator_in_a_forked_child_is_an_error(series):
    out = run_quietly(HEAD + FORKED, series, timeout=60)
    assert out == "this iterator was made before the process forked\nTrue\nTrue\n"
