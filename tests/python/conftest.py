"""Fixtures for all Python tests: the data they read, and how Hypothesis behaves."""

import os
import pathlib

import hypothesis
import pytest
from skips import unexpected_skip
from stand_ins import make_stand_ins
from user_cache import use_own_folder

ROOT = pathlib.Path(__file__).parents[2]
REAL_DATA = pathlib.Path(os.environ.get("CELLFEED_TEST_DATA", ROOT.parent / "shared" / "data"))

use_own_folder()

# No deadline: a shared machine stalls now and then, and that is not a fault of the code.
# Derandomised, so that a run fails for what was changed and for nothing else.
for name in ("repeatable", "all"):
    hypothesis.settings.register_profile(name, deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("search", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_report_header():
    if REAL_DATA.is_dir():
        return f"data: made stand-ins, and the real files of {REAL_DATA}"
    return f"data: made stand-ins only; no real files at {REAL_DATA} (or CELLFEED_TEST_DATA)"


def refuse_unexpected_skip(report):
    """Under ``CI=true`` what is skipped for another reason than the known ones fails."""
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        reason = unexpected_skip(report.longrepr[2], REAL_DATA.is_dir())
        if reason:
            report.outcome, report.longrepr = "failed", f"{report.nodeid}: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return refuse_unexpected_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return refuse_unexpected_skip((yield))


@pytest.fixture(scope="session")
def made_data(tmp_path_factory) -> pathlib.Path:
    return make_stand_ins(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="session", params=["made", "real"] if REAL_DATA.is_dir() else ["made"])
def shared_data(request) -> pathlib.Path:
    """A folder of data sets: made ones with the traps of the real ones; the real ones if there."""
    return request.getfixturevalue("made_data") if request.param == "made" else REAL_DATA


@pytest.fixture(scope="session")
def s3():
    """An S3 on loopback for the whole run: a bucket belongs to the test that makes it."""
    import bucket_servers

    with bucket_servers.s3_server() as server:
        yield server


@pytest.fixture
def bucket(s3, monkeypatch):
    """An S3 of its own, found by the environment alone, and a client of it that is not ours."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    client = pytest.importorskip("boto3").client("s3", endpoint_url=s3.url)
    client.create_bucket(Bucket="atlas")
    yield client
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="atlas"):
        for each in page.get("Contents", []):
            client.delete_object(Bucket="atlas", Key=each["Key"])
    client.delete_bucket(Bucket="atlas")


@pytest.fixture
def proxied(bucket, s3, monkeypatch):
    """A link to it that can fail."""
    from bucket_servers import s3_environment
    from fault_proxy import FaultProxy

    with FaultProxy(s3.address) as proxy:
        for name, value in s3_environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        # More than a loaded machine stalls; what lasts for good asks for less.
        monkeypatch.setenv("CELLFEED_CLOUD_DEADLINE", "60")
        yield proxy


@pytest.fixture(scope="session")
def gcs():
    """A Google Cloud Storage on loopback."""
    import bucket_servers

    with bucket_servers.gcs_server() as server:
        yield server


@pytest.fixture(scope="session")
def azure():
    """An Azure Blob Storage on loopback."""
    import bucket_servers

    with bucket_servers.azure_server() as server:
        yield server
