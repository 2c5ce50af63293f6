"""docs/format/record.md, its numpy reader and (by shared vectors) the C++ encoder agree."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

decode_record = runpy.run_path(Path(__file__).with_name("packed_record_reader.py"))["decode_record"]
VECTORS = Path(__file__).parents[2] / "src/cellfeed/format/shard/record/record_test_vectors.inc"


def _vectors():
    text = re.sub(r'"\s+"', "", VECTORS.read_text())
    for name, dtype, *fields in re.findall(
        r'RECORD\(\s*(\w+),\s+(\w+),\s+"(\w*)",\s+"(\w*)",\s+"(\w*)"\)', text
    ):
        indices, values, record = map(bytes.fromhex, fields)
        yield pytest.param(dtype, np.frombuffer(indices, "<i4"), values, record, id=name)


@pytest.mark.parametrize(("dtype", "indices", "values", "record"), list(_vectors()))
def test_vectors_decode_bit_by_bit(dtype, indices, values, record):
    got_indices, got_values = decode_record(record, len(indices), dtype)
    np.testing.assert_array_equal(got_indices, indices)
    assert got_values.astype(dtype).tobytes() == values


def test_vectors_hold_every_kind():
    assert {p.values[3][0] & 15 for p in _vectors()} == {0, 1, 2, 3, 4}
    assert any(p.values[3][0] & 16 for p in _vectors())


@pytest.mark.parametrize(("dtype", "indices", "values", "record"), list(_vectors()))
def test_short_long_and_miscounted_records_are_refused(dtype, indices, values, record):
    for bad, nnz in (
        (record[:-1], len(indices)),
        (record + b"\0", len(indices)),
        (record, len(indices) + 1),
    ):
        with pytest.raises((ValueError, IndexError)):
            decode_record(bad, nnz, dtype)
