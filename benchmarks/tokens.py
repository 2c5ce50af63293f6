"""Tokens: made on the loader's threads, beside a collate_fn of numpy that sorts the same cells.

Everything runs on one thread, over one shard directory that stays in memory, in turns.
usage: tokens.py [--cells N] [--genes N] [--nonzeros N] [--rounds N]
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import anndata
import numpy as np
import pandas as pd
import scipy.sparse

import cellfeed as cf
from cellfeed.data import GeneVocab

MAX_LENGTH = 2048
BATCH_SIZE = 256


def write_shards(folder: pathlib.Path, n_cells: int, n_genes: int, n_nonzeros: int) -> None:
    """Cells of so many non-zero counts each: half of them 1, with a long tail."""
    random = np.random.default_rng(0)
    columns = np.sort(
        np.argpartition(random.random((n_cells, n_genes), np.float32), n_nonzeros)[:, :n_nonzeros]
    )
    counts = np.minimum(1 / (1e-3 + random.random(columns.size)), 400).astype(np.float32).round()
    indptr = np.arange(n_cells + 1) * n_nonzeros
    x = scipy.sparse.csr_matrix((counts, columns.ravel(), indptr), shape=(n_cells, n_genes))
    var = pd.DataFrame(index=[f"gene{column}" for column in range(n_genes)])
    anndata.AnnData(x, var=var).write_h5ad(folder / "cells.h5ad")
    cf.convert_to_shards(folder / "cells.h5ad", folder / "shards", progress=False)


def numpy_collate(ids: np.ndarray, medians: np.ndarray) -> Callable[[Any], Any]:
    """Ranks a CSR batch cell by cell, as Geneformer's tokenizer does, and pads it."""

    def collate(batch: Any) -> tuple[np.ndarray, np.ndarray]:
        made = np.zeros((len(batch), MAX_LENGTH), dtype=np.int32)
        lengths = np.zeros(len(batch), dtype=np.int32)
        data, indices, indptr = batch.data, batch.indices, batch.indptr
        for i in range(len(batch)):
            columns = indices[indptr[i] : indptr[i + 1]]
            values = data[indptr[i] : indptr[i + 1]] / medians[columns]
            tokens = ids[columns][np.argsort(-values)][: MAX_LENGTH - 1]
            made[i, 0] = 3
            made[i, 1 : len(tokens) + 1] = tokens
            lengths[i] = len(tokens) + 1
        return made, lengths

    return collate


def seconds_of(loader: Any) -> float:
    """Processor time of this process for one epoch: other work on the machine takes none of it."""
    begin = time.process_time()
    for _ in loader:
        pass
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--nonzeros", type=int, default=MAX_LENGTH - 1)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_shards(pathlib.Path(folder), given.cells, given.genes, given.nonzeros)
        cells = cf.open(pathlib.Path(folder) / "shards")
        vocab = GeneVocab.from_genes(cells.var_names)
        medians = np.random.default_rng(1).lognormal(0, 0.7, given.genes).astype(np.float32)
        ranked = cf.RankTokens(vocab, MAX_LENGTH, medians)

        def loader(**options: Any) -> Any:
            return cf.Loader(cells, cf.BlockShuffling(64), BATCH_SIZE, threads=1, **options)

        change = [cf.NormalizeTotal(1e4), cf.Log1p()]
        loaders = {
            "csr": loader(),
            "csr, normalise + log1p": loader(transforms=change),
            "rank tokens": loader(output="tokens", tokens=ranked),
            "rank tokens, masked": loader(output="tokens", tokens=ranked, masking=cf.Masking(0.15)),
            "rank tokens, no medians": loader(
                output="tokens", tokens=cf.RankTokens(vocab, MAX_LENGTH)
            ),
            "binned tokens": loader(output="tokens", tokens=cf.BinnedTokens(vocab)),
            "continuous tokens": loader(output="tokens", tokens=cf.ContinuousTokens(vocab)),
            "numpy argsort": loader(collate_fn=numpy_collate(vocab.gene_ids, medians)),
        }
        best = dict.fromkeys(loaders, float("inf"))
        for _ in range(given.rounds):
            for name, each in loaders.items():
                best[name] = min(best[name], seconds_of(each))
    for name, seconds in best.items():
        print(f"{name:26s} {given.cells / seconds:12,.0f} cells a second of one core")
    print(f"rank tokens / numpy argsort: {best['numpy argsort'] / best['rank tokens']:.1f}")
    masked = best["rank tokens, masked"] / best["rank tokens"] - 1
    print(f"masking adds {100 * masked:.1f} %")
    changed = best["csr, normalise + log1p"] / best["csr"] - 1
    print(f"normalise + log1p add {100 * changed:.1f} % to decoding")


if __name__ == "__main__":
    main()
