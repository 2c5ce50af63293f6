"""cellfeed plan and bench, and loaders that tune themselves."""

import json

import numpy as np
import pytest
from program import PROGRAM, run

import cellfeed as cf

pytestmark = pytest.mark.skipif(
    not PROGRAM, reason="the cellfeed program is not installed beside this Python"
)


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    """2,000 cells in runs of one type, plain and as shards."""
    import anndata
    import pandas as pd
    import scipy.sparse

    folder = tmp_path_factory.mktemp("atlas")
    rng = np.random.default_rng(0)
    counts = scipy.sparse.random(2000, 300, 0.1, format="csr", random_state=rng, dtype=np.float32)
    counts.data = np.ceil(counts.data * 20)
    kinds = pd.Categorical(np.repeat([f"type {k}" for k in range(10)], 200))
    obs = pd.DataFrame({"kind": kinds}, index=[f"cell_{i}" for i in range(2000)])
    adata = anndata.AnnData(counts, obs=obs)
    adata.write_h5ad(folder / "atlas.h5ad")
    adata.write_h5ad(folder / "gzip.h5ad", compression="gzip")
    run("shard", folder / "atlas.h5ad", "--output-dir", folder / "shards", "--quiet")
    return folder


def plan(path, *options):
    return json.loads(run("plan", path, "--json", *options))


def test_plan_counts_batches_as_the_loader_does(atlas):
    cells = cf.open(atlas / "shards")
    for world, batch in [(1, 64), (3, 64), (4, 33)]:
        said = plan(atlas / "shards", "--batch-size", batch, "--world-size", world)
        loader = cf.Loader(
            cells, cf.BlockShuffling(8), batch_size=batch, rank=world - 1, world_size=world
        )
        batches = [len(rows) for rows in loader.plan()]
        assert said["batches_per_rank"] == len(loader) == len(batches)
        assert said["last_batch_rows"] == batches[-1]
        assert said["samples"] == world * sum(batches)
        assert said["padded"] == world * sum(batches) - 2000


def test_plan_foretells_the_label_entropy(atlas):
    cells = cf.open(atlas / "shards", obs="kind")
    said = plan(
        atlas / "shards",
        "--batch-size",
        100,
        "--block-size",
        50,
        "--fetch-factor",
        4,
        "--label",
        "kind",
    )
    loader = cf.Loader(cells, cf.BlockShuffling(50), batch_size=100, fetch_factor=4)
    bits = []
    for _ in range(20):
        for batch in loader:
            shares = np.bincount(batch.index // 200) / len(batch)  # 200 cells of each kind
            bits.append(-sum(share * np.log2(share) for share in shares if share > 0))
    assert loader.stats()["label_entropy_bits"]["kind"] == pytest.approx(np.mean(bits), abs=1e-6)
    assert said["label_entropy_bits"] == pytest.approx(np.mean(bits), abs=0.1)
    assert said["random_entropy_bits"] > said["label_entropy_bits"] + 0.3
    assert any("entropy" in w["warning"] and "block size" in w["better"] for w in said["warnings"])


def test_plan_warns_of_read_amplification_and_of_too_few_groups(atlas):
    said = plan(atlas / "gzip.h5ad", "--block-size", 1, "--fetch-factor", 1, "--batch-size", 16)
    assert said["bytes_read_per_rank"] > 2 * said["bytes_used_per_rank"]
    assert any("bytes are read" in w["warning"] for w in said["warnings"])
    said = plan(
        atlas / "shards",
        "--world-size",
        8,
        "--partition",
        "group",
        "--batch-size",
        64,
        "--fetch-factor",
        16,
    )
    assert any("8 ranks" in w["warning"] for w in said["warnings"])
    text = run("plan", atlas / "shards", "--label", "kind")
    assert "batches per rank" in text
    assert "label entropy" in text


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--label", "nothing"], "nothing"),
        (["--world-size", 3, "--remainder", "error"], "2000"),
    ],
)
def test_plan_refuses_what_cannot_be(atlas, options, word):
    assert word in run("plan", atlas / "shards", *options, code=1)


def test_bench_suggests_a_setting_that_keeps_the_diversity(atlas, tmp_path):
    said = json.loads(
        run("bench", atlas / "shards", "--label", "kind", "--batch-size", 100, "--seconds", 0.02,
            "--plot", tmp_path / "rate.svg", "--json")
    )  # fmt: skip
    assert len(said["points"]) >= 10
    assert all(point["cells_per_second"] > 0 for point in said["points"])
    assert said["suggested"]["label_entropy_bits"] >= 0.98 * said["random_entropy_bits"]
    assert (tmp_path / "rate.svg").read_text().startswith("<svg")
    assert "<- suggested" in run("bench", atlas / "shards", "--seconds", 0.01)


def test_loader_applies_what_it_measured(atlas):
    cells = cf.open(atlas / "shards", obs="kind")
    loader = cf.Loader(cells, cf.BlockShuffling(7), batch_size=100, tune=True)
    assert loader.strategy.block_size == loader.tuning["block_size"] != 7
    assert loader.tuning["label_entropy_bits"] >= 0.98 * loader.tuning["random_entropy_bits"]
    assert loader.fetch_factor == loader.tuning["fetch_factor"]
    rows = np.concatenate([batch.index for batch in loader])
    assert sorted(rows) == list(range(2000))


def test_tuning_refuses_what_it_cannot_judge(atlas):
    cells = cf.open(atlas / "shards")
    with pytest.raises(cf.errors.CellfeedError, match="label column"):
        cf.Loader(cells, cf.BlockShuffling(8), tune=True)
    with pytest.raises(cf.errors.CellfeedError, match="BlockShuffling"):
        cf.Loader(cells, cf.Streaming(), tune="kind")
    with pytest.raises(cf.errors.CellfeedError, match="disagree"):
        cf.Loader(cells, cf.BlockShuffling(8), tune="kind", rank=0, world_size=2)


def test_every_access_reads_the_same(atlas):
    expected = cf.open(atlas / "shards")[::7].x
    for access in ("map", "pread", "uring", "direct"):
        got = cf.open(atlas / "shards", access=access)[::7].x
        assert (got != expected).nnz == 0
    with pytest.raises(cf.errors.CellfeedError, match="access"):
        cf.open(atlas / "shards", access="telepathy")


@pytest.mark.parametrize("verb", ["plan", "bench"])
def test_a_wrong_byte_size_is_a_usage_error(atlas, verb):
    assert "--memory-budget" in run(verb, atlas / "shards", "--memory-budget", "lots", code=2)
