"""Shards written by the workers of a Dask cluster: real processes, killed, lost and misled."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import pytest
from held_program import wait_until
from program import PROGRAM, run
from small_atlas import make_anndata, write_atlas
from worker_doubles import make_deadly, make_slow, put_first, take_away

import cellfeed as cf
from cellfeed import _dask
from cellfeed.errors import (
    AlreadyExistsError,
    CancelledError,
    ClusterError,
    CorruptDataError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
)

distributed = pytest.importorskip("distributed")

OPTIONS = {
    "plain": {},
    "mean": {"gene_order": "mean"},
    "shuffle": {"shuffle": True, "seed": 7},
    "dense": {"layout": "dense"},
}
N_CELLS = 400  # of each of two files


def files_of(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("atlas")
    write_atlas(path, 2, n_cells=N_CELLS, n_genes=60)
    return path


@pytest.fixture(scope="module")
def atlas(folder):
    return str(folder / "atlas_*.h5ad")


def convert(cells, folder, shard_size=100_000, *, client, progress=None, **options):
    plan = cf.cluster.plan_shards(cells, folder, shard_size, progress=progress, **options)
    return cf.cluster.write_with_dask(plan, client, progress=progress)


def preprocess(cells, folder, *, client, **options):
    return cf.cluster.write_with_dask(cf.cluster.plan_preprocess(cells, folder, **options), client)


def local_cluster(n_workers=2, threads_per_worker=1):
    return distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=threads_per_worker,
        processes=True,
        dashboard_address=":0",
    )


@pytest.fixture(scope="module")
def cluster():
    with local_cluster() as made:
        yield made


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as made:
        made.wait_for_workers(2)
        yield made


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_workers_write_the_bytes_of_one_process(atlas, tmp_path, client, options):
    one = cf.convert_to_shards(atlas, tmp_path / "one", shard_size=50, **options)
    many = convert(atlas, tmp_path / "many", shard_size=50, client=client, **options)
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
    assert (many.n_shards, many.n_shards_resumed) == (one.n_shards, 0) == (16, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* holds .* too, which:UserWarning")
def test_both_workers_preprocess_to_the_bytes_of_one_process(atlas, tmp_path, client):
    options = {"n_top_genes": 9, "min_genes": 24, "keep_counts": True, "shard_size": 20}
    one = cf.preprocess(atlas, tmp_path / "one", **options)
    many = preprocess(atlas, tmp_path / "many", client=client, **options)
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")
    assert many.processing == one.processing
    with pytest.raises(InvalidArgumentError, match="choose a folder"):
        preprocess(atlas, tmp_path / "out.h5ad", client=client)


@pytest.mark.slow
def test_chosen_cells_and_several_threads_of_a_worker(atlas, tmp_path):
    cells = cf.open(atlas).filter("donor == 'd2'")
    cf.convert_to_shards(cells, tmp_path / "one", shard_size=30)
    with (
        local_cluster(n_workers=1, threads_per_worker=3) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        convert(cells, tmp_path / "many", shard_size=30, client=client)
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


@pytest.mark.slow
def test_progress_is_of_all_workers(atlas, tmp_path, client):
    said = []
    convert(
        atlas, tmp_path / "many", shard_size=50, client=client,
        progress=lambda *report: said.append(report),
    )  # fmt: skip
    assert {phase for phase, *_ in said} == {"writing shards"}
    assert {total for _, _, total, _ in said} == {2 * N_CELLS}
    done = [report[1] for report in said]
    assert done[-1] == 2 * N_CELLS
    assert len(set(done)) >= 8


@contextlib.contextmanager
def slow_tasks(client, seconds):
    """Every task of the workers that are there takes that long."""
    client.run(make_slow, seconds)
    yield
    client.run(make_slow, 0)


def kill_worker(client):
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGKILL)
    return pid


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"shuffle": True}], ids=["order", "shuffle"])
def test_a_killed_worker_is_survived(atlas, tmp_path, options):
    cf.convert_to_shards(atlas, tmp_path / "one", shard_size=20, **options)
    killed = []
    with local_cluster() as cluster, distributed.Client(cluster, set_as_default=False) as client:
        client.run(make_slow, 0.05)

        def kill_once(phase, done, total, rate):
            if not killed and (options or 0 < done < total):
                killed.append(kill_worker(client))

        result = convert(
            atlas, tmp_path / "many", shard_size=20, client=client, progress=kill_once, **options
        )
    assert len(killed) == 1
    assert result.n_shards == 40
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


@pytest.mark.slow
def test_what_a_killed_worker_left_behind_goes(atlas, tmp_path, client):
    """Its temporary files, which nothing holds any more."""
    many = tmp_path / "many"
    many.mkdir()
    left = many / "shard_000002.cells.tmp-1-0123456789abcdef"
    said = []

    def leave(*report):
        if not said:
            left.write_bytes(b"half a sh")
        said.append(report)

    convert(atlas, many, shard_size=50, client=client, progress=leave)
    assert said
    assert not left.exists()


@pytest.mark.slow
def test_workers_that_die_of_the_same_shard_are_named_and_the_rest_stays(atlas, tmp_path):
    cf.convert_to_shards(atlas, tmp_path / "one", shard_size=50)

    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        local_cluster() as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.run(make_deadly, 9, str(tmp_path / "many" / "shard_metadata.partial.jsonl"))
        # Which of the two is met first is the scheduler's affair.
        why = "(workers? died|tasks were cancelled).* of 16 shards are finished and st"
        with pytest.raises(ClusterError, match=why):
            convert(atlas, tmp_path / "many", shard_size=50, client=client)
        assert not (tmp_path / "many" / "shard_metadata.json").exists()
        client.restart()
        again = convert(atlas, tmp_path / "many", shard_size=50, client=client, resume=True)
    assert again.n_shards_resumed >= 1
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


@pytest.mark.slow
def test_a_folder_is_written_by_one_client_at_a_time(atlas, tmp_path, client):
    with cf.cluster.plan_shards(atlas, tmp_path / "many", shard_size=50):
        with pytest.raises(AlreadyExistsError, match=f"written by process {os.getpid()}"):
            convert(atlas, tmp_path / "many", shard_size=50, client=client)
        error = run(
            "shard", atlas, "--output-dir", tmp_path / "many", "--scheduler",
            client.scheduler.address, code=1,
        )  # fmt: skip
        assert f"written by process {os.getpid()}" in error


@pytest.fixture
def misled(tmp_path, client, monkeypatch):
    """A worker that sees another folder than the others under the path /proc/self/cwd.

    It is the one that gets something to do: left to the scheduler, it need not get any.
    """
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    before = os.getcwd()
    workers = list(client.run(os.getpid))
    os.chdir(here)
    client.run(os.chdir, str(here))
    client.run(os.chdir, str(there), workers=workers[:1])
    monkeypatch.setattr(client, "submit", partial(client.submit, workers=workers[:1]))
    yield workers[0], here, there
    os.chdir(before)
    client.run(os.chdir, before)


@pytest.mark.slow
def test_a_worker_that_does_not_see_an_input_is_named(misled, client):
    worker, here, _ = misled
    write_atlas(here, 1, n_cells=100)
    with pytest.raises(NotFoundError) as error:
        convert("/proc/self/cwd/atlas_0.h5ad", here / "many", shard_size=20, client=client)
    assert f"worker {worker} on " in str(error.value)
    assert "/proc/self/cwd/atlas_0.h5ad: an input is not there" in str(error.value)


@pytest.mark.slow
def test_a_worker_that_does_not_see_the_output_is_named(misled, client, atlas):
    worker, _, there = misled
    with (  # so slow that every worker has one
        slow_tasks(client, 0.2),
        pytest.raises(NotFoundError, match="the folder of the shards is not there") as error,
    ):
        convert(atlas, "/proc/self/cwd/many", shard_size=20, client=client)
    assert f"worker {worker} on " in str(error.value)
    (there / "many").mkdir()
    with pytest.raises(CancelledError, match="the folder is another one") as error:
        convert(atlas, "/proc/self/cwd/many", shard_size=20, client=client, resume=True)
    assert f"worker {worker} on " in str(error.value)
    assert not list((there / "many").iterdir())


@pytest.mark.slow
def test_a_worker_whose_input_is_another_file_is_named(misled, client):
    worker, here, there = misled
    write_atlas(here, 1, n_cells=100)
    make_anndata(n_cells=100, seed=5).write_h5ad(there / "atlas_0.h5ad")
    with pytest.raises(CorruptDataError, match="the files are not those") as error:
        convert("/proc/self/cwd/atlas_0.h5ad", here / "many", shard_size=2, client=client)
    assert f"worker {worker} on " in str(error.value)
    assert "/proc/self/cwd/atlas_0.h5ad" in str(error.value)


@pytest.mark.slow
def test_a_worker_of_another_version_is_named(atlas, tmp_path, client):
    info = tmp_path / "packages" / "cellfeed-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cellfeed\nVersion: 9.9\n")
    worker = min(client.run(os.getpid))
    client.run(put_first, str(info.parent), workers=[worker])
    try:
        with pytest.raises(ClusterError, match=rf"worker {worker} has cellfeed 9\.9"):
            convert(atlas, tmp_path / "many", shard_size=50, client=client)
    finally:
        client.run(take_away, str(info.parent), workers=[worker])


class Answers:
    """A client whose workers answer so; `alive` are those that the scheduler knows."""

    def __init__(self, answers, alive):
        self._answers, self._alive = answers, alive

    def run(self, _function, *_arguments, on_error):
        assert on_error == "return"
        return self._answers

    def nthreads(self):
        return dict.fromkeys(self._alive, 1)


@pytest.mark.slow
def test_a_worker_that_dies_while_it_is_asked_is_left_out_and_one_that_is_silent_named():
    from distributed.comm import CommClosedError

    answers = {"tcp://a": CommClosedError("closed"), "tcp://b": "1", "tcp://c": ValueError("x")}
    said = list(_dask._said(Answers(answers, ["tcp://b", "tcp://c"]), print))
    assert said == [("tcp://b", "1"), ("tcp://c", answers["tcp://c"])]
    said = list(_dask._said(Answers(answers, ["tcp://a"]), print))
    assert said[0] == ("tcp://a", answers["tcp://a"])


@pytest.mark.slow
def test_a_worker_that_is_killed_at_the_start_is_survived(atlas, tmp_path):
    for delay in (0.0, 0.02, 0.05):
        with local_cluster() as cluster, cluster.get_client() as client:
            process = next(iter(client.run(os.getpid).values()))
            threading.Timer(delay, os.kill, (process, signal.SIGKILL)).start()
            convert(atlas, tmp_path / f"{delay}", shard_size=10, client=client)
        assert cf.data.validate_shard_dir(tmp_path / f"{delay}")


def test_no_client_and_no_scheduler_are_named(atlas, tmp_path, monkeypatch):
    with cf.cluster.plan_shards(atlas, tmp_path / "many") as plan:
        for wrong in ("tcp://127.0.0.1:8786", 3, object()):
            with pytest.raises(InvalidTypeError, match=r"dask\.distributed\.Client"):
                cf.cluster.write_with_dask(plan, wrong)
        assert plan.missing == [0]
    monkeypatch.setattr(_dask, "_CONNECT_SECONDS", 0.2)
    with (
        pytest.raises(ClusterError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"),
        _dask.connected("tcp://127.0.0.1:9"),
    ):
        pass


@pytest.mark.slow
def test_the_program_names_a_scheduler_that_does_not_answer(atlas, tmp_path):
    begun = time.monotonic()
    error = run(
        "shard", atlas, "--output-dir", tmp_path / "many", "--scheduler", "tcp://127.0.0.1:9",
        code=1,
    )  # fmt: skip
    assert time.monotonic() - begun < 60  # it waits five seconds for an answer
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in error
    assert not (tmp_path / "many").exists()


def test_without_dask_the_extra_is_named(atlas, tmp_path):
    (tmp_path / "distributed").mkdir()
    (tmp_path / "distributed" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'distributed'\", name='distributed')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    error = run(
        "shard", atlas, "--output-dir", tmp_path / "many", "--scheduler", "tcp://127.0.0.1:8786",
        code=1, env=environment,
    )  # fmt: skip
    assert "pip install 'cellfeed[dask]'" in error
    code = (
        "import sys, cellfeed as cf; plan = cf.cluster.plan_shards(*sys.argv[1:]); "
        "cf.cluster.write_with_dask(plan, 1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, atlas, str(tmp_path / "many")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "ModuleNotFoundError: distributed is not installed" in done.stderr


@pytest.mark.slow
def test_the_program_writes_the_bytes_of_one_process(atlas, tmp_path, client):
    address = client.scheduler.address
    for verb, *more in (
        ("shard", "--shuffle", "--shard-size", "50"),
        ("shard", "--filter", "donor == 'd1'", "--gene-order", "mean"),
        ("preprocess", "--hvg", "7", "--shard-size", "100", "--memory-budget", "64MB"),
    ):
        one, many = tmp_path / f"one-{more[0]}", tmp_path / f"many-{more[0]}"
        output = "--output" if verb == "preprocess" else "--output-dir"
        run(verb, atlas, output, one, *more)
        said = run(verb, atlas, output, many, "--scheduler", address, *more)
        assert str(many) in said
        assert files_of(many) == files_of(one)
    error = run(verb, atlas, output, many, "--scheduler", address, *more, code=1)
    assert "--overwrite" in error


def has_begun(many):
    """Whether some shards are noted."""
    journal = many / "shard_metadata.partial.jsonl"
    return journal.exists() and journal.read_text().count("\n") > 4


def interrupt(command, many, by=signal.SIGINT):
    """Ctrl-C, or another signal, once some shards are noted; returns what the program said."""
    program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: has_begun(many), program)
        program.send_signal(by)
        error = program.communicate(timeout=60)[1]
    finally:
        program.kill()
        program.wait()
    assert program.returncode == 128 + by
    return error


@pytest.mark.slow
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_program_that_is_interrupted_goes_on_with_resume(atlas, tmp_path, client, by):
    cf.convert_to_shards(atlas, tmp_path / "one", shard_size=20)
    many = tmp_path / "many"
    arguments = ["shard", atlas, "--output-dir", str(many), "--shard-size", "20",
                 "--scheduler", client.scheduler.address]  # fmt: skip
    with slow_tasks(client, 0.5):  # nine seconds for what is left of them
        error = interrupt([PROGRAM, *arguments], many, by)
    assert "interrupted" in error
    assert "of 40 shards are finished and stay: continue with --resume" in error
    assert not (many / "shard_metadata.json").exists()
    assert "were there from an earlier run" in run(*arguments, "--resume")
    assert files_of(many) == files_of(tmp_path / "one")


def kill_once_begun(scheduler, many):
    wait_until(lambda: has_begun(many), scheduler)
    scheduler.kill()


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_named(atlas, tmp_path):
    """In a process of its own, which is killed."""
    code = """
import time
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False,
                           dashboard_address=":0", protocol="tcp")
    print(cluster.scheduler_address, flush=True)
    time.sleep(600)
"""
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent)}
    scheduler = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        address = scheduler.stdout.readline().strip()
        with distributed.Client(address, set_as_default=False) as client:
            client.run(make_slow, 0.5)  # twenty seconds in all
            killing = threading.Thread(target=kill_once_begun, args=[scheduler, tmp_path / "many"])
            killing.start()
            with pytest.raises(ClusterError, match=r"scheduler went away.* of 40 shards are fin"):
                convert(atlas, tmp_path / "many", shard_size=20, client=client)
            killing.join()
    finally:
        scheduler.kill()
        scheduler.communicate()
    cf.convert_to_shards(atlas, tmp_path / "many", shard_size=20, resume=True)
    cf.convert_to_shards(atlas, tmp_path / "one", shard_size=20)
    assert files_of(tmp_path / "many") == files_of(tmp_path / "one")


@pytest.mark.slow
def test_inputs_and_shards_may_lie_in_a_bucket(bucket, s3, client, folder, atlas, tmp_path):
    for path in folder.glob("*.h5ad"):
        bucket.upload_file(str(path), "atlas", f"in/{path.name}")
    cf.convert_to_shards(atlas, tmp_path / "one", shard_size=50)
    client.run(os.environ.update, s3.environment)
    convert("s3://atlas/in/*.h5ad", "s3://atlas/many", shard_size=50, client=client)
    for path in (tmp_path / "one").glob("*.cells"):
        stored = bucket.get_object(Bucket="atlas", Key=f"many/{path.name}")["Body"].read()
        assert stored == path.read_bytes()
