"""Batches of windows by name and on a device, as batches of cells."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from lightning.fabric.utilities import move_data_to_device

import cellfeed as cf
from cellfeed import errors
from cellfeed._torch import SeriesTensors
from cellfeed.series import SeriesDataset, build_series

REGIONS = {"a": "north", "b": None, "c": "south", "d": "north"}


@pytest.fixture(scope="module")
def frame():
    rows = [
        {"shop": shop, "t": pd.Timestamp("2024-01-01") + pd.Timedelta(hours=hour),
         "v": 100.0 * place + hour, "w": -float(hour), "region": region, "size": place + 0.5}
        for place, (shop, region) in enumerate(REGIONS.items())
        for hour in range(20)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def directory(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shops")
    frame.to_parquet(folder / "shops.parquet", index=False)
    build_series(
        folder / "shops.parquet", folder / "out", entity="shop", time="t", scaler=None,
        features=["v", "w"], static=["region", "size"], missing="nan",
    )  # fmt: skip
    return folder / "out"


def batches_of(directory, **options):
    ds = SeriesDataset(directory, 4, 2, target="v", **options)
    return list(cf.series.SeriesLoader(ds, cf.BlockShuffling(1), batch_size=16, seed=3))


COVARIATES = {"future": ["w"], "static": ["region", "size"]}


def test_names_give_what_attributes_give(directory):
    for batch in batches_of(directory, **COVARIATES):
        assert batch.keys() == ["x", "y", "future", "static", "region", "size", "entity", "time"]
        for name in ("x", "y", "future", "static"):
            assert batch[name] is getattr(batch, name)
        for name in ("region", "size", "entity", "time"):
            assert batch[name] is batch.obs[name]
        assert "x" in batch and "X" not in batch and "index" not in batch
    plain = batches_of(directory)[0]
    assert plain.keys() == ["x", "y", "entity", "time"]
    for name, near in (("futur", "future"), ("entty", "entity")):
        with pytest.raises(errors.NoSuchKeyError, match=f"{name}.*did you mean '{near}'"):
            batch[name]
    for what in (plain, plain.to("cpu")):
        with pytest.raises(errors.NoSuchKeyError, match="static"):
            what["static"]


def test_some_windows_of_a_batch(directory):
    batch = batches_of(directory, **COVARIATES)[0]
    mask = np.arange(16) % 3 == 0
    for rows in (slice(2, 7), [5, -1, 5], mask, np.array([], dtype=np.int64)):
        some = batch[rows]
        for name in batch.keys():  # noqa: SIM118 - a batch is no mapping
            np.testing.assert_array_equal(some[name], batch[name][rows])
        np.testing.assert_array_equal(some.index, batch.index[rows])
        assert len(some) == len(some.is_padding) == len(some.entities)
    with pytest.raises(errors.InvalidTypeError, match=r"write \[3\]"):
        batch[3]
    with pytest.raises(errors.OutOfRangeError, match="16 windows"):
        batch[[16]]


def test_tensors_on_a_device_are_the_rows_of_the_table(directory, frame):
    for batch in batches_of(directory, **COVARIATES):
        moved = pickle.loads(pickle.dumps(batch)).to("cpu", non_blocking=True)
        assert isinstance(moved, SeriesTensors) and len(moved) == len(batch)
        assert moved.device == torch.device("cpu") and moved.keys() == batch.keys()
        for name in ("x", "y", "future", "static"):
            assert moved[name] is getattr(moved, name)
            np.testing.assert_array_equal(moved[name].numpy(), batch[name])
        for i in range(len(batch)):
            shop = list(REGIONS)[int(moved["entity"][i])]
            rows = frame[frame.shop == shop].reset_index(drop=True)
            last = int(np.flatnonzero(rows.t == pd.Timestamp(int(moved["time"][i])))[0])
            np.testing.assert_array_equal(moved.x[i], rows[["v", "w"]][last - 3 : last + 1])
            np.testing.assert_array_equal(moved.y[i], rows.v[last + 1 : last + 3])
            codes = {"north": 0, "south": 1, None: -1}
            assert int(moved["region"][i]) == codes[REGIONS[shop]]
            assert float(moved["size"][i]) == rows["size"][0]
        assert moved["region"].dtype == moved["time"].dtype == torch.int64
        np.testing.assert_array_equal(moved.index.numpy(), batch.index)
        assert not moved.is_padding.any()
    away = moved.to("meta")
    parts = (away.x, away.y, away.future, away.static, away.index, away["entity"], away["region"])
    assert all(part.device == away.device == torch.device("meta") for part in parts)
    with pytest.raises(errors.InvalidTypeError, match="dtype= of the loader"):
        batch.to(torch.float16)


def test_lightning_and_a_data_loader_move_whole_batches(directory, monkeypatch):
    batch = batches_of(directory)[0]
    moved = move_data_to_device(batch, torch.device("meta"))
    assert isinstance(moved, SeriesTensors) and moved.y.device == torch.device("meta")
    asked = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: asked.append(self) or self)
    pinned = torch.utils.data._utils.pin_memory.pin_memory(batch)
    assert len(asked) == len(("x", "y"))
    np.testing.assert_array_equal(pinned.x.numpy(), batch.x)
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError)):
            batch.cuda()


def test_padding_is_marked_on_the_device_too(directory):
    ds = SeriesDataset(directory, 4, 2)
    loader = cf.series.SeriesLoader(ds, cf.Streaming(), 7, rank=6, world_size=7, remainder="pad")
    marks = [(b.is_padding.tolist(), b.to("cpu").is_padding.tolist()) for b in loader]
    assert any(any(mine) for mine, _ in marks) and all(mine == moved for mine, moved in marks)
