"""Uploads in parts that killed writers leave in S3 are found and removed by who takes over."""

import logging
import os
import pickle
import subprocess
import sys
import warnings

import anndata
import numpy as np
import pytest

pytest.importorskip("boto3")

import boto3
from bucket_servers import child_server, s3_environment
from fault_rules import Fault
from held_program import wait_until
from proxy_process import ProxyProcess
from test_cloud import assert_cells, write_cells
from test_series_cloud import finished, kill_while_sending, put_prices, start, stored

import cellfeed as cf

pytestmark = pytest.mark.slow

N_REMOVED = "{} unfinished uploads of writers that were killed were removed"
# Of others, who may be sending them: none of these is a name that shards have.
OTHERS = [
    "out/other.bin",
    "out/shard_000000.cells.bak",
    "out/shard_0.cells",
    "out/deep/shard_000000.cells",
    "out2/shard_000000.cells",
    "shard_000000.cells",
    "xout/shard_000000.cells",
]


def begin_upload(bucket, key):
    """One that goes on, or whose writer died: nothing tells."""
    begun = bucket.create_multipart_upload(Bucket="atlas", Key=key)
    part = {"Bucket": "atlas", "Key": key, "UploadId": begun["UploadId"], "PartNumber": 1}
    bucket.upload_part(**part, Body=b"sent")
    return begun["UploadId"]


def uploads(bucket):
    listed = bucket.list_multipart_uploads(Bucket="atlas").get("Uploads", [])
    return sorted(each["Key"] for each in listed)


def lists(proxied):
    return [each for each in proxied.seen if each.method == "GET" and "uploads=" in each.path]


def run_until_held(proxied, code):
    """A process that is killed once a request of it is held; what it sent has arrived then."""
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        stderr=subprocess.PIPE, text=True, env=os.environ | {"CELLFEED_CLOUD_DEADLINE": "100"},
    )  # fmt: skip
    kill_while_sending(proxied, program)


def stop_at_the_third_shard(proxied, bucket, tmp_path, folder="out"):
    """A conversion of small shards that was killed; its cells."""
    adata = write_cells(tmp_path / "a.h5ad")
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    proxied.set_faults(Fault(kind="hold", method="PUT", path="shard_000002"))
    run_until_held(
        proxied,
        "import cellfeed as cf\n"
        f"cf.convert_to_shards('s3://atlas/a.h5ad', 's3://atlas/{folder}', shard_size=100)",
    )
    return adata


def convert(**options):
    return cf.convert_to_shards("s3://atlas/a.h5ad", "s3://atlas/out", shard_size=100, **options)


def write_large(path):
    """Of 5,000 cells, a shard of which is more than one request."""
    x = np.random.default_rng(0).random((5100, 2000), dtype="float32")
    anndata.AnnData(x).write_h5ad(path)
    return x


def assert_large(path, x):
    np.testing.assert_array_equal(cf.open(path)[:].X.toarray(), x)


def test_what_a_killed_conversion_had_sent_goes_when_it_is_resumed(
    proxied, bucket, tmp_path, caplog
):
    x = write_large(tmp_path / "large.h5ad")
    given = [str(tmp_path / "large.h5ad"), "s3://atlas/out", None, 5000]
    proxied.set_faults(Fault(kind="hold", method="PUT", path="partNumber=2"))
    run_until_held(proxied, f"import cellfeed as cf\ncf.convert_to_shards(*{given})")
    assert uploads(bucket) == ["out/shard_000000.cells"]
    for key in OTHERS:
        begin_upload(bucket, key)
    with caplog.at_level(logging.INFO, "cellfeed"), warnings.catch_warnings(action="error"):
        cf.convert_to_shards(*given, resume=True)
    assert N_REMOVED.format(1) in caplog.messages
    assert uploads(bucket) == sorted(OTHERS)
    assert_large("s3://atlas/out", x)
    assert all(each.path.count("prefix=out%2F") for each in lists(proxied))


@pytest.mark.parametrize("again", ["--resume", "--overwrite"])
def test_the_program_says_how_many_it_removed(proxied, bucket, tmp_path, again):
    adata = stop_at_the_third_shard(proxied, bucket, tmp_path)
    ours = ["shard_000002.cells", "shard_000002.parquet", "genes.parquet", "annotations.h5"]
    ours += ["shard_metadata.partial.jsonl", "shard_000001.g3.m1.cells", "shard_000002.cells"]
    for name in ours:
        begin_upload(bucket, f"out/{name}")
    begin_upload(bucket, "out/other.bin")
    command = [sys.executable, "-m", "cellfeed", "shard", "s3://atlas/a.h5ad", "--quiet", again]
    command += ["--output-dir", "s3://atlas/out", "--shard-size", "100"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert N_REMOVED.format(len(ours)) + "\n" in done.stdout
    assert done.stderr == ""
    assert uploads(bucket) == ["out/other.bin"]
    assert_cells(cf.open("s3://atlas/out"), adata)


@pytest.mark.parametrize(
    ("method", "status", "said"),
    [
        ("GET", 403, r"s3:ListBucketMultipartUploads"),
        ("GET", 400, r"HTTP 400"),
        ("GET", 405, r"HTTP 405"),
        ("GET", 501, r"HTTP 501"),
        ("GET", 500, r"HTTP 500"),
        ("DELETE", 403, r"out/shard_000002\.cells.*s3:AbortMultipartUpload"),
    ],
)
def test_where_they_may_not_be_removed_a_warning_says_so(
    proxied, bucket, tmp_path, method, status, said
):
    adata = stop_at_the_third_shard(proxied, bucket, tmp_path)
    begin_upload(bucket, "out/shard_000002.cells")
    proxied.set_faults(Fault(kind="status", status=status, method=method, path="upload(s|Id)="))
    with pytest.warns(UserWarning, match=said) as caught:
        convert(resume=True)
    (caught,) = caught
    assert caught.filename == __file__
    assert "AbortIncompleteMultipartUpload" in str(caught.message)
    assert uploads(bucket) == ["out/shard_000002.cells"]
    assert_cells(cf.open("s3://atlas/out"), adata)


def test_a_store_that_lists_objects_instead_is_warned_of(proxied, bucket, tmp_path):
    adata = stop_at_the_third_shard(proxied, bucket, tmp_path)
    proxied.set_faults(Fault(kind="html", method="GET", path="uploads="))
    with pytest.warns(UserWarning, match="no list of uploads"):
        convert(resume=True)
    assert_cells(cf.open("s3://atlas/out"), adata)


def test_a_folder_that_shows_no_killed_run_is_left_alone(proxied, bucket, tmp_path):
    write_cells(tmp_path / "a.h5ad")
    write_cells(tmp_path / "more.h5ad", seed=1)
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    begin_upload(bucket, "out/shard_000000.cells")
    convert()
    convert(resume=True)
    convert(overwrite=True)
    with pytest.warns(UserWarning, match="uns and varm"):
        cf.append_to_shards(tmp_path / "more.h5ad", "s3://atlas/out")
    assert lists(proxied) == []
    assert uploads(bucket) == ["out/shard_000000.cells"]


@pytest.mark.parametrize("resume", [False, True])
def test_what_a_killed_append_had_sent_goes_with_the_next(
    proxied, bucket, tmp_path, caplog, resume
):
    write_cells(tmp_path / "a.h5ad")
    more = write_cells(tmp_path / "more.h5ad", seed=1)
    bucket.upload_file(str(tmp_path / "a.h5ad"), "atlas", "a.h5ad")
    convert()
    proxied.set_faults(Fault(kind="hold", method="PUT", path="shard_00000[6-9]"))
    given = [str(tmp_path / "more.h5ad"), "s3://atlas/out"]
    run_until_held(proxied, f"import cellfeed as cf\ncf.append_to_shards(*{given})")
    for key in ["out/shard_000007.g1.cells", *OTHERS]:
        begin_upload(bucket, key)
    with (
        caplog.at_level(logging.INFO, "cellfeed"),
        pytest.warns(UserWarning, match="uns and varm") as caught,
    ):
        cf.append_to_shards(*given, resume=resume)
    assert len(caught) == 1
    assert N_REMOVED.format(1) in caplog.messages
    assert uploads(bucket) == sorted(OTHERS)
    assert (cf.open("s3://atlas/out")[-len(more) :].X != more.X).nnz == 0


def test_what_a_killed_preprocess_had_sent_goes_when_it_is_resumed(
    proxied, bucket, tmp_path, caplog
):
    adata = write_cells(tmp_path / "a.h5ad")
    adata.X = np.ceil(adata.X.toarray())
    adata.write_h5ad(tmp_path / "a.h5ad")
    proxied.set_faults(Fault(kind="hold", method="PUT", path="shard_000002"))
    given = [str(tmp_path / "a.h5ad"), "s3://atlas/out"]
    run_until_held(proxied, f"import cellfeed as cf\ncf.preprocess(*{given}, shard_size=100)")
    for key in ["out/shard_000002.cells", *OTHERS]:
        begin_upload(bucket, key)
    with caplog.at_level(logging.INFO, "cellfeed"), warnings.catch_warnings(action="error"):
        cf.preprocess(*given, shard_size=100, resume=True)
    assert N_REMOVED.format(1) in caplog.messages
    assert uploads(bucket) == sorted(OTHERS)
    begin_upload(bucket, "out/shard_000002.cells")


@pytest.mark.parametrize("verb", ["build", "append"])
def test_what_a_killed_writer_of_series_had_sent_goes_with_the_next(
    proxied, bucket, tmp_path, monkeypatch, verb
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    put_prices(bucket, tmp_path)
    build = ["build", "s3://atlas/prices/*.parquet", "--output-dir", "s3://atlas/out"]
    build += ["--entity", "e", "--time", "t", "--horizon", "3"]
    command, again = build, [*build, "--resume"]
    if verb == "append":
        assert finished(start(*build))[0] == 0
        put_prices(bucket, tmp_path, "more", first=300, n=80)
        command = again = ["append", "s3://atlas/out", "s3://atlas/more/*.parquet"]
    proxied.set_faults(Fault(kind="hold", method="PUT", path="entities"))
    kill_while_sending(proxied, start(*command, CELLFEED_CLOUD_DEADLINE="100"))
    others = ["out/all_features.mmap.1", "out/x/time.mmap", "time.mmap"]
    for key in ["out/all_features.mmap", "out/entities.3.arrow", *others]:
        begin_upload(bucket, key)
    code, said = finished(start(*again))
    assert code == 0, said
    assert N_REMOVED.format(2) in said
    assert uploads(bucket) == sorted(others)
    assert "metadata.json" in stored(bucket)


# What S3 does and moto does not: it gives uploads in pages (of 1,000, here of one), and says 404 to
# a part of an upload that was ended.
STRICT = """
import logging, sys
from moto.core.responses import ActionResult
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from moto.s3.exceptions import NoSuchUpload
from moto.s3.models import S3Backend
from moto.s3.responses import S3Response
whole = S3Response.serialized
def paged(self, action):
    listed = action.result
    if not isinstance(listed, dict) or "Uploads" not in listed:
        return whole(self, action)
    markers = ("key-marker", "upload-id-marker")
    after = tuple(self.querystring.get(name, [""])[0] for name in markers)
    place = lambda upload: (upload["Key"], upload["UploadId"])
    rest = sorted((each for each in listed["Uploads"] if place(each) > after), key=place)
    page = {**listed, "Uploads": rest[:1], "IsTruncated": len(rest) > 1}
    if len(rest) > 1:
        page["NextKeyMarker"], page["NextUploadIdMarker"] = place(rest[0])
    return whole(self, ActionResult(page))
S3Response.serialized = paged
take = S3Backend.upload_part
def take_part(self, bucket_name, multipart_id, *args, **options):
    if multipart_id not in self.get_bucket(bucket_name).multiparts:
        raise NoSuchUpload(upload_id=multipart_id)
    return take(self, bucket_name, multipart_id, *args, **options)
S3Backend.upload_part = take_part
logging.getLogger("werkzeug").disabled = True
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("127.0.0.1:%d" % server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def strict(monkeypatch):
    """A link to such a server, and a client of it that is not ours."""
    with child_server([sys.executable, "-c", STRICT]) as address, ProxyProcess(address) as proxied:
        for name, value in s3_environment(proxied.url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "30")
        bucket = boto3.client("s3", endpoint_url=f"http://{address}")
        bucket.create_bucket(Bucket="atlas")
        yield proxied, bucket


@pytest.fixture
def straggler(strict, tmp_path):
    """A plan, its cells, and a process that is held in the midst of the first of its two shards."""
    proxied, _ = strict
    x = write_large(tmp_path / "large.h5ad")
    with cf.cluster.plan_shards(tmp_path / "large.h5ad", "s3://atlas/out", shard_size=5000) as plan:
        (tmp_path / "plan").write_bytes(pickle.dumps(plan))
        proxied.set_faults(Fault(kind="hold", method="PUT", path="partNumber=2", nth=(1,)))
        code = "import cellfeed as cf, pathlib, pickle, sys\n"
        code += "plan = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        code += "cf.cluster.write_shards(plan, [0])"
        program = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "plan")],
            stderr=subprocess.PIPE, text=True, env=os.environ | {"CELLFEED_CLOUD_DEADLINE": "200"},
        )  # fmt: skip
        try:
            wait_until(proxied.is_holding, program)
            yield plan, x, program
        finally:
            program.kill()
            program.wait()


def test_a_straggler_changes_nothing_where_all_is_written(strict, straggler, caplog):
    proxied, bucket = strict
    plan, x, program = straggler
    written = cf.cluster.write_shards(plan, [0, 1])
    assert uploads(bucket) == ["out/shard_000000.cells"]
    with caplog.at_level(logging.INFO, "cellfeed"):
        cf.cluster.finish_shards(plan, [written])
    assert N_REMOVED.format(1) in caplog.messages
    assert uploads(bucket) == []
    before = stored(bucket)
    proxied.set_faults()
    said = program.communicate()[1]
    # It finds the same object there; and that the conversion is over, unless it knew better lately.
    assert program.returncode == 0 or "CancelledError: s3://atlas/out: the conversion" in said
    assert uploads(bucket) == []
    assert stored(bucket) == before
    assert_large("s3://atlas/out", x)


def end_uploads(bucket):
    for each in bucket.list_multipart_uploads(Bucket="atlas")["Uploads"]:
        bucket.abort_multipart_upload(Bucket="atlas", Key=each["Key"], UploadId=each["UploadId"])


def test_a_straggler_finds_the_shard_that_another_wrote(strict, straggler):
    proxied, bucket = strict
    plan, x, program = straggler
    written = cf.cluster.write_shards(plan, [0, 1])
    end_uploads(bucket)
    proxied.set_faults()
    said = program.communicate()[1]
    assert program.returncode == 0, said
    cf.cluster.finish_shards(plan, [written])
    assert_large("s3://atlas/out", x)


def test_a_straggler_whose_upload_is_ended_is_told_so(strict, straggler):
    proxied, bucket = strict
    _, _, program = straggler
    end_uploads(bucket)
    proxied.set_faults()
    said = program.communicate()[1]
    assert "InputOutputError" in said
    assert "out/shard_000000.cells: its upload was ended by another before it was whole" in said
    assert "out/shard_000000.cells" not in stored(bucket)


def test_a_list_in_parts_is_followed_to_its_end(strict, tmp_path):
    proxied, bucket = strict
    adata = stop_at_the_third_shard(proxied, bucket, tmp_path, "out +%&é")
    ours = ["shard_000001.cells", "shard_000001.cells", "shard_000004.parquet"]
    for name in [*ours, "shard_000002.other"]:
        begin_upload(bucket, f"out +%&é/{name}")
    proxied.reset()
    path = "s3://atlas/out +%&é"
    cf.convert_to_shards("s3://atlas/a.h5ad", path, shard_size=100, resume=True)
    assert len(lists(proxied)) == 4
    left = bucket.list_multipart_uploads(Bucket="atlas")["Uploads"]
    assert [each["Key"] for each in left] == ["out +%&é/shard_000002.other"]
    assert_cells(cf.open(path), adata)
