"""One plan over every format gives the same batches: those of numpy, scipy and the papers.

Every format meets every strategy, each time with another output, transform and share, so that
every pair of these occurs; `test_every_pair_occurs` counts them. The fast tests are a third of the
cases, and have each format, strategy, output, transform and share.
"""

import functools
import itertools

import numpy as np
import pytest
from one_table import VALUES
from reference_batches import (
    EXACT,
    OUTPUTS,
    RTOL,
    TOKEN_OUTPUTS,
    TRANSFORMS,
    assert_holds,
    cells_expected,
    contents_of,
    function_of_python,
    matrix_expected,
    output_options,
    tokens_expected,
    transformed,
    without_obs,
)
from reference_plans import STRATEGIES, Sharing, batches_of, planned, whole_shards
from stored_tables import (
    COMPRESSED,
    COUNTS_ONLY,
    FORMATS,
    STORE_SIZES,
    WITHOUT_OBS,
    labels_of,
)
from tiers import fast

import cellfeed as cf

SHARINGS = [
    Sharing(37, 2, 0, 1, "interleave", 0),
    Sharing(24, 3, 0, 1, "group", 3),
    Sharing(18, 2, 1, 2, "interleave", 1),
    Sharing(12, 2, 2, 3, "group", 4),
]


def cases_of(name):
    """(strategy, output, transform, sharing, threads) of a format."""
    n = list(FORMATS).index(name)
    for k, strategy in enumerate(STRATEGIES):
        output = OUTPUTS[(k + n) % len(OUTPUTS)]
        transform = list(TRANSFORMS)[(k + 3 * n) % len(TRANSFORMS)]
        yield strategy, output, transform, (k + n) % len(SHARINGS), 1 + k % 2


CASES = [(name, *case) for name in FORMATS for case in cases_of(name)]
FAST = [
    (name, *case)
    for n, name in enumerate(FORMATS)
    for k, case in enumerate(cases_of(name))
    if (k + n) % 3 == 0
]


@pytest.fixture(scope="module")
def float32_values(tables):
    """All rows after a transform, dense, as memory has them: equal to numpy's within rounding."""

    @functools.cache
    def read(values, transform):
        cells = tables.cells("memory", values)
        x = cells.read(slice(None), output="dense", transforms=TRANSFORMS[transform]).x.copy()
        wanted = transformed(values, transform).toarray()
        np.testing.assert_allclose(x, wanted, rtol=0 if transform in EXACT else RTOL)
        return x

    return read


def epoch_of(cells, strategy, output, transform, sharing, threads=None):
    """What the batches of a loader hold."""
    options = {**output_options(output, transform), **sharing.options()}
    if transform == "function":
        options["collate_fn"] = lambda batch: function_of_python(contents_of(batch))
    loader = cf.Loader(
        cells, STRATEGIES[strategy].make(labels_of(cells), sharing.world_size),
        transforms=TRANSFORMS[transform], threads=threads, **options,
    )  # fmt: skip
    plans = planned(strategy, sharing)
    assert len(loader) == len(plans)
    for rows, plan in zip(loader.plan(), plans, strict=True):
        assert rows.tobytes() == plan.rows.tobytes()
    return [batch if transform == "function" else contents_of(batch) for batch in loader]


@pytest.fixture(scope="module")
def of_memory(tables, float32_values):
    """What the batches hold in memory, found to be what the rules say."""

    def by_rule(strategy, output, transform, sharing, values):
        for number, plan in enumerate(planned(strategy, sharing)):
            batch = cells_expected(plan)
            if output in TOKEN_OUTPUTS:
                x = float32_values(values, transform)
                batch |= tokens_expected(output, transform, x, plan, sharing, number)
            else:
                batch |= matrix_expected(transformed(values, transform), output, plan)
            yield function_of_python(batch) if transform == "function" else batch

    @functools.cache
    def epoch(strategy, output, transform, sharing, values):
        found = epoch_of(tables.cells("memory", values), strategy, output, transform, sharing)
        wanted = by_rule(strategy, output, transform, sharing, values)
        for batch, expected in zip(found, wanted, strict=True):
            assert_holds(batch, expected, 0 if transform in EXACT else RTOL)
        return found

    return epoch


@pytest.fixture
def assert_same_epoch(tables, of_memory):
    """An epoch is to the bit that of memory, and so what the rules say."""

    def check(name, strategy, output, transform, sharing, values="counts", threads=None):
        case = strategy, output, transform, sharing
        found = epoch_of(tables.cells(name, values), *case, threads)
        for batch, wanted in zip(found, of_memory(*case, values), strict=True):
            same = without_obs(wanted) if name in WITHOUT_OBS else wanted
            assert_holds(batch, same)
            for key, array in batch.items():
                assert array.dtype == object or array.tobytes() == same[key].tobytes(), key

    return check


@pytest.mark.parametrize(
    ("name", "strategy", "output", "transform", "sharing", "threads"), fast(FAST, CASES)
)
def test_batches_hold_what_the_table_holds(
    assert_same_epoch, name, strategy, output, transform, sharing, threads
):
    assert_same_epoch(name, strategy, output, transform, SHARINGS[sharing], threads=threads)


# `test_odd_floats_stored_zeros_and_repeated_entries` has fractions of the other formats.
FRACTIONS = [
    ("memory", "csr"), ("gzip", "dense"), ("dense", "csr"), ("mtx", "csr"),
    ("parquet wide", "dense"), ("packed shards", "dense"), ("joined", "csr"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "output"),
    fast(
        FRACTIONS,
        itertools.product([name for name in FORMATS if name not in COUNTS_ONLY], ["csr", "dense"]),
    ),
)
def test_fractions_come_as_they_are(assert_same_epoch, name, output):
    for number, transform in enumerate(["none", "both"]):
        assert_same_epoch(name, "true random", output, transform, SHARINGS[number], "fractions")


def test_every_pair_occurs():
    values = [FORMATS, STRATEGIES, OUTPUTS, TRANSFORMS, range(len(SHARINGS))]
    for i, j in itertools.combinations(range(len(values)), 2):
        pairs = {(case[i], case[j]) for case in CASES}
        assert pairs == set(itertools.product(values[i], values[j]))
    for i, each in enumerate(values):
        assert {case[i] for case in FAST} == set(each)


def test_the_values_are_worth_comparing(float32_values):
    """Empty rows, a full one, whole numbers of 17 bits, fractions that float32 rounds."""
    counts, fractions = (float32_values(values, "none") for values in VALUES)
    found = np.count_nonzero(counts, axis=1)
    assert found.min() == 0 and found.max() == counts.shape[1]
    assert (counts == np.round(counts)).all() and counts.max() > 2**16
    assert (fractions != np.round(fractions)).any() and np.float32(1 / 3) in fractions


# Orders that depend on what the files say of themselves -------------------------------------------


IN_ORDER = [name for name in FORMATS if name != "reordered"]


@pytest.mark.parametrize(
    ("name", "world_size"),
    fast(
        zip(IN_ORDER, itertools.cycle([2, 3, 1]), strict=False),
        itertools.product(IN_ORDER, [1, 2, 3]),
    ),
)
def test_whole_shards_are_those_of_the_files(tables, name, world_size):
    cells = tables.cells(name)
    for rank in range(world_size):
        sharing = Sharing(24, 2, rank, world_size)
        plans = planned_by_shards(tuple(STORE_SIZES.get(name, [len(cells)])), sharing)
        loader = cf.Loader(cells, cf.WholeShards(world_size), **sharing.options())
        for batch, plan in zip(loader, plans, strict=True):
            np.testing.assert_array_equal(batch.index, plan.rows)
            np.testing.assert_array_equal(batch.is_padding, plan.is_padding)
            assert (batch.x != transformed("counts", "none")[plan.rows]).nnz == 0


@functools.cache
def planned_by_shards(sizes, sharing):
    order, length = whole_shards(sharing.world_size, list(sizes), **sharing.order_key())
    return batches_of(order, length, sharing)


@pytest.mark.parametrize("name", FORMATS)
def test_groups_are_dealt_whole_where_chunks_are_inflated(tables, name):
    cells = tables.cells(name)
    partition = "group" if name in COMPRESSED else "interleave"
    for rank in range(2):
        sharing = Sharing(16, 2, rank, 2, partition)
        options = {**sharing.options(), "partition": "auto"}
        loader = cf.Loader(cells, cf.BlockShuffling(8), **options)
        rows = [batch.index.tolist() for batch in loader]
        assert rows == [plan.rows.tolist() for plan in planned("blocks", sharing)]
