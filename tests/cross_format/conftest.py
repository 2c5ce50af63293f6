"""The table as it is stored in each format, once for all tests of a process."""

import pytest
from stored_tables import StoredTables


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    return StoredTables(tmp_path_factory.mktemp("tables"))
