"""Fixtures for all Python tests: where the real data lies, and how Hypothesis behaves."""

import os
import pathlib

import hypothesis
import pytest

ROOT = pathlib.Path(__file__).parents[2]

# No deadline: a shared machine stalls now and then, and that is not a fault of the code.
# Derandomised, so that a run fails for what was changed and for nothing else.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("search", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real data sets, named by CELLFEED_TEST_DATA or beside the repository."""
    named = os.environ.get("CELLFEED_TEST_DATA")
    folder = pathlib.Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; CELLFEED_TEST_DATA names another place")
    return folder
