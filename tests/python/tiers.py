"""Which cases `make test` runs, and which ones only `make test-all` does."""

import os

import hypothesis
import pytest

# How many of the examples that a test asks for are run, by profile.
SHARES = {"all": 1, "search": 20}


def fast(some, every):
    """All cases; those that are not in `some` are marked slow."""
    some, every = list(some), list(every)
    assert all(case in every for case in some)

    def slow(case):
        values = case if isinstance(case, tuple) else (case,)
        return pytest.param(*values, marks=pytest.mark.slow)

    return [case if case in some else slow(case) for case in every]


def examples(n):
    """Settings of a test by Hypothesis: `n` examples in `make test-all`, a third in `make test`."""
    share = SHARES.get(os.environ.get("HYPOTHESIS_PROFILE"), 1 / 3)
    return hypothesis.settings(max_examples=max(2, int(n * share)))
