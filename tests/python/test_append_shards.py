"""Cells appended to shards are what one conversion of all files gives, and what anndata makes."""

import json
import pathlib
import shutil
import subprocess
import warnings

import anndata
import attack
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from pandas.testing import assert_frame_equal
from program import completed
from shard_reader import ShardDirectory

import cellfeed as cf
from cellfeed.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    MissingGenesWarning,
    NoSuchKeyError,
    NotFoundError,
    PrecisionError,
)

GENES = [f"gene{i}" for i in range(30)]


def make_cells(seed: int, n_cells: int, types: list[str], genes=GENES, **obs) -> anndata.AnnData:
    random = np.random.default_rng(seed)
    counts = random.poisson(0.6, (n_cells, len(genes))).astype(np.float32)
    frame = pd.DataFrame(
        {"cell_type": pd.Categorical(random.choice(types, n_cells), types), **obs},
        index=[f"{seed}-{i}" for i in range(n_cells)],
    )
    data = anndata.AnnData(scipy.sparse.csr_matrix(counts), obs=frame)
    data.var_names = list(genes)
    data.layers["twice"] = scipy.sparse.csr_matrix(2 * counts)
    data.obsm["X_pca"] = random.normal(size=(n_cells, 3))
    return data


@pytest.fixture
def files(tmp_path):
    """Three files of the same genes: columns, labels and types of columns differ."""
    a = make_cells(1, 90, ["T", "B"], depth=np.arange(90, dtype=np.int16), only_a="yes")
    b = make_cells(2, 70, ["B", "NK"], depth=np.arange(70) + 0.5, note=["x"] * 70)
    c = make_cells(3, 50, ["T", "ILC"], note=[None, "y"] * 25, is_late=True)
    for name, data in {"a": a, "b": b, "c": c}.items():
        data.write_h5ad(tmp_path / f"{name}.h5ad")
    return {"a": a, "b": b, "c": c, "folder": tmp_path}


def paths_of(files, names: str) -> list[pathlib.Path]:
    return [files["folder"] / f"{name}.h5ad" for name in names]


@pytest.fixture
def appended(files):
    shards = files["folder"] / "shards"
    first = cf.open(paths_of(files, "a"), layers=["twice"], obsm=["X_pca"])
    cf.convert_to_shards(first, shards, shard_size=40)
    cf.append_to_shards(paths_of(files, "b"), shards)
    cf.append_to_shards(paths_of(files, "c"), shards)
    return shards


def names_of(cells, column: str) -> np.ndarray:
    """The labels in the order of their codes."""
    codes = cells.encoders[column]
    return np.array(sorted(codes, key=codes.get), dtype=object)


def test_values_and_labels_are_those_of_anndata(files, appended):
    whole = anndata.concat([files[name] for name in "abc"], join="outer")
    cells = cf.open(appended, obs=["cell_type"], layers=["twice"], obsm=["X_pca"])
    assert len(cells) == 210
    labels = names_of(cells, "cell_type")
    assert labels.tolist() == ["B", "ILC", "NK", "T"]
    seen = np.zeros(210, dtype=int)
    loader = cf.Loader(cells, cf.BlockShuffling(block_size=4), batch_size=32, seed=3)
    for batch in loader:
        rows = batch.index
        seen[rows] += 1
        assert (batch.to_scipy() != whole.X[rows]).nnz == 0
        np.testing.assert_array_equal(labels[batch["cell_type"]], whole.obs["cell_type"].iloc[rows])
        assert (batch.layers["twice"] != whole.layers["twice"][rows]).nnz == 0
        pca = whole.obsm["X_pca"][rows].astype(np.float32)
        np.testing.assert_array_equal(batch.obsm["X_pca"], pca)
    assert (seen == 1).all()


def test_obs_is_that_of_one_conversion_and_an_export_that_of_anndata(files, appended):
    together = files["folder"] / "together"
    cf.convert_to_shards(
        cf.open(paths_of(files, "abc"), layers=["twice"], obsm=["X_pca"]), together, shard_size=40
    )
    folder = files["folder"]
    found = cf.open(appended)[:].to_anndata()
    wanted = cf.open(together)[:].to_anndata()
    # Columns come in the order in which shards have them first.
    assert_frame_equal(found.obs, wanted.obs, check_like=True)
    assert (found.X != wanted.X).nnz == 0
    cf.export_h5ad(appended, folder / "back.h5ad")
    back = anndata.read_h5ad(folder / "back.h5ad")
    whole = anndata.concat([files[name] for name in "abc"], join="outer")
    assert list(back.obs_names) == list(whole.obs_names)
    assert (back.X != whole.X).nnz == 0
    for column in whole.obs:
        ours, theirs = back.obs[column].astype(object), whole.obs[column].astype(object)
        np.testing.assert_array_equal(ours.isna(), theirs.isna(), column)
        assert list(ours[~ours.isna()]) == list(theirs[~theirs.isna()]), column
    np.testing.assert_array_equal(back.obsm["X_pca"], whole.obsm["X_pca"])
    assert back.obs["cell_type"].cat.categories.tolist() == ["B", "ILC", "NK", "T"]


def test_an_independent_reader_reads_them_and_verify_finds_nothing(files, appended):
    assert cf.data.validate_shard_dir(appended)
    directory = ShardDirectory(appended)
    whole = anndata.concat([files[name] for name in "abc"], join="outer").X.toarray()
    for cell in range(0, 210, 7):
        genes, values = directory.row(cell)
        row = np.zeros(len(GENES))
        row[genes] = values
        np.testing.assert_array_equal(row, whole[cell])
    manifest = json.loads((appended / "shard_metadata.json").read_text())
    assert [entry["first_cell"] for entry in manifest["appends"]] == [90, 160]
    described = cf.info(appended)
    assert [entry["n_cells"] for entry in described["appends"]] == [70, 50]
    assert not any(entry["shuffled"] for entry in described["appends"])


def test_what_was_opened_before_goes_on_and_its_state_is_refused_after(files):
    shards = files["folder"] / "shards"
    cf.convert_to_shards(paths_of(files, "a"), shards, shard_size=40)
    before = cf.open(shards, obs=["cell_type"])
    loader = cf.Loader(before, cf.BlockShuffling(block_size=2), batch_size=10, seed=1)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    cf.append_to_shards(paths_of(files, "c"), shards)
    rows = np.concatenate([batch.index for batch in batches])
    assert len(rows) == 80
    for batch in cf.Loader(before, cf.BlockShuffling(block_size=2), batch_size=10):
        assert (batch.to_scipy() != files["a"].X[batch.index]).nnz == 0
        types = names_of(before, "cell_type")
        np.testing.assert_array_equal(
            types[batch["cell_type"]], files["a"].obs["cell_type"].iloc[batch.index]
        )
    after = cf.open(shards, obs=["cell_type"])
    assert (len(before), len(after)) == (90, 140)
    fresh = cf.Loader(after, cf.BlockShuffling(block_size=2), batch_size=10, seed=1)
    with pytest.raises(InvalidArgumentError, match=r"other cells|collection"):
        fresh.load_state_dict(state)


def test_cells_come_from_memory_shards_and_collections(files):
    folder = files["folder"]
    shards = folder / "shards"
    cf.convert_to_shards(paths_of(files, "a"), shards, shard_size=40)
    cf.append_to_shards(files["b"], shards)
    cf.convert_to_shards(paths_of(files, "c"), folder / "others", shard_size=40)
    cf.append_to_shards(folder / "others", shards)
    extra = make_cells(4, 40, ["T", "B"], depth=np.arange(40))
    extra.write_h5ad(folder / "d.h5ad")
    chosen = cf.open(folder / "d.h5ad", genes=cf.open(shards).var_names).filter("depth >= 25")
    result = cf.append_to_shards(chosen, shards)
    assert result.n_cells_added == 15
    whole = anndata.concat([files["a"], files["b"], files["c"], extra[25:]])
    found = cf.open(result)[:].to_anndata()
    assert (found.X != whole.X).nnz == 0
    assert list(found.obs_names) == list(whole.obs_names)
    assert list(found.obs["cell_type"]) == list(whole.obs["cell_type"])
    with pytest.raises(InvalidArgumentError, match="var_names"):
        cf.append_to_shards(cf.open(folder / "d.h5ad")[:, GENES[:5]], shards)
    with pytest.raises(AlreadyExistsError, match=r"d\.h5ad"):
        cf.append_to_shards(folder / "d.h5ad", shards)


def test_genes_are_found_by_name_and_totals_kept(files):
    folder = files["folder"]
    shards = folder / "shards"
    cf.convert_to_shards(paths_of(files, "a"), shards, shard_size=40)
    genes = [*GENES[::-1][:25], *(f"new{i}" for i in range(10))]
    data = make_cells(5, 60, ["B"], genes)
    data.write_h5ad(folder / "d.h5ad")
    with pytest.raises(InvalidArgumentError, match=r"10 of its 35 genes are not in .*new0"):
        cf.append_to_shards(folder / "d.h5ad", shards)
    with pytest.raises(NoSuchKeyError, match=r"5 of the 30 genes .*gene0"):
        cf.append_to_shards(folder / "d.h5ad", shards, extra_genes="drop", missing_genes="error")
    assert len(cf.open(shards)) == 90
    with pytest.warns(MissingGenesWarning, match=r"5 of the 30 genes .*gene0"):
        result = cf.append_to_shards(folder / "d.h5ad", shards, extra_genes="drop")
    assert (result.n_missing_genes, result.n_genes_left_out) == (5, 10)
    frame = pd.DataFrame(data.X.toarray(), columns=genes)
    rows = frame.reindex(columns=GENES, fill_value=0).to_numpy()
    cells = cf.open(shards)
    np.testing.assert_array_equal(cells[90:].X.toarray(), rows)
    totals = frame.sum(axis=1).to_numpy()
    loader = cf.Loader(
        cells, cf.Streaming(), batch_size=150, transforms=[cf.NormalizeTotal(100.0)], output="dense"
    )
    (batch,) = loader
    wanted = np.concatenate([files["a"].X.toarray(), rows])
    sums = np.concatenate([files["a"].X.toarray().sum(axis=1), totals])
    np.testing.assert_allclose(
        batch.to_numpy(), wanted * (100 / np.where(sums > 0, sums, 1))[:, None], rtol=1e-5
    )
    directory = ShardDirectory(shards)
    assert [directory.total(cell) for cell in range(0, 150, 11)] == list(sums[::11])


@pytest.mark.parametrize(("missing", "is_warned"), [("warn", 1), ("zero", 0)])
def test_the_program_warns_once_of_missing_genes(files, missing, is_warned):
    shards = files["folder"] / "shards"
    cf.convert_to_shards(paths_of(files, "a"), shards)
    make_cells(5, 60, ["B"], GENES[:25]).write_h5ad(files["folder"] / "d.h5ad")
    done = completed(
        "append", files["folder"] / "d.h5ad", "--to", shards, "--missing-genes", missing
    )
    assert (done.stdout + done.stderr).count("5 of the 30 genes") == is_warned


def test_labels_are_right_in_shards_of_either_kind(files):
    """A column that was categorical, and is text in what is appended; and the other way round."""
    folder = files["folder"]
    for number, kinds in enumerate([("category", "object"), ("object", "category")]):
        parts = []
        for part, kind in enumerate(kinds):
            labels = np.array(["z", "a", "m"], dtype=object)[np.arange(30) % (2 + part)]
            data = make_cells(10 * number + part + 20, 30, ["B"], label=labels)
            data.obs["label"] = data.obs["label"].astype(kind)
            data.write_h5ad(folder / f"{number}{part}.h5ad")
            parts.append(data)
        shards = folder / f"kinds{number}"
        cf.convert_to_shards(folder / f"{number}0.h5ad", shards, shard_size=20)
        cf.append_to_shards(folder / f"{number}1.h5ad", shards)
        cells = cf.open(shards, obs=["label"])
        direct = cf.open([folder / f"{number}{part}.h5ad" for part in (0, 1)], obs=["label"])
        assert cells.encoders["label"] == direct.encoders["label"]
        names = names_of(cells, "label")
        wanted = np.concatenate([data.obs["label"].astype(object) for data in parts])
        np.testing.assert_array_equal(
            names[cells.read(slice(None), obs=["label"])["label"]], wanted
        )


@pytest.mark.filterwarnings("ignore:.* holds .* too, which:UserWarning")
def test_what_does_not_fit_is_refused_and_nothing_is_written(files):
    folder = files["folder"]
    shards = folder / "shards"
    cf.convert_to_shards(cf.open(paths_of(files, "a"), layers=["twice"]), shards, shard_size=40)
    before = {path.name: path.read_bytes() for path in shards.iterdir()}
    text = make_cells(6, 20, ["B"], depth=["deep"] * 20)
    bare = make_cells(7, 20, ["B"])
    del bare.layers["twice"]
    halves = make_cells(8, 20, ["B"])
    halves.X = halves.X * 0.3
    for name, data in {"text": text, "bare": bare, "halves": halves}.items():
        data.write_h5ad(folder / f"{name}.h5ad")
    with pytest.raises(InvalidArgumentError, match="depth"):
        cf.append_to_shards(folder / "text.h5ad", shards)
    with pytest.raises(NoSuchKeyError, match="twice"):
        cf.append_to_shards(folder / "bare.h5ad", shards)
    with pytest.raises(InvalidArgumentError, match="fractions, as normalised values are"):
        cf.append_to_shards(folder / "halves.h5ad", shards)
    cf.preprocess(folder / "a.h5ad", folder / "normalised.h5ad", n_top_genes=None)
    cf.convert_to_shards(paths_of(files, "b"), folder / "plain", shard_size=40)
    with pytest.raises(InvalidArgumentError, match=r"processed otherwise .*log1p"):
        cf.append_to_shards(folder / "normalised.h5ad", folder / "plain")
    with pytest.raises(AlreadyExistsError, match=r"a\.h5ad"):
        cf.append_to_shards([*paths_of(files, "c"), *paths_of(files, "a")], shards)
    with pytest.raises(NotFoundError):
        cf.append_to_shards(paths_of(files, "c"), folder)
    with pytest.raises(InvalidArgumentError, match="extra_genes"):
        cf.append_to_shards(paths_of(files, "c"), shards, extra_genes="keep")
    assert {path.name: path.read_bytes() for path in shards.iterdir()} == before


def test_values_become_the_type_of_the_shards_or_nothing_is_appended(files):
    folder = files["folder"]
    shards = folder / "shards"
    whole = make_cells(30, 40, ["B"])
    whole.X = whole.X.astype(np.int32)
    whole.write_h5ad(folder / "whole.h5ad")
    cf.convert_to_shards(folder / "whole.h5ad", shards, shard_size=20)
    cf.append_to_shards(paths_of(files, "c"), shards)
    assert cf.info(shards)["value_dtype"] == "int32"
    assert (cf.open(shards)[40:].X != files["c"].X).nnz == 0
    halves = make_cells(31, 40, ["B"])
    halves.X = halves.X * 0.5
    halves.write_h5ad(folder / "halves.h5ad")
    with pytest.raises(
        PrecisionError, match=r"halves.*5 does not fit int32, the type that the shards hold; conv"
    ):
        cf.append_to_shards(folder / "halves.h5ad", shards, force=True)
    for dtype, value, text in ((np.float64, 2.0**40, "1099511627776"), (np.int64, -(2**33), "-85")):
        wide = make_cells(32, 4, ["B"])
        wide.X = scipy.sparse.csr_matrix(np.full(wide.shape, value, dtype))
        wide.write_h5ad(folder / "wide.h5ad")
        with pytest.raises(PrecisionError, match=rf"gene 'gene0': {text}.*the shards hold"):
            cf.append_to_shards(folder / "wide.h5ad", shards)
    assert len(cf.open(shards)) == 90
    assert cf.data.validate_shard_dir(shards)


def test_the_layer_is_that_of_the_shards(files):
    folder = files["folder"]
    shards = folder / "shards"
    cf.convert_to_shards(cf.open(paths_of(files, "a"), layer="twice"), shards, shard_size=40)
    cf.append_to_shards(paths_of(files, "b"), shards)
    assert (files["b"].layers["twice"] != cf.open(shards)[90:].X).nnz == 0
    cells = cf.open(paths_of(files, "c"), genes=GENES)
    with pytest.warns(UserWarning, match="'X' was appended, and the shards hold 'layers/twice'"):
        cf.append_to_shards(cells, shards)


def test_uns_of_one_file_is_left_out_by_name(files):
    folder = files["folder"]
    shards = folder / "shards"
    files["a"].uns["colors"] = np.array(["red", "blue"])
    files["a"].write_h5ad(folder / "a.h5ad")
    cf.convert_to_shards(folder / "a.h5ad", shards, shard_size=40)
    with pytest.warns(UserWarning, match="uns and varm"):
        cf.append_to_shards(paths_of(files, "b"), shards)
    cf.export_h5ad(shards, folder / "back.h5ad")
    assert "colors" not in anndata.read_h5ad(folder / "back.h5ad").uns


def program(*words) -> subprocess.Popen:
    return subprocess.Popen(
        [attack.PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_of_two_writers_each_is_done_or_refused_by_name(files):
    folder = files["folder"]
    for attempt in range(4):
        shards = folder / f"shards{attempt}"
        cf.convert_to_shards(paths_of(files, "a"), shards, shard_size=40)
        runs = {name: program("append", folder / f"{name}.h5ad", "--to", shards) for name in "bc"}
        wanted = {"a": 90}
        for name, run in runs.items():
            _, errors = run.communicate(timeout=60)
            if run.returncode == 0:
                wanted[name] = {"b": 70, "c": 50}[name]
            else:
                assert run.returncode == 1, errors
                assert b"writ" in errors, errors
        assert len(wanted) > 1
        cells = cf.open(shards)
        assert len(cells) == sum(wanted.values())
        assert cf.data.validate_shard_dir(shards)
        names = {name.split("-")[0] for name in cells[:].to_anndata().obs_names}
        assert names == {{"a": "1", "b": "2", "c": "3"}[name] for name in wanted}


def test_a_full_disk_is_named_and_the_old_shards_are_whole(files):
    folder = files["folder"]
    shards = folder / "shards"
    cf.convert_to_shards(paths_of(files, "a"), shards, shard_size=40)
    before = {path.name: path.read_bytes() for path in shards.iterdir()}
    words = ["append", *paths_of(files, "bc"), "--to", shards]
    for n in (1, 3, 6, 12):
        done = attack.run(words, shards, attack.Fault("pwrite", n, "ENOSPC", str(shards)))
        assert done.code == 1, n
        assert "No space left on device" in done.errors
        for name, content in before.items():
            assert (shards / name).read_bytes() == content, name
        assert cf.data.validate_shard_dir(shards)
    assert attack.run([*words, "--resume"], shards).code == 0
    assert len(cf.open(shards)) == 210


def test_the_program_appends_and_says_so(files):
    shards = files["folder"] / "shards"
    cf.convert_to_shards(paths_of(files, "a"), shards, shard_size=40)
    run = program(
        "append", *paths_of(files, "b"), "--to", shards, "--filter", "depth < 20", "--json"
    )
    out, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    said = json.loads(out)
    assert (said["n_cells_added"], said["n_shards_added"], said["n_cells"]) == (20, 1, 110)
    manifest = json.loads((shards / "shard_metadata.json").read_text())
    assert manifest["appends"][0]["selection"]["steps"] == ["filter: depth < 20"]
    again = program("append", *paths_of(files, "b"), "--to", shards)
    _, errors = again.communicate(timeout=60)
    assert again.returncode == 1
    assert b"b.h5ad" in errors
    assert b"--force" in errors
    said_of = subprocess.run([attack.PROGRAM, "info", shards], capture_output=True, check=True)
    assert b"20 of 110 cells, behind the others" in said_of.stdout


def test_a_copy_of_appended_shards_reads_alike_and_a_missing_file_is_named(files, appended):
    moved = files["folder"] / "moved"
    shutil.copytree(appended, moved)
    assert (cf.open(moved)[:].X != cf.open(appended)[:].X).nnz == 0
    name = "shard_000003.g1.cells"
    (moved / name).unlink()
    with pytest.raises(NotFoundError, match=name):
        cf.open(moved)


def test_cells_of_one_shard_are_not_appended_again_with_the_others(files, tmp_path):
    cf.convert_to_shards(paths_of(files, "a"), tmp_path / "shards", progress=False)
    others = tmp_path / "others"
    cf.convert_to_shards(paths_of(files, "b"), others, shard_size=20, progress=False)
    genes = cf.open(tmp_path / "shards").var_names
    third = cf.open(others, genes=genes)[40:60]
    assert cf.append_to_shards(third, tmp_path / "shards").n_cells_added == 20
    with pytest.raises(AlreadyExistsError, match="may be there twice then"):
        cf.append_to_shards(others, tmp_path / "shards")
    assert len(cf.open(tmp_path / "shards")) == 110
    with pytest.warns(UserWarning, match="there twice now"):
        forced = cf.append_to_shards(others, tmp_path / "shards", force=True)
    assert forced.n_cells_added == 70
    assert sum("there twice" in text for text in forced.warnings) == 1


def write_genes(path, genes, ids, base=0, cells=3):
    """Every cell has 1, 2, ... plus `base` in its columns."""
    values = np.tile(np.arange(1, len(genes) + 1) + base, (cells, 1)).astype(np.float32)
    var = pd.DataFrame({} if ids is None else {"gene_ids": ids}, index=genes)
    obs = pd.DataFrame(index=[f"{path.stem}{i}" for i in range(cells)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that names repeat
        anndata.AnnData(scipy.sparse.csr_matrix(values), obs=obs, var=var).write_h5ad(path)


@pytest.mark.parametrize(
    ("genes", "ids"),
    [
        (["B", "A", "A", "C"], ["e2", "e3", "e1", "e4"]),  # the other A is first
        (["B", "A", "A", "C"], None),  # nothing tells which is first
        (["A", "B", "A", "C"], ["e3", "e2", "e1", "e4"]),
        (["A", "A-1", "B", "A"], ["e1", "e9", "e2", "e3"]),
        (["A", "B", "C"], ["e3", "e2", "e4"]),  # one that the shards may have as A-1
        (["A", "B", "B", "C"], None),
    ],
)
def test_repeated_names_are_no_evidence_of_which_gene_it_is(tmp_path, genes, ids):
    """As opening both together has it."""
    write_genes(tmp_path / "one.h5ad", ["A", "B", "A", "C"], ["e1", "e2", "e3", "e4"])
    write_genes(tmp_path / "two.h5ad", genes, ids, 10)
    cf.convert_to_shards(cf.open(tmp_path / "one.h5ad", make_unique=True), tmp_path / "shards")
    names = cf.open(tmp_path / "shards").var_names
    chosen = cf.open(tmp_path / "two.h5ad", genes=names, make_unique=True, missing_genes="zero")
    with pytest.raises(InvalidArgumentError, match="names that repeat do not say which genes"):
        cf.append_to_shards(chosen, tmp_path / "shards")
    with pytest.raises(InvalidArgumentError, match="names that repeat do not say which genes"):
        cf.open([tmp_path / "shards", tmp_path / "two.h5ad"], join="outer", make_unique=True)


def test_unique_names_are_not_appended_to_numbered_ones_without_evidence(tmp_path):
    write_genes(tmp_path / "one.h5ad", ["A", "B", "A"], ["e1", "e2", "e3"])
    cf.convert_to_shards(cf.open(tmp_path / "one.h5ad", make_unique=True), tmp_path / "shards")
    for ids in (None, ["e1", "e3", "e2"]):
        write_genes(tmp_path / "two.h5ad", ["A-1", "A", "B"], ids, 10)
        with pytest.raises(InvalidArgumentError, match="names that repeat do not say which genes"):
            cf.append_to_shards(tmp_path / "two.h5ad", tmp_path / "shards")
    assert len(cf.open(tmp_path / "shards")) == 3
    write_genes(tmp_path / "two.h5ad", ["A-1", "A", "B"], ["e3", "e1", "e2"], 10)
    cf.append_to_shards(tmp_path / "two.h5ad", tmp_path / "shards")
    x = cf.open(tmp_path / "shards")[:].to_numpy()
    np.testing.assert_array_equal(x[[0, 3]], [[1, 2, 3], [12, 13, 11]])


@pytest.mark.parametrize("ids", [["e1", "e2", "e3", "e4"], None])
def test_repeated_names_that_are_known_to_be_the_same_are_appended(tmp_path, ids):
    genes = ["A", "B", "A", "C"]
    write_genes(tmp_path / "one.h5ad", genes, ids)
    write_genes(tmp_path / "two.h5ad", genes, ids, 10)
    cf.convert_to_shards(cf.open(tmp_path / "one.h5ad", make_unique=True), tmp_path / "shards")
    names = cf.open(tmp_path / "shards").var_names
    cells = cf.open(tmp_path / "two.h5ad", genes=names, make_unique=True)
    cf.append_to_shards(cells, tmp_path / "shards")
    cells = cf.open(tmp_path / "shards")
    assert list(cells.var_names) == ["A", "B", "A-1", "C"]
    np.testing.assert_array_equal(cells[[0, 3]].X.toarray(), [[1, 2, 3, 4], [11, 12, 13, 14]])


def test_names_that_look_numbered_are_appended_as_they_are(tmp_path):
    """NKX2 and NKX2-1 are two genes of many atlases."""
    genes = ["NKX2", "NKX2-1", "C"]
    write_genes(tmp_path / "one.h5ad", genes, None)
    write_genes(tmp_path / "two.h5ad", genes[::-1], None, 10)
    cf.convert_to_shards(tmp_path / "one.h5ad", tmp_path / "shards")
    cf.append_to_shards(tmp_path / "two.h5ad", tmp_path / "shards")
    cells = cf.open(tmp_path / "shards")
    np.testing.assert_array_equal(cells[[0, 3]].X.toarray(), [[1, 2, 3], [13, 12, 11]])


def test_repeated_values_of_a_var_key_of_shards_are_numbered(tmp_path):
    write_genes(tmp_path / "one.h5ad", ["A", "B", "C"], ["e1", "e2", "e1"])
    cf.convert_to_shards(tmp_path / "one.h5ad", tmp_path / "shards")
    cells = cf.open(tmp_path / "shards", var_key="gene_ids", make_unique=True)
    assert list(cells.var_names) == ["e1", "e2", "e1-1"]
    with pytest.raises(InvalidArgumentError, match="repeat"):
        cf.open(tmp_path / "shards", var_key="gene_ids")
