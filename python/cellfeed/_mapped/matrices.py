"""Matrices of every file, read row by row at one width or at each file's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .._arguments import is_anndata
from .._cells.matrices import layer_key, obsm_key
from .._cores import Item
from .._options import DTYPES, Data, DTypeName, Join
from .._reader import Reader, ReaderOptions
from ..collection import CellCollection
from ..errors import InvalidArgumentError
from ..opening import open as open_cells
from .arguments import MappedOptions, layer_name
from .genes import have_same_genes
from .rows import Column, column_of, entries_of

_NARROW = {"bool", "int8", "int16", "uint8", "uint16"}
_WIDER = {"uint32": "int64", "float16": "float32"}


class Matrices:
    """Rows of some matrices, read together. Picklable: a copy opens the files again.

    Thread-safe: yes.
    """

    def __init__(
        self,
        parts: list[CellCollection],
        keys: list[str],
        obsm: list[str],
        options: MappedOptions,
    ) -> None:
        self.parts = parts
        matrices = parts[0]._matrices
        numbers = range(len(matrices.paths) + 1)
        self._numbers = {keys[0]: 0}
        self._numbers.update({key: matrices.layers[layer_key(layer_name(key))] for key in keys[1:]})
        self._numbers.update({f"obsm_{key}": matrices.obsm[obsm_key(key)] for key in obsm})
        kinds = [options.dtype or _stored_dtype(parts, number) for number in numbers]
        reading = ReaderOptions(
            output=options.output, dtype=kinds[0], casting=options.casting, obs=[],
            threads=options.threads, matrix_dtypes=kinds[1:],
        )  # fmt: skip
        self._readers = [Reader(part, reading) for part in parts if len(part) > 0]
        ends = np.cumsum([len(part) for part in parts if len(part) > 0])
        self._begins = np.concatenate([[0], ends]).astype(np.int64)

    def check_values(self, rows: np.ndarray) -> None:
        """Refuse values that the dtype cannot hold, where some of the rows have them."""
        for part, reader in enumerate(self._readers):
            mine = rows[self._part_of(rows) == part] - self._begins[part]
            if mine.size:
                reader.check_values(_spread(mine))

    def read(self, rows: np.ndarray) -> dict[str, Column]:
        """By the column of a row: rows x genes, or a list of rows of their own widths.

        Parameters
        ----------
        rows
            int64, of the table of all files, and in it.
        """
        if len(self._readers) == 1:
            return self._read_part(0, rows)
        found: dict[str, list[Any]] = {}
        part_of = self._part_of(rows)
        for part in np.unique(part_of).tolist():
            places = np.flatnonzero(part_of == part)
            read = self._read_part(part, rows[places] - self._begins[part])
            for name, matrix in read.items():
                column = found.setdefault(name, [None] * len(rows))
                entries = entries_of(matrix, 0, len(places))
                for place, row in zip(places.tolist(), entries, strict=True):
                    column[place] = row
        return {**found}

    def _read_part(self, part: int, rows: np.ndarray) -> dict[str, Column]:
        core = self._readers[part].core.read_rows(rows)
        return {
            name: column_of(core if number == 0 else core.matrix(number))
            for name, number in self._numbers.items()
        }

    def _part_of(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._begins, rows, side="right") - 1

    def close(self) -> None:
        """Let go of the files."""
        for reader in self._readers:
            reader.close()
        for part in self.parts:
            part.close()


def _spread(rows: np.ndarray) -> Callable[[int], np.ndarray]:
    return lambda n: rows[:: max(1, len(rows) // n)]


def open_matrices(options: MappedOptions) -> list[Matrices]:
    """What is joined is read together, and raw by itself."""
    joined = [key for key in options.layers_keys if key != "raw.X"]
    groups = [(joined, options.join)] if joined else []
    if "raw.X" in options.layers_keys:
        groups.append((["raw.X"], None))
    found = []
    obsm = options.obsm_keys
    for keys, join in groups:
        found.append(Matrices(_open_joined(options, keys, obsm, join), keys, obsm, options))
        obsm = []
    return found


def open_table(options: MappedOptions, parts: list[CellCollection]) -> CellCollection:
    """All files as one collection, for obs and genes; ``parts`` are open."""
    if options.layers_keys != ["raw.X"] and len(parts) == 1:
        return parts[0]
    # The genes of a file are those of its var, and raw has its own.
    keys = [*(key for key in options.layers_keys if key != "raw.X"), "raw.X"][:1]
    return _open_joined(options, keys, [], options.join or "outer")[0]


def _open_joined(
    options: MappedOptions, keys: list[str], obsm: list[str], join: Join | None
) -> list[CellCollection]:
    """All files as one collection; or, where genes differ and are not joined, one for each file."""

    def opened(data: Data, join: Join | None) -> CellCollection:
        return open_cells(
            data, join=join, missing_genes="zero" if join else "warn", layer=layer_name(keys[0]),
            layers=keys[1:], obsm=obsm, make_unique=options.make_unique,
            mixed_processing=options.mixed_processing,
        )  # fmt: skip

    cells = opened(options.paths, join or "outer")
    if join is not None or have_same_genes(cells):
        return [cells]
    cells.close()
    return [opened(item, None) for item in _each(options.paths, lambda path: opened(path, "outer"))]


def _each(paths: list[Item], opened: Callable[[str], CellCollection]) -> list[Item]:
    """Files, shard directories and AnnData, each by itself."""
    items: list[Item] = []
    for given in paths:
        if is_anndata(given):
            items.append(given)
            continue
        with opened(str(given)) as cells:
            # A shard directory has a store for each of its shards.
            items += dict.fromkeys(
                os.path.dirname(file["path"]) if file["format"] == "shard" else file["path"]
                for file in cells.files
            )
    return items


def _stored_dtype(parts: list[CellCollection], number: int) -> DTypeName:
    stored = {}
    for part in parts:
        matrix = part._core.matrix(number)
        files = [matrix.store_info(store) for store in range(matrix.n_stores)]
        stored.update({file["dtype"]: file["path"] for file in files})
    wide = {_wide_enough(dtype, path) for dtype, path in stored.items()}
    common = np.result_type(*(np.dtype(name) for name in wide)).name
    if common not in DTYPES or (len(wide) > 1 and "int64" in wide and common == "float64"):
        raise InvalidArgumentError(
            f"the files hold {', '.join(sorted(stored))}, which have no dtype in common that holds "
            f"all values: pass dtype, such as dtype='float32'"
        )
    return cast(DTypeName, common)


def _wide_enough(dtype: str, path: str) -> str:
    if dtype in _NARROW:
        return "int32"
    wide = _WIDER.get(dtype, dtype)
    if wide not in DTYPES:
        raise InvalidArgumentError(
            f"{path} holds {dtype}: pass dtype, such as dtype='float32', which rows are to have"
        )
    return wide
