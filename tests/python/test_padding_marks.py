"""Marks of padding stay with their rows through cuts, copies and pickles of a batch."""

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
