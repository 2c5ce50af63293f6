"""Runs one measurement in a process of its own and watches the memory of it and of its children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from task import Task

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLE_EVERY_S = 0.05


@dataclass
class Interpreters:
    """Which Python runs which program, and where cellfeed comes from."""

    default: str = sys.executable
    others: dict[str, str] = field(default_factory=dict)
    package: str | None = None  # a directory that holds cellfeed/, put before what is installed

    def of(self, rival: str) -> str:
        return self.others.get(rival, self.default)


class MemoryWatch:
    """Peaks of a process tree: MB resident, and MB that are not pages of files."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.resident_mb = self.anonymous_mb = 0.0

    def sample(self) -> None:
        resident = anonymous = 0
        for pid in self._tree(self.pid):
            try:
                with open(f"/proc/{pid}/status") as file:
                    fields = dict(line.split(":", 1) for line in file)
                resident += int(fields["VmRSS"].split()[0])
                anonymous += int(fields["RssAnon"].split()[0]) + int(fields["RssShmem"].split()[0])
            except (OSError, KeyError):
                continue  # it ended
        self.resident_mb = max(self.resident_mb, resident / 1024)
        self.anonymous_mb = max(self.anonymous_mb, anonymous / 1024)

    def _tree(self, pid: int) -> list[int]:
        found = [pid]
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children") as file:
                    for child in file.read().split():
                        found += self._tree(int(child))
        except OSError:
            pass
        return found


def measure(
    task: Task,
    atlas_dir: str,
    interpreters: Interpreters,
    *,
    seconds: float,
    windows: int,
    target: str | None = None,
    timeout_s: float = 600,
) -> dict[str, Any]:
    """What measure.py said of the task, with ``resident_mb`` and ``anonymous_mb`` at their
    peaks.
    """
    command = [interpreters.of(task.rival), os.path.join(HERE, "measure.py"), task.to_json()]
    command += [atlas_dir, str(seconds), str(windows)] + ([target] if target else [])
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    if interpreters.package:
        environment["PYTHONPATH"] = interpreters.package
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        watch = MemoryWatch(process.pid)
        deadline = time.monotonic() + timeout_s
        while process.poll() is None:
            watch.sample()
            if time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
                return {"failed": f"no result after {timeout_s:.0f} s"}
            time.sleep(SAMPLE_EVERY_S)
        output, errors = process.communicate()
    lines = output.strip().splitlines()
    if process.returncode != 0 or not lines:
        return {"failed": f"exit {process.returncode}: {errors.strip()[-600:]}"}
    result = json.loads(lines[-1])
    return {**result, "resident_mb": watch.resident_mb, "anonymous_mb": watch.anonymous_mb}
