"""Windows in the loader: the orders, ranks, workers and states that cells have."""

import json
import os
import pickle
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import torch
from test_series_windows import make_series

import cellfeed as cf
from cellfeed import errors
from cellfeed.series import SeriesDataset, SeriesLoader, build_series


@pytest.fixture
def ds(tmp_path):
    path, _ = make_series(tmp_path, [70, 31, 44])
    return SeriesDataset(path, 6, 2, target="f1")


def assert_batch(ds, batch):
    x, y = ds.arrays(batch.index)
    np.testing.assert_array_equal(batch.x, x)
    np.testing.assert_array_equal(batch.y, y)
    assert batch.entities == [ds.entity_of(int(i)) for i in batch.index]
    assert batch.obs["time"].tolist() == [ds.time_of(int(i)) for i in batch.index]
    assert [f"e{e}" for e in batch.obs["entity"]] == batch.entities
    assert torch.equal(batch.to_torch()[0], torch.from_numpy(x))


def some_weights(n):
    return np.random.default_rng(0).random(n)


STRATEGIES = {
    "true random": lambda ds: cf.BlockShuffling(1),
    "blocks": lambda ds: cf.BlockShuffling(8),
    "in order": lambda ds: cf.Streaming(),
    "shuffled": lambda ds: cf.Streaming(shuffle=True),
    "weighted": lambda ds: cf.BlockWeightedSampling(block_size=2, weights=some_weights(len(ds))),
    "balanced": lambda ds: cf.ClassBalancedSampling(label_key="entity", block_size=1),
    "groups": lambda ds: cf.GroupSampling("entity"),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_batches_are_the_windows_of_the_plan(ds, name):
    loader = cf.series.SeriesLoader(ds, STRATEGIES[name](ds), batch_size=16, seed=3)
    assert isinstance(loader, SeriesLoader)
    plan = list(loader.plan())
    batches = list(loader)
    assert len(batches) == len(loader) == len(plan) > 3
    for batch, rows in zip(batches, plan, strict=True):
        np.testing.assert_array_equal(batch.index, rows)
        assert_batch(ds, batch)
        if name == "groups":
            assert len(set(batch.entities)) == 1
    seen = np.concatenate([b.index for b in batches])
    if name in ("true random", "blocks", "in order", "shuffled"):
        assert sorted(seen.tolist()) == list(range(len(ds)))
    assert (name == "in order") == (seen.tolist() == list(range(len(ds))))
    second = np.concatenate([b.index for b in loader])
    assert (name == "in order") == (seen.tolist() == second.tolist())
    assert loader.stats()["windows"] == len(seen) + len(second)


def directly(path, *arguments, **options):
    try:
        return SeriesDataset(path, *arguments, access="direct", **options)
    except errors.UnsupportedError:
        pytest.skip("this file system has no direct reads")


def test_windows_read_past_the_cache_are_those_of_the_rows(tmp_path):
    path, frame = make_series(tmp_path, [900, 31, 444])
    ds = directly(path, 6, 2, target=["f1", "f0"], stride=2, future=["f2"], features=["f0", "f1"])
    part = ds.split(by="entity", fractions={"some": 0.5, "others": 0.5})["some"]
    rows = {name: of[["f0", "f1", "f2"]].to_numpy() for name, of in frame.groupby("e")}
    for source in (ds, pickle.loads(pickle.dumps(ds)), part):
        assert source.access == "direct"
        for batch in cf.series.SeriesLoader(
            source, cf.BlockShuffling(1), batch_size=200, threads=2
        ):
            times = frame.t.to_numpy()
            for k, name in enumerate(batch.entities):
                of_entity = times[(frame.e == name).to_numpy()]
                last = int(np.searchsorted(of_entity, batch.obs["time"][k]))
                np.testing.assert_array_equal(batch.x[k], rows[name][last - 5 : last + 1, :2])
                np.testing.assert_array_equal(batch.y[k], rows[name][last + 1 : last + 3, [1, 0]])
                np.testing.assert_array_equal(batch.future[k], rows[name][last + 1 : last + 3, 2:])
    with pytest.raises(errors.InvalidArgumentError, match="access"):
        SeriesDataset(path, 6, access="pread")


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_read_past_the_cache_as_their_parent_does(tmp_path, context):
    path, _ = make_series(tmp_path, [300, 100])
    ds, mapped = directly(path, 6), SeriesDataset(path, 6, access="map")
    assert_batch(
        mapped, next(iter(cf.series.SeriesLoader(ds, cf.BlockShuffling(1), batch_size=32)))
    )
    options = {"num_workers": 2, "multiprocessing_context": context}
    of_workers = torch.utils.data.DataLoader(ds, batch_size=64, **options)
    expected = torch.utils.data.DataLoader(mapped, batch_size=64)
    for (x, y), (mapped_x, mapped_y) in zip(of_workers, expected, strict=True):
        assert torch.equal(x, mapped_x) and torch.equal(y, mapped_y)


def by_label(key, **options):
    yield cf.ClassBalancedSampling(block_size=4, smoothing=0.3, **key, **options)
    yield cf.ClassBalancedSampling(replace=False, **key, **options)
    yield cf.GroupSampling(**key, **options)
    yield cf.WeightedCellSampler(**key, **options)


@pytest.mark.parametrize("indices", [None, [5, 3, 3, 100, 60, 61], slice(10, 90)])
def test_entities_are_runs_of_what_labels_of_each_window_say(ds, indices):
    if isinstance(indices, slice):
        mask = np.zeros(len(ds), dtype=bool)
        mask[indices] = True
        indices = mask
    labels = [ds.entity_of(i) for i in range(len(ds))]
    np.testing.assert_array_equal([f"e{e}" for e in ds.obs["entity"]], labels)
    for by_entity, by_window in zip(
        by_label({"label_key": "entity"}, indices=indices),
        by_label({"labels": labels}, indices=indices),
        strict=True,
    ):
        ours, theirs = by_entity.bind(ds), by_window.bind(ds)
        assert ours.fingerprint == theirs.fingerprint
        np.testing.assert_array_equal(
            by_entity.get_indices(ds, seed=3), by_window.get_indices(ds, seed=3)
        )
    with pytest.raises(errors.OutOfRangeError, match=f"rows are 0 to {len(ds) - 1}"):
        cf.GroupSampling("entity", indices=[0, len(ds)]).bind(ds)


def test_labels_of_windows_take_memory_by_entity(tmp_path):
    frame = pd.DataFrame({"a": np.arange(400_000.0), "entity": np.repeat(["x", "y"], 200_000)})
    frame.to_parquet(tmp_path / "rows.parquet")
    build_series(tmp_path / "rows.parquet", tmp_path / "s", entity="entity")
    ds = SeriesDataset(tmp_path / "s", 4, 1)
    for strategy in [
        cf.ClassBalancedSampling(label_key="entity"), cf.GroupSampling("entity"),
        cf.WeightedCellSampler(label_key="entity"),
    ]:  # fmt: skip
        tracemalloc.start()
        loader = cf.series.SeriesLoader(ds, strategy, 64, seed=0)
        next(loader.plan())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < len(ds), f"{peak} bytes for two entities"
        assert strategy._labels(ds).n_bytes < 1000


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_an_epoch(ds, world):
    parts = [
        list(
            cf.series.SeriesLoader(
                ds, cf.BlockShuffling(1), batch_size=12 // world, rank=r, world_size=world
            )
        )
        for r in range(world)
    ]
    whole = list(
        cf.series.SeriesLoader(ds, cf.BlockShuffling(1), batch_size=12, rank=0, world_size=1)
    )
    assert len({tuple(map(len, part)) for part in parts}) == 1
    for step, batch in enumerate(whole):
        of_ranks = np.concatenate([p[step].index[~p[step].is_padding] for p in parts])
        assert sorted(of_ranks.tolist()) == sorted(batch.index.tolist())
    n_padding = sum(b.is_padding.sum() for part in parts for b in part)
    assert n_padding == -len(ds) % world


def test_resumed_at_every_step(ds):
    def make():
        return cf.series.SeriesLoader(ds, cf.BlockShuffling(2), batch_size=16, seed=5)

    whole = [b.index for b in make()]
    for step in range(len(whole)):
        loader = make()
        iterator = iter(loader)
        for _ in range(step):
            next(iterator)
        state = json.loads(json.dumps(loader.state_dict()))
        iterator.close()
        again = make()
        again.load_state_dict(state)
        rest = list(again)
        for batch, rows in zip(rest, whole[step:], strict=True):
            np.testing.assert_array_equal(batch.index, rows)
            assert_batch(ds, batch)


def test_a_state_of_other_windows_is_refused(ds):
    loader = cf.series.SeriesLoader(ds, cf.BlockShuffling(1), batch_size=16)
    next(iter(loader))
    state = loader.state_dict()
    for options in ({"window": 7}, {"stride": 2}, {"target": "f0"}, {"entities": ["e0", "e2"]}):
        other = SeriesDataset(ds.path, **({"window": 6, "horizon": 2, "target": "f1"} | options))
        with pytest.raises(errors.InvalidArgumentError):
            cf.series.SeriesLoader(other, cf.BlockShuffling(1), batch_size=16).load_state_dict(
                state
            )


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_give_the_same_stream(ds, how):
    loader = cf.series.SeriesLoader(ds, cf.BlockShuffling(1), batch_size=16, seed=1)
    alone = [b.index for b in loader]
    loader.set_epoch(0)
    batches = torch.utils.data.DataLoader(
        loader, batch_size=None, num_workers=2, multiprocessing_context=how
    )
    together = list(batches)
    for batch, rows in zip(together, alone, strict=True):
        np.testing.assert_array_equal(batch.index, rows)
        np.testing.assert_array_equal(batch.x, ds.arrays(rows)[0])


def test_pickled_and_left_early(ds):
    loader = cf.series.SeriesLoader(ds, cf.BlockShuffling(1), batch_size=16, seed=1)
    again = pickle.loads(pickle.dumps(loader))
    for one, other in zip(loader, again, strict=True):
        np.testing.assert_array_equal(one.x, other.x)
    for batch in loader:
        kept = batch
        break
    assert_batch(ds, kept)
    made = next(
        iter(
            cf.series.SeriesLoader(
                ds, cf.Streaming(), batch_size=4, collate_fn=lambda b: b.to_torch()
            )
        )
    )
    assert torch.equal(made[0], ds.batch([0, 1, 2, 3])[0])
    with cf.series.SeriesLoader(ds, cf.Streaming(), batch_size=4) as closed:
        iterator = iter(closed)
        next(iterator)
    with pytest.raises(errors.InvalidArgumentError, match="closed"):
        next(iterator)


def test_wrong_arguments(ds):
    with pytest.raises(TypeError, match="unexpected keyword argument 'output'"):
        cf.series.SeriesLoader(ds, cf.Streaming(), output="dense")
    with pytest.raises(errors.InvalidTypeError, match="strategy"):
        cf.series.SeriesLoader(ds, 8)
    with pytest.raises(errors.InvalidArgumentError, match="batch_size"):
        cf.series.SeriesLoader(ds, cf.Streaming(), batch_size=0)
    with pytest.raises(errors.InvalidTypeError, match=r"windows of time series .*SeriesLoader"):
        cf.Loader(ds, cf.Streaming())
    other = SeriesDataset(ds.path, 6, transform=lambda x, y: (x, y))
    with pytest.raises(errors.InvalidArgumentError, match="collate_fn"):
        cf.series.SeriesLoader(other, cf.Streaming())
    with pytest.raises(errors.CellfeedError):
        cf.series.SeriesLoader(ds, cf.BlockWeightedSampling(block_size=1, weights=np.ones(3)))
    with pytest.raises(errors.CellfeedError):
        cf.series.SeriesLoader(ds, cf.ClassBalancedSampling(label_key="donor"))


def test_a_state_of_other_values_is_refused_whatever_the_times_of_files_say(tmp_path):
    source = tmp_path / "a.csv"

    def build(values, name):
        rows = "".join(f"{i},{value}\n" for i, value in enumerate(values))
        source.write_text("time,value\n" + rows)
        os.utime(source, (1.6e9, 1.6e9))
        cf.series.build_series(source, tmp_path / name, time="time")
        return SeriesDataset(tmp_path / name, 5, 1)

    one, two = build(range(1, 9), "one"), build([2, *range(2, 9)], "two")
    assert one.identity() != two.identity()
    assert build(range(1, 9), "three").identity() == one.identity()
    state = cf.series.SeriesLoader(one, cf.BlockShuffling(), 2).state_dict()
    with pytest.raises(errors.CellfeedError, match="another"):
        cf.series.SeriesLoader(two, cf.BlockShuffling(), 2).load_state_dict(state)


def test_messages_about_windows_speak_of_no_cells(ds, monkeypatch, tmp_path):
    def loader(*arguments, of=ds, **options):
        return cf.series.SeriesLoader(of, *arguments, **options)

    state = next_state(loader(cf.Streaming(), 8))
    other = SeriesDataset(ds.path, window=ds.window + 1)
    codes = np.full(len(ds), -1)
    wrong = [
        lambda: loader(cf.ClassBalancedSampling(codes), 8),
        lambda: loader(cf.ClassBalancedSampling(codes[:3] + 1), 8),
        lambda: loader(cf.ClassBalancedSampling("nonsense"), 8),
        lambda: loader(cf.WholeShards(2, shard_offsets=[0, 5]), 8),
        lambda: loader(cf.WholeShards(2, shard_offsets=[5, 3]), 8),
        lambda: loader(cf.BlockWeightedSampling(weights=codes), 8),
        lambda: loader(cf.Streaming(indices=[10**9]), 8),
        lambda: loader(cf.Streaming(), 8, of=other).load_state_dict(state),
        lambda: loader(cf.BlockShuffling(1), 8).load_state_dict(state),
        lambda: list(loader(cf.Streaming(), 8, rank=0, world_size=7, remainder="error")),
        lambda: build_series(["a.csv", "./a.csv"], "out"),
    ]
    (tmp_path / "a.csv").write_text("t,v\n1,2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    wrong.append(lambda: list(loader(cf.Streaming(), 8)))
    for number, use in enumerate(wrong):
        with pytest.raises(errors.CellfeedError) as refused:
            use()
        said = str(refused.value)
        assert not re.search(r"\b(cells?|genes?)\b", said), (number, said)


def next_state(loader):
    batches = iter(loader)
    next(batches)
    return loader.state_dict()
