"""Files are what they hold: not where they lie, what they are called, or when they were written."""

import os
import pathlib
import shutil
import subprocess
import sys

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import cellfeed as cf

TYPES = ["B cell", "T cell"]


def make_atlas(path: pathlib.Path, n_cells: int, row_nnz: int, **options) -> None:
    random = np.random.default_rng(3)
    indices = np.sort(random.integers(0, 8, (n_cells, row_nnz)) + 8 * np.arange(row_nnz), axis=1)
    x = scipy.sparse.csr_matrix(
        (
            random.random(n_cells * row_nnz, dtype=np.float32) + 1, indices.ravel(),
            np.arange(0, n_cells * row_nnz + 1, row_nnz),
        ),
        shape=(n_cells, 8 * row_nnz),
    )  # fmt: skip
    obs = pd.DataFrame(
        {
            "type": pd.Categorical.from_codes(random.integers(0, 2, n_cells), TYPES),
            "depth": random.random(n_cells),
            "donor": [f"donor {n}" for n in range(n_cells)],
        },
        index=[f"cell_{n}" for n in range(n_cells)],
    )
    var = pd.DataFrame(index=[f"gene_{g}" for g in range(8 * row_nnz)])
    anndata.AnnData(x, obs=obs, var=var).write_h5ad(path, **options)


@pytest.fixture(scope="module", params=["small", "large", "large gzip", "large latest"])
def atlas(request, tmp_path_factory):
    """Files that are hashed whole, and larger ones, of which samples are."""
    path = tmp_path_factory.mktemp("atlas") / "atlas.h5ad"
    is_large = request.param.startswith("large")
    compression = "gzip" if request.param.endswith("gzip") else None
    make_atlas(path, 20_000 if is_large else 300, 60, compression=compression)
    if request.param.endswith("latest"):
        old = path.rename(path.with_name("old.h5ad"))
        with h5py.File(old) as source, h5py.File(path, "w", libver="latest") as file:
            for name in source:
                source.copy(name, file)
            file.attrs.update(source.attrs)
    assert (path.stat().st_size > 4 << 20) == is_large
    return path


def fingerprint(*paths: pathlib.Path, **options) -> int:
    return cf.open(list(paths), **options).fingerprint


def changed(path: pathlib.Path, target: pathlib.Path, change) -> pathlib.Path:
    """A copy with something changed in place, of the same size and time."""
    shutil.copy2(path, target)
    with h5py.File(target, "a") as file:
        change(file)
    times = path.stat()
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
    return target


def test_a_copy_is_the_same_file(atlas, tmp_path):
    before = fingerprint(atlas)
    copy = tmp_path / "sub" / "other name.h5ad"
    copy.parent.mkdir()
    shutil.copyfile(atlas, copy)
    os.utime(copy, (1, 1))
    (tmp_path / "link.h5ad").symlink_to(copy)
    os.link(copy, tmp_path / "hard.h5ad")
    for path in (copy, tmp_path / "link.h5ad", tmp_path / "hard.h5ad"):
        assert fingerprint(path) == before
    assert cf.open(atlas).fingerprint == before
    program = f"import cellfeed as cf; print(cf.open({str(copy)!r}).fingerprint)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(result.stdout) == before


def normalise(file: h5py.File) -> None:
    file["X/data"][...] = file["X/data"][...] * np.float32(0.5)


def shift_genes(file: h5py.File) -> None:
    file["X/indices"][...] = file["X/indices"][...] ^ 1


def exchange_labels(file: h5py.File) -> None:
    file["obs/type/codes"][...] = 1 - file["obs/type/codes"][...]


def rename_labels(file: h5py.File) -> None:
    file["obs/type/categories"][...] = TYPES[::-1]


def change_numbers(file: h5py.File) -> None:
    file["obs/depth"][...] = file["obs/depth"][...] + 1


def change_donors(file: h5py.File) -> None:
    file["obs/donor"][...] = np.roll(file["obs/donor"][...], 1)


def exchange_genes(file: h5py.File) -> None:
    names = file["var/_index"][...]
    names[[0, 1]] = names[[1, 0]]
    file["var/_index"][...] = names


CHANGES = [
    normalise, shift_genes, exchange_labels, rename_labels, change_numbers, change_donors,
    exchange_genes,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_in_place_is_another_file(atlas, tmp_path, change):
    other = changed(atlas, tmp_path / "other.h5ad", change)
    assert fingerprint(other) != fingerprint(atlas)


def test_the_order_of_files_the_genes_and_the_layer_count(atlas, tmp_path):
    other = changed(atlas, tmp_path / "other.h5ad", normalise)
    one, two = fingerprint(atlas, other), fingerprint(other, atlas)
    again = pathlib.Path(shutil.copyfile(atlas, tmp_path / "again.h5ad"))
    genes = cf.open(atlas).var_names
    assert len({one, two, fingerprint(atlas), fingerprint(atlas, again)}) == 4
    assert fingerprint(atlas, genes=genes[:2]) != fingerprint(atlas, genes=genes[1:3])
    # Names are told apart, not their letters in a row.
    assert fingerprint(atlas, genes=["gene_1", "gene_2"]) != fingerprint(atlas, genes=["gene_1"])


def test_anndata_in_memory_is_what_it_holds(tmp_path):
    make_atlas(tmp_path / "a.h5ad", 50, 20)
    adata = anndata.read_h5ad(tmp_path / "a.h5ad")
    before = cf.open(adata).fingerprint
    assert cf.open(adata.copy()).fingerprint == before
    other = adata.copy()
    other.X.data[7] += 1
    assert cf.open(other).fingerprint != before
    other = adata.copy()
    other.var_names = [*adata.var_names[1::-1], *adata.var_names[2:]]
    assert cf.open(other).fingerprint != before


def test_a_loader_resumes_over_a_copy_and_not_over_a_change(atlas, tmp_path):
    def loader(path):
        return cf.Loader(cf.open(path), cf.BlockShuffling(4), batch_size=50, seed=2)

    whole = loader(atlas)
    iterator = iter(whole)
    for _ in range(2):
        next(iterator)
    state = whole.state_dict()
    rest = [next(iterator).index.tolist() for _ in range(3)]
    del iterator
    shutil.copyfile(atlas, tmp_path / "copy.h5ad")
    resumed = loader(tmp_path / "copy.h5ad")
    resumed.load_state_dict(state)
    iterator = iter(resumed)
    assert [next(iterator).index.tolist() for _ in range(3)] == rest
    other = loader(changed(atlas, tmp_path / "other.h5ad", normalise))
    with pytest.raises(cf.errors.InvalidArgumentError, match="collection"):
        other.load_state_dict(state)


def test_a_file_written_again_is_read_anew_while_the_old_one_is_open(tmp_path):
    path, kept = tmp_path / "a.h5ad", []
    for dtype in ("float32", "int64", "float64", "uint8", "int16"):
        x = scipy.sparse.csr_matrix(np.arange(1, 25, dtype=dtype).reshape(6, 4))
        names = [f"{dtype}_{n}" for n in range(6)]
        obs = pd.DataFrame({dtype: range(6)}, index=names)
        anndata.AnnData(x, obs=obs).write_h5ad(path)
        kept.append(cf.open(path))
        assert kept[-1].obs_keys() == [dtype]
        np.testing.assert_array_equal(kept[-1][:].to_numpy(), x.toarray())
        assert cf.open(path).fingerprint == kept[-1].fingerprint


# The last shards pass the largest file that this process may write.
INTERRUPTED = """
import resource, sys
import cellfeed as cf
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
try:
    cf.convert_to_shards(sys.argv[1], sys.argv[2], shard_size=250, threads=1)
except OSError:
    sys.exit()
sys.exit("it was not interrupted")
"""


@pytest.fixture
def interrupted(tmp_path):
    """An input, and the directory of a conversion that failed half way."""
    path = tmp_path / "a.h5ad"
    make_atlas(path, 1000, 40)
    with h5py.File(path, "a") as file:
        values = file["X/data"][...]
        values[: len(values) // 2] = 1
        file["X/data"][...] = values
    arguments = [str(path), str(tmp_path / "s")]
    subprocess.run([sys.executable, "-c", INTERRUPTED, *arguments], check=True)
    assert (tmp_path / "s" / "shard_metadata.partial.jsonl").exists()
    assert (tmp_path / "s" / "shard_000000.cells").exists()
    cf.convert_to_shards(path, tmp_path / "undisturbed", shard_size=250)
    return path, tmp_path / "s"


def resume(path, target):
    return cf.convert_to_shards(path, target, shard_size=250, resume=True)


def assert_undisturbed(target: pathlib.Path) -> None:
    names = {p.name for p in target.iterdir() if not p.name.startswith(".")}
    whole = target.parent / "undisturbed"
    assert names == {p.name for p in whole.iterdir() if not p.name.startswith(".")}
    for name in names - {"shard_metadata.json"}:
        assert (target / name).read_bytes() == (whole / name).read_bytes(), name
    cf.data.sharding.validate_shard_dir(target)


def test_a_conversion_resumes_from_inputs_that_were_touched_or_restored(interrupted, tmp_path):
    path, target = interrupted
    shutil.copyfile(path, tmp_path / "backup")
    (tmp_path / "backup").replace(path)
    result = resume(path, target)
    assert 0 < result.n_shards_resumed < result.n_shards
    assert_undisturbed(target)


def test_a_conversion_does_not_resume_from_changed_inputs(interrupted, tmp_path):
    path, target = interrupted
    other = changed(path, tmp_path / "b.h5ad", normalise)
    times = path.stat()
    other.replace(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(cf.errors.InvalidArgumentError, match="not the conversion"):
        resume(path, target)


@pytest.mark.parametrize("extension", ["cells", "parquet", "arrow"])
def test_a_finished_shard_is_trusted_only_when_it_is_whole(interrupted, extension):
    path, target = interrupted
    victim = target / f"shard_000001.{extension}"
    damaged = bytearray(victim.read_bytes())
    place = {"cells": 4200, "parquet": len(damaged) // 2, "arrow": len(damaged) // 2}[extension]
    damaged[place] ^= 0x10
    victim.write_bytes(damaged)
    n_finished = len((target / "shard_metadata.partial.jsonl").read_text().splitlines()) - 1
    assert resume(path, target).n_shards_resumed == n_finished - 1
    assert_undisturbed(target)


def test_finished_shards_that_are_damaged_are_not_called_finished(interrupted, tmp_path):
    path, target = interrupted
    resume(path, target)
    assert resume(path, target).n_shards_resumed == 4
    with open(target / "shard_000002.arrow", "r+b") as file:
        file.seek(300)
        byte = file.read(1)
        file.seek(300)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(cf.errors.CorruptDataError, match=r"shard_000002\.arrow.*overwrite"):
        resume(path, target)
