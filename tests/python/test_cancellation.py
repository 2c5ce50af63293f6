"""Stopping early, as users do: nothing hangs, nothing leaks, nothing is half-written."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import attack
import psutil
import pytest
from child_program import run_quietly
from real_files import read_anndata

import cellfeed as cf

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def atlas(shared_data, tmp_path_factory):
    """40,000 cells as .h5ad and as shards."""
    folder = tmp_path_factory.mktemp("atlas")
    cf.simulate(shared_data / "anndata/scp1884.h5ad", 40_000, folder / "atlas.h5ad")
    cf.convert_to_shards(folder / "atlas.h5ad", folder / "shards", shard_size=10_000)
    return folder


def make_loader(path, **options):
    return cf.Loader(cf.open(path), cf.BlockShuffling(1), batch_size=256, **options)


@pytest.mark.slow
def test_an_exception_in_the_consumer_stops_the_iteration(atlas):
    loader = make_loader(atlas / "shards")
    threads = psutil.Process().num_threads()
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            for batch in loader:
                _ = len(batch) / 0
    gc.collect()
    assert psutil.Process().num_threads() <= threads + len(os.sched_getaffinity(0))
    assert sum(len(batch) for batch in loader) == 40_000  # and the loader still works


def test_a_consumer_in_a_thread_and_several_iterators_at_once(atlas):
    loaders = [make_loader(atlas / "shards", seed=k) for k in range(3)]
    counts = [0] * 3

    def consume(k):
        for batch in loaders[k]:
            counts[k] += len(batch)

    threads = [threading.Thread(target=consume, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert counts == [40_000] * 3


HEAD = """
import os, signal, sys, threading, time
import cellfeed as cf
path = sys.argv[1]
loader = cf.Loader(cf.open(path), cf.BlockShuffling(1), batch_size=256)
"""


def run_program(body, *arguments, interrupt=False, **environment):
    """Run code in a new interpreter; with interrupt, send it Ctrl-C once it has printed a line."""
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + body, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    try:
        if interrupt:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    return process.returncode, errors


@pytest.mark.parametrize("kind", ["atlas.h5ad", "shards"])
def test_ctrl_c_stops_a_loading_loop(atlas, kind):
    code, errors = run_program(
        "print('ready', flush=True)\nwhile True:\n    for batch in loader: pass",
        atlas / kind,
        interrupt=True,
    )
    assert code == -signal.SIGINT and errors.rstrip().endswith("KeyboardInterrupt"), errors


ABANDON = """
import gc, itertools, psutil
loader = cf.Loader(cf.open(path), cf.BlockShuffling(1), 256, memory_budget="32MB", threads=2)
process = psutil.Process()
def abandon(times):
    for k in range(times):
        iterator = iter(loader)
        for _ in itertools.islice(iterator, k % 3):
            pass
        if k % 2:
            del iterator
    gc.collect()
    memory = process.memory_info()
    return memory.rss - memory.shared, process.num_threads()
def least(times):
    found = [abandon(times) for _ in range(5)]
    return min(memory for memory, _ in found), min(threads for _, threads in found)
abandon(30)
before, threads_before = least(10)
abandon(150)
after, threads_after = least(10)
print(after - before, threads_after - threads_before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["atlas.h5ad", "shards"])
def test_abandoned_iterators_leave_no_threads_and_no_memory(atlas, kind):
    # In a process of its own: beside what other tests keep, memory goes up and down by more.
    memory, threads = run_quietly(HEAD + ABANDON, atlas / kind, timeout=TIMEOUT_S).split()
    assert int(threads) <= 2  # of the pool, which begins them as they are needed
    assert int(memory) < 40_000_000


ENDINGS = {
    "a live iterator": "it = iter(loader); next(it)",
    "live iterators and batches": "its = [iter(loader) for _ in range(5)]; [next(i) for i in its]",
    "sys.exit in the loop": "for batch in loader: sys.exit()",
    "a reference cycle": "class A: pass\na = A(); a.a = a; a.it = iter(loader); next(a.it)",
    "a daemon thread that loads": """
def consume():
    while True:
        for batch in loader: pass
threading.Thread(target=consume, daemon=True).start()
time.sleep(0.2)
""",
    "a forked child": """
it = iter(loader); next(it)
child = os.fork()
if child == 0:
    for batch in cf.Loader(cf.open(path), cf.Streaming(), 512): break
    sys.exit()
sys.exit(os.waitpid(child, 0)[1])
""",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends_at_once_with(atlas, ending):
    code, errors = run_program(ENDINGS[ending], atlas / "shards")
    assert (code, errors) == (0, "")


# A thread of the pool may hold the loader last, when the interpreter is ending already.
WHOLE_PASSES = {
    "tokens": """output='tokens',
        tokens=cf.BinnedTokens(cf.data.GeneVocab.from_genes(cells.var_names), max_length=512)""",
    "dense values": "output='dense', transforms=[cf.NormalizeTotal(), cf.Log1p()]",
}


@pytest.mark.slow
@pytest.mark.parametrize("options", WHOLE_PASSES)
def test_the_interpreter_ends_right_after_the_last_batch_of(atlas, options):
    code = f"""
def run():
    cells = cf.open(path)
    loader = cf.Loader(cells, cf.BlockShuffling(16), 256, threads=2, {WHOLE_PASSES[options]})
    for batch in loader: pass
run()
"""
    for _ in range(12):
        assert run_program(code, atlas / "shards") == (0, "")


# The work waits for a file that is made a second after Ctrl-C, so that it is asked to stop first.
INTERRUPTED = """
def interrupt(*_):
    threading.Timer(1, open, [os.environ["FAULT_UNTIL"], "w"]).start()
    os.kill(os.getpid(), signal.SIGINT)
cf.convert_to_shards(path, sys.argv[2], shard_size=2000, threads=1, progress=interrupt)
"""


@pytest.mark.slow
@pytest.mark.skipif(not attack.SHIM.exists(), reason="the fault shim is not built")
def test_ctrl_c_stops_a_conversion_that_can_be_continued(atlas, tmp_path):
    """Interrupted as soon as it reports, then continued: the bytes of an undisturbed run."""
    target = tmp_path / "s"
    code, errors = run_program(
        INTERRUPTED, atlas / "atlas.h5ad", target,
        LD_PRELOAD=str(attack.SHIM), FAULT="rename:7:hold", FAULT_UNDER=str(target),
        FAULT_UNTIL=str(tmp_path / "gate"),
    )  # fmt: skip
    assert code == -signal.SIGINT and errors.rstrip().endswith("KeyboardInterrupt"), errors
    assert not (target / "shard_metadata.json").exists()
    with pytest.raises(cf.errors.CellfeedError, match="resume"):
        cf.open(target)
    cf.convert_to_shards(atlas / "atlas.h5ad", target, shard_size=2000, resume=True)
    cf.convert_to_shards(atlas / "atlas.h5ad", tmp_path / "undisturbed", shard_size=2000)
    made, expected = (
        {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
        for folder in (target, tmp_path / "undisturbed")
    )
    assert made == expected


@pytest.mark.slow
def test_ctrl_c_stops_verifying_exporting_and_simulating(atlas, tmp_path):
    interrupt = "progress=lambda *_: os.kill(os.getpid(), signal.SIGINT)"
    for call in (
        f"cf.export_h5ad(path, sys.argv[2], threads=1, compression='gzip', {interrupt})",
        f"cf.simulate(path, 200_000, sys.argv[2], threads=1, {interrupt})",
    ):
        code, errors = run_program(call, atlas / "shards", tmp_path / "out.h5ad")
        assert code == -signal.SIGINT and errors.rstrip().endswith("KeyboardInterrupt"), errors
        assert os.listdir(tmp_path) == []


def test_simulated_cells_come_from_their_source(atlas, shared_data):
    real = read_anndata(shared_data / "anndata/scp1884.h5ad")
    cells = cf.open(atlas / "shards")
    rows = [0, 17, 39_999]
    source = cells.obs_values("source_cell", rows)
    made, original = cells[rows].to_numpy(), real.X[source].toarray()
    assert (made <= original).all() and made.sum() > 0.6 * original.sum()
