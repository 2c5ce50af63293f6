"""The end of an iterator, and of a program: other threads go on, and nothing is printed."""

import os
import pathlib
import subprocess
import sys

import anndata
import h5py
import numpy as np
import pytest
import scipy.sparse
from child_program import run_quietly

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"

# Python is told not to change threads by itself: another counts in the middle of `del` only
# if that lets go of the interpreter.
OTHER_THREADS = """
import sys, threading, time
import cellfeed as cf
loader = cf.Loader(cf.open(sys.argv[1]), cf.Streaming(), 16, threads=2)
count = 0
def keep_counting():
    global count
    while True:
        count += 1
        time.sleep(0.0001)
threading.Thread(target=keep_counting, daemon=True).start()
sys.setswitchinterval(1000)
iterator = loader._reader.core.iterate(loader._schedule.make_plan(0))
asking = threading.Thread(target=lambda: list(iterator), daemon=True)
asking.start()
while loader.stats()["wait_seconds"] == 0:  # the driver reads
    time.sleep(0.001)
iterator.stop()
asking.join()
before = count
del iterator, asking
print(count > before)
"""


@pytest.fixture(scope="module")
def slow_file(tmp_path_factory):
    """Cells in one chunk, which takes a long time to inflate."""
    path = tmp_path_factory.mktemp("slow") / "slow.h5ad"
    n, row = 40, 1_000_000
    matrix = scipy.sparse.csr_matrix((n, row), dtype=np.float32)
    anndata.AnnData(matrix).write_h5ad(path)
    how = {"chunks": (n * row,), "compression": "gzip", "compression_opts": 1}
    with h5py.File(path, "r+") as file:
        for name, data in (
            ("indices", np.tile(np.arange(row, dtype=np.int32), n)),
            ("data", np.ones(n * row, np.float32)),
        ):
            del file["X"][name]
            file["X"].create_dataset(name, data=data, **how)
        file["X/indptr"][...] = np.arange(n + 1) * row
    return path


@pytest.mark.slow
def test_the_end_of_an_iterator_lets_other_threads_run(slow_file):
    assert run_quietly(OTHER_THREADS, slow_file) == "True\n"


ORDINARY = {
    "a loader": "loader = cf.Loader(cells, cf.BlockShuffling(), 64)\nfor batch in loader: pass",
    "an iterator in the middle": "it = iter(cf.Loader(cells, cf.BlockShuffling(), 64))\nnext(it)",
    "an iterator in the middle, with torch": (
        "import torch\nloader = cf.Loader(cells, cf.BlockShuffling(8), batch_size=64, seed=0)\n"
        "i1 = iter(loader)\nnext(i1)"
    ),
    "scDataset over arrays": (
        "data = cf.scDataset(np.arange(100), cf.Streaming(), 8)\nfor batch in data: pass"
    ),
    "kept by a module": (
        "import sys, builtins\n"
        "builtins.kept = sys.kept = cf.scDataset(np.arange(100), cf.Streaming(), 8)"
    ),
    "in a cycle": (
        "class Model: pass\nmodel = Model()\nmodel.me = model\n"
        "model.data = cf.Loader(cells, cf.Streaming(), 8)\nmodel.batch = next(iter(model.data))"
    ),
    "a thread that goes on": (
        "import threading\nloader = cf.Loader(cells, cf.Streaming(), 8)\n"
        "def consume():\n    while True:\n        for batch in loader: pass\n"
        "threading.Thread(target=consume, daemon=True).start()\nnext(iter(loader))"
    ),
    "threads that go on": (
        "import threading, time\nloader = cf.Loader(cells, cf.Streaming(), 8)\n"
        "def consume():\n    while True:\n        for batch in loader: pass\n"
        "for _ in range(4): threading.Thread(target=consume, daemon=True).start()\n"
        "next(iter(loader))\ntime.sleep(0.03)"
    ),
    "threads that meet errors": (
        "import threading, time\nsys.setswitchinterval(1e-6)\n"
        "core = cf.Loader(cells, cf.Streaming(), 8)._reader.core\nbeyond = np.array([1000])\n"
        "def fail():\n    while True:\n        try: core.read_rows(beyond)\n"
        "        except IndexError: pass\n"
        "for _ in range(4): threading.Thread(target=fail, daemon=True).start()\ntime.sleep(0.03)"
    ),
    "workers": (
        "import torch.utils.data, warnings\nwarnings.simplefilter('ignore')\n"
        "data = cf.scDataset(cells, cf.Streaming(), 64)\n"
        "for batch in torch.utils.data.DataLoader(data, batch_size=None, num_workers=2): pass"
    ),
    "files closed behind its back": (
        "import os\ndata = cf.scDataset(np.arange(100), cf.Streaming(), 8)\n"
        "next(iter(data))\nos.closerange(3, 256)"
    ),
}


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "small.h5ad"
    matrix = scipy.sparse.random(500, 40, 0.3, format="csr", dtype=np.float32, random_state=1)
    anndata.AnnData(matrix).write_h5ad(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("script", ORDINARY)
def test_an_ordinary_program_ends_in_silence(small_file, script):
    head = "import sys\nimport numpy as np\nimport cellfeed as cf\ncells = cf.open(sys.argv[1])\n"
    run_quietly(head + ORDINARY[script], small_file)


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.name for path in sorted(EXAMPLES.glob("[!_]*.py"))])
def test_an_example_ends_in_silence(tmp_path, name):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--short", "--output-dir", str(tmp_path)],
        capture_output=True, text=True, timeout=500, check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    progress = ("simulating", "writing shards", "checking", "exporting")
    lines = [line for line in done.stderr.splitlines() if not line.startswith(progress)]
    assert (done.returncode, lines) == (0, []), done.stderr
