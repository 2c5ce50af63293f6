"""Ctrl-C while a server is silent, throttles or stalls: it ends the call, and spoils nothing."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import anndata
import numpy as np
import pytest
from fault_rules import Fault
from store_clients import requested_store
from test_cloud import assert_cells, write_cells

import cellfeed as cf
from cellfeed.collection import CellView
from cellfeed.verification import validate_shard_dir

pytestmark = pytest.mark.slow

# Far below the deadline of requests, and far above what a slow machine takes.
SOON_S = 20
DEADLINE_S = 120
ROWS = [3, 400, 250]

FAULTS = {
    "silent": Fault(kind="hold"),
    "throttling": Fault(kind="status", status=503, retry_after=60),
    "stalling": Fault(kind="stall", method="GET", after_bytes=3),
}


def loader_of(cells):
    return cf.Loader(cells, cf.BlockShuffling(4), 64, seed=1)


def sums_of(loader):
    sums = {}
    for batch in loader:
        sums.update(zip(batch.index, np.asarray(batch.x.sum(axis=1)).ravel(), strict=True))
    return [sums[row] for row in sorted(sums)]


# Of each: what comes before the server fails, and the call that waits for it.
CALLS = {
    "open": (lambda url: url, cf.open),
    "a pattern": (lambda url: url.replace("a.h5ad", "*.h5ad"), cf.open),
    "obs": (cf.open, lambda cells: cells.obs["depth"]),
    "rows": (cf.open, lambda cells: cells[ROWS].X),
    "a filter": (cf.open, lambda cells: cells.filter("depth > 0")),
    "a loader": (cf.open, lambda cells: sums_of(loader_of(cells))),
    "batches": (lambda url: loader_of(cf.open(url)), sums_of),
    "a mapped collection": (
        lambda url: url,
        lambda url: [cf.MappedCollection([url])[row]["X"] for row in ROWS],
    ),
    "shards": (lambda url: url, lambda url: cf.open(url.replace("a.h5ad", "shards"))),
    "verifying": (lambda url: url.replace("a.h5ad", "shards"), validate_shard_dir),
}


@contextlib.contextmanager
def ctrl_c(proxy):
    """Presses it once a request is spoiled; nothing where the block has ended before."""
    has_ended = threading.Event()

    def press():
        while not any(each.fault for each in proxy.seen):
            if has_ended.wait(0.01):
                return
        if not has_ended.wait(0.1):
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    presser = threading.Thread(target=press)
    presser.start()
    try:
        yield
    finally:
        has_ended.set()
        presser.join()
        signal.signal(signal.SIGINT, before)


def assert_interrupted(proxy, fault, call, *arguments):
    proxy.reset()
    proxy.set_faults(fault)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), ctrl_c(proxy):
        call(*arguments)
    took = time.monotonic() - began
    proxy.set_faults()
    assert any(each.fault for each in proxy.seen)
    assert took < SOON_S, f"{took:.1f} s"


@pytest.fixture
def link(request, monkeypatch):
    with requested_store(request, monkeypatch) as store:
        monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", str(DEADLINE_S))
        yield store


def put_cells(link, folder, **options):
    """Cells as an object of the name a.h5ad, and where it is."""
    adata = write_cells(folder / "a.h5ad", **options)
    link.put("a.h5ad", folder / "a.h5ad")
    return adata, link.url("a.h5ad")


CASES = [("s3", fault) for fault in FAULTS] + [("gs", "silent"), ("az", "silent")]


@pytest.mark.parametrize(("link", "fault"), CASES, indirect=["link"])
def test_ctrl_c_ends_what_waits_for_a_server(link, fault, tmp_path):
    file = tmp_path / "a.h5ad"
    adata = write_cells(file, compression="gzip")
    for number, (name, (prepare, call)) in enumerate(CALLS.items()):
        # Nothing is known of it yet.
        url = link.url(f"{number}/a.h5ad")
        link.put(f"{number}/a.h5ad", file)
        if "shards" in name or name == "verifying":
            cf.convert_to_shards(file, url.replace("a.h5ad", "shards"), shard_size=200)
        before = prepare(url)
        assert_interrupted(link.proxy, FAULTS[fault], call, before)
        assert_right(name, call(before), adata)


def assert_right(name, result, adata):
    """What the same call gives once the server answers again."""
    if isinstance(result, cf.CellCollection | CellView):
        kept = adata[adata.obs["depth"] > 0] if name == "a filter" else adata
        assert (result[:].X != kept.X).nnz == 0
    elif name == "obs":
        np.testing.assert_array_equal(result, adata.obs["depth"])
    elif name == "rows":
        assert (result != adata.X[ROWS]).nnz == 0
    elif name in ("a loader", "batches"):
        sums = np.asarray(adata.X.sum(axis=1)).ravel()
        np.testing.assert_allclose(result, sums, rtol=1e-5)
    elif name == "a mapped collection":
        np.testing.assert_array_equal(np.stack(result), adata.X[ROWS].toarray())
    else:
        assert name == "verifying"


@pytest.mark.parametrize("link", ["s3"], indirect=True)
@pytest.mark.parametrize("mode", ["files", "blocks"])
def test_what_a_cache_was_filling_goes_on_after_ctrl_c(link, mode, tmp_path):
    adata, url = put_cells(link, tmp_path)

    def read():
        cells = cf.open(url, cache_dir=tmp_path / "cache", cache=mode)
        assert_cells(cells, adata)

    for fault in FAULTS.values():
        assert_interrupted(link.proxy, fault, read)
    read()
    link.proxy.set_faults(Fault(kind="reset", method="GET"))
    read()


@pytest.mark.parametrize("link", ["s3"], indirect=True)
def test_a_conversion_that_reads_from_a_silent_server_ends_and_is_resumed(link, tmp_path):
    adata, url = put_cells(link, tmp_path)
    target = tmp_path / "shards"
    # Not the first that it asks: so far it comes.
    fault = Fault(kind="hold", method="GET", path="a.h5ad", nth=(4, 5, 6, 7, 8, 9, 10))
    assert_interrupted(link.proxy, fault, cf.convert_to_shards, url, target)
    cf.convert_to_shards(url, target, resume=True)
    assert_cells(cf.open(target), adata)
    validate_shard_dir(target)


@pytest.mark.parametrize("link", ["s3"], indirect=True)
def test_a_lock_in_a_bucket_is_given_back_after_ctrl_c(link, tmp_path):
    adata, url = put_cells(link, tmp_path)
    target = link.url("shards")
    fault = Fault(kind="hold", method="GET", path="a.h5ad")
    assert_interrupted(link.proxy, fault, cf.convert_to_shards, url, target)
    assert not [name for name in link.names() if name.endswith(".lock.held")]
    cf.convert_to_shards(url, target, resume=True)
    assert_cells(cf.open(target), adata)


# What runs when the program ends, and threads that it leaves behind.
PROGRAMS = {
    "a function of atexit reads": """
import atexit, sys
atexit.register(lambda: print("read", cells[[3]].X.sum()))
import cellfeed as cf
cells = cf.open(sys.argv[1])
""",
    "a function of atexit waits for a daemon thread": """
import atexit, sys, threading
has_to_end = threading.Event()
def read():
    while not has_to_end.is_set(): cf.open(sys.argv[1])
def close():
    has_to_end.set()
    thread.join()
    print("read and joined")
atexit.register(close)
import cellfeed as cf
thread = threading.Thread(target=read, daemon=True)
thread.start()
""",
    "a daemon thread opens by rows": """
import sys, threading
import cellfeed as cf
thread = threading.Thread(target=cf.open, args=[sys.argv[1]], kwargs={"cache_dir": sys.argv[2]})
thread.daemon = True
thread.start()
sys.stdin.readline()
""",
}


def end_of(program, link, *arguments):
    """Its exit code and what it printed; it is let end once a request is spoiled, if any is."""
    command = [sys.executable, "-c", PROGRAMS[program], link.url("a.h5ad"), *map(str, arguments)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    child = subprocess.Popen(command, text=True, **pipes)
    try:
        while arguments and child.poll() is None and not any(e.fault for e in link.proxy.seen):
            time.sleep(0.02)
        said, errors = child.communicate("\n", timeout=60)
    finally:
        child.kill()
    return child.returncode, said, errors


@pytest.mark.parametrize("link", ["s3"], indirect=True)
@pytest.mark.parametrize(
    "program", ["a function of atexit reads", "a function of atexit waits for a daemon thread"]
)
def test_functions_of_atexit_go_on(link, tmp_path, program):
    put_cells(link, tmp_path)
    code, said, errors = end_of(program, link)
    assert (code, said[:5], errors) == (0, "read ", "")


@pytest.mark.parametrize("link", ["s3"], indirect=True)
def test_a_program_ends_whatever_its_daemon_threads_wait_for(link, tmp_path):
    file = tmp_path / "a.h5ad"
    anndata.AnnData(write_cells(file).X.tocsc()).write_h5ad(file)
    link.put("a.h5ad", file)
    cf.open(link.url("a.h5ad"), cache_dir=tmp_path / "cache")
    n = link.proxy.count("GET", "a.h5ad")
    assert n > 4
    # The first as the file is opened, the last as its rows are written.
    for held in (1, n // 2, n):
        link.proxy.reset()
        link.proxy.set_faults(Fault(kind="hold", method="GET", path="a.h5ad", nth=(held,)))
        code, _, errors = end_of("a daemon thread opens by rows", link, tmp_path / f"cache{held}")
        assert code == 0, errors
        assert any(each.fault for each in link.proxy.seen)
        link.proxy.set_faults()


@pytest.mark.parametrize("link", ["s3"], indirect=True)
def test_a_thread_that_is_not_interrupted_goes_on(link, tmp_path):
    adata, url = put_cells(link, tmp_path)
    cells, read = cf.open(url), []
    link.proxy.set_faults(Fault(kind="hold", method="GET", path="a.h5ad"))
    other = threading.Thread(target=lambda: read.append(cells[ROWS].X))
    other.start()
    with pytest.raises(KeyboardInterrupt), ctrl_c(link.proxy):
        cells[[1, 2]].X  # noqa: B018
    link.proxy.set_faults()
    other.join(DEADLINE_S)
    assert (read[0] != adata.X[ROWS]).nnz == 0
