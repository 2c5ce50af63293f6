"""Wrong calls of `cf.MappedCollection`: the builtin errors that lamindb raises, where it does."""

import anndata
import numpy as np
import pandas as pd
import pytest
from rival_mapped import lamindb_class

import cellfeed as cf


class Files:
    """Paths that the calls are of."""

    def __init__(self, folder):
        self.none = [str(folder / "none.h5ad")]
        self.text = [str(folder / "text.h5ad")]
        (folder / "text.h5ad").write_text("nothing of HDF5")
        self.some = [self.write(folder / f"{i}.h5ad", i, "bac") for i in range(2)]
        self.apart = [self.write(folder / f"{genes}.h5ad", 0, genes) for genes in ("lm", "rs")]

    @staticmethod
    def write(path, number, genes):
        random = np.random.default_rng(number)
        obs = pd.DataFrame(
            {
                "kind": pd.Categorical(["T", "B", "T", "B"]),
                "depth": random.integers(0, 4, 4),
            },
            index=[f"{number}-{i}" for i in range(4)],
        )
        x = random.poisson(1.0, (4, len(genes))).astype(np.float32)
        adata = anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=list(genes)))
        adata.layers["twice"] = x * 2
        adata.write_h5ad(path)
        return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("wrong"))


# Call, and the builtin error of both.
BOTH = {
    "a join that is none": (lambda c, f: c(f.some, join="both"), ValueError),
    "labels to encode that are no obs_keys": (
        lambda c, f: c(f.some, obs_keys=["kind"], encode_labels=["depth"]), ValueError),
    "labels to encode without obs_keys": (
        lambda c, f: c(f.some, encode_labels=["depth"]), ValueError),
    "an unknown label of no obs key": (
        lambda c, f: c(f.some, obs_keys=["kind"], unknown_label={"depth": 1}), ValueError),
    "an unknown label of a column that is not encoded": (
        lambda c, f: c(f.some, obs_keys=["kind", "depth"], encode_labels=["kind"],
                       unknown_label={"depth": 1}), ValueError),
    "files without a gene in common": (lambda c, f: c(f.apart), ValueError),
    "no files": (lambda c, f: c([]), ValueError),
    "a file that is not there": (lambda c, f: c(f.none), FileNotFoundError),
    "a file that is no HDF5": (lambda c, f: c(f.text), OSError),
    "a cell behind the last": (lambda c, f: c(f.some)[8], IndexError),
    "a cell before the first": (lambda c, f: c(f.some)[-9], IndexError),
    "a slice": (lambda c, f: c(f.some)[:3], TypeError),
    "no cell": (lambda c, f: c(f.some)[None], TypeError),
    "a number for the files": (lambda c, f: c(3), TypeError),
    "an argument that it has not": (lambda c, f: c(f.some, layer="X"), TypeError),
    "no argument": (lambda c, f: c(), TypeError),
}  # fmt: skip

# Call, lamindb's error, which comes of what it happened to do, and ours.
EACH = {
    "a list of joins": (lambda c, f: c(f.some, join=["inner"]), TypeError, ValueError),
    "a cell by name": (lambda c, f: c(f.some)["0-1"], IndexError, TypeError),
    "half a cell": (lambda c, f: c(f.some)[1.5], IndexError, TypeError),
    "weights of an unknown column": (
        lambda c, f: c(f.some).get_label_weights("knid"), ValueError, KeyError),
    "labels of an unknown column": (
        lambda c, f: c(f.some).get_merged_labels("knid"), ValueError, KeyError),
    "weights of no column": (
        lambda c, f: c(f.some).get_label_weights([]), IndexError, ValueError),
    "a dtype that is none": (
        lambda c, f: c(f.some, dtype="nonsense")[0], TypeError, ValueError),
    "a cell of closed files": (lambda c, f: closed(c(f.some))[0], KeyError, ValueError),
}  # fmt: skip

# What lamindb takes without a word, leaves out, or gives no cell of; and our error.
OURS = {
    "a layer that no file has": (lambda c, f: c(f.some, layers_keys="twise")[0], KeyError),
    "raw that no file has": (lambda c, f: c(f.some, layers_keys="raw.X")[0], KeyError),
    "an obs column that no file has": (lambda c, f: c(f.some, obs_keys="knid")[0], KeyError),
    "an array that no file has": (lambda c, f: c(f.some, obsm_keys="X_pca")[0], KeyError),
    "a filter of a column that no file has": (
        lambda c, f: c(f.some, obs_filter={"knid": "T"}), KeyError),
    "a filter of a label that no cell has": (
        lambda c, f: c(f.some, obs_filter={"kind": "Z"}), ValueError),
    "an unknown label where none are encoded": (
        lambda c, f: c(f.some, obs_keys=["kind"], encode_labels=False,
                       unknown_label={"depth": 1}), ValueError),
    "categories of an unknown column": (
        lambda c, f: c(f.some).get_merged_categories("knid"), KeyError),
    "a file given twice": (lambda c, f: c([f.some[0], f.some[0]]), ValueError),
}  # fmt: skip


def closed(collection):
    collection.close()
    return collection


def refused(call, files, native):
    with pytest.raises(native) as caught:
        call(cf.MappedCollection, files)
    by_python = native is TypeError and "__init__" in str(caught.value)
    assert by_python or isinstance(caught.value, cf.errors.CellfeedError)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("what", BOTH)
def test_a_wrong_call_is_the_error_of_the_table(files, what):
    refused(BOTH[what][0], files, BOTH[what][-1])


@pytest.mark.parametrize("what", {**EACH, **OURS})
def test_what_lamindb_does_not_name_is_named(files, what):
    call, *_, native = {**EACH, **OURS}[what]
    refused(call, files, native)


@pytest.mark.parametrize("what", {**BOTH, **EACH})
def test_it_is_lamindbs_error_too(files, what):
    call, native, *_ = {**BOTH, **EACH}[what]
    with pytest.raises(native):
        call(lamindb_class(), files)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", OURS)
def test_lamindb_takes_what_is_said_of_it(files, what):
    OURS[what][0](lamindb_class(), files)
