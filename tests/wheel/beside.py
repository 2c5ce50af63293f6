"""cellfeed and another package in one process: before and after it, in children, and at the end.

usage: beside.py MODULE ATLAS
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

OTHERS, ATLAS = sys.argv[1:3]


def read_one() -> int:
    """Read a batch through the core, Arrow tables through both Arrows; the number of cells."""
    import cellfeed as cf

    cells = cf.open(f"{ATLAS}/*.h5ad", obs=["cell_type"])
    batch = next(iter(cf.Loader(cells, cf.BlockShuffling(64), batch_size=256)))
    table = cells.obs_table()
    if "pyarrow" in sys.modules:
        import io

        import pyarrow as pa
        import pyarrow.parquet as pq

        stored = io.BytesIO()
        arrow = pa.table(table)
        pq.write_table(arrow, stored)
        stored.seek(0)
        assert pq.read_table(stored).num_rows == arrow.num_rows == cells.files[0]["n_cells"]
    return len(batch.index)


def in_order(first: str, second: str) -> None:
    """A new process that imports in this order, works, and starts children in both ways."""
    code = f"""
import sys
sys.argv = {["beside", OTHERS, ATLAS]!r}
sys.path.insert(0, {str(__file__.rpartition("/")[0])!r})
{first}
{second}
import multiprocessing, warnings
import beside
warnings.simplefilter("ignore")  # a fork beside threads
assert beside.read_one() == 256
for way in ("fork", "spawn"):
    context = multiprocessing.get_context(way)
    with context.Pool(1) as pool:
        assert pool.apply(beside.read_one) == 256, way
assert beside.read_one() == 256
import hashlib, ssl
hashlib.sha256(b"").digest(), ssl.create_default_context()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode != 0 or "Traceback" in done.stderr:
        raise SystemExit(f"{first}; {second}: exit code {done.returncode}\n{done.stderr}")


if __name__ == "__main__":
    multiprocessing.freeze_support()
    in_order(f"import {OTHERS}", "import cellfeed._core")
    in_order("import cellfeed._core", f"import {OTHERS}")
    print("ok")
