"""Rows, views, hooks, layers, filters and conversions: the same table out of every format."""

import functools
import itertools

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from one_table import (
    CELLS,
    GENES,
    KINDS,
    N_CELLS,
    PARTS,
    as_anndata,
    embedding,
    matrix,
    obs,
)
from reference_batches import (
    RTOL,
    SELECTED,
    assert_holds,
    cells_expected,
    contents_of,
    matrix_expected,
    transformed,
    without_obs,
)
from reference_plans import STRATEGIES, PlannedBatch, Sharing, planned
from stored_tables import (
    COUNTS_ONLY,
    FORMATS,
    FURTHER,
    WITHOUT_OBS,
    labels_of,
)
from tiers import fast

import cellfeed as cf

WITH_OBS = [name for name in FORMATS if name not in WITHOUT_OBS]
# Columns that shards have besides: where each row came from.
ORIGINS = ["_source_file", "_source_row"]
# Opened with genes=, which needs some.
NAMED_GENES = {"shards by mean", "joined"}
NULLABLE = ["n_umis", "passed"]
DENSE = {"memory, dense", "dense", "dense, gzip", "zarr, dense", "dense shards", "parquet wide"}
LAST_PART_DENSE = {"mixed", "joined"}
# In no order, some twice, one that is empty and the full one among them.
ROWS = np.array([205, 3, 60, 33, 33, 150, 0, 210, 17, 3, 101, 120, 119, 52, 53, 190])


def dense(x):
    return x.toarray() if scipy.sparse.issparse(x) else np.asarray(x)


def expected_of(name, plan, output="csr", x=None):
    wanted = cells_expected(plan) | matrix_expected(
        matrix("counts") if x is None else x, output, plan
    )  # fmt: skip
    return without_obs(wanted) if name in WITHOUT_OBS else wanted


@functools.cache
def wanted_obs():
    """As views have it: texts with categories, and numbers for what is missing."""
    table = obs().astype({"donor": "category"})
    missing = {name: table[name].astype("Float64").astype(np.float64) for name in NULLABLE}
    return table.assign(**missing)


def each_with_one_of(names, values):
    """Cases of every name and value; the fast ones are of one value of each name, in turn."""
    return fast(zip(names, itertools.cycle(values), strict=False), itertools.product(names, values))


def plan_of(rows):
    return PlannedBatch(rows, np.zeros(len(rows), dtype=bool), rows)


@pytest.mark.parametrize(
    ("name", "dtype"), each_with_one_of(FORMATS, ["float32", "float64", "int32", "int64"])
)
def test_any_rows_as_any_dtype(tables, name, dtype):
    for output in ("csr", "dense"):
        batch = tables.cells(name).read(ROWS, output=output, dtype=dtype)
        wanted = expected_of(name, plan_of(ROWS), output)
        wanted["values"] = wanted["values"].astype(dtype)
        assert_holds(contents_of(batch), wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_views_are_those_of_anndata(tables, name):
    rows, genes = ROWS[np.unique(ROWS, return_index=True)[1]], SELECTED[:9]
    found = tables.cells(name)[rows, genes].to_anndata()
    wanted = as_anndata(matrix("counts"), rows)[:, genes]
    assert list(found.obs_names) == list(wanted.obs_names)
    assert list(found.var_names) == genes
    np.testing.assert_array_equal(dense(found.X), dense(wanted.X))
    if name not in WITHOUT_OBS:
        found = found.obs.drop(columns=ORIGINS, errors="ignore")
        pd.testing.assert_frame_equal(found, wanted_obs().iloc[rows], check_names=False)


@pytest.mark.parametrize("name", FORMATS)
def test_hooks_of_scdataset_see_the_same(tables, name):
    cells, sharing = tables.cells(name), Sharing(24, 3)
    strategy = STRATEGIES["balanced"].make(labels_of(cells), 1)
    options = {**sharing.options(), "batch_transform": contents_of}
    for hooks in ({}, {"fetch_transform": lambda group: group}):
        batches = list(cf.scDataset(cells, strategy, **options, **hooks))
        for batch, plan in zip(batches, planned("balanced", sharing), strict=True):
            assert_holds(batch, expected_of(name, plan))


@pytest.mark.parametrize(("name", "output"), each_with_one_of(WITH_OBS, ["csr", "dense"]))
def test_layers_and_obsm_are_of_the_same_rows(tables, name, output):
    cells, sharing = tables.open(name, **FURTHER), Sharing(60, 1)
    loader = cf.Loader(
        cells, STRATEGIES["blocks"].make({}, 1), output=output,
        transforms=[cf.NormalizeTotal(force=True), cf.SelectGenes(SELECTED)], **sharing.options(),
    )  # fmt: skip
    half = transformed("counts", "genes") / 2
    for batch, plan in zip(loader, planned("blocks", sharing), strict=True):
        assert scipy.sparse.issparse(batch.layers["half"]) == (output == "csr")
        np.testing.assert_array_equal(dense(batch.layers["half"]), half[plan.rows].toarray())
        np.testing.assert_array_equal(batch.obsm["X_pca"], embedding()[plan.rows])


@pytest.mark.parametrize("name", WITH_OBS)
def test_a_layer_as_x_is_transformed_as_x_is(tables, name):
    """Half of everything, and so the same once it is normalised."""
    cells = tables.open(name, layer="half", layers=["X"])
    batch = cells.read(ROWS, transforms=[cf.NormalizeTotal(1e4, force=True), cf.Log1p(force=True)])
    found = contents_of(batch)
    wanted = expected_of(name, plan_of(ROWS), x=transformed("counts", "both"))
    assert_holds(found, wanted, rtol=RTOL)
    np.testing.assert_array_equal(dense(batch.layers["X"]), matrix("counts")[ROWS].toarray())


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in NAMED_GENES])
def test_obs_alone_comes_without_counts(tables, name):
    batch = tables.open(name, layer=None).read(ROWS)
    nothing = scipy.sparse.csr_matrix((N_CELLS, 0), dtype=np.float32)
    assert_holds(contents_of(batch), expected_of(name, plan_of(ROWS), x=nothing))


@pytest.mark.parametrize(("name", "dtype"), each_with_one_of(FORMATS, ["float32", "float64"]))
def test_library_sizes_are_of_all_genes_where_few_are_opened(tables, name, dtype):
    cells = tables.open(name, genes=SELECTED)
    batch = cells.read(
        ROWS, dtype=dtype, transforms=[cf.NormalizeTotal(1e4, force=True), cf.Log1p(force=True)]
    )
    x = transformed("counts", "all")
    wanted = expected_of(name, plan_of(ROWS), x=x)
    wanted["values"] = x[ROWS].data.astype(dtype)
    assert_holds(contents_of(batch), wanted, rtol=RTOL if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("name", WITH_OBS)
def test_filters_find_the_same_cells(tables, name):
    expression = "kind in ['NK', 'mast'] and not is_doublet and depth > -0.5 and stage >= 30"
    table = obs()
    stages = pd.Series(table["stage"]) >= 30
    is_kind = table["kind"].isin(["NK", "mast"])
    is_chosen = is_kind & ~table["is_doublet"] & (table["depth"] > -0.5) & stages
    rows = np.flatnonzero(is_chosen)
    assert 5 < len(rows) < N_CELLS / 3
    some = tables.cells(name).filter(expression)
    assert list(some.obs_names) == [CELLS[row] for row in rows]
    for batch in cf.Loader(some, cf.BlockShuffling(1), 7, seed=1):
        found = contents_of(batch)
        wanted = expected_of(name, plan_of(rows[batch.index]))
        assert_holds({**found, "index": rows[batch.index]}, wanted)


# The others are opened with more than paths.
# Tables of lists take their genes from another file.
WITH_OPTIONS = {
    "joined", "filtered", "reordered", "filling cache", "full cache", "parquet lists",
    "parquet files",
}  # fmt: skip
OF_PATHS = [name for name in FORMATS if name not in WITH_OPTIONS]


@pytest.mark.parametrize("name", OF_PATHS)
def test_a_mapped_collection_has_the_same_rows(tables, name):
    given = tables.opener(name, matrix("counts")).args
    keys = [] if name in WITHOUT_OBS else ["kind", "depth"]
    rows = cf.MappedCollection(
        given[0], layers_keys="X", obs_keys=keys, encode_labels=keys[:1], dtype="float32"
    )
    places = [GENES.index(gene) for gene in rows.var_joint] if rows.var_joint is not None else None
    wanted = matrix("counts").toarray()[:, places or slice(None)]
    for row in ROWS.tolist():
        cell = rows[row]
        np.testing.assert_array_equal(cell["X"], wanted[row])
        if keys:
            np.testing.assert_array_equal(cell["depth"], obs()["depth"].iloc[row])
            label = obs()["kind"].iloc[row]
            assert cell["kind"] == rows.encoders["kind"].get(label, -1)


# Values that are awkward --------------------------------------------------------------------------

ODD_FLOATS = [np.nan, np.inf, -np.inf, 1e-45, -1e-45, 3.4028235e38, 1.1754944e-38, -2.5]
ODD_ROWS = [3, 53, 120, 150, 205]


@functools.cache
def awkward(values):
    """(as stored, as read): odd floats, zeros that are stored, and places with two entries."""
    random = np.random.default_rng(3)
    read = matrix(values).copy()
    if values == "fractions":
        for row in ODD_ROWS:
            read.data[read.indptr[row] :][: len(ODD_FLOATS)] = random.permutation(ODD_FLOATS)
    read.data[4::9] = 0
    entries = read.tocoo()
    has_two = (random.random(read.nnz) < 0.2) & ~np.isin(entries.row, ODD_ROWS)
    second = entries.data[has_two] / 2
    if values == "counts":
        second = np.floor(second)
    second[entries.data[has_two] == 0] = 3  # the first is its opposite
    first = entries.data.copy()
    first[has_two] -= second
    rows, columns = (np.append(place, place[has_two]) for place in (entries.row, entries.col))
    order = np.lexsort((random.random(len(rows)), rows))
    starts = np.searchsorted(rows[order], np.arange(N_CELLS + 1))
    stored = scipy.sparse.csr_matrix(
        (np.append(first, second).astype(np.float32)[order], columns[order], starts), read.shape
    )
    stored.has_canonical_format = stored.has_sorted_indices = False
    return stored, read


# Formats that are read in the same way as another one.
ALIKE = {
    "lzf", "dense, gzip", "zarr, shards", "zarr, csc", "parquet files", "shards by mean",
    "filtered", "reordered", "filling cache",
}  # fmt: skip


@pytest.mark.parametrize("name", fast(FORMATS.keys() - ALIKE, FORMATS))
def test_odd_floats_stored_zeros_and_repeated_entries(tables, name):
    values = "counts" if name in COUNTS_ONLY else "fractions"
    stored, read = awkward(values)
    assert stored.nnz > read.nnz > np.count_nonzero(read.data)
    read = read.copy()
    if name in DENSE:
        read.eliminate_zeros()
    elif name in LAST_PART_DENSE:
        begin, last = PARTS[-1][0], read[PARTS[-1][0] :]
        last.eliminate_zeros()
        read = scipy.sparse.vstack([read[:begin], last], format="csr")
    cells = tables.opener(name, stored)()
    for output in ("csr", "dense"):
        found = contents_of(cells.read(ROWS, output=output))
        wanted = matrix_expected(read, output, plan_of(ROWS))
        assert_holds({key: found[key] for key in wanted}, wanted)
    rows = ROWS[~np.isin(ROWS, ODD_ROWS)]
    x = read[rows].toarray().astype(np.float64)
    totals = x.sum(axis=1, keepdims=True)
    wanted = x * (1e4 / np.where(totals == 0, 1e4, totals))
    found = cells.read(rows, transforms=[cf.NormalizeTotal(1e4, force=True)], output="dense").x
    np.testing.assert_allclose(found, wanted, rtol=RTOL)


# Labels of several files --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("files", [0, 1, 2, 3]),
        ("compressed", [3, 1, 0, 2]),
        ("shards", [0, 1, 2, 3]),
        ("memory", [3, 1, 0, 2]),
        ("mixed", [0, 1, 2, 3]),
        ("mixed", [3, 1, 0, 2]),
    ],
)
def test_labels_that_files_number_otherwise_have_one_code(tmp_path, kind, order):
    """Each part lists categories of its own; together they are the sorted union."""
    parts = []
    for number, (begin, end) in enumerate(PARTS):
        part = as_anndata(matrix("counts"), np.arange(begin, end))
        lists = [KINDS, KINDS[::-1], [*KINDS, "none has it"], sorted(KINDS)]
        part.obs["kind"] = part.obs["kind"].cat.set_categories(lists[number])
        if number == 2:
            part.obs["kind"] = part.obs["kind"].astype(object).where(part.obs["kind"].notna(), None)
        parts.append(stored_as(part, tmp_path / f"{number}", kind, number))
    cells = cf.open([parts[number] for number in order], obs=["kind"])
    rows = np.concatenate([np.arange(*PARTS[number]) for number in order])
    labels = obs()["kind"].astype(object).where(obs()["kind"].notna(), None).to_numpy()[rows]
    assert cells.categories("kind") == sorted(KINDS)
    for batch in cf.Loader(cells, cf.BlockShuffling(4), 50, seed=2):
        assert batch.obs.labels("kind").tolist() == labels[batch.index].tolist()
        assert (batch.x != matrix("counts")[rows[batch.index]]).nnz == 0


def stored_as(part, path, kind, number):
    kind = ["files", "compressed", "shards", "memory"][number] if kind == "mixed" else kind
    if kind == "memory":
        return part
    if kind == "shards":
        return cf.convert_to_shards(part, path, shard_size=20)
    part.write_h5ad(path.with_suffix(".h5ad"), compression="gzip" if kind == "compressed" else None)
    return path.with_suffix(".h5ad")


# What is written of them --------------------------------------------------------------------------


WRITTEN = list(FORMATS)[::2]


@pytest.mark.parametrize("name", fast(WRITTEN[::2], WRITTEN))
def test_shards_and_files_written_of_a_format_hold_the_table(tables, name, tmp_path):
    cells = tables.cells(name)
    cf.convert_to_shards(cells, tmp_path / "shards", shard_size=70)
    cf.export_h5ad(cells, tmp_path / "a.h5ad")
    back = cf.open(tmp_path / "shards", obs=cells.default_obs).read(ROWS)
    assert_holds(contents_of(back), expected_of(name, plan_of(ROWS)))
    adata = anndata.read_h5ad(tmp_path / "a.h5ad")
    assert list(adata.obs_names) == CELLS and list(adata.var_names) == GENES
    assert (matrix("counts") != adata.X).sum() == 0
    if name not in WITHOUT_OBS:
        pd.testing.assert_frame_equal(adata.obs.astype({"donor": object}), obs(), check_names=False)
