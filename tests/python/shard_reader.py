"""A plain numpy and pyarrow reader of shard directories, written from docs/format/shard.md.

Run it on a directory to print a summary: python tests/python/shard_reader.py DIR
"""

import json
import pathlib
import runpy
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

decode_record = runpy.run_path(str(pathlib.Path(__file__).with_name("packed_record_reader.py")))[
    "decode_record"
]
DTYPES = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"]
HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("header_bytes", "<u4"),
        ("n_cells", "<u8"),
        ("n_genes", "<u8"),
        ("nnz", "<u8"),
        ("dtype", "<u4"),
        ("flags", "<u4"),
        ("shard", "<u4"),
        ("zero", "<u4"),
        ("n_segments", "<u8"),
        ("segment_bytes", "<u8"),
        ("records_offset", "<u8"),
        ("records_bytes", "<u8"),
        ("row_table_offset", "<u8"),
        ("row_table_checksum", "<u8"),
        ("segment_table_offset", "<u8"),
        ("segment_table_checksum", "<u8"),
        ("file_bytes", "<u8"),
        ("zeros", "V120"),
        ("checksum", "<u8"),
    ]
)


def record_checksum(record, row, nnz, shard):
    """Return the checksum that lies behind a record."""
    mixed = xxhash.xxh3_64_intdigest(record) ^ (row * 0x9E3779B97F4A7C15)
    mixed ^= (len(record) * 0xC2B2AE3D27D4EB4F) ^ (nnz * 0x165667B19E3779F9)
    return (mixed ^ (shard * 0x85EBCA77C2B2AE63)) & 0xFFFFFFFF


def check_dense(path, n_genes):
    """Raise ValueError unless every block of a dense file has its checksum."""
    with open(path, "rb") as file:
        values, checksums = np.load(file), np.load(file)
        if file.read():
            raise ValueError(f"{path} has bytes behind its end")
    rows = max(1, 16384 // max(1, 4 * n_genes))
    found = [
        xxhash.xxh3_64_intdigest(values[begin : begin + rows].tobytes())
        for begin in range(0, len(values), rows)
    ]
    if found != checksums.tolist():
        raise ValueError(f"{path} is damaged")
    return xxhash.xxh3_64_hexdigest(checksums.tobytes())


class ShardDirectory:
    """All shards of a directory as one table of cells.

    `row(cell)` gives the gene indices and values of a cell, `obs(cell)` its obs columns as a dict,
    `genes` the gene table.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.manifest = json.loads((self.path / "shard_metadata.json").read_text())
        if (self.manifest["format"], self.manifest["version"]) != ("cellfeed-shards", 7):
            raise ValueError("not a shard directory of version 7")
        self.genes = pq.read_table(self.path / self.manifest["genes"]["file"])
        self.first_cells = [shard["first_cell"] for shard in self.manifest["shards"]]
        self._open = {}

    def __len__(self):
        return self.manifest["n_cells"]

    def _number(self, cell):
        return int(np.searchsorted(self.first_cells, cell, side="right")) - 1

    def _shard(self, cell):
        number = self._number(cell)
        if number not in self._open:
            shard = self.manifest["shards"][number]
            opened = [pa.memory_map(str(self.path / shard["fixed_obs"]["file"]))]
            opened[0] = pa.ipc.open_file(opened[0]).get_batch(0)
            opened.append(pq.read_table(self.path / shard["obs"]["file"]))
            self._open[number] = opened
        return cell - self.first_cells[number], *self._open[number]

    def _matrix(self, cell, name):
        number = self._number(cell)
        if (number, name) not in self._open:
            entry = self.manifest["shards"][number]
            layout, n_columns = self.manifest["layout"], self.manifest["n_genes"]
            if name != "X":
                names = [matrix["name"] for matrix in self.manifest["matrices"]]
                matrix = self.manifest["matrices"][names.index(name)]
                entry = entry["matrices"][names.index(name)]
                layout, n_columns = matrix["layout"], matrix["n_columns"]
            path = self.path / entry["matrix"]["file"]
            if layout == "dense":
                if check_dense(path, n_columns) != entry["matrix"]["checksum"]:
                    raise ValueError(f"{path} is not the file of the manifest")
                opened = [np.load(path, mmap_mode="r")]
            else:
                data = np.memmap(path, np.uint8, "r")
                header = data[: HEADER.itemsize].view(HEADER)[0]
                if header["magic"] != b"CELLFEED" or header["version"] != 2:
                    raise ValueError(f"{path} is not a .cells file of version 2")
                if f"{header['checksum']:016x}" != entry["matrix"]["checksum"]:
                    raise ValueError(f"{path} is not the file of the manifest")
                begin, rows = int(header["row_table_offset"]), int(header["n_cells"]) + 1
                opened = [data, header, data[begin : begin + 8 * rows].view("<u8")]
            self._open[number, name] = opened
        return cell - self.first_cells[number], *self._open[number, name]

    def row(self, cell, matrix="X"):
        """Return the column indices (int64) and the values (as stored) of one cell."""
        row, data, *packed = self._matrix(cell, matrix)
        if not packed:
            indices = np.flatnonzero(data[row])
            return indices, data[row][indices]
        header, table = packed
        begin, end = (int(entry >> np.uint64(24)) for entry in table[row : row + 2])
        records = int(header["records_offset"])
        nnz = int(table[row] & np.uint64(2**24 - 1))
        record = data[records + begin : records + end - 4].tobytes()
        checksum = int.from_bytes(data[records + end - 4 : records + end].tobytes(), "little")
        if checksum != record_checksum(record, row, nnz, int(header["shard"])):
            raise ValueError(f"cell {cell} is damaged")
        return decode_record(record, nnz, DTYPES[header["dtype"]])

    def obs(self, cell):
        """Return the obs of one cell, by column: from the Parquet file, missing values as None."""
        row, _, table, *_ = self._shard(cell)
        return {name: table[name][row].as_py() for name in table.column_names}

    def fixed_obs(self, cell):
        """Return the fixed-width columns of one cell: from the mapped Arrow file."""
        row, batch, *_ = self._shard(cell)
        names = batch.schema.names[:-1] if self._has_sizes(cell) else batch.schema.names
        values = {name: batch.column(name)[row].as_py() for name in names}
        for field in map(batch.schema.field, names):
            stored_as = (field.metadata or {}).get(b"cellfeed.dtype")
            if stored_as == b"bool" and values[field.name] is not None:
                values[field.name] = bool(values[field.name])
        return values

    def _has_sizes(self, cell):
        shard = self.manifest["shards"][self._number(cell)]
        return self.manifest["library_sizes"] or shard.get("library_sizes", False)

    def total(self, cell):
        """Return the total of a cell over all genes of its source, also those left out."""
        if not self._has_sizes(cell):
            return float(np.sum(self.row(cell)[1], dtype=float))
        row, batch, *_ = self._shard(cell)
        if batch.schema.names[-1] != "_library_size":
            raise ValueError(f"cell {cell} has no library size")
        return batch.column("_library_size")[row].as_py()


def main():
    """Print the counts of a directory, and read all of it to see that they are true."""
    cells = ShardDirectory(sys.argv[1])
    nnz = sum(len(cells.row(cell)[0]) for cell in range(len(cells)))
    print(f"{len(cells)} cells x {cells.genes.num_rows} genes, {nnz} non-zeros")
    sys.exit(0 if nnz == cells.manifest["nnz"] else 1)


if __name__ == "__main__":
    main()
