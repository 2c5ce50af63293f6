"""What metadata.json and entities.arrow both say must be the same, whatever the checksums are."""

import json
import re

import pandas as pd
import pyarrow as pa
import pytest
import xxhash

from cellfeed import errors
from cellfeed.series import SeriesDataset, build_series, verify_series


@pytest.fixture
def series(tmp_path):
    frame = pd.DataFrame(
        {"t": [*range(60), *range(40)], "e": ["a"] * 60 + ["b"] * 40, "v": range(100), "s": 0.1}
    )
    frame.loc[60:, "s"] = None
    frame.to_csv(tmp_path / "rows.csv", index=False)
    build_series(
        tmp_path / "rows.csv", tmp_path / "out",
        time="t", entity="e", features=["v"], static=["s"], missing="nan",
    )  # fmt: skip
    assert verify_series(tmp_path / "out")
    return tmp_path / "out"


def seal(path, text):
    rest = text.split("\n", 2)[2].encode()
    checksum = xxhash.xxh3_64_hexdigest(rest)
    path.write_bytes(b'{\n  "checksum": "' + checksum.encode() + b'",\n' + rest)


def change(series, before, after):
    path = series / "metadata.json"
    text = path.read_text()
    assert text.count(before) == 1
    seal(path, text.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"rows":[[60,100]]', '"rows":[[50,5000]]', "entity 1 is .*5000.*entities.arrow says"),
        ('"rows":[[0,60]]', '"rows":[[0,59]]', "entity 0 is .*59.*entities.arrow says .*60"),
        ('"rows":[[0,60]]', '"rows":[]', "entity 0 is "),
        ('"name":"b"', '"name":"a2"', "entity 1 is .*a2.*entities.arrow says"),
        ('"last_time":"59"', '"last_time":"58"', "entity 0 is .*58"),
        ('{"s":0.1}', '{"s":0.2}', "entity 0 is .*0.2"),
        ('{"s":null}', '{"s":0.1}', "entity 1 is .*0.1"),
    ],
)
def test_entities_that_are_not_those_of_the_table_are_damage(series, before, after, said):
    change(series, before, after)
    with pytest.raises(errors.CorruptDataError, match=said) as raised:
        verify_series(series)
    assert [damage["file"] for damage in raised.value.damages] == ["metadata.json"]


def test_entities_that_the_table_has_not_are_damage(series):
    path = series / "metadata.json"
    text = path.read_text()
    line = next(line for line in text.splitlines() if '"name":"b"' in line)
    seal(path, text.replace(line, line + ",\n" + line))
    with pytest.raises(errors.CorruptDataError, match=r"lists 3 entities where .* has 2"):
        verify_series(series)
    seal(path, text.replace(",\n" + line, ""))
    with pytest.raises(errors.CorruptDataError, match=r"lists 1 entities where .* has 2"):
        verify_series(series)


def test_another_number_of_entities_is_damage_and_not_opened(series):
    change(series, '"n_entities": 2', '"n_entities": 3')
    said = "entities.arrow.*does not hold the entities that the metadata say"
    with pytest.raises(errors.CorruptDataError, match=said):
        verify_series(series)
    with pytest.raises(errors.CorruptDataError, match=said):
        SeriesDataset(series, window=2)


@pytest.mark.parametrize("end", [5000, 101, 99])
def test_rows_outside_the_file_are_not_opened(series, end):
    """Both say so, and every checksum is right."""
    table = pa.ipc.open_file(series / "entities.arrow").read_all()
    ends = pa.array([[60], [end]], table.schema.field("ends").type)
    table = table.set_column(table.schema.get_field_index("ends"), "ends", ends)
    with pa.ipc.new_file(series / "entities.arrow", table.schema) as file:
        file.write_batch(table.to_batches()[0])
    about = json.loads((series / "metadata.json").read_text())
    was = next(file for file in about["files"] if file["name"] == "entities.arrow")
    data = (series / "entities.arrow").read_bytes()
    change(series, was["checksum"], xxhash.xxh3_64_hexdigest(data))
    if len(data) != was["bytes"]:
        change(series, f'"bytes": {was["bytes"]},', f'"bytes": {len(data)},')
    change(series, "[[60,100]]", f"[[60,{end}]]")
    for use in (verify_series, lambda path: SeriesDataset(path, window=2)):
        with pytest.raises(errors.CorruptDataError, match=re.escape("entities.arrow")):
            use(series)


@pytest.mark.parametrize("count", ["-1", "1.5", '"100"', "null", "1e3"])
def test_a_number_of_rows_that_is_none_names_the_file(series, count):
    change(series, '"n_rows": 100', f'"n_rows": {count}')
    for use in (verify_series, lambda path: SeriesDataset(path, window=2)):
        with pytest.raises(errors.CorruptDataError, match=r"metadata.json.*'n_rows' is no count"):
            use(series)
