"""Under limits of the system: files, threads, memory. Named errors, in time; never a hang."""

import shutil
import signal

import anndata
import numpy as np
import pytest
import scipy.sparse
from child_program import run_child, run_quietly

import cellfeed as cf
from cellfeed.data.sharding import validate_shard_dir

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_file(tmp_path_factory):
    """2,000 cells, readable by anybody."""
    folder = tmp_path_factory.mktemp("limits")
    for parent in [folder, *folder.parents[:2]]:
        parent.chmod(0o755)
    path = folder / "one.h5ad"
    matrix = scipy.sparse.random(2000, 300, 0.2, format="csr", dtype=np.float32, random_state=1)
    anndata.AnnData(matrix).write_h5ad(path)
    path.chmod(0o644)
    return path


@pytest.fixture(scope="module")
def many_files(one_file):
    """340 copies of the file."""
    folder = one_file.parent / "many"
    folder.mkdir()
    for i in range(340):
        shutil.copy(one_file, folder / f"{i:03}.h5ad")
    return folder


OPEN_MANY = """
import os, resource, sys, zlib
import cellfeed as cf
soft, hard = map(int, sys.argv[2:4])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
before = len(os.listdir("/proc/self/fd"))
cells = cf.open(sys.argv[1])
batches = iter(cf.Loader(cells, cf.BlockShuffling(1), 64))
content = 0
for _ in range(20):
    x = next(batches).x
    for part in (x.indptr, x.indices, x.data):
        content = zlib.crc32(part.tobytes(), content)
taken = len(os.listdir("/proc/self/fd")) - before
print(len(cells), content, taken, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_a_file_takes_one_descriptor(many_files):
    cells, _, taken, soft = map(
        int, run_quietly(OPEN_MANY, many_files / "*.h5ad", 1024, 1024).split()
    )
    assert (cells, soft) == (340 * 2000, 1024)
    assert 340 <= taken <= 345


def test_the_soft_limit_of_files_is_raised_before_it_is_met(many_files):
    out = run_quietly(OPEN_MANY, many_files / "*.h5ad", 256, 4096).split()
    assert (int(out[0]), int(out[3])) == (340 * 2000, 4096)


def test_more_files_are_open_than_there_are_descriptors(many_files):
    _, wanted, _, _ = run_quietly(OPEN_MANY, many_files / "*.h5ad", 1024, 1024).split()
    cells, content, taken, _ = run_quietly(OPEN_MANY, many_files / "*.h5ad", 128, 128).split()
    assert (int(cells), content) == (340 * 2000, wanted)
    assert 60 <= int(taken) <= 80


NO_THREADS = """
import os, resource, sys
import cellfeed as cf
loader = cf.Loader(cf.open(sys.argv[1]), cf.BlockShuffling(1), 64, threads=4)
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)  # root has no limit
resource.setrlimit(resource.RLIMIT_NPROC, (int(sys.argv[2]),) * 2)
for attempt in range(2):
    try:
        print(sum(len(batch) for batch in loader))
    except cf.errors.CellfeedError as error:
        print(type(error).__name__, "ulimit -u" in str(error))
"""


def test_a_limit_of_threads_is_an_error_of_next(one_file):
    assert run_quietly(NO_THREADS, one_file, 0) == "InputOutputError True\n" * 2


LITTLE_MEMORY = """
import resource, sys
import cellfeed as cf
loader = cf.Loader(cf.open(sys.argv[1]), cf.BlockShuffling(1), 500, threads=3)
words = open("/proc/self/statm").read().split()
room = int(words[0]) * resource.getpagesize() + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (room, room))
try:
    print(sum(len(batch) for batch in loader))
except (cf.errors.CellfeedError, MemoryError) as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("megabytes", [0, 2, 9, 20, 40, 90, 200, 4000])
def test_little_memory_is_an_error_or_enough(one_file, megabytes):
    status, out, errors = run_child(LITTLE_MEMORY, one_file, megabytes << 20)
    assert status == 0, errors
    assert out.strip() in {"2000", "MemoryError", "InputOutputError"}
    if megabytes == 4000:
        assert out == "2000\n"


FORK = """
import os, signal, sys, threading
import numpy as np
import cellfeed as cf
path, work = sys.argv[1:3]
cells = cf.open(path)
weights = np.arange(1, len(cells) + 1, dtype=float)
drawn = cf.BlockWeightedSampling(1, weights=weights, replace=False)
loader = cf.Loader(cells, cf.BlockShuffling(1), 64, threads=2)
weighted = cf.Loader(cells, drawn, 64, threads=2, obs=["donor"])
rows = np.arange(0, len(cells), 7)
WORK = {
    "draw": lambda k: next(iter(weighted.plan(k))),
    "read": lambda k: cells.read(rows),
    "open": lambda k: cf.open(path, obs=["donor"]).obs_column("donor"),
    "obs": lambda k: cells.obs_column(["donor", "score"][k % 2]),
    "iterate": lambda k: next(iter(loader)),
    "make": lambda k: cf.Loader(cells, cf.Streaming(), 10),
}[work]
expected = next(iter(weighted)).to_scipy()
stop = threading.Event()
def repeat():
    k = 0
    while not stop.is_set():
        WORK(k)
        k += 1
threads = [threading.Thread(target=repeat) for _ in range(2)]
for thread in threads:
    thread.start()
for attempt in range(12):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        weighted.set_epoch(0)
        same = (next(iter(weighted)).to_scipy() != expected).nnz == 0
        WORK(1)
        os._exit(0 if same else 3)
    status = os.waitpid(child, 0)[1]
    if status != 0:
        print("child", attempt, "ended with", status, flush=True)
        os._exit(1)
stop.set()
for thread in threads:
    thread.join()
print("done")
"""


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The same cells as a gzip .h5ad and as shards."""
    folder = tmp_path_factory.mktemp("forks")
    random = np.random.default_rng(3)
    adata = anndata.AnnData(
        scipy.sparse.random(3000, 200, 0.2, format="csr", dtype=np.float32, random_state=2)
    )
    adata.obs["donor"] = random.choice(["a", "b", "c"], size=3000)
    adata.obs["donor"] = adata.obs["donor"].astype("category")
    adata.obs["score"] = random.random(3000)
    adata.write_h5ad(folder / "atlas.h5ad", compression="gzip")
    cf.convert_to_shards(folder / "atlas.h5ad", folder / "shards", shard_size=1000)
    return folder


@pytest.mark.parametrize("kind", ["atlas.h5ad", "shards"])
@pytest.mark.parametrize("work", ["draw", "read", "open", "obs", "iterate", "make"])
def test_a_child_forked_in_the_middle_of_work_loads_batches(stores, kind, work):
    status, out, errors = run_child(FORK, stores / kind, work)
    assert (status, out) == (0, "done\n"), out + errors
    assert "RuntimeError" not in errors  # of what runs before a fork, which Python only prints
    assert -status not in {signal.SIGALRM, signal.SIGKILL}


@pytest.mark.parametrize("threads", [0, -1, 1025, 9999, 2**40, 2.5, "4", True])
def test_threads_follow_one_rule_everywhere(one_file, tmp_path, threads):
    cells = cf.open(one_file)
    calls = [
        lambda: cf.Loader(cells, cf.Streaming(), 8, threads=threads),
        lambda: cf.scDataset(cells, cf.Streaming(), 8, threads=threads),
        lambda: cf.convert_to_shards(one_file, tmp_path / "shards", threads=threads),
        lambda: validate_shard_dir(tmp_path / "shards", threads=threads),
        lambda: cf.export_h5ad(one_file, tmp_path / "out.h5ad", threads=threads),
        lambda: cf.simulate(one_file, 10, tmp_path / "out.h5ad", threads=threads),
    ]
    for call in calls:
        with pytest.raises((cf.errors.InvalidArgumentError, cf.errors.InvalidTypeError)) as caught:
            call()
        assert "threads" in str(caught.value) and str(threads) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("budget", ["1KB", 1, "31.9MB", 31_999_999])
def test_memory_budgets_follow_one_rule_everywhere(one_file, tmp_path, budget):
    cells = cf.open(one_file)
    calls = [
        lambda: cf.Loader(cells, cf.Streaming(), 8, memory_budget=budget),
        lambda: cf.scDataset(cells, cf.Streaming(), 8, memory_budget=budget),
        lambda: cf.convert_to_shards(one_file, tmp_path / "shards", memory_budget=budget),
        lambda: cf.export_h5ad(one_file, tmp_path / "out.h5ad", memory_budget=budget),
        lambda: cf.simulate(one_file, 10, tmp_path / "out.h5ad", memory_budget=budget),
    ]
    for call in calls:
        with pytest.raises(cf.errors.InvalidArgumentError, match=r"memory_budget .*32MB"):
            call()
    assert list(tmp_path.iterdir()) == []
