"""Skips that are looked at under CI=true, and the made files that let a plain clone run all."""

import os
import pathlib
import re
import subprocess
import sys

import h5py
import numpy as np
from real_files import CSR_FILES, DENSE_FILES, OTHER_FILES, matrix_of, read_anndata
from skips import unexpected_skip


def test_known_reasons_pass_and_others_do_not():
    assert not unexpected_skip("Skipped: needs a GPU", True)
    assert not unexpected_skip("Skipped: no seed 000 at /x", False)
    assert "no seed 000" in unexpected_skip("Skipped: no seed 000 at /x", True)
    assert "no h5py" in unexpected_skip("Skipped: no h5py", False)


SKIPPED = {
    "test_in_a_test.py": "import pytest\ndef test_a():\n    pytest.skip('no reason')\n",
    "test_in_a_module.py": "import pytest\npytest.importorskip('not_a_module')\n",
    "test_elsewhere.py": "import pytest\ndef test_a(monkeypatch):\n"
    "    monkeypatch.setenv('CI', '')\n    pytest.skip('no reason')\n",
}


def test_an_unexpected_skip_fails_under_ci_only(tmp_path):
    here = pathlib.Path(__file__).parent
    for name in ("conftest.py", "skips.py", "user_cache.py"):
        (tmp_path / name).write_text((here / name).read_text())
    (tmp_path / "stand_ins.py").write_text("make_stand_ins = None")  # imports much, and is not used
    for name, text in SKIPPED.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "CI": "true", "PYTHONPATH": str(tmp_path)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(
        [*command, "-rfE", "--continue-on-collection-errors"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert "1 failed, 1 skipped, 1 error" in done.stdout, done.stdout
    for name in ("test_in_a_test.py", "test_in_a_module.py"):
        assert re.search(f"{name}.*does not allow", done.stdout), done.stdout


def test_the_made_files_have_the_traps_of_the_real_ones(made_data):
    folder = made_data / "anndata"
    named = {*CSR_FILES, *DENSE_FILES, *OTHER_FILES}
    assert {f"anndata/{path.name}" for path in folder.iterdir()} == named

    def raw(name, group="X"):
        with h5py.File(folder / name) as file:
            return {key: file[group][key][:] for key in ("data", "indices", "indptr")}

    def descents(x):
        """Neighbours in a row that do not ascend, and those there are."""
        same_row = np.ones(len(x["indices"]) - 1, bool)
        ends = x["indptr"][1:-1]
        same_row[ends[(ends > 0) & (ends < len(x["indices"]))] - 1] = False
        return (np.diff(x["indices"])[same_row] < 0).sum(), same_row.sum()

    wide = raw("scp1884.h5ad")["data"]
    assert (wide.min(), wide.max(), wide.dtype) == (1, 40238, np.float32)
    assert 0 in np.diff(raw("zheng68k_165.h5ad")["indptr"])
    assert (raw("telencephalon_val.h5ad")["data"] == 0).sum() > 1000
    down, pairs = descents(raw("derived_mix_sc_dropseq.h5ad"))
    assert down == pairs > 0
    down, pairs = descents(raw("pbmc68k_reduced_v08.h5ad", "raw/X"))
    assert 0 < down < pairs
    repeated = read_anndata(folder / "sciplex3.h5ad")
    assert matrix_of(repeated, "X").nnz < repeated.X.nnz
    assert repeated.obs["cov_drug_dose_name"].nunique() == repeated.n_obs
    with h5py.File(folder / "sciplex3.h5ad") as file:
        assert file["obs/product_name/codes"].dtype == np.int16
    clusters = read_anndata(folder / "telencephalon_val.h5ad").obs["cluster_id"]
    assert clusters.cat.categories.dtype == np.int64 and clusters.isna().sum() > 100
    with h5py.File(folder / "derived_placenta_visium_csr.h5ad") as file:
        assert file["X/data"].compression == "lzf" and file["X/data"].dtype == np.int32
    mixes = [read_anndata(path) for path in sorted(folder.glob("derived_mix_*"))]
    union = set().union(*(mix.var_names for mix in mixes))
    common = set.intersection(*(set(mix.var_names) for mix in mixes))
    assert 0 < len(common) < min(mix.n_vars for mix in mixes) < len(union)
    assert sorted(mix.obs["cell_type"].cat.categories.size for mix in mixes) == [3, 3, 5]
    assert len({tuple(mix.obs.columns) for mix in mixes}) == 3
