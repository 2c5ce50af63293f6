"""Marks of padding stay with their rows through cuts, copies and pickles of a batch."""

import itertools
import pickle

import anndata
import numpy as np
import pytest

import cellfeed as cf


@pytest.fixture(scope="module")
def padded():
    """Rank 2 of 3 over 10 cells: of its 4 rows the last repeats the start of the order."""
    cells = cf.open(anndata.AnnData(np.arange(40, dtype=np.float32).reshape(10, 4)))
    (batch,) = cf.Loader(cells, cf.Streaming(), batch_size=4, rank=2, world_size=3)
    assert batch.index.tolist() == [2, 5, 8, 1]
    assert batch.is_padding.tolist() == [False, False, False, True]
    return batch


def test_rows_keep_their_marks(padded):
    for rows in ([3, 0], [0, 1], slice(2, 4), np.array([False, True, False, True])):
        expected = (np.array([2, 5, 8, 1])[rows] == 1).tolist()
        assert padded[rows].is_padding.tolist() == expected
        assert padded[rows][::-1].is_padding.tolist() == expected[::-1]


def test_copies_keep_their_marks(padded):
    twin = pickle.loads(pickle.dumps(padded))
    assert twin.is_padding.tolist() == padded.is_padding.tolist()
    assert twin[[3]].is_padding.tolist() == [True]


HOOKS = {
    "view": lambda cells, rows: cells[rows],
    "batch": lambda cells, rows: cells[rows].batch,
    "reversed": lambda cells, rows: cells[rows[::-1]].batch[::-1],
    "read": lambda cells, rows: cells.read(rows),
    "by a closure": None,
    "of a view": lambda cells, rows: cells[:][rows].batch,
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("how", ["view", "view of a view", "filter", "all"])
def test_what_hooks_read_of_views_is_marked_as_the_plan_says(how, hook):
    x = np.arange(33, dtype=np.float32).reshape(11, 3)
    cells = cf.open(anndata.AnnData(x))
    order = np.random.default_rng(3).permutation(11)
    cells = {"view": cells[order], "view of a view": cells[::-1][order], "all": cells,
             "filter": cells.filter(order)}[how]  # fmt: skip
    n_marked = 0
    for rank, strategy in itertools.product(range(3), (cf.Streaming(), cf.BlockShuffling(2))):
        options = {"batch_size": 2, "rank": rank, "world_size": 3, "with_padding": True, "seed": 1}
        plain = list(cf.scDataset(cells, strategy, **options))
        read = HOOKS[hook] or (lambda _, rows: cells[rows].batch)
        hooked = list(cf.scDataset(cells, strategy, fetch_callback=read, **options))
        for (batch, marks), (made, same_marks) in zip(plain, hooked, strict=True):
            np.testing.assert_array_equal(made.to_numpy(), batch.to_numpy())
            assert made.is_padding.tolist() == batch.is_padding.tolist() == marks.tolist()
            assert marks.tolist() == same_marks.tolist()
            n_marked += marks.sum()
    assert n_marked > 0
