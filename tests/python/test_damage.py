"""Damaged and exchanged files of shard directories: a named error, and never a wrong value."""

import pickle
import shutil
import subprocess

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from program import PROGRAM

import cellfeed as cf
from cellfeed.data.sharding import convert_to_shards
from cellfeed.errors import CellfeedError, CorruptDataError, InvalidArgumentError

N_CELLS, N_GENES = 40, 50


def _make_adata(seed):
    random = np.random.default_rng(seed)
    matrix = sp.csr_matrix(random.poisson(0.4, (N_CELLS, N_GENES)).astype("float32"))
    obs = pd.DataFrame(
        {
            "type": pd.Categorical(random.choice(["T", "B", "mast"], N_CELLS)),
            "depth": random.integers(0, 1000, N_CELLS),
        },
        index=[f"cell-{i}" for i in range(N_CELLS)],
    )
    return anndata.AnnData(matrix, obs, pd.DataFrame(index=[f"g{i}" for i in range(N_GENES)]))


def _convert(tmp_path, name, seed, layout="packed"):
    adata = _make_adata(seed)
    adata.write_h5ad(tmp_path / f"{name}.h5ad")
    convert_to_shards(
        tmp_path / f"{name}.h5ad", tmp_path / name, shard_size=20, layout=layout, overwrite=True
    )
    return adata, tmp_path / name


def _flips(path, number, seed):
    """Flip one bit of any file, yield what was flipped, and flip it back."""
    random = np.random.default_rng(seed)
    files = sorted(path.iterdir())
    for _ in range(number):
        file = files[random.integers(len(files))]
        sound = file.read_bytes()
        at = int(random.integers(len(sound)))
        if file.suffix == ".cells" and 256 <= at < 4096:
            at = 4096 + at % (len(sound) - 4096)
        damaged = bytearray(sound)
        damaged[at] ^= 1 << int(random.integers(8))
        file.unlink()
        file.write_bytes(damaged)
        yield f"{file.name} byte {at}"
        file.unlink()
        file.write_bytes(sound)


def _train(path):
    """Return all that a loader gives, in the order of the cells."""
    cells = cf.open(path)
    loader = cf.Loader(cells, cf.Streaming(), batch_size=16, obs=["type", "depth"])
    batches = list(loader)
    x = sp.vstack([batch.to_scipy() for batch in batches]).toarray()
    types = np.array(cells.categories("type"))[cells.obs_values("type")]
    codes = np.concatenate([np.asarray(batch.obs["type"]) for batch in batches])
    return x, types, codes, cells.obs_values("depth"), list(cells.var_names)


@pytest.mark.parametrize("layout", ["packed", "dense"])
def test_a_flipped_bit_is_an_error_or_has_no_effect(tmp_path, layout):
    adata, path = _convert(tmp_path, "shards", 1, layout)
    refused = 0
    for flipped in _flips(path, 200, 3):
        try:
            x, types, codes, depth, genes = _train(path)
        except CellfeedError:
            refused += 1
            continue
        np.testing.assert_array_equal(x, adata.X.toarray(), err_msg=flipped)
        np.testing.assert_array_equal(types, adata.obs["type"], err_msg=flipped)
        np.testing.assert_array_equal(codes, adata.obs["type"].cat.codes, err_msg=flipped)
        np.testing.assert_array_equal(depth, adata.obs["depth"], err_msg=flipped)
        assert genes == list(adata.var_names), flipped
    assert refused > 100
    _train(path)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["packed", "dense"])
def test_export_of_damaged_shards_fails_or_is_right(tmp_path, layout):
    adata, path = _convert(tmp_path, "shards", 1, layout)
    refused = 0
    for i, flipped in enumerate(_flips(path, 12, 4)):
        output = tmp_path / f"{i}.h5ad"
        done = subprocess.run(
            [PROGRAM, "export", path, "--output", output], capture_output=True, check=False
        )
        if done.returncode != 0:
            assert not output.exists(), flipped
            refused += 1
            continue
        exported = anndata.read_h5ad(output)
        np.testing.assert_array_equal(exported.X.toarray(), adata.X.toarray(), err_msg=flipped)
        pd.testing.assert_frame_equal(exported.obs, adata.obs, check_dtype=False)
    assert refused > 3


@pytest.mark.parametrize("extension", ["arrow", "parquet"])
def test_labels_of_another_data_set_are_refused(tmp_path, extension):
    _, path = _convert(tmp_path, "shards", 1)
    _, other = _convert(tmp_path, "other", 2)
    name = f"shard_000000.{extension}"
    shutil.copy(other / name, path / name)
    with pytest.raises(CorruptDataError, match="manifest"):
        _train(path)
        cf.open(path).obs_table()  # labels come from the .arrow, all else from the .parquet


def test_a_collection_open_across_an_overwrite_mixes_nothing(tmp_path):
    adata, path = _convert(tmp_path, "shards", 1)
    cells = cf.open(path)
    _convert(tmp_path, "shards", 2)
    with pytest.raises(CorruptDataError, match="written again"):
        cells.obs_values("type")
    np.testing.assert_array_equal(cells.read(slice(None)).to_scipy().toarray(), adata.X.toarray())


def test_a_pickled_collection_notices_an_overwrite(tmp_path):
    _, path = _convert(tmp_path, "shards", 1)
    cells = cf.open(path, verify="never")
    pickled = pickle.dumps(cells)
    assert pickle.loads(pickled).fingerprint == cells.fingerprint
    assert pickle.loads(pickled)._origin.options.verify == "never"
    _convert(tmp_path, "shards", 2)
    with pytest.raises(CorruptDataError, match="changed since"):
        pickle.loads(pickled)


def test_verify_is_always_or_never(tmp_path):
    _, path = _convert(tmp_path, "shards", 1)
    with pytest.raises(InvalidArgumentError, match='"always" or "never", not \'sometimes\''):
        cf.open(path, verify="sometimes")
