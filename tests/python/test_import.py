"""Importing cellfeed loads no heavy package, and works beside every one of them."""

import subprocess
import sys

import pytest

HEAVY = {"anndata", "h5py", "lightning", "pandas", "pyarrow", "scanpy", "scipy", "torch", "numpy"}


def modules_after(code: str) -> set[str]:
    code += "\nimport sys; print(*{name.split('.')[0] for name in sys.modules})"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(run.stdout.split())


def test_import_loads_nothing_heavy():
    assert not modules_after("import cellfeed") & HEAVY
    assert not modules_after("import cellfeed.data, cellfeed.errors") & HEAVY


def test_opening_and_loading_needs_numpy_only(shared_data):
    path = shared_data / "anndata/scp1884.h5ad"
    code = f"""
import cellfeed as cf
cells = cf.open({str(path)!r}, obs="Celltype")
for batch in cf.Loader(cells, cf.BlockShuffling(8), batch_size=500):
    batch.data, batch.indices, batch.indptr, batch.obs["Celltype"], batch.index
"""
    assert modules_after(code) & HEAVY <= {"numpy"}


@pytest.mark.parametrize(
    "other",
    ["hashlib, ssl", pytest.param("torch", marks=pytest.mark.slow), "pyarrow.parquet", "h5py",
     pytest.param("anndata", marks=pytest.mark.slow)],
)  # fmt: skip
def test_other_packages_load_before_and_after_the_core(other):
    # libcrypto, HDF5 and Arrow are each in the process more than once.
    modules_after(
        f"import cellfeed._core\nimport {other}\nimport hashlib; hashlib.sha256(b'').digest()"
    )
    modules_after(f"import {other}\nimport cellfeed._core")


def test_every_public_name_exists():
    import cellfeed

    missing = [name for name in cellfeed.__all__ if not hasattr(cellfeed, name)]
    assert not missing
    assert set(cellfeed.__all__) <= set(dir(cellfeed))
    with pytest.raises(AttributeError, match="no_such_name"):
        cellfeed.no_such_name  # noqa: B018


def test_names_are_ours_and_hide_none_of_pythons():
    import builtins
    import typing

    import cellfeed

    foreign = {"importlib", "annotations", *typing.__all__}
    assert not foreign & set(dir(cellfeed)) and "open" in dir(cellfeed)
    assert len(dir(cellfeed)) == len(set(dir(cellfeed)))
    names: dict = {}
    exec("from cellfeed import *", names)
    assert not {name for name in names if hasattr(builtins, name)} - {"__doc__", "__builtins__"}
    assert names["Loader"] is cellfeed.Loader and callable(cellfeed.open)


def test_errors_are_native_types_too():
    from cellfeed import errors

    for name, native in [
        ("InvalidArgumentError", ValueError),
        ("InvalidTypeError", TypeError),
        ("NotFoundError", FileNotFoundError),
        ("NoSuchKeyError", KeyError),
        ("NoSuchAttributeError", AttributeError),
        ("OutOfRangeError", IndexError),
        ("AlreadyExistsError", FileExistsError),
        ("CorruptDataError", OSError),
        ("UnsupportedError", NotImplementedError),
        ("InputOutputError", OSError),
        ("NoSpaceError", OSError),
        ("PrecisionError", ValueError),
    ]:
        kind = getattr(errors, name)
        assert issubclass(kind, native) and issubclass(kind, errors.CellfeedError)
        assert str(kind("what, where, what to do")) == "what, where, what to do"


NAMED = """
import os
import pyarrow, scipy.sparse, torch  # once, as several of them do
for name in ("dataset", "distributed", "gene_selection", "memmap_store", "sampling", "sharding",
             "vocab"):
    if os.fork() == 0:
        import cellfeed as cf
        getattr(cf.data, name)
        os._exit(0)
    assert os.wait()[1] == 0, name
"""


def test_modules_of_the_specification_are_there_when_named():
    modules_after(NAMED)


MISSING = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {packages}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, Missing())
import cellfeed as cf
exec("from cellfeed import *", {{}})
assert all(hasattr(cf, name) for name in dir(cf))
cells = cf.open({path!r}, obs="Celltype")
batch = next(iter(cf.Loader(cells, cf.Streaming(), batch_size=5)))
view = cells[:5]
for use in (batch.to_torch, batch.to_anndata, view.to_anndata, lambda: cf.training.train,
            lambda: cf.scvi.CellDataModule):
    try:
        use()
    except ModuleNotFoundError as error:
        print(error)
"""


def run_without(packages, path):
    code = MISSING.format(packages=packages, path=path)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return [line.replace("is not installed: pip install", "->") for line in run.stdout.splitlines()]


def test_a_package_that_is_missing_is_named_with_its_extra(shared_data):
    path = str(shared_data / "anndata/scp1884.h5ad")
    assert run_without(["anndata", "lightning", "pytorch_lightning", "torch"], path) == [
        "torch -> 'cellfeed[torch]'", "anndata -> 'cellfeed[scverse]'",
        "anndata -> 'cellfeed[scverse]'", "torch -> 'cellfeed[train]'",
        "torch -> 'cellfeed[scvi]'",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_extra_torch_needs_no_other(shared_data):
    path = str(shared_data / "anndata/scp1884.h5ad")
    assert run_without(["anndata", "lightning", "pytorch_lightning"], path) == [
        "anndata -> 'cellfeed[scverse]'", "anndata -> 'cellfeed[scverse]'",
        "lightning -> 'cellfeed[train]'", "lightning -> 'cellfeed[scvi]'",
    ]  # fmt: skip
