"""The task-shaped pages of docs/ run as they stand there: Python, files to write, shell, output.

Blocks of a page run in order in a folder that holds an atlas. A Python block that begins with
``# name.py`` is written to that file; a ``text`` block is what the shell block before it printed.
"""

import os
import pathlib
import re
import subprocess
import sys

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from mtx_files import random_counts, write_mtx, write_program
from user_cache import rows_folder

import cellfeed as cf

DOCS = pathlib.Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# (\w+\.py)\n")


def write_file(path: pathlib.Path, n_cells: int, donors: list[str]) -> None:
    """Cells of two kinds that differ in their counts; one in ten without a label."""
    random = np.random.default_rng(n_cells)
    kinds = random.choice(["B cell", "T cell"], n_cells, p=[0.8, 0.2]).astype(object)
    rates = np.where(kinds[:, None] == "B cell", np.linspace(0.1, 2, 40), np.linspace(2, 0.1, 40))
    kinds[random.random(n_cells) < 0.1] = None
    obs = pd.DataFrame(
        {
            "cell_type": pd.Categorical(kinds, categories=["B cell", "T cell"]),
            "donor": pd.Categorical(random.choice(donors, n_cells)),
        },
        index=[f"{path.stem}-{row}" for row in range(n_cells)],
    )
    var = pd.DataFrame(index=[f"gene{column}" for column in range(40)])
    x = scipy.sparse.csr_matrix(random.poisson(rates).astype(np.float32))
    anndata.AnnData(x, obs=obs, var=var).write_h5ad(path)


@pytest.fixture
def atlas(tmp_path, monkeypatch):
    (tmp_path / "atlas").mkdir()
    write_file(tmp_path / "atlas" / "one.h5ad", 1500, ["donor 1", "donor 2"])
    write_file(tmp_path / "atlas" / "two.h5ad", 700, ["donor 2", "donor 3"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_shell(code: str) -> str:
    """Its stdout, by the programs of this environment; warnings are left to the program."""
    folder = pathlib.Path(sys.executable).parent
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_page(name: str) -> dict:
    """Run every block of a page; the names that its Python left."""
    page = DOCS / name
    text, names, printed = page.read_text(), {}, ""
    n_run = 0
    for match in BLOCK.finditer(text):
        language, code = match[1], match[2]
        file_name = FILE_NAME.match(code)
        if language == "python" and file_name:
            pathlib.Path(file_name[1]).write_text(code)
        elif language == "python":
            line = text.count("\n", 0, match.start()) + 1
            exec(compile("\n" * line + code, str(page), "exec"), names)
        elif language == "bash":
            printed = run_shell(code)
        elif language == "text":
            assert printed == code
        n_run += 1
    assert n_run >= 3, f"{page} has hardly a block: is it written otherwise?"
    return names


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_training(atlas):
    names = run_page("training.md")
    assert names["classes"] == ["B cell", "T cell"]
    assert len(names["train_rows"]) + len(names["test_rows"]) == 2200
    assert min(names["weights"]) < 1 < max(names["weights"])
    assert names["scores"][-1] > 0.9
    x, y = names["x"], names["y"]
    assert x.is_sparse_csr and x.shape == (len(y), 40)
    assert len(names["predicted_types"]) == 700
    drawn = names["balanced"].get_indices(names["cells"], seed=0)
    labels = names["cells"].obs_values("cell_type")[drawn]
    assert labels.min() == 0 and set(drawn) <= set(names["train_rows"])
    assert abs(np.mean(labels) - 0.5) < 0.05


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what scvi-tools and Lightning say of this machine
def test_scvi(atlas):
    names = run_page("scvi.md")
    assert names["adata"].obsm["X_scVI"].shape == (2200, 10)
    assert names["small"].n_vars == 30
    assert names["latent"].shape == (700, 10)
    kinds = pd.concat([anndata.read_h5ad(path).obs for path in sorted(atlas.glob("atlas/*"))])
    assert names["data"].label_keys.tolist() == ["B cell", "T cell", "Unknown"]
    assert set(names["predicted"]) <= {"B cell", "T cell"} and len(names["predicted"]) == 2200
    assert (names["data"].labels_ == "Unknown").sum() == kinds["cell_type"].isna().sum() > 0


def test_tokens(atlas):
    names = run_page("tokens.md")
    assert names["batch"].shape == names["tensors"]["input_ids"].shape
    assert names["labels"].shape == (128,)
    share = names["is_predicted"].sum() / (names["masked"].lengths - 1).sum()
    assert 0.1 < share < 0.2
    assert len(set(names["small"].input_ids.ravel()) - {0, 3}) == 20


def test_configuration(atlas):
    names = run_page("configuration.md")
    assert names["cells"].n_vars == 30
    assert [len(batch) for batch in names["loader"]] == [128] * 17 + [24]


def test_preprocessing(atlas):
    names = run_page("preprocessing.md")
    assert names["batch"].x.shape == (256, 20)
    assert names["refused"] is not None


@pytest.mark.slow
def test_many_machines(atlas):
    run_page("many_machines.md")
    assert len(cf.open("processed").var_names) == 20


@pytest.mark.slow
def test_distributed(atlas):
    run_page("distributed.md")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what Lightning says of this machine
def test_lightning(atlas):
    run_page("lightning.md")


def test_packed_cache(atlas):
    anndata.read_h5ad("atlas/one.h5ad").write_h5ad("atlas.h5ad", compression="gzip")
    names = run_page("packed_cache.md")
    assert len(names["shards"]) == len(names["cells"]) == 1500


@pytest.mark.slow
def test_runs(atlas):
    names = run_page("runs.md")
    assert names["vectors"].shape == (700, 32)
    truth = cf.open("atlas/two.h5ad").obs["cell_type"]
    known = truth.notna().to_numpy()
    right = names["labels"].astype(str)[known] == truth.astype(str)[known]
    assert right.mean() > 0.9
    assert (atlas / "runs" / "kinds" / "report.html").is_file()


@pytest.mark.slow
def test_cloud(atlas, s3, monkeypatch):
    boto3 = pytest.importorskip("boto3")
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=s3.url)
    client.create_bucket(Bucket="atlas")
    try:
        for name in ("one", "two"):
            client.upload_file(f"atlas/{name}.h5ad", "atlas", f"raw/{name}.h5ad")
        names = run_page("cloud.md")
        assert len(names["cells"]) == 2200
        assert names["batch"].x.shape == (512, 40)
        assert len(cf.open("s3://atlas/shards")) == 1500
        assert len(list(pathlib.Path("copies").glob("*-*.h5ad"))) == 2
        assert len(list(pathlib.Path("blocks").glob("blocks-*"))) == 2
    finally:
        cf.set_storage_options("s3://some-public-bucket", {})
        for each in client.list_objects_v2(Bucket="atlas").get("Contents", []):
            client.delete_object(Bucket="atlas", Key=each["Key"])
        client.delete_bucket(Bucket="atlas")


def test_mapped_collection(atlas, capsys):
    names = run_page("mapped_collection.md")
    assert len(names["weights"]) == 2200 and names["x"].shape[1] == 40
    assert capsys.readouterr().out == "40 genes in the first file\n"


def test_other_orders(atlas):
    stored = anndata.read_h5ad(atlas / "atlas" / "one.h5ad")
    stored.X = stored.X.tocsc()
    stored.write_h5ad(atlas / "atlas_csc.h5ad")
    counts = random_counts(20, 30)
    write_mtx(atlas / "filtered_feature_bc_matrix", counts)
    for prefix in ("GSM1_", "GSM2_"):
        write_mtx(atlas / "GSE12345", counts, prefix=prefix)
    write_program(atlas / "DGE_filtered", "parse", counts)
    names = run_page("other_orders.md")
    assert (names["cells"][:].x.toarray() == np.vstack([counts.toarray()] * 2)).all()
    assert (cf.open("atlas_csc.h5ad")[:].x.toarray() == stored.X.toarray()).all()
    for folder in (rows_folder(atlas / "atlas_csc.h5ad"), atlas / "rows"):
        assert any(folder.rglob("*.cells"))
    assert (cf.open("shards")[:].x.toarray() == stored.X.toarray()).all()


def test_parquet(atlas, capsys):
    names = run_page("parquet.md")
    assert capsys.readouterr().out == "[[2. 0. 1.]]\n['TP53', 'CD4']\n"
    assert names["cells"].obs["age"].tolist() == [63, 41]
    shards = cf.open("drugs", obs=["drug"])
    assert list(shards.var_names) == ["TP53", "CD4", "CD8A"]
    assert shards[:].x.toarray().tolist() == [[2, 0, 1], [0, 3, 0]]


def test_series(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run_page("series.md")
    assert capsys.readouterr().out.splitlines()[:2] == [
        "890 3",
        "698 torch.Size([60, 2]) torch.Size([5]) ALPHA 2024-01-26T00:00:00.000000000",
    ]
    assert names["rows"].shape == (890, 2)


def test_tuning(atlas):
    names = run_page("tuning.md")
    assert names["stats"]["cells"] == 2200
    assert (atlas / "rate.svg").read_text().startswith("<svg")


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_sampling(atlas):
    names = run_page("guide_sampling.md")
    n = len(names["dataset"])
    assert len(names["remaining"]) == n - 3 > 0
