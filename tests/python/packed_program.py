"""A program that reads through the packed cache, and what it kept."""

import os
import pathlib
import subprocess
import sys

import numpy as np
from attack import SHIM

PROGRAM = """
import sys, warnings, numpy as np, cellfeed as cf
path, cache = sys.argv[1:]
cells = cf.open(path, cache="rows", cache_dir=cache)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for epoch in range(2):
        for batch in cf.Loader(cells, cf.BlockShuffling(16), 256, seed=epoch):
            print(np.asarray(batch.index).sum(), batch.to_scipy().sum(), batch.to_scipy().nnz)
print(*(f"{w.category.__name__}: {w.message}" for w in caught), sep="\\n")
"""


def run_program(path, cache, fault=None, under=None):
    environment = dict(os.environ)
    if fault is not None:
        under = under or str(cache)
        environment |= {"LD_PRELOAD": str(SHIM), "FAULT": fault, "FAULT_UNDER": under}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, path, cache], env=environment, capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip


def kept_rows(cache):
    """Of all segments: each list has a header of 4 words and ends with a checksum."""
    lists = [np.fromfile(path, "<u8") for path in pathlib.Path(cache).rglob("rows-*.rows")]
    return len(set(np.concatenate([words[4:-1] for words in lists]))) if lists else 0
