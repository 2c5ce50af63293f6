"""Shards made from Python: what goes in comes out, and damage is found and named."""

import os
import pathlib
import shutil
import threading

import anndata
import numpy as np
import pytest
from pandas.testing import assert_frame_equal
from real_files import CSR_FILES, assert_same_csr, csr_layers, genes_of, matrix_of, read_anndata
from tiers import fast

import cellfeed as cf
from cellfeed.data.sharding import convert_to_shards, validate_shard_dir
from cellfeed.data.vocab import GeneVocab


def files_of(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.fixture(scope="module")
def shards(shared_data, tmp_path_factory):
    """scp1884 in four packed shards; tests copy it before they damage it."""
    folder = tmp_path_factory.mktemp("shards") / "scp1884"
    convert_to_shards(shared_data / "anndata/scp1884.h5ad", folder, shard_size=300)
    return folder


@pytest.fixture
def copied(shards, tmp_path):
    return shutil.copytree(shards, tmp_path / "copy")


# Files like another one that the same test reads.
ALIKE = [f"anndata/derived_mix_sc_{name}.h5ad" for name in ("celseq2", "celseq2_5cl_p1")]
EXPORTED_ALIKE = [
    *ALIKE, "anndata/derived_mix_sc_dropseq.h5ad", "anndata/dentategyrus_100obs_layers.h5ad",
    "anndata/scp1884.h5ad", "anndata/zheng68k_165.h5ad",
]  # fmt: skip


@pytest.mark.parametrize("name", fast(set(CSR_FILES) - set(ALIKE), CSR_FILES))
@pytest.mark.parametrize("gene_order", ["source", pytest.param("mean", marks=pytest.mark.slow)])
def test_every_row_equals_anndata(shared_data, tmp_path, name, gene_order):
    adata = read_anndata(shared_data / name)
    for layer in csr_layers(shared_data / name):
        expected = matrix_of(adata, layer)
        result = convert_to_shards(
            cf.open(shared_data / name, layer=layer),
            tmp_path / layer,
            shard_size=701,
            gene_order=gene_order,
        )
        assert (result.n_cells, result.n_genes, result.nnz) == (*expected.shape, expected.nnz)
        assert validate_shard_dir(result) is True
        cells = cf.open(result)
        assert sorted(cells.var_names) == sorted(genes_of(adata, layer))
        if gene_order == "source":
            assert list(cells.var_names) == genes_of(adata, layer)
        batch = cf.open(result, genes=genes_of(adata, layer)).read(slice(None), dtype="float64")
        assert_same_csr(batch.x, expected.astype(np.float64))


def test_dense_shards_equal_anndata_and_are_plain_npy(shared_data, tmp_path):
    adata = read_anndata(shared_data / "anndata/zheng68k_165.h5ad")
    convert_to_shards(
        shared_data / "anndata/zheng68k_165.h5ad", tmp_path / "d", layout="dense", shard_size=100
    )
    assert validate_shard_dir(tmp_path / "d")
    np.testing.assert_array_equal(cf.open(tmp_path / "d")[:].to_numpy(), adata.X.toarray())
    mapped = np.load(tmp_path / "d" / "shard_000001.npy", mmap_mode="r")
    np.testing.assert_array_equal(mapped, adata.X[100:].toarray())


def test_files_with_different_genes_become_one_directory(shared_data, tmp_path):
    paths = sorted((shared_data / "anndata").glob("derived_mix_sc_*.h5ad"))
    expected = anndata.concat(
        [read_anndata(path) for path in paths], join="outer", index_unique="-"
    )
    convert_to_shards(cf.open(paths, join="outer"), tmp_path / "s", shard_size=200)
    cells = cf.open(tmp_path / "s")
    assert_same_csr(cells[:].x, matrix_of(expected[:, cells.var_names], "X"))
    sources = cells.obs_values("_source_file")
    assert [pathlib.Path(text) for text in cells.categories("_source_file")] == paths
    assert np.all(np.diff(sources) >= 0)


@pytest.mark.parametrize("name", fast(set(CSR_FILES) - set(EXPORTED_ALIKE), CSR_FILES))
def test_an_export_equals_the_source(shared_data, tmp_path, name):
    layer = csr_layers(shared_data / name)[0]
    expected = read_anndata(shared_data / name)
    convert_to_shards(
        cf.open(shared_data / name, layer=layer), tmp_path / "s", shard_size=400, gene_order="mean"
    )
    made = cf.export_h5ad(tmp_path / "s", tmp_path / "back.h5ad")
    back = read_anndata(tmp_path / "back.h5ad")
    assert (made.n_cells, made.n_genes) == back.shape
    assert_same_csr(matrix_of(back, "X"), matrix_of(expected, layer))
    assert back.X.dtype == matrix_of(expected, layer).dtype
    # Nullable columns in which nothing is missing come back as plain ones.
    exact = "all_kinds" not in name
    assert_frame_equal(back.obs, expected.obs, check_dtype=exact)
    var = (expected.raw if layer == "raw/X" else expected).var
    assert_frame_equal(back.var, var, check_dtype=exact)


def test_info_says_what_is_there(shards, shared_data):
    of_file, of_shards = cf.info(shared_data / "anndata/scp1884.h5ad"), cf.info(shards)
    for key in ("n_cells", "n_genes", "nnz"):
        assert of_file[key] == of_shards[key]
    assert of_shards["n_shards"] == 4 and of_shards["layout"] == "packed"


def test_a_vocabulary_fixes_the_axis(shared_data, tmp_path):
    adata = read_anndata(shared_data / "anndata/scp1884.h5ad")
    vocab = GeneVocab.from_genes([*adata.var_names[[9, 4, 2]], "absent"])
    with pytest.warns(cf.errors.MissingGenesWarning, match="1 of the 4 genes"):
        result = convert_to_shards(
            cf.open(shared_data / "anndata/scp1884.h5ad", genes=vocab), tmp_path / "s"
        )
    assert result.n_absent_genes == 1
    with pytest.raises(KeyError, match="absent"):
        convert_to_shards(
            cf.open(shared_data / "anndata/scp1884.h5ad", missing_genes="error", genes=vocab),
            tmp_path / "t",
        )
    assert not (tmp_path / "t").exists()
    cells = cf.open(result)
    assert list(cells.var_names) == vocab.genes
    np.testing.assert_array_equal(cells[:].to_numpy()[:, :3], adata.X[:, [9, 4, 2]].toarray())


def test_an_anndata_in_memory_can_be_sharded(shared_data, tmp_path):
    adata = read_anndata(shared_data / "anndata/zheng68k_165.h5ad")
    result = cf.convert_to_shards(adata[10:60].copy(), tmp_path / "s")
    assert_same_csr(cf.open(result)[:].x, adata.X[10:60])


def test_the_bytes_do_not_depend_on_threads_or_budget(shared_data, tmp_path):
    path = shared_data / "anndata/telencephalon_val.h5ad"
    convert_to_shards(path, tmp_path / "one", shard_size=500, threads=1, memory_budget="32MiB")
    convert_to_shards(path, tmp_path / "many", shard_size=500, threads=5)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "many")


def test_a_target_that_exists_is_refused_unless_asked(shared_data, tmp_path):
    path = shared_data / "anndata/zheng68k_165.h5ad"
    convert_to_shards(path, tmp_path / "s", shard_size=50)
    before = files_of(tmp_path / "s")
    with pytest.raises(FileExistsError, match="overwrite"):
        convert_to_shards(path, tmp_path / "s", shard_size=60)
    assert files_of(tmp_path / "s") == before
    resumed = convert_to_shards(path, tmp_path / "s", shard_size=50, resume=True)
    assert resumed.n_shards_resumed == resumed.n_shards == 4
    assert convert_to_shards(path, tmp_path / "s", shard_size=60, overwrite=True).n_shards == 3
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious")
    with pytest.raises(FileExistsError, match=r"thesis\.txt"):
        convert_to_shards(path, tmp_path / "other", overwrite=True)
    assert (tmp_path / "other" / "thesis.txt").read_text() == "precious"


def test_an_interrupted_run_is_continued_to_the_same_bytes(shared_data, tmp_path):
    path = shared_data / "anndata/scp1884.h5ad"
    convert_to_shards(path, tmp_path / "undisturbed", shard_size=100)

    def stop_halfway(phase, done, total, rate):
        raise ZeroDivisionError

    # Asked to stop at the first report; a fast machine may be done by then, which resuming allows.
    with pytest.raises(ZeroDivisionError):
        convert_to_shards(path, tmp_path / "s", shard_size=100, threads=1, progress=stop_halfway)
    convert_to_shards(path, tmp_path / "s", shard_size=100, resume=True)
    assert files_of(tmp_path / "s") == files_of(tmp_path / "undisturbed")


def test_progress_ends_with_all_cells(shared_data, tmp_path):
    reports = []
    convert_to_shards(
        shared_data / "anndata/scp1884.h5ad",
        tmp_path / "s",
        progress=lambda phase, done, total, rate: reports.append((phase, done, total)),
    )
    assert reports[-1] == ("writing shards", 1020, 1020)
    with pytest.raises(TypeError, match="progress"):
        convert_to_shards("x.h5ad", tmp_path / "t", progress="yes")


def test_two_writers_on_one_target_give_one_error_and_whole_shards(shared_data, tmp_path):
    outcomes = []

    def write():
        try:
            outcomes.append(
                convert_to_shards(
                    shared_data / "anndata/scp1884.h5ad", tmp_path / "s", shard_size=99
                )
            )
        except cf.errors.AlreadyExistsError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, Exception) for outcome in outcomes) == 1
    assert validate_shard_dir(tmp_path / "s")


@pytest.mark.parametrize("suffix", [".cells", ".parquet", ".arrow", "genes.parquet", ".json"])
def test_any_flipped_bit_is_found_and_named(copied, suffix):
    random = np.random.default_rng(0)
    path = sorted(path for path in copied.iterdir() if path.name.endswith(suffix))[0]
    whole = path.read_bytes()
    for _ in range(20):
        place, bit = int(random.integers(len(whole))), int(random.integers(8))
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        with pytest.raises(cf.errors.CellfeedError) as caught:
            validate_shard_dir(copied)
        assert path.name in str(caught.value), place
        if suffix == ".cells" and place > 4096:
            (damage,) = caught.value.damages
            assert damage["shard"] == 0 and damage["begin"] <= place < damage["end"]
    path.write_bytes(whole)
    assert validate_shard_dir(copied)


def test_a_deleted_truncated_or_swapped_shard_is_named(copied):
    first, second = copied / "shard_000000.cells", copied / "shard_000001.cells"
    whole, other = first.read_bytes(), second.read_bytes()
    first.unlink()
    for look in (cf.open, validate_shard_dir):
        with pytest.raises(cf.errors.CellfeedError, match=r"shard_000000\.cells"):
            look(copied)
    first.write_bytes(whole[:-1000])
    for look in (cf.open, validate_shard_dir):
        with pytest.raises(cf.errors.CellfeedError, match=r"shard_000000\.cells"):
            look(copied)
    first.write_bytes(other)
    second.write_bytes(whole)
    with pytest.raises(cf.errors.CorruptDataError, match=r"shard_000000\.cells"):
        validate_shard_dir(copied)
    with pytest.raises(cf.errors.CellfeedError, match=r"shard_00000[01]\.cells"):
        cf.open(copied)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "sub/../../x.cells"])
def test_a_manifest_cannot_name_files_outside(copied, name):
    path = copied / "shard_metadata.json"
    text = path.read_text().replace("shard_000001.cells", name)
    path.write_text(text)
    for look in (cf.open, validate_shard_dir):
        with pytest.raises(cf.errors.CorruptDataError, match="checksum"):
            look(copied)
    # With a checksum that is right, the name is what is refused: manifest_test.cc.


def test_an_unwritable_target_is_a_clear_error(shared_data, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        convert_to_shards(shared_data / "anndata/zheng68k_165.h5ad", tmp_path / "file")
    with pytest.raises(OSError, match="/proc"):
        convert_to_shards(shared_data / "anndata/zheng68k_165.h5ad", "/proc/cellfeed")
    assert os.listdir(tmp_path) == ["file"]


def test_wrong_arguments_are_named_before_anything_is_written(shared_data, tmp_path):
    path, target = shared_data / "anndata/zheng68k_165.h5ad", tmp_path / "s"
    for arguments, word in [
        ({"shard_size": 0}, "shard_size"),
        ({"layout": "wide"}, "layout"),
        ({"gene_order": "random"}, "gene_order"),
        ({"threads": -1}, "threads"),
        ({"memory_budget": "1 kB"}, "budget"),
        ({"gene_vocab": []}, "genes"),
        ({"resume": True, "overwrite": True}, "choose one"),
    ]:
        with pytest.raises(cf.errors.CellfeedError, match=word):
            convert_to_shards(path, target, **arguments)
        assert not target.exists(), arguments
    for source, kind in [(3, TypeError), ([3], TypeError), ([], ValueError), ("", OSError)]:
        with pytest.raises(kind):
            convert_to_shards(source, target)
