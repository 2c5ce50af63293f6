"""SECURITY.md, line by line: what is trusted, and the tests that it is no more than that."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
OF_USERS = "tests/python/test_other_users.py"
OF_LINKS = "tests/python/test_planted_links.py"
# By the first words of a line: a file, and a test in it.
TESTS = {
    "Paths that the caller names": [(OF_LINKS, "test_links_that_the_caller_names_are_followed")],
    "Shards and series": [
        ("tests/python/test_hostile.py", "test_a_hostile_directory_is_right_or_a_named_error"),
        ("tests/python/test_series_build.py", "test_any_flipped_byte_is_found"),
    ],
    "Cached rows": [
        (OF_USERS, "test_what_others_can_have_written_is_not_read"),
        (OF_USERS, "test_what_root_the_reader_and_the_owner_of_the_file_wrote_is_read"),
    ],
    "Copies and blocks of objects": [
        ("tests/python/test_kept_caches.py", "test_a_flipped_bit_is_found")
    ],
    "Folders that cellfeed empties or removes": [
        (OF_LINKS, "test_what_a_planted_link_leads_to_stays_as_it_is"),
        (OF_LINKS, "test_folders_without_a_mark_and_files_of_other_names_stay"),
    ],
    "What a series in a bucket keeps in `TMPDIR`": [
        (
            "src/cellfeed/series/remote_series_test.cc",
            "WhatOthersMayHaveKeptInTheFolderForTemporaryFilesIsRefused",
        )
    ],
}


def test_each_line_of_what_is_trusted_has_its_tests():
    page = (ROOT / "SECURITY.md").read_text()
    section = page.split("\n## What is trusted\n")[1].split("\n## ")[0]
    assert re.findall(r"^- \*\*(.+?)\*\*:", section, re.MULTILINE) == list(TESTS)
    for path, name in (test for tests in TESTS.values() for test in tests):
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text()), (path, name)
