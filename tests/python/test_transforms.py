"""Lists of transforms in every order, against scanpy applied in that order."""

import itertools
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import scanpy
import scipy.sparse

import cellfeed as cf

GENES = [f"gene_{g}" for g in range(30)]
WIDE = [GENES[g] for g in (17, 2, 25, 3, 9, 11, 0)]
NARROW = [GENES[g] for g in (3, 25, 17)]
# Letters, so that a failing order can be read.
TRANSFORMS = {
    "N": cf.NormalizeTotal(1e4, force=True),
    "n": cf.NormalizeTotal(50, force=True),
    "L": cf.Log1p(force=True),
    "l": cf.Log1p(base=2, force=True),
    "S": cf.SelectGenes(WIDE),
    "s": cf.SelectGenes(NARROW),
}
ORDERS = [
    "".join(letters)
    for length in (1, 2)
    for letters in itertools.product(TRANSFORMS, repeat=length)
    # A gene that is gone cannot be selected again.
    if letters != ("s", "S")
] + ["SNL", "NSL", "NLs", "LNs", "SsN", "NnL", "nLl", "SLs"]


def counts(n_cells: int, genes: list[str], seed: int, prefix: str) -> anndata.AnnData:
    random = np.random.default_rng(seed)
    x = random.poisson(0.8, (n_cells, len(genes))).astype(np.float32)
    x[2] = 0
    names = [f"{prefix}_{cell}" for cell in range(n_cells)]
    return anndata.AnnData(
        scipy.sparse.csr_matrix(x), obs=pd.DataFrame(index=names), var=pd.DataFrame(index=genes)
    )


def by_scanpy(adata: anndata.AnnData, order: str) -> np.ndarray:
    """scanpy's values of all genes, then the selections: they choose columns and nothing else."""
    adata = adata.copy()
    adata.X = adata.X.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for letter in order:
            match letter:
                case "N" | "n":
                    scanpy.pp.normalize_total(adata, target_sum=1e4 if letter == "N" else 50)
                case "L" | "l":
                    scanpy.pp.log1p(adata, base=2 if letter == "l" else None)
                    del adata.uns["log1p"]
    for letter in order:
        if letter in "Ss":
            adata = adata[:, WIDE if letter == "S" else NARROW]
    return adata.X.toarray()


@pytest.fixture(scope="module")
def adata():
    return counts(12, GENES, 1, "a")


@pytest.fixture(scope="module")
def joined(adata, tmp_path_factory):
    """Two files whose inner join drops genes of both, and what they hold."""
    folder = tmp_path_factory.mktemp("joined")
    other = counts(9, [*reversed(GENES[:28]), "only_here"], 2, "b")
    for name, part in (("a", adata), ("b", other)):
        part.write_h5ad(folder / f"{name}.h5ad")
    return [folder / "a.h5ad", folder / "b.h5ad"], [adata, other]


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_equals_scanpy(adata, order):
    expected = by_scanpy(adata, order)
    transforms = [TRANSFORMS[letter] for letter in order]
    cells = cf.open(adata)
    for output, dtype in (("csr", "float32"), ("dense", "float64")):
        batch = cells.read(slice(None), transforms=transforms, output=output, dtype=dtype)
        np.testing.assert_allclose(batch.to_numpy(), expected, rtol=2e-6, err_msg=order)


@pytest.mark.parametrize("order", ["N", "NN", "NLN", "LNS", "nLN", "SNN", "lSn"])
def test_genes_that_a_join_drops_count_in_every_total(joined, order):
    paths, parts = joined
    cells = cf.open(paths, join="inner")
    assert len(cells.var_names) == 28
    x = cells.read(slice(None), transforms=[TRANSFORMS[letter] for letter in order]).to_numpy()
    names = cells.var_names if "S" not in order else WIDE
    for part, rows in zip(parts, (slice(0, 12), slice(12, 21)), strict=True):
        whole = by_scanpy(part, order.replace("S", ""))
        columns = part.var_names.get_indexer(names)
        np.testing.assert_allclose(x[rows], whole[:, columns], rtol=2e-6)


def test_twice_normalised_cells_have_the_second_total(adata):
    cells = cf.open(adata)
    with pytest.raises(ValueError, match="comes behind NormalizeTotal, which normalises"):
        cells.read(slice(None), transforms=[cf.NormalizeTotal(1e6), cf.NormalizeTotal(100)])
    again = cf.NormalizeTotal(100, force=True)
    x = cells.read(slice(None), transforms=[cf.NormalizeTotal(1e6), again])
    totals = x.to_numpy().sum(1)
    np.testing.assert_allclose(np.delete(totals, 2), 100, rtol=1e-5)
    assert totals[2] == 0
    x = cells.read(slice(None), transforms=[cf.Log1p(), cf.NormalizeTotal(1e4, force=True)])
    np.testing.assert_allclose(np.delete(x.to_numpy().sum(1), 2), 1e4, rtol=1e-5)


@pytest.mark.parametrize("again", [cf.Log1p(), cf.NormalizeTotal(1e4)])
@pytest.mark.parametrize("log", [cf.Log1p(), cf.Log1p(force=True)])
def test_what_was_made_a_logarithm_in_a_list_is_not_changed_again(adata, log, again):
    cells = cf.open(adata)
    transforms = [log, cf.SelectGenes(WIDE), again]
    with pytest.raises(
        ValueError, match="comes behind Log1p, which makes logarithms: put it first"
    ):
        cf.Loader(cells, cf.Streaming(), 4, transforms=transforms)


@pytest.mark.parametrize("values", [[1, np.nan], [1, np.inf], [1, -3], [2, -2]])
@pytest.mark.parametrize("order", ["N", "NL", "LN"])
def test_values_that_are_no_counts_are_refused_by_cell(values, order):
    x = scipy.sparse.csr_matrix(np.array([[3, 1], [1, 0], values], dtype=np.float32))
    transforms = [TRANSFORMS[letter] for letter in order]
    with pytest.raises(ValueError, match=r"(NormalizeTotal|Log1p) needs counts.* cell 2"):
        cf.open(anndata.AnnData(x)).read(slice(None), transforms=transforms)


@pytest.mark.parametrize("order", ["L", "NL", "LS", "NLS"])
@pytest.mark.parametrize("output", ["csr", "dense"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_value_without_a_logarithm_is_refused_by_cell(order, output, dtype):
    """Also where the total of the cell is positive; numpy gives NaN, and a warning."""
    x = np.ones((3, 40), dtype=np.float32)
    x[1, 7] = -0.5 if order[0] == "L" else 1  # -0.5 has one, until it is normalised
    transforms = {**TRANSFORMS, "S": cf.SelectGenes(["7", "3"])}
    cells = cf.open(anndata.AnnData(scipy.sparse.csr_matrix(x)))
    how = {"transforms": [transforms[letter] for letter in order], "output": output, "dtype": dtype}
    if order[0] == "L":
        assert np.isfinite(next(iter(cf.Loader(cells, cf.Streaming(), 3, **how))).to_numpy()).all()
    x[2, 7] = -1
    cells = cf.open(anndata.AnnData(scipy.sparse.csr_matrix(x)))
    with pytest.raises(ValueError, match=r"Log1p needs counts.* cell 2; remove negative values"):
        next(iter(cf.Loader(cells, cf.Streaming(), 3, **how)))


@pytest.mark.parametrize("target_sum", [None, "1e4", 0, -1, np.nan, np.inf, True, 1e39, 1e-39])
def test_a_target_sum_that_is_no_total_is_refused(target_sum):
    with pytest.raises((ValueError, TypeError), match="NormalizeTotal: target_sum must be"):
        cf.NormalizeTotal(target_sum)
