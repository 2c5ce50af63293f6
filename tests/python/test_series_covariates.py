"""What is known ahead, and what an entity has once: beside windows, against pandas."""

import json
import pathlib
import pickle
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from program import run
from test_series_windows import make_series, warnings_of_short_entities, windows_by_hand
from tiers import examples

import cellfeed as cf
from cellfeed import errors
from cellfeed.series import (
    Differences,
    SeriesDataset,
    WindowNorm,
    append_series,
    build_series,
    verify_series,
)

SECTORS = {"A": "oil", "B": "banks", "C": "oil"}
PLACES = {"A": 1.5, "B": -3.25, "C": 1e6}


def shops(n=40, **others):
    """Rows of three entities, with two columns that are theirs."""
    frames = []
    for e, name in enumerate(SECTORS):
        frame = pd.DataFrame({"entity": name, "t": np.arange(n), "v": np.arange(n) + 100.0 * e})
        frame["w"] = -frame.v
        frame["sector"], frame["place"] = SECTORS[name], PLACES[name]
        frames.append(frame)
    return pd.concat(frames, ignore_index=True).assign(**others)


def build(frame, out, kind="parquet", **options):
    path = out.parent / f"{out.name}.{kind}"
    frame.to_parquet(path, index=False) if kind == "parquet" else frame.to_csv(path, index=False)
    options = {"scaler": None, "static": ["sector", "place"]} | options
    return build_series(path, out, entity="entity", time="t", **options)


@pytest.fixture
def directory(tmp_path):
    build(shops(), tmp_path / "out")
    return tmp_path / "out"


@given(st.data())
@examples(40)
def test_what_is_known_ahead_is_that_of_the_rows_after_the_window(tmp_path_factory, data):
    lengths = data.draw(st.lists(st.integers(8, 25), min_size=1, max_size=4))
    window, horizon = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    stride = data.draw(st.integers(1, 4))
    path, frame = make_series(tmp_path_factory.mktemp("s"), lengths)
    columns = data.draw(st.sampled_from([["f2"], ["f2", "f0"], ["f0", "f2"]]))
    ds = SeriesDataset(path, window, horizon, stride, "f1", dtype="float64", future=columns)
    expected = windows_by_hand(frame, window, horizon, stride)
    rows = dict(list(frame.groupby("e", sort=False)))
    numbers = data.draw(st.permutations(range(len(expected))))[:10]
    x, y = ds.arrays(numbers)
    assert set(x) == {"x", "future"} and ds.future == columns
    for at, i in enumerate(numbers):
        values = rows[expected[i][0]].iloc[expected[i][1]]
        np.testing.assert_array_equal(x["x"][at], values[["f0", "f1", "f2"]].to_numpy()[:window])
        np.testing.assert_array_equal(x["future"][at], values[columns].to_numpy()[window:])
        np.testing.assert_array_equal(y[at], values["f1"].to_numpy()[window:])


def test_transforms_scale_what_is_known_ahead_by_the_window(tmp_path):
    path, _ = make_series(tmp_path, [30, 30])
    transforms = [Differences("f0"), WindowNorm("zscore")]
    plain = SeriesDataset(path, 5, 2, target="f1", dtype="float64")
    ds = SeriesDataset(path, 5, 2, target="f1", dtype="float64", future="f2", transforms=transforms)
    x, _ = ds.arrays([0, 7])
    before = plain.arrays([1, 8])[0][..., 2]
    after = plain.arrays([6, 13])[0][:, :2, 2]
    mean, deviation = before.mean(1, keepdims=True), before.std(1, keepdims=True)
    np.testing.assert_allclose(x["future"][..., 0], (after - mean) / deviation, rtol=1e-9)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_static_columns_go_with_their_entity(tmp_path, kind):
    build(shops(), tmp_path / "out", kind)
    ds = SeriesDataset(tmp_path / "out", 4, 2, target="v", static=["place", "sector"], future="w")
    assert ds.features == ["v", "w"] and ds.categories == {"sector": ["oil", "banks"]}
    x, y = ds[len(ds) // 2]
    assert ds.entity_of(len(ds) // 2) == "B"
    assert x["static"].dtype == torch.float32 and x["static"].tolist() == [-3.25, 1.0]
    assert x["future"].shape == (2, 1) and y.tolist() == (-x["future"][:, 0]).tolist()
    obs = ds.obs_of(slice(None))
    names = [ds.entity_of(i) for i in range(len(ds))]
    assert obs["sector"].tolist() == [SECTORS[name] for name in names]
    assert obs["place"].tolist() == [PLACES[name] for name in names]
    assert list(ds.obs) == ["place", "sector", "entity"]
    verify_series(tmp_path / "out")
    about = json.loads((tmp_path / "out/metadata.json").read_text())
    assert about["static"] == ["sector", "place"]
    assert [e["static"] for e in about["entities"]] == [
        {"sector": SECTORS[name], "place": PLACES[name]} for name in SECTORS
    ]
    # A part keeps the codes of all entities.
    part = SeriesDataset(tmp_path / "out", 4, entities=["B"], static="sector")
    assert part.categories == {"sector": ["oil", "banks"]}
    assert part[0][0]["static"].tolist() == [1.0]
    parts = ds.split(by="entity", fractions={"a": 0.5, "b": 0.5})
    for part in parts.values():
        for i in (0, -1):
            assert part[i][0]["static"][0] == PLACES[part.entity_of(i)]


@pytest.mark.slow
def test_in_the_loader_and_in_workers(directory):
    ds = SeriesDataset(directory, 4, 2, target="v", static=["sector", "place"], future=["w"])
    for strategy in (cf.BlockShuffling(1), cf.GroupSampling("sector")):
        for batch in cf.series.SeriesLoader(ds, strategy, batch_size=16, seed=1):
            x, y = ds.arrays(batch.index)
            np.testing.assert_array_equal(batch.x, x["x"])
            np.testing.assert_array_equal(batch.future, x["future"])
            np.testing.assert_array_equal(batch.static, x["static"])
            np.testing.assert_array_equal(batch.y, y)
            given, _ = batch.to_torch()
            assert {k: v.shape for k, v in given.items()} == {k: v.shape for k, v in x.items()}
            sectors = batch.obs["sector"]
            assert sectors.tolist() == [SECTORS[name] for name in batch.entities]
            assert isinstance(strategy, cf.BlockShuffling) or len(set(sectors)) == 1
    plain = next(
        iter(cf.series.SeriesLoader(SeriesDataset(directory, 4, 2), cf.Streaming(), batch_size=4))
    )
    assert plain.future is None and plain.static is None
    again = pickle.loads(pickle.dumps(ds))
    for how in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(
            again, batch_size=32, num_workers=2, multiprocessing_context=how
        )
        for number, (x, y) in enumerate(loader):
            expected, target = ds.batch(np.arange(32 * number, min(len(ds), 32 * number + 32)))
            assert x.keys() == expected.keys() and torch.equal(y, target)
            assert all(torch.equal(x[name], expected[name]) for name in x)


def test_a_transform_of_windows_gets_the_dict(directory):
    ds = SeriesDataset(
        directory, 4, 2, static="place", transform=lambda x, y: (x["static"] * 2, y.sum())
    )
    assert ds[0][0].tolist() == [3.0]
    assert [pair[0].tolist() for pair in ds.__getitems__([0, len(ds) - 1])] == [[3.0], [2e6]]


WRONG = {
    "a future that is not there": ({"future": "hour"}, errors.NoSuchKeyError, "future: no feature"),
    "a future near a name": ({"future": ["W"]}, errors.NoSuchKeyError, "did you mean 'w'"),
    "no future": ({"future": []}, errors.InvalidArgumentError, "future must name"),
    "the target": (
        {"future": ["v"], "target": "v"}, errors.InvalidArgumentError, "'v' is a target"
    ),
    "all": ({"future": ["v", "w"]}, errors.InvalidArgumentError, "none is a target"),
    "a number": ({"future": 3}, errors.InvalidTypeError, "future"),
    "a static that is not there": (
        {"static": "sectr"}, errors.NoSuchKeyError, "did you mean 'sector'"
    ),
    "a static that is a feature": ({"static": ["v"]}, errors.NoSuchKeyError, "static: no static"),
    "twice": ({"static": ["sector"] * 2}, errors.InvalidArgumentError, "each once"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_names(directory, case):
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        SeriesDataset(directory, 4, **options)


def test_without_a_target_it_is_what_is_not_known_ahead(directory):
    assert SeriesDataset(directory, 4, future="w").target == ["v"]


def test_a_series_without_static_columns_says_so(tmp_path):
    path, _ = make_series(tmp_path, [20])
    with pytest.raises(errors.NoSuchKeyError, match="was built without"):
        SeriesDataset(path, 4, static="sector")


def set_value(frame, row, column, value):
    frame = frame.astype({column: object}) if isinstance(value, str) else frame.copy()
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_an_entity_with_two_values_is_refused(tmp_path, kind):
    wrong = set_value(shops(), 50, "place", 7.0)
    with pytest.raises(errors.CorruptDataError, match="'place' of entity 'B' is 7 where it was -3"):
        build(wrong, tmp_path / "a", kind)
    wrong = set_value(shops(), 39, "sector", "coal")
    with pytest.raises(errors.CorruptDataError, match="'sector' of entity 'A' is 'coal'"):
        build(wrong, tmp_path / "b", kind)


def test_files_that_do_not_agree_of_an_entity(tmp_path):
    shops(20).to_parquet(tmp_path / "a.parquet")
    later = shops(20, t=np.tile(np.arange(20, 40), 3))
    set_value(later, slice(0, 19), "sector", "coal").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(errors.CorruptDataError, match="'sector' of entity 'A' is 'coal'"):
        build_series(
            [tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "out", entity="entity",
            time="t", static=["sector", "place"],
        )  # fmt: skip
    numbers = shops(20, sector=1.0)
    numbers.loc[:19, "entity"] = "D"
    numbers[:20].to_parquet(tmp_path / "b.parquet")
    with pytest.raises(errors.CorruptDataError, match="a number of entity 'D' and a text"):
        build_series(
            [tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "out2", entity="entity",
            time="t", static=["sector"], features=["v"],
        )  # fmt: skip


def test_missing_values_are_passed_over_unless_there_is_no_other(tmp_path):
    frame = shops()
    frame.loc[1:30, "sector"] = None
    frame.loc[40:60, "place"] = np.nan
    build(frame, tmp_path / "some")
    assert SeriesDataset(tmp_path / "some", 4, static="sector").categories["sector"][0] == "oil"
    frame.loc[40:79, ["place", "sector"]] = [np.nan, None]
    with pytest.raises(errors.CorruptDataError, match="'B' has no value of the static column 'sec"):
        build(frame, tmp_path / "none")
    for kind in ("parquet", "csv"):
        build(frame, tmp_path / kind, kind, missing="nan")
        ds = SeriesDataset(tmp_path / kind, 4, static=["sector", "place"], entities=["B", "C"])
        assert ds[0][0]["static"].isnan().all() and ds[-1][0]["static"].tolist() == [0, 1e6]
        assert ds.obs_of([0])["sector"].tolist() == [None]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"static": ["sector", "sector"]}, "named twice"),
        ({"static": ["v"], "features": ["v", "w"]}, "'v' is static"),
        ({"static": ["t"]}, "'t' is static"),
        ({"static": ["v"], "target": "v"}, "'v' is static"),
        ({"static": ["sectors"]}, "has no column 'sectors'"),
    ],
)
def test_wrong_static_columns_of_a_build(tmp_path, options, message):
    with pytest.raises(errors.CellfeedError, match=message):
        build(shops(), tmp_path / "out", **options)


def test_numbers_beyond_the_dtype(tmp_path):
    build(shops(place=1e300), tmp_path / "out")
    with pytest.raises(errors.PrecisionError, match="'place'"):
        SeriesDataset(tmp_path / "out", 4, static="place")
    assert SeriesDataset(tmp_path / "out", 4, static="place", dtype="float64")[0][0]["static"] == (
        1e300
    )


def test_rows_that_are_appended_change_no_code(directory, tmp_path):
    more = shops(5, t=np.tile(np.arange(40, 45), 3))
    more.loc[more.entity == "A", ["entity", "sector"]] = ["0", "air"]
    more.to_parquet(tmp_path / "more.parquet")
    append_series(tmp_path / "more.parquet", directory)
    verify_series(directory)
    ds = SeriesDataset(directory, 3, static=["sector", "place"])
    assert ds.categories["sector"] == ["oil", "banks", "air"]
    assert ds.entity_of(-1) == "0" and ds[-1][0]["static"].tolist() == [2.0, 1.5]
    before = {p.name: p.read_bytes() for p in directory.iterdir()}
    more = shops(5, t=np.tile(np.arange(50, 55), 3), place=0.0)
    more.to_parquet(tmp_path / "other.parquet")
    with pytest.raises(errors.CorruptDataError, match="'place' of entity 'A' is 0 where it was 1"):
        append_series(tmp_path / "other.parquet", directory)
    assert {p.name: p.read_bytes() for p in directory.iterdir()} == before


def test_the_bytes_do_not_depend_on_threads_budget_or_a_resumed_build(tmp_path):
    frame = shops(3000)
    for part, rows in enumerate(np.array_split(frame.index, 5)):
        frame.loc[rows].to_parquet(tmp_path / f"{part}.parquet")
    made = []
    for number, options in enumerate([{}, {"threads": 1}, {"memory_budget": "32MB"}]):
        out = tmp_path / f"out{number}"
        build_series(
            tmp_path / "*.parquet", out, entity="entity", time="t", static=["place", "sector"],
            **options,
        )  # fmt: skip
        made.append({p.name: p.read_bytes() for p in out.iterdir()})
    assert made[0] == made[1] == made[2]


def test_the_program_builds_and_tells_them(tmp_path):
    shops().to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "out"
    run("series", "build", tmp_path / "rows.csv", "--output-dir", out, "--entity", "entity",
        "--time", "t", "--static", "sector,place", "--quiet")  # fmt: skip
    assert "static      sector, place" in run("series", "info", out)
    assert json.loads(run("series", "info", out, "--json"))["static"] == ["sector", "place"]
    before = SeriesDataset(out, 4, static="sector")[0][0]["static"]
    assert before.tolist() == [0.0]
    # A byte of the table of entities that is another is found.
    table = pathlib.Path(out, "entities.arrow")
    damaged = bytearray(table.read_bytes())
    damaged[damaged.rindex(b"oil")] ^= 1
    shutil.copytree(out, tmp_path / "damaged")
    (tmp_path / "damaged/entities.arrow").write_bytes(damaged)
    with pytest.raises(errors.CorruptDataError, match="checksum"):
        SeriesDataset(tmp_path / "damaged", 4, static="sector")


def test_short_entities_keep_their_place(tmp_path):
    frame = shops()
    frame = frame[(frame.entity != "A") | (frame.t < 3)]
    build(frame, tmp_path / "out")
    with warnings_of_short_entities():
        ds = SeriesDataset(tmp_path / "out", 4, static=["place"])
    assert {x["static"].item() for x, _ in ds} == {PLACES["B"], PLACES["C"]}


def test_a_static_column_of_text_that_begins_like_numbers_is_named(tmp_path):
    n = 3000
    frame = pd.DataFrame({"entity": np.arange(2).repeat(n // 2), "t": np.arange(n), "v": 1.0})
    frame["size"] = np.where(frame.entity == 0, "17", "17b")
    with pytest.raises(
        errors.CorruptDataError, match=r"line 1502, column 'size': is no number"
    ) as e:
        build(frame, tmp_path / "out", "csv", static="size", features="v")
    assert "'17b'" in str(e.value) and "true" not in str(e.value)
    with pytest.raises(errors.CorruptDataError, match="'size': is infinite"):
        build(
            frame.assign(size=np.where(frame.entity == 0, 1.0, np.inf)), tmp_path / "inf", "csv",
            static="size", features="v",
        )  # fmt: skip
    build(frame, tmp_path / "text", static="size", features="v")
    ds = SeriesDataset(tmp_path / "text", 4, static="size")
    assert ds.categories == {"size": ["17", "17b"]}
