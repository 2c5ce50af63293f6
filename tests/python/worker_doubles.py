"""What tests do to the workers of a cluster, which import this: make them slow, deadly or old."""

import os
import sys
import time


def make_slow(seconds):
    from cellfeed import _dask, shard_plan

    def slow_write(*arguments):
        time.sleep(seconds)
        return shard_plan.write_part(*arguments)

    _dask.write_part = slow_write if seconds else shard_plan.write_part


def make_deadly(shard):
    """The process ends when it is to write that shard."""
    from cellfeed import _dask, shard_plan

    def deadly_write(plan, part, *others):
        if part == [shard]:
            os._exit(7)
        return shard_plan.write_part(plan, part, *others)

    _dask.write_part = deadly_write


def put_first(folder):
    sys.path.insert(0, folder)


def take_away(folder):
    sys.path.remove(folder)
