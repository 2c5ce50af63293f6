"""Shards without some genes keep each cell's total over all of them, for NormalizeTotal.

The reference is numpy and scanpy over the source files.
"""

import json
import pathlib
import runpy
import signal
import subprocess
import sys
from itertools import product

import anndata
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scanpy
import scipy.sparse
import xxhash
from program import run
from tiers import fast

import cellfeed as cf
from cellfeed.errors import CorruptDataError, InvalidArgumentError

ShardDirectory = runpy.run_path(str(pathlib.Path(__file__).with_name("shard_reader.py")))[
    "ShardDirectory"
]
GENES = [["g3", "x", "a", "b", "y"], ["b", "z", "a", "g3"]]
KEPT = ["g3", "a", "b"]  # those of both, in the first one's order
SIZE = "_library_size"


def make_file(path, number, n_cells=60):
    rng = np.random.default_rng(number)
    counts = rng.poisson(1.5, (n_cells, len(GENES[number]))).astype(np.float32)
    counts[:, 1] += 1  # a gene that the join drops: no cell is empty, some have nothing else
    counts[::7, [0, 2, 3]] = 0
    obs = pd.DataFrame(
        {"row": np.arange(n_cells), "kind": pd.Categorical(rng.choice(["u", "v"], n_cells))},
        index=[f"{number}_{i}" for i in range(n_cells)],
    )
    adata = anndata.AnnData(scipy.sparse.csr_matrix(counts), obs, pd.DataFrame(index=GENES[number]))
    adata.write_h5ad(path)
    return adata


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    for number in range(2):
        make_file(folder / f"{number}.h5ad", number)
    return sorted(folder.glob("*.h5ad"))


def normalised(files, genes):
    """Every cell by name: scanpy over all genes of its file, then the genes."""
    cells = {}
    for path in files:
        adata = anndata.read_h5ad(path)
        scanpy.pp.normalize_total(adata, target_sum=1e4)
        scanpy.pp.log1p(adata)
        frame = adata.to_df().reindex(columns=genes, fill_value=0)
        cells.update({name: frame.loc[name].to_numpy() for name in frame.index})
    return cells


def totals(files):
    return {
        name: total
        for adata in map(anndata.read_h5ad, files)
        for name, total in zip(adata.obs_names, np.ravel(adata.X.sum(axis=1)), strict=True)
    }


def expect_as_scanpy(cells, files, genes=KEPT):
    expected = normalised(files, genes)
    for output in ("csr", "dense"):
        for shown in (genes, genes[::-1][:2]):
            batch = cells.read(
                slice(None),
                transforms=[cf.NormalizeTotal(1e4), cf.Log1p(), cf.SelectGenes(shown)],
                output=output,
            )
            assert list(batch.var_names) == shown
            at = [genes.index(name) for name in shown]
            x = batch.to_numpy()
            assert len(x) == len(expected)
            for name, row in zip(batch.obs_names, x, strict=True):
                np.testing.assert_allclose(row, expected[name][at], rtol=1e-5)
    # and as the sources themselves give
    sources = cf.open(files, genes=genes, missing_genes="zero")
    loader = cf.Loader(cells, cf.BlockShuffling(4), batch_size=32, transforms=[cf.NormalizeTotal()])
    direct = sources.read(slice(None), transforms=[cf.NormalizeTotal()])
    by_name = dict(zip(direct.obs_names, direct.to_numpy(), strict=True))
    for batch in loader:
        for name, row in zip(batch.obs_names, batch.to_numpy(), strict=True):
            np.testing.assert_allclose(row, by_name[name], rtol=1e-5)


def expect_sizes(folder, files):
    """What an independent reader finds in the bytes."""
    shards, expected = ShardDirectory(folder), totals(files)
    assert shards.manifest["library_sizes"] is True
    for cell in range(len(shards)):
        obs = shards.obs(cell)
        assert shards.total(cell) == expected[obs["_index"]]
        assert SIZE not in obs and SIZE not in shards.fixed_obs(cell)


# Every two of these in every way.
PAIRS = [
    ("packed", False, "source", "inner"), ("packed", True, "mean", "vocabulary"),
    ("dense", False, "mean", "vocabulary"), ("dense", True, "source", "vocabulary"),
    ("dense", True, "mean", "inner"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "shuffle", "gene_order", "how"),
    fast(
        PAIRS,
        product(["packed", "dense"], [False, True], ["source", "mean"], ["inner", "vocabulary"]),
    ),
)
def test_totals_are_those_of_all_genes(files, tmp_path, layout, shuffle, gene_order, how):
    genes = KEPT if how == "inner" else ["b", "nowhere", "g3"]
    chosen = {"join": "inner"} if how == "inner" else {"genes": genes, "missing_genes": "zero"}
    cf.convert_to_shards(
        cf.open(files, **chosen), tmp_path / "s", shard_size=25, layout=layout, shuffle=shuffle,
        seed=3, gene_order=gene_order,
    )  # fmt: skip
    run("verify", tmp_path / "s")
    expect_sizes(tmp_path / "s", files)
    cells = cf.open(tmp_path / "s", genes=genes, missing_genes="zero")
    expect_as_scanpy(cells, files, genes)


def test_it_is_not_a_column_of_obs(files, tmp_path):
    cf.convert_to_shards(cf.open(files, join="inner"), tmp_path / "s")
    cells = cf.open(tmp_path / "s")
    assert SIZE not in cells.obs_names
    with pytest.raises(KeyError, match=SIZE):
        cf.open(tmp_path / "s", obs=[SIZE])
    assert SIZE not in pq.read_schema(tmp_path / "s" / "shard_000000.parquet").names
    assert SIZE not in run("info", tmp_path / "s")


def test_shards_with_all_genes_have_no_such_column(files, tmp_path):
    for name, options in {"one": {}, "outer": {"join": "outer"}}.items():
        inputs = files[:1] if name == "one" else files
        cf.convert_to_shards(cf.open(inputs, **options), tmp_path / name)
        shards = ShardDirectory(tmp_path / name)
        assert shards.manifest["library_sizes"] is False
        assert SIZE.encode() not in (tmp_path / name / "shard_000000.arrow").read_bytes()
        assert shards.total(5) == totals(files)[shards.obs(5)["_index"]]


def test_shards_of_shards_keep_the_totals_of_the_files(files, tmp_path):
    cf.convert_to_shards(cf.open(files, join="inner"), tmp_path / "inner", shard_size=50)
    cf.convert_to_shards(tmp_path / "inner", tmp_path / "same", shuffle=True, seed=1)
    expect_sizes(tmp_path / "same", files)
    expect_as_scanpy(cf.open(tmp_path / "same"), files)
    cf.convert_to_shards(cf.open(tmp_path / "same", genes=["a"]), tmp_path / "fewer")
    expect_sizes(tmp_path / "fewer", files)
    expect_as_scanpy(cf.open(tmp_path / "fewer"), files, ["a"])


def test_inputs_that_know_their_totals_stand_beside_others(files, tmp_path):
    cf.convert_to_shards(cf.open(files[0], genes=["b", "a"]), tmp_path / "few")
    mixed = [tmp_path / "few", files[1]]
    expect_as_scanpy(cf.open(mixed, join="inner"), files, ["b", "a"])
    cf.convert_to_shards(cf.open(mixed, join="outer"), tmp_path / "both", shuffle=True)
    expect_sizes(tmp_path / "both", files)


def test_an_export_has_them_in_obs(files, tmp_path):
    cf.convert_to_shards(cf.open(files, join="inner"), tmp_path / "s", shard_size=33)
    expected = totals(files)
    for inputs, join in ((tmp_path / "s", None), (files, "inner")):
        cf.export_h5ad(cf.open(inputs, join=join), tmp_path / "back.h5ad", overwrite=True)
        back = anndata.read_h5ad(tmp_path / "back.h5ad")
        assert list(back.obs.columns) == ["row", "kind", SIZE]
        assert back.obs[SIZE].to_dict() == expected
        cells = cf.open(tmp_path / "back.h5ad")
        expect_as_scanpy(cells, files)
        expect_as_scanpy(cf.open(anndata.read_h5ad(tmp_path / "back.h5ad")), files)
        # and on from there
        cf.convert_to_shards(tmp_path / "back.h5ad", tmp_path / "again", overwrite=True)
        expect_sizes(tmp_path / "again", files)
        cf.simulate(tmp_path / "back.h5ad", 20, tmp_path / "made.h5ad", overwrite=True)
        assert SIZE not in anndata.read_h5ad(tmp_path / "made.h5ad").obs
    cf.export_h5ad(cf.open(files, join="outer"), tmp_path / "outer.h5ad")
    assert SIZE not in anndata.read_h5ad(tmp_path / "outer.h5ad").obs


def test_totals_are_of_x_and_of_nothing_else(files, tmp_path):
    cf.export_h5ad(cf.open(files, join="inner"), tmp_path / "a.h5ad")
    adata = anndata.read_h5ad(tmp_path / "a.h5ad")
    adata.layers["twice"] = adata.X * 2
    adata.write_h5ad(tmp_path / "b.h5ad")
    x = cf.open(tmp_path / "b.h5ad", layer="twice").read(
        slice(None), transforms=[cf.NormalizeTotal()]
    )
    own = np.maximum(np.ravel(adata.X.sum(axis=1)), 1)[:, None]
    np.testing.assert_allclose(x.to_numpy(), adata.X.toarray() * 1e4 / own, rtol=1e-5)
    cf.convert_to_shards(cf.open(tmp_path / "b.h5ad", layer="twice"), tmp_path / "s")
    assert ShardDirectory(tmp_path / "s").manifest["library_sizes"] is False
    assert SIZE not in cf.open(tmp_path / "s").obs_names


@pytest.mark.parametrize("values", [["a"] * 60, np.arange(60), np.r_[np.nan, np.arange(59.0)]])
def test_a_column_of_that_name_that_is_none_is_refused(files, tmp_path, values):
    adata = anndata.read_h5ad(files[0])
    adata.obs[SIZE] = values
    adata.write_h5ad(tmp_path / "a.h5ad")
    cells = cf.open(tmp_path / "a.h5ad")
    if np.asarray(values).dtype == float:  # NaN is a total that no cell has
        with pytest.raises(InvalidArgumentError, match="sum to nan: cell 0"):
            cells.read(slice(None), transforms=[cf.NormalizeTotal()])
        return
    with pytest.raises(InvalidArgumentError, match=f"{SIZE}.*rename it"):
        cells.read(slice(None), transforms=[cf.NormalizeTotal()])
    cells.read(slice(None))


def test_totals_of_changed_values_are_refused_by_name(files, tmp_path):
    cf.convert_to_shards(cf.open(files[0], genes=["b", "a"]), tmp_path / "few")
    for inputs in ([tmp_path / "few"], [files[0], tmp_path / "few"]):
        cells = cf.open(inputs, genes=["b", "a"])
        last = cf.NormalizeTotal(force=True)
        for first in (cf.Log1p(), cf.NormalizeTotal(5)):
            with pytest.raises(InvalidArgumentError, match=r"NormalizeTotal first") as caught:
                cf.Loader(cells, cf.Streaming(), transforms=[first, last])
            assert "few" in str(caught.value) and type(first).__name__ in str(caught.value)
        cf.Loader(cells, cf.Streaming(), transforms=[cf.Log1p(), cf.SelectGenes(["a"])])
    cf.Loader(cf.open(files[0]), cf.Streaming(), transforms=[cf.Log1p(), last])


def test_values_that_cancel_out_are_refused(tmp_path):
    adata = anndata.AnnData(scipy.sparse.csr_matrix(np.array([[1, -1, 0], [0, 0, 4]], np.float32)),
                            var=pd.DataFrame(index=list("abc")))  # fmt: skip
    adata.write_h5ad(tmp_path / "a.h5ad")
    cf.convert_to_shards(cf.open(tmp_path / "a.h5ad", genes=["a", "c"]), tmp_path / "s")
    with pytest.raises(InvalidArgumentError, match="cancel out: cell 0"):
        cf.open(tmp_path / "s").read(slice(None), transforms=[cf.NormalizeTotal()])


def test_an_exported_file_whose_values_were_changed_is_refused(files, tmp_path):
    cf.convert_to_shards(cf.open(files[0], genes=["b", "a"]), tmp_path / "few")
    cf.export_h5ad(tmp_path / "few", tmp_path / "few.h5ad")
    adata = anndata.read_h5ad(tmp_path / "few.h5ad")
    adata.X = adata.X * 1000
    adata.write_h5ad(tmp_path / "changed.h5ad")
    with pytest.raises(InvalidArgumentError, match="remove its obs column '_library_size'"):
        cf.open(tmp_path / "changed.h5ad").read(slice(None), transforms=[cf.NormalizeTotal()])


KILLED = """
import sys, cellfeed
cells = cellfeed.open(sys.argv[3:], join="inner")
cellfeed.convert_to_shards(cells, sys.argv[1], shard_size=500, seed=3, threads=1, resume=True,
                           shuffle=sys.argv[2] == "True",
                           progress=lambda *a: print(a[0], a[1], flush=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_killed_conversion_is_continued_to_the_same_totals(tmp_path, shuffle):
    for number in range(2):
        make_file(tmp_path / f"{number}.h5ad", number, 20_000)
    files = sorted(map(str, tmp_path.glob("*.h5ad")))
    arguments = [sys.executable, "-c", KILLED, str(tmp_path / "s"), str(shuffle), *files]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("writing shards"):
                break
        process.send_signal(signal.SIGKILL)
    options = {"shard_size": 500, "seed": 3, "shuffle": shuffle}
    cells = cf.open(files, join="inner")
    cf.convert_to_shards(cells, tmp_path / "s", resume=True, **options)
    cf.convert_to_shards(cells, tmp_path / "whole", **options)
    names = sorted(p.name for p in (tmp_path / "whole").iterdir() if not p.name.startswith("."))
    for name in names:
        assert (tmp_path / "s" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    expect_sizes(tmp_path / "s", files)


def test_a_file_without_its_column_is_refused(files, tmp_path):
    cf.convert_to_shards(files[0], tmp_path / "all")
    cf.convert_to_shards(cf.open(files[0], genes=["b", "a"]), tmp_path / "few")
    name, manifest = "shard_000000.arrow", tmp_path / "few" / "shard_metadata.json"
    other = (tmp_path / "all" / name).read_bytes()
    (tmp_path / "few" / name).write_bytes(other)
    with pytest.raises(CorruptDataError, match=name):
        cf.open(tmp_path / "few").read(slice(None), transforms=[cf.NormalizeTotal()])
    forged = json.loads(manifest.read_text())
    forged["shards"][0]["fixed_obs"].update(
        bytes=len(other), checksum=xxhash.xxh3_64_hexdigest(other)
    )
    text = json.dumps({**forged, "checksum": "0" * 16}, indent=2, ensure_ascii=False) + "\n"
    checksum = xxhash.xxh3_64_hexdigest(text.encode())
    manifest.write_text(text.replace('"checksum": "' + "0" * 16, f'"checksum": "{checksum}'))
    with pytest.raises(CorruptDataError, match="last column must be '_library_size'"):
        cf.open(tmp_path / "few").read(slice(None), transforms=[cf.NormalizeTotal()])
