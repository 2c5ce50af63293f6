"""Cells in buckets and on http servers are those of local files, or a named error."""

import itertools
import os
import pickle
import subprocess
import sys
import time

import anndata
import numpy as np
import pytest
import scipy.sparse

import cellfeed as cf
from cellfeed.errors import (
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)

pytest.importorskip("boto3")
N_CELLS, N_GENES = 500, 60


def write_cells(path, seed=0, **options):
    rng = np.random.default_rng(seed)
    x = scipy.sparse.random(N_CELLS, N_GENES, 0.2, format="csr", rng=rng, dtype="float32")
    adata = anndata.AnnData(x)
    adata.obs["kind"] = np.array(["a", "b", "c"])[rng.integers(3, size=N_CELLS)]
    adata.obs["depth"] = rng.normal(size=N_CELLS)
    adata.obs["kind"] = adata.obs["kind"].astype("category")
    adata.uns["note"] = "kept"
    adata.write_h5ad(path, **options)
    return adata


def assert_cells(cells, adata, strategy=None):
    seen = []
    loader = cf.Loader(cells, strategy or cf.BlockShuffling(8), 64, obs=["kind", "depth"], seed=1)
    for batch in loader:
        rows = np.asarray(batch.index)
        assert (batch.x != adata.X[rows]).nnz == 0
        np.testing.assert_array_equal(batch.obs["kind"], adata.obs["kind"].cat.codes.iloc[rows])
        np.testing.assert_array_equal(batch.obs["depth"], adata.obs["depth"].iloc[rows])
        seen.extend(rows)
    assert sorted(seen) == list(range(N_CELLS))


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_file_in_a_bucket_is_the_file(bucket, tmp_path, compression):
    adata = write_cells(tmp_path / "a.h5ad", compression=compression)
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "some folder/a+b é.h5ad")
    cells = cf.open("s3://atlas/some folder/a+b é.h5ad")
    assert_cells(cells, adata)
    assert cells.fingerprint == cf.open(tmp_path / "a.h5ad").fingerprint
    assert_cells(pickle.loads(pickle.dumps(cells)), adata)


def test_globs_and_lists_of_objects(bucket, tmp_path):
    every = [write_cells(tmp_path / f"{i}.h5ad", seed=i) for i in range(3)]
    for i in range(3):
        bucket.upload_file(str(tmp_path / f"{i}.h5ad"), "atlas", f"x/{i}.h5ad")
    for paths in ("s3://atlas/x/*.h5ad", [f"s3://atlas/x/{i}.h5ad" for i in range(3)]):
        cells = cf.open(paths)
        expected = scipy.sparse.vstack([adata.X for adata in every])
        assert (expected != cells[:].X).nnz == 0
    with pytest.raises(InvalidArgumentError, match="given twice"):
        cf.open(["s3://atlas/x/0.h5ad", "s3://atlas/x/0.h5ad"])


def test_the_program_reads_and_writes_buckets(bucket, tmp_path):
    write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "cellfeed", *arguments], capture_output=True, text=True
        )

    made = run("shard", "s3://atlas/a.h5ad", "--output-dir", "s3://atlas/shards")
    assert made.returncode == 0, made.stderr
    assert run("verify", "s3://atlas/shards").returncode == 0
    assert f"{N_CELLS}" in run("info", "s3://atlas/shards").stdout
    absent = run("info", "s3://atlas/absent.h5ad")
    assert absent.returncode == 1
    assert "s3://atlas/absent.h5ad" in absent.stderr
    (tmp_path / "run.yaml").write_text("data: {paths: s3://atlas/a.h5ad}\n")
    config = ("--config", str(tmp_path / "run.yaml"), "--output-dir", str(tmp_path / "out"))
    assert run("shard", *config).returncode == 0
    assert len(cf.open(tmp_path / "out")) == N_CELLS


def test_what_is_not_there_is_named(bucket):
    with pytest.raises(NotFoundError, match=r"s3://atlas/absent\.h5ad: there is no such"):
        cf.open("s3://atlas/absent.h5ad")
    with pytest.raises(NotFoundError, match="no bucket of this name: nobucket"):
        cf.open("s3://nobucket/a.h5ad")
    with pytest.raises(InvalidArgumentError, match="names no bucket"):
        cf.open("s3:///a.h5ad")
    with pytest.raises(NotFoundError, match="no file matches"):
        cf.open("s3://atlas/*.h5ad")


def test_who_has_no_credentials_is_told_how_to_give_them(bucket, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(OSError, match="no credentials were found: set AWS_ACCESS_KEY_ID"):
        cf.open("s3://atlas/a.h5ad")


def test_a_server_that_is_not_there_is_named_soon(monkeypatch):
    with pytest.raises(OSError, match=r"127.0.0.1:9/a.h5ad: .*onnect"):
        cf.open("http://127.0.0.1:9/a.h5ad")


def test_storage_options(bucket, s3, tmp_path, monkeypatch):
    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    options = {"key": "some-key", "secret": "some-secret", "endpoint_url": s3.url}
    try:
        cells = cf.open("s3://atlas/a.h5ad", storage_options=options)
        assert_cells(cells, adata)
        assert b"some-secret" not in pickle.dumps(cells)
        for wrong, message in (
            ({"key": "x"}, "without the other"),
            ({"keys": "x"}, "no such option among storage_options: 'keys'"),
            ({"anon": True, "key": "x", "secret": "y"}, "give one of"),
            ({"anon": "maybe"}, "true or false"),
            ({"endpoint_url": "ftp://x"}, "endpoint_url must be"),
        ):
            with pytest.raises(InvalidArgumentError, match=message):
                cf.open("s3://atlas/a.h5ad", storage_options=wrong)
        with pytest.raises(InvalidArgumentError, match="are for paths of buckets"):
            cf.open(tmp_path / "a.h5ad", storage_options=options)
    finally:
        cf.set_storage_options("s3://atlas", {})


PASSING = [
    {"kind": "reset"},
    {"kind": "reset_in_body"},
    {"kind": "truncate"},
    {"kind": "status", "status": 500},
    {"kind": "status", "status": 503, "retry_after": 1},
    {"kind": "other_range"},
    {"kind": "short_range"},
]


@pytest.mark.parametrize(
    "fault", PASSING, ids=lambda fault: fault["kind"] + str(fault.get("status", ""))
)
def test_what_fails_for_now_is_asked_for_again(proxied, bucket, tmp_path, fault, monkeypatch):
    from fault_rules import Fault

    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "30")
    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    nth = (1,) if "retry_after" in fault else (1, 2, 4)
    proxied.set_faults(Fault(method="GET", path="a.h5ad", nth=nth, **fault))
    assert_cells(cf.open("s3://atlas/a.h5ad"), adata)
    assert any(each.fault for each in proxied.seen)


# Requests are repeated until the deadline, so one of each two cases with the same message is slow.
LASTING = [
    ({"kind": "reset"}, OSError, "asked .* times in"),
    pytest.param({"kind": "truncate"}, OSError, "asked .* times in", marks=pytest.mark.slow),
    ({"kind": "status", "status": 503}, OSError, "HTTP 503"),
    ({"kind": "status", "status": 403}, OSError, "AccessDenied"),
    ({"kind": "status", "status": 404}, NotFoundError, "removed since it was opened"),
    ({"kind": "other_range"}, OSError, "another range than the one asked for"),
    pytest.param(
        {"kind": "short_range"},
        OSError,
        "another range than the one asked for",
        marks=pytest.mark.slow,
    ),
    ({"kind": "whole_body"}, UnsupportedError, "whole files only"),
    ({"kind": "html"}, CorruptDataError, "an HTML page in place of the file"),
    ({"kind": "other_etag"}, CorruptDataError, "written again since it was opened"),
]


@pytest.mark.parametrize(("fault", "error", "message"), LASTING, ids=lambda value: str(value)[:40])
def test_what_fails_for_good_is_a_named_error(
    proxied, bucket, tmp_path, monkeypatch, fault, error, message
):
    from fault_rules import Fault

    write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    cells = cf.open("s3://atlas/a.h5ad")
    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "3")
    proxied.set_faults(Fault(method="GET", path="a.h5ad", **fault))
    with pytest.raises(error, match=message) as refused:
        cells[[3, 400]].X  # noqa: B018
    assert "s3://atlas/a.h5ad" in str(refused.value)


def test_an_answer_that_stalls_is_asked_for_again(proxied, bucket, tmp_path, monkeypatch):
    from fault_rules import Fault

    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "60")
    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    cells = cf.open("s3://atlas/a.h5ad")
    proxied.set_faults(Fault(kind="stall", method="GET", path="a.h5ad", nth=(1,)))
    assert (adata.X[[3, 400]] != cells[[3, 400]].X).nnz == 0


def test_bytes_of_another_place_are_found_by_the_checksums_of_shards(proxied, bucket, tmp_path):
    from fault_rules import Fault

    write_cells(tmp_path / "a.h5ad")
    cf.convert_to_shards(tmp_path / "a.h5ad", "s3://atlas/shards")
    cells = cf.open("s3://atlas/shards")
    proxied.set_faults(Fault(kind="shifted_bytes", method="GET", path=r"\.cells"))
    with pytest.raises(CorruptDataError):
        cells[[3, 400]].X  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize("form", ["shards", "gzip", "plain"])
def test_what_many_files_are_asked_first_is_asked_together(proxied, bucket, tmp_path, form):
    n = 12
    if form == "shards":
        x = scipy.sparse.random(n * 200, 1000, 0.6, "csr", "float32", 0)
        anndata.AnnData(x).write_h5ad(tmp_path / "a.h5ad")
        cf.convert_to_shards(tmp_path / "a.h5ad", "s3://atlas/files", shard_size=200)
        cells = cf.open("s3://atlas/files")
        loader = cf.Loader(cells, cf.BlockShuffling(1), len(cells), seed=0)
    else:
        for i in range(n):
            write_cells(tmp_path / f"{i}.h5ad", i, compression=None if form == "plain" else form)
            bucket.upload_file(str(tmp_path / f"{i}.h5ad"), "atlas", f"files/{i}.h5ad")
        cells = cf.open("s3://atlas/files/*.h5ad")
    proxied.reset()
    if form == "shards":  # where their rows lie
        batch = next(iter(loader))
        assert (batch.to_scipy() != x[np.asarray(batch.index)]).nnz == 0
    else:  # what their fingerprints take
        cf.Loader(cells, cf.BlockShuffling(1), 50, seed=0)
    asked = sorted(proxied.seen, key=lambda each: each.began)[:n]
    assert len({each.path for each in asked}) == n, proxied.counts()
    beside = [later.began < each.began + each.seconds for each, later in itertools.pairwise(asked)]
    assert sum(beside) > n // 2, beside


def test_many_files_are_converted_and_named_together(proxied, bucket, tmp_path):
    n, adatas = 8, []
    for i in range(n):
        adatas.append(write_cells(tmp_path / f"{i:02}.h5ad", i, compression="gzip"))
        bucket.upload_file(str(tmp_path / f"{i:02}.h5ad"), "atlas", f"files/{i:02}.h5ad")
    proxied.reset()
    cf.convert_to_shards("s3://atlas/files/*.h5ad", tmp_path / "shards", shard_size=550)
    assert proxied.most_under_way > 2
    cf.convert_to_shards(str(tmp_path / "*.h5ad"), tmp_path / "local", shard_size=550)
    x = scipy.sparse.vstack([adata.X for adata in adatas])
    for folder in ("shards", "local"):
        assert (x != cf.open(tmp_path / folder)[:].X).nnz == 0
    for name in ("shard_000000.cells", "shard_000007.cells", "genes.parquet"):
        assert (tmp_path / "shards" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    cells = cf.open("s3://atlas/files/*.h5ad")
    proxied.reset()
    names, var = cells.obs_names, cells.var
    asked = sorted(proxied.seen, key=lambda each: each.began)
    assert names.tolist() == [name for adata in adatas for name in adata.obs_names]
    assert var.index.tolist() == adatas[0].var_names.tolist() and len(asked) >= n
    beside = [later.began < each.began + each.seconds for each, later in itertools.pairwise(asked)]
    assert sum(beside) > n // 2, beside


@pytest.mark.slow
def test_children_of_a_fork_read_for_themselves(bucket, tmp_path):
    torch_data = pytest.importorskip("torch.utils.data")
    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    cells = cf.open("s3://atlas/a.h5ad")
    assert_cells(cells, adata)
    loader = cf.Loader(cells, cf.BlockShuffling(8), 50, output="dense", seed=2)
    for how in ("fork", "spawn"):
        batches = list(
            torch_data.DataLoader(
                loader, batch_size=None, num_workers=2, multiprocessing_context=how
            )
        )
        rows = np.concatenate([np.asarray(batch.index) for batch in batches])
        assert sorted(rows) == list(range(N_CELLS))
        for batch in batches:
            np.testing.assert_array_equal(
                np.asarray(batch.x), adata.X[np.asarray(batch.index)].toarray()
            )


def test_http_servers(tmp_path):
    from file_server import FileServer, age

    adata = write_cells(tmp_path / "a.h5ad")
    age(tmp_path / "a.h5ad")
    with FileServer(tmp_path) as server:
        assert_cells(cf.open(f"{server.url}/a.h5ad"), adata)
        with pytest.raises(NotFoundError, match="no such"):
            cf.open(f"{server.url}/absent.h5ad")
        with pytest.raises(UnsupportedError, match="read and not written"):
            cf.convert_to_shards(tmp_path / "a.h5ad", f"{server.url}/shards")
        cells = cf.open(f"{server.url}/a.h5ad")
        write_cells(tmp_path / "b.h5ad", seed=1)
        os.replace(tmp_path / "b.h5ad", tmp_path / "a.h5ad")
        with pytest.raises(CorruptDataError, match="written again"):
            cells[[3, 400]].X  # noqa: B018
    for options, message in (
        ({"ranges": False}, "whole files only"),
        ({"page": True}, "HTML page"),
    ):
        server = FileServer(tmp_path, **options)
        with server, pytest.raises(cf.errors.CellfeedError, match=message):
            cf.open(f"{server.url}/a.h5ad")


@pytest.mark.parametrize("fault", ["stall", "trickle"])
def test_no_read_takes_longer_than_its_deadline(proxied, bucket, tmp_path, monkeypatch, fault):
    from fault_rules import Fault

    write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    cells = cf.open("s3://atlas/a.h5ad")
    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "1")
    proxied.set_faults(Fault(kind=fault, method="GET", path="a.h5ad", bytes_per_second=500))
    begun = time.monotonic()
    with pytest.raises(OSError, match=r"a\.h5ad: could not be read: .*CELLFEED_CLOUD_DEADLINE"):
        cells[:].X  # noqa: B018
    assert 1 <= time.monotonic() - begun < 30  # all would take more than a minute


def test_the_rows_of_what_is_not_stored_by_rows_are_kept_on_a_local_disk(
    bucket, tmp_path, monkeypatch
):
    monkeypatch.delenv("CELLFEED_CACHE", raising=False)
    adata = write_cells(tmp_path / "a.h5ad")
    by_columns = anndata.AnnData(adata.X.tocsc(), obs=adata.obs)
    by_columns.write_h5ad(tmp_path / "b.h5ad")
    bucket.upload_file(str(tmp_path / "b.h5ad"), "atlas", "b.h5ad")
    with pytest.raises(InvalidArgumentError, match="must be a folder of a local disk"):
        cf.open("s3://atlas/b.h5ad", cache_dir="s3://atlas/cache")
    monkeypatch.setenv("CELLFEED_CACHE", "s3://atlas/cache")
    with pytest.raises(InvalidArgumentError, match=r"s3://atlas/cache: .*local disk: name one"):
        cf.open("s3://atlas/b.h5ad")
    assert_cells(cf.open("s3://atlas/b.h5ad", cache_dir=tmp_path / "cache"), adata)
    keys = [each["Key"] for each in bucket.list_objects_v2(Bucket="atlas")["Contents"]]
    assert keys == ["b.h5ad"]


def test_headers_are_for_the_server_that_they_are_given_for(tmp_path):
    from fault_proxy import FaultProxy
    from file_server import FileServer, age

    adata = write_cells(tmp_path / "a.h5ad")
    age(tmp_path / "a.h5ad")
    given = {"headers": {"Authorization": "Bearer hidden", "Private-Token": "hidden"}}
    with FileServer(tmp_path) as server, FaultProxy(server.address) as after:
        other = after.url.replace("127.0.0.1", "localhost")
        gate = FileServer(tmp_path, redirect_to=other)
        with gate, FaultProxy(gate.address) as before:
            url = f"{before.url}/a.h5ad"
            try:
                assert_cells(cf.open(url, storage_options=given), adata)
            finally:
                cf.set_storage_options(url, {})
            assert "hidden" in before.said()
            assert "hidden" not in after.said()


def copies_in(folder):
    return sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))


def test_copies_are_made_once_and_belong_to_a_version(proxied, bucket, tmp_path):
    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "x/a.h5ad")
    folder = tmp_path / "copies"
    try:
        cells = cf.open("s3://atlas/x/a.h5ad", storage_options={"cache_dir": folder})
        assert_cells(cells, adata)
        assert [name.split("-")[2] for name in copies_in(folder)] == ["a.h5ad"]
        assert (folder / copies_in(folder)[0]).read_bytes() == (tmp_path / "a.h5ad").read_bytes()
        n_read = proxied.count("GET", "a.h5ad")
        assert_cells(cf.open("s3://atlas/x/a.h5ad"), adata)
        assert_cells(pickle.loads(pickle.dumps(cells)), adata)
        assert proxied.count("GET", "a.h5ad") == n_read
        other = write_cells(tmp_path / "b.h5ad", seed=1)
        bucket.upload_file(str(tmp_path / "b.h5ad"), "atlas", "x/a.h5ad")
        assert_cells(cf.open("s3://atlas/x/a.h5ad"), other)
        assert len(copies_in(folder)) == 1
        assert_cells(cells, adata)  # it holds the copy that went
        with pytest.raises(InvalidArgumentError, match="a folder of a local disk"):
            cf.open("s3://atlas/x/a.h5ad", storage_options={"cache_dir": "s3://atlas/copies"})
        (tmp_path / "file").touch()
        with pytest.raises(cf.errors.CellfeedError, match="file"):
            cf.open("s3://atlas/x/a.h5ad", storage_options={"cache_dir": tmp_path / "file"})
    finally:
        cf.set_storage_options("s3://atlas", {})


def test_a_key_with_control_characters_is_copied_once(proxied, bucket, tmp_path):
    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "x/a\tb.h5ad")
    try:
        options = {"cache_dir": tmp_path / "copies"}
        assert_cells(cf.open("s3://atlas/x/a\tb.h5ad", storage_options=options), adata)
        n_read = proxied.count("GET", "b.h5ad")
        assert_cells(cf.open("s3://atlas/x/a\tb.h5ad"), adata)
        assert proxied.count("GET", "b.h5ad") == n_read
        assert len(copies_in(tmp_path / "copies")) == 1
    finally:
        cf.set_storage_options("s3://atlas", {})


COPY = """
import sys, cellfeed as cf
cells = cf.open("s3://atlas/a.h5ad", storage_options={"cache_dir": sys.argv[1]})
print(len(cells))
"""


def test_several_processes_wait_for_one_copy_and_one_that_is_killed_leaves_none(
    proxied, bucket, tmp_path
):
    from fault_rules import Fault

    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    folder = tmp_path / "copies"

    def start():
        return subprocess.Popen(
            [sys.executable, "-c", COPY, str(folder)], stdout=subprocess.PIPE, text=True
        )

    proxied.set_faults(Fault(kind="trickle", method="GET", bytes_per_second=1000))
    killed = start()
    while not folder.exists() or not any(folder.iterdir()):
        time.sleep(0.05)
    killed.kill()
    killed.communicate()
    assert copies_in(folder) == [] or all(".tmp" in name for name in copies_in(folder))
    proxied.set_faults(Fault(kind="delay", method="GET", seconds=1))
    proxied.reset()
    both = [start(), start()]
    assert [child.communicate()[0].strip() for child in both] == [str(N_CELLS)] * 2
    assert proxied.bytes_sent < 1.5 * (tmp_path / "a.h5ad").stat().st_size
    assert [name.split("-")[2] for name in copies_in(folder)] == ["a.h5ad"]
    try:
        options = {"cache_dir": folder}
        assert_cells(cf.open("s3://atlas/a.h5ad", storage_options=options), adata)
    finally:
        cf.set_storage_options("s3://atlas", {})


def test_a_configuration_names_the_folder_of_copies(bucket, tmp_path):
    write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    (tmp_path / "run.yaml").write_text(
        f"data: {{paths: s3://atlas/a.h5ad, cloud: {{cache_dir: {tmp_path / 'copies'}}}}}\n"
    )
    arguments = ("shard", "--config", tmp_path / "run.yaml", "--output-dir", tmp_path / "out")
    done = subprocess.run(
        [sys.executable, "-m", "cellfeed", *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(copies_in(tmp_path / "copies")) == 1
    assert len(cf.open(tmp_path / "out")) == N_CELLS
