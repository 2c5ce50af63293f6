"""The program on real files: what goes through shards and back equals what anndata reads."""

import json
import signal
import subprocess

import anndata
import attack
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from program import PROGRAM, run

pytestmark = pytest.mark.skipif(
    not PROGRAM, reason="the cellfeed program is not installed beside this Python"
)


def assert_same_data(actual: anndata.AnnData, expected: anndata.AnnData) -> None:
    """Same values, dtypes, names, columns, categories and their order."""
    assert scipy.sparse.issparse(actual.X)
    assert actual.X.dtype == expected.X.dtype
    assert actual.shape == expected.shape
    assert actual.X.nnz == expected.X.nnz
    assert (expected.X.tocsr() != actual.X).nnz == 0
    pd.testing.assert_frame_equal(actual.obs, expected.obs, check_names=False)
    pd.testing.assert_frame_equal(actual.var, expected.var, check_names=False)


def make_atlas(path, n_cells=3000, n_genes=200, seed=0):
    """A made-up .h5ad written by anndata itself."""
    rng = np.random.default_rng(seed)
    matrix = scipy.sparse.random(
        n_cells, n_genes, 0.2, "csr", np.float32, rng, lambda n: rng.integers(1, 90, n)
    )
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical.from_codes(
                rng.integers(-1, 3, n_cells), ["b", "a", "c", "unused"][:4]
            ),
            "stage": pd.Categorical.from_codes(
                rng.integers(0, 2, n_cells), ["late", "early"], ordered=True
            ),
            "donor": [f"donor {i % 7}" for i in range(n_cells)],
            "n_counts": rng.integers(0, 2**62, n_cells),
            "score": rng.normal(size=n_cells).astype(np.float32),
            "is_doublet": rng.random(n_cells) < 0.1,
            "maybe": pd.array([None if i % 5 == 0 else i for i in range(n_cells)], dtype="Int32"),
        },
        index=[f"cell_{seed}_{i}" for i in range(n_cells)],
    )
    var = pd.DataFrame({"length": np.arange(n_genes)}, index=[f"gene_{i}" for i in range(n_genes)])
    anndata.AnnData(matrix, obs=obs, var=var).write_h5ad(path)
    return anndata.read_h5ad(path)


CSR_FILES = [
    "derived_mix_sc_celseq2.h5ad",
    "derived_mix_sc_celseq2_5cl_p1.h5ad",
    "derived_mix_sc_dropseq.h5ad",
    "derived_placenta_visium_csr.h5ad",
    "scp1884.h5ad",
    "telencephalon_val.h5ad",
    "zheng68k_165.h5ad",
]


@pytest.mark.slow
@pytest.mark.parametrize("gene_order", ["source", "mean"])
@pytest.mark.parametrize("name", CSR_FILES)
def test_real_files_survive_shards_and_export(shared_data, tmp_path, name, gene_order):
    source = shared_data / "anndata" / name
    run(
        "shard",
        source,
        "--output-dir",
        tmp_path / "s",
        "--shard-size",
        300,
        "--gene-order",
        gene_order,
    )
    run("verify", tmp_path / "s")
    run("export", tmp_path / "s", "--output", tmp_path / "back.h5ad")
    assert_same_data(anndata.read_h5ad(tmp_path / "back.h5ad"), anndata.read_h5ad(source))


def test_a_file_of_anndata_with_every_column_type_survives(tmp_path):
    expected = make_atlas(tmp_path / "a.h5ad")
    run("shard", tmp_path / "a.h5ad", "--output-dir", tmp_path / "s", "--shard-size", 700)
    run("export", tmp_path / "s", "--output", tmp_path / "back.h5ad", "--compression", "gzip")
    assert_same_data(anndata.read_h5ad(tmp_path / "back.h5ad"), expected)


def test_several_files_are_what_anndata_concatenates(tmp_path):
    parts = [
        make_atlas(tmp_path / f"{i}.h5ad", n_cells=500, n_genes=120 - 20 * i, seed=i)
        for i in range(3)
    ]
    inputs = [tmp_path / f"{i}.h5ad" for i in range(3)]
    message = run("shard", *inputs, "--output-dir", tmp_path / "s", code=1)
    assert "join" in message
    for join in ("inner", "outer"):
        run("shard", *inputs, "--output-dir", tmp_path / join, "--join", join, "--shard-size", 400)
        run("export", tmp_path / join, "--output", tmp_path / f"{join}.h5ad")
        actual = anndata.read_h5ad(tmp_path / f"{join}.h5ad")
        expected = anndata.concat(parts, join=join)[:, actual.var_names]
        assert (actual.X != expected.X).nnz == 0
        assert list(actual.obs_names) == list(expected.obs_names)
        for column in ("n_counts", "score", "is_doublet", "donor"):
            assert (actual.obs[column] == expected.obs[column]).all(), column
        for column in ("cell_type", "stage"):
            assert (
                actual.obs[column].astype(object).fillna("-")
                == expected.obs[column].astype(object).fillna("-")
            ).all()


def test_simulated_cells_come_from_the_rows_they_name(shared_data, tmp_path):
    like = shared_data / "anndata" / "scp1884.h5ad"
    n = 600
    words = ["simulate", "--like", like, "--cells", n, "--seed", 3, "--order", "Celltype"]
    run(*words, "--output", tmp_path / "a.h5ad")
    run(*words, "--threads", 1, "--compression", "gzip", "--output", tmp_path / "b.h5ad")
    made, again, real = (
        anndata.read_h5ad(p) for p in (tmp_path / "a.h5ad", tmp_path / "b.h5ad", like)
    )
    assert_same_data(again, made)
    source = made.obs["source_cell"].to_numpy()
    drawn = real.X.tocsr()[source]
    assert (drawn < made.X).nnz == 0
    kept = made.X.sum(axis=1).A1 / drawn.sum(axis=1).A1
    assert np.quantile(kept, [0.01, 0.99]) == pytest.approx([0.7, 1], abs=0.02)
    assert abs(kept.mean() - 0.85) < 0.01
    types = made.obs["Celltype"].astype(str).to_numpy()
    assert (types == real.obs["Celltype"].astype(str).to_numpy()[source]).all()
    assert (types[1:] != types[:-1]).sum() + 1 == len(set(types))
    assert abs(np.bincount(source, minlength=real.n_obs).mean() - n / real.n_obs) < 1e-9


def test_a_killed_program_is_resumed_to_the_same_bytes(tmp_path):
    make_atlas(tmp_path / "a.h5ad", n_cells=20000)
    arguments = ["shard", tmp_path / "a.h5ad", "--shard-size", 1500, "--threads", 2, "--quiet"]
    log = tmp_path / "calls"
    whole = attack.run(
        [*arguments, "--output-dir", "{out}"], tmp_path / "whole", log=(log, "whole/")
    )
    assert whole.code == 0, whole.errors
    calls = log.read_text().split()
    n_killed = 0
    for at in np.random.default_rng(1).integers(0, len(calls), 6).tolist():
        n, what = calls[: at + 1].count(calls[at]), ("kill", "died")[at % 2]
        fault = attack.Fault(calls[at], n, what, "killed/")
        done = attack.run(
            [*arguments, "--resume", "--output-dir", "{out}"], tmp_path / "killed", fault
        )
        assert done.code in (0, -signal.SIGKILL), done.errors
        n_killed += done.code != 0
        run(
            "info",
            tmp_path / "killed",
            code=0 if (tmp_path / "killed" / "shard_metadata.json").exists() else 1,
        )
    assert n_killed > 0
    run(*arguments, "--resume", "--output-dir", tmp_path / "killed")
    files = {p.name for p in (tmp_path / "whole").iterdir() if not p.name.startswith(".")}
    assert files == {p.name for p in (tmp_path / "killed").iterdir() if not p.name.startswith(".")}
    for name in files:
        assert (tmp_path / "whole" / name).read_bytes() == (
            tmp_path / "killed" / name
        ).read_bytes(), name


def test_a_full_disk_is_a_clear_error_and_is_resumed(tmp_path):
    make_atlas(tmp_path / "a.h5ad", n_cells=20000)
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        arguments = ["shard", tmp_path / "a.h5ad", "--output-dir", disk / "s", "--shard-size", 2000]
        message = run(*arguments, code=1)
        assert "space" in message.lower()
        assert "--resume" in message
        subprocess.run(["mount", "-o", "remount,size=40m", disk], check=True)
        run(*arguments, "--resume")
        run("verify", disk / "s")
    finally:
        subprocess.run(["umount", disk], check=True)


def test_info_says_the_same_of_a_file_and_of_its_shards(tmp_path):
    make_atlas(tmp_path / "a.h5ad")
    run("shard", tmp_path / "a.h5ad", "--output-dir", tmp_path / "s")
    of_file, of_shards = (
        json.loads(run("info", "--json", tmp_path / name)) for name in ("a.h5ad", "s")
    )
    for key in ("n_cells", "n_genes", "nnz", "value_dtype"):
        assert of_file[key] == of_shards[key], key
    columns = {column["name"]: column for column in of_shards["obs"]}
    assert columns["cell_type"] == {
        "name": "cell_type",
        "type": "categorical",
        "n_categories": 4,
        "ordered": False,
    }
    assert columns["stage"]["ordered"]
    assert of_shards["not_finite"] == 0


def test_values_that_are_not_finite_are_kept_and_counted(tmp_path):
    adata = make_atlas(tmp_path / "a.h5ad", n_cells=50)
    adata.X.data[:3] = [np.nan, np.inf, -np.inf]
    adata.write_h5ad(tmp_path / "n.h5ad")
    assert "NaN" in run("shard", tmp_path / "n.h5ad", "--output-dir", tmp_path / "s")
    assert json.loads(run("info", "--json", tmp_path / "s"))["not_finite"] == 3
    run("export", tmp_path / "s", "--output", tmp_path / "back.h5ad")
    np.testing.assert_array_equal(anndata.read_h5ad(tmp_path / "back.h5ad").X.data, adata.X.data)


def test_nullable_columns_stay_nullable_with_nothing_missing(tmp_path):
    obs = pd.DataFrame(
        {
            "n": pd.array([1, 2, 3], dtype="Int64"),
            "b": pd.array([True, False, True], dtype="boolean"),
        },
        index=["a", "b", "c"],
    )
    source = anndata.AnnData(scipy.sparse.eye(3, 4, format="csr", dtype=np.float32), obs=obs)
    source.write_h5ad(tmp_path / "in.h5ad")
    run("shard", tmp_path / "in.h5ad", "--output-dir", tmp_path / "shards")
    run("export", tmp_path / "shards", "--output", tmp_path / "out.h5ad")
    back = anndata.read_h5ad(tmp_path / "out.h5ad")
    assert_same_data(back, anndata.read_h5ad(tmp_path / "in.h5ad"))
    assert back.obs["n"].dtype == "Int64"
    assert back.obs["b"].dtype == "boolean"
