"""What a batch has to hold, by numpy, scipy and the papers' rules of tokens alone."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import token_reference as reference
from one_table import CELLS, GENES, KINDS, LABELS, NUMBERS, matrix, obs
from reference_plans import SEED, PlannedBatch, Sharing

import cellfeed as cf
from cellfeed.data import GeneVocab
from cellfeed.token_batch import TokenBatch

TARGET_SUM = 1e4
SELECTED = [GENES[column] for column in np.random.default_rng(4).permutation(len(GENES))[:31]]
N_BINS, N_CHOSEN = 7, 12
# Of logarithms within two units of the last place, and of one division before them.
RTOL = 3e-7

TRANSFORMS: dict[str, list[Any]] = {
    "none": [],
    "normalise": [cf.NormalizeTotal(TARGET_SUM, force=True)],
    "log1p": [cf.Log1p(force=True)],
    "both": [cf.NormalizeTotal(TARGET_SUM, force=True), cf.Log1p(force=True)],
    "genes": [cf.SelectGenes(SELECTED)],
    "all": [
        cf.SelectGenes(SELECTED),
        cf.NormalizeTotal(TARGET_SUM, force=True),
        cf.Log1p(force=True),
    ],
    "function": [],
}
# Those that leave every value as it is stored.
EXACT = {"none", "genes", "function"}


def genes_after(transform: str) -> list[str]:
    return SELECTED if transform in ("genes", "all") else GENES


@functools.cache
def transformed(values: str, transform: str) -> scipy.sparse.csr_matrix:
    """All rows after the transforms, in float64."""
    x = matrix(values).astype(np.float64)
    if transform in ("normalise", "both", "all"):
        totals = x.sum(axis=1).A1
        totals[totals == 0] = TARGET_SUM
        x = scipy.sparse.diags(TARGET_SUM / totals) @ x
    if transform in ("log1p", "both", "all"):
        x = x.log1p()
    x = scipy.sparse.csr_matrix(x[:, [GENES.index(gene) for gene in genes_after(transform)]])
    x.sort_indices()
    return x


def function_of_python(contents: dict[str, Any]) -> dict[str, Any]:
    """What the tests do to the values of a batch where the transform is one of Python."""
    return {**contents, "values": contents["values"] * 3 + 1}


@functools.cache
def vocab_of(transform: str) -> GeneVocab:
    """In another order than the data, with gaps, and without every seventh of its genes."""
    genes = genes_after(transform)
    order = np.random.default_rng(2).permutation(len(genes))
    return GeneVocab({genes[c]: 4 + 3 * place for place, c in enumerate(order) if place % 7})


def ids_of(transform: str) -> np.ndarray:
    """Numbers of the columns, 0 where the vocabulary lacks a gene."""
    vocab = vocab_of(transform)
    ids = vocab.encode(genes_after(transform))
    return np.where(ids == vocab.unk_token_id, 0, ids)


def output_options(output: str, transform: str) -> dict[str, Any]:
    """Of a loader."""
    if output in ("csr", "dense"):
        return {"output": output}
    vocab = vocab_of(transform)
    make = {
        "ranks": lambda: cf.RankTokens(vocab, 24),
        "bins": lambda: cf.BinnedTokens(vocab, N_BINS, 20, truncation="random"),
        "continuous": lambda: cf.ContinuousTokens(vocab, 30, pad="max_length"),
        "most expressed": lambda: cf.RankTokens(
            vocab, gene_selection="most_expressed", n_genes=N_CHOSEN
        ),
        "random genes": lambda: cf.ContinuousTokens(
            vocab, cls=False, gene_selection="random_expressed", n_genes=N_CHOSEN
        ),
    }
    masking = cf.Masking(0.3) if output in ("ranks", "bins") else None
    return {"output": "tokens", "tokens": make[output](), "masking": masking}


OUTPUTS = ["csr", "dense", "ranks", "bins", "continuous", "most expressed", "random genes"]
TOKEN_OUTPUTS = OUTPUTS[2:]


# What a batch holds -------------------------------------------------------------------------------


def contents_of(batch: Any) -> dict[str, Any]:
    """Copies of all arrays of a batch, by name."""
    found = {"index": batch.index.copy(), "is_padding": batch.is_padding.copy()}
    found["names"] = batch.obs_names
    for name in batch.obs:
        found[f"obs {name}"] = batch.obs[name].copy()
    if "kind" in batch.obs:
        found["kinds"] = batch.obs.labels("kind")
    if isinstance(batch, TokenBatch):
        found |= {name: array.copy() for name, array in batch.tokens.items()}
    elif scipy.sparse.issparse(batch.x):
        found |= {"values": batch.x.data.copy(), "shape": np.array(batch.x.shape)}
        found |= {"indices": batch.x.indices.copy(), "indptr": batch.x.indptr.copy()}
    else:
        found["values"] = np.array(batch.x)
    return found


@functools.cache
def columns_of_cells() -> dict[str, np.ndarray]:
    """What comes with all cells, as a batch has it: names, codes, numbers, labels."""
    table = obs().astype({"donor": "category"})  # sorted
    made = {"names": np.array(CELLS, dtype=object)}
    for name in LABELS:
        made[f"obs {name}"] = table[name].cat.codes.to_numpy().astype(np.int64)
    for name in NUMBERS:
        column = table[name]
        made[f"obs {name}"] = column.to_numpy()
        if isinstance(column.dtype, pd.api.extensions.ExtensionDtype):
            made[f"obs {name}"] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    made["kinds"] = np.array([*KINDS, None], dtype=object)[made["obs kind"]]
    return made


def cells_expected(plan: PlannedBatch) -> dict[str, Any]:
    """Rows, names and obs of a batch."""
    columns = {name: column[plan.rows] for name, column in columns_of_cells().items()}
    return {"index": plan.rows, "is_padding": plan.is_padding, **columns}


def without_obs(expected: dict[str, Any]) -> dict[str, Any]:
    """Of formats that have none."""
    return {name: array for name, array in expected.items() if not name.startswith(("obs ", "ki"))}


def matrix_expected(x: scipy.sparse.csr_matrix, output: str, plan: PlannedBatch) -> dict[str, Any]:
    """The values of a batch of matrices, as float32."""
    part = x[plan.rows]
    if output == "dense":
        return {"values": part.toarray().astype(np.float32)}
    return {
        "values": part.data.astype(np.float32), "shape": np.array(part.shape),
        "indices": part.indices.astype(np.int32), "indptr": part.indptr.astype(np.int32),
    }  # fmt: skip


# Tokens -------------------------------------------------------------------------------------------


def tokens_expected(
    output: str, transform: str, x: np.ndarray, plan: PlannedBatch, sharing: Sharing, number: int
) -> dict[str, Any]:
    """The token arrays of a batch.

    Parameters
    ----------
    output, transform
        Their names.
    x
        All rows after the transforms, dense float32.
    plan, sharing, number
        The batch, and its number among those of its rank.
    """
    x, ids = x[plan.rows], ids_of(transform)
    keeps = np.ones(len(ids), dtype=bool)
    if output in ("most expressed", "random genes"):
        strategy = output.replace("random genes", "random_expressed").replace(" ", "_")
        step = number * sharing.batch_size * sharing.world_size
        # Padding does not count, but where a batch has nothing else.
        counted = x if plan.is_padding.all() else x[~plan.is_padding]
        keeps = reference.selected(counted, ids, strategy, N_CHOSEN, SEED, sharing.epoch, step)
    cells = [
        _cell_expected(output, row, ids, keeps, sharing.epoch, int(position))
        for row, position in zip(x, plan.positions, strict=True)
    ]
    has_class = output != "random genes"
    if has_class:
        cells = [(np.append(3, i), np.append(np.float32(0), v), keys) for i, v, keys in cells]
    lengths = np.array([len(i) for i, _, _ in cells], dtype=np.int32)
    width = 30 if output == "continuous" else max(lengths)
    made = {
        "input_ids": reference.padded([i for i, _, _ in cells], width, 0, np.int32),
        "values": reference.padded([v for _, v, _ in cells], width, 0, np.float32),
        "attention_mask": np.arange(width) < lengths[:, None],
        "lengths": lengths,
    }
    if output in ("ranks", "bins"):
        made |= _masked(output, made, lengths, plan, [keys for *_, keys in cells], transform)
    return made


def _cell_expected(output, row, ids, keeps, epoch, position):
    """Genes of a cell, what is said of them, and the key of its masking."""
    columns = np.flatnonzero((row > 0) & (ids > 0) & keeps)
    of_cell, values = ids[columns], row[columns]
    masking, cutting, ties = reference.keys_of(SEED, epoch, position)
    if output in ("ranks", "most expressed"):
        room = 23 if output == "ranks" else 2047
        return *reference.rank(of_cell, values, room), masking
    if output == "bins":
        values = reference.bins(values, N_BINS, ties)
        stay = reference.kept(row[columns], 19, cutting)
    else:
        stay = reference.kept(values, 29 if output == "continuous" else 2048, None)
    return of_cell[stay], values[stay], masking


def _masked(output, made, lengths, plan, keys, transform):
    """Ranks: genes are hidden and predicted; bins: values are."""
    ids, values = made["input_ids"].copy(), made["values"].copy()
    labels = np.full(ids.shape, -100, dtype=np.int64)
    targets = np.full(ids.shape, np.nan, dtype=np.float32)
    numbers = vocab_of(transform).gene_ids
    for i, key in enumerate(keys):
        if plan.is_padding[i]:
            continue
        places = reference.chosen(int(lengths[i]) - 1, 0.3, key) + 1
        if output == "bins":
            labels[i, places] = targets[i, places] = values[i, places]
            values[i, places] = -1
            continue
        labels[i, places] = ids[i, places]
        n_hidden, n_random = round(0.8 * len(places)), round(0.1 * len(places))
        ids[i, places[:n_hidden]] = 2
        for j in range(n_hidden, n_hidden + n_random):
            low = reference.splitmix64(key, j) & 0xFFFFFFFF
            ids[i, places[j]] = numbers[low * len(numbers) >> 32]
    made = {"input_ids": ids, "values": values, "labels": labels}
    return made | ({"value_labels": targets} if output == "bins" else {})


# Comparing ----------------------------------------------------------------------------------------


def assert_holds(found: dict[str, Any], expected: dict[str, Any], rtol: float = 0) -> None:
    """The same arrays of the same types; values within ``rtol``, everything else exactly."""
    assert sorted(found) == sorted(expected)
    for name, wanted in expected.items():
        array = found[name]
        assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape), name
        if array.dtype == object and array.tolist() == wanted.tolist():
            continue
        if array.dtype != object and array.tobytes() == wanted.tobytes():
            continue
        if name == "values" and rtol:
            np.testing.assert_allclose(array, wanted, rtol=rtol, err_msg=name)
        else:
            np.testing.assert_array_equal(array, wanted, err_msg=name)
