"""What a newcomer runs first, without torch: the README's first block; files to shards and back.

usage: first_batch.py README ATLAS      in an environment with the wheel and its dependencies alone
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time

README, ATLAS = map(pathlib.Path, sys.argv[1:3])
PROGRAM = pathlib.Path(sysconfig.get_path("scripts")) / "cellfeed"


def program(*arguments: str) -> str:
    """Run the program; its output."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"cellfeed {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def run_first_block() -> dict:
    """Run the README's first block of Python in the folder above the atlas; the names it leaves."""
    block = re.search(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    names: dict = {}
    exec(compile(block[1], str(README), "exec"), names)
    return names


def main() -> None:
    """Run all; print the seconds to the first batch."""
    optional = ("pyarrow", "anndata", "torch")
    assert not any(map(importlib.util.find_spec, optional)), "this is to run without extras"
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.symlink(ATLAS, "atlas")
    begin = time.perf_counter()
    import cellfeed as cf

    cells = cf.open(f"{ATLAS}/*.h5ad", obs=["cell_type"])
    next(iter(cf.Loader(cells, cf.BlockShuffling(64), batch_size=256)))
    seconds = time.perf_counter() - begin
    names = run_first_block()
    assert names["batch"].x.shape[1] == cells.n_vars

    first = str(next(ATLAS.glob("*.h5ad")))
    program("simulate", "--like", first, "--cells", "5000", "--output", "large.h5ad", "--quiet")
    program("shard", "large.h5ad", "--output-dir", "packed", "--quiet")
    program("verify", "packed")
    program("export", "packed", "--output", "back.h5ad", "--quiet")
    before, after = cf.open("large.h5ad"), cf.open("packed")
    back = cf.open("back.h5ad")
    for batch in cf.Loader(after, cf.BlockShuffling(1), batch_size=1000, seed=1):
        for other in (before, back):
            assert (other.read(batch.index).x != batch.x).nnz == 0
    assert before.obs.df.equals(back.obs.df)
    assert [tuple(row) for row in before.var.itertuples()] == [
        tuple(row) for row in after.var.itertuples()
    ]
    shutil.rmtree(folder)
    print(f"{seconds:.2f}")


if __name__ == "__main__":
    main()
