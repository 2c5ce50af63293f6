"""Shuffled shards: the documented order in plain Python, with every row and obs value."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from program import run
from real_files import assert_same_csr, read_anndata
from sampling_reference import Permutation, Stream

import cellfeed as cf
from cellfeed.data.sharding import convert_to_shards, validate_shard_dir

SHUFFLED_CELL = 66  # the purpose of docs/sampling.md


def order_of(seed: int, n_cells: int) -> np.ndarray:
    order = Permutation(Stream(seed, 0, SHUFFLED_CELL), 0, n_cells)
    return np.array([order[position] for position in range(n_cells)])


def files_of(folder) -> dict[str, bytes]:
    paths = pathlib.Path(folder).iterdir()
    return {path.name: path.read_bytes() for path in paths if not path.name.startswith(".")}


def random_atlas(n_cells: int, n_genes: int, seed: int) -> anndata.AnnData:
    rng = np.random.default_rng(seed)
    x = scipy.sparse.random(n_cells, n_genes, 0.1, "csr", np.float32, rng)
    x.data = np.ceil(x.data * 9)
    obs = pd.DataFrame(
        {
            "number": np.arange(n_cells),
            "label": pd.Categorical(rng.choice(["b", "a", "rare"], n_cells, p=[0.5, 0.49, 0.01])),
            "score": np.where(rng.random(n_cells) < 0.1, np.nan, rng.random(n_cells)),
            "text": [f"cell {i % 1000}" for i in range(n_cells)],
        },
        index=[f"{seed}_{i}" for i in range(n_cells)],
    )
    return anndata.AnnData(x, obs, pd.DataFrame(index=[f"g{i}" for i in range(n_genes)]))


def read_obs(folder) -> pd.DataFrame:
    parts = sorted(pathlib.Path(folder).glob("shard_*.parquet"))
    return pd.concat([pd.read_parquet(part) for part in parts], ignore_index=True)


def test_real_cells_and_their_obs_stand_where_the_reference_says(shared_data, tmp_path):
    source = shared_data / "anndata/scp1884.h5ad"
    adata = read_anndata(source)
    result = convert_to_shards(source, tmp_path / "s", shard_size=300, shuffle=True, seed=11)
    assert validate_shard_dir(result) is True
    order = order_of(11, adata.n_obs)
    batch = cf.open(result).read(slice(None), dtype="float64")
    assert_same_csr(batch.x, scipy.sparse.csr_matrix(adata.X[order]).astype(np.float64))
    obs = read_obs(result.path)
    assert list(obs["_index"]) == list(adata.obs_names[order])
    assert list(obs["_source_row"]) == list(order)
    for name in adata.obs:
        expected, actual = adata.obs[name].to_numpy()[order], obs[name].to_numpy()
        assert pd.Series(actual).astype(str).equals(pd.Series(expected).astype(str)), name


@pytest.fixture(scope="module")
def large_files(tmp_path_factory):
    """Two inputs, plain and compressed; more cells than a table of the order is made for."""
    folder = tmp_path_factory.mktemp("large")
    for i, n_cells in enumerate((40_000, 30_011)):
        adata = random_atlas(n_cells, 30, i)
        adata.write_h5ad(folder / f"plain_{i}.h5ad")
        adata.write_h5ad(folder / f"gzip_{i}.h5ad", compression="gzip")
    return folder


@pytest.mark.parametrize("kind", ["plain", "gzip"])
def test_several_inputs_are_one_order(large_files, tmp_path, kind):
    paths = [large_files / f"{kind}_{i}.h5ad" for i in range(2)]
    result = convert_to_shards(paths, tmp_path / "s", shard_size=9000, shuffle=True, seed=2**64 - 1)
    order = order_of(2**64 - 1, 70_011)
    adatas = [anndata.read_h5ad(path) for path in paths]
    x = scipy.sparse.vstack([adata.X for adata in adatas], format="csr")
    assert_same_csr(cf.open(result).read(slice(None)).x, x[order])
    obs = read_obs(result.path)
    expected = pd.concat([adata.obs.astype({"label": str}) for adata in adatas])
    expected = expected.iloc[order]
    assert list(obs["_index"]) == list(expected.index)
    for name in ("number", "score", "text"):
        np.testing.assert_array_equal(obs[name].to_numpy(), expected[name].to_numpy())
    assert list(obs["label"]) == list(expected["label"])
    assert list(obs["_source_file"]) == [str(paths[int(c >= 40_000)]) for c in order]
    assert list(obs["_source_row"]) == [c - 40_000 * (c >= 40_000) for c in order]


def test_shards_can_be_shuffled_again(large_files, tmp_path):
    plain = large_files / "plain_0.h5ad"
    once = convert_to_shards(plain, tmp_path / "once", shuffle=True, seed=1)
    twice = convert_to_shards(once.path, tmp_path / "twice", shuffle=True, seed=2)
    expected = order_of(1, 40_000)[order_of(2, 40_000)]
    obs = read_obs(twice.path)
    assert list(obs["_source_row"]) == list(expected)
    assert set(obs["_source_file"]) == {str(plain)}
    x = anndata.read_h5ad(plain).X[expected]
    assert_same_csr(cf.open(twice).read(slice(None)).x, scipy.sparse.csr_matrix(x))


KILLED = """
import sys, cellfeed
cellfeed.convert_to_shards(sys.argv[1], sys.argv[2], shard_size=5000, shuffle=True, seed=3,
                           resume=True, progress=lambda *a: print(a[0], a[1], flush=True))
"""


@pytest.mark.parametrize("phase", ["shuffling cells", "writing shards"])
def test_a_killed_process_is_continued_to_the_same_bytes(large_files, tmp_path, phase):
    source = str(large_files / "plain_0.h5ad")
    options = {"shard_size": 5000, "shuffle": True, "seed": 3}
    convert_to_shards(source, tmp_path / "whole", **options)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, source, str(tmp_path / "killed")],
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if line.startswith(phase):
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    left = [path.name for path in (tmp_path / "killed").iterdir()]
    assert not [name for name in left if "shuffled" in name], left
    convert_to_shards(source, tmp_path / "killed", resume=True, **options)
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")


def test_the_program_writes_the_same_bytes(large_files, tmp_path):
    source = large_files / "plain_0.h5ad"
    convert_to_shards(source, tmp_path / "python", shuffle=True, seed=4)
    run("shard", source, "--output-dir", tmp_path / "program", "--shuffle", "--seed", 4)
    assert files_of(tmp_path / "program") == files_of(tmp_path / "python")
    run("shard", source, "--output-dir", tmp_path / "default", "--shuffle", "--threads", 1)
    convert_to_shards(source, tmp_path / "zero", shuffle=True)
    assert files_of(tmp_path / "default") == files_of(tmp_path / "zero")


def test_wrong_options_are_refused(large_files, tmp_path):
    source = large_files / "plain_0.h5ad"
    said = run("shard", source, "--output-dir", tmp_path / "s", "--seed", 4, code=2)
    assert "--shuffle" in said
    run("shard", source, "--output-dir", tmp_path / "s", "--shuffle", "--seed", "-1", code=2)
    with pytest.raises(cf.errors.InvalidArgumentError, match=r"seed must be in .*not -1"):
        convert_to_shards(source, tmp_path / "s", shuffle=True, seed=-1)
    with pytest.raises(cf.errors.InvalidTypeError, match="seed must be an integer"):
        convert_to_shards(source, tmp_path / "s", shuffle=True, seed=0.5)
    assert not (tmp_path / "s").exists()
    convert_to_shards(source, tmp_path / "s", shuffle=True, seed=1)
    with pytest.raises(cf.errors.AlreadyExistsError, match="other inputs or options"):
        convert_to_shards(source, tmp_path / "s", shuffle=True, seed=2, resume=True)


def test_a_full_disk_leaves_nothing_of_the_shuffle(large_files, tmp_path):
    """Where root may mount one: a real file system that is too small for the temporary file."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small file system can be mounted by root only")
    try:
        target = disk / "s"
        options = {"layout": "dense", "shuffle": True, "memory_budget": "32MB"}
        paths = [large_files / f"plain_{i}.h5ad" for i in range(2)]
        with pytest.raises(cf.errors.NoSpaceError, match=r"shuffling(?s:.*)resume"):
            convert_to_shards(paths, target, **options)
        names = {path.name for path in target.iterdir()}
        assert names <= {"genes.parquet", "shard_metadata.partial.jsonl", ".lock"}, names
    finally:
        for _ in range(20):
            if subprocess.run(["umount", str(disk)], capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
