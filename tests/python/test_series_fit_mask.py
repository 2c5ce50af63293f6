"""A scaler fitted on the rows that a mask marks: scikit-learn's statistics, and no leak."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import xxhash
from program import run
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from cellfeed import errors
from cellfeed.series import Scaler, SeriesDataset, append_series, build_series

MODELS = {"standard": StandardScaler, "minmax": MinMaxScaler, "robust": RobustScaler}


def rows(n=60, n_entities=4):
    """Later rows are far larger: a scaler that saw them would tell."""
    random = np.random.default_rng(7)
    frames = []
    for e in range(n_entities):
        frame = pd.DataFrame(random.normal(e, 1 + e, (n, 2)), columns=["v", "w"])
        frame.loc[n * 2 // 3 :, "v"] += 1e3
        frame["entity"], frame["t"] = f"e{e}", np.arange(n) + e
        frame["is_train"] = (frame.t < n * 2 // 3) & (random.random(n) < 0.8)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def build(frame, out, kind="parquet", **options):
    path = out.parent / f"{out.name}.{kind}"
    frame.to_parquet(path, index=False) if kind == "parquet" else frame.to_csv(path, index=False)
    options = {"entity": "entity", "time": "t", "fit_mask": "is_train"} | options
    return build_series(path, out, **options)


@pytest.mark.parametrize("flags", ["bool", "int8", "text"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("scaler", MODELS)
def test_statistics_are_of_the_rows_that_are_marked(tmp_path, scaler, kind, flags):
    frame = rows()
    marked = frame[frame.is_train][["v", "w"]]
    stored = frame.assign(is_train=frame.is_train.astype(flags) if flags != "text" else
                          frame.is_train.map({True: "true", False: "FALSE"}))  # fmt: skip
    if flags == "text" and kind == "parquet":
        with pytest.raises(errors.CorruptDataError, match="'is_train'"):
            build(stored, tmp_path / "out", kind, scaler=scaler)
        return
    # In any order, so that rows are sorted.
    build(stored.sample(frac=1, random_state=0), tmp_path / "out", kind, scaler=scaler)
    model = MODELS[scaler]().fit(marked)
    ours = Scaler.load(tmp_path / "out")
    assert ours.features == ["v", "w"] and ours.fit_mask == "is_train"
    np.testing.assert_allclose(ours.to_sklearn().scale_, model.scale_, rtol=1e-9)
    ds = SeriesDataset(tmp_path / "out", 5, 1, dtype="float64", entities="e0")
    whole = ds.scaler.inverse_transform(ds.arrays([0])[0])
    np.testing.assert_allclose(whole[0], frame[["v", "w"]][:5], rtol=1e-5, atol=1e-5)
    x = ds.arrays([0])[0][0]
    np.testing.assert_allclose(x, model.transform(frame[["v", "w"]][:5]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scaler", MODELS)
def test_of_each_entity_and_until_a_time(tmp_path, scaler):
    frame = rows()
    build(frame, tmp_path / "out", scaler=scaler, scale="entity", fit_until=30)
    seen = frame[frame.is_train & (frame.t < 30)]
    ours = Scaler.load(tmp_path / "out")
    for name, group in seen.groupby("entity"):
        model = MODELS[scaler]().fit(group[["v", "w"]])
        np.testing.assert_allclose(ours.to_sklearn(name).scale_, model.scale_, rtol=1e-9)
    about = json.loads((tmp_path / "out/metadata.json").read_text())
    assert about["fit_last_time"] == str(seen.t.max()) and about["fit_mask"] == "is_train"


@pytest.mark.parametrize("duplicates", ["first", "last", "mean"])
@pytest.mark.parametrize("missing", ["drop", "ffill", "nan"])
def test_with_repeats_and_gaps(tmp_path, duplicates, missing):
    frame = rows()
    frame = pd.concat(
        [frame, frame[::7].assign(v=lambda f: f.v + 1, is_train=lambda f: ~f.is_train)]
    )
    frame.loc[frame.index % 11 == 3, "w"] = np.nan
    build(frame, tmp_path / "out", duplicates=duplicates, missing=missing)
    grouped = frame.groupby(["entity", "t"], sort=False)
    if duplicates == "mean":
        merged = grouped[["v", "w"]].mean().assign(is_train=grouped.is_train.all()).reset_index()
    else:
        merged = frame.drop_duplicates(["entity", "t"], keep=duplicates)
    merged = merged.sort_values(["entity", "t"])
    if missing == "ffill":
        merged["w"] = merged.groupby("entity").w.ffill()
    if missing != "nan":
        merged = merged.dropna()
    model = StandardScaler().fit(merged[merged.is_train][["v", "w"]])
    ours = Scaler.load(tmp_path / "out").to_sklearn()
    np.testing.assert_allclose(ours.mean_, model.mean_, rtol=1e-9)
    np.testing.assert_allclose(ours.scale_, model.scale_, rtol=1e-9)


def test_a_split_by_time_warns_where_marked_rows_are_of_later_parts(tmp_path):
    frame = rows()
    build(frame, tmp_path / "out")
    ds = SeriesDataset(tmp_path / "out", 3, 1)
    last = int(frame[frame.is_train].t.max())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.split(dates={"train": last + 1, "test": None})
    with pytest.warns(UserWarning, match=f"looked at rows until {last}"):
        ds.split(dates={"train": last, "test": None})
    build(frame, tmp_path / "all", fit_mask=None, features=["v", "w"])
    with pytest.warns(UserWarning, match="fit_mask"):
        SeriesDataset(tmp_path / "all", 3, 1).split(dates={"train": last + 1, "test": None})


@pytest.mark.parametrize(
    "change, options, message",
    [
        ({"is_train": 2}, {}, "a mask is true or false"),
        ({"is_train": np.nan}, {"missing": "nan"}, "this is missing"),
        ({"is_train": False}, {}, "no value in any row that 'is_train' marks"),
        ({}, {"fit_mask": "is_trian"}, "has no column 'is_trian'"),
        ({}, {"fit_mask": ""}, "fit_mask must be the name"),
        ({}, {"fit_mask": "t"}, "'t' is a mask"),
        ({}, {"features": ["v", "is_train"]}, "'is_train' is a mask"),
        ({}, {"scaler": None}, "of a scaler that is fitted"),
    ],
)
def test_masks_that_cannot_be(tmp_path, change, options, message):
    with pytest.raises(errors.CellfeedError, match=message):
        build(rows().assign(**change), tmp_path / "out", **options)


def test_appended_files_need_a_mask_where_entities_are_fitted(tmp_path):
    frame = rows()
    known, new = frame[frame.entity != "e3"], frame[frame.entity == "e3"]
    later = known.assign(t=known.t + 100)[["entity", "t", "v", "w"]]
    later.to_parquet(tmp_path / "later.parquet", index=False)
    new.to_parquet(tmp_path / "new.parquet")
    build(known, tmp_path / "global")
    with pytest.warns(UserWarning, match="not what the scaler was fitted on"):
        append_series(tmp_path / "later.parquet", tmp_path / "global")
    with pytest.warns(UserWarning, match="not what the scaler was fitted on"):
        append_series(tmp_path / "new.parquet", tmp_path / "global")
    build(known, tmp_path / "own", scale="entity")
    with pytest.raises(errors.NoSuchKeyError, match="is_train"):
        append_series(tmp_path / "later.parquet", tmp_path / "own")
    append_series(tmp_path / "new.parquet", tmp_path / "own")
    model = StandardScaler().fit(new[new.is_train][["v", "w"]])
    np.testing.assert_allclose(
        Scaler.load(tmp_path / "own").to_sklearn("e3").scale_, model.scale_, rtol=1e-9
    )


def test_the_program_takes_a_mask(tmp_path):
    rows().to_csv(tmp_path / "rows.csv", index=False)
    out = tmp_path / "out"
    run("series", "build", tmp_path / "rows.csv", "--output-dir", out, "--entity", "entity",
        "--time", "t", "--fit-mask", "is_train", "--quiet")  # fmt: skip
    assert "of rows that 'is_train' marks" in run("series", "info", out)
    build(rows(), tmp_path / "python", "csv")
    assert Scaler.load(out) == Scaler.load(tmp_path / "python")


def test_metadata_of_another_version_or_without_a_key_is_refused(tmp_path):
    build(rows(), tmp_path / "out")
    path = tmp_path / "out" / "metadata.json"
    first, _, rest = path.read_bytes().split(b"\n", 2)

    def write(changed: bytes) -> None:
        checksum = xxhash.xxh3_64_hexdigest(changed).encode()
        path.write_bytes(b"\n".join([first, b'  "checksum": "' + checksum + b'",', changed]))

    write(rest)
    SeriesDataset(tmp_path / "out", window=3)
    for key in (b"fit_mask", b"fit_last_time", b"static"):
        write(rest.replace(b'"' + key + b'"', b'"other"'))
        with pytest.raises(errors.CorruptDataError, match=key.decode()):
            SeriesDataset(tmp_path / "out", window=3)
    write(rest.replace(b'"version": 3', b'"version": 2'))
    with pytest.raises(errors.UnsupportedError, match="of version 2, and this cellfeed reads 3"):
        SeriesDataset(tmp_path / "out", window=3)
