"""Shard directories from strangers: right or a named error, soon and in bounded memory."""

import collections
import json
import pathlib
import subprocess
import sys

import pytest
from hostile_directories import MEGABYTES, SECONDS

pytestmark = pytest.mark.slow

PROGRAM = pathlib.Path(__file__).with_name("hostile_directories.py")


@pytest.mark.parametrize("layout", ["packed", "dense"])
def test_a_hostile_directory_is_right_or_a_named_error(tmp_path, layout):
    run = subprocess.run(
        [sys.executable, PROGRAM, tmp_path / "dir", "--layout", layout, "--mutations", "100"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0, f"after {lines[-1] if lines else 'nothing'}: {run.stderr[-2000:]}"
    cases = [(a["case"], b) for a, b in zip(lines[::2], lines[1::2], strict=True)]
    bad = [(name, judged) for name, judged in cases if judged["outcome"] not in ("right", "named")]
    assert not bad, bad
    large = [(name, judged) for name, judged in cases if judged["megabytes"] > MEGABYTES]
    assert not large, large
    counts = collections.Counter(judged["outcome"] for _, judged in cases)
    assert counts["named"] > 300, counts
    # Processor time, which a busy machine does not lengthen much; a case that only waits shows in
    # seconds.
    slow = [(name, judged) for name, judged in cases if judged["cpu_seconds"] > SECONDS]
    assert not slow, slow
    late = [(name, judged) for name, judged in cases if judged["seconds"] > 10 * SECONDS]
    assert not late, late
