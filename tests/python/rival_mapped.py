"""lamindb's MappedCollection, for tests that run both classes."""

import warnings

import pytest


def lamindb_class() -> type:
    """Its class; skips the test where lamindb is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from lamindb.core import MappedCollection
        except ModuleNotFoundError as error:
            pytest.skip(f"lamindb is not installed: {error}")
    return MappedCollection
