"""Windows of a series against a list made by brute force; scalers against scikit-learn's."""

import contextlib
import json
import multiprocessing
import os
import pathlib
import pickle
import re
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import REAL_DATA
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from tiers import examples

from cellfeed import errors
from cellfeed.series import Scaler, SeriesDataset, build_series

DAY = 86_400_000_000_000


def make_series(folder, lengths, n_features=3, **options):
    """Entities e0, e1, ... whose values tell entity, row and feature; times rise unevenly."""
    frames = []
    random = np.random.default_rng(len(lengths))
    for e, n in enumerate(lengths):
        frame = pd.DataFrame(
            {f"f{f}": e * 10_000.0 + np.arange(n) * 10 + f for f in range(n_features)}
        )
        frame["e"] = f"e{e}"
        frame["t"] = np.cumsum(random.integers(1, 4, n)) + 5 * e
        frames.append(frame)
    frame = pd.concat(frames, ignore_index=True)
    frame.to_parquet(folder / "rows.parquet")
    options = {"scaler": None, "dtype": "float64"} | options
    build_series(folder / "rows.parquet", folder / "out", entity="e", time="t", **options)
    return folder / "out", frame


def windows_by_hand(frame, window, horizon, stride, first=None, end=None):
    """(entity, first row, times of all its rows) of each window."""
    found = []
    for name, rows in frame.groupby("e", sort=False):
        t = rows.t.to_numpy()
        inside = np.ones(len(t), bool) if first is None else t >= first
        inside &= True if end is None else t < end
        place = np.flatnonzero(inside)
        for begin in range(0, len(place) - window - horizon + 1, stride):
            found.append((name, place[begin : begin + window + horizon]))
    return found


@given(st.data())
@examples(60)
def test_windows_are_those_made_by_brute_force(tmp_path_factory, data):
    lengths = data.draw(st.lists(st.integers(1, 25), min_size=1, max_size=6))
    window, horizon = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 4))
    stride = data.draw(st.integers(1, 6))
    path, frame = make_series(tmp_path_factory.mktemp("s"), lengths)
    first = data.draw(st.none() | st.integers(0, 40))
    end = data.draw(st.none() | st.integers((first or 0) + 1, 60))
    expected = windows_by_hand(frame, window, horizon, stride, first, end)
    options = {"features": ["f2", "f0"], "target": "f1", "between": (first, end)}
    if not expected:
        with pytest.raises(errors.InvalidArgumentError, match="no entity has"):
            SeriesDataset(path, window, horizon, stride, **options)
        return
    with warnings_of_short_entities():
        ds = SeriesDataset(path, window, horizon, stride, dtype="float64", **options)
    assert len(ds) == len(expected)
    by_entity = {name: rows for name, rows in frame.groupby("e", sort=False)}
    assert ds.n_short == len(lengths) - len({name for name, _ in expected})
    order = data.draw(st.permutations(range(len(expected))))[:20]
    x, y = ds.arrays(order, threads=data.draw(st.integers(1, 3)))
    for at, i in enumerate(order):
        name, rows = expected[i]
        values = by_entity[name].iloc[rows]
        np.testing.assert_array_equal(x[at], values[["f2", "f0"]].to_numpy()[:window])
        np.testing.assert_array_equal(y[at], values["f1"].to_numpy()[window:])
        assert ds.entity_of(i) == name and ds.time_of(i) == values.t.iloc[window - 1]
        one = ds[i - len(ds)]
        assert torch.equal(one[0], torch.from_numpy(x[at])) and one[1].tolist() == y[at].tolist()


class warnings_of_short_entities:  # noqa: N801
    def __enter__(self):
        self.context = warnings.catch_warnings()
        self.context.__enter__()
        warnings.filterwarnings("ignore", "[0-9]+ of [0-9]+ entities have less")

    def __exit__(self, *failure):
        self.context.__exit__(*failure)


def rows_of(ds):
    """Numbers, in the directory, of all rows that any window of a part is of."""
    about = json.loads((pathlib.Path(ds.path) / "metadata.json").read_text())
    firsts = [entity["rows"][0][0] if entity["rows"] else 0 for entity in about["entities"]]
    rows = set()
    for entity, begin in zip(*(a.tolist() for a in ds._located(slice(None))), strict=True):
        begin += firsts[entity]
        rows |= set(range(begin, begin + ds.window + ds.horizon))
    return rows


@given(st.data())
@examples(40)
def test_parts_are_disjoint_and_complete(tmp_path_factory, data):
    lengths = data.draw(st.lists(st.integers(12, 40), min_size=3, max_size=7))
    path, frame = make_series(tmp_path_factory.mktemp("s"), lengths)
    window, horizon = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 2))
    ds = SeriesDataset(path, window, horizon)
    if data.draw(st.booleans()):
        parts = ds.split(
            by="entity", fractions={"a": 0.5, "b": 0.5}, seed=data.draw(st.integers(0, 99))
        )
        assert sum(map(len, parts.values())) == len(ds)
        entities = [{p.entity_of(i) for i in range(len(p))} for p in parts.values()]
        assert not entities[0] & entities[1]
        assert entities[0] | entities[1] == set(frame.e)
        return
    purge = data.draw(st.integers(0, 3))
    by_date = data.draw(st.booleans())
    cut = int(np.median(frame.t))
    how = {"dates": {"a": cut, "b": None}} if by_date else {"fractions": {"a": 0.5, "b": 0.5}}
    try:
        parts = ds.split(**how, purge=purge)
    except errors.InvalidArgumentError as error:
        assert "would have no window" in str(error)
        return
    a, b = rows_of(parts["a"]), rows_of(parts["b"])
    assert not a & b
    if by_date:
        t = frame.t.to_numpy()
        assert t[sorted(a)].max() < cut <= t[sorted(b)].min()
        if not purge:
            assert len(parts["a"]) == len(windows_by_hand(frame, window, horizon, 1, None, cut))
            assert len(parts["b"]) == len(windows_by_hand(frame, window, horizon, 1, cut, None))
    for name, rows in frame.groupby("e"):
        inside = rows.index.to_numpy()
        last_a = max(a & set(inside.tolist()), default=None)
        first_b = min(b & set(inside.tolist()), default=None)
        if by_date and last_a is not None and first_b is not None:
            assert first_b - last_a > purge, name
        if by_date:  # also of entities that begin then
            assert not b & set(inside[rows.t.to_numpy() >= cut][:purge].tolist()), name


@pytest.mark.parametrize("scale", ["global", "entity"])
def test_a_split_by_entity_warns_of_a_scaler_of_all(tmp_path, scale):
    path, _ = make_series(tmp_path, [60, 50], scaler="standard", scale=scale)
    warned = pytest.warns(UserWarning, match="one scaler of all entities")
    with warned if scale == "global" else contextlib.nullcontext():
        SeriesDataset(path, 5).split(by="entity", fractions={"train": 0.5, "test": 0.5})


def test_a_split_by_time_warns_of_a_scaler_that_saw_later_rows(tmp_path):
    path, frame = make_series(tmp_path, [60, 50], scaler="standard")
    ds = SeriesDataset(path, 5)
    with pytest.warns(UserWarning, match="leak into training"):
        ds.split(fractions={"train": 0.6, "test": 0.4})
    (tmp_path / "fit").mkdir()
    path, frame = make_series(tmp_path / "fit", [60, 50], scaler="standard", fit_until=40)
    parts = SeriesDataset(path, 5).split(dates={"train": 40, "test": None})
    assert list(parts) == ["train", "test"]
    with pytest.warns(UserWarning, match="leak into training"):
        SeriesDataset(path, 5).split(dates={"train": 39, "test": None})
    fitted = StandardScaler().fit(frame[frame.t < 40][["f0", "f1", "f2"]])
    np.testing.assert_allclose(Scaler.load(path).parameters()[0], fitted.mean_)


def test_short_entities_are_counted_and_none_at_all_is_an_error(tmp_path):
    path, _ = make_series(tmp_path, [9, 3, 20])
    with pytest.warns(UserWarning, match="1 of 3 entities have less than the 5"):
        ds = SeriesDataset(path, 5)
    assert (ds.n_short, len(ds)) == (1, 4 + 15)
    with pytest.raises(errors.InvalidArgumentError, match="no entity has the 99 \\+ 1 rows"):
        SeriesDataset(path, 99)


WRONG = [
    ({}, errors.InvalidTypeError, "window must be"),
    ({"window": 0}, errors.InvalidArgumentError, "window"),
    ({"window": 2.0}, errors.InvalidTypeError, "window must be an integer.*write 2"),
    ({"window": 2, "horizon": 0}, errors.InvalidArgumentError, "horizon"),
    ({"window": 2, "stride": -1}, errors.InvalidArgumentError, "stride"),
    ({"window": 2, "target": "f9"}, errors.NoSuchKeyError, "no feature 'f9'.*did you mean"),
    ({"window": 2, "features": []}, errors.InvalidArgumentError, "at least one"),
    ({"window": 2, "entities": "x"}, errors.NoSuchKeyError, "no entity 'x'"),
    ({"window": 2, "entities": ["e0", "e0"]}, errors.InvalidArgumentError, "twice"),
    ({"window": 2, "between": (5, 5)}, errors.InvalidArgumentError, "rise"),
    ({"window": 2, "between": "2020"}, errors.InvalidTypeError, "between"),
    ({"window": 2, "between": ("soon", None)}, errors.InvalidArgumentError, "whole number"),
    ({"window": 2, "dtype": "int8"}, errors.InvalidArgumentError, "dtype"),
    ({"window": 2**62, "horizon": 2**62}, errors.InvalidArgumentError, "too large|no entity"),
    ({"window": 2, "transform": 3}, errors.InvalidTypeError, "function"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_arguments_are_named(tmp_path, case):
    path, _ = make_series(tmp_path, [9, 12])
    options, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        SeriesDataset(path, **options)


def test_wrong_indices(tmp_path):
    path, _ = make_series(tmp_path, [9, 12])
    ds = SeriesDataset(path, 3, target="f0")
    for index in (len(ds), -len(ds) - 1, 2**70):
        with pytest.raises(IndexError):
            ds[index]
    for index in (1.5, "0", None, slice(2), [1], True):
        with pytest.raises(TypeError):
            ds[index]
    with pytest.raises(IndexError):
        ds.batch([0, len(ds)])
    x, y = ds.batch(slice(0, 0))
    assert x.shape == (0, 3, 3) and y.shape == (0, 1)


def worker_init_fn(worker_id):
    worker_info = torch.utils.data.get_worker_info()
    dataset = worker_info.dataset
    # Crucial: Re-open the file handle in the new process
    dataset.open_memmap()


@pytest.mark.parametrize("how", [None, "fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_give_the_same_batches(tmp_path, how):
    path, _ = make_series(tmp_path, [40, 12, 30], dtype="float32")
    ds = SeriesDataset(path, 6, 2)
    order = torch.randperm(len(ds), generator=torch.Generator().manual_seed(0)).tolist()
    loader = torch.utils.data.DataLoader(
        ds, batch_size=7, sampler=order, num_workers=0 if how is None else 2,
        worker_init_fn=worker_init_fn, multiprocessing_context=how,
    )  # fmt: skip
    batches = list(loader)
    assert [len(x) for x, _ in batches] == [7] * (len(ds) // 7) + [len(ds) % 7]
    for number, (x, y) in enumerate(batches):
        expected = ds.batch(order[number * 7 : number * 7 + 7])
        assert torch.equal(x, expected[0]) and torch.equal(y, expected[1])
    again = pickle.loads(pickle.dumps(ds))
    assert torch.equal(again[5][0], ds[5][0]) and again.entity_of(50) == ds.entity_of(50)


def test_batches_are_copied_once_and_belong_to_whoever_holds_them(tmp_path):
    path, _ = make_series(tmp_path, [40])
    ds = SeriesDataset(path, 6)
    pairs = ds.__getitems__([3, 1, 2])
    x, _ = torch.utils.data.default_collate(pairs)
    assert x.data_ptr() == pairs[0][0].data_ptr()
    swapped, _ = torch.utils.data.default_collate([pairs[1], pairs[0], pairs[2]])
    assert torch.equal(swapped, x[[1, 0, 2]])
    kept = [ds.batch([i])[0] for i in range(20)]
    for i, held in enumerate(kept):
        assert torch.equal(held[0], ds[i][0])
    plus = SeriesDataset(path, 6, transform=lambda x, y: (x + 1, -y))
    assert torch.equal(plus[2][0], ds[2][0] + 1) and torch.equal(plus[2][1], -ds[2][1])
    assert torch.equal(plus.__getitems__([2])[0][0], ds[2][0] + 1)


def test_a_child_that_was_forked_reads_the_same(tmp_path):
    path, _ = make_series(tmp_path, [40, 20])
    ds = SeriesDataset(path, 6)
    expected = ds.arrays(slice(None), threads=3)[0]

    def check(queue):
        queue.put(bool((ds.arrays(slice(None), threads=3)[0] == expected).all()))

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=check, args=(queue,))
    child.start()
    assert queue.get(timeout=60)
    child.join()


def test_damage_is_named(tmp_path):
    path, _ = make_series(tmp_path, [40, 20])
    ds = SeriesDataset(path, 6)
    state = pickle.dumps(ds)
    values = path / "all_features.mmap"
    whole = values.read_bytes()
    os.truncate(values, 100)
    with pytest.raises(errors.CellfeedError):
        ds.arrays(slice(None))
    with pytest.raises(errors.CorruptDataError, match="cut off"):
        SeriesDataset(path, 6)
    with pytest.raises(errors.CorruptDataError):
        pickle.loads(state)
    values.write_bytes(whole)
    text = (path / "metadata.json").read_text()
    (path / "metadata.json").write_text(text.replace('"n_rows": 60', '"n_rows": 61'))
    with pytest.raises(errors.CorruptDataError, match="edited"):
        SeriesDataset(path, 6)
    (path / "metadata.json").unlink()
    with pytest.raises(errors.NotFoundError, match="no series directory"):
        SeriesDataset(path, 6)


def test_defaults_of_the_directory(tmp_path):
    path, _ = make_series(tmp_path, [40], window=5, horizon=3, stride=4, target=["f1"])
    ds = SeriesDataset(path)
    assert (ds.window, ds.horizon, ds.stride, ds.target) == (5, 3, 4, ["f1"])
    assert ds[0][1].shape == (3, 1) and SeriesDataset(path, target="f1")[0][1].shape == (3,)
    assert json.loads((path / "metadata.json").read_text())["window"] == 5


@pytest.mark.parametrize("model", [StandardScaler, MinMaxScaler, RobustScaler])
def test_scalers_are_those_of_scikit_learn(tmp_path, model):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(50, 9, (200, 2)), columns=["a", "b"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    kind = model.__name__.removesuffix("Scaler").lower()
    out = tmp_path / "out"
    build_series(tmp_path / "x.csv", out, scaler=kind, dtype="float64")
    fitted = model().fit(frame)
    values = np.fromfile(out / "all_features.mmap").reshape(-1, 2)
    np.testing.assert_allclose(values, fitted.transform(frame), rtol=1e-10, atol=1e-12)
    scaler = Scaler.load(out)
    theirs = scaler.to_sklearn()
    assert type(theirs) is model
    np.testing.assert_allclose(theirs.transform(frame), values, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(scaler.inverse_transform(values), frame, rtol=1e-10)
    np.testing.assert_allclose(
        scaler.transform(frame["b"].to_numpy()[:, None], "b")[:, 0], values[:, 1]
    )
    taken = Scaler.from_sklearn(fitted)
    np.testing.assert_allclose(taken.transform(frame), values, rtol=1e-10, atol=1e-12)
    taken.save(tmp_path / "taken.json")
    assert Scaler.load(tmp_path / "taken.json") == taken
    build_series(tmp_path / "x.csv", tmp_path / "again", scaler=taken, dtype="float64")
    again = np.fromfile(tmp_path / "again" / "all_features.mmap").reshape(-1, 2)
    np.testing.assert_allclose(again, values, rtol=1e-10, atol=1e-12)
    ds = SeriesDataset(out, 10, 4, target="b", dtype="float64")
    np.testing.assert_allclose(ds.inverse(ds[7][1]), frame["b"][17:21], rtol=1e-10)
    with pytest.raises(errors.InvalidArgumentError, match="not fitted"):
        Scaler.from_sklearn(model(), ["a", "b"])
    with pytest.raises(errors.InvalidTypeError):
        Scaler.from_sklearn(object(), ["a"])


def test_a_scale_of_each_entity_is_undone(tmp_path):
    path, frame = make_series(tmp_path, [40, 30], scaler="standard", scale="entity")
    ds = SeriesDataset(path, 5, 2, target=["f0", "f2"], dtype="float64")
    indices = [0, 20, 40, 55]
    _, y = ds.arrays(indices)
    read = ds.inverse(y, [ds.entity_of(i) for i in indices])
    for at, i in enumerate(indices):
        entity, row = (int(a[0]) for a in ds._located([i]))
        rows = frame[frame.e == f"e{entity}"][["f0", "f2"]].to_numpy()
        np.testing.assert_allclose(read[at], rows[row + 5 : row + 7])
        np.testing.assert_allclose(ds.inverse(ds[i][1], ds.entity_of(i)), read[at])
    with pytest.raises(errors.InvalidArgumentError, match="name the entity"):
        ds.inverse(y)
    with pytest.raises(errors.NoSuchKeyError, match="no entity 'e7'"):
        ds.inverse(y[0], "e7")


def test_many_windows_are_opened_at_once_and_take_no_memory(tmp_path):
    """1e5 entities; windows are counted, never listed."""
    n = 100_000
    frame = pd.DataFrame({"e": np.repeat(np.arange(n), 3), "v": np.arange(3.0 * n)})
    frame.to_parquet(tmp_path / "x.parquet")
    build_series(tmp_path / "x.parquet", tmp_path / "out", entity="e", scaler=None)
    SeriesDataset(tmp_path / "out", 2)
    begin = time.process_time()
    ds = SeriesDataset(tmp_path / "out", 2)
    x, _ = ds[77_777]
    seconds = time.process_time() - begin
    assert x[:, 0].tolist() == [233331, 233332] and len(ds) == n
    assert seconds < 1  # what it is, the benchmark says


def test_the_seed_s_code_runs_as_printed(tmp_path):
    if not REAL_DATA.is_dir():
        pytest.skip("no seed")
    (seed,) = (REAL_DATA.parent / "seeds").glob("004*")
    blocks = re.findall(r"```python\n(.*?)```", seed.read_text(), re.DOTALL)
    assert len(blocks) == 1
    names = {"torch": torch}
    exec(blocks[0], names)
    build_series(REAL_DATA / "series/stocknet_prices", tmp_path / "out", time="Date")
    ds = SeriesDataset(tmp_path / "out", window=60, target="Close")
    loader = torch.utils.data.DataLoader(
        ds, batch_size=512, shuffle=True, num_workers=2, worker_init_fn=names["worker_init_fn"],
        multiprocessing_context="fork",
    )  # fmt: skip
    x, y = next(iter(loader))
    assert x.shape == (512, 60, 6) and y.shape == (512, 1)
    assert (pathlib.Path(ds.path) / "all_features.mmap").stat().st_size == 4 * 6 * 53240


def test_numbers_of_windows_may_be_those_of_numpy_and_torch(tmp_path):
    (tmp_path / "a.csv").write_text("v\n" + "".join(f"{i}\n" for i in range(10)))
    build_series(tmp_path / "a.csv", tmp_path / "out", scaler=None)
    data = SeriesDataset(tmp_path / "out", window=2, horizon=1)
    for index in (3, np.int64(3), np.array(3), np.array(3, np.uint8), torch.tensor(3)):
        x, y = data[index]
        assert (x.tolist(), y.tolist()) == ([[3.0], [4.0]], [[5.0]])
    assert data[torch.tensor(-1)][1].tolist() == [[9.0]]
    for index in (np.array(100), torch.tensor(-100)):
        with pytest.raises(errors.OutOfRangeError):
            data[index]
    for index in (np.array(1.0), torch.tensor(True), torch.tensor([1]), "1"):
        with pytest.raises(errors.InvalidTypeError):
            data[index]


@pytest.mark.parametrize("dtype", ["float16", "int64", int, None])
def test_windows_are_of_floats(tmp_path, dtype):
    path, frame = make_series(tmp_path, [12])
    frame.to_parquet(tmp_path / "again.parquet")
    said = 'dtype must be "float32" or "float64", not '
    for use in (
        lambda: SeriesDataset(path, 3, dtype=dtype),
        lambda: build_series(tmp_path / "again.parquet", tmp_path / "no", dtype=dtype, entity="e"),
    ):
        with pytest.raises(errors.CellfeedError, match=said):
            use()


def test_a_scaler_of_scikit_learn_is_told_the_way(tmp_path):
    frame = pd.DataFrame({"v": np.arange(9.0)})
    frame.to_parquet(tmp_path / "rows.parquet")
    model = StandardScaler().fit(frame)
    with pytest.raises(errors.InvalidTypeError, match=r"Scaler\.from_sklearn"):
        build_series(tmp_path / "rows.parquet", tmp_path / "out", scaler=model)
    build_series(tmp_path / "rows.parquet", tmp_path / "out", scaler=Scaler.from_sklearn(model))
    found = SeriesDataset(tmp_path / "out", 9 - 1).arrays([0])[0]
    np.testing.assert_allclose(found[0], model.transform(frame)[:-1], rtol=1e-6)
