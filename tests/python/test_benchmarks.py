"""The benchmarks measure what they say: equal cells from every program, right statistics."""

import importlib
import json
import pathlib
import subprocess
import sys
import warnings
import xml.etree.ElementTree

import numpy as np
import pytest

LOADER = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "loader"
sys.path.insert(0, str(LOADER))

import make_data  # noqa: E402
import measure  # noqa: E402
import modes  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
from processes import Interpreters  # noqa: E402
from rivals import Atlas, selected_columns  # noqa: E402
from spread import Spread, ratios  # noqa: E402
from task import Task  # noqa: E402

anndata = pytest.importorskip("anndata")
pytest.importorskip("h5py")

PROGRAMS = [
    ("h5py_rows", "plain"),
    ("h5py_dataset", "plain"),
    ("h5py_sequential", "plain"),
    ("ann_collection", "gzip"),
    ("ann_loader", "plain"),
    ("memmap", "memmap"),
    ("torch_memory", "memmap"),
    ("mapped_collection", "plain"),
    ("scdataset", "plain"),
    ("annbatch", "annbatch"),
    ("tiledbsoma", "tiledbsoma"),
    ("cellfeed", "plain"),
    ("cellfeed", "gzip"),
    ("cellfeed", "packed"),
]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shop = make_data.Workshop(tmp_path_factory.mktemp("atlases"), Interpreters(), scale=0.005)
        shop.ensure("nnz300", "plain")
        shop.ensure("nnz300", "gzip")
    return shop


@pytest.fixture(scope="module")
def expected(workshop):
    """All cells as anndata reads them, dense: not one line shared with what is tested."""
    home = pathlib.Path(workshop.atlas_dir("nnz300"))
    return {
        data: np.concatenate(
            [anndata.read_h5ad(home / f"{data}_{i}.h5ad").X.toarray() for i in range(2)]
        )
        for data in ("plain", "gzip")
    }


def dense(x):
    if hasattr(x, "to_dense"):
        return x.to_dense().numpy()
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x)


def import_rival(name):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(f"rivals.{name}")
    except ImportError as error:
        pytest.skip(f"{name} is not installed: {error}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("output", ["csr", "selected"])
@pytest.mark.parametrize(("rival", "data"), PROGRAMS)
def test_an_epoch_of_each_program_is_each_cell_once_with_the_values_of_the_file(
    workshop, expected, rival, data, output
):
    module = import_rival(rival)
    workshop.ensure("nnz300", data)
    atlas = Atlas(workshop.atlas_dir("nnz300"))
    whole = expected["gzip" if data == "gzip" else "plain"]
    if output == "selected":
        whole = np.log1p(whole * (1e4 / whole.sum(axis=1, keepdims=True)))
        whole = whole[:, selected_columns(atlas.n_genes)]
    task = Task(
        rival, atlas="nnz300", data=data, batch_size=64, output=output, fetch_factor=2,
        access="block" if rival == "scdataset" else "random",
    )  # fmt: skip
    batches, n_cells, seen, totals = module.open_batches(task, atlas), 0, [], []
    while n_cells < atlas.n_cells:
        batch = next(batches)
        n_cells += batch.x.shape[0]
        totals.append(dense(batch.x) @ np.arange(whole.shape[1]))
        if batch.rows is not None:
            np.testing.assert_allclose(dense(batch.x), whole[batch.rows], rtol=1e-5)
            seen.append(np.array(batch.rows))
    # Programs that tell no rows: the same cells all the same, each weighted by its genes.
    weights = whole @ np.arange(whole.shape[1])
    np.testing.assert_allclose(np.sort(np.concatenate(totals)), np.sort(weights), rtol=1e-4)
    if seen:
        np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(atlas.n_cells))


def test_a_process_reports_rates_first_batch_and_diversity(workshop):
    workshop.ensure("nnz300", "memmap")
    task = Task("memmap", atlas="nnz300", data="memmap", batch_size=64)
    run = subprocess.run(
        [sys.executable, LOADER / "measure.py", task.to_json(), workshop.atlas_dir("nnz300"),
         "0.01", "2"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    result = json.loads(run.stdout.splitlines()[-1])
    assert len(result["rates"]) == 2 and min(result["rates"]) > 0
    assert result["first_batch_s"] > result["open_s"] > 0
    assert 2.0 < result["entropy_bits"] <= 3.0  # 64 random cells of eight equal types
    assert result["values_per_cell"] == pytest.approx(300, rel=0.1)


def test_a_program_that_is_not_installed_is_skipped_by_name(workshop, monkeypatch):
    monkeypatch.setitem(sys.modules, "rivals.annbatch", None)
    task = Task("annbatch", atlas="nnz300", data="annbatch")
    result = measure.main([task.to_json(), workshop.atlas_dir("nnz300"), "0", "1"])
    assert result["skipped"].startswith("annbatch: ")


def test_ratios_compare_the_rounds_and_not_all_with_all():
    spread = ratios([[10, 20, 30], [4]], [[10], [1]])
    assert spread == Spread(median=3.0, low=2.0, high=4.0)
    with pytest.raises(ValueError, match="2 rounds beside 1"):
        ratios([[1], [2]], [[1]])


def test_entropy_of_equal_shares_is_the_logarithm_of_their_number():
    assert measure.entropy_bits(np.repeat(np.arange(8), 5)) == pytest.approx(3.0)
    assert measure.entropy_bits(np.zeros(7, int)) == 0.0


def test_a_task_survives_its_json():
    task = Task("cellfeed", data="packed", options=(("gene_order", "mean"),), is_cold=True)
    assert Task.from_json(task.to_json()) == task


def test_what_other_programs_measured_stays_when_the_tables_are_written(tmp_path, workshop):
    path = tmp_path / "RESULTS.md"
    kept = f"{report.KEPT}\n\nTokens: 3x\n"
    path.write_text(f"# Old\n\n| old |\n\n{kept}")
    book = report.Book(tmp_path / "results.json")
    names = ("date", "processor", "memory", "kernel", "commit")
    book.machine = {**dict.fromkeys(names, "x"), "versions": {}}
    for _ in range(2):
        report.write(path, book, {}, [], workshop)
        text = path.read_text()
        assert text.endswith(kept) and text.count(report.KEPT) == 1
        assert "| old |" not in text and "### Every measurement" in text


def test_tables_say_whether_a_goal_was_reached(tmp_path):
    ours, rival = Task("cellfeed", data="packed"), Task("h5py_rows")
    book = report.Book(tmp_path / "results.json")
    book.add({ours: [{"rates": [300.0]}], rival: [{"rates": [100.0]}]}, {}, {})
    reached, missed = modes.Check("a", ours, 2, rival), modes.Check("b", ours, 4, rival)
    lines = report.table("t", [reached, missed], report.Book(book.path)).splitlines()
    assert lines[-2].endswith("| 3x (3 to 3) | >= 2x | reached |")
    assert lines[-1].endswith("| >= 4x | **missed** |")


def test_plots_are_well_formed_and_show_every_value():
    for text in (
        plot.bars("A < B", "cells/s", ["x"], {"one": [1234567.0], "none": [None]}),
        plot.lines("A & B", "cells/s", ["1", "2"], {"one": [10.0, 1234567.0]}),
    ):
        xml.etree.ElementTree.fromstring(text)
        assert "1.23 M" in text
