"""Cells behind a link of given latency and bandwidth: cellfeed beside h5py over fsspec.

python benchmarks/cloud.py [--cells N] [--genes N] [--nonzeros N] [--latency S] [--bandwidth BYTES]
    [--seconds S] [--files N]

nginx serves the files on loopback, and a proxy in a process of its own holds each request and each
answer back by half of the latency and shares the bandwidth among all answers. Rates are of one run,
each for some seconds of the first epoch: bytes of answers as a part of the bandwidth, and
requests as a part of what the depth and the latency allow. The rival reads rows one by one, as
AnnData backed does, from a file that fsspec opens over http with blocks of 1 MiB. Before these, the
seconds from nothing to the first batch of the same cells in many shards and many files. Needs nginx
(Debian's nginx-light); without it this says so and ends.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time

import anndata
import h5py
import numpy as np
from random_counts import random_counts

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "python"))
from bucket_servers import s3_environment
from nginx_server import nginx_server
from proxy_process import ProxyProcess

import cellfeed as cf
from cellfeed import _core

BATCH = 512


def measured(proxy, options, batches) -> dict[str, float]:
    """Cells, bytes and requests a second, from the first batch on."""
    iterator = iter(batches)
    next(iterator)
    proxy.reset()
    start, cells = time.perf_counter(), 0
    for n in iterator:
        cells += n
        if time.perf_counter() - start > options.seconds:
            break
    spent = time.perf_counter() - start
    seen = proxy.report()
    return {
        "cells": cells / spent,
        "bytes": seen["bytes_sent"] / spent,
        "requests": seen["requests"] / spent,
    }


def of_loader(cells, strategy):
    """One epoch, as what was read of a small file is kept for the next."""
    for batch in cf.Loader(cells, strategy, BATCH, seed=0):
        yield len(batch.index)


def of_fsspec(url: str, n_cells: int):
    import fsspec

    random = np.random.default_rng(0)
    with fsspec.open(url, block_size=1 << 20) as opened, h5py.File(opened) as file:
        adata = anndata.io.sparse_dataset(file["X"])
        while True:
            rows = random.integers(n_cells, size=8)
            for row in rows:
                adata[int(row)]
            yield len(rows)


def write_many(bucket: pathlib.Path, plain: pathlib.Path, adata: anndata.AnnData, n: int) -> None:
    size = -(-adata.n_obs // n)
    cf.convert_to_shards(plain, bucket / "many", shard_size=size)
    for form, compression in (("plain", None), ("gzip", "gzip")):
        (bucket / form).mkdir()
        for begin in range(0, adata.n_obs, size):
            path = bucket / form / f"{begin:09}.h5ad"
            adata[begin : begin + size].copy().write_h5ad(path, compression=compression)


def print_first_batches(proxy) -> None:
    """Of what no process has read before: a batch of each takes cells of nearly all files."""
    for what in ("many", "plain/*.h5ad", "gzip/*.h5ad"):
        proxy.reset()
        times = [time.perf_counter()]
        cells = cf.open(f"s3://bucket/{what}")
        times.append(time.perf_counter())
        loader = cf.Loader(cells, cf.BlockShuffling(64), BATCH, seed=0)
        times.append(time.perf_counter())
        next(iter(loader))
        times.append(time.perf_counter())
        spent = " + ".join(f"{seconds:.2f}" for seconds in np.diff(times))
        print(
            f"{what:12} of {len(cells.files)} files: first batch after "
            f"{times[-1] - times[0]:.2f} s (open, loader, batch: {spent}), "
            f"{proxy.report()['requests']} requests"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--nonzeros", type=int, default=1000, help="of a cell")
    parser.add_argument("--latency", type=float, default=0.03, help="seconds of a round trip")
    parser.add_argument("--bandwidth", type=float, default=200e6, help="bytes a second")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each case")
    parser.add_argument("--files", type=int, default=100, help="of those that many files are")
    options = parser.parse_args()
    if not shutil.which("nginx"):
        print("nginx is not here, and nothing was measured: install nginx-light")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "bucket").mkdir()
        plain = folder / "plain.h5ad"
        x = random_counts(0, options.cells, options.genes, options.nonzeros)
        adata = anndata.AnnData(x)
        adata.write_h5ad(plain)
        adata.write_h5ad(folder / "bucket" / "a.h5ad", compression="gzip")
        write_many(folder / "bucket", plain, adata, options.files)
        del adata
        shards = folder / "bucket" / "shards"
        cf.convert_to_shards(plain, shards, shard_size=max(1, options.cells // 4))
        link = {"latency_s": options.latency / 2, "bytes_per_second": options.bandwidth}
        with nginx_server(folder) as server, ProxyProcess(server.address, **link) as proxy:
            os.environ.update(s3_environment(proxy.url))
            print_first_batches(proxy)
            proxy.reset()
            start = time.perf_counter()
            in_file = cf.open("s3://bucket/a.h5ad")
            opened = time.perf_counter() - start
            n_trips = proxy.report()["requests"]
            in_shards = cf.open("s3://bucket/shards")
            cases = {
                "shards, blocks of 64": of_loader(in_shards, cf.BlockShuffling(64)),
                "shards, true random": of_loader(in_shards, cf.BlockShuffling(1)),
                "gzip .h5ad, blocks of 64": of_loader(in_file, cf.BlockShuffling(64)),
                "h5py over fsspec, rows": of_fsspec(f"{proxy.url}/bucket/a.h5ad", options.cells),
            }
            print(f"the .h5ad was opened in {opened:.2f} s and {n_trips} requests")
            rival = None
            for case, batches in reversed(cases.items()):
                rates = measured(proxy, options, batches)
                rival = rival or rates["cells"]
                depth = _core.fetch_counts()["depth"]
                print(
                    f"{case:26} {rates['cells']:9.0f} cells/s, {rates['cells'] / rival:6.0f}x; "
                    f"{rates['bytes'] / options.bandwidth:5.2f} of the link, "
                    f"{rates['requests'] * options.latency / depth:5.2f} of the requests "
                    f"that a depth of {depth} allows"
                )


if __name__ == "__main__":
    main()
