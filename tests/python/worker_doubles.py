"""What tests do to the workers of a cluster, which import this: make them slow, deadly or old."""

import os
import pathlib
import sys
import time


def make_slow(seconds):
    from cellfeed import _dask, shard_plan

    def slow_write(*arguments):
        time.sleep(seconds)
        return shard_plan.write_part(*arguments)

    _dask.write_part = slow_write if seconds else shard_plan.write_part


def make_deadly(shard, journal):
    """The process ends when it is to write that shard, once another one is noted."""
    from cellfeed import _dask, shard_plan

    def deadly_write(plan, part, *others):
        if part == [shard]:
            deadline = time.monotonic() + 60
            while pathlib.Path(journal).read_text().count("\n") < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            os._exit(7)
        return shard_plan.write_part(plan, part, *others)

    _dask.write_part = deadly_write


def put_first(folder):
    sys.path.insert(0, folder)


def take_away(folder):
    sys.path.remove(folder)
