"""Ranks, workers, threads, budgets and resumed runs: shares of one plan, whatever the format."""

import collections
import functools
import itertools
import json
import pickle

import numpy as np
import pytest
from one_table import matrix
from reference_batches import (
    assert_holds,
    cells_expected,
    contents_of,
    matrix_expected,
    output_options,
    without_obs,
)
from reference_plans import STRATEGIES, Sharing, batches_of, planned
from stored_tables import FORMATS, WITHOUT_OBS, labels_of
from tiers import fast
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError

PARTITIONS = ["interleave", "group"]


def every(n):
    """Of each format every n-th strategy, of each strategy every n-th format; both partitions."""
    for i, name in enumerate(FORMATS):
        for j, strategy in enumerate(STRATEGIES):
            if i % n == j % n:
                yield name, strategy, PARTITIONS[(i // n + j // n) % 2]


SHARED, RESUMED = list(every(5)), list(every(5))
# The cases of the fast tests. They have each format, strategy and partition.
FAST_SHARED, FAST_RESUMED = SHARED[::3], RESUMED[1::3]
# Those of the cache are of its file.
ONE_FILE = ["gzip", "filling cache", "full cache"]


def loader_of(cells, strategy, sharing, **options):
    made = STRATEGIES[strategy].make(labels_of(cells), sharing.world_size)
    return cf.Loader(cells, made, **sharing.options(), **options)


@functools.cache
def expected(plan_of, *arguments):
    """All that the batches of a plan hold, as CSR."""
    x = matrix("counts")
    return [{**cells_expected(p), **matrix_expected(x, "csr", p)} for p in plan_of(*arguments)]


def assert_hold(batches, name, wanted):
    for batch, by_rule in zip(batches, wanted, strict=True):
        by_rule = without_obs(by_rule) if name in WITHOUT_OBS else by_rule
        assert_holds(batch if isinstance(batch, dict) else contents_of(batch), by_rule)


def rows_of(plans):
    return collections.Counter(row for plan in plans for row in plan.rows[~plan.is_padding])


@pytest.mark.parametrize(("name", "strategy", "partition"), fast(FAST_SHARED, SHARED))
def test_two_ranks_share_an_epoch(tables, name, strategy, partition):
    cells = tables.cells(name)
    shares = [Sharing(18, 2, rank, 2, partition, 1) for rank in range(2)]
    for sharing in shares:
        batches = loader_of(cells, strategy, sharing)
        assert_hold(batches, name, expected(planned, strategy, sharing))
    if strategy not in ("whole shards", "groups", "whole groups") and partition == "interleave":
        together = sum((rows_of(planned(strategy, sharing)) for sharing in shares), rows_of([]))
        alone = Sharing(36, 2, 0, 1, partition, 1)
        assert together == rows_of(planned(strategy, alone))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("name", fast([*FORMATS][::3], FORMATS))
def test_two_workers_of_two_ranks_yield_what_none_do(tables, name):
    cells = tables.cells(name)
    number = list(FORMATS).index(name)
    strategy = ["blocks", "weighted", "balanced", "true random"][number % 4]
    seen = rows_of([])
    for rank in range(2):
        sharing = Sharing(18, 2, rank, 2, PARTITIONS[number % 2], 1)
        loader = loader_of(cells, strategy, sharing)
        workers = DataLoader(
            loader, batch_size=None, num_workers=2, multiprocessing_context="fork"
        )  # fmt: skip
        assert_hold(workers, name, expected(planned, strategy, sharing))
        seen += rows_of(planned(strategy, sharing))
    if strategy in ("blocks", "true random"):
        assert seen == collections.Counter(range(len(cells)))


@pytest.mark.parametrize("name", FORMATS)
def test_a_copy_by_pickle_yields_the_same(tables, name):
    cells = tables.cells(name)
    for strategy in ("blocks", "balanced"):
        sharing = Sharing(30, 2, 1, 2, "interleave", 2)
        copy = pickle.loads(pickle.dumps(loader_of(cells, strategy, sharing)))
        assert_hold(copy, name, expected(planned, strategy, sharing))


@pytest.mark.parametrize(
    ("name", "output"),
    fast(
        zip(FORMATS, itertools.cycle(["csr", "dense", "bins"]), strict=False),
        itertools.product(FORMATS, ["csr", "dense", "bins"]),
    ),
)
def test_threads_and_budgets_change_nothing(tables, name, output):
    transforms = [cf.NormalizeTotal(), cf.Log1p()]
    sharing, epochs = Sharing(41, 3, epoch=2), []
    for threads, budget in [(1, "32MB"), (2, "2GB"), (2, "32MB"), (1, "2GB")]:
        loader = loader_of(
            tables.cells(name), "blocks", sharing, threads=threads, memory_budget=budget,
            transforms=transforms, **output_options(output, "both"),
        )  # fmt: skip
        epochs.append([contents_of(batch) for batch in loader])
    for epoch in epochs:
        for batch, first, plan in zip(epoch, epochs[0], planned("blocks", sharing), strict=True):
            np.testing.assert_array_equal(batch["index"], plan.rows)
            assert_holds(batch, first)


# Resuming -----------------------------------------------------------------------------------------

FIRST_RUN = {part: Sharing(16, 3, 0, 1, part, 1) for part in PARTITIONS}
N_DONE = 3


def what_is_left(strategy, partition, sharing):
    """Batches of a rank of another run, by the order of the first one."""
    first = FIRST_RUN[partition]
    more = {"num_ranks": 1} if strategy == "whole shards" else {}
    order, length = STRATEGIES[strategy].reference(**more, **first.order_key())
    of_first = (first.world_size, first.batch_size, first.fetch_factor)
    return batches_of(order, length, sharing, consumed=16 * N_DONE, first_run=of_first)


def stopped(tables, name, strategy, partition):
    """The state of a run after its first batches, through JSON."""
    loader = loader_of(tables.cells(name), strategy, FIRST_RUN[partition])
    iterator = iter(loader)
    done = list(itertools.islice(iterator, N_DONE))
    assert_hold(done, name, expected(planned, strategy, FIRST_RUN[partition])[:N_DONE])
    return json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize(("name", "strategy", "partition"), fast(FAST_RESUMED, RESUMED))
def test_a_resumed_run_yields_what_was_left(tables, name, strategy, partition):
    state = stopped(tables, name, strategy, partition)
    assert state["consumed"] == 16 * N_DONE
    again, sharing = tables.open(name), FIRST_RUN[partition]
    loader = loader_of(again, strategy, sharing)
    loader.load_state_dict(state)
    assert_hold(loader, name, expected(planned, strategy, sharing)[N_DONE:])
    if strategy == "whole shards":  # goes on with as many ranks
        return
    for rank in range(2):
        sharing = Sharing(8, 3, rank, 2, partition, 1)
        loader = loader_of(again, strategy, sharing)
        loader.load_state_dict(state)
        assert_hold(loader, name, expected(what_is_left, strategy, partition, sharing))


def test_each_is_shared_and_resumed_in_both_partitions():
    for cases, some in ((SHARED, FAST_SHARED), (RESUMED, FAST_RESUMED)):
        assert {case[::2] for case in cases} == set(itertools.product(FORMATS, PARTITIONS))
        assert {case[1:] for case in cases} == set(itertools.product(STRATEGIES, PARTITIONS))
        for i, each in enumerate((FORMATS, STRATEGIES, PARTITIONS)):
            assert {case[i] for case in some} == set(each)


@pytest.mark.parametrize("other", ONE_FILE)
@pytest.mark.parametrize("name", ONE_FILE)
def test_a_file_and_its_caches_go_on_from_one_another(tables, name, other):
    state = stopped(tables, name, "blocks", "group")
    loader = loader_of(tables.open(other), "blocks", FIRST_RUN["group"])
    loader.load_state_dict(state)
    assert_hold(loader, other, expected(planned, "blocks", FIRST_RUN["group"])[N_DONE:])


def test_a_state_of_another_file_is_refused(tables):
    state = stopped(tables, "plain", "blocks", "interleave")
    for name in ("gzip", "csc", "packed shards", "several files", "mixed", "memory"):
        loader = loader_of(tables.cells(name), "blocks", FIRST_RUN["interleave"])
        with pytest.raises(InvalidArgumentError, match="another collection"):
            loader.load_state_dict(state)
