"""Of every kind of store, objects are what they are on a disk, or a named error."""

import contextlib
import os
import pathlib
import pickle
import random
import subprocess
import sys

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from fault_proxy import FaultProxy
from fault_rules import Fault
from google_uploads import GoogleUploads
from store_clients import SERVERS, loopback_store, requested_store
from test_cloud import LASTING, N_CELLS, PASSING, assert_cells, write_cells

import cellfeed as cf
from cellfeed.data import GeneVocab
from cellfeed.errors import AlreadyExistsError, CorruptDataError, NotFoundError

CLOUD_TEST = pathlib.Path(__file__).parents[2] / "build/wheel/cloud_test"


@pytest.fixture(params=SERVERS)
def store(request, monkeypatch):
    with requested_store(request, monkeypatch) as store:
        yield store


def test_a_file_is_the_file(store, tmp_path):
    adata = write_cells(tmp_path / "a.h5ad", compression="gzip")
    store.put("some folder/a+b é%2F.h5ad", tmp_path / "a.h5ad")
    path = store.url("some folder/a+b é%2F.h5ad")
    cells = cf.open(path)
    assert_cells(cells, adata)
    assert_cells(pickle.loads(pickle.dumps(cells)), adata)
    assert (cf.open(store.url("some folder/*.h5ad"))[:].X != adata.X).nnz == 0


def test_a_file_is_opened_in_fewer_than_eight_round_trips(store, tmp_path):
    write_cells(tmp_path / "a.h5ad", compression="gzip")
    store.put("a.h5ad", tmp_path / "a.h5ad")
    cf.open(store.url("a.h5ad"))
    assert 0 < len(store.proxy.seen) < 8, store.proxy.counts()


def test_globs_go_through_all_pages_of_a_list(store, tmp_path):
    for i in range(25):
        (tmp_path / "x").write_bytes(b"x" * i)
        store.put(f"y/{i:02}/z.txt", tmp_path / "x")
    adata = write_cells(tmp_path / "a.h5ad")
    store.put("y/25/a.h5ad", tmp_path / "a.h5ad")
    assert_cells(cf.open(store.url("y/*/*.h5ad")), adata)
    with pytest.raises(NotFoundError, match="no file matches"):
        cf.open(store.url("y/*.h5ad"))


@pytest.mark.slow
@pytest.mark.parametrize("memory_budget", ["2GB", "40MB"])
def test_row_groups_are_read_whole_wherever_windows_meet_them_again(store, tmp_path, memory_budget):
    n_groups, rows = 40, 500
    x = np.random.default_rng(0).poisson(0.5, (n_groups * rows, 100)).astype(np.float32)
    path = tmp_path / "wide.parquet"
    pd.DataFrame(x, columns=[f"g{i}" for i in range(100)]).to_parquet(path, row_group_size=rows)
    store.put("wide.parquet", path)
    cells = cf.open(store.url("wide.parquet"))
    before = len(store.proxy.seen)
    loader = cf.Loader(
        cells, cf.BlockShuffling(16), 256, fetch_factor=20, memory_budget=memory_budget, seed=0
    )
    seen = np.zeros(len(x), bool)
    for batch in loader:
        np.testing.assert_array_equal(batch.x.toarray(), x[batch.index])
        seen[batch.index] = True
    assert seen.all()
    # Four windows of all groups; a group has 100 columns.
    assert len(store.proxy.seen) - before < 10 * n_groups


@pytest.mark.slow
def test_cells_are_appended_to_shards(store, tmp_path):
    adata, other = (write_cells(tmp_path / f"{i}.h5ad", seed=i) for i in range(2))
    shards = store.url("of/shards")
    cf.convert_to_shards(tmp_path / "0.h5ad", shards, shard_size=120)
    before = {name: store.get(f"of/shards/{name}") for name in ("genes.parquet",)}
    store.put("1.h5ad", tmp_path / "1.h5ad")
    with pytest.warns(UserWarning, match="uns and varm"):
        cf.append_to_shards(store.url("1.h5ad"), shards)
    assert {name: store.get(f"of/shards/{name}") for name in before} == before
    assert cf.data.validate_shard_dir(shards)
    whole = anndata.concat([adata, other], index_unique="-")
    assert (cf.open(shards)[:].X != whole.X).nnz == 0
    assert list(cf.open(shards)[:].obs["kind"]) == list(whole.obs["kind"])
    with pytest.raises(AlreadyExistsError, match=r"1\.h5ad"):
        cf.append_to_shards(tmp_path / "1.h5ad", shards)


def test_shards_are_written_read_verified_and_exported(store, tmp_path):
    adata = write_cells(tmp_path / "a.h5ad")
    store.put("a.h5ad", tmp_path / "a.h5ad")
    shards = store.url("of/shards")
    cf.convert_to_shards(store.url("a.h5ad"), shards, shard_size=120)
    cf.convert_to_shards(tmp_path / "a.h5ad", tmp_path / "shards", shard_size=120)
    for file in (tmp_path / "shards").glob("*.cells"):
        assert store.get(f"of/shards/{file.name}") == file.read_bytes(), file.name
    assert_cells(cf.open(shards), adata)
    assert_cells(cf.open(shards), adata, cf.BlockShuffling(1))
    assert cf.data.validate_shard_dir(shards)
    with pytest.raises(AlreadyExistsError):
        cf.convert_to_shards(store.url("a.h5ad"), shards, shard_size=120)
    cf.convert_to_shards(store.url("a.h5ad"), shards, shard_size=99, overwrite=True)
    assert_cells(cf.open(shards), adata)
    cf.export_h5ad(shards, store.url("back.h5ad"))
    (tmp_path / "back.h5ad").write_bytes(store.get("back.h5ad"))
    back = anndata.read_h5ad(tmp_path / "back.h5ad")
    assert (back.X != adata.X).nnz == 0 and back.uns["note"] == "kept"


@pytest.mark.slow
def test_the_program_writes_and_a_killed_writer_is_followed(store, tmp_path):
    adata = write_cells(tmp_path / "a.h5ad")
    store.put("a.h5ad", tmp_path / "a.h5ad")

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-W", "ignore", *arguments], capture_output=True, text=True
        )

    # The writer waits here until it is killed, at its next look at the progress. Google's uploads
    # have their names in their bodies: of about 26 one in the middle.
    in_the_middle = {"method": "POST", "nth": (15,)}
    if store.scheme != "gs":
        in_the_middle = {"method": "PUT", "path": "shard_000002"}
    store.proxy.set_faults(Fault(kind="hold", **in_the_middle))
    killed = run(
        "-c",
        f"""
import cellfeed as cf, os, signal
def stop(*_):
    os.kill(os.getpid(), signal.SIGKILL)
cf.convert_to_shards({store.url("a.h5ad")!r}, {store.url("out")!r}, shard_size=100, progress=stop)
""",
    )
    assert killed.returncode == -9, killed.stderr
    store.proxy.set_faults()
    store.proxy.wait_until_idle()
    assert "out/.lock.held" in store.names()
    shard = ("-m", "cellfeed", "shard", store.url("a.h5ad"), "--output-dir", store.url("out"))
    done = run(*shard, "--shard-size", "100", "--resume")
    assert done.returncode == 0, done.stderr
    assert "out/.lock.held" not in store.names()
    assert run("-m", "cellfeed", "verify", store.url("out")).returncode == 0
    assert f"{N_CELLS}" in run("-m", "cellfeed", "info", store.url("out")).stdout
    assert_cells(cf.open(store.url("out")), adata)


def write_large(path):
    """What is larger than one request; the values."""
    x = np.random.default_rng(0).random((5000, 2000), dtype="float32")
    anndata.AnnData(x).write_h5ad(path)
    return x


def assert_large(content, x, tmp_path):
    assert len(content) > 64 << 20
    (tmp_path / "back.h5ad").write_bytes(content)
    np.testing.assert_array_equal(anndata.read_h5ad(tmp_path / "back.h5ad").X.toarray(), x)


@pytest.mark.slow
def test_large_files_are_written_in_parts(store, tmp_path):
    x = write_large(tmp_path / "large.h5ad")
    if store.scheme != "gs":  # see the next test
        store.proxy.set_faults(
            Fault(kind="lost_answer", method="PUT", nth=(2, 4)),
            Fault(kind="status", status=503, method="PUT", nth=(3,)),
            Fault(kind="lost_answer", path="comp=blocklist|uploadId=[^&]*$", nth=(1,)),
        )
    cf.export_h5ad(tmp_path / "large.h5ad", store.url("large.h5ad"))
    assert_large(store.get("large.h5ad"), x, tmp_path)
    assert sum(each.method in ("PUT", "POST") for each in store.proxy.seen) > 3
    with pytest.raises(AlreadyExistsError):
        cf.export_h5ad(tmp_path / "large.h5ad", store.url("large.h5ad"))


def test_an_upload_to_google_goes_on_where_it_was_broken(tmp_path, monkeypatch):
    x = write_large(tmp_path / "large.h5ad")
    with GoogleUploads() as server, FaultProxy(server.address) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        proxy.set_faults(
            Fault(kind="lost_answer", method="PUT", nth=(1, 5)),
            Fault(kind="reset", method="PUT", nth=(3,)),
            Fault(kind="status", status=503, method="PUT", nth=(7, 8)),
        )
        cf.export_h5ad(tmp_path / "large.h5ad", "gs://uploads/large.h5ad")
        assert_large(server.objects["large.h5ad"], x, tmp_path)
        assert sum(each.fault != "" for each in proxy.seen) == 5
        proxy.set_faults(Fault(kind="status", status=403, method="PUT"))
        with pytest.raises(OSError, match=r"gs://uploads/other.h5ad: the store refused: HTTP 403"):
            cf.export_h5ad(tmp_path / "large.h5ad", "gs://uploads/other.h5ad")
        assert list(server.objects) == ["large.h5ad"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", PASSING, ids=lambda fault: fault["kind"] + str(fault.get("status", ""))
)
def test_what_fails_for_now_is_asked_for_again(store, tmp_path, fault, monkeypatch):
    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "30")
    adata = write_cells(tmp_path / "a.h5ad")
    store.put("a.h5ad", tmp_path / "a.h5ad")
    store.proxy.set_faults(Fault(method="GET", path="a.h5ad", nth=(1, 2, 4), **fault))
    assert_cells(cf.open(store.url("a.h5ad")), adata)
    assert any(each.fault for each in store.proxy.seen)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "error", "message"), LASTING, ids=lambda value: str(value)[:40])
def test_what_fails_for_good_is_a_named_error(store, tmp_path, monkeypatch, fault, error, message):
    if (store.scheme, fault["kind"]) == ("gs", "other_etag"):
        return  # objects of Google are told apart by generations: see the next test
    if (store.scheme, fault["kind"]) == ("az", "whole_body"):
        return  # the proxy takes a header away that is signed
    write_cells(tmp_path / "a.h5ad")
    store.put("a.h5ad", tmp_path / "a.h5ad")
    cells = cf.open(store.url("a.h5ad"))
    monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "5")
    store.proxy.set_faults(Fault(method="GET", path="a.h5ad", **fault))
    if fault.get("status") == 403:
        message = "HTTP 403"
    with pytest.raises(error, match=message) as refused:
        cells[[3, 400]].X  # noqa: B018
    assert store.url("a.h5ad") in str(refused.value)


def test_an_object_that_is_replaced_or_removed_under_a_run_is_an_error(store, tmp_path):
    adata = write_cells(tmp_path / "a.h5ad")
    store.put("a.h5ad", tmp_path / "a.h5ad")
    cells = cf.open(store.url("a.h5ad"))
    adata = write_cells(tmp_path / "a.h5ad", seed=1)
    store.put("a.h5ad", tmp_path / "a.h5ad")
    with pytest.raises(CorruptDataError, match=r"a\.h5ad: .*written again since"):
        cells[[3, 400]].X  # noqa: B018
    assert_cells(cf.open(store.url("a.h5ad")), adata)
    store.remove("a.h5ad")
    with pytest.raises((NotFoundError, CorruptDataError), match=r"removed since|written again"):
        cells[[3, 400]].X  # noqa: B018


def test_what_is_not_there_is_named(store, tmp_path):
    with pytest.raises(NotFoundError, match=r"absent\.h5ad: there is no such"):
        cf.open(store.url("absent.h5ad"))
    with pytest.raises(NotFoundError, match="no bucket of this name: nobucket"):
        cf.open(f"{store.scheme}://nobucket/a.h5ad")
    with pytest.raises(NotFoundError, match="no bucket of this name: nobucket"):
        cf.open(f"{store.scheme}://nobucket/*.h5ad")
    write_cells(tmp_path / "a.h5ad")
    with pytest.raises(NotFoundError, match="no bucket of this name: nobucket"):
        cf.convert_to_shards(tmp_path / "a.h5ad", f"{store.scheme}://nobucket/out")


def test_copies_belong_to_a_version(store, tmp_path):
    adata = write_cells(tmp_path / "a.h5ad")
    store.put("a.h5ad", tmp_path / "a.h5ad")
    options = {"cache_dir": tmp_path / "copies"}
    try:
        assert_cells(cf.open(store.url("a.h5ad"), storage_options=options), adata)
        other = write_cells(tmp_path / "b.h5ad", seed=1)
        store.put("a.h5ad", tmp_path / "b.h5ad")
        assert_cells(cf.open(store.url("a.h5ad")), other)
    finally:
        cf.set_storage_options(store.url("a.h5ad"), {})


def test_options_of_a_call_that_failed_are_taken_back(store, tmp_path):
    adata = write_cells(tmp_path / "a.h5ad")
    store.put("a.h5ad", tmp_path / "a.h5ad")
    (tmp_path / "file").write_bytes(b"")
    path = store.url("a.h5ad")
    with pytest.raises(cf.errors.CellfeedError):
        cf.open(path, cache="blocks", cache_dir=tmp_path / "file" / "cache")
    assert_cells(cf.open(path), adata)
    cells = cf.open(path, cache="blocks", cache_dir=tmp_path / "cache")
    with pytest.raises(NotFoundError):
        cf.open(store.url("none.h5ad"), cache="files", cache_dir=tmp_path / "other")
    assert_cells(pickle.loads(pickle.dumps(cells)), adata)
    assert (tmp_path / "cache").is_dir() and not (tmp_path / "other").exists()


def test_damage_that_may_be_the_cache_s_names_it(store, tmp_path):
    write_cells(tmp_path / "a.h5ad")
    (tmp_path / "a.h5ad").write_bytes((tmp_path / "a.h5ad").read_bytes()[:1000])
    store.put("a.h5ad", tmp_path / "a.h5ad")
    path, cache = store.url("a.h5ad"), tmp_path / "cache"
    with pytest.raises(CorruptDataError, match="truncated") as plain:
        cf.open(path)
    assert "cache" not in str(plain.value)
    for mode in ("files", "blocks"):
        with pytest.raises(CorruptDataError, match=f"cellfeed cache clear {cache}"):
            cf.open(path, cache=mode, cache_dir=cache)


def test_no_secret_is_said_or_sent_or_written(store, tmp_path, capfd):
    write_cells(tmp_path / "a.h5ad")
    store.put("a.h5ad", tmp_path / "a.h5ad")
    cf.convert_to_shards(store.url("a.h5ad"), tmp_path / "shards")
    cells = cf.open(store.url("a.h5ad"))
    texts = [repr(cells), pickle.dumps(cells).decode("latin1"), store.proxy.said()]
    texts += [file.read_bytes().decode("latin1") for file in (tmp_path / "shards").iterdir()]
    with pytest.raises(NotFoundError) as absent:
        cf.open(store.url("absent.h5ad"))
    texts += [str(absent.value), *capfd.readouterr()]
    assert not any(store.secret in text for text in texts)


# The S3 here is the slowest of them by far.
@pytest.mark.parametrize(
    "store", [pytest.param("s3", marks=pytest.mark.slow), "gs", "az"], indirect=True
)
def test_the_promises_of_file_systems_are_kept(store):
    if not CLOUD_TEST.exists():
        pytest.skip("the C++ tests are not built here")
    environment = os.environ | {"CELLFEED_TEST_BUCKET": f"{store.scheme}://{store.bucket}"}
    done = subprocess.run(
        [CLOUD_TEST, "--gtest_brief=1", "--gtest_filter=Bucket/*"],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIPPED" not in done.stdout, done.stdout


def test_bytes_are_those_that_were_asked_for(store, tmp_path):
    content = random.Random(3).randbytes(300_000)
    (tmp_path / "bytes").write_bytes(content)
    store.put("bytes", tmp_path / "bytes")
    adata = write_cells(tmp_path / "a.h5ad")
    store.put("a.h5ad", tmp_path / "a.h5ad")
    cells = cf.open(store.url("a.h5ad"))
    rows = np.random.default_rng(0).integers(0, N_CELLS, 200)
    assert (adata.X[rows] != cells[rows].X).nnz == 0
    with pytest.raises(cf.errors.CellfeedError, match="bytes"):
        cf.open(store.url("bytes"))


def test_vocabularies_and_label_maps_are_kept_there(store, tmp_path):
    adata = write_cells(tmp_path / "a.h5ad")
    cells = cf.open(tmp_path / "a.h5ad")
    vocabulary = GeneVocab.from_genes(cells.var_names)
    vocabulary.save(store.url("made/vocab.json"))
    assert GeneVocab.from_file(store.url("made/vocab.json")).genes == vocabulary.genes
    encoders = cf.Encoders({"kind": ["b", "a"]})
    encoders.save(store.url("made/labels.json"))
    assert cf.Encoders.load(store.url("made/labels.json")) == encoders
    store.put("a.h5ad", tmp_path / "a.h5ad")
    genes = GeneVocab.from_file(store.url("made/vocab.json"))
    assert_cells(cf.open(store.url("a.h5ad"), genes=genes), adata)
    with pytest.raises(NotFoundError, match=r"absent\.json"):
        GeneVocab.from_file(store.url("made/absent.json"))


def test_one_configuration_of_three_stores_is_sharded_and_cached(
    s3, gcs, azure, tmp_path, monkeypatch
):
    """The section of the specification on paths of clouds, with endpoints by the environment."""
    every = [write_cells(tmp_path / f"{i}.h5ad", seed=i) for i in range(3)]
    with contextlib.ExitStack() as stores:
        paths = []
        for i, (scheme, server) in enumerate((("s3", s3), ("gs", gcs), ("az", azure))):
            store = stores.enter_context(loopback_store(scheme, server, monkeypatch))
            store.put(f"atlas/dataset{i}.h5ad", tmp_path / f"{i}.h5ad")
            paths.append(store.url(f"atlas/dataset{i}.h5ad"))
        assert (scipy.sparse.vstack([each.X for each in every]) != cf.open(paths)[:].X).nnz == 0
        lines = "".join(f"    - {path}\n" for path in paths)
        (tmp_path / "my_config.yaml").write_text(
            f"data:\n  source: local\n  paths:\n{lines}"
            f"  cloud:\n    cache_dir: {tmp_path / 'cache'}\n"
        )
        command = [sys.executable, "-m", "cellfeed", "shard", "--config", "my_config.yaml"]
        command += ["--output-dir", "./local_shards/", "--shard-size", "100000"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len([file for file in (tmp_path / "cache").iterdir() if file.suffix == ".h5ad"]) == 3
    shards = cf.open(tmp_path / "local_shards")
    assert (scipy.sparse.vstack([each.X for each in every]) != shards[:].X).nnz == 0


def put_with_checksum(store, key, path):
    """As the store's own tools do."""
    if store.scheme != "s3":
        store.put(key, path)
        return
    import boto3

    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    client.put_object(
        Bucket=store.bucket, Key=key, Body=path.read_bytes(), ChecksumAlgorithm="CRC32"
    )


def test_whole_copies_are_compared_with_the_checksum_of_the_store(store, tmp_path):
    adata = write_cells(tmp_path / "a.h5ad")
    put_with_checksum(store, "a.h5ad", tmp_path / "a.h5ad")
    options = {"cache": "files", "cache_dir": tmp_path / "cache"}
    store.proxy.set_faults(Fault(kind="shifted_bytes", method="GET"))
    with pytest.raises(CorruptDataError, match=r"a\.h5ad: the bytes that came are not those"):
        cf.open(store.url("a.h5ad"), **options)
    assert not any(path.name.endswith(".h5ad") for path in (tmp_path / "cache").iterdir())
    store.proxy.set_faults()
    assert_cells(cf.open(store.url("a.h5ad"), **options), adata)


def test_copies_of_what_was_written_in_parts_are_made(store, tmp_path):
    """Whose checksum is that of its parts, or none."""
    (tmp_path / "large").write_bytes(random.Random(1).randbytes(12 << 20))
    store.put("large", tmp_path / "large")
    with pytest.raises(cf.errors.CellfeedError, match="large"):  # it is no file of cells
        cf.open(store.url("large"), cache="files", cache_dir=tmp_path / "cache")
    copies = [path for path in (tmp_path / "cache").iterdir() if path.name.endswith("-large")]
    assert [path.read_bytes() for path in copies] == [(tmp_path / "large").read_bytes()]
