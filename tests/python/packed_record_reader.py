"""A plain numpy reader of packed records, written from docs/format/record.md and nothing else."""

import numpy as np

BLOCK = 128


def _fields(data: bytes, count: int, bits: int) -> tuple[np.ndarray, bytes]:
    """Take `count` fields of `bits` bits off the front of `data`; return them and what is left."""
    size = (count * bits + 7) // 8
    if size > len(data):
        raise ValueError("record ends inside a block")
    flat = np.unpackbits(np.frombuffer(data[:size], np.uint8), bitorder="little")[: count * bits]
    weights = np.left_shift(np.uint64(1), np.arange(bits, dtype=np.uint64))
    return flat.reshape(count, bits).astype(np.uint64) @ weights, data[size:]


def _stream(data: bytes, entries: int, word: int) -> tuple[np.ndarray, bytes]:
    """Take one stream of one block off the front of `data`."""
    base, high, exceptions = word & 31, word >> 5 & 31, word >> 10
    if base + high > 31 or exceptions > entries:
        raise ValueError("impossible widths")
    numbers, data = _fields(data, entries, base)
    patches, data = _fields(data, exceptions, 7 + high)
    positions = (patches & np.uint64(127)).astype(np.int64)
    if np.any(np.diff(positions) <= 0) or np.any(positions >= entries):
        raise ValueError("impossible positions")
    numbers[positions] += ((patches >> np.uint64(7)) + np.uint64(1)) << np.uint64(base)
    if np.any(numbers >= 2**31):
        raise ValueError("number too large")
    return numbers.astype(np.int64), data


def decode_record(record: bytes, nnz: int, stored_dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return the column indices (int64) and values (stored_dtype) of one record.

    Raises ValueError when the bytes are not a record of nnz entries.
    """
    record, dtype = bytes(record), np.dtype(stored_dtype)
    if len(record) < 3:
        raise ValueError("record ends inside its header")
    kind, zero_based, data = record[0] & 15, record[0] >> 4, record[3:]
    if kind > 4 or zero_based > 1 or int.from_bytes(record[1:3], "little") != nnz % 65536:
        raise ValueError("not a record of that size")
    if kind in (1, 2):
        factor, data = np.frombuffer(data[: dtype.itemsize], dtype)[0], data[dtype.itemsize :]
    if kind == 3:
        size, data = int.from_bytes(data[:4], "little"), data[4:]
        dictionary = np.frombuffer(data[: size * dtype.itemsize], dtype)
        data = data[size * dtype.itemsize :]
    streams = 1 if kind == 4 else 2
    blocks = -(-nnz // BLOCK)
    words = np.frombuffer(data[: 2 * streams * blocks], "<u2").astype(int).reshape(blocks, streams)
    data = data[2 * streams * blocks :]
    numbers = [[np.empty(0, np.int64)] for _ in range(streams)]
    for block in range(blocks):
        for stream in range(streams):
            entries = min(BLOCK, nnz - block * BLOCK)
            taken, data = _stream(data, entries, words[block, stream])
            numbers[stream].append(taken)
    indices = np.cumsum(np.concatenate(numbers[0]) + 1) - 1
    if kind == 4:
        if len(data) != nnz * dtype.itemsize:
            raise ValueError("raw values are not all there")
        return indices, np.frombuffer(data, dtype)
    if data:
        raise ValueError("bytes are left over")
    codes = np.concatenate(numbers[1])
    if kind == 3:
        return indices, dictionary[codes]
    counts = (codes + (0 if zero_based else 1)).astype(dtype)
    return indices, counts * factor if kind == 1 else counts / factor if kind == 2 else counts
