"""Makes shard directories that a stranger might hand over, and judges what reading them does.

usage: hostile_directories.py DIR [--seed N] [--mutations N]
Every case is read in this one process, so that a crash or a hang ends it; a line of JSON a
case says what came of it. Each must be right or a named error, within SECONDS and MEGABYTES.
"""

from __future__ import annotations

import argparse
import base64
import functools
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
import xxhash

import cellfeed as cf

SECONDS, MEGABYTES = 2.0, 200
MAX_MEGABYTES = 4096  # of this process, whatever it does
MANIFEST = "shard_metadata.json"
Change = Callable[[pathlib.Path], None]
Case = tuple[str, Change]


def make_source(path: pathlib.Path) -> None:
    rng = np.random.default_rng(5)
    n = 90
    x = scipy.sparse.random(n, 40, 0.3, "csr", np.float32, rng)
    x.data = np.ceil(x.data * 9)
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical(rng.choice(["B", "T", "NK"], n)),
            "donor": rng.choice(["d1", "d2"], n),
            "age": rng.integers(20, 80, n),
            "score": rng.random(n),
            "is_primary": rng.random(n) < 0.5,
        },
        index=[f"cell{i}" for i in range(n)],
    )
    anndata.AnnData(x, obs, pd.DataFrame(index=[f"g{i}" for i in range(40)])).write_h5ad(path)


def sign(text: str) -> bytes:
    """The manifest's text with the checksum that belongs to it."""
    tree = json.loads(text)
    tree.pop("checksum", None)
    body = json.dumps(tree, indent=2, ensure_ascii=False)
    zeroed = body[: -len("\n}")] + ',\n  "checksum": "' + "0" * 16 + '"\n}\n'
    digits = f"{xxhash.xxh3_64_intdigest(zeroed.encode()):016x}"
    return zeroed.replace("0" * 16 + '"\n}\n', digits + '"\n}\n').encode()


def edit_manifest(change: Callable[[dict], object]) -> Change:
    def apply(folder: pathlib.Path) -> None:
        tree = json.loads((folder / MANIFEST).read_text())
        change(tree)
        (folder / MANIFEST).write_bytes(sign(json.dumps(tree)))

    return apply


def replaced(name: str, make: Callable[[pathlib.Path], object]) -> Change:
    def apply(folder: pathlib.Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return apply


def sparse_file(size: int) -> Callable[[pathlib.Path], object]:
    def make(path: pathlib.Path) -> None:
        with path.open("wb") as file:
            file.truncate(size)

    return make


def bound_socket(path: pathlib.Path) -> None:
    # The name of a socket is short, so it is bound from its folder.
    home = pathlib.Path.cwd()
    os.chdir(path.parent)
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(home)


def special_files(names: list[str]) -> Iterator[Case]:
    kinds: dict[str, Callable[[pathlib.Path], object]] = {
        "a pipe": os.mkfifo,
        "a directory": pathlib.Path.mkdir,
        "a socket": bound_socket,
        "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
        "a link to itself": lambda path: path.symlink_to(path.name),
        "a dangling link": lambda path: path.symlink_to("nothing"),
        "empty": sparse_file(0),
        "a terabyte of zeros": sparse_file(1 << 40),
        "text": lambda path: path.write_bytes(b"PAR1 ARROW1 CELLFEED \xff\xfe not at all" * 9),
        "gone": lambda path: None,
    }
    for name in names:
        for kind, make in kinds.items():
            yield f"{name} is {kind}", replaced(name, make)
        yield f"{name} leads outside", lambda folder, name=name: lead_outside(folder, name)


def lead_outside(folder: pathlib.Path, name: str) -> None:
    outside = folder.parent / f"outside-{name}"
    shutil.move(folder / name, outside)
    (folder / name).symlink_to(outside)


def manifests() -> Iterator[Case]:
    def text(content: str | bytes) -> Change:
        data = content.encode() if isinstance(content, str) else content
        return lambda folder: (folder / MANIFEST).write_bytes(data)

    yield "manifest: nested a million deep", text("[" * 1_000_000)
    yield "manifest: objects nested deep", text('{"a":' * 100_000 + "1" + "}" * 100_000)
    yield "manifest: a string of 100 MB", text('{"format": "' + "x" * 100_000_000 + '"}')
    yield "manifest: not UTF-8", text(b'{"format": "\xff\xfe\xfd"}')
    yield "manifest: NUL bytes", text(b"\0" * 4096)
    yield "manifest: a number too large", text('{"version": 1e999}')
    shards = [{"shard": i, "first_cell": 0, "n_cells": 0, "nnz": 0} for i in range(300_000)]
    yield "manifest: 300,000 torn entries", edit_manifest(lambda t: t.update(shards=shards))

    def many(tree: dict) -> None:
        first = tree["shards"][0]
        tree["shards"] += [
            {**first, "shard": i, "first_cell": tree["n_cells"], "n_cells": 0, "nnz": 0}
            for i in range(len(tree["shards"]), 30_000)
        ]
        tree["n_shards"] = len(tree["shards"])

    yield "manifest: 30,000 shards of one file", edit_manifest(many)
    huge = [-1, 2**31, 2**50, 2**62, 2**63, 2**64, 1.5, "1", None, True, [], {}]
    for key in ("version", "n_cells", "n_genes", "nnz", "n_shards", "shard_size"):
        for value in huge:
            yield (
                f"manifest: {key} = {value!r}",
                edit_manifest(lambda tree, key=key, value=value: tree.update({key: value})),
            )
    for key in ("n_cells", "nnz", "first_cell", "shard", "not_finite"):
        for value in huge:
            yield (
                f"manifest: {key} of a shard = {value!r}",
                edit_manifest(
                    lambda tree, key=key, value=value: tree["shards"][0].update({key: value})
                ),
            )
    names = [
        "../outside",
        "/etc/passwd",
        "a/b",
        "",
        ".",
        "..",
        "a\0b",
        "x" * 300,
        "shard_000001.cells",
    ]
    for name in names:
        for part in ("matrix", "obs", "fixed_obs"):
            yield (
                f"manifest: {part} is named {name[:20]!r}",
                edit_manifest(
                    lambda tree, part=part, name=name: tree["shards"][0][part].update(file=name)
                ),
            )
    for key in ("dtype", "layout", "gene_order", "format", "gene_fingerprint"):
        for value in ("float16", "", "é" * 50, "0" * 16, 3, None):
            yield (
                f"manifest: {key} = {str(value)[:8]!r}",
                edit_manifest(lambda tree, key=key, value=value: tree.update({key: value})),
            )

    # More cells or genes than any file holds, with totals that agree.
    def grown(tree: dict) -> None:
        tree["shards"][-1]["n_cells"] += 2**49
        tree["n_cells"] += 2**49

    yield "manifest: 2**49 cells more", edit_manifest(grown)
    yield "manifest: the shards turned round", edit_manifest(lambda tree: tree["shards"].reverse())
    yield (
        "manifest: no shard",
        edit_manifest(lambda tree: tree.update(shards=[], n_shards=0, n_cells=0, nnz=0)),
    )


def listed(tree: dict) -> Iterator[dict]:
    yield tree["genes"]
    for shard in tree["shards"]:
        yield from (shard["obs"], shard["fixed_obs"])


def rewritten(name: str, change: Callable[[pathlib.Path], object]) -> Change:
    """Change a table and make every checksum agree with it."""

    def apply(folder: pathlib.Path) -> None:
        change(folder / name)
        tree = json.loads((folder / MANIFEST).read_text())
        for entry in listed(tree):
            if entry["file"] == name:
                data = (folder / name).read_bytes()
                entry |= {"bytes": len(data), "checksum": f"{xxhash.xxh3_64_intdigest(data):016x}"}
        (folder / MANIFEST).write_bytes(sign(json.dumps(tree)))

    return apply


@functools.cache
def long_text(megabytes: int) -> str:
    return "x" * (megabytes << 20)


def repeated(text: str, n: int) -> pa.Array:
    """n times the same text, in memory once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([text]))


def put_column(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    at = table.schema.get_field_index(name)
    if at < 0:
        return table.append_column(name, column)
    return table.set_column(at, name, column)


def write_plainly(table: pa.Table, path: pathlib.Path, metadata: dict | None) -> None:
    """Without Arrow's schema, so that what is written as a dictionary is read as plain text."""
    with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata or {})


def with_bomb(column: str, megabytes: int) -> Change:
    """Texts that take hundreds of megabytes once they are decoded, and some kilobytes here."""

    def apply(path: pathlib.Path) -> None:
        table = pq.read_table(path)
        bomb = repeated(long_text(megabytes), len(table))
        write_plainly(put_column(table, column, bomb), path, table.schema.metadata)

    return apply


def with_rows(n: int) -> Change:
    def apply(path: pathlib.Path) -> None:
        table = pq.read_table(path)
        names = repeated("g", n)
        more = {"_index": names, "_original_position": pa.array(np.zeros(n, np.int64))}
        write_plainly(pa.table(more), path, table.schema.metadata)

    return apply


def packed_arrow(megabytes: int, codec: str) -> Change:
    """The same record batch, compressed, with a category that takes megabytes."""

    def apply(path: pathlib.Path) -> None:
        with pa.ipc.open_file(path) as reader:
            batch = reader.get_batch(0)
        table = pa.Table.from_batches([batch])
        if megabytes:
            column = table.column("cell_type").combine_chunks()
            categories = [*column.dictionary.to_pylist()[:-1], long_text(megabytes)]
            column = pa.DictionaryArray.from_arrays(column.indices, pa.array(categories))
            metadata = table.schema.metadata
            table = put_column(table, "cell_type", column).replace_schema_metadata(metadata)
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_file(path, table.schema, options=options) as writer:
            writer.write_batch(table.combine_chunks().to_batches()[0])

    return apply


def with_noted_bomb(megabytes: int) -> Change:
    """Categories of a var column, noted compressed in the metadata of the genes."""

    def apply(path: pathlib.Path) -> None:
        table = pq.read_table(path)
        column = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([long_text(megabytes)]))
        sink = pa.BufferOutputStream()
        row = pa.table({"biotype": column})
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, row.schema, options=options) as writer:
            writer.write_table(row)
        note = base64.b64encode(sink.getvalue().to_pybytes())
        table = table.append_column("biotype", pa.array(["x"] * len(table)))
        table = table.replace_schema_metadata({"cellfeed:categories": note})
        pq.write_table(table, path, compression="zstd")

    return apply


def bombs() -> Iterator[Case]:
    """Small files with checksums that agree, which are large once they are decoded."""
    obs, fixed = "shard_000000.parquet", "shard_000000.arrow"
    for column in ("_index", "donor", "a new one"):
        yield f"{obs}: 2 GB of {column}", rewritten(obs, with_bomb(column, 64))
        yield f"genes.parquet: 2 GB of {column}", rewritten("genes.parquet", with_bomb(column, 64))
    for codec in ("zstd", "lz4"):
        yield f"{fixed}: compressed with {codec}", rewritten(fixed, packed_arrow(0, codec))
        yield f"{fixed}: 400 MB in {codec}", rewritten(fixed, packed_arrow(400, codec))
    yield "genes.parquet: 400 MB of categories", rewritten("genes.parquet", with_noted_bomb(400))
    n_genes = 20_000_000

    def many_genes(folder: pathlib.Path) -> None:
        rewritten("genes.parquet", with_rows(n_genes))(folder)
        edit_manifest(lambda tree: tree.update(n_genes=n_genes))(folder)

    yield "genes.parquet: 20,000,000 genes", many_genes


def swaps(names: list[str]) -> Iterator[Case]:
    for suffix in (".parquet", ".arrow", ".cells", ".npy"):
        pair = [name for name in names if name.endswith(suffix) and name.startswith("shard_")][:2]
        if len(pair) == 2:

            def swap(folder: pathlib.Path, pair: list[str] = pair) -> None:
                (folder / pair[0]).rename(folder / "x")
                (folder / pair[1]).rename(folder / pair[0])
                (folder / "x").rename(folder / pair[1])

            yield f"{pair[0]} and {pair[1]} exchanged", swap


def mutations(names: list[str], seed: int, count: int) -> Iterator[Case]:
    """Bytes flipped, cut, doubled and overwritten, one file at a time."""
    for i in range(count):
        rng = random.Random(f"{seed}-{i}")
        name = rng.choice(names)
        kind = rng.choice(["flip", "cut", "extend", "fill", "move"])

        def apply(folder: pathlib.Path, rng: random.Random = rng, name: str = name,
                  kind: str = kind) -> None:  # fmt: skip
            data = bytearray((folder / name).read_bytes())
            at = rng.randrange(len(data))
            if kind == "flip":
                data[at] ^= 1 << rng.randrange(8)
            elif kind == "cut":
                del data[at:]
            elif kind == "extend":
                data += data[at:]
            elif kind == "fill":
                length = rng.choice([1, 4, 8, 64])
                data[at : at + length] = bytes([rng.choice([0, 0xFF, 0x7F])]) * len(
                    data[at : at + length]
                )
            else:
                piece = data[at : at + rng.choice([1, 8, 100])]
                del data[at : at + len(piece)]
                place = rng.randrange(len(data) + 1)
                data[place:place] = piece
            (folder / name).write_bytes(data)

        yield f"mutation {seed}-{i}: {kind} of {name}", apply


def everything_in(path: pathlib.Path) -> list[object]:
    """All values, labels, genes and names of a directory, by every way of reading it."""
    with_obs = cf.open(path, obs=["cell_type", "donor", "age", "score", "is_primary"])
    batch = with_obs.read(slice(None), dtype="float64")
    labels = {name: np.asarray(batch.obs[name]).tolist() for name in batch.obs}
    found = [batch.to_numpy().tolist(), repr(labels), list(with_obs.var_names)]
    for file in range(len(with_obs.files)):
        table = pa.table(with_obs.obs_table(file))
        found.append(table.drop_columns(["_source_file"]).to_pylist())
    found.append(pa.table(with_obs.var_table()).column("_index").to_pylist())
    return found


def peak_bytes() -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("this system does not tell the peak of a process's memory")


def forget_peak() -> None:
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def judge(folder: pathlib.Path, expected: list[object]) -> dict[str, object]:
    def give_up(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, give_up)
    forget_peak()
    before, start, cpu_start = peak_bytes(), time.monotonic(), time.process_time()
    signal.alarm(60)
    try:
        right = repr(everything_in(folder)) == repr(expected)
        outcome, message = ("right", "") if right else ("wrong", "other values without an error")
    except cf.errors.CellfeedError as error:
        outcome, message = "named", f"{type(error).__name__}: {error}"
        if isinstance(error, cf.errors.InternalError):
            outcome = "crash"
    except TimeoutError:
        outcome, message = "hang", "60 s"
    except Exception as error:
        outcome, message = "foreign", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return {
        "outcome": outcome,
        "message": message[:300],
        "seconds": round(time.monotonic() - start, 3),
        "cpu_seconds": round(time.process_time() - cpu_start, 3),
        "megabytes": round((peak_bytes() - before) / 2**20, 1),
    }


def cases(names: list[str], seed: int, count: int) -> Iterator[Case]:
    yield from special_files(names)
    yield from manifests()
    yield from bombs()
    yield from swaps(names)
    yield from mutations(names, seed, count)


def remove(folder: pathlib.Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for path in folder.parent.glob("outside-*"):
        path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--layout", choices=["packed", "dense"], default="packed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutations", type=int, default=200)
    parser.add_argument("--only", default="", help="cases whose names hold this text")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What runs away ends here, and not the machine.
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEGABYTES << 20, MAX_MEGABYTES << 20))
    root = options.dir
    root.mkdir(parents=True, exist_ok=True)
    make_source(root / "source.h5ad")
    whole = root / "whole"
    cf.convert_to_shards(root / "source.h5ad", whole, shard_size=30, layout=options.layout)
    expected = everything_in(whole)
    names = sorted(path.name for path in whole.iterdir() if not path.name.startswith("."))
    folder = root / "case"
    for label, change in cases(names, options.seed, options.mutations):
        if options.only not in label:
            continue
        shutil.copytree(whole, folder)
        change(folder)
        print(json.dumps({"case": label}), flush=True)
        print(json.dumps(judge(folder, expected)), flush=True)
        remove(folder)


if __name__ == "__main__":
    sys.exit(main())
