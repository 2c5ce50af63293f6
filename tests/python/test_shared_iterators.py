"""An iteration that threads share: each batch once, and no end without a word."""

import itertools
import threading

import numpy as np
import pytest
from small_atlas import write_atlas

import cellfeed as cf

pytestmark = pytest.mark.slow

N_THREADS = 4


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return cf.open(write_atlas(tmp_path_factory.mktemp("atlas"))[0])


def rows_of(batch):
    return np.asarray(batch.index if hasattr(batch, "index") else batch[:, 0]).tolist()


KINDS = {
    "Loader": lambda cells, f: cf.Loader(cells, cf.BlockShuffling(1), 1, collate_fn=f),
    "scDataset": lambda cells, f: cf.scDataset(cells, cf.BlockShuffling(1), 1, batch_transform=f),
    "scDataset with hooks": lambda cells, f: cf.scDataset(
        cells, cf.BlockShuffling(1), 1, fetch_transform=lambda group: group, batch_transform=f
    ),
    "scDataset over an array": lambda cells, f: cf.scDataset(
        np.arange(len(cells))[:, None], cf.BlockShuffling(1), 1, batch_transform=f
    ),
}


def take_in_threads(iterator, n_first=0):
    """What each thread got, and the error that ended it.

    Each takes `n_first` batches before any of them takes more, so that no thread takes all.
    """
    taken, errors = [[] for _ in range(N_THREADS)], [None] * N_THREADS
    meeting = threading.Barrier(N_THREADS, timeout=60)

    def take(place):
        meeting.wait()
        try:
            taken[place].extend(itertools.islice(iterator, n_first))
            if n_first:
                meeting.wait()
            taken[place].extend(iterator)
        except BaseException as error:
            errors[place] = error

    threads = [threading.Thread(target=take, args=(place,)) for place in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return taken, errors


@pytest.mark.parametrize("kind", KINDS)
def test_threads_share_an_iteration(cells, kind):
    inside = threading.Semaphore(1)

    def slow(batch):
        assert inside.acquire(blocking=False), "two threads inside"
        threading.Event().wait(0.001)  # others get their turn to ask
        inside.release()
        return rows_of(batch)

    loader = KINDS[kind](cells, slow)
    planned = [rows.tolist() for rows in loader.plan()]
    taken, errors = take_in_threads(iter(loader), n_first=2)
    assert errors == [None] * N_THREADS
    assert sorted(itertools.chain(*taken)) == sorted(planned)
    assert all(len(of_thread) >= 2 for of_thread in taken)
    assert loader.epoch == 1 and loader.n_batches_left == len(loader)


@pytest.mark.parametrize("kind", KINDS)
def test_no_thread_takes_a_failure_for_the_end(cells, kind):
    def fail_at_seven(batch, count=iter(range(1000))):  # noqa: B008
        if next(count) == 7:
            raise ValueError("the eighth")
        return rows_of(batch)

    loader = KINDS[kind](cells, fail_at_seven)
    iterator = iter(loader)
    taken, errors = take_in_threads(iterator)
    assert len(list(itertools.chain(*taken))) == 7
    assert sorted(type(error).__name__ for error in errors) == (
        ["CancelledError"] * (N_THREADS - 1) + ["ValueError"]
    )
    with pytest.raises(cf.errors.CancelledError, match="ValueError: the eighth"):
        next(iterator)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hook_may_not_ask_the_iteration_that_calls_it(cells, kind):
    loader = KINDS[kind](cells, lambda batch: next(iterator))
    iterator = iter(loader)
    with pytest.raises(cf.errors.InvalidArgumentError, match="asks for the next batch"):
        next(iterator)


def test_an_iterator_can_be_closed(cells):
    loader = cf.Loader(cells, cf.Streaming(), 8)
    iterator = iter(loader)
    next(iterator)
    iterator.close()
    assert list(iterator) == [] and loader.epoch == 1
