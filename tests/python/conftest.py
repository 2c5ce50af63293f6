"""Fixtures for all Python tests: the data they read, and how Hypothesis behaves."""

import os
import pathlib

import hypothesis
import pytest
from skips import unexpected_skip
from stand_ins import make_stand_ins

ROOT = pathlib.Path(__file__).parents[2]
REAL_DATA = pathlib.Path(os.environ.get("CELLFEED_TEST_DATA", ROOT.parent / "shared" / "data"))

# No deadline: a shared machine stalls now and then, and that is not a fault of the code.
# Derandomised, so that a run fails for what was changed and for nothing else.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
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
