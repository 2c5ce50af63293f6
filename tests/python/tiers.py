"""Cases of a test that `make test` runs, beside those that are of `make test-all` alone."""

import pytest


def fast(some, every):
    """Of all cases, those that are not in `some` marked slow."""
    some, every = list(some), list(every)
    assert all(case in every for case in some)
    return [case if case in some else pytest.param(*case, marks=pytest.mark.slow) for case in every]
