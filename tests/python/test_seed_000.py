"""Every Python block of the page on large-scale data runs as printed, every YAML block loads.

Only these things are changed or filled in: the package name (``scmodelforge`` is ``cellfeed``), a
file ``large_atlas.h5ad`` of real cells, and ``DataLoader``, which the page does not import.

The page lies beside the repository; CELLFEED_TEST_SEEDS names another folder.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml
from real_files import read_anndata
from torch.utils.data import DataLoader

import cellfeed as cf

SEEDS = Path(os.environ.get("CELLFEED_TEST_SEEDS", Path(__file__).parents[3] / "shared" / "seeds"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language):
    found = sorted(SEEDS.glob("000_*.txt"))
    if not found:
        pytest.skip(f"no seed 000 at {SEEDS}; CELLFEED_TEST_SEEDS names another folder")
    text = (
        found[0].read_text().replace("scModelForge", "cellfeed").replace("scmodelforge", "cellfeed")
    )
    return [match[2] for match in BLOCK.finditer(text) if match[1] == language]


def run(block, names):
    exec(compile(block, "seed 000", "exec"), names)
    return names


@pytest.fixture
def folder(shared_data, tmp_path, monkeypatch):
    """A working directory that holds ``large_atlas.h5ad``."""
    os.symlink(shared_data / "anndata/scp1884.h5ad", tmp_path / "large_atlas.h5ad")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_streaming_block(folder, capsys):
    [streaming] = [block for block in blocks("python") if "StreamingCellDataset" in block]
    names = run(streaming, {})
    adata = read_anndata(folder / "large_atlas.h5ad")
    [shape] = [int(n) for n in re.findall(r"Size\(\[(\d+)\]\)", capsys.readouterr().out)]
    expressed = (adata[:, names["vocab"].genes].X != 0).sum(axis=1)
    assert shape in np.asarray(expressed)
    assert sum(1 for _ in names["dataset"]) == adata.n_obs


def test_the_sharding_and_the_distributed_block(folder):
    sharding, _, distributed = blocks("python")
    names = run(sharding, {})
    adata = read_anndata(folder / "large_atlas.h5ad")
    vocab, dataset = names["vocab"], names["dataset"]
    assert len(vocab.genes) == 5000 and len(dataset) == adata.n_obs
    for row in (0, 500, 1019):
        cell = dataset[row]
        expected = adata[row, vocab.genes].X
        np.testing.assert_array_equal(cell.gene_ids, vocab.encode(vocab.genes)[expected.indices])
        np.testing.assert_array_equal(cell["expression"], expected.data)
        assert cell["gene_indices"] is cell.gene_ids
    # The layout of the page: numbered shards with their metadata, and one file about all.
    there = {path.name for path in (folder / "shards").iterdir()}
    assert {"shard_000000.parquet", "shard_metadata.json"} <= there

    names = run(distributed, {**names, "DataLoader": DataLoader})
    assert len(names["sampler"]) == 255  # 1,020 cells on 4 ranks
    sizes = [len(batch["n_genes"]) for batch in names["dataloader"]]
    assert sizes == [128, 127]


def test_the_ranks_of_the_distributed_block_share_the_cells(folder):
    from cellfeed.data.dataset import ShardedCellDataset
    from cellfeed.data.distributed import DistributedShardSampler

    cf.convert_to_shards("large_atlas.h5ad", "shards", shard_size=100)
    dataset = ShardedCellDataset("shards")
    seen = [
        list(DistributedShardSampler(dataset=dataset, num_replicas=4, rank=rank, shuffle=True))
        for rank in range(4)
    ]
    assert [len(rows) for rows in seen] == [255] * 4
    assert sorted(np.concatenate(seen)) == list(range(1020))


def test_dense_shards_have_the_files_of_the_page(folder):
    cf.convert_to_shards("large_atlas.h5ad", "shards", shard_size=600, layout="dense")
    there = {path.name for path in (folder / "shards").iterdir()}
    assert {f"shard_00000{k}.{kind}" for k in (0, 1) for kind in ("npy", "parquet")} <= there


def test_the_blocks_of_preprocessing_and_sharding_run(folder):
    """Those without a bucket; what a block calls by other names is linked or written."""
    shell, settings = blocks("bash"), blocks("yaml")
    os.symlink("large_atlas.h5ad", "raw_atlas.h5ad")
    (config,) = (block for block in settings if block.startswith("# preprocess_config.yaml"))
    Path("preprocess_config.yaml").write_text(config)
    Path("my_config.yaml").write_text(
        "data:\n  paths: [large_atlas.h5ad]\n  vocab: {n_genes: 5000}\n"
        "  preprocessing: {normalize: true, log_transform: true}\n"
    )
    verbs = [b for b in shell if re.match(r"cellfeed (shard|preprocess) ", b) and "s3://" not in b]
    assert [block.split()[1] for block in verbs].count("preprocess") == 2
    for block in verbs:
        block = block.replace("base_config.yaml", "my_config.yaml")
        for made in ("processed_atlas.h5ad", "shards"):
            if Path(made).exists():
                os.rename(made, f"{made}.{len(os.listdir())}")
        done = subprocess.run(["bash", "-euc", block], env=environment(), capture_output=True,
                              text=True, timeout=300, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        if "preprocess" in block:
            made = read_anndata("processed_atlas.h5ad")
            assert made.n_vars == 4000 and "log1p" in made.uns
        else:
            output = re.search(r"--output-dir (\S+)", block)[1]
            assert cf.open(output).n_vars == 5000
            assert cf.info(output)["processing"] == {"log1p": True, "normalize_total": 10000.0}


# What a laptop without GPUs does not finish in a minute; everything else is as printed.
SMALLER = {
    "batch_size: 256": "batch_size: 16",
    "num_epochs: 10": "num_epochs: 1",
    "d_model: 512": "d_model: 16",
    "n_layers: 8": "n_layers: 2",
    "n_genes: 2048": "n_genes: 256",
    "max_length: 2048": "max_length: 64",
}


@pytest.mark.slow
def test_the_complete_example_trains_on_four_devices(folder):
    """Its second and fourth step; copies of kinds of cells are called ``cell_type``."""
    adata = read_anndata("large_atlas.h5ad")[:300].copy()
    adata.obs["cell_type"] = adata.obs["Celltype"].astype(str).str[:1]
    adata.write_h5ad("atlas.h5ad")
    Path("base_config.yaml").write_text(
        "data:\n  paths: [atlas.h5ad]\n  vocab: {n_genes: 500}\n"
        "  preprocessing: {normalize: true, log_transform: true}\n"
    )
    (config,) = (block for block in blocks("yaml") if block.startswith("# train_large_atlas.yaml"))
    for printed, small in SMALLER.items():
        assert printed in config
        config = config.replace(printed, small)
    Path("train_large_atlas.yaml").write_text(config)
    shell = [b for b in blocks("bash") if "atlas_shards" in b or b.startswith("cellfeed train")]
    assert [b.split("cellfeed ")[1].split()[0] for b in shell] == ["shard", "train"]
    for block in shell:
        block = block.replace("--shard-size 200000", "--shard-size 50")
        done = subprocess.run(
            ["bash", "-euc", block], env={**environment(), "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    model = cf.training.load("runs/train_large_atlas/checkpoints/last.ckpt")
    assert model.specification.n_layers == 2
    assert model.embed("atlas_shards").obsm["X_cellfeed"].shape == (300, 16)


def environment():
    folder = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def flat(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def test_every_yaml_block_loads_and_means_what_it_says(tmp_path):
    found = blocks("yaml")
    assert len(found) == 16
    for number, block in enumerate(found):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block)
        said = yaml.safe_load(block)
        jsonschema.validate(said, cf.Config.schema())
        config = cf.Config.load(path)
        assert config.given == dict(flat(said)).keys()
        for name, value in flat(said):
            assert config[name] == value and type(config[name]) is type(value), name
        path.write_text(config.show())
        assert dict(cf.Config.load(path)) == dict(config)
